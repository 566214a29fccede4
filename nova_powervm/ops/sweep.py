# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Removes from a host what nobody needs any more: :data:`TABLE`.

Nobody requests this, so whatever is in doubt stays.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.ops import interfaces
from nova_powervm.ops import network
from nova_powervm.ops import removal

LOG = logging.getLogger(__name__)


class When(enum.Enum):
    """The moments to look for things; a row with its own clock says why."""

    START = 'whenever nova-compute starts'
    #: Nova has verified the identity of the host by then, and accepts no
    #: requests yet. If this cycle fails, a later one is no substitute.
    FIRST_CYCLE = 'in the first cycle after a start'
    CYCLE = 'in each cycle'
    IMAGE_CACHE = 'whenever Nova looks for unused images'


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """The host and Nova's records of it.

    :param nodename: This host's name in Nova, as in ``instance.host``.
    """

    partitions: interfaces.Partitions
    disks: drivers.Disks
    networks: network.NetworkOps
    records: interfaces.Records
    removals: removal.RemovalOps
    nodename: str


class Pass:
    """One pass through the table, which reads what its rows share once.

    :param means: The host and Nova's records.
    :param named: The disks that the log has named, by earlier passes.
    :param image_age: Seconds for which an image must have been unused; None
        to keep all images.
    """

    def __init__(
        self, means: Means, named: set[str], image_age: int | None
    ) -> None:
        self.means = means
        self.named = named
        self.image_age = image_age

    @functools.cached_property
    def instance_uuids(self) -> Collection[str]:
        """The uuids of all instances of this host."""
        return self.means.records.hosted(self.means.nodename)

    @functools.cached_property
    def awaited(self) -> Collection[str]:
        """The uuids of LPARs that live migrations may bring here."""
        return self.means.records.awaited(self.means.nodename)

    @functools.cached_property
    def lpar_names(self) -> Mapping[str, str]:
        """The uuids of all LPARs of the host, with their names."""
        return self.means.partitions.names()


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Something that the driver removes without a request.

    :param kind: What it is on the host, in the plural.
    :param ours: How it is known to be the driver's.
    :param unwanted: When it is unused.
    :param done: What is done with it.
    :param when: When it is looked for.
    :param why: Why then, and why anything about it is remembered.
    :param remove: Removes it; may raise any error.
    """

    kind: str
    ours: str
    unwanted: str
    done: str
    when: tuple[When, ...]
    why: str
    remove: Callable[[Pass], None]


def unmap_deleted(this: Pass) -> None:
    """Unmap disks from LPARs that were deleted.

    An LPAR that just arrives may look like one, and needs its disks.
    """
    if this.awaited:
        LOG.info(
            'Mappings without an LPAR stay until the next start: a live '
            'migration may still bring LPARs here (%s).',
            ', '.join(sorted(this.awaited)),
        )
        return
    this.means.disks.unmap_deleted()


def remove_leftovers(this: Pass) -> None:
    """Remove the LPARs of failed builds."""
    this.means.removals.remove_leftovers(
        lambda: [*this.instance_uuids, *this.awaited]
    )


def delete_incomplete_images(this: Pass) -> None:
    """Delete the images that this host did not write completely."""
    if this.means.disks.pool is not None:
        this.means.disks.pool.delete_interrupted()


def remove_disks(this: Pass) -> None:
    """Remove disks that belong to neither an LPAR nor an instance here."""
    stems = set(this.means.disks.stems())
    if not stems:
        return
    lpar_uuids = {partition.lpar_uuid(uuid) for uuid in this.instance_uuids}
    stems -= set(map(storage.stem, lpar_uuids.union(this.lpar_names)))
    if stems:
        stems -= set(map(storage.stem, this.awaited))
    if stems:
        LOG.warning(
            'Removing the disks and media %(stems)s of this host alone: '
            'interrupted builds or moves left them, and they belong to no '
            'instance of this host.',
            {'stems': ', '.join(f'{stem}*' for stem in sorted(stems))},
        )
        this.means.disks.remove_stems(stems)


def remove_evacuated(this: Pass) -> None:
    """Remove LPARs that interrupted evacuations to this host left.

    Nova would refuse to evacuate their instances to this host again.
    """
    means = this.means
    for uuid in sorted(
        means.records.abandoned(this.lpar_names, means.nodename)
    ):
        lpar = means.partitions.find(uuid)
        if lpar is not None:
            LOG.warning(
                'Removing LPAR %(name)s (%(uuid)s): the evacuation of '
                'its instance to this host was interrupted, and Nova '
                'records the instance on another host.',
                {'name': lpar.name, 'uuid': uuid},
            )
        means.removals.remove(
            uuid, lpar, delete_disks=means.disks.pool is None
        )


def remove_pool_disks(this: Pass) -> None:
    """Remove disks in a shared pool that no instance of any host needs.

    A host was down when Nova deleted its instance, or could not remove the
    disks of a failed build. Only Nova tells: other hosts have disks there.
    Read the pool first, so that disks which another host makes meanwhile are
    not removed.
    """
    pool = this.means.disks.pool
    disks = pool.disks() if pool else ()
    if pool is None or not disks:
        return
    lpar_uuids = {disk.lpar_uuid for disk in disks}
    gone = this.means.records.gone(lpar_uuids)
    doomed = [disk for disk in disks if disk.lpar_uuid in gone]
    if doomed:
        removed = {disk.stored.name for disk in doomed}
        # A disk that is in use is tried again, and has a line of its own.
        if removed - this.named:
            this.named |= removed
            LOG.warning(
                'Removing the disks %(names)s from the shared storage pool: '
                'Nova has deleted their instances, or they are on no host.',
                {'names': ', '.join(sorted(removed))},
            )
        # The rescue of a server that was just being deleted leaves mappings.
        this.means.disks.unmap_deleted(gone)
        pool.delete(doomed)
    unknown = lpar_uuids - this.means.records.instances_of(lpar_uuids).keys()
    names = {disk.stored.name for disk in disks if disk.lpar_uuid in unknown}
    if names - this.named:
        this.named |= names
        LOG.info(
            'The disks %(names)s in the shared storage pool stay: Nova does '
            'not know their instances, which another cell may have.',
            {'names': ', '.join(sorted(names))},
        )


def clean_images(this: Pass) -> None:
    """Bring unused images in a shared pool closer to their deletion."""
    pool = this.means.disks.pool
    if pool is not None and this.image_age is not None:
        pool.clean_cache(this.image_age)


_NAME = 'Its name is one that the driver gives.'
_BUILDS = (
    'Later a build may be in progress, which looks the same: Nova accepts '
    'requests after the first cycle.'
)

#: The rows, in the order in which a pass goes through them.
TABLE = (
    Row(
        kind='mappings of deleted LPARs and interrupted readings',
        ours='The name of its disk or medium is one that the driver gives.',
        unwanted='It has no client, because its LPAR was deleted outside of '
        'Nova, and no live migration may bring an LPAR here; or its client is '
        'the management partition, where a disk is read.',
        done='Unmapped, with the server adapter and one that the config drive '
        'of the same LPAR has left. The disk stays.',
        when=(When.START,),
        why='All mappings of the host are read for this, and those of an LPAR '
        'that is being removed, or of a disk that is being read, look the '
        'same.',
        remove=unmap_deleted,
    ),
    Row(
        kind='uploads that were interrupted',
        ours=_NAME,
        unwanted='nova-compute has just started, and sends nothing yet.',
        done='Its description is deleted from the REST server.',
        when=(When.START,),
        why='Later an upload may be in progress. A description that could not '
        'be deleted after its upload is remembered for the next one.',
        remove=lambda this: this.means.disks.forget_uploads(),
    ),
    Row(
        kind='incomplete cached images',
        ours='Its name ends with the first digits of the UUID of this system.',
        unwanted='nova-compute has just started, and writes nothing yet.',
        done='Deleted from the pool.',
        when=(When.START,),
        why='Later it may be written. An image of another system is deleted '
        'as an unused one, when its upload began a day ago.',
        remove=delete_incomplete_images,
    ),
    Row(
        kind='LPARs of failed builds',
        ours='This nova-compute made it for a build that failed, or gives up '
        'the evacuation that made it.',
        unwanted='Its instance is not on this host any more, and no live '
        'migration may bring it.',
        done='Stopped and deleted. Disks in a pool stay for now.',
        when=(When.CYCLE,),
        why='For ten minutes after a build that the host did not answer: it '
        'may make the LPAR late. Which builds failed is remembered until a '
        'restart: an LPAR that a move left looks the same.',
        remove=remove_leftovers,
    ),
    Row(
        kind='disks and media without an LPAR',
        ours=_NAME,
        unwanted='The host has no LPAR of this name, and Nova no instance '
        'on this host, or on the way to it by a live migration.',
        done='Deleted.',
        when=(When.FIRST_CYCLE,),
        why=_BUILDS,
        remove=remove_disks,
    ),
    Row(
        kind='LPARs of interrupted evacuations',
        ours='Its UUID is that of an instance.',
        unwanted='The instance is on another host, and its last move to this '
        'one was an evacuation that failed.',
        done='Stopped and deleted. Disks in a pool stay.',
        when=(When.FIRST_CYCLE,),
        why=_BUILDS,
        remove=remove_evacuated,
    ),
    Row(
        kind='disks in a pool without an instance',
        ours=_NAME,
        unwanted='Nova has deleted its instance, or has it on no host and '
        'without a task.',
        done='Unmapped from where no LPAR is any more, and deleted, unless '
        'an LPAR of any host uses it.',
        when=(When.FIRST_CYCLE, When.IMAGE_CACHE),
        why='The whole pool is read for this, and Nova is asked about each '
        'of its disks.',
        remove=remove_pool_disks,
    ),
    Row(
        kind='unused cached images',
        ours=_NAME,
        unwanted='No disk in the pool was made from it for '
        '``[image_cache]remove_unused_original_minimum_age_seconds``.',
        done='Renamed, and deleted from the pool. '
        '``[image_cache]remove_unused_base_images`` allows it.',
        when=(When.IMAGE_CACHE,),
        why="The options are Nova's. An image may have been cached for "
        'servers that are still to come.',
        remove=clean_images,
    ),
    Row(
        kind='unused VLANs',
        ours='The metadata of an instance on it says that we added it.',
        unwanted='No port of an instance here, or on the way here by a live '
        'migration, and no adapter is on it.',
        done='Removed from the bridge.',
        when=(When.CYCLE,),
        why='In two cycles after a start or the removal of an adapter: the '
        'adapters of all partitions are read for this, and Nova forgets a '
        'port after its adapter. Also whenever an LPAR is removed.',
        remove=lambda this: this.means.networks.clean_up(),
    ),
)


class Sweep:
    """Removes what is unused, and never fails its caller.

    :param means: The host and Nova's records.
    """

    def __init__(self, means: Means) -> None:
        self._means = means
        # What the log has already, so that it has each line once.
        self._named: set[str] = set()
        self._failing: dict[str, str] = {}

    def run(self, *moments: When, image_age: int | None = None) -> None:
        """Go through the rows of some moments, in the order of the table.

        :param moments: What the present moment is.
        :param image_age: As for :class:`Pass`.
        """
        this = Pass(self._means, self._named, image_age)
        for row in TABLE:
            if not set(moments).isdisjoint(row.when):
                self._go_through(row, this)

    def _go_through(self, row: Row, this: Pass) -> None:
        when = ' and '.join(moment.value for moment in row.when)
        try:
            row.remove(this)
        except exception.PowerVMError as error:
            if self._failing.get(row.kind) != str(error):
                self._failing[row.kind] = str(error)
                LOG.warning(
                    'The %(kind)s, which are removed %(when)s, could not be: '
                    '%(error)s',
                    {'kind': row.kind, 'when': when, 'error': error},
                )
        except Exception:
            # Nova's database may fail, too; devices must be managed
            # nevertheless.
            LOG.exception(
                'The %(kind)s, which are removed %(when)s, could not be',
                {'kind': row.kind, 'when': when},
            )
        else:
            self._failing.pop(row.kind, None)

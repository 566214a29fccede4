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

"""Removing LPARs and disks: deleted instances and what builds left behind."""

import threading
import time
from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.instance import lpar_state
from nova_powervm.instance import partition
from nova_powervm.instance import storage
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: Seconds for which a host that did not answer may still be creating what it
#: was asked for.
LATE_SECONDS = 600


class RemovalOps:
    """Removes LPARs with their disks.

    Which LPARs failed builds may have left is known to this process only. A
    new nova-compute finds their disks with :meth:`remove_orphan_disks`; an
    LPAR without an instance is a foreign one to it.

    :param partitions: The host's LPARs.
    :param disks: The disk driver.
    :param clock: Gives seconds that never go back.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        disks: interfaces.Disks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._disks = disks
        self._clock = clock
        # LPARs that failed builds may have left, and until when those that
        # are not there may still appear.
        self._leftovers: dict[str, float] = {}
        # Keeps a new build of an LPAR from being taken for a leftover.
        self._lock = threading.Lock()

    def remove(
        self,
        uuid: str,
        lpar: partition.Partition | None,
        *,
        delete_disks: bool = True,
    ) -> None:
        """Remove an LPAR and its disks.

        The LPAR goes last: as long as it is there, Nova knows of it and
        repeats a removal that was interrupted.

        :param uuid: Upper-case PowerVM uuid.
        :param lpar: The LPAR as just read; None if there is none.
        :param delete_disks: False to disconnect its disks only.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        if lpar and is_active(lpar):
            self._partitions.power_off(lpar, hard=True)
        self._disks.remove(uuid, delete=delete_disks)
        if lpar:
            self._partitions.delete(uuid)

    def remove_failed_build(
        self, spec: partition.PartitionSpec, cause: BaseException
    ) -> None:
        """Remove what a failed build has made, now or in a later cycle.

        :param spec: The LPAR that was to be created.
        :param cause: Why the build failed. A host that did not answer may
            still create what it was asked for.
        """
        if isinstance(cause, exception.RestUnreachable):
            self._leftovers[spec.uuid] = self._clock() + LATE_SECONDS
        try:
            self.remove(spec.uuid, self._partitions.find(spec.uuid))
        except exception.PowerVMError as error:
            self._leftovers.setdefault(spec.uuid, self._clock())
            LOG.error(
                'LPAR %(name)s (%(uuid)s) and its disks %(stem)s* could not '
                'be removed after its build failed: %(error)s. It is tried '
                'again in each cycle; see that they are gone with `pvmctl '
                'lpar list` and `pvmctl vdisk list`.',
                {
                    'name': spec.name,
                    'uuid': spec.uuid,
                    'stem': storage.stem(spec.uuid),
                    'error': error,
                },
            )

    def forget_leftover(self, uuid: str) -> None:
        """Note that an LPAR is not, or no longer, left from a failed build."""
        with self._lock:
            self._leftovers.pop(uuid, None)

    def remove_leftovers(self, instances: Callable[[], Iterable[str]]) -> None:
        """Remove what failed builds have left because the host was silent.

        Nova may have built the instance on another host since. The LPAR of an
        instance of this host is kept: the user may start it, and builds it
        again or deletes it.

        :param instances: Gives the uuids of all instances of this host.
        """
        with self._lock:
            if not self._leftovers:
                return
            ours = {partition.lpar_uuid(uuid) for uuid in instances()}
            for uuid in sorted(self._leftovers):
                try:
                    done = self._remove_leftover(uuid, is_ours=uuid in ours)
                except exception.PowerVMError as error:
                    LOG.warning(
                        'What the failed build of LPAR %(uuid)s has left is '
                        'still there: %(error)s',
                        {'uuid': uuid, 'error': error},
                    )
                    return
                if done:
                    del self._leftovers[uuid]

    def _remove_leftover(self, uuid: str, *, is_ours: bool) -> bool:
        """Remove what a failed build has left.

        :param is_ours: Whether an instance of this host has the LPAR. Nova
            takes it from the host a moment after its build failed.
        :returns: Whether nothing has to be removed any more.
        """
        lpar = self._partitions.find(uuid)
        if is_ours:
            return lpar is not None and is_active(lpar)
        self.remove(uuid, lpar)
        return lpar is not None or self._clock() >= self._leftovers[uuid]

    def remove_orphan_disks(
        self, instances: Callable[[], Iterable[str]]
    ) -> None:
        """Remove disks that belong to neither an LPAR nor an instance here.

        A service that was killed during a build has left them, and Nova has
        built or deleted the instance elsewhere since. Call this only while no
        build is under way.

        :param instances: Gives the uuids of all instances of this host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        stems = set(self._disks.stems())
        if not stems:
            return
        lpars = {partition.lpar_uuid(uuid) for uuid in instances()}
        stems -= set(map(storage.stem, lpars.union(self._partitions.names())))
        if stems:
            LOG.warning(
                'Removing the disks %(stems)s: they were left by builds, and '
                'no instance of this host has them.',
                {'stems': ', '.join(f'{stem}*' for stem in sorted(stems))},
            )
            self._disks.remove_stems(stems)


def is_active(lpar: partition.Partition) -> bool:
    """Whether an LPAR is not off."""
    return lpar_state.power(lpar.state) is not lpar_state.Power.OFF

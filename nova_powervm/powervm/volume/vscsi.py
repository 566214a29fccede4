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

"""The volume driver ``fibre_channel``: volumes by virtual SCSI.

The Virtual I/O Servers reach a volume by their Fibre Channel ports, have it as
a physical volume (hdisk), and map that to an LPAR. With several servers, the
LPAR has a path through each.

A volume is identified by its id, which its mappings are tagged with; then by
the UDID that the host has found for it; then by a new discovery. The name of
its disk never identifies it: it differs from server to server, and is given
again.
"""

import contextlib
import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm.tasks import hdisk

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import volumes
from nova_powervm.ops import drivers
from nova_powervm.powervm import volume as volume_drivers
from nova_powervm.powervm.volume import holders
from nova_powervm.powervm.volume import volume_mappings

LOG = logging.getLogger(__name__)

Server = volume_mappings.Server
Volume = volumes.Volume

#: Statuses of a discovery after which there is a disk. Of one that is in use
#: it has still to be found out who uses it.
_FOUND = (
    hdisk.LUAStatus.DEVICE_AVAILABLE,
    hdisk.LUAStatus.DEVICE_IN_USE,
    hdisk.LUAStatus.FOUND_ITL_ERR,
)


def load(
    context: volume_drivers.Context,
) -> drivers.VolumeDriver:
    """Create the volume driver of a host."""
    return VscsiVolumes(
        volume_mappings.VolumeMappings(context.adapter, context.system),
        context.settings.vios_paths_required,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """A server with the disk of a volume.

    :param number: Which of the servers that may reach volumes it is, counted
        from 0.
    """

    server: Server
    number: int
    disk: volume_mappings.Disk


class VscsiVolumes:
    """Volumes that Virtual I/O Servers reach by Fibre Channel.

    It implements :class:`nova_powervm.ops.drivers.VolumeDriver`.

    :param mappings: The physical volumes of the servers.
    :param paths_required: How many servers have to find a volume at least.
    """

    def __init__(
        self, mappings: volume_mappings.VolumeMappings, paths_required: int
    ) -> None:
        self._mappings = mappings
        self._required = paths_required

    def connector(
        self,
        lpar: partition.Partition | None = None,
        ports: Collection[int] = (),
    ) -> Mapping[str, Any]:
        """Return the ports of the servers.

        A server that does not answer may show its ports, too: Cinder maps the
        volume to them, so that the path can be added when it is back. An LPAR
        needs a free virtual slot for each of these servers.
        """
        servers = self._mappings.read()
        reaching = _reaching(servers)
        if not any(server.answers for server in reaching):
            names = ', '.join(server.name for server in reaching)
            raise exception.VolumesImpossible(
                where='',
                reason=exception.PrivateText(
                    f'the Virtual I/O Servers {names} do not answer. Start '
                    'them, or check their RMC connections',
                    'the Virtual I/O Servers of the host do not answer',
                )
                if reaching
                else 'no Virtual I/O Server has a Fibre Channel port',
            )
        if lpar is not None:
            taken = volume_mappings.taken_slots(servers, lpar.uuid)
            _check_room(lpar, taken.union(ports), len(reaching))
        found = sorted(
            port for server in reaching for port in server.ports.items()
        )
        return {
            'wwpns': [wwpn.lower() for wwpn, _ in found],
            'wwnns': [wwnn.lower() for _, wwnn in found],
        }

    def check(self, volume: Volume) -> None:
        """Verify that the forms of its paths are known."""
        volumes.fibre_channel(volume)

    def connected(
        self, lpar_uuid: str, wanted: Sequence[Volume]
    ) -> dict[str, volumes.Connected]:
        """Take for volumes what is tagged, and what has a wanted one's UDID.

        One is complete if each server that Cinder has mapped it to has it.
        """
        servers = self._mappings.read()
        found = {
            one.volume_id: volumes.Connected(
                slots=_slots(servers, Volume(one.volume_id, ''), lpar_uuid)
            )
            for server in servers
            for one in server.mapped
            if one.lpar_uuid == lpar_uuid and one.kind == volumes.FIBRE_CHANNEL
        }
        for volume in wanted:
            places = volumes.fibre_channel(volume)
            having = [
                server
                for server in servers
                if holders.mapping_of(server, volume, lpar_uuid)
            ]
            lacking = [
                server
                for server in servers
                if server.answers
                and server not in having
                and any(places.paths(server.wwpns))
            ]
            found.pop(volume.id, None)
            if having:
                found[volume.id] = volumes.Connected(
                    not lacking, _slots(servers, volume, lpar_uuid)
                )
        return found

    def find(self, volume: Volume, lpar_uuid: str) -> drivers.Found:
        """Have all servers that answer look for its disk."""
        servers = _reaching(self._mappings.read())
        udids: dict[str, str] = {}
        problems: list[str] = []
        with self._forgotten_on_error(servers, udids):
            for server in servers:
                try:
                    udids[server.uuid] = self._discover(
                        server, volume, lpar_uuid
                    )
                except _NotFoundError as error:
                    problems.append(str(error))
            is_new = not any(
                holders.mapping_of(server, volume, lpar_uuid)
                for server in servers
            )
            needed = self._required if is_new else 1
            if len(udids) < needed:
                raise exception.VolumeMissing(
                    volume=volume.id,
                    found=len(udids),
                    needed=needed,
                    reason='; '.join(problems),
                )
            found = self._placed(volume, lpar_uuid, udids)
        for problem in problems:
            LOG.warning(
                '%(volume)s has no path through a Virtual I/O Server: '
                '%(problem)s. Reboot the server hard later to add the path, '
                'or attach the volume anew if Cinder did not know the ports.',
                {'volume': volume, 'problem': problem},
            )
        return found

    @contextlib.contextmanager
    def _forgotten_on_error(
        self, servers: Sequence[Server], udids: Mapping[str, str]
    ) -> Iterator[None]:
        """Have servers forget what they have found, after an error.

        :param servers: As read before. A disk that one had then stays: it can
            be an administrator's.
        """
        try:
            yield
        except Exception:
            for server in servers:
                udid = udids.get(server.uuid, '')
                if udid and not server.disk(udid):
                    self._mappings.forget(server, holders.disks_of([udid]))
            raise

    def _discover(self, server: Server, volume: Volume, lpar_uuid: str) -> str:
        """Return the UDID of the disk that a server has found.

        :raises _NotFoundError: It does not find one, and why.
        """
        if not server.answers:
            hides = '' if server.wwpns else ', and shows no ports'
            raise _NotFoundError(f'{server.name} does not answer{hides}')
        known = holders.mapping_of(server, volume, lpar_uuid)
        if known and known.udid and known.udid == volume.udid:
            return known.udid
        paths = [*volumes.fibre_channel(volume).paths(server.wwpns)]
        if not paths:
            raise _NotFoundError(
                f'Cinder has mapped it to none of the ports of {server.name} '
                f'({_join(server.wwpns)})'
            )
        try:
            status, name, udid = self._mappings.discover(server, paths)
        except exception.RestUnreachable:
            raise
        except exception.RestError as error:
            raise _NotFoundError(str(error)) from error
        if status not in _FOUND or not name or not udid:
            raise _NotFoundError(
                f'{server.name} finds no disk (status {status}) from its '
                f'ports {_join(one.initiator for one in paths)} at '
                f'{_join(one.target for one in paths)}, LUN '
                f'{_join(str(one.lun) for one in paths)}'
            )
        if status == hdisk.LUAStatus.FOUND_ITL_ERR:
            # Usual: Cinder names each port with each target, of all fabrics.
            LOG.info(
                '%(server)s reaches %(volume)s (%(disk)s) by some of the '
                '%(count)d paths that Cinder names.',
                {
                    'server': server.name,
                    'volume': volume,
                    'disk': name,
                    'count': len(paths),
                },
            )
        return udid

    def _placed(
        self, volume: Volume, lpar_uuid: str, udids: Mapping[str, str]
    ) -> drivers.Found:
        """Verify that an LPAR can have the disks that were found.

        :raises exception.VolumeRefused: It cannot.
        :raises exception.VolumeInUse: Somebody else has one.
        """
        found = {*udids.values()}
        if volume.udid and volume.udid not in found:
            raise exception.VolumeRefused(
                volume=volume.id,
                reason=exception.PrivateText(
                    'its place on the array leads to another disk now, '
                    f'with the UDID {", ".join(sorted(found))} instead of '
                    f'{volume.udid}. {holders.ANEW}',
                    'its place on the array leads to another disk now. '
                    f'{holders.ANEW}',
                ),
            )
        if len(found) > 1:
            raise exception.VolumeRefused(
                volume=volume.id,
                reason=exception.PrivateText(
                    'the Virtual I/O Servers find different disks at its '
                    f'paths, with the UDIDs {", ".join(sorted(found))}',
                    'the Virtual I/O Servers find different disks at its '
                    'paths',
                ),
            )
        identified = volume.with_udid(*found)
        places = []
        servers = self._mappings.read()
        for server in servers:
            # Also one that has not found it now can map it to somebody.
            holders.check_users(identified, server, lpar_uuid)
        reaching = _reaching(servers)
        for number, server in enumerate(reaching):
            if server.uuid not in udids:
                continue
            disk = server.disk(identified.udid)
            if disk is None:
                raise exception.RestError(
                    action=f'reading the disks of {server.name}',
                    reason='it does not list what it has just found, with '
                    f'UDID {identified.udid}',
                )
            holders.check_policy(volume, server, disk, len(reaching))
            holders.check_free(volume, server, disk)
            places.append(_Place(server, number, disk))
        return drivers.Found(identified, places)

    def connect(
        self, found: drivers.Found, lpar: partition.Partition
    ) -> dict[int, int]:
        """Map its disks on each server, or on none after an error."""
        volume = found.volume
        taken = volume_mappings.taken_slots(self._mappings.read(), lpar.uuid)
        new: list[_Place] = []
        slots: dict[int, int] = {}
        try:
            for place in found.handle:
                if not holders.mapping_of(place.server, volume, lpar.uuid):
                    new.append(place)
                    slots[place.number] = self._map(place, volume, lpar, taken)
        except Exception as error:
            # What was not answered may still be carried out.
            is_open = isinstance(error, exception.RestUnreachable)
            for place in new:
                late = error if is_open and place is new[-1] else None
                self._take_back(place.server, volume, lpar, late)
            raise
        return slots

    def _take_back(
        self,
        server: Server,
        volume: Volume,
        lpar: partition.Partition,
        problem: Exception | None,
    ) -> None:
        """Unmap a volume while an error is on its way.

        :param problem: Why it may be mapped after that, if anything tells so.
        """
        try:
            self._mappings.unmap(
                server, lambda one: holders.is_of(one, volume, lpar.uuid)
            )
        except Exception as error:
            problem = error
        if problem:
            LOG.error(
                '%(volume)s may be connected to LPAR %(lpar)s by %(server)s, '
                'although that has failed: %(error)s. Reboot the server hard.',
                {
                    'volume': volume,
                    'lpar': lpar.name,
                    'server': server.name,
                    'error': problem,
                },
            )

    def forget(self, found: drivers.Found) -> None:
        """Leave the disks that are mapped to anybody."""
        for place in found.handle:
            self._mappings.forget(
                place.server, holders.disks_of([place.disk.udid])
            )

    def _map(
        self,
        place: _Place,
        volume: Volume,
        lpar: partition.Partition,
        taken: set[int],
    ) -> int:
        """Map a disk at a slot that is not taken, and take it."""

        # What a partition that was deleted outside of Nova has left.
        def is_left(one: volume_mappings.Mapped) -> bool:
            return not one.lpar_uuid and holders.is_of(one, volume, lpar.uuid)

        if any(map(is_left, place.server.mapped)):
            self._mappings.unmap(place.server, is_left)
        slot = volumes.choose_slot(
            volume, place.number, lpar.virtual_slots, taken
        )
        if slot is None:
            raise exception.VolumesImpossible(
                where=f' to LPAR {lpar.name}',
                reason=f'none of its {lpar.virtual_slots} virtual slots is '
                'left for volumes. A new server gets as many as '
                '[powervm]virtual_slots says',
            )
        taken.add(slot)
        self._mappings.map(place.server, lpar.uuid, place.disk, volume, slot)
        return slot

    def disconnect(self, volume: Volume, lpar_uuid: str) -> None:
        """Unmap it on all servers, and have them forget its disks."""
        servers = self._mappings.read()
        volume = self._identified(volume, servers, lpar_uuid)
        self._drop(
            servers,
            [volume],
            lambda one: holders.is_of(one, volume, lpar_uuid),
        )

    def _identified(
        self, volume: Volume, servers: Sequence[Server], lpar_uuid: str
    ) -> Volume:
        """Find out which disk a volume is, and that no other can be it.

        :raises exception.VolumeHeld: It could be one that is mapped to the
            LPAR without a tag.
        """
        if not volume.udid:
            volume = volume.with_udid(
                self._udid_of(volume, servers, lpar_uuid)
            )
        for server in servers:
            for one in holders.untagged(server, lpar_uuid):
                if one.udid or holders.mapping_of(server, volume, lpar_uuid):
                    continue
                holders.hold_unknown(
                    volume,
                    f'{server.name} maps {one.name} to the LPAR without a '
                    'tag and UDID, and nothing tells whether that is this '
                    'volume',
                )
        return volume

    def _udid_of(
        self, volume: Volume, servers: Sequence[Server], lpar_uuid: str
    ) -> str:
        """Find out the UDID of a volume, of which no record tells it.

        :returns: Empty if the LPAR does not have it.
        :raises exception.VolumeHeld: As for :meth:`_identified`.
        """
        for server in servers:
            mapped = holders.mapping_of(server, volume, lpar_uuid)
            if mapped and mapped.udid:
                # Another server may have lost the tag.
                return mapped.udid
        reasons = []
        for server in servers:
            for one in holders.untagged(server, lpar_uuid):
                try:
                    return self._discover(server, volume, lpar_uuid)
                except (_NotFoundError, exception.VolumeRefused) as error:
                    reasons.append(
                        f'{server.name} maps {one.name} to the LPAR without a '
                        'tag, and nothing tells whether that is this volume, '
                        f'because {error}'
                    )
        if reasons:
            holders.hold_unknown(volume, '; '.join(reasons))
        return ''

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that each server that may map disks to the LPAR answers."""
        holders.check_answers(
            self._mappings.read(),
            wanted,
            holders.is_of_any(wanted, lpar_uuid),
        )

    def remove(self, lpar_uuid: str, wanted: Collection[Volume] = ()) -> None:
        """Unmap all physical volumes but those of other volume drivers.

        A disk that an administrator has mapped stays on its server.
        """
        servers = self._mappings.read()
        self._drop(servers, wanted, holders.is_of_any(wanted, lpar_uuid))
        known = {volume.udid for volume in wanted}
        for server in servers:
            for one in server.mapped:
                if one.lpar_uuid != lpar_uuid or one.kind:
                    continue
                if one.udid not in known:
                    LOG.warning(
                        '%(disk)s of %(server)s is not mapped to LPAR '
                        '%(lpar)s any more. Neither its tag nor its UDID '
                        'tells that it is a volume of Cinder.',
                        {
                            'disk': one.name,
                            'server': server.name,
                            'lpar': lpar_uuid,
                        },
                    )

    def _drop(
        self,
        servers: Sequence[Server],
        wanted: Collection[Volume],
        is_doomed: holders.Predicate,
    ) -> None:
        """Unmap disks on all servers or none, and have them forget volumes.

        :param wanted: Volumes whose disks they forget, too, if not mapped.
        :param is_doomed: Tells which mappings are to go.
        """
        holders.check_answers(servers, wanted, is_doomed)
        mapped = {
            one.udid
            for server in servers
            for one in server.mapped
            if is_doomed(one) and one.kind
        }
        known = mapped | {volume.udid for volume in wanted}
        for server in servers:
            if any(map(is_doomed, server.mapped)):
                self._mappings.unmap(server, is_doomed)
            if any(map(server.disk, known)):
                self._mappings.forget(server, holders.disks_of(known))
        tags = {one.tag for server in servers for one in server.mapped}
        for volume in wanted:
            if not volume.udid and volume.id not in tags:
                self._forget_unknown(servers, volume)

    def _forget_unknown(
        self, servers: Sequence[Server], volume: Volume
    ) -> None:
        """Have servers forget a volume of which only its paths are known.

        If the service was killed before it has mapped the volume, they may
        have its disk; which one, only a look at the paths tells.
        """
        try:
            places = volumes.fibre_channel(volume)
        except exception.VolumeRefused:
            return
        for server in servers:
            paths = [*places.paths(server.wwpns)]
            if server.answers and paths:
                with volume_mappings.logged(server, f'the disk of {volume}'):
                    _, _, udid = self._mappings.discover(server, paths)
                    if udid:
                        self._mappings.forget(server, holders.disks_of([udid]))

    def resize(self, volume: Volume, lpar_uuid: str) -> int:
        """Have each server look at it again.

        One that is off sees the new size when it starts. One that serves the
        guest, but cannot be told, would have it see two sizes.
        """
        having = [
            server
            for server in self._mappings.read()
            if holders.mapping_of(server, volume, lpar_uuid)
            # It may have the volume, and hide it.
            or (server.is_blank and server.wwpns and not server.is_off)
        ]
        asked = [server for server in having if not server.is_off] or having
        paths = volumes.fibre_channel(volume)
        for server in asked:
            self._mappings.discover(server, [*paths.paths(server.wwpns)])
        names = {server.uuid for server in asked}
        sizes = [
            disk.size
            for server in self._mappings.read()
            if server.uuid in names
            and (mapped := holders.mapping_of(server, volume, lpar_uuid))
            and (disk := server.disk(mapped.udid))
        ]
        if not sizes:
            raise exception.VolumeMissing(
                volume=volume.id,
                found=0,
                needed=self._required,
                reason=f'none maps it to LPAR {lpar_uuid}',
            )
        return min(sizes)


class _NotFoundError(Exception):
    """A server does not find a volume, for a reason."""


def _join(values: Iterable[str]) -> str:
    return ', '.join(sorted({*values}))


def _check_room(
    lpar: partition.Partition, taken: Collection[int], needed: int
) -> None:
    """Verify that an LPAR has some free virtual slots for volumes."""
    free = volumes.free_slots(lpar.virtual_slots, taken)
    if len(free) < needed:
        raise exception.VolumesImpossible(
            where=f' to LPAR {lpar.name}',
            reason=f'it has {len(free)} of {lpar.virtual_slots} virtual '
            f'slots left for volumes, and needs {needed}. Detach another '
            'volume. New servers have [powervm]virtual_slots of them',
        )


def _reaching(servers: Sequence[Server]) -> list[Server]:
    return [one for one in servers if one.reaches_volumes]


def _slots(
    servers: Sequence[Server], volume: Volume, lpar_uuid: str
) -> dict[int, int]:
    """Return the virtual slots of a volume, by the numbers of servers."""
    return {
        number: one.slot
        for number, server in enumerate(_reaching(servers))
        if (one := holders.mapping_of(server, volume, lpar_uuid))
        and one.slot is not None
    }

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

A volume is identified by its id, with which its mappings are tagged; then by
the UDID that the host has found for it; then by a new discovery. The name of
its disk never identifies it: it differs from server to server, and servers
give names again.
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
Mapped = volume_mappings.Mapped
Volume = volumes.Volume

#: Statuses of a discovery after which there is a disk. If it is in use,
#: :mod:`.holders` tells by whom.
_SUCCESSES = (
    hdisk.LUAStatus.DEVICE_AVAILABLE,
    hdisk.LUAStatus.DEVICE_IN_USE,
    hdisk.LUAStatus.FOUND_ITL_ERR,
)


def load(context: volume_drivers.Context) -> drivers.VolumeDriver:
    """Create the volume driver of a host."""
    mappings = volume_mappings.VolumeMappings(context.adapter, context.system)
    return VscsiVolumes(mappings, context.settings.vios_paths_required)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """A server with the disk of a volume.

    :param number: The number of the server among those that may reach
        volumes, counted from 0.
    """

    server: Server
    number: int
    disk: volume_mappings.Disk


class VscsiVolumes:
    """Volumes that Virtual I/O Servers reach by Fibre Channel.

    It implements :class:`nova_powervm.ops.drivers.VolumeDriver`.

    :param mappings: Reads and changes the mappings of physical volumes.
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

        These include the ports of a server that does not answer, if it shows
        them: Cinder maps the volume to them, so that the path can be added
        when the server is back. An LPAR needs a free virtual slot for each of
        the servers.
        """
        servers = self._mappings.read()
        reaching = self._check_reaching(servers)
        if lpar is not None:
            taken = volume_mappings.taken_slots(servers, lpar.uuid)
            where = f' to LPAR {lpar.name}'
            _check_room(
                where, lpar.virtual_slots, taken.union(ports), len(reaching)
            )
        reachable = sorted(
            port for server in reaching for port in server.ports.items()
        )
        return {
            'wwpns': [wwpn.lower() for wwpn, _ in reachable],
            'wwnns': [wwnn.lower() for _, wwnn in reachable],
        }

    def check_arrival(self, number: int, virtual_slots: int) -> None:
        """Count a virtual slot for each volume on each server."""
        reaching = self._check_reaching(self._mappings.read())
        _check_room('', virtual_slots, (), number * len(reaching))

    def _check_reaching(self, servers: Sequence[Server]) -> list[Server]:
        """Return the servers that may reach volumes, of which one answers.

        :raises exception.VolumesImpossible: None answers.
        """
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
        return reaching

    def check(self, volume: Volume) -> None:
        """Verify that the forms of the volume's paths are known."""
        volumes.fibre_channel(volume)

    def elsewhere(self, wanted: Sequence[Volume]) -> set[str]:
        """Tell by the ports of this host that Cinder names, if it names any.

        A server that hides its ports may have those of all volumes.
        """
        servers = self._mappings.read()
        if any(s.is_blank and s.may_have_ports for s in servers):
            return set()
        wwpns = frozenset().union(*(server.wwpns for server in servers))
        return {
            volume.id
            for volume in wanted
            if volumes.fibre_channel(volume).names_none(wwpns)
        }

    def connected(
        self, lpar_uuid: str, wanted: Sequence[Volume]
    ) -> dict[str, volumes.Connected]:
        """Recognize volumes by their tags, and wanted ones also by the UDID.

        A volume is complete if it is mapped by each server that answers and
        that Cinder has mapped it to.
        """
        servers = self._mappings.read()
        connected = {}
        for mapping in _mappings_to(lpar_uuid, servers):
            if mapping.kind == volumes.FIBRE_CHANNEL:
                tagged = Volume(mapping.volume_id, '')
                slots = _slots(servers, tagged, lpar_uuid)
                connected[tagged.id] = volumes.Connected(slots=slots)
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
            connected.pop(volume.id, None)
            if having:
                connected[volume.id] = volumes.Connected(
                    not lacking, _slots(servers, volume, lpar_uuid)
                )
        return connected

    def find(self, volume: Volume, lpar_uuid: str) -> drivers.LocatedVolume:
        """Have all servers that answer look for the disk of the volume."""
        servers = _reaching(self._mappings.read())
        udids: dict[str, str] = {}
        problems: list[str] = []
        with self._forgotten_on_error(servers, udids):
            for server in servers:
                try:
                    udid = self._discover(server, volume, lpar_uuid)
                except _NotFoundError as error:
                    problems.append(str(error))
                else:
                    udids[server.uuid] = udid
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
            located = self._locate(volume, lpar_uuid, udids)
        for problem in problems:
            LOG.warning(
                '%(volume)s has no path through a Virtual I/O Server: '
                '%(problem)s. Reboot the server hard later to add the path, '
                'or attach the volume anew if Cinder did not know the ports.',
                {'volume': volume, 'problem': problem},
            )
        return located

    @contextlib.contextmanager
    def _forgotten_on_error(
        self, servers: Sequence[Server], udids: Mapping[str, str]
    ) -> Iterator[None]:
        """Have servers forget the disks that they have found, after an error.

        :param servers: As read before the discovery. A disk that a server had
            then stays: it may be an administrator's.
        :param udids: Uuid of a server -> UDID of the disk that it has found.
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
        """Have a server look for the disk of a volume, and return its UDID.

        :raises _NotFoundError: The server does not find it; the text says why.
        """
        if not server.answers:
            hides = '' if server.wwpns else ', and shows no ports'
            raise _NotFoundError(f'{server.name} does not answer{hides}')
        mapping = holders.mapping_of(server, volume, lpar_uuid)
        if mapping and mapping.udid and mapping.udid == volume.udid:
            return mapping.udid
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
        if status not in _SUCCESSES or not name or not udid:
            raise _NotFoundError(
                f'{server.name} finds no disk (status {status}) from its '
                f'ports {_join(path.initiator for path in paths)} at '
                f'{_join(path.target for path in paths)}, LUN '
                f'{_join(str(path.lun) for path in paths)}'
            )
        if status == hdisk.LUAStatus.FOUND_ITL_ERR:
            # This is usual: Cinder names each port with the targets of all
            # fabrics.
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

    def _locate(
        self, volume: Volume, lpar_uuid: str, udids: Mapping[str, str]
    ) -> drivers.LocatedVolume:
        """Verify that an LPAR can have the disks that servers have found.

        :param udids: Uuid of a server -> UDID of the disk that it has found.
        :raises exception.VolumeRefused: It cannot.
        :raises exception.VolumeInUse: Something else has one of the disks.
        """
        distinct = {*udids.values()}
        if volume.udid and volume.udid not in distinct:
            # Nobody can detach a boot volume.
            cure = holders.REFRESHED if volume.is_boot else holders.ANEW
            what = 'its place on the array leads to another disk now'
            raise exception.VolumeRefused(
                volume=volume.id,
                reason=exception.PrivateText(
                    f'{what}, with the UDID {", ".join(sorted(distinct))} '
                    f'instead of {volume.udid}. {cure}',
                    f'{what}. {cure}',
                ),
            )
        if len(distinct) > 1:
            raise exception.VolumeRefused(
                volume=volume.id,
                reason=exception.PrivateText(
                    'the Virtual I/O Servers find different disks at its '
                    f'paths, with the UDIDs {", ".join(sorted(distinct))}',
                    'the Virtual I/O Servers find different disks at its '
                    'paths',
                ),
            )
        identified = volume.with_udid(*distinct)
        places = []
        servers = self._mappings.read()
        for server in servers:
            # A server that has not found the disk now may map it, too.
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
        return drivers.LocatedVolume(identified, places)

    def connect(
        self, located: drivers.LocatedVolume, lpar: partition.Partition
    ) -> dict[int, int]:
        """Map the volume's disk on each server, or on none after an error."""
        volume = located.volume
        taken = volume_mappings.taken_slots(self._mappings.read(), lpar.uuid)
        new: list[_Place] = []
        slots: dict[int, int] = {}
        try:
            for place in located.handle:
                if not holders.mapping_of(place.server, volume, lpar.uuid):
                    new.append(place)
                    slots[place.number] = self._map(place, volume, lpar, taken)
        except Exception as error:
            # A request without an answer may still be carried out.
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
        """Unmap a volume, and only log a failure: another error is on its way.

        :param problem: Why the volume may be mapped after that; None if
            nothing tells so.
        """
        try:
            self._mappings.unmap(server, holders.is_of(volume, lpar.uuid))
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

    def forget(self, located: drivers.LocatedVolume) -> None:
        """Leave the disks that are mapped to any partition."""
        is_its = holders.disks_of([located.volume.udid])
        for place in located.handle:
            self._mappings.forget(place.server, is_its)

    def _map(
        self,
        place: _Place,
        volume: Volume,
        lpar: partition.Partition,
        taken: set[int],
    ) -> int:
        """Map a disk at a slot that is not taken, and take it."""
        is_its = holders.is_of(volume, lpar.uuid)

        # A partition that was deleted outside of Nova may have left a mapping.
        def is_left(mapping: Mapped) -> bool:
            return not mapping.lpar_uuid and is_its(mapping)

        if any(map(is_left, place.server.mapped)):
            self._mappings.unmap(place.server, is_left)
        count = lpar.virtual_slots
        slot = volumes.choose_slot(volume, place.number, count, taken)
        if slot is None:
            raise exception.VolumesImpossible(
                where=f' to LPAR {lpar.name}',
                reason=f'none of its {count} virtual slots is left for '
                'volumes. A new server gets as many as '
                '[powervm]virtual_slots says',
            )
        taken.add(slot)
        self._mappings.map(place.server, lpar.uuid, place.disk, volume, slot)
        return slot

    def disconnect(self, volume: Volume, lpar_uuid: str) -> None:
        """Unmap the volume on all servers, and have them forget its disk."""
        servers = self._mappings.read()
        volume = self._identified(volume, servers, lpar_uuid)
        self._drop(servers, [volume], holders.is_of(volume, lpar_uuid))

    def _identified(
        self, volume: Volume, servers: Sequence[Server], lpar_uuid: str
    ) -> Volume:
        """Return a volume with the UDID of its disk, if an LPAR has it.

        :raises exception.VolumeHeld: Its disk may be one that is mapped to the
            LPAR without a tag.
        """
        if not volume.udid:
            udid = self._udid_of(volume, servers, lpar_uuid)
            volume = volume.with_udid(udid)
        for server in servers:
            for mapping in holders.untagged(server, lpar_uuid):
                if mapping.udid or holders.mapping_of(
                    server, volume, lpar_uuid
                ):
                    continue
                holders.hold_unknown(
                    volume,
                    f'{server.name} maps {mapping.name} to the LPAR without a '
                    'tag and UDID, and nothing tells whether that is this '
                    'volume',
                )
        return volume

    def _udid_of(
        self, volume: Volume, servers: Sequence[Server], lpar_uuid: str
    ) -> str:
        """Find the UDID of a volume that no record tells.

        :returns: The UDID; empty if the LPAR does not have the volume.
        :raises exception.VolumeHeld: As for :meth:`_identified`.
        """
        for server in servers:
            tagged = holders.mapping_of(server, volume, lpar_uuid)
            if tagged and tagged.udid:
                # Another server may have lost the tag.
                return tagged.udid
        reasons = []
        for server in servers:
            for mapping in holders.untagged(server, lpar_uuid):
                try:
                    return self._discover(server, volume, lpar_uuid)
                except (_NotFoundError, exception.VolumeRefused) as error:
                    reasons.append(
                        f'{server.name} maps {mapping.name} to the LPAR '
                        'without a tag, and nothing tells whether that is '
                        f'this volume, because {error}'
                    )
        if reasons:
            holders.hold_unknown(volume, '; '.join(reasons))
        return ''

    def check_disconnection(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that servers answer, and that mappings can be identified."""
        servers = self._mappings.read()
        for volume in wanted:
            known = self._identified(volume, servers, lpar_uuid)
            is_its = holders.is_of(known, lpar_uuid)
            holders.check_answers(servers, [known], is_its)

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that each server that may map disks to the LPAR answers."""
        is_doomed = holders.is_of_any(wanted, lpar_uuid)
        holders.check_answers(self._mappings.read(), wanted, is_doomed)

    def remove(self, lpar_uuid: str, wanted: Collection[Volume] = ()) -> None:
        """Unmap all physical volumes but those of other volume drivers.

        A disk that an administrator has mapped stays on its server.
        """
        servers = self._mappings.read()
        self._drop(servers, wanted, holders.is_of_any(wanted, lpar_uuid))
        udids = {volume.udid for volume in wanted}
        for server in servers:
            for mapping in _mappings_to(lpar_uuid, [server]):
                if not mapping.kind and mapping.udid not in udids:
                    LOG.warning(
                        '%(disk)s of %(server)s is not mapped to LPAR '
                        '%(lpar)s any more. Neither its tag nor its UDID '
                        'tells that it is a volume of Cinder.',
                        {
                            'disk': mapping.name,
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

        :param wanted: Volumes that the servers forget even if not mapped.
        :param is_doomed: Whether to remove a mapping.
        """
        holders.check_answers(servers, wanted, is_doomed)
        udids = {volume.udid for volume in wanted} | {
            mapping.udid
            for server in servers
            for mapping in server.mapped
            if is_doomed(mapping) and mapping.kind
        }
        for server in servers:
            if any(map(is_doomed, server.mapped)):
                self._mappings.unmap(server, is_doomed)
            if any(map(server.disk, udids)):
                self._mappings.forget(server, holders.disks_of(udids))
        tags = {mapping.tag for server in servers for mapping in server.mapped}
        for volume in wanted:
            if not volume.udid and volume.id not in tags:
                self._forget_unknown(servers, volume)

    def _forget_unknown(
        self, servers: Sequence[Server], volume: Volume
    ) -> None:
        """Have servers forget a volume of which only the paths are known.

        If the service was killed before it mapped the volume, they may have
        its disk, which only a discovery identifies.
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
        """Have each server look at the volume again.

        A server that is off sees the new size when it starts. If a server that
        runs could not look again, the guest would see two sizes.
        """
        having = [
            server
            for server in self._mappings.read()
            if holders.mapping_of(server, volume, lpar_uuid)
            # It may have the volume, and hide it.
            or (server.is_blank and server.wwpns and not server.is_off)
        ]
        running = [server for server in having if not server.is_off]
        places = volumes.fibre_channel(volume)
        uuids = set()
        for server in running or having:
            self._mappings.discover(server, [*places.paths(server.wwpns)])
            uuids.add(server.uuid)
        sizes = [
            disk.size
            for server in self._mappings.read()
            if server.uuid in uuids
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
    """A server does not find a volume; the text says why."""


def _join(values: Iterable[str]) -> str:
    return ', '.join(sorted({*values}))


def _check_room(
    where: str, virtual_slots: int, taken: Collection[int], needed: int
) -> None:
    """Verify that an LPAR has enough free virtual slots for volumes.

    :param where: The LPAR, in words; empty if it is to come.
    """
    free = volumes.free_slots(virtual_slots, taken)
    if len(free) < needed:
        raise exception.VolumesImpossible(
            where=where,
            reason=f'{"it" if where else "a new LPAR"} has {len(free)} of '
            f'{virtual_slots} virtual slots left for volumes, and needs '
            f'{needed}. Detach another volume. New servers have '
            '[powervm]virtual_slots of them',
        )


def _reaching(servers: Sequence[Server]) -> list[Server]:
    """Return the servers that may reach volumes, in the order of numbers."""
    return [server for server in servers if server.reaches_volumes]


def _mappings_to(
    lpar_uuid: str, servers: Sequence[Server]
) -> Iterator[Mapped]:
    for server in servers:
        for mapping in server.mapped:
            if mapping.lpar_uuid == lpar_uuid:
                yield mapping


def _slots(
    servers: Sequence[Server], volume: Volume, lpar_uuid: str
) -> dict[int, int]:
    """Return the virtual slots of a volume, by the numbers of servers."""
    return {
        number: mapping.slot
        for number, server in enumerate(_reaching(servers))
        if (mapping := holders.mapping_of(server, volume, lpar_uuid))
        and mapping.slot is not None
    }

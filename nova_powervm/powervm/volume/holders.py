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

"""Tells who has the disk of a volume, and refuses what this forbids.

All functions look at one reading of the Virtual I/O Servers, and change
nothing.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import NoReturn

from nova_powervm import exception
from nova_powervm.lpar import volumes
from nova_powervm.powervm.volume import volume_mappings

Server = volume_mappings.Server
Disk = volume_mappings.Disk
Mapped = volume_mappings.Mapped
Volume = volumes.Volume
#: Returns whether a mapping is to be changed or counted.
Predicate = Callable[[Mapped], bool]

#: The cure for a volume whose place on the array has another disk.
ANEW = 'Detach the volume, and attach it again'
#: The cure for a boot volume, if the array has failed over to another disk.
REFRESHED = 'Refresh it if it is a copy'

SINGLE_PATH = 'SinglePath'
NO_RESERVE = 'NoReserve'
_KIND = volumes.FIBRE_CHANNEL


def is_of(volume: Volume, lpar_uuid: str) -> Predicate:
    """Return a predicate for the mappings of a volume to an LPAR.

    A mapping without a partition counts, too: the LPAR may have been deleted.
    """

    def is_its(mapping: Mapped) -> bool:
        if mapping.lpar_uuid not in (lpar_uuid, ''):
            return False
        if mapping.kind:
            return (mapping.kind, mapping.volume_id) == (_KIND, volume.id)
        return bool(volume.udid) and mapping.udid == volume.udid

    return is_its


def is_of_any(wanted: Collection[Volume], lpar_uuid: str) -> Predicate:
    """Return a predicate for the mappings of an LPAR.

    It leaves out those of other volume drivers. Of the mappings that a deleted
    LPAR has left, it accepts those of the wanted volumes.
    """
    are_wanted = [is_of(volume, lpar_uuid) for volume in wanted]
    return lambda mapping: (
        (mapping.lpar_uuid == lpar_uuid and mapping.kind in ('', _KIND))
        or any(is_wanted(mapping) for is_wanted in are_wanted)
    )


def mapping_of(
    server: Server, volume: Volume, lpar_uuid: str
) -> Mapped | None:
    """Return the mapping by which an LPAR has a volume, if any."""
    is_its = is_of(volume, lpar_uuid)
    mappings = (each for each in server.mapped if each.lpar_uuid)
    return next(filter(is_its, mappings), None)


def check_answers(
    servers: Sequence[Server],
    wanted: Collection[Volume],
    is_doomed: Predicate,
) -> None:
    """Verify that no server keeps a mapping because it does not answer.

    Cinder may soon give the place of the volume on the array to another
    volume, to which the mapping would lead then. A server that is off may hide
    its mappings; but Cinder says to which ports it has mapped a volume.

    :param wanted: The volumes that are known.
    :param is_doomed: Whether a mapping is to be removed.
    :raises exception.VolumeHeld: A server may keep a mapping.
    """
    visible = [server.wwpns for server in servers if not server.is_blank]
    wwpns = frozenset().union(*visible)
    for server in servers:
        if server.answers:
            continue
        for mapping in server.mapped:
            if is_doomed(mapping):
                _hold(mapping.tag or mapping.udid, server, 'connects it')
        for volume in wanted:
            if server.is_blank and _names_others(volume, wwpns):
                _hold(volume.id, server, 'may connect it')


def disks_of(udids: Collection[str]) -> Callable[[Disk], bool]:
    """Return a predicate for the disks of volumes with some UDIDs."""
    return lambda disk: disk.is_fibre_channel and disk.udid in udids


def untagged(server: Server, lpar_uuid: str) -> list[Mapped]:
    """Return the mappings to an LPAR that may be of any disk or volume."""
    return [
        mapping
        for mapping in server.mapped
        if mapping.lpar_uuid == lpar_uuid and not mapping.tag
    ]


def hold_unknown(volume: Volume, reason: str) -> NoReturn:
    """Refuse to disconnect a volume whose mapping may be that of a disk.

    :raises exception.VolumeHeld: Always.
    """
    raise exception.VolumeHeld(
        volume=volume.id,
        reason=f'{reason}. If it is, remove the mapping with pvmctl, and try '
        'again',
    )


def _hold(volume: str, server: Server, reason: str) -> NoReturn:
    raise exception.VolumeHeld(
        volume=volume,
        reason=f'Virtual I/O Server {server.name} does not answer, and '
        f'{reason}. Start it, or check its RMC connection, and try again',
    )


def _names_others(volume: Volume, wwpns: Collection[str]) -> bool:
    try:
        return volumes.fibre_channel(volume).names_others(wwpns)
    except exception.VolumeRefused:
        return False


def check_policy(
    volume: Volume, server: Server, disk: Disk, count: int
) -> None:
    """Refuse a disk that only one of several servers could open.

    :param count: How many servers may reach the volume.
    """
    if count > 1 and disk.reserve_policy == SINGLE_PATH:
        raise exception.VolumeRefused(
            volume=volume.id,
            reason=exception.PrivateText(
                f'its disk {disk.name} of {server.name} has the reserve '
                f'policy {SINGLE_PATH}, with which this server would lock '
                'the other out. Have each server give new disks another one '
                '(`rules -o modify -t disk/fcp/mpioosdisk -a '
                'reserve_policy=no_reserve`, then `rulescfgset`), restart '
                'it, and try again',
                'the Virtual I/O Servers of the host cannot share its disk',
            ),
        )


def check_users(volume: Volume, server: Server, lpar_uuid: str) -> None:
    """Refuse a disk that a server maps to anything but the LPAR.

    :raises exception.VolumeInUse: Another partition has it.
    :raises exception.VolumeRefused: The LPAR has another disk as this volume.
    """
    present = mapping_of(server, volume, lpar_uuid)
    if present and present.udid and present.udid != volume.udid:
        raise exception.VolumeRefused(
            volume=volume.id,
            reason=exception.PrivateText(
                f'{server.name} maps {present.name}, with the UDID '
                f'{present.udid}, '
                'to the LPAR as this volume, but its place on the array leads '
                f'to another disk, with {volume.udid}. {ANEW}; if Nova does '
                'not show it as attached, reboot the server hard before',
                'another disk took its place. Detach it or, if it is '
                'unattached, reboot hard',
            ),
        )
    is_its = is_of(volume, lpar_uuid)
    for mapping in server.mapped:
        # Without partition and tag, it can be open to any partition.
        is_known = mapping.lpar_uuid or mapping.kind
        if mapping.udid != volume.udid or (is_known and is_its(mapping)):
            continue
        if mapping.lpar_uuid == lpar_uuid:
            holder = f'LPAR {lpar_uuid} has it as volume {mapping.tag or "-"}'
        elif mapping.lpar_uuid:
            holder = f'it is mapped to LPAR {mapping.lpar_uuid}'
        else:
            holder = 'it is mapped to a partition that is gone'
        raise exception.VolumeInUse(
            volume=volume.id,
            disk=mapping.name,
            server=server.name,
            holder=holder,
        )


def check_free(volume: Volume, server: Server, disk: Disk) -> None:
    """Refuse a disk that something else than a partition has.

    :raises exception.VolumeInUse: A volume group or a pool has it.
    """
    mapped = {mapping.udid for mapping in server.mapped}
    if disk.is_free or disk.udid in mapped:
        return
    raise exception.VolumeInUse(
        volume=volume.id,
        disk=disk.name,
        server=server.name,
        holder='a volume group or a pool has it',
    )

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

"""Who has the disk of a volume, and what is refused because of that.

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
Volume = volumes.Volume
#: Tells which mappings are meant.
Predicate = Callable[[volume_mappings.Mapped], bool]

#: What a user does about a volume that is not what it was.
ANEW = 'Detach the volume, and attach it again'

_SINGLE_PATH = 'SinglePath'
_KIND = volumes.FIBRE_CHANNEL


def is_of(one: volume_mappings.Mapped, volume: Volume, lpar_uuid: str) -> bool:
    """Return whether a mapping is that of a volume to an LPAR.

    It may be one that the LPAR has left when it was deleted, to nobody.
    """
    if one.lpar_uuid not in (lpar_uuid, ''):
        return False
    if one.kind:
        return (one.kind, one.volume_id) == (_KIND, volume.id)
    return bool(volume.udid) and one.udid == volume.udid


def is_of_any(wanted: Collection[Volume], lpar_uuid: str) -> Predicate:
    """Tell mappings to an LPAR, and those that it has left of volumes.

    Those of other volume drivers are none of them.
    """
    return lambda one: (
        (one.lpar_uuid == lpar_uuid and one.kind in ('', _KIND))
        or any(is_of(one, volume, lpar_uuid) for volume in wanted)
    )


def mapping_of(
    server: Server, volume: Volume, lpar_uuid: str
) -> volume_mappings.Mapped | None:
    """Return the mapping by which an LPAR has a volume, if any."""
    return next(
        (
            one
            for one in server.mapped
            if one.lpar_uuid == lpar_uuid and is_of(one, volume, lpar_uuid)
        ),
        None,
    )


def check_answers(
    servers: Sequence[Server],
    wanted: Collection[Volume],
    is_doomed: Predicate,
) -> None:
    """Verify that no server keeps a mapping because it does not answer.

    The place of the volume on the array can be another one's soon, to which
    the mapping would lead then. A server that is off may show nothing of what
    it has; but Cinder says to which ports it has mapped a volume.

    :param wanted: The volumes that are known.
    :param is_doomed: Tells which mappings are to go.
    :raises exception.VolumeHeld: One may keep a mapping.
    """
    shown = {
        wwpn
        for server in servers
        if not server.is_blank
        for wwpn in server.wwpns
    }
    for server in servers:
        if server.answers:
            continue
        for one in server.mapped:
            if is_doomed(one):
                _hold(one.tag or one.udid, server, 'connects it')
        for volume in wanted:
            if server.is_blank and _names_others(volume, shown):
                _hold(volume.id, server, 'may connect it')


def disks_of(udids: Collection[str]) -> Callable[[volume_mappings.Disk], bool]:
    """Tell the disks of some volumes, by their UDIDs."""
    return lambda disk: disk.is_fibre_channel and disk.udid in udids


def untagged(server: Server, lpar_uuid: str) -> list[volume_mappings.Mapped]:
    """Return the mappings to an LPAR that can be anybody's."""
    return [
        one
        for one in server.mapped
        if one.lpar_uuid == lpar_uuid and not one.tag
    ]


def hold_unknown(volume: Volume, reason: str) -> NoReturn:
    """Refuse to disconnect a volume that cannot be told from a disk.

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
    volume: Volume,
    server: Server,
    disk: volume_mappings.Disk,
    count: int,
) -> None:
    """Refuse a disk that only one of several servers could open."""
    if count > 1 and disk.reserve_policy == _SINGLE_PATH:
        raise exception.VolumeRefused(
            volume=volume.id,
            reason=exception.PrivateText(
                f'its disk {disk.name} of {server.name} has the reserve '
                f'policy {_SINGLE_PATH}, with which this server would lock '
                'the other out. Have each server give new disks another one '
                '(`rules -o modify -t disk/fcp/mpioosdisk -a '
                'reserve_policy=no_reserve`, then `rulescfgset`), restart '
                'it, and try again',
                'the Virtual I/O Servers of the host cannot share its disk',
            ),
        )


def check_users(volume: Volume, server: Server, lpar_uuid: str) -> None:
    """Refuse a disk that a server maps to anybody but the LPAR.

    :raises exception.VolumeInUse: Somebody else has it.
    :raises exception.VolumeRefused: The LPAR has another disk as this volume.
    """
    has = mapping_of(server, volume, lpar_uuid)
    if has and has.udid and has.udid != volume.udid:
        raise exception.VolumeRefused(
            volume=volume.id,
            reason=exception.PrivateText(
                f'{server.name} maps {has.name}, with the UDID {has.udid}, '
                'to the LPAR as this volume, but its place on the array leads '
                f'to another disk, with {volume.udid}. {ANEW}; if Nova does '
                'not show it as attached, reboot the server hard before',
                'another disk took its place. Detach it or, if it is '
                'unattached, reboot hard',
            ),
        )
    for one in server.mapped:
        # One to nobody without the tag can be open to any partition.
        is_known = one.lpar_uuid or one.kind
        if one.udid != volume.udid or (
            is_known and is_of(one, volume, lpar_uuid)
        ):
            continue
        if one.lpar_uuid == lpar_uuid:
            holder = f'LPAR {lpar_uuid} has it as volume {one.tag or "-"}'
        elif one.lpar_uuid:
            holder = f'it is mapped to LPAR {one.lpar_uuid}'
        else:
            holder = 'it is mapped to a partition that is gone'
        raise exception.VolumeInUse(
            volume=volume.id,
            disk=one.name,
            server=server.name,
            holder=holder,
        )


def check_free(
    volume: Volume, server: Server, disk: volume_mappings.Disk
) -> None:
    """Refuse a disk that no partition has, but something else.

    :raises exception.VolumeInUse: A volume group or a pool has it.
    """
    if disk.is_free or any(one.udid == disk.udid for one in server.mapped):
        return
    raise exception.VolumeInUse(
        volume=volume.id,
        disk=disk.name,
        server=server.name,
        holder='a volume group or a pool has it',
    )

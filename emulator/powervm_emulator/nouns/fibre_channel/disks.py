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

"""Disks of Virtual I/O Servers that are volumes of arrays.

A server has found a disk once, and keeps it until it is told to remove it,
whatever becomes of the volume. All that a disk says is of when it was found
last; only its bytes are the array's.
"""

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import san
from powervm_emulator.nouns.fibre_channel import ports
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import physical_volume

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
_CAPACITY = 'VolumeCapacity'
_MEGABYTE = 1 << 20


def seen(host: Host, vios: Partition) -> dict[str, san.Volume]:
    """Return the volumes that a server reaches now, by UDID."""
    if vios.state != partition_module.RUNNING:
        return {}
    return host.site.san.seen_by(ports.active(vios.system, vios.uuid))


def stale(host: Host, vios: Partition) -> set[str]:
    """Return the names of the disks whose volumes a server does not reach.

    Those of systems without described ports, which captures have, never are.
    """
    reached = seen(host, vios)
    return {
        content.text(disk, 'VolumeName')
        for disk in physical_volume.of(vios.element)
        if content.boolean(disk, 'IsFibreChannelBacked')
        and content.text(disk, physical_volume.UDID) not in reached
        and vios.system.fabrics
    }


def check_reached(host: Host, vios: Partition, disk: Element) -> None:
    """Refuse to map a disk that the server cannot read.

    :raises errors.Refused: its volume is not reached.
    """
    name = content.text(disk, 'VolumeName')
    if name in stale(host, vios):
        raise errors.Refused(
            f'{name} of {vios.name} cannot be opened: no path leads to it.'
        )


def find_volume(host: Host, vios: Partition, udid: str) -> san.Volume | None:
    """Return the volume of a disk that a server has and reaches."""
    known = physical_volume.find(vios, udid) is not None
    return seen(host, vios).get(udid) if known else None


def discover(
    host: Host, vios: Partition, volume: san.Volume, path: str
) -> Element:
    """Return the disk of a volume, which the server has from now on.

    :param path: the location code of the path by which it is found, for a
        disk that is new.
    """
    disk = physical_volume.find(vios, volume.udid)
    capacity = volume.size // _MEGABYTE
    if disk is None:
        disk = _new(vios, volume, capacity, path)
        section = content.section(vios.element, physical_volume.VOLUMES)
        section.append(disk)
    elif content.integer(disk, _CAPACITY) != capacity:
        content.put(disk, _CAPACITY, capacity)
        scsi_mapping.show(host, vios, disk)
    # It is behind a port, so no other change goes without one of these.
    if ports.list_disk(vios.element, disk, _reaching(host, vios, volume)):
        host.touch(vios)
    return disk


def _reaching(host: Host, vios: Partition, volume: san.Volume) -> set[str]:
    """Return the WWPNs of the ports of a server that reach a volume."""
    active = ports.active(vios.system, vios.uuid)
    return {
        wwpn
        for wwpn, fabric in active.items()
        if volume.udid in host.site.san.seen_by({wwpn: fabric})
    }


def _new(
    vios: Partition, volume: san.Volume, capacity: int, path: str
) -> Element:
    uid = volume.uid.upper()
    values: dict[str, content.Value] = {
        'Description': 'MPIO IBM 2076 FC Disk',
        'LocationCode': path,
        'PersistentReserveKeyValue': 'none',
        'ReservePolicy': volume.reserve_policy,
        physical_volume.UDID: volume.udid,
        physical_volume.AVAILABLE: True,
        _CAPACITY: capacity,
        'VolumeName': physical_volume.next_name(vios),
        'VolumeUniqueID': f'33213{uid}04214503IBMfcp',
        'IsFibreChannelBacked': True,
    }
    leaves = [content.leaf(*item) for item in values.items()]
    disk = content.new(physical_volume.VOLUME, *leaves)
    elements.fill(disk)
    elements.sort(disk)
    return disk


def summary(host: Host, vios: Partition) -> list[resource.JSON]:
    """Summarize the disks of a server; ``capacity`` is in MB."""
    unreached = stale(host, vios)
    return [
        {
            'name': (name := content.text(disk, 'VolumeName')),
            'udid': content.text(disk, physical_volume.UDID),
            'capacity': content.integer(disk, _CAPACITY),
            'available': physical_volume.is_free(disk),
            'stale': name in unreached,
        }
        for disk in physical_volume.of(vios.element)
    ]

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


"""Volume groups: where a Virtual I/O Server makes virtual disks."""

import dataclasses
from collections.abc import Iterator
from typing import Self

from nova_powervm.emulator import content
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import media as media_module
from nova_powervm.emulator.state import partition
from nova_powervm.emulator.state import resource
from nova_powervm.emulator.state import units

Element = content.Element
Host = host_module.Host
Repository = media_module.Repository

KIND = 'VolumeGroup'
DISK = 'VirtualDisk'
DISKS = 'VirtualDisks'

_UNIT_GB = 0.125
_ORDER = (
    'Metadata',
    'AvailableSize',
    'BackingDeviceCount',
    'FreeSpace',
    'GroupCapacity',
    'GroupName',
    'GroupSerialID',
    'GroupState',
    'MaximumLogicalVolumes',
    media_module.SECTION,
    'MinimumAllocationSize',
    'PhysicalVolumes',
    'UniqueDeviceID',
    DISKS,
)


@dataclasses.dataclass(frozen=True)
class Disk:
    """A virtual disk: a logical volume.

    :ivar element: as it is in the group's content, or as a client sent it.
    """

    element: Element

    @property
    def name(self) -> str:
        """DiskName."""
        return content.text(self.element, 'DiskName')

    @property
    def udid(self) -> str:
        """UniqueDeviceID; empty before the group has given it one."""
        return content.text(self.element, 'UniqueDeviceID')

    @property
    def capacity(self) -> float:
        """DiskCapacity in GB."""
        return content.number(self.element, 'DiskCapacity')

    @property
    def size(self) -> int:
        """The capacity in bytes."""
        return units.to_bytes(self.capacity)


class VolumeGroup(resource.Resource):
    """A volume group of one Virtual I/O Server.

    :param uuid: lower case, as all uuids but those of partitions.
    :param vios: whose group it is.
    """

    def __init__(
        self, uuid: str, vios: partition.Partition, element: Element
    ) -> None:
        super().__init__(KIND, uuid, element, parent=vios)
        self.vios = vios
        # The highest number that a disk's UDID has ended with.
        self.last_number = 0

    @property
    def name(self) -> str:
        """GroupName."""
        return self.text('GroupName')

    @property
    def capacity(self) -> float:
        """GroupCapacity in GB."""
        return self.number('GroupCapacity')

    @property
    def free(self) -> float:
        """FreeSpace in GB."""
        return self.number('FreeSpace')

    @property
    def serial(self) -> str:
        """GroupSerialID; the UDIDs of disks begin with it."""
        return self.text('GroupSerialID') or self.uuid.replace('-', '')

    @property
    def unit(self) -> float:
        """Disks are multiples of so many GB; 0 if the group does not say."""
        return self.number('MinimumAllocationSize')

    @property
    def disks(self) -> list[Disk]:
        """The virtual disks, in the order of the content."""
        path = f'{DISKS}/{DISK}'
        return [Disk(node) for node in content.find_all(self.element, path)]

    @property
    def repository(self) -> Repository | None:
        """The media repository in this group, None if it is elsewhere."""
        path = f'{media_module.SECTION}/{media_module.REPOSITORY}'
        found = content.find(self.element, path)
        return None if found is None else Repository(found)

    def take(self, amount: float) -> None:
        """Move GB from the free space; negative amounts give them back."""
        for name in ('FreeSpace', 'AvailableSize'):
            if content.find(self.element, name) is not None:
                left = round(self.number(name) - amount, 6)
                self.put(name, units.gigabytes(left))

    def draft(self) -> Self:
        """Return a group with a copy of the content, to make changes in."""
        return type(self)(self.uuid, self.vios, content.copy(self.element))

    def sort(self) -> None:
        """Put the content's elements into the schema's order."""
        content.sort_children(self.element, _ORDER)


def described(
    host: Host, vios: partition.Partition, name: str, capacity: float
) -> VolumeGroup:
    """Return a new group that is empty.

    :param capacity: in GB.
    """
    uuid = host.new_uuid()
    serial = f'{host.random.getrandbits(128):032x}'
    element = content.new(KIND)
    content.put(element, 'Metadata/Atom/AtomID', uuid)
    values = _values(name, units.gigabytes(capacity), serial)
    element.extend(content.leaf(*item) for item in values.items())
    for section in (media_module.SECTION, 'PhysicalVolumes', DISKS):
        element.append(content.new(section))
    group = VolumeGroup(uuid, vios, element)
    group.sort()
    return group


def _values(name: str, capacity: str, serial: str) -> dict[str, content.Value]:
    return {
        'AvailableSize': capacity,
        'BackingDeviceCount': 0,
        'FreeSpace': capacity,
        'GroupCapacity': capacity,
        'GroupName': name,
        'GroupSerialID': serial,
        'GroupState': 'active',
        'MinimumAllocationSize': units.gigabytes(_UNIT_GB),
        'UniqueDeviceID': f'04{serial}',
    }


def of(host: Host, vios: partition.Partition) -> Iterator[VolumeGroup]:
    """Yield the volume groups of a Virtual I/O Server."""
    yield from host.of_type(VolumeGroup, vios)


def find_disk(host: Host, vios: partition.Partition, udid: str) -> Disk | None:
    """Return the disk of a Virtual I/O Server with a UDID, or None."""
    for group in of(host, vios):
        for disk in group.disks:
            if disk.udid == udid:
                return disk
    return None


def repository_group(
    host: Host, vios: partition.Partition
) -> VolumeGroup | None:
    """Return the group that has a VIOS's media repository, or None."""
    for group in of(host, vios):
        if group.repository is not None:
            return group
    return None

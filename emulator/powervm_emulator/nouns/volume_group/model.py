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

"""Volume groups with their virtual disks and media repository."""

import dataclasses
from collections.abc import Iterator
from typing import Self

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import fields
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import units
from powervm_emulator.nouns.fibre_channel import disks
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import physical_volume

Element = content.Element
Partition = partition_module.Partition
Host = host_module.Host


MEDIA = 'MediaRepositories'
REPOSITORY = 'VirtualMediaRepository'
MEDIUM = 'VirtualOpticalMedia'
_MEDIA_LIST = 'OpticalMedia'
KIND = 'VolumeGroup'
DISK = 'VirtualDisk'
DISKS = 'VirtualDisks'
_UNIT_GB = 0.125


@dataclasses.dataclass(frozen=True)
class Medium:
    """Virtual optical media.

    :ivar element: as it is in the repository, or as a client sent it.
    """

    element: Element

    name = fields.text('MediaName')
    udid = fields.text('MediaUDID')
    size = fields.number('Size')  # in GB

    def resize(self, size: float) -> None:
        """Write the size in GB."""
        content.put(self.element, 'Size', f'{size:.6f}')


@dataclasses.dataclass(frozen=True)
class Repository:
    """A media repository.

    :ivar element: as it is in the volume group, or as a client sent it.
    """

    element: Element

    name = fields.text('RepositoryName')
    size = fields.number('RepositorySize')  # in GB

    @property
    def media(self) -> list[Medium]:
        """The media, in the order of the content."""
        path = f'{_MEDIA_LIST}/{MEDIUM}'
        return [Medium(node) for node in content.find_all(self.element, path)]

    @property
    def free(self) -> float:
        """GB that no media take."""
        return self.size - sum(medium.size for medium in self.media)

    def find(self, udid: str) -> Medium | None:
        """Return the medium with a UDID, or None."""
        for medium in self.media:
            if medium.udid == udid:
                return medium
        return None

    def add(self, name: str, size: float, mount_type: str = 'rw') -> Medium:
        """Add a medium.

        :param size: in GB.
        """
        medium = Medium(
            content.new(
                MEDIUM,
                content.leaf('MediaName', name),
                content.leaf('MediaUDID', udid_of(name)),
                content.leaf('MountType', mount_type or 'rw'),
            )
        )
        medium.resize(size)
        content.section(self.element, _MEDIA_LIST).append(medium.element)
        return medium

    def remove(self, medium: Medium) -> None:
        """Remove one of the media."""
        medium.element.getparent().remove(medium.element)


@dataclasses.dataclass(frozen=True)
class Disk:
    """A virtual disk: a logical volume.

    :ivar element: as it is in the group's content, or as a client sent it.
    """

    element: Element

    name = fields.text('DiskName')
    #: Empty before the group has given it one.
    udid = fields.text('UniqueDeviceID')
    capacity = fields.number('DiskCapacity')  # in GB

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
        self, uuid: str, element: Element, vios: partition_module.Partition
    ) -> None:
        super().__init__(KIND, uuid, element, parent=vios)
        self.vios = vios
        # The highest number that a disk's UDID has ended with.
        self.last_number = 0

    name = fields.text('GroupName')
    capacity = fields.number('GroupCapacity')  # in GB
    free = fields.number('FreeSpace')  # in GB

    @property
    def serial(self) -> str:
        """GroupSerialID; the UDIDs of disks begin with it."""
        return self.text('GroupSerialID') or self.uuid.replace('-', '')

    #: Disks are multiples of so many GB; 0 if the group does not say.
    unit = fields.number('MinimumAllocationSize')

    @property
    def disks(self) -> list[Disk]:
        """The virtual disks, in the order of the content."""
        path = f'{DISKS}/{DISK}'
        return [Disk(node) for node in content.find_all(self.element, path)]

    @property
    def repository(self) -> Repository | None:
        """The media repository in this group, None if it is elsewhere."""
        path = f'{MEDIA}/{REPOSITORY}'
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
        return type(self)(self.uuid, content.copy(self.element), self.vios)

    def sort(self) -> None:
        """Put the content's elements into the schema's order."""
        elements.sort(self.element)


def udid_of(name: str) -> str:
    """Return the MediaUDID that a Virtual I/O Server makes of a name."""
    return f'0e{name}'


def new_repository(name: str, size: float) -> Repository:
    """Return a repository without media.

    :param size: in GB.
    """
    element = content.new(
        REPOSITORY,
        content.new(_MEDIA_LIST),
        content.leaf('RepositoryName', name),
        content.leaf('RepositorySize', units.gigabytes(size)),
    )
    return Repository(element)


def described(
    host: Host, vios: partition_module.Partition, name: str, capacity: float
) -> VolumeGroup:
    """Return a new group that is empty, on a new disk of its server.

    :param capacity: in GB.
    """
    group = new(host, vios, name, capacity)
    physical_volume.add(vios, group.element, capacity, group.serial)
    group.sort()
    return group


def new(
    host: Host, vios: Partition, name: str, capacity: float
) -> VolumeGroup:
    """Return a new group that is empty, without its physical volumes.

    :param capacity: in GB.
    """
    uuid = host.new_uuid()
    serial = f'{host.random.getrandbits(128):032x}'
    element = content.new(KIND)
    values = _values(name, units.gigabytes(capacity), serial)
    element.extend(content.leaf(*item) for item in values.items())
    for section in (MEDIA, DISKS):
        element.append(content.new(section))
    elements.fill(element)
    return VolumeGroup(uuid, element, vios)


def _values(name: str, capacity: str, serial: str) -> dict[str, content.Value]:
    return {
        'AvailableSize': capacity,
        'FreeSpace': capacity,
        'GroupCapacity': capacity,
        'GroupName': name,
        'GroupSerialID': serial,
        'MinimumAllocationSize': units.gigabytes(_UNIT_GB),
        'UniqueDeviceID': f'04{serial}',
    }


def of(host: Host, vios: partition_module.Partition) -> Iterator[VolumeGroup]:
    """Yield the volume groups of a Virtual I/O Server."""
    yield from host.of_type(VolumeGroup, vios)


def find_disk(
    host: Host, vios: partition_module.Partition, udid: str
) -> Disk | None:
    """Return the disk of a Virtual I/O Server with a UDID, or None."""
    for group in of(host, vios):
        for disk in group.disks:
            if disk.udid == udid:
                return disk
    return None


def repository_group(
    host: Host, vios: partition_module.Partition
) -> VolumeGroup | None:
    """Return the group that has a VIOS's media repository, or None."""
    for group in of(host, vios):
        if group.repository is not None:
            return group
    return None


def summary(host: Host, vios: Partition) -> resource.JSON:
    """Summarize the volume groups, disks and SCSI mappings of a VIOS."""
    return {
        'volume_groups': [_group(host, group) for group in of(host, vios)],
        'scsi_mappings': [
            scsi_mapping.summary(host, mapping)
            for mapping in scsi_mapping.of(vios)
        ],
        'physical_volumes': disks.summary(host, vios),
    }


def _group(host: Host, group: VolumeGroup) -> resource.JSON:
    """Summarize a volume group; capacities are in GB, sizes in bytes."""
    return {
        'name': group.name,
        'uuid': group.uuid,
        'capacity': group.capacity,
        'free': group.free,
        'disks': [
            {
                'name': disk.name,
                'udid': disk.udid,
                'capacity': disk.capacity,
                **_contents(host, group.vios, disk.udid),
            }
            for disk in group.disks
        ],
        'media_repository': _repository(host, group),
    }


def _repository(host: Host, group: VolumeGroup) -> resource.JSON | None:
    repository = group.repository
    if repository is None:
        return None
    return {
        'name': repository.name,
        'size': repository.size,
        'media': [
            {
                'name': medium.name,
                'udid': medium.udid,
                **_contents(host, group.vios, medium.udid),
            }
            for medium in repository.media
        ],
    }


def _contents(host: Host, vios: Partition, udid: str) -> resource.JSON:
    found = host.contents.find(vios.uuid, udid)
    if found is None:
        return {'size': 0, 'sha256': None}
    return {'size': found.size, 'sha256': found.sha256}

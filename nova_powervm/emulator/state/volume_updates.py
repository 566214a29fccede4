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


"""Changing a volume group to what a client has posted of it."""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import mappings
from nova_powervm.emulator.state import repositories
from nova_powervm.emulator.state import units
from nova_powervm.emulator.state import volume_rules as rules
from nova_powervm.emulator.state import volumes

Element = content.Element
Host = host_module.Host
Disk = volumes.Disk
VolumeGroup = volumes.VolumeGroup

_DISK_ORDER = (
    'Metadata',
    'ReadIOPS',
    'WriteIOPS',
    'EncryptionState',
    'EncryptionKey',
    'EncryptionAgent',
    'Tag',
    'EmulateModel',
    'DiskCapacity',
    'DiskLabel',
    'DiskName',
    'MaxLogicalVolumes',
    'PartitionSize',
    'VolumeGroup',
    'BaseImage',
    'UniqueDeviceID',
    'VirtualDiskType',
    'BackStoreType',
    'FileFormat',
    'RbdUser',
    'OptionalParameters',
)


def update(host: Host, group: VolumeGroup, body: Element) -> None:
    """Make, resize and remove disks, media and the repository, or refuse.

    :param body: the full content. What is not in a list is removed; a list
        that is not there is not changed.
    :raises errors.RestError: nothing changed.
    """
    if content.local_name(body) != volumes.KIND:
        raise errors.BadRequest(
            f'The body is a {content.local_name(body)}, not a {volumes.KIND}.'
        )
    _check_volumes(group, body)
    changes = _Changes(host, group)
    changes.settle_disks(body)
    media = repositories.settle(host, changes.draft, body)
    rules.check_space(changes.draft, group.free)
    changes.apply()
    for udid in media.gone:
        host.contents.drop(group.vios.uuid, udid)
    if media.changed:
        repositories.show(host, group)


class _Changes:
    """What is to become of the disks of a group.

    :ivar draft: the group as it is to be.
    """

    def __init__(self, host: Host, group: VolumeGroup) -> None:
        self.draft = group.draft()
        self._host = host
        self._group = group
        self._gone: list[str] = []
        self._grown: list[str] = []
        # UDIDs of new disks, and of the images they begin with.
        self._images: dict[str, str] = {}

    def settle_disks(self, body: Element) -> None:
        """Work out what a posted list of disks means for the draft."""
        section = content.find(body, volumes.DISKS)
        if section is None:
            return
        posted = [
            Disk(node) for node in content.find_all(section, volumes.DISK)
        ]
        present = {disk.udid: disk for disk in self.draft.disks}
        named = [disk.udid for disk in posted if disk.udid]
        _check_known(self._group, named, present)
        for udid, disk in present.items():
            if udid not in named:
                self._remove(disk)
        for disk in posted:
            if disk.udid:
                self._resize(present[disk.udid], disk)
            else:
                self._add(disk)

    def apply(self) -> None:
        """Make the draft the group."""
        group, contents = self._group, self._host.contents
        group.element = self.draft.element
        group.sort()
        for udid in self._gone:
            contents.drop(group.vios.uuid, udid)
        for udid, image in self._images.items():
            contents.copy(group.vios.uuid, image, udid)
        self._host.touch(group)
        for disk in group.disks:
            if disk.udid in self._grown:
                mappings.show(self._host, group.vios, disk.element)

    def _remove(self, disk: Disk) -> None:
        rules.check_unmapped(self._group.vios, disk.udid, disk.name)
        self.draft.take(-disk.capacity)
        disk.element.getparent().remove(disk.element)
        self._gone.append(disk.udid)

    def _resize(self, disk: Disk, posted: Disk) -> None:
        if posted.name != disk.name:
            raise errors.Conflict(
                f'The virtual disk {disk.name!r} cannot be renamed.'
            )
        wanted = units.read(posted.element, 'DiskCapacity')
        if wanted < disk.capacity:
            raise errors.Conflict(
                f'The virtual disk {disk.name!r} of {disk.capacity:g} GB '
                f'cannot shrink to {wanted:g} GB.'
            )
        if wanted > disk.capacity:
            rounded = units.round_up(wanted, self.draft.unit)
            self.draft.take(rounded - disk.capacity)
            capacity = units.gigabytes(rounded)
            content.put(disk.element, 'DiskCapacity', capacity)
            self._grown.append(disk.udid)

    def _add(self, posted: Disk) -> None:
        element = content.copy(posted.element)
        disk = Disk(element)
        rules.check_disk_name(self._host, self.draft, disk.name)
        kind = content.text(element, 'VirtualDiskType', 'LogicalVolume')
        if kind != 'LogicalVolume':
            raise errors.BadRequest(
                f'A volume group has no virtual disks of the type {kind!r}.'
            )
        wanted = units.read(element, 'DiskCapacity')
        capacity = units.round_up(wanted, self.draft.unit)
        content.put(element, 'DiskCapacity', units.gigabytes(capacity))
        udid = _new_udid(self.draft, self._group)
        content.put(element, 'UniqueDeviceID', udid)
        self._take_image(disk)
        element.append(_group_link(self._group))
        content.sort_children(element, _DISK_ORDER)
        content.section(self.draft.element, volumes.DISKS).append(element)
        self.draft.take(capacity)

    def _take_image(self, disk: Disk) -> None:
        """Note the image that a new disk is to be a copy of."""
        image = content.text(disk.element, 'BaseImage')
        content.remove(disk.element, ['BaseImage', 'VolumeGroup'])
        if not image:
            return
        found = volumes.find_disk(self._host, self._group.vios, image)
        if found is None:
            raise errors.Conflict(
                f'There is no virtual disk with the UDID {image} to copy.'
            )
        if found.size > disk.size:
            raise errors.Conflict(
                f'The image {found.name!r} of {found.capacity:g} GB does not '
                f'fit into the {disk.capacity:g} GB of {disk.name!r}.'
            )
        self._images[disk.udid] = image


def _check_known(
    group: VolumeGroup, named: list[str], present: dict[str, Disk]
) -> None:
    """Refuse UDIDs that the group does not have, or that come twice."""
    for udid in named:
        if udid not in present:
            raise errors.Conflict(
                f'The volume group {group.name!r} has no virtual disk with '
                f'the UDID {udid}.'
            )
    if len(set(named)) != len(named):
        raise errors.BadRequest('A virtual disk is named more than once.')


def _check_volumes(group: VolumeGroup, body: Element) -> None:
    """Physical volumes of a group stay what they are."""
    path = 'PhysicalVolumes/PhysicalVolume'
    names = [
        {
            content.text(volume, 'VolumeName')
            for volume in content.find_all(element, path)
        }
        for element in (group.element, body)
    ]
    if content.find(body, 'PhysicalVolumes') is not None and (
        names[0] != names[1]
    ):
        raise errors.BadRequest(
            'This server does not change the physical volumes of a group.'
        )


def _new_udid(draft: VolumeGroup, group: VolumeGroup) -> str:
    """Return the UDID of a new disk, one that no disk has had."""
    numbers = [0]
    for disk in (*draft.disks, *group.disks):
        number = disk.udid.rpartition('.')[2]
        numbers.append(int(number) if number.isdigit() else 0)
    group.last_number = max(group.last_number, *numbers) + 1
    return f'03{group.serial}.{group.last_number}'


def _group_link(group: VolumeGroup) -> Element:
    link = content.leaf('VolumeGroup')
    link.set('href', group.event_path)
    link.set('rel', 'related')
    return link

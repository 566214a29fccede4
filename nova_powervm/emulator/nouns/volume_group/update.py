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

import dataclasses
from typing import Any

from nova_powervm.emulator.core import content
from nova_powervm.emulator.core import elements
from nova_powervm.emulator.core import errors
from nova_powervm.emulator.core import groups as groups_module
from nova_powervm.emulator.core import host as host_module
from nova_powervm.emulator.core import units
from nova_powervm.emulator.nouns.partition import document
from nova_powervm.emulator.nouns.virtual_scsi_mapping import (
    model as virtual_scsi_mapping,
)
from nova_powervm.emulator.nouns.volume_group import model as volume_group
from nova_powervm.emulator.nouns.volume_group import (
    rules as volume_group_rules,
)

Host = host_module.Host
Element = content.Element
Medium = volume_group.Medium
Repository = volume_group.Repository
Disk = volume_group.Disk
VolumeGroup = volume_group.VolumeGroup


Spec = dict[str, Any]


@dataclasses.dataclass
class _RepositoryChange:
    """What has become of a repository.

    :ivar changed: whether anything has.
    :ivar gone: UDIDs of the media that were removed.
    """

    changed: bool = False
    gone: list[str] = dataclasses.field(default_factory=list)


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
        section = content.find(body, volume_group.DISKS)
        if section is None:
            return
        posted = [
            Disk(node) for node in content.find_all(section, volume_group.DISK)
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
                virtual_scsi_mapping.show(self._host, group.vios, disk.element)

    def _remove(self, disk: Disk) -> None:
        virtual_scsi_mapping.check_unmapped(
            self._group.vios, disk.udid, disk.name
        )
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
        volume_group_rules.check_disk_name(self._host, self.draft, disk.name)
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
        elements.sort(element)
        content.section(self.draft.element, volume_group.DISKS).append(element)
        self.draft.take(capacity)

    def _take_image(self, disk: Disk) -> None:
        """Note the image that a new disk is to be a copy of."""
        image = content.text(disk.element, 'BaseImage')
        content.remove(disk.element, ['BaseImage', 'VolumeGroup'])
        if not image:
            return
        found = volume_group.find_disk(self._host, self._group.vios, image)
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


def update(
    host: Host,
    group: VolumeGroup,
    body: Element,
    _groups: groups_module.Groups = groups_module.ALL,
) -> None:
    """Make, resize and remove disks, media and the repository, or refuse.

    :param body: the full content. What is not in a list is removed; a list
        that is not there is not changed.
    :raises errors.RestError: nothing changed.
    """
    _check_volumes(group, body)
    changes = _Changes(host, group)
    changes.settle_disks(body)
    media = _settle_repository(host, changes.draft, body)
    volume_group_rules.check_space(changes.draft, group.free)
    changes.apply()
    for udid in media.gone:
        host.contents.drop(group.vios.uuid, udid)
    if media.changed:
        show_repository(host, group)


def _settle_repository(
    host: Host, draft: VolumeGroup, body: Element
) -> _RepositoryChange:
    """Make, resize or remove the repository of a draft, and its media.

    :param draft: the group as it is to be.
    :param body: the content that a client has posted.
    """
    if content.find(body, volume_group.MEDIA) is None:
        return _RepositoryChange()
    path = f'{volume_group.MEDIA}/{volume_group.REPOSITORY}'
    found = [Repository(node) for node in content.find_all(body, path)]
    present = draft.repository
    if not found:
        return (
            _remove_repository(draft, present)
            if present
            else _RepositoryChange()
        )
    if len(found) > 1:
        raise errors.Conflict('A volume group has one media repository.')
    if present is None:
        return _create_repository(host, draft, found[0])
    change = _RepositoryChange(
        changed=_resize_repository(draft, present, found[0])
    )
    _settle_media(draft, present, found[0], change)
    return change


def show_repository(host: Host, group: VolumeGroup) -> None:
    """Write a changed repository to the VIOS's own content."""
    vios = group.vios
    section = content.section(vios.element, volume_group.MEDIA)
    section.set('group', 'ViosStorage')
    content.remove(section, [volume_group.REPOSITORY])
    repository = group.repository
    if repository is not None:
        section.append(content.copy(repository.element))
    document.sort(vios.element)
    host.touch(vios)


def _create_repository(
    host: Host, draft: VolumeGroup, posted: Repository
) -> _RepositoryChange:
    volume_group_rules.check_only_repository(host, draft)
    volume_group_rules.check_name(
        posted.name, volume_group_rules.MAX_DISK_NAME, 'media repository'
    )
    size = units.read(posted.element, 'RepositorySize')
    size = units.round_up(size, draft.unit)
    made = volume_group.new_repository(posted.name, size)
    content.section(draft.element, volume_group.MEDIA).append(made.element)
    draft.take(size)
    for medium in posted.media:
        _add_blank(made, medium)
    return _RepositoryChange(changed=True)


def _remove_repository(
    draft: VolumeGroup, present: Repository
) -> _RepositoryChange:
    if present.media:
        raise errors.Conflict(
            f'The media repository {present.name!r} has media and cannot be '
            'removed.'
        )
    draft.take(-present.size)
    present.element.getparent().remove(present.element)
    return _RepositoryChange(changed=True)


def _resize_repository(
    draft: VolumeGroup, present: Repository, posted: Repository
) -> bool:
    if posted.name != present.name:
        raise errors.Conflict(
            f'The media repository {present.name!r} cannot be renamed.'
        )
    wanted = units.read(posted.element, 'RepositorySize')
    if wanted < present.size:
        raise errors.Conflict(
            f'The media repository {present.name!r} cannot shrink.'
        )
    if wanted == present.size:
        return False
    rounded = units.round_up(wanted, draft.unit)
    draft.take(rounded - present.size)
    size = units.gigabytes(rounded)
    content.put(present.element, 'RepositorySize', size)
    return True


def _settle_media(
    draft: VolumeGroup,
    present: Repository,
    posted: Repository,
    change: _RepositoryChange,
) -> None:
    kept = {medium.udid or medium.name for medium in posted.media}
    for medium in present.media:
        if kept.isdisjoint((medium.udid, medium.name)):
            virtual_scsi_mapping.check_unmapped(
                draft.vios, medium.udid, medium.name
            )
            present.remove(medium)
            change.gone.append(medium.udid)
    names = {medium.name for medium in present.media}
    for medium in posted.media:
        if medium.name not in names:
            _add_blank(present, medium)
            change.changed = True
    change.changed |= bool(change.gone)


def _add_blank(repository: Repository, posted: Medium) -> None:
    """Add a medium that a client has listed instead of uploading it."""
    if posted.udid:
        raise errors.Conflict(
            f'The repository {repository.name!r} has no media with the UDID '
            f'{posted.udid}.'
        )
    volume_group_rules.check_media_name(repository, posted.name)
    size = units.read(posted.element, 'Size')
    mount_type = content.text(posted.element, 'MountType')
    repository.add(posted.name, size, mount_type)
    volume_group_rules.check_repository_space(repository)


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
        numbers.append(int(number) if content.is_whole(number) else 0)
    group.last_number = max(group.last_number, *numbers) + 1
    return f'03{group.serial}.{group.last_number}'


def _group_link(group: VolumeGroup) -> Element:
    link = content.leaf('VolumeGroup')
    link.set('href', group.event_path)
    link.set('rel', 'related')
    return link

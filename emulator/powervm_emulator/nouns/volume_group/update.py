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

from collections.abc import Iterable

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import document
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import physical_volume
from powervm_emulator.nouns.volume_group import rules as volume_group_rules

Host = host_module.Host
Element = content.Element
Medium = volume_group.Medium
Repository = volume_group.Repository
Disk = volume_group.Disk
VolumeGroup = volume_group.VolumeGroup


class _Changes:
    """What is to become of a group.

    :ivar draft: the group as it is to be.
    :ivar media_changed: whether the repository or its media are to change.
    """

    def __init__(self, host: Host, group: VolumeGroup) -> None:
        self.draft = group.draft()
        self.media_changed = False
        self._host = host
        self._group = group
        # UDIDs of disks and media that are removed.
        self._gone: set[str] = set()
        self._added: set[str] = set()
        self._grown: set[str] = set()
        # UDIDs of new disks, and of the images they begin with.
        self._images: dict[str, str] = {}
        # All disks of the VIOS, and the volume groups of their names: a list
        # of many new disks must not search them for each one.
        self._disks: dict[str, Disk] = {}
        self._names: dict[str, str] = {}
        self._devices = {
            content.text(volume, 'VolumeName')
            for volume in physical_volume.of(group.vios.element)
        }
        for other in volume_group.of(host, group.vios):
            self._devices.add(other.name)
            for disk in other.disks:
                self._disks[disk.udid] = disk
                self._names[disk.name] = other.name
        self._last_number = max(
            [group.last_number, *(_number(disk) for disk in group.disks)]
        )

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
        self._forget(present.keys() - set(named))
        for udid, disk in present.items():
            if udid in self._gone:
                self._remove(disk)
        for disk in posted:
            if disk.udid:
                self._resize(present[disk.udid], disk)
            else:
                self._add(disk)

    def _forget(self, udids: Iterable[str]) -> None:
        """Note disks or media that are removed."""
        gone = set(udids)
        scsi_mapping.check_unmapped(self._group.vios, gone)
        self._gone |= gone

    def _remove(self, disk: Disk) -> None:
        self.draft.take(-disk.capacity)
        self._names.pop(disk.name, None)
        disk.element.getparent().remove(disk.element)

    def _resize(self, disk: Disk, posted: Disk) -> None:
        if posted.name != disk.name:
            raise errors.Refused(
                f'The virtual disk {disk.name!r} cannot be renamed.'
            )
        wanted = units.read(posted.element, 'DiskCapacity')
        if wanted < disk.capacity:
            raise errors.Refused(
                f'The virtual disk {disk.name!r} of {disk.capacity:g} GB '
                f'cannot shrink to {wanted:g} GB.'
            )
        if wanted > disk.capacity:
            rounded = units.round_up(wanted, self.draft.unit)
            self.draft.take(rounded - disk.capacity)
            capacity = units.gigabytes(rounded)
            content.put(disk.element, 'DiskCapacity', capacity)
            self._grown.add(disk.udid)

    def _add(self, posted: Disk) -> None:
        element = content.copy(posted.element)
        disk = Disk(element)
        volume_group_rules.check_running(self._group.vios)
        volume_group_rules.check_disk_name(
            disk.name, self._names, self._devices
        )
        self._names[disk.name] = self._group.name
        kind = content.text(element, 'VirtualDiskType', 'LogicalVolume')
        if kind != 'LogicalVolume':
            raise errors.Refused(
                f'A volume group has no virtual disks of the type {kind!r}.'
            )
        wanted = units.read(element, 'DiskCapacity')
        capacity = units.round_up(wanted, self.draft.unit)
        content.put(element, 'DiskCapacity', units.gigabytes(capacity))
        # One that no disk has had.
        self._last_number += 1
        udid = f'03{self._group.serial}.{self._last_number}'
        content.put(element, 'UniqueDeviceID', udid)
        self._added.add(udid)
        self._take_image(disk)
        link = content.link(self._group.event_path, volume_group.KIND)
        element.append(link)
        elements.sort(element)
        content.section(self.draft.element, volume_group.DISKS).append(element)
        self.draft.take(capacity)

    def _take_image(self, disk: Disk) -> None:
        """Note the image that a new disk is to be a copy of."""
        image = content.text(disk.element, 'BaseImage')
        content.remove(disk.element, ['BaseImage', 'VolumeGroup'])
        if not image:
            return
        found = self._disks.get(image)
        if found is None:
            raise errors.Refused(
                f'There is no virtual disk with the UDID {image} to copy.'
            )
        if found.size > disk.size:
            raise errors.Refused(
                f'The image {found.name!r} of {found.capacity:g} GB does not '
                f'fit into the {disk.capacity:g} GB of {disk.name!r}.'
            )
        self._images[disk.udid] = image

    def apply(self) -> None:
        """Make the draft the group."""
        group, contents = self._group, self._host.contents
        group.element = self.draft.element
        group.last_number = self._last_number
        group.sort()
        for udid in self._gone:
            contents.drop(group.vios.uuid, udid)
        self._soil()
        for udid, image in self._images.items():
            contents.copy(group.vios.uuid, image, udid)
        self._host.touch(group)
        for disk in group.disks if self._grown else ():
            if disk.udid in self._grown:
                scsi_mapping.show(self._host, group.vios, disk.element)
        if self.media_changed:
            show_repository(self._host, group)

    def _soil(self) -> None:
        """Let new and grown disks have what deleted ones have left."""
        residue = self._host.behaviour.residue
        for disk in self._group.disks if residue else ():
            if disk.udid in self._added | self._grown:
                self._host.contents.soil(
                    self._group.vios.uuid, disk.udid, disk.size, residue
                )

    def settle_repository(self, body: Element) -> None:
        """Work out what a posted repository means for the draft."""
        if content.find(body, volume_group.MEDIA) is None:
            return
        path = f'{volume_group.MEDIA}/{volume_group.REPOSITORY}'
        posted = [Repository(node) for node in content.find_all(body, path)]
        if len(posted) > 1:
            raise errors.Refused('A volume group has one media repository.')
        present = self.draft.repository
        if not posted:
            if present is not None:
                self._remove_repository(present)
        elif present is None:
            self._create_repository(posted[0])
        else:
            self._resize_repository(present, posted[0])
            self._settle_media(present, posted[0])

    def _create_repository(self, posted: Repository) -> None:
        volume_group_rules.check_only_repository(self._host, self.draft)
        volume_group_rules.check_name(
            posted.name, volume_group_rules.MAX_DISK_NAME, 'media repository'
        )
        size = units.read(posted.element, 'RepositorySize')
        size = units.round_up(size, self.draft.unit)
        made = volume_group.new_repository(posted.name, size)
        section = content.section(self.draft.element, volume_group.MEDIA)
        section.append(made.element)
        self.draft.take(size)
        _add_media(made, posted.media)
        self.media_changed = True

    def _remove_repository(self, present: Repository) -> None:
        if present.media:
            raise errors.Refused(
                f'The media repository {present.name!r} has media and cannot '
                'be removed.'
            )
        self.draft.take(-present.size)
        present.element.getparent().remove(present.element)
        self.media_changed = True

    def _resize_repository(
        self, present: Repository, posted: Repository
    ) -> None:
        if posted.name != present.name:
            raise errors.Refused(
                f'The media repository {present.name!r} cannot be renamed.'
            )
        wanted = units.read(posted.element, 'RepositorySize')
        if wanted < present.size:
            raise errors.Refused(
                f'The media repository {present.name!r} cannot shrink.'
            )
        if wanted > present.size:
            rounded = units.round_up(wanted, self.draft.unit)
            self.draft.take(rounded - present.size)
            size = units.gigabytes(rounded)
            content.put(present.element, 'RepositorySize', size)
            self.media_changed = True

    def _settle_media(self, present: Repository, posted: Repository) -> None:
        kept = {medium.udid or medium.name for medium in posted.media}
        gone = [
            medium
            for medium in present.media
            if kept.isdisjoint((medium.udid, medium.name))
        ]
        self._forget(medium.udid for medium in gone)
        for medium in gone:
            present.remove(medium)
        names = {medium.name for medium in present.media}
        new = [one for one in posted.media if one.name not in names]
        _add_media(present, new)
        self.media_changed |= bool(gone or new)


def update(
    host: Host,
    group: VolumeGroup,
    body: Element,
    _groups: groups_module.Groups = groups_module.ALL,
) -> None:
    """Make, resize and remove disks, media and the repository, or refuse.

    Others can read the group while a long list is worked out.

    :param body: the full content. What is not in a list is removed; a list
        that is not there is not changed.
    :raises errors.RestError: nothing changed.
    """
    with host.drafting():
        changes = prepare(host, group, body)
    changes.apply()


def prepare(host: Host, group: VolumeGroup, body: Element) -> _Changes:
    """Return the changes that :func:`update` makes, or refuse.

    :raises errors.RestError: the changes are not possible.
    """
    _check_volumes(group, body)
    changes = _Changes(host, group)
    changes.settle_disks(body)
    changes.settle_repository(body)
    volume_group_rules.check_space(changes.draft, group.free)
    return changes


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


def _add_media(repository: Repository, posted: Iterable[Medium]) -> None:
    """Add media that a client has listed instead of uploading them."""
    names = {medium.name for medium in repository.media}
    for medium in posted:
        if medium.udid:
            raise errors.Refused(
                f'The repository {repository.name!r} has no media with the '
                f'UDID {medium.udid}.'
            )
        volume_group_rules.check_media_name(repository, medium.name, names)
        names.add(medium.name)
        size = units.read(medium.element, 'Size')
        mount_type = content.text(medium.element, 'MountType')
        repository.add(medium.name, size, mount_type)
    volume_group_rules.check_repository_space(repository)


def _check_known(
    group: VolumeGroup, named: list[str], present: dict[str, Disk]
) -> None:
    """Refuse UDIDs that the group does not have, or that come twice."""
    for udid in named:
        if udid not in present:
            raise errors.Refused(
                f'The volume group {group.name!r} has no virtual disk with '
                f'the UDID {udid}.'
            )
    if len(set(named)) != len(named):
        raise errors.Refused('A virtual disk is named more than once.')


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
        raise errors.Refused(
            'This server does not change the physical volumes of a group.'
        )


def _number(disk: Disk) -> int:
    """Return the number that a disk's UDID ends with, or 0."""
    number = disk.udid.rpartition('.')[2]
    return int(number) if content.is_whole(number) else 0

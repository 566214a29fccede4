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


"""Changing the media repository of a Virtual I/O Server."""

import dataclasses

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import media as media_module
from nova_powervm.emulator.state import schema
from nova_powervm.emulator.state import units
from nova_powervm.emulator.state import volume_rules as rules
from nova_powervm.emulator.state import volumes

Element = content.Element
Host = host_module.Host
Medium = media_module.Medium
Repository = media_module.Repository
VolumeGroup = volumes.VolumeGroup


@dataclasses.dataclass
class Change:
    """What has become of a repository.

    :ivar changed: whether anything has.
    :ivar gone: UDIDs of the media that were removed.
    """

    changed: bool = False
    gone: list[str] = dataclasses.field(default_factory=list)


def settle(host: Host, draft: VolumeGroup, body: Element) -> Change:
    """Make, resize or remove the repository of a draft, and its media.

    :param draft: the group as it is to be.
    :param body: the content that a client has posted.
    """
    if content.find(body, media_module.SECTION) is None:
        return Change()
    path = f'{media_module.SECTION}/{media_module.REPOSITORY}'
    found = [Repository(node) for node in content.find_all(body, path)]
    present = draft.repository
    if not found:
        return _remove(draft, present) if present else Change()
    if len(found) > 1:
        raise errors.Conflict('A volume group has one media repository.')
    if present is None:
        return _create(host, draft, found[0])
    change = Change(changed=_resize(draft, present, found[0]))
    _settle_media(draft, present, found[0], change)
    return change


def show(host: Host, group: VolumeGroup) -> None:
    """Write a changed repository to the VIOS's own content."""
    vios = group.vios
    section = content.section(vios.element, media_module.SECTION)
    section.set('group', 'ViosStorage')
    content.remove(section, [media_module.REPOSITORY])
    repository = group.repository
    if repository is not None:
        section.append(content.copy(repository.element))
    schema.sort_partition(vios.element, vios.kind)
    host.touch(vios)


def _create(host: Host, draft: VolumeGroup, posted: Repository) -> Change:
    rules.check_only_repository(host, draft)
    rules.check_name(posted.name, rules.MAX_DISK_NAME, 'media repository')
    size = units.read(posted.element, 'RepositorySize')
    size = units.round_up(size, draft.unit)
    made = media_module.new_repository(posted.name, size)
    content.section(draft.element, media_module.SECTION).append(made.element)
    draft.take(size)
    for medium in posted.media:
        _add_blank(made, medium)
    return Change(changed=True)


def _remove(draft: VolumeGroup, present: Repository) -> Change:
    if present.media:
        raise errors.Conflict(
            f'The media repository {present.name!r} has media and cannot be '
            'removed.'
        )
    draft.take(-present.size)
    present.element.getparent().remove(present.element)
    return Change(changed=True)


def _resize(
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
    change: Change,
) -> None:
    kept = {medium.udid or medium.name for medium in posted.media}
    for medium in present.media:
        if kept.isdisjoint((medium.udid, medium.name)):
            rules.check_unmapped(draft.vios, medium.udid, medium.name)
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
    rules.check_media_name(repository, posted.name)
    size = units.read(posted.element, 'Size')
    mount_type = content.text(posted.element, 'MountType')
    repository.add(posted.name, size, mount_type)
    rules.check_repository_space(repository)

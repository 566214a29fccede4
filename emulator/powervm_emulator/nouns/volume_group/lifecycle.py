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

"""Making volume groups of free physical volumes, and deleting them."""

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import physical_volume
from powervm_emulator.nouns.volume_group import rules

Host = host_module.Host
Partition = partition_module.Partition
VolumeGroup = volume_group.VolumeGroup
# The server itself is on it.
_SYSTEM = 'rootvg'
_MEGABYTES = 1024


def create(host: Host, vios: Partition, body: content.Element) -> VolumeGroup:
    """Make a group with the name and the physical volumes of a posted body.

    :raises errors.RestError: the server refuses; nothing changed.
    """
    name = content.text(body, 'GroupName')
    rules.check_running(vios)
    rules.check_group_name(host, vios, name)
    if _has_contents(body):
        raise errors.Refused(
            f'The new volume group {name!r} has disks or a media repository; '
            'add them when it is there.'
        )
    names = [
        content.text(one, 'VolumeName') for one in physical_volume.of(body)
    ]
    volumes = [_free(vios, one) for one in names]
    if not names or len(set(names)) < len(names):
        raise errors.Refused(
            f'The volume group {name!r} needs physical volumes, each one once.'
        )
    size = sum(content.integer(one, 'VolumeCapacity') for one in volumes)
    group = volume_group.new(host, vios, name, size / _MEGABYTES)
    physical_volume.mark(vios.element, names, free=False)
    section = content.section(group.element, physical_volume.VOLUMES)
    section.extend(map(content.copy, volumes))
    group.sort()
    host.add(group)
    host.touch(vios)
    return group


def delete(host: Host, group: VolumeGroup) -> None:
    """Delete a group with nothing on it; its physical volumes are free then.

    :raises errors.Refused: it has something, or its server.
    """
    if group.name == _SYSTEM or group.disks or group.repository is not None:
        what = 'its server' if group.name == _SYSTEM else 'disks or media'
        raise errors.Refused(
            f'The volume group {group.name!r} has {what} on it.'
        )
    names = [
        content.text(one, 'VolumeName')
        for one in physical_volume.of(group.element)
    ]
    physical_volume.mark(group.vios.element, names, free=True)
    host.remove(group)
    host.touch(group.vios)


def _has_contents(body: content.Element) -> bool:
    sections = (
        f'{volume_group.DISKS}/{volume_group.DISK}',
        f'{volume_group.MEDIA}/{volume_group.REPOSITORY}',
    )
    return any(content.find_all(body, section) for section in sections)


def _free(vios: Partition, name: str) -> content.Element:
    """Return a physical volume that nobody has."""
    volume = physical_volume.find_named(vios, name)
    if volume is None:
        raise errors.Refused(f'{vios.name} has no physical volume {name!r}.')
    if not physical_volume.is_free(volume):
        raise errors.Refused(
            f'The physical volume {name!r} of {vios.name} is in use.'
        )
    return volume

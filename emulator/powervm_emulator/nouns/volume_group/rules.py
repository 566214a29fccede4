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

"""What a Virtual I/O Server refuses of disks and media, as named checks.

Each check returns if the request is possible and raises otherwise.
"""

import re
from collections.abc import Container
from collections.abc import Mapping

from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.volume_group import model as volume_group

# Logical volumes of AIX have no longer names.
MAX_DISK_NAME = 15
MAX_MEDIA_NAME = 37
# Commands of the VIOS would take other names for options or directories.
_NAME = r'(?!-|\.{1,2}$)[A-Za-z0-9._-]'
# Sizes are fractions of GB that are sums of others.
_EPSILON = 1e-6


def name_pattern(longest: int) -> str:
    """Return a regular expression for names of disks or media."""
    return f'^{_NAME}{{1,{longest}}}$'


def check_name(name: str, longest: int, what: str) -> None:
    """Names have characters that are legal, and not too many."""
    if not re.fullmatch(name_pattern(longest), name):
        raise errors.Refused(
            f'{name!r} is not the name of a {what}: it has 1 to {longest} '
            'letters, digits, dots, underscores and hyphens, does not begin '
            'with a hyphen, and is neither "." nor "..".'
        )


def check_group_name(
    host: host_module.Host, vios: partition_module.Partition, name: str
) -> None:
    """Names of volume groups are unique on a VIOS."""
    check_name(name, MAX_DISK_NAME, 'volume group')
    if any(name == other.name for other in volume_group.of(host, vios)):
        raise errors.Refused(
            f'{vios.name} has a volume group {name!r} already.'
        )


def check_disk_name(
    name: str, used: Mapping[str, str], devices: Container[str]
) -> None:
    """Names of disks are unique among all devices of a VIOS.

    :param used: the names of its disks, and the volume group of each.
    :param devices: the names of its volume groups and physical volumes.
    """
    check_name(name, MAX_DISK_NAME, 'virtual disk')
    if name in used:
        raise errors.Refused(
            f'The name {name!r} is in use by a virtual disk in the volume '
            f'group {used[name]!r}.'
        )
    if name in devices:
        raise errors.Refused(f'The name {name!r} is in use by a device.')


def check_running(vios: partition_module.Partition) -> None:
    """Only a server that is running makes something on its disks."""
    if vios.state != partition_module.RUNNING:
        raise errors.Refused(
            f'{vios.name} is not running: its state is {vios.state}.'
        )


def check_media_name(
    repository: volume_group.Repository, name: str, used: Container[str]
) -> None:
    """Names of media are unique in a repository.

    :param used: the names of its media.
    """
    check_name(name, MAX_MEDIA_NAME, 'virtual optical medium')
    if name in used:
        raise errors.Refused(
            f'The name {name!r} is in use by media in the repository '
            f'{repository.name!r}.'
        )


def check_space(group: volume_group.VolumeGroup, before: float) -> None:
    """A changed group has not less than no free space.

    :param before: the free GB before the change.
    """
    if group.free < -_EPSILON:
        raise errors.Refused(
            f'The volume group {group.name!r} has {before:g} GB free and '
            f'{before - group.free:g} GB more were asked for.'
        )


def check_repository_space(repository: volume_group.Repository) -> None:
    """The media of a repository fit into it."""
    if repository.free < -_EPSILON:
        used = repository.size - repository.free
        raise errors.Refused(
            f'The media repository {repository.name!r} has '
            f'{repository.size:g} GB, and its media need {used:g} GB.'
        )


def check_only_repository(
    host: host_module.Host, group: volume_group.VolumeGroup
) -> None:
    """A Virtual I/O Server has one media repository."""
    other = volume_group.repository_group(host, group.vios)
    if other is not None:
        raise errors.Refused(
            f'{group.vios.name} has a media repository in the volume group '
            f'{other.name!r} already.'
        )

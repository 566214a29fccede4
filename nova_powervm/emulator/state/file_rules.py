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


"""What a Virtual I/O Server refuses of Files, as named checks.

Each check returns if the request is possible and raises otherwise.
"""

import re

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import contents as contents_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import media as media_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import units
from nova_powervm.emulator.state import volumes

Content = contents_module.Content
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

KIND = 'File'
DISK_IMAGE = 'BROKERED_DISK_IMAGE'
MEDIA = 'BROKERED_MEDIA_ISO'
TYPES = (DISK_IMAGE, MEDIA)

# More Files than these cannot be there until some are deleted.
MAX_FILES = 100
MAX_NAME = 79
_SIZE = re.compile('[0-9]{1,18}')
_SHA256 = re.compile('[0-9A-Fa-f]{64}')


def check_body(host: Host, body: Element) -> Partition:
    """Check what does not depend on disks; return the VIOS it is for."""
    if content.local_name(body) != KIND:
        raise errors.BadRequest(
            f'The body is a {content.local_name(body)}, not a {KIND}.'
        )
    _check_form(body)
    if sum(1 for _ in host.all(KIND)) >= MAX_FILES:
        raise errors.Conflict(
            f'There are {MAX_FILES} Files: delete those that have been '
            'uploaded.'
        )
    uuid = content.text(body, 'TargetVirtualIOServerUUID')
    vios = host.find(partition_module.VIOS, uuid)
    if not isinstance(vios, Partition):
        raise errors.Conflict(
            f'There is no VirtualIOServer with the uuid {uuid}.'
        )
    return vios


def check_disk(
    vios: Partition, disk: volumes.Disk | None, udid: str, size: int
) -> None:
    """A disk image has a disk that is big enough."""
    if disk is None:
        raise errors.Conflict(
            f'{vios.name} has no virtual disk with the UDID {udid}.'
        )
    if size > disk.size:
        raise errors.Conflict(
            f'An image of {size} bytes does not fit into the {disk.size} '
            f'bytes of the virtual disk {disk.name!r}.'
        )


def check_repository(
    vios: Partition,
    repository: media_module.Repository | None,
    size: int,
    made: str,
) -> None:
    """Media have a repository with room for them.

    :param made: UDID of the medium whose contents are to be replaced.
    """
    if repository is None:
        raise errors.Conflict(f'{vios.name} has no media repository.')
    free = repository.free
    old = repository.find(made)
    if old is not None:
        free += old.size
    if units.of_bytes(size) > free:
        raise errors.Conflict(
            f'Media of {size} bytes do not fit into the '
            f'{units.to_bytes(free)} bytes that are free in the repository '
            f'{repository.name!r}.'
        )


def check_promises(
    arrived: Content, size: int | None, sha256: str, name: str
) -> None:
    """What has arrived is what the client has promised, if it has."""
    if size is not None and arrived.size != size:
        raise errors.BadRequest(
            f'{arrived.size} bytes of {name!r} have arrived, and '
            f'{size} were promised.'
        )
    if sha256 and arrived.sha256 != sha256:
        raise errors.BadRequest(
            f'The SHA-256 of {name!r} is {arrived.sha256}, and {sha256} was '
            'promised.'
        )


def _check_form(body: Element) -> None:
    name = content.text(body, 'Filename')
    if not 1 <= len(name) <= MAX_NAME:
        raise errors.BadRequest(
            f'The file name {name!r} does not have 1 to {MAX_NAME} characters.'
        )
    type_ = content.text(body, 'FileEnumType')
    if type_ not in TYPES:
        raise errors.BadRequest(
            f'This server takes no files of the type {type_!r}.'
        )
    for element, form in (
        ('ExpectedFileSizeInBytes', _SIZE),
        ('SHA256', _SHA256),
    ):
        value = content.text(body, element)
        if value and not form.fullmatch(value):
            raise errors.BadRequest(f'{value!r} is no value of {element}.')
    target = content.text(body, 'TargetDeviceUniqueDeviceID')
    if type_ == DISK_IMAGE and not target:
        raise errors.BadRequest(
            'A disk image needs a TargetDeviceUniqueDeviceID.'
        )

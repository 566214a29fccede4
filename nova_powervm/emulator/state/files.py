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


"""Files: how clients get bytes into virtual disks and media.

A File says what is to come and where it belongs, its contents follow, and
then the client deletes the File: the disk or medium keeps the contents.
"""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import contents as contents_module
from nova_powervm.emulator.state import file_rules as rules
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import media as media_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import repositories
from nova_powervm.emulator.state import resource
from nova_powervm.emulator.state import units
from nova_powervm.emulator.state import volume_rules
from nova_powervm.emulator.state import volumes

Content = contents_module.Content
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

KIND = rules.KIND
API = '/rest/api/web'
_ORDER = (
    'Metadata',
    'Filename',
    'DateModified',
    'InternetMediaType',
    'FileUUID',
    'SHA256',
    'ExpectedFileSizeInBytes',
    'CurrentFileSizeInBytes',
    'FileEnumType',
    'TargetVirtualIOServerUUID',
    'TargetDeviceUniqueDeviceID',
)


class File(resource.Resource):
    """A File of the web service.

    :param vios: where the contents belong.
    """

    announced = False

    def __init__(self, uuid: str, element: Element, vios: Partition) -> None:
        super().__init__(KIND, uuid, element)
        self.vios = vios
        # The medium that this File has made, so that it can do so again.
        self.made = ''

    @property
    def path(self) -> str:
        """The URI, which is not one of the uom service."""
        return f'{API}/{KIND}/{self.uuid}'

    @property
    def name(self) -> str:
        """Filename; the name of the medium that it becomes."""
        return self.text('Filename')

    @property
    def type(self) -> str:
        """FileEnumType, one of ``file_rules.TYPES``."""
        return self.text('FileEnumType')

    @property
    def target(self) -> str:
        """UDID of the disk or medium that the contents belong to."""
        if self.type == rules.MEDIA:
            return media_module.udid_of(self.name)
        return self.text('TargetDeviceUniqueDeviceID')

    @property
    def expected_size(self) -> int | None:
        """Bytes that the client has promised, None without a promise."""
        text = self.text('ExpectedFileSizeInBytes')
        return int(text) if text else None

    @property
    def expected_sha256(self) -> str:
        """The hash that the client has promised; empty without."""
        return self.text('SHA256').lower()


def create(host: Host, body: Element) -> File:
    """Make a File of a posted body, or refuse.

    :raises errors.RestError: what it is for could not be.
    """
    vios = rules.check_body(host, body)
    uuid = host.new_uuid()
    element = content.copy(body)
    content.put(element, 'Metadata/Atom/AtomID', uuid)
    for name in ('DateModified', 'FileUUID', 'CurrentFileSizeInBytes'):
        content.remove(element, [name])
    content.put_default(
        element, 'InternetMediaType', 'application/octet-stream'
    )
    content.put(element, 'FileUUID', uuid)
    file = File(uuid, element, vios)
    _write_size(host, file, 0)
    check_ready(host, file, file.expected_size or 0)
    host.add(file)
    return file


def check_ready(host: Host, file: File, size: int) -> None:
    """Refuse contents that cannot be taken, whatever they are.

    :param size: in bytes, as far as it is known.
    :raises errors.Conflict: their place is gone, too small or in use.
    """
    volume_rules.check_not_running(host, file.vios, file.target)
    if file.type == rules.DISK_IMAGE:
        disk = volumes.find_disk(host, file.vios, file.target)
        rules.check_disk(file.vios, disk, file.target, size)
        return
    group = volumes.repository_group(host, file.vios)
    repository = group.repository if group else None
    rules.check_repository(file.vios, repository, size, file.made)
    if repository is not None and not file.made:
        volume_rules.check_media_name(repository, file.name)


def take(host: Host, file: File, arrived: Content) -> None:
    """Make what has arrived the contents of the File's disk or medium.

    :raises errors.RestError: it is not what was promised, or cannot be
        taken; the disk keeps what it had.
    """
    rules.check_promises(
        arrived, file.expected_size, file.expected_sha256, file.name
    )
    check_ready(host, file, arrived.size)
    if file.type == rules.MEDIA:
        _write_medium(host, file, arrived.size)
    host.contents.keep(file.vios.uuid, file.target, arrived)
    _write_size(host, file, arrived.size)
    host.touch(file)


def stored(host: Host, file: File) -> Content:
    """Return the contents of a File's disk or medium.

    :raises errors.NotFound: nothing has been uploaded to it.
    """
    found = host.contents.find(file.vios.uuid, file.target)
    if found is None:
        raise errors.NotFound(f'The File {file.uuid} has no contents.')
    return found


def _write_medium(host: Host, file: File, size: int) -> None:
    """Make a medium for contents, or give its own the new size."""
    group = volumes.repository_group(host, file.vios)
    if group is None or group.repository is None:
        return
    medium = group.repository.find(file.made)
    if medium is None:
        medium = group.repository.add(file.name, 0)
    medium.resize(units.of_bytes(size))
    file.made = medium.udid
    host.touch(group)
    repositories.show(host, group)


def _write_size(host: Host, file: File, size: int) -> None:
    file.put('DateModified', int(host.clock() * 1000))
    file.put('CurrentFileSizeInBytes', size)
    content.sort_children(file.element, _ORDER)

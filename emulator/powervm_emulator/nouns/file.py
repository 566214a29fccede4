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

"""Files, and their contents, which are not held in memory."""

import re
from collections.abc import Iterator
from typing import IO

from powervm_emulator.core import content
from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import elements
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import exchange
from powervm_emulator.core import fields
from powervm_emulator.core import habits
from powervm_emulator.core import host as host_module
from powervm_emulator.core import media
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import route
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import logical_units
from powervm_emulator.nouns.shared_storage_pool import model as storage_pool
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import rules as volume_group_rules
from powervm_emulator.nouns.volume_group import update as volume_group_update

Content = contents_module.Content
Contents = contents_module.Contents
Answer = exchange.Answer
Host = host_module.Host
Emulation = emulation_module.Emulation
Element = content.Element
Call = exchange.Call
Partition = partition_module.Partition


_CHUNK = 1 << 16
KIND = 'File'
DISK_IMAGE = 'BROKERED_DISK_IMAGE'
MEDIA = 'BROKERED_MEDIA_ISO'
TYPES = (DISK_IMAGE, MEDIA)
# More Files than these cannot be there until some are deleted.
MAX_FILES = 100
MAX_NAME = 79
_SHA256 = re.compile('[0-9A-Fa-f]{64}')
API = '/rest/api/web'
_CONTENTS = f'{API}/{KIND}/contents/<uuid>'
_UPLOAD = f'{KIND}.upload'


class File(resource.Resource):
    """A File of the web service.

    :param vios: where the contents belong.
    """

    announced = False
    # What a client uploads changes it, and the client knows.
    conditional = False

    def __init__(self, uuid: str, element: Element, vios: Partition) -> None:
        super().__init__(KIND, uuid, element)
        self.vios = vios
        # The medium that this File has made, so that it can do so again.
        self.made = ''

    @property
    def path(self) -> str:
        """The URI, which is not one of the uom service."""
        return f'{API}/{KIND}/{self.uuid}'

    #: The name of the medium that it becomes.
    name = fields.text('Filename')
    #: One of :data:`TYPES`.
    type = fields.text('FileEnumType')

    @property
    def target(self) -> str:
        """UDID of the disk or medium that the contents belong to."""
        if self.type == MEDIA:
            return volume_group.udid_of(self.name)
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


def create(host: Host, _parent: None, body: Element) -> File:
    """Make a File of a posted body, or refuse.

    :raises errors.RestError: what it is for could not be.
    """
    vios = _check_body(host, body)
    uuid = host.new_uuid()
    element = content.copy(body)
    for name in ('DateModified', 'FileUUID', 'CurrentFileSizeInBytes'):
        content.remove(element, [name])
    content.put_default(
        element, 'InternetMediaType', 'application/octet-stream'
    )
    content.put(element, 'FileUUID', uuid)
    file = File(uuid, element, vios)
    _write_size(host, file, 0)
    _check_ready(host, file, file.expected_size or 0)
    host.add(file)
    return file


def upload(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """PUT or POST File/contents/{uuid}: take the bytes that arrive.

    Runs without the host's lock, so that others are served meanwhile.
    """
    host = emulation.host
    with host.condition:
        file = _file(emulation, uuid)
        _check_ready(host, file, 0)
        arriving = _place(host, file)[0].receive()
    try:
        for chunk in call.arriving.chunks():
            arriving.write(chunk)
        with host.changing():
            # It may have been deleted, or the world replaced.
            if host.find(KIND, uuid) is not file:
                raise errors.NotFound(f'The File {uuid} is gone.')
            _take(host, file, arriving.finish())
    except BaseException:
        arriving.discard()
        raise
    return exchange.NO_CONTENT


def download(emulation: Emulation, _call: Call, uuid: str) -> Answer:
    """GET File/contents/{uuid}: what is on the File's disk or medium."""
    file = _file(emulation, uuid)
    contents, owner, udid = _place(emulation.host, file)
    stored = contents.find(owner, udid)
    if stored is None:
        raise errors.NotFound(f'The File {uuid} has no contents.')
    return Answer(
        200,
        content_type='application/octet-stream',
        chunks=_chunks(stored.open()),
        length=stored.size,
    )


def _file(emulation: Emulation, uuid: str) -> File:
    found = emulation.host.get(KIND, uuid)
    assert isinstance(found, File)  # noqa: S101 - for the type checker
    return found


def _unit(host: Host, file: File) -> storage_pool.LogicalUnit | None:
    """Return the logical unit that the contents belong to, if it is one."""
    if file.type != DISK_IMAGE:
        return None
    return storage_pool.unit_of(host, file.vios, file.target)


def _place(host: Host, file: File) -> tuple[Contents, str, str]:
    """Return where the contents are kept: for whom and for which UDID."""
    unit = _unit(host, file)
    if unit is not None:
        return host.site.contents, unit.pool.uuid, unit.udid
    return host.contents, file.vios.uuid, file.target


def _chunks(stored: IO[bytes]) -> Iterator[bytes]:
    with stored:
        while chunk := stored.read(_CHUNK):
            yield chunk


def _check_body(host: Host, body: Element) -> Partition:
    """Check what does not depend on disks; return the VIOS it is for."""
    _check_form(body)
    if sum(1 for _ in host.all(KIND)) >= MAX_FILES:
        raise errors.Refused(
            f'There are {MAX_FILES} Files: delete those that have been '
            'uploaded.'
        )
    uuid = content.text(body, 'TargetVirtualIOServerUUID')
    vios = host.find(partition_module.VIOS, uuid)
    if not isinstance(vios, Partition):
        raise errors.Refused(
            f'There is no VirtualIOServer with the uuid {uuid}.'
        )
    return vios


def _check_disk(host: Host, file: File, size: int) -> None:
    """A disk image has a disk that is big enough."""
    unit = _unit(host, file)
    if unit is not None:
        cluster.check_up(file.vios)
        logical_units.check_upload(unit, size)
        return
    disk = volume_group.find_disk(host, file.vios, file.target)
    if disk is None:
        raise errors.Refused(
            f'{file.vios.name} has no virtual disk with the UDID '
            f'{file.target}.'
        )
    if size > disk.size:
        raise errors.Refused(
            f'An image of {size} bytes does not fit into the {disk.size} '
            f'bytes of the virtual disk {disk.name!r}.'
        )


def _check_repository(host: Host, file: File, size: int) -> None:
    """Media have a repository with room for them, and names of their own."""
    group = volume_group.repository_group(host, file.vios)
    repository = group.repository if group else None
    if repository is None:
        raise errors.Refused(f'{file.vios.name} has no media repository.')
    old = repository.find(file.made)
    free = repository.free + (old.size if old else 0)
    if units.of_bytes(size) > free:
        raise errors.Refused(
            f'Media of {size} bytes do not fit into the '
            f'{units.to_bytes(free)} bytes that are free in the repository '
            f'{repository.name!r}.'
        )
    if not file.made:
        names = [medium.name for medium in repository.media]
        volume_group_rules.check_media_name(repository, file.name, names)


def _check_promises(file: File, arrived: Content) -> None:
    """What has arrived is what the client has promised, if it has."""
    if file.expected_size not in (None, arrived.size):
        problem = errors.Refused(
            f'{arrived.size} bytes of {file.name!r} have arrived, and '
            f'{file.expected_size} were promised.'
        )
        habits.refuse('short-upload', problem)
    if file.expected_sha256 not in ('', arrived.sha256):
        problem = errors.Refused(
            f'The SHA-256 of {file.name!r} is {arrived.sha256}, and '
            f'{file.expected_sha256} was promised.'
        )
        habits.refuse('damaged-upload', problem)


def _check_form(body: Element) -> None:
    name = content.text(body, 'Filename')
    if not 1 <= len(name) <= MAX_NAME:
        raise errors.Refused(
            f'The file name {name!r} does not have 1 to {MAX_NAME} characters.'
        )
    type_ = content.text(body, 'FileEnumType')
    if type_ not in TYPES:
        raise errors.Refused(
            f'This server takes no files of the type {type_!r}.'
        )
    digest = content.text(body, 'SHA256')
    if digest and not _SHA256.fullmatch(digest):
        raise errors.Refused(f'{digest!r} is no value of SHA256.')
    target = content.text(body, 'TargetDeviceUniqueDeviceID')
    if type_ == DISK_IMAGE and not target:
        raise errors.Refused(
            'A disk image needs a TargetDeviceUniqueDeviceID.'
        )


def _check_ready(host: Host, file: File, size: int) -> None:
    """Refuse contents that cannot be taken, whatever they are.

    :param size: in bytes, as far as it is known.
    :raises errors.RestError: their place is gone, too small or in use.
    """
    scsi_mapping.check_not_running(host, file.vios, file.target)
    check = _check_disk if file.type == DISK_IMAGE else _check_repository
    check(host, file, size)


def _take(host: Host, file: File, arrived: Content) -> None:
    """Make what has arrived the contents of the File's disk or medium.

    :raises errors.RestError: it is not what was promised, or cannot be
        taken; the disk keeps what it had.
    """
    _check_promises(file, arrived)
    _check_ready(host, file, arrived.size)
    if file.type == MEDIA:
        _write_medium(host, file, arrived.size)
    contents, owner, udid = _place(host, file)
    unit = _unit(host, file)
    if file.type == DISK_IMAGE and unit is None:
        contents.overlay(owner, udid, arrived)
    else:
        contents.keep(owner, udid, arrived)
    if unit is not None:
        unit.uploaded, unit.blocks = arrived.size, set()
        logical_units.announce(host, unit.tier)
    _write_size(host, file, arrived.size)
    host.touch(file)


def _write_medium(host: Host, file: File, size: int) -> None:
    """Make a medium for contents, or give its own the new size."""
    group = volume_group.repository_group(host, file.vios)
    if group is None or group.repository is None:
        return
    medium = group.repository.find(file.made)
    if medium is None:
        medium = group.repository.add(file.name, 0)
    medium.resize(units.of_bytes(size))
    file.made = medium.udid
    host.touch(group)
    volume_group_update.show_repository(host, group)


def _write_size(host: Host, file: File, size: int) -> None:
    file.put('DateModified', int(host.clock() * 1000))
    file.put('CurrentFileSizeInBytes', size)
    elements.sort(file.element)


def delete(host: Host, file: File) -> None:
    """Delete a File; what was uploaded stays."""
    host.remove(file)


NOUN = noun.Noun(
    KIND,
    parents=(noun.ROOT,),
    create=create,
    delete=delete,
    routes=(
        route.Route(
            'GET',
            _CONTENTS,
            download,
            f'{KIND}.download',
            served=media.OCTETS,
        ),
        *(
            route.Route(
                method,
                _CONTENTS,
                upload,
                _UPLOAD,
                served=media.WEB,
                streams=True,
            )
            for method in ('PUT', 'POST')
        ),
    ),
    service=noun.WEB,
)

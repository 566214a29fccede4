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

"""Files on a Virtual I/O Server: uploads, and the media made from them."""

import contextlib
import dataclasses
import hashlib
import itertools
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import vios_file

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import storage
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm.disk import volume_groups

LOG = logging.getLogger(__name__)

DISK = vios_file.FileType.DISK_IMAGE
MEDIUM = vios_file.FileType.MEDIA_ISO

#: The size of a medium that nobody reads: one block.
NOTE_BYTES = 2048

#: More uploads at a time are not faster, and the server limits its files.
_AT_ONCE = 3
_CHUNK = 64 * 1024
_REPOSITORY_NAME = 'vopt'


@dataclasses.dataclass(frozen=True, slots=True)
class Upload:
    """A file to send.

    :param vios: Uuid of the Virtual I/O Server to send it to.
    :param name: Name of the disk or medium.
    :param kind: :data:`DISK` or :data:`MEDIUM`.
    :param size: The size of the file in bytes.
    :param sha256: Its SHA-256 in hexadecimal, which the server checks; None if
        it is unknown before the upload.
    :param disk: UDID of the virtual disk to write it to.
    :param is_blank: Whether it has zeros only; uploads of images do not wait
        for it then.
    """

    vios: str
    name: str
    kind: str
    size: int
    sha256: str | None = None
    disk: str | None = None
    is_blank: bool = False


class Uploads:
    """Sends files, only a few at the same time.

    :param adapter: An adapter with a session that has logged on.
    """

    def __init__(self, adapter: pvm_adapter.Adapter) -> None:
        self._adapter = adapter
        # Config drives must not wait for large images, nor images for zeros.
        self._turns = {
            queue: threading.BoundedSemaphore(_AT_ONCE)
            for queue in itertools.product((DISK, MEDIUM), (False, True))
        }
        # Files whose descriptions could not be deleted.
        self._remaining: list[vios_file.File] = []

    def send(self, upload: Upload, chunks: Iterator[bytes]) -> None:
        """Send a file; the VIOS verifies its size, and its SHA-256 if known.

        :param upload: The properties of the file.
        :param chunks: Its bytes. An error that the iterator raises is raised
            here, and the end of the file is not sent.
        :raises exception.RestBusy: The session ended during the upload.
        """
        stream = _Stream(upload, chunks)
        with (
            self._turns[upload.kind, upload.is_blank],
            rest_errors.translated(f'uploading {upload.name}'),
            self._announced(upload) as file,
        ):
            self._transfer(file, stream)

    @contextlib.contextmanager
    def _announced(self, upload: Upload) -> Iterator[vios_file.File]:
        """Create the description of a file, and delete it afterwards.

        The server keeps at most a hundred descriptions.
        """
        earlier, self._remaining = self._remaining, []
        for file in earlier:
            self._forget(file)
        new = vios_file.File.bld(
            self._adapter,
            upload.name,
            upload.kind,
            upload.vios,
            sha_chksum=upload.sha256,
            f_size=upload.size,
            tdev_udid=upload.disk,
        )
        try:
            file = new.create()
        except (pvm.ConnectionError, pvm.TimeoutError):
            self._forget_lost(upload)
            raise
        try:
            yield file
        finally:
            self._forget(file)

    def forget_leftovers(self, is_ours: Callable[[str], bool]) -> None:
        """Delete the descriptions of uploads that a killed service started.

        :param is_ours: Whether a name is that of a file of this driver.
        """
        self._forget_where(lambda file: is_ours(file.file_name or ''))

    def _forget_lost(self, upload: Upload) -> None:
        """Delete the descriptions of a file after a lost answer."""
        key = upload.name, upload.vios
        self._forget_where(
            lambda file: (file.file_name, file.vios_uuid) == key
        )

    def _forget_where(
        self, is_doomed: Callable[[vios_file.File], bool]
    ) -> None:
        kind = vios_file.File.schema_type
        try:
            files = self._adapter.read(kind, service='web')
        except pvm.Error as error:
            LOG.warning('Files cannot be listed: %s', error)
            return
        for file in filter(is_doomed, vios_file.File.wrap(files)):
            self._forget(file)

    def _transfer(self, file: vios_file.File, stream: '_Stream') -> None:
        try:
            self._adapter.upload_file(file.element, iter(stream))
        except pvm.HttpUnauth as error:
            raise exception.RestBusy(
                action=f'uploading {file.file_name}',
                reason='the session ended before the upload did',
            ) from error
        except pvm.Error as error:
            if stream.error is not None:
                raise stream.error from error
            raise

    def _forget(self, file: vios_file.File) -> None:
        try:
            self._adapter.delete(
                file.schema_type, root_id=file.uuid, service='web'
            )
        except pvm.HttpNotFound:
            pass
        except pvm.Error as error:
            self._remaining.append(file)
            LOG.warning(
                'The description of the uploaded file %(name)s (%(uuid)s) '
                'could not be removed from the REST server; the next upload '
                'tries again: %(error)s',
                {'name': file.file_name, 'uuid': file.uuid, 'error': error},
            )


class _Stream:
    """The chunks of an upload, and the first error of their iterator.

    pypowervm replaces every error of a stream with an error of its own.
    """

    def __init__(self, upload: Upload, chunks: Iterator[bytes]) -> None:
        self._upload = upload
        self._chunks = chunks
        self.error: exception.PowerVMError | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            # An empty chunk would end the body.
            yield from filter(None, self._chunks)
        except exception.PowerVMError as error:
            self.error = error
            raise
        except Exception as error:
            # The HTTP library would take a broken pipe of the source for one
            # of the server, and wait for an answer that never comes.
            self.error = exception.ImageUnreadable(
                image=f'for {self._upload.name}', reason=error
            )
            raise self.error from error


class MediaRepository:
    """The media repository of a Virtual I/O Server, which has at most one.

    :param adapter: An adapter with a session that has logged on.
    :param groups: The volume groups of the server.
    :param sender: Sends the bytes of media.
    :param settings: The group to create it in, and its size.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        groups: volume_groups.ServerGroups,
        sender: Uploads,
        settings: options.Settings,
    ) -> None:
        self._adapter = adapter
        self._groups = groups
        self._uploads = sender
        self._group_name = settings.media_volume_group
        self._size_gb = settings.media_repository_gb
        self._lock = threading.Lock()
        self._exists = False

    def check(self) -> None:
        """Verify that there is a repository, or a group to create one in.

        :raises exception.ConfigurationError: Neither exists.
        """
        with self._lock:
            if not self._exists:
                groups = self._groups.all()
                self._exists = any(group.vmedia_repos for group in groups)
                if not self._exists:
                    self._choose_group(groups)

    def check_room(
        self, lpar_uuid: str, size: int, *, beside: bool = False
    ) -> None:
        """Verify that there is enough space for an LPAR's medium.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param size: Size of the medium in bytes.
        :param beside: Whether the current medium of the LPAR stays; otherwise
            its space counts as free.
        :raises exception.InsufficientSpace: There is too little space.
        :raises exception.ConfigurationError: There is no repository, and no
            group to create one in.
        """
        groups = self._groups.all()
        for repository in volume_groups.repositories(groups):
            taken = [
                medium.size
                for medium in repository.optical_media
                if beside or not storage.belongs_to(medium.name, lpar_uuid)
            ]
            storage.check_free(
                f'the media repository {repository.name}',
                repository.size - sum(taken),
                size / storage.GIB,
                'the config drive',
            )
            return
        group = self._choose_group(groups)
        storage.check_free(
            f'volume group {group.name}',
            group.available_size,
            self._size_gb,
            'the media repository',
        )

    def find(self, lpar_uuid: str, vios: str) -> list[pvm_storage.VOptMedia]:
        """Return references to the media of an LPAR on a server."""
        return [
            pvm_storage.VOptMedia.bld_ref(self._adapter, name)
            for name in self._names(lpar_uuid, vios)
        ]

    def _names(self, lpar_uuid: str, vios: str | None = None) -> list[str]:
        """Return the names of the media of an LPAR on a server."""
        return [
            medium.name
            for repository in volume_groups.repositories(
                self._groups.all(vios)
            )
            for medium in repository.optical_media
            if storage.belongs_to(medium.name, lpar_uuid)
        ]

    def make(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> storage.Stored:
        """Create the virtual optical medium of an LPAR.

        After a failure, try again: the repository may have been deleted, or an
        interrupted build may have left a medium, which the failure deletes.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param iso: Contents of the medium.
        :param rescue: Whether it is for the rescue system of the LPAR.
        :raises exception.RestBusy: Another try may succeed.
        """
        name = storage.config_drive_name(lpar_uuid, rescue=rescue)
        self._send(name, iso)
        medium = pvm_storage.VOptMedia.bld_ref(self._adapter, name)
        return storage.Stored(name, medium)

    def make_note(self, name: str) -> None:
        """Create a medium that tells something by its name only.

        :raises exception.RestBusy: Another try may succeed.
        """
        self._send(name, bytes(NOTE_BYTES))

    def find_notes(self, lpar_uuid: str) -> dict[str, int]:
        """Return the media that tell from which MiB an LPAR's disk grows."""
        return {
            name: size
            for name in self._names(lpar_uuid)
            if (size := storage.growing_from(name)) is not None
        }

    def _send(self, name: str, iso: bytes) -> None:
        self._ensure_repository()
        upload = Upload(
            vios=self._groups.vios,
            name=name,
            kind=MEDIUM,
            size=len(iso),
            sha256=hashlib.sha256(iso).hexdigest(),
        )
        chunks = (
            iso[start : start + _CHUNK] for start in range(0, len(iso), _CHUNK)
        )
        try:
            self._uploads.send(upload, chunks)
        except exception.PowerVMError as error:
            self._exists = False
            volume_groups.discard(self._groups, name, error)
            if isinstance(error, exception.RestError):
                raise exception.RestBusy(**error.fields) from error
            raise

    def _ensure_repository(self) -> None:
        """Create the repository unless it exists.

        :raises exception.ConfigurationError: There is no group to create it
            in.
        """
        with self._lock:
            if not self._exists:
                groups = self._groups.all()
                if not any(group.vmedia_repos for group in groups):
                    self._create(groups)
                self._exists = True

    def _choose_group(
        self, groups: Sequence[pvm_storage.VG]
    ) -> pvm_storage.VG:
        """Return the group to create a repository in."""
        for group in groups:
            if group.name == self._group_name:
                return group
        raise exception.ConfigurationError(
            reason='[powervm]media_volume_group_name = '
            f"'{self._group_name}': the Virtual I/O Server that has "
            "the instances' disks has no volume group of this name for a "
            'media repository'
        )

    def _create(self, groups: Sequence[pvm_storage.VG]) -> None:
        group = self._choose_group(groups)
        LOG.info(
            'Creating a media repository of %(size)d GB in volume group '
            '%(name)s.',
            {'size': self._size_gb, 'name': group.name},
        )
        self._groups.change(self._add_repository, group.uuid)

    def _add_repository(self, group: pvm_storage.VG) -> bool:
        if group.vmedia_repos:
            return False
        repository = pvm_storage.VMediaRepos.bld(
            self._adapter, _REPOSITORY_NAME, self._size_gb
        )
        group.vmedia_repos = [repository]
        return True

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

"""The media repository of a Virtual I/O Server."""

import hashlib
import threading
from collections.abc import Sequence

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks
from nova_powervm.powervm.disk import group_contents
from nova_powervm.powervm.disk import uploads
from nova_powervm.powervm.disk import volume_groups

LOG = logging.getLogger(__name__)

_REPOSITORY_NAME = 'vopt'
_CHUNK = 64 * 1024
#: The size of a medium that nobody reads: one block.
NOTE_BYTES = 2048


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
        sender: uploads.Uploads,
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
                    self._choose(groups)

    def check_room(
        self, lpar_uuid: str, size: int, *, beside: bool = False
    ) -> None:
        """Verify that there is enough space for an LPAR's medium.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param beside: Whether its current medium stays; otherwise its space
            counts as free.
        :param size: Size of the medium in bytes.
        :raises exception.InsufficientSpace: There is too little.
        :raises exception.ConfigurationError: There is no repository, and no
            group to create one in.
        """
        groups = self._groups.all()
        repository = next(
            (found for group in groups for found in group.vmedia_repos), None
        )
        if repository is None:
            group = self._choose(groups)
            storage.check_free(
                f'volume group {group.name}',
                group.available_size,
                self._size_gb,
                'the media repository',
            )
            return
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

    def find(self, lpar_uuid: str, vios: str) -> list[pvm_storage.VOptMedia]:
        """Return the media of an LPAR on a Virtual I/O Server."""
        return [
            pvm_storage.VOptMedia.bld_ref(self._adapter, medium.name)
            for group in self._groups.all(vios)
            for repository in group.vmedia_repos
            for medium in repository.optical_media
            if storage.belongs_to(medium.name, lpar_uuid)
        ]

    def make(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> stored_disks.Stored:
        """Create the virtual optical medium of an LPAR.

        A failure can be retried: the repository may have been deleted, or an
        interrupted build may have left a medium, which is gone then.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param iso: Contents of the medium.
        :param rescue: Whether it is that of its rescue system.
        :raises exception.RestBusy: Another try may succeed.
        """
        name = storage.config_drive_name(lpar_uuid, rescue=rescue)
        self._send(name, iso)
        medium = pvm_storage.VOptMedia.bld_ref(self._adapter, name)
        return stored_disks.Stored(name, medium)

    def make_note(self, name: str) -> None:
        """Create a medium that says something by its name only.

        :raises exception.RestBusy: Another try may succeed.
        """
        self._send(name, bytes(NOTE_BYTES))

    def find_notes(self, lpar_uuid: str) -> dict[str, int]:
        """Return the media that say from which MiB an LPAR's disk grows."""
        return {
            medium.name: size
            for group in self._groups.all()
            for repository in group.vmedia_repos
            for medium in repository.optical_media
            if storage.belongs_to(medium.name, lpar_uuid)
            and (size := storage.growing_from(medium.name)) is not None
        }

    def _send(self, name: str, iso: bytes) -> None:
        self._ensure_repository()
        upload = uploads.Upload(
            vios=self._groups.vios,
            name=name,
            kind=uploads.MEDIUM,
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
            group_contents.discard(self._groups, name, error)
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

    def _choose(self, groups: Sequence[pvm_storage.VG]) -> pvm_storage.VG:
        group = next(
            (group for group in groups if group.name == self._group_name), None
        )
        if group is None:
            raise exception.ConfigurationError(
                reason='[powervm]media_volume_group_name = '
                f"'{self._group_name}': the Virtual I/O Server that has "
                "the instances' disks has no volume group of this name for a "
                'media repository'
            )
        return group

    def _create(self, groups: Sequence[pvm_storage.VG]) -> None:
        group = self._choose(groups)
        LOG.info(
            'Creating a media repository of %(size)d GB in volume group '
            '%(name)s.',
            {'size': self._size_gb, 'name': group.name},
        )
        self._groups.change(self._add_repository, group.uuid)

    def _add_repository(self, group: pvm_storage.VG) -> bool:
        if group.vmedia_repos:
            return False
        group.vmedia_repos = [
            pvm_storage.VMediaRepos.bld(
                self._adapter, _REPOSITORY_NAME, self._size_gb
            )
        ]
        return True

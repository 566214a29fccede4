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

"""What disk drivers have in common.

:class:`.drivers.Disks` describes the methods.
"""

import abc
import contextlib
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NoReturn

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm.disk import disk_reading
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import uploads
from nova_powervm.powervm.disk import volume_groups

#: Check -> the methods that a driver with a check of its own must have.
_ALLOWED: Mapping[str, Collection[str]] = {
    'check': ('make_medium',),
    'check_reconnect': ('has_rescue', 'reconnect', 'delete_rescue'),
    'check_growth': ('grow_root',),
    'check_read': ('read_root', 'end_read'),
}


class DiskDriver(drivers.Disks):
    """A disk driver that refuses what it does not override.

    Only checks refuse, because they come before a guest is stopped. A driver
    that overrides a check has to override the methods that it allows.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def is_own(name: str) -> bool:
            return getattr(cls, name) is not getattr(DiskDriver, name)

        for check, methods in _ALLOWED.items():
            missing = [name for name in methods if not is_own(name)]
            if missing and is_own(check):
                raise TypeError(
                    f'{cls.__name__} has {check}, but not '
                    f'{" and ".join(missing)}'
                )

    @property
    def unavailable(self) -> str | None:
        return None

    @property
    def image_formats(self) -> Collection[str]:
        return (image.RAW,)

    @property
    def pool(self) -> drivers.Pool | None:
        return None

    @property
    def servers(self) -> Sequence[str]:
        return ()

    def check(self, *, config_drive: bool) -> None:
        if config_drive:
            raise self._refusal('config drives')

    def eject(self, lpar_uuid: str) -> None:
        """Do nothing: there is no config drive."""

    def insert(self, lpar_uuid: str) -> bool:
        return False

    def make_medium(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> storage.Stored:
        raise self._refusal('config drives')

    def check_room(
        self,
        lpar_uuid: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
        *,
        beside: bool = False,
    ) -> None:
        raise self._refusal('rebuilding and rescuing servers')

    def has_rescue(self, lpar_uuid: str) -> bool:
        return False

    def check_reconnect(self, lpar_uuid: str) -> None:
        raise self._refusal('rescuing servers')

    def reconnect(self, lpar_uuid: str, *, rescued: bool) -> None:
        raise self._refusal('rescuing servers')

    def delete_rescue(self, lpar_uuid: str) -> None:
        """Do nothing: there is no rescue disk."""

    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        raise self._refusal('larger root disks')

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        return False

    def check_read(self, lpar_uuid: str, *, is_off: bool) -> float:
        raise self._refusal('images of servers')

    def read_root(
        self, lpar_uuid: str
    ) -> contextlib.AbstractContextManager[drivers.DiskBytes]:
        raise self._refusal('images of servers')

    def end_read(self, lpar_uuid: str) -> bool:
        return False

    def _refusal(self, purpose: str) -> exception.PowerVMError:
        return exception.DiskDriverRefused(what=purpose)


class NoDisks(DiskDriver):
    """Stands in for a disk driver whose options are incomplete.

    :param missing: The option that is missing, as ``[GROUP]NAME``.
    """

    def __init__(self, missing: str) -> None:
        self._missing = missing

    @property
    def unavailable(self) -> str:
        return f'{self._missing} is not set'

    @property
    def image_formats(self) -> Collection[str]:
        """All formats: builds are to be refused for the missing option."""
        return image.FORMATS

    def capacity(self) -> host_values.DiskCapacity:
        return host_values.DiskCapacity()

    def check(self, *, config_drive: bool) -> None:
        raise self._refusal('disks')

    def make_root(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._refusal('disks')

    make_blank = make_medium = grow_root = make_root

    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        return swap is None

    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        if swap is not None:
            raise self._refusal('swap disks')

    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> Collection[str]:
        return ()

    def stems(self) -> Collection[str]:
        return ()

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: no disk was made."""

    remove = remove_stems = unmap_deleted = forget_uploads = attach

    def _refusal(self, purpose: str) -> exception.ConfigurationError:
        return exception.ConfigurationError(
            reason=f'this host has no storage for disks: set {self._missing}'
        )


class MappedDisks(DiskDriver):
    """A disk driver whose disks Virtual I/O Servers map to LPARs.

    Config drives are in the media repository of one of the servers.

    :param context: The arguments of the disk driver.
    :param groups: The volume groups of the server with the media.
    :ivar adapter: The adapter of the context.
    :ivar management: The management partition.
    :ivar mappings: Maps disks and media.
    :ivar reader: Reads root disks.
    :ivar media: The media repository.
    :ivar uploads: Sends files to the servers.
    """

    def __init__(
        self,
        context: disk_drivers.Context,
        groups: volume_groups.ServerGroups,
    ) -> None:
        adapter, settings = context.adapter, context.settings
        self.adapter = adapter
        self.groups = groups
        self.management = management_partition.ManagementPartition(
            adapter, settings.management_root, context.files
        )
        self.mappings = scsi_mappings.ScsiMappings(adapter, self.management)
        self.reader = disk_reading.DiskReader(self.management, self.mappings)
        self.uploads = uploads.Uploads(adapter)
        self.media = uploads.MediaRepository(
            adapter, groups, self.uploads, settings
        )

    @property
    @abc.abstractmethod
    def servers(self) -> Sequence[str]:
        """The uuids of the Virtual I/O Servers that map the disks."""

    @abc.abstractmethod
    def disks_of(self, lpar_uuid: str) -> Sequence[Any]:
        """Return pypowervm's wrappers of the disks of an LPAR."""

    @abc.abstractmethod
    def delete_rescue(self, lpar_uuid: str) -> None:
        """See :meth:`.drivers.Disks.delete_rescue`."""

    def elements(self, lpar_uuid: str) -> scsi_mappings.Elements:
        """Return the disks and media of an LPAR for :mod:`.scsi_mappings`."""
        disks = self.disks_of(lpar_uuid)
        return {
            server: [*disks, *self.media.find(lpar_uuid, server)]
            for server in self.servers
        }

    def unmap_deleted(self, lpar_uuids: Collection[str] | None = None) -> None:
        self.mappings.detach_unneeded(lpar_uuids)

    def forget_uploads(self) -> None:
        self.uploads.forget_leftovers(storage.is_ours)

    @rest_errors.retried
    def check(self, *, config_drive: bool) -> None:
        if config_drive:
            self.media.check()

    @rest_errors.retried
    def make_medium(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> storage.Stored:
        return self.media.make(lpar_uuid, iso, rescue=rescue)

    def eject(self, lpar_uuid: str) -> None:
        self.mappings.unload(lpar_uuid, storage.config_drive_name(lpar_uuid))

    @rest_errors.retried
    def insert(self, lpar_uuid: str) -> bool:
        medium = storage.config_drive_name(lpar_uuid)
        for number, server in enumerate(self.servers):
            found = [
                element
                for element in self.media.find(lpar_uuid, server)
                if element.name == medium
            ]
            if found:
                self.mappings.attach(server, lpar_uuid, found, number)
                return True
        return False

    @rest_errors.retried
    def has_rescue(self, lpar_uuid: str) -> bool:
        names = [disk.name for disk in self.disks_of(lpar_uuid)]
        return any(map(storage.is_of_rescue, names))

    @rest_errors.retried
    def check_reconnect(self, lpar_uuid: str) -> None:
        self.mappings.check_reconnect(lpar_uuid, self.elements(lpar_uuid))

    @rest_errors.retried
    def reconnect(self, lpar_uuid: str, *, rescued: bool) -> None:
        self.settle(lpar_uuid)
        elements = self.elements(lpar_uuid)
        self.mappings.reconnect(lpar_uuid, elements, rescued=rescued)

    def settle(self, lpar_uuid: str) -> None:
        """Finish what was interrupted, before disks are connected anew."""

    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> set[str]:
        return self.mappings.names(lpar_uuid)

    def stems(self) -> frozenset[str]:
        """Return the stems of this host's own media and virtual disks.

        The disks in a pool are not this host's own. A server that boots from a
        volume may have a medium alone.
        """
        names = itertools.chain.from_iterable(
            volume_groups.names(group)
            for server in self.servers
            for group in self.groups.all(server)
        )
        return frozenset(map(storage.stem_of, filter(storage.is_ours, names)))

    def remove_stems(self, stems: Collection[str]) -> None:
        self.remove_where(
            lambda name: (
                storage.is_ours(name) and storage.stem_of(name) in stems
            ),
            self.servers,
        )

    def remove_where(
        self,
        is_doomed: Callable[[str], bool],
        servers: Iterable[str],
        *,
        media_only: bool = False,
    ) -> None:
        """Delete disks and media in the volume groups of servers.

        :param is_doomed: Whether to delete the disk or medium with a name.
        :param media_only: Whether to delete no disk.
        """
        edit = volume_groups.removal(is_doomed, media_only=media_only)
        for server in servers:
            self.groups.change_all(edit, server)

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

"""Stands in for a disk driver whose options are incomplete."""

import contextlib
from collections.abc import Collection
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers


class NoDisks:
    """Offers no disks, and refuses to make any.

    :param missing: The option that is missing, as ``[GROUP]NAME``.
    """

    def __init__(self, missing: str) -> None:
        self._missing = missing

    @property
    def unavailable(self) -> str:
        """The option that is missing."""
        return f'{self._missing} is not set'

    @property
    def image_formats(self) -> tuple[str, ...]:
        """All: the missing option is what builds are refused for."""
        return image.FORMATS

    @property
    def pool(self) -> None:
        """None: there is no storage."""

    def capacity(self) -> host_values.DiskCapacity:
        """Return a capacity of zero."""
        return host_values.DiskCapacity()

    def unmap_deleted(self, lpar_uuids: Collection[str] | None = None) -> None:
        """Do nothing: no disk was left."""

    def forget_uploads(self) -> None:
        """Do nothing: nothing was sent."""

    def check(self, *, config_drive: bool) -> None:
        """Refuse the disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def check_room(
        self,
        lpar_uuid: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
        *,
        beside: bool = False,
    ) -> None:
        """Refuse the disks.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def make_root(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> storage.Stored:
        """Refuse the disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def make_blank(self, lpar_uuid: str, disk: storage.Disk) -> storage.Stored:
        """Refuse the disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def make_medium(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> storage.Stored:
        """Refuse the disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def attach(self, lpar_uuid: str, stored: Sequence[storage.Stored]) -> None:
        """Do nothing: no disk was made."""

    def has_rescue(self, lpar_uuid: str) -> bool:
        """Return that there is no rescue disk."""
        return False

    def check_reconnect(self, lpar_uuid: str) -> None:
        """Do nothing: no disk was made."""

    def reconnect(self, lpar_uuid: str, *, rescued: bool) -> None:
        """Do nothing: no disk was made."""

    def delete_rescue(self, lpar_uuid: str) -> None:
        """Do nothing: no disk was made."""

    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        """Refuse the larger disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        """Refuse the larger disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        """Return whether there is to be no swap disk."""
        return swap is None

    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        """Refuse a swap disk; there is none to remove.

        :raises exception.ConfigurationError: One is wanted.
        """
        if swap is not None:
            raise self._refusal()

    def check_read(self, lpar_uuid: str, *, is_off: bool) -> float:
        """Refuse to read a disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def read_root(
        self, lpar_uuid: str
    ) -> contextlib.AbstractContextManager[drivers.DiskBytes]:
        """Refuse to read a disk.

        :raises exception.ConfigurationError: Always.
        """
        raise self._refusal()

    def end_read(self, lpar_uuid: str) -> bool:
        """Return False: no disk was read."""
        return False

    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> Collection[str]:
        """Return nothing: nothing can be connected."""
        return ()

    def stems(self) -> frozenset[str]:
        """Return an empty set: there are no disks."""
        return frozenset()

    def remove_stems(self, stems: Collection[str]) -> None:
        """Do nothing: no disk was made."""

    def remove(self, lpar_uuid: str, *, delete: bool = True) -> None:
        """Do nothing: no disk was made."""

    def _refusal(self) -> exception.ConfigurationError:
        return exception.ConfigurationError(
            reason=f'this host has no storage for disks: set {self._missing}'
        )

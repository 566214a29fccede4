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

"""The disks and images that several hosts have in one storage pool."""

import dataclasses
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks
from nova_powervm.ops import disk_interfaces
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import pools

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """What a logical unit is attached or deleted by."""

    unit: pvm_storage.LUEnt
    element: pvm_storage.LU


class PoolDisks:
    """What the disk driver ``ssp`` does with the pool.

    It implements :class:`.disk_interfaces.Pool`. Disks are found by their
    names in all tiers, so that hosts with different tiers see the same ones.

    :param adapter: An adapter with a session that has logged on.
    :param units: The pool.
    :param cache: Its images.
    :param checks_use: Whether to believe the pool that disks are in use.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        units: pools.StoragePool,
        cache: image_cache.ImageCache,
        *,
        checks_use: bool,
    ) -> None:
        self._adapter = adapter
        self._units = units
        self._cache = cache
        self._checks_use = checks_use
        # The names of units that the log has as kept.
        self._kept: set[str] = set()

    def identity(self) -> str:
        """Return the pool's UDID."""
        return self._units.udid

    def disks(
        self, lpar_uuid: str | None = None
    ) -> list[stored_disks.PoolDisk]:
        """Find the logical units of instances; see the protocol."""
        units = self._units.units(of_all_tiers=True)
        return list(self.disks_among(units, lpar_uuid))

    def disks_among(
        self, units: Iterable[pvm_storage.LUEnt], lpar_uuid: str | None
    ) -> Iterator[stored_disks.PoolDisk]:
        """Yield the logical units of instances among units."""
        for unit in units:
            parsed = storage.parse_unit_name(unit.name)
            if parsed is not None and lpar_uuid in (None, parsed[0]):
                yield stored_disks.PoolDisk(
                    lpar_uuid=parsed[0],
                    disk=storage.Disk(parsed[1], unit.capacity),
                    in_use=self._checks_use and bool(unit.in_use),
                    stored=self.stored(unit),
                )

    def of_roles(
        self, lpar_uuid: str, roles: Container[str]
    ) -> list[stored_disks.PoolDisk]:
        """Find the disks of an LPAR with certain roles."""
        return [
            known
            for known in self.disks(lpar_uuid)
            if known.disk.role in roles
        ]

    def root(self, lpar_uuid: str) -> stored_disks.PoolDisk:
        """Find the root disk of an LPAR.

        :raises exception.DiskMissing: There is none.
        :raises exception.DiskAmbiguous: There are several.
        """
        roots = self.of_roles(lpar_uuid, storage.ROOTS)
        return stored_disks.only(roots, 'root', f'LPAR {lpar_uuid}')

    def sort_swaps(
        self, lpar_uuid: str, wanted: storage.Disk | None
    ) -> tuple[stored_disks.Stored | None, list[stored_disks.PoolDisk]]:
        """Find the swap disks of an LPAR.

        :param wanted: The one that it should have; None for none.
        :returns: One of this size, if there is one, and all others.
        """
        found = self.of_roles(lpar_uuid, storage.SWAP)
        for known in found:
            if wanted and storage.is_same_size(
                known.disk.size_gb, wanted.size_gb
            ):
                found.remove(known)
                return known.stored, found
        return None, found

    def stored(self, unit: pvm_storage.LUEnt) -> stored_disks.Stored:
        """Return a logical unit in the form in which it can be attached."""
        element = pvm_storage.LU.bld_ref(self._adapter, unit.name, unit.udid)
        return stored_disks.Stored(unit.name, Handle(unit, element))

    def delete(self, disks: Collection[stored_disks.PoolDisk]) -> None:
        """Delete logical units, if they exist and no LPAR has them."""
        for known in disks:
            if known.in_use:
                self._log_kept(known, 'a running LPAR uses it')
                continue
            try:
                self._units.delete(known.stored.handle.unit)
            except exception.RestUnreachable:
                raise
            except exception.RestError as error:
                if error.retryable:
                    raise
                self._log_kept(known, error)
            else:
                self._kept.discard(known.stored.name)

    def _log_kept(self, known: stored_disks.PoolDisk, reason: object) -> None:
        if known.stored.name in self._kept:
            return
        self._kept.add(known.stored.name)
        LOG.warning(
            'Logical unit %(name)s is kept: %(reason)s. Another host may '
            'still have it; it is looked for again when Nova cleans the image '
            'cache.',
            {'name': known.stored.name, 'reason': reason},
        )

    def cached_image(self, described: image.Image) -> image.Contents | None:
        """Return the contents of an image in the cache; None without it."""
        if self._cache.find(described.fingerprint, self._units.units()):
            size = described.check((image.RAW,))
            return image.Contents(size, described.disk_format, size)
        return None

    def cache_image(
        self,
        described: image.Image,
        contents: image.Contents,
        source: disk_interfaces.Source,
    ) -> bool:
        """Write an image to the cache unless it is there."""
        return self._cache.provide(described, contents, source)[1]

    def delete_interrupted(self) -> None:
        """Delete the images that this host did not write completely."""
        self._cache.delete_interrupted()

    def clean_cache(self, min_age: int) -> None:
        """Delete the images from which no disk is made any more."""
        self._cache.clean(min_age)


def is_unit(item: stored_disks.Stored) -> bool:
    """Return whether something stored is a logical unit, not a medium."""
    return isinstance(item.handle, Handle)


def element_of(item: stored_disks.Stored) -> Any:
    """Return pypowervm's wrapper of a logical unit or medium."""
    return item.handle.element if is_unit(item) else item.handle

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

"""The disk driver ``ssp``: disks in a shared storage pool.

All hosts whose Virtual I/O Servers belong to the cluster see the disks, so
instances keep them when they are evacuated.
"""

import contextlib
import dataclasses
import math
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm.disk import base
from nova_powervm.powervm.disk import disk_reading
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import pools
from nova_powervm.powervm.disk import volume_groups

LOG = logging.getLogger(__name__)

#: Digits of a system's uuid in the names of images that it is writing.
_WRITER_DIGITS = 8


def load(context: disk_drivers.Context) -> drivers.Disks:
    """Create the disk driver of a host."""
    return SharedStoragePool(context)


class SharedStoragePool(base.MappedDisks):
    """Logical units of a shared storage pool, and media on a VIOS.

    :param context: The arguments of the disk driver.
    """

    def __init__(self, context: disk_drivers.Context) -> None:
        settings = context.settings
        self._overcommitment = settings.disk_overcommitment
        self._units = pools.StoragePool(
            context.adapter, settings.cluster_name, settings.tier_name
        )
        groups = volume_groups.ServerGroups(
            context.adapter, lambda: self._units.main_server
        )
        super().__init__(context, groups)
        self._cache = image_cache.ImageCache(
            self._units,
            self.uploads,
            lambda: str(context.system.wrapper.uuid)[:_WRITER_DIGITS],
        )
        self._pool = PoolDisks(
            context.adapter,
            self._units,
            self._cache,
            checks_use=settings.check_disks_in_use,
        )

    @property
    def servers(self) -> Sequence[str]:
        """The servers of this host in the cluster."""
        return self._units.servers

    @property
    def pool(self) -> drivers.Pool:
        return self._pool

    def capacity(self) -> host_values.DiskCapacity:
        """Return the capacity of the tier.

        Reserve the sizes of all units that Placement does not count: images,
        disks of the size of an image, and what the driver has not made.
        """
        self._units.read_nodes()
        usage = self._units.usage()
        total = math.floor(usage.capacity_gb)
        others = sum(
            unit.capacity
            for unit in usage.units
            if not storage.is_counted(unit.name)
        )
        return host_values.DiskCapacity(
            total_gb=total,
            used_gb=max(0, total - math.floor(usage.free_gb)),
            reserved_gb=min(total, math.ceil(round(others, 3))),
        )

    def forget_uploads(self) -> None:
        self.uploads.forget_leftovers(_is_ours)

    @rest_errors.retried
    def check_room(
        self,
        lpar_uuid: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
        *,
        beside: bool = False,
    ) -> None:
        """Verify that there is enough space for an LPAR's disks.

        The disks that the LPAR already has are thin: how much space their
        deletion would free is unknown.
        """
        self._check_free(disks)
        if medium_bytes is not None:
            self.media.check_room(lpar_uuid, medium_bytes, beside=beside)

    @rest_errors.retried
    def make_root(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> storage.Stored:
        """Create a linked clone of an image, which is cached first.

        :raises exception.RestBusy: The image was deleted at the same time.
        """
        units = self._units.units(of_all_tiers=True)
        leftovers = [*self._pool.disks_among(units, lpar_uuid)]
        name = None
        if disk.role == storage.RESCUE:
            # The other disks are those of the server.
            name = storage.unit_name(lpar_uuid, disk.role)
            leftovers = [
                each for each in leftovers if each.stored.name == name
            ]
        self._remove_leftovers(leftovers, name)
        self._check_free([disk])
        in_tier = self._units.in_tier(units)
        origin = self._cache.find(described.fingerprint, in_tier)
        if origin is None:
            origin, _ = self._cache.provide(described, contents, source)
        return self._pool.stored(self._clone(lpar_uuid, disk, origin))

    @rest_errors.retried
    def make_blank(self, lpar_uuid: str, disk: storage.Disk) -> storage.Stored:
        name = storage.unit_name(lpar_uuid, disk.role)
        leftovers = self._pool.of_roles(lpar_uuid, disk.role)
        self._remove_leftovers(leftovers, name)
        self._check_free([disk])
        return self._pool.stored(self._make(lpar_uuid, disk))

    def attach(self, lpar_uuid: str, stored: Sequence[storage.Stored]) -> None:
        """Map storage to an LPAR by each server of this host in the cluster.

        The medium is on one server only. A server that does not run is left
        out, unless no server runs.
        """
        units = [item for item in stored if is_unit(item)]
        media = [item for item in stored if not is_unit(item)]
        main = self._units.main_server
        is_mapped = False
        for number, server in enumerate(self.servers):
            items = [*units, *media] if server == main else units
            elements = [*map(element_of, items)]
            is_running = self.mappings.attach(
                server, lpar_uuid, elements, number
            )
            is_mapped |= is_running and (server == main or not media)
        if not is_mapped:
            raise exception.RestBusy(
                action=f'mapping storage to LPAR {lpar_uuid}',
                reason='the Virtual I/O Server does not run',
            )

    def disks_of(self, lpar_uuid: str) -> list[pvm_storage.LU]:
        disks = self._pool.disks(lpar_uuid)
        return [element_of(disk.stored) for disk in disks]

    @rest_errors.retried
    def delete_rescue(self, lpar_uuid: str) -> None:
        edit = volume_groups.rescue_removal(lpar_uuid)
        for server in self.servers:
            self.groups.change_all(edit, server)
        for disk in self._pool.of_roles(lpar_uuid, storage.RESCUE):
            self._units.delete(disk.stored.handle.unit)

    @rest_errors.retried
    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        root = self._pool.root(lpar_uuid).disk
        if storage.is_smaller(root.size_gb, size_gb):
            purpose = f'enlarging the {root} to {size_gb:g} GB'
            self._check_free_gb(size_gb - root.size_gb, purpose)

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        root = self._pool.root(lpar_uuid)
        if not storage.is_smaller(root.disk.size_gb, size_gb):
            return False
        self._units.grow(root.stored.handle.unit, size_gb)
        return True

    @rest_errors.retried
    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        fitting, others = self._pool.sort_swaps(lpar_uuid, swap)
        if fitting is None or others:
            return swap is None and not others
        return fitting.name in self.attached(lpar_uuid)

    @rest_errors.retried
    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        fitting, others = self._pool.sort_swaps(lpar_uuid, swap)
        if others:
            self.mappings.detach(lpar_uuid, others[0].stored.name)
        for other in others:
            LOG.info('Deleting the %s of LPAR %s.', other.disk, lpar_uuid)
            self._units.delete(other.stored.handle.unit)
        if swap is not None:
            stored = fitting or self.make_blank(lpar_uuid, swap)
            self.attach(lpar_uuid, [stored])

    @rest_errors.retried
    def check_read(self, lpar_uuid: str, *, is_off: bool) -> float:
        """Refuse to read a root disk; the guest may run."""
        self.management.check(lpar_uuid)
        if self.management.is_server:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}',
                reason='the management partition is a Virtual I/O Server, to '
                'which others can map nothing',
            )
        root = self._pool.root(lpar_uuid)
        if all(map(self.mappings.name_of_stopped, self.servers)):
            raise disk_reading.no_server(lpar_uuid)
        return root.disk.size_gb

    @contextlib.contextmanager
    def read_root(self, lpar_uuid: str) -> Iterator[drivers.DiskBytes]:
        with self.reader.alone(lpar_uuid) as reading:
            self.check_read(lpar_uuid, is_off=False)
            self.mappings.take_back(lpar_uuid)
            root = self._pool.root(lpar_uuid)
            element, size_gb = element_of(root.stored), root.disk.size_gb
            lent = self.reader.lent(lpar_uuid, self.servers, element, size_gb)
            with lent as disk:
                yield reading.of(disk)

    def end_read(self, lpar_uuid: str) -> bool:
        with self.reader.alone(lpar_uuid):
            return self.mappings.take_back(lpar_uuid)

    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> set[str]:
        servers = self.servers if by_all_paths else ()
        return self.mappings.names(lpar_uuid, servers)

    def remove(self, lpar_uuid: str, *, delete: bool = True) -> None:
        """Delete the config drive in any case: this host alone has it."""
        self.reader.cancel(lpar_uuid)
        servers = self.mappings.detach(lpar_uuid) | {*self.servers}
        self.remove_where(
            lambda name: storage.belongs_to(name, lpar_uuid),
            sorted(servers),
            media_only=not delete,
        )
        if delete:
            self._pool.delete(self._pool.disks(lpar_uuid))

    def _clone(
        self, lpar_uuid: str, disk: storage.Disk, origin: pvm_storage.LUEnt
    ) -> pvm_storage.LUEnt:
        """Create a linked clone of an image.

        :raises exception.RestBusy: Another host is deleting the image, or has
            deleted it.
        """
        busy = exception.RestBusy(
            action=f'cloning {origin.name}',
            reason='another host is deleting this image',
        )
        try:
            made = self._make(lpar_uuid, disk, origin)
        except exception.RestError as error:
            if error.retryable or self._cache.is_usable(origin):
                raise
            raise busy from error
        if not self._cache.is_usable(origin):
            self._units.delete(made)
            raise busy
        return made

    def _make(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        origin: pvm_storage.LUEnt | None = None,
    ) -> pvm_storage.LUEnt:
        name = storage.unit_name(lpar_uuid, disk.role)
        return self._units.create(name, disk.size_gb, pools.DISK, origin)

    def _remove_leftovers(
        self, leftovers: Sequence[storage.PoolDisk], name: str | None
    ) -> None:
        """Delete the disks that an interrupted build of an LPAR left.

        :param name: Their name; None to unmap all storage of the LPAR.
        :raises exception.DiskInUse: A running LPAR uses one; nothing was
            deleted.
        """
        storage.check_unused(leftovers)
        for disk in leftovers:
            LOG.warning(
                '%s was left by an interrupted build; recreating it.',
                disk.stored.name,
            )
            self.mappings.detach(disk.lpar_uuid, name)
            self._units.delete(disk.stored.handle.unit)

    def _check_free(self, disks: Sequence[storage.Disk]) -> None:
        """Verify that the pool has as much space as disks will need.

        Disks are thin: Placement's allocation ratio tells which part of their
        size has to be free.

        :raises exception.InsufficientSpace: There is too little space.
        """
        size_gb = sum(disk.size_gb for disk in disks)
        self._check_free_gb(size_gb, exception.Listing(disks))

    def _check_free_gb(self, size_gb: float, purpose: str) -> None:
        free_gb = round(self._units.usage().free_gb, 2)
        needed_gb = round(size_gb / self._overcommitment, 2)
        storage.check_free(self._units, free_gb, needed_gb, purpose)


class PoolDisks(drivers.Pool):
    """What the disk driver ``ssp`` does with the pool.

    Disks are looked for by their names in all tiers, so that hosts with
    different tiers see the same disks.

    :param adapter: An adapter with a session that has logged on.
    :param units: The pool.
    :param cache: The images in the pool.
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
        # The names of the kept units that have been logged.
        self._kept: set[str] = set()

    def identity(self) -> str:
        return self._units.udid

    def disks(self, lpar_uuid: str | None = None) -> list[storage.PoolDisk]:
        units = self._units.units(of_all_tiers=True)
        return list(self.disks_among(units, lpar_uuid))

    def disks_among(
        self, units: Iterable[pvm_storage.LUEnt], lpar_uuid: str | None
    ) -> Iterator[storage.PoolDisk]:
        """Yield the logical units of instances among units."""
        for unit in units:
            parsed = storage.parse_unit_name(unit.name)
            if parsed is not None and lpar_uuid in (None, parsed[0]):
                yield storage.PoolDisk(
                    lpar_uuid=parsed[0],
                    disk=storage.Disk(parsed[1], unit.capacity),
                    in_use=self._checks_use and bool(unit.in_use),
                    stored=self.stored(unit),
                )

    def of_roles(
        self, lpar_uuid: str, roles: Container[str]
    ) -> list[storage.PoolDisk]:
        """Find the disks of an LPAR with certain roles."""
        disks = self.disks(lpar_uuid)
        return [disk for disk in disks if disk.disk.role in roles]

    def root(self, lpar_uuid: str) -> storage.PoolDisk:
        """Find the root disk of an LPAR.

        :raises exception.DiskMissing: There is none.
        :raises exception.DiskAmbiguous: There are several.
        """
        roots = self.of_roles(lpar_uuid, storage.ROOTS)
        return storage.only(roots, 'root', f'LPAR {lpar_uuid}')

    def sort_swaps(
        self, lpar_uuid: str, wanted: storage.Disk | None
    ) -> tuple[storage.Stored | None, list[storage.PoolDisk]]:
        """Find the swap disks of an LPAR.

        :param wanted: The swap disk that it should have; None for none.
        :returns: A disk of this size, if there is one, and all others.
        """
        swaps = self.of_roles(lpar_uuid, storage.SWAP)
        size_gb = wanted.size_gb if wanted else 0
        for swap in swaps:
            if wanted and storage.is_same_size(swap.disk.size_gb, size_gb):
                swaps.remove(swap)
                return swap.stored, swaps
        return None, swaps

    def stored(self, unit: pvm_storage.LUEnt) -> storage.Stored:
        """Return a logical unit in the form in which it can be attached."""
        element = pvm_storage.LU.bld_ref(self._adapter, unit.name, unit.udid)
        return storage.Stored(unit.name, Handle(unit, element))

    def delete(self, disks: Collection[storage.PoolDisk]) -> None:
        for disk in disks:
            if disk.in_use:
                self._log_kept(disk, 'a running LPAR uses it')
                continue
            try:
                self._units.delete(disk.stored.handle.unit)
            except exception.RestUnreachable:
                raise
            except exception.RestError as error:
                if error.retryable:
                    raise
                self._log_kept(disk, error)
            else:
                self._kept.discard(disk.stored.name)

    def _log_kept(self, disk: storage.PoolDisk, reason: object) -> None:
        if disk.stored.name in self._kept:
            return
        self._kept.add(disk.stored.name)
        LOG.warning(
            'Logical unit %(name)s is kept: %(reason)s. Another host may '
            'still have it; it is looked for again when Nova cleans the image '
            'cache.',
            {'name': disk.stored.name, 'reason': reason},
        )

    def cached_image(self, described: image.Image) -> image.Contents | None:
        if self._cache.find(described.fingerprint, self._units.units()):
            size = described.check((image.RAW,))
            return image.Contents(size, described.disk_format, size)
        return None

    def cache_image(
        self,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> bool:
        return self._cache.provide(described, contents, source)[1]

    def delete_interrupted(self) -> None:
        self._cache.delete_interrupted()

    def clean_cache(self, min_age: int) -> None:
        self._cache.clean(min_age)


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """A logical unit, to delete it, and a reference, to attach it."""

    unit: pvm_storage.LUEnt
    element: pvm_storage.LU


def is_unit(item: storage.Stored) -> bool:
    """Return whether something stored is a logical unit, not a medium."""
    return isinstance(item.handle, Handle)


def element_of(item: storage.Stored) -> Any:
    """Return pypowervm's wrapper of a logical unit or medium."""
    return item.handle.element if is_unit(item) else item.handle


def _is_ours(name: str) -> bool:
    return storage.is_ours(name) or image.parse(name) is not None

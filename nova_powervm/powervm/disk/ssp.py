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

import dataclasses
import math
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from oslo_log import log as logging
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.devices import host
from nova_powervm.instance import image
from nova_powervm.instance import pool_images
from nova_powervm.instance import storage
from nova_powervm.ops import disk_interfaces
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import errors
from nova_powervm.powervm.disk import group_contents
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import media
from nova_powervm.powervm.disk import pools
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import server_groups
from nova_powervm.powervm.disk import uploads

LOG = logging.getLogger(__name__)

#: Digits of a system's uuid in the names of images that it is writing.
_WRITER_DIGITS = 8


def load(context: disk_drivers.Context) -> disk_interfaces.Disks:
    """Create the disk driver of a host."""
    return SharedStoragePool(context)


class SharedStoragePool:
    """Logical units of a shared storage pool, and media on a VIOS.

    It implements both :class:`.disk_interfaces.Disks` and
    :class:`.disk_interfaces.Pool`.

    :param context: What each disk driver gets.
    """

    def __init__(self, context: disk_drivers.Context) -> None:
        settings = context.settings
        self._adapter = context.adapter
        self._overcommitment = settings.disk_overcommitment
        self._checks_use = settings.check_disks_in_use
        self._units = pools.StoragePool(
            context.adapter, settings.cluster_name, settings.tier_name
        )
        self._uploads = uploads.Uploads(context.adapter)
        self._cache = image_cache.ImageCache(
            self._units,
            self._uploads,
            lambda: str(context.system.wrapper.uuid)[:_WRITER_DIGITS],
        )
        self._mappings = scsi_mappings.ScsiMappings(context.adapter)
        self._groups = server_groups.ServerGroups(
            context.adapter, lambda: self._units.servers[0]
        )
        self._media = media.MediaRepository(
            context.adapter, self._groups, self._uploads, settings
        )

    @property
    def unavailable(self) -> None:
        """None: this host offers disks."""

    @property
    def image_formats(self) -> tuple[str, ...]:
        """Raw only: the server writes the bytes of an image as they are."""
        return (image.RAW,)

    @property
    def pool(self) -> disk_interfaces.Pool:
        """The pool itself."""
        return self

    def capacity(self) -> host.DiskCapacity:
        """Return the tier's size and how much of it is used, in whole GiB.

        Reserve the sizes of all units that Placement does not count: images,
        disks of the size of an image, and what the driver has not made.

        :raises exception.ConfigurationError: There is no such pool.
        """
        usage = self._units.usage()
        total = math.floor(usage.capacity_gb)
        others = sum(
            unit.capacity for unit in usage.units if not _is_counted(unit.name)
        )
        return host.DiskCapacity(
            total_gb=total,
            used_gb=max(0, total - math.floor(usage.free_gb)),
            reserved_gb=min(total, math.ceil(round(others, 3))),
        )

    def prepare(self) -> None:
        """Remove what a service that was killed was uploading."""
        self._uploads.forget_leftovers(_is_ours)
        self._cache.delete_interrupted()

    @errors.retried
    def check(self, *, config_drive: bool) -> None:
        """Verify that there is a place for a config drive if one is needed.

        :raises exception.ConfigurationError: There is no media repository, and
            no volume group to create one in.
        """
        if config_drive:
            self._media.check()

    @errors.retried
    def check_room(
        self,
        lpar: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
    ) -> None:
        """Verify that there is enough space for an LPAR's disks.

        The disks that the LPAR already has count as free.

        :raises exception.NoRoom: There is too little.
        """
        freed = sum(known.disk.size_gb for known in self.disks(lpar))
        self._check_free(disks, freed)
        if medium_bytes is not None:
            self._media.check_room(lpar, medium_bytes)

    @errors.retried
    def make_root(
        self,
        lpar: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: disk_interfaces.Source,
    ) -> disk_interfaces.Stored:
        """Create a linked clone of an image, which is cached first.

        :raises exception.ImageDamaged: The bytes do not match the image's
            hash.
        :raises exception.NoRoom: There is too little space.
        :raises exception.RestBusy: The image was deleted at the same time.
        """
        units = self._units.units()
        self._remove_leftovers(self._disks_among(units, lpar))
        self._check_free([disk])
        found = self._cache.find(described.fingerprint, units)
        if found is None:
            found, _ = self._cache.provide(described, contents, source)
        made = self._clone(lpar, disk, found)
        return self._stored(made)

    @errors.retried
    def make_blank(
        self, lpar: str, disk: storage.Disk
    ) -> disk_interfaces.Stored:
        """Create an empty logical unit.

        :raises exception.NoRoom: There is too little space.
        """
        self._remove_leftovers(
            known for known in self.disks(lpar) if known.disk.role == disk.role
        )
        self._check_free([disk])
        return self._stored(self._make(lpar, disk))

    @errors.retried
    def make_medium(self, lpar: str, iso: bytes) -> disk_interfaces.Stored:
        """Create a virtual optical medium on the first server."""
        return self._media.make(lpar, iso)

    def attach(
        self, lpar: str, stored: Sequence[disk_interfaces.Stored]
    ) -> None:
        """Map storage to an LPAR by each server of this host in the cluster.

        The medium is on one server only. A server that does not run is left
        out, unless none does.
        """
        units = [
            item.handle.element
            for item in stored
            if isinstance(item.handle, _Handle)
        ]
        others = [
            item.handle
            for item in stored
            if not isinstance(item.handle, _Handle)
        ]
        first, *more = self._units.servers
        mapped = [self._mappings.attach(first, lpar, [*units, *others])]
        mapped += [
            self._mappings.attach(server, lpar, units, number)
            for number, server in enumerate(more, start=1)
        ]
        if not any(mapped) or (others and not mapped[0]):
            raise exception.RestBusy(
                action=f'mapping storage to LPAR {lpar}',
                reason='the Virtual I/O Server does not run',
            )

    def stems(self) -> frozenset[str]:
        """Return an empty set: other hosts have disks in the pool."""
        return frozenset()

    def remove_stems(self, stems: Collection[str]) -> None:
        """Do nothing, as :meth:`stems` names no disks."""

    def remove(self, lpar: str, *, delete: bool = True) -> None:
        """Unmap all storage of an LPAR, and delete it, if there is any.

        The config drive, which this host alone has, is deleted in any case.
        """
        servers = self._mappings.detach(lpar) | {self._units.servers[0]}
        edit = group_contents.removal(
            lambda name: storage.belongs_to(name, lpar), media_only=not delete
        )
        for server in sorted(servers):
            self._groups.change_all(edit, server)
        if delete:
            self.delete(self.disks(lpar))

    # The pool

    def identity(self) -> str:
        """Return the pool's UDID."""
        return str(self._units.read().udid)

    def disks(self, lpar: str | None = None) -> list[disk_interfaces.PoolDisk]:
        """Find the logical units of instances; see the protocol."""
        return list(self._disks_among(self._units.units(), lpar))

    def _disks_among(
        self, units: Iterable[pvm_storage.LUEnt], lpar: str | None
    ) -> Iterator[disk_interfaces.PoolDisk]:
        for unit in units:
            parsed = storage.parse_unit_name(unit.name)
            if parsed is not None and lpar in (None, parsed[0]):
                yield disk_interfaces.PoolDisk(
                    lpar=parsed[0],
                    disk=storage.Disk(parsed[1], unit.capacity),
                    in_use=self._checks_use and bool(unit.in_use),
                    stored=self._stored(unit),
                )

    def delete(self, disks: Collection[disk_interfaces.PoolDisk]) -> None:
        """Delete logical units, if they exist and no LPAR has them."""
        for known in disks:
            try:
                self._units.delete(known.stored.handle.unit)
            except exception.RestUnreachable:
                raise
            except exception.RestError as error:
                if error.retryable:
                    raise
                LOG.warning(
                    'Logical unit %(name)s is kept: %(error)s. Another host '
                    'may still map it; it is deleted when that host has '
                    'removed the LPAR.',
                    {'name': known.stored.name, 'error': error},
                )

    def cached_image(self, described: image.Image) -> image.Contents | None:
        """Return the contents of an image in the cache; None without it."""
        if self._cache.find(described.fingerprint, self._units.units()):
            size = described.check(self.image_formats)
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

    def clean_cache(self, min_age: int) -> None:
        """Delete the images from which no disk is made any more."""
        self._cache.clean(min_age)

    def _clone(
        self, lpar: str, disk: storage.Disk, origin: pvm_storage.LUEnt
    ) -> pvm_storage.LUEnt:
        """Create a linked clone of an image.

        :raises exception.RestBusy: Another host deletes the image, or has
            done so since it was found.
        """
        busy = exception.RestBusy(
            action=f'cloning {origin.name}',
            reason='another host is deleting this image',
        )
        try:
            made = self._make(lpar, disk, origin)
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
        lpar: str,
        disk: storage.Disk,
        origin: pvm_storage.LUEnt | None = None,
    ) -> pvm_storage.LUEnt:
        name = storage.unit_name(lpar, disk.role)
        return self._units.create(name, disk.size_gb, pools.DISK, origin)

    def _stored(self, unit: pvm_storage.LUEnt) -> disk_interfaces.Stored:
        element = pvm_storage.LU.bld_ref(self._adapter, unit.name, unit.udid)
        return disk_interfaces.Stored(unit.name, _Handle(unit, element))

    def _remove_leftovers(
        self, found: Iterable[disk_interfaces.PoolDisk]
    ) -> None:
        """Delete what an interrupted build of an LPAR left.

        :raises exception.DiskInUse: A running LPAR uses it.
        """
        for known in found:
            if known.in_use:
                raise exception.DiskInUse(
                    name=known.stored.name, lpar=known.lpar
                )
            LOG.warning(
                '%s was left by an interrupted build; recreating it.',
                known.stored.name,
            )
            self._mappings.detach(known.lpar)
            self._units.delete(known.stored.handle.unit)

    def _check_free(
        self, disks: Sequence[storage.Disk], freed_gb: float = 0.0
    ) -> None:
        """Verify that the pool has as much space as disks will need.

        Disks are thin. How much of their size has to be free is what
        Placement's allocation ratio says.

        :raises exception.NoRoom: There is too little.
        """
        size_gb = sum(disk.size_gb for disk in disks)
        group_contents.check_free(
            self._units,
            round(self._units.read().free_space + freed_gb, 2),
            round(size_gb / self._overcommitment, 2),
            ', '.join(map(str, disks)),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Handle:
    """What a logical unit is attached or deleted by."""

    unit: pvm_storage.LUEnt
    element: pvm_storage.LU


def _is_counted(name: str) -> bool:
    """Return whether Placement counts the size of a logical unit."""
    parsed = storage.parse_unit_name(name)
    return parsed is not None and parsed[1] != storage.UNCOUNTED_ROOT


def _is_ours(name: str) -> bool:
    return storage.is_ours(name) or pool_images.parse(name) is not None

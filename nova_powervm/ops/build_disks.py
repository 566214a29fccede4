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

"""The disks of a build: new ones, or those that an instance keeps."""

import contextlib
import functools
import operator
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Protocol

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import disk_use
from nova_powervm.ops import images as image_ops
from nova_powervm.ops import instance_spec

LOG = logging.getLogger(__name__)


class Preparation(Protocol):
    """The disks of one build, after all checks."""

    def make(self, iso: bytes | None) -> list[disk_interfaces.Stored]:
        """Create what the instance does not have yet.

        :param iso: Contents of its config drive; None for no config drive.
        :returns: Its disks and medium, the root disk first.
        """


class DiskOps:
    """Prepares the disks of builds.

    :param disks: The disk driver.
    :param images: Reads images.
    """

    def __init__(
        self, disks: disk_interfaces.Disks, images: image_ops.ImageOps
    ) -> None:
        self._disks = disks
        self._images = images

    def check(self, instance: instance_spec.InstanceSpec) -> None:
        """Refuse a build whose disks cannot be made, without a request.

        :raises exception.ImageRefused: No disk can be made from the image.
        :raises exception.ConfigurationError: The host offers no disks.
        """
        if not instance.keeps_disks:
            instance.image_disk.image.check(self._disks.image_formats)
        self._disks.check(config_drive=instance.config_drive is not None)

    @contextlib.contextmanager
    def opened(
        self, instance: instance_spec.InstanceSpec
    ) -> Iterator[Preparation]:
        """Open the image of a build, or find the disks that it keeps.

        :raises exception.ImageRefused: No disk can be made from the image.
        :raises exception.RootDiskTooSmall: The image does not fit.
        :raises exception.DiskMissing: A disk to keep does not exist.
        :raises exception.DiskInUse: A running LPAR uses a disk to keep.
        """
        if instance.keeps_disks:
            kept = _KeptDisks(instance, self._disks)
            kept.find()
            yield kept
            return
        with contextlib.closing(
            _ImageSource(self._images, instance.image_disk)
        ) as source:
            contents = self._contents(source)
            yield _NewDisks(instance, self._disks, contents, source)

    def check_rebuild(
        self,
        instance: instance_spec.InstanceSpec,
        medium_bytes: int | None,
    ) -> None:
        """Verify the whole image, and the space for the disks.

        :param medium_bytes: Size of the config drive; None for none.
        :raises exception.NoRoom: There is not enough space.
        :raises exception.PowerVMError: As for :meth:`opened`.
        """
        root = instance.image_disk
        contents = self._verify(root)
        self._disks.check_room(
            instance.lpar, _disks(instance, contents), medium_bytes
        )

    def _verify(self, root: instance_spec.RootDisk) -> image.Contents:
        """Verify a whole image, and write it to the cache of a pool."""
        if self._disks.pool is None:
            return self._images.verify(
                root.image, root.source, inspect=root.inspect
            )
        self._images.cache(
            root.image, root.source, self._disks, inspect=root.inspect
        )
        contents = self._cached(root.image)
        if contents is None:
            raise exception.RestBusy(
                action=f'caching image {root.image.id}',
                reason='another host has just deleted it',
            )
        return contents

    def _contents(self, source: '_ImageSource') -> image.Contents:
        """Return what an image contains, without opening a cached one."""
        return self._cached(source.described) or source.inspect()

    def _cached(self, described: image.Image) -> image.Contents | None:
        pool = self._disks.pool
        return pool.cached_image(described) if pool else None


class _ImageSource:
    """An image that is opened when it is needed for the first time."""

    def __init__(
        self, images: image_ops.ImageOps, root: instance_spec.RootDisk
    ) -> None:
        self._images = images
        self._root = root
        self._reader: image_ops.ImageReader | None = None

    @property
    def described(self) -> image.Image:
        """The image as Glance describes it."""
        return self._root.image

    def __call__(self) -> Generator[bytes]:
        """Yield the image's bytes; see :class:`.images.ImageReader`."""
        return self._open()()

    def inspect(self) -> image.Contents:
        """Open the image, and return what its beginning shows."""
        return self._open().contents

    def close(self) -> None:
        """End an incomplete transfer."""
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> image_ops.ImageReader:
        if self._reader is None:
            root = self._root
            self._reader = self._images.open(
                root.image, root.source, inspect=root.inspect
            )
        return self._reader


class _NewDisks:
    """Disks that are made from an image, and blank ones."""

    def __init__(
        self,
        instance: instance_spec.InstanceSpec,
        disks: disk_interfaces.Disks,
        contents: image.Contents,
        source: _ImageSource,
    ) -> None:
        self._instance = instance
        self._driver = disks
        self._contents = contents
        self._source = source
        self._wanted = _disks(instance, contents)

    def make(self, iso: bytes | None) -> list[disk_interfaces.Stored]:
        """Create all disks of an LPAR that does not exist yet."""
        lpar = self._instance.lpar
        root, *blanks = self._wanted
        described = self._source.described
        with self._log_duration(
            f'{root} from image {described.id} ({self._contents.size} bytes)'
        ):
            stored = [
                self._driver.make_root(
                    lpar, root, described, self._contents, self._source
                )
            ]
        for disk in blanks:
            with self._log_duration(str(disk)):
                stored.append(self._driver.make_blank(lpar, disk))
        if iso is not None:
            with self._log_duration(f'config drive ({len(iso)} bytes)'):
                stored.append(self._driver.make_medium(lpar, iso))
        return stored

    @contextlib.contextmanager
    def _log_duration(self, what: str) -> Iterator[None]:
        """Log the start and the duration of creating a disk or medium."""
        instance = self._instance.uuid
        LOG.info('Creating %s.', what, instance_uuid=instance)
        with timeutils.StopWatch() as watch:
            yield
        LOG.info(
            'Created %(what)s in %(seconds).1f seconds.',
            {'what': what, 'seconds': watch.elapsed()},
            instance_uuid=instance,
        )


class _KeptDisks:
    """The disks of an instance that a pool has for it."""

    def __init__(
        self,
        instance: instance_spec.InstanceSpec,
        disks: disk_interfaces.Disks,
    ) -> None:
        self._instance = instance
        self._driver = disks

    def make(self, iso: bytes | None) -> list[disk_interfaces.Stored]:
        """Create the config drive, and the swap disk if it is missing.

        Ask again whether a disk is in use: other requests of the build may
        have taken minutes.
        """
        kept = self.find()
        LOG.info(
            'Keeping the disks %s.',
            ', '.join(known.stored.name for known in kept),
            instance_uuid=self._instance.uuid,
        )
        stored = [known.stored for known in kept]
        for disk in self._instance.blanks:
            if disk.role == storage.SWAP:
                stored += self._swap(kept, disk)
        if iso is not None:
            stored.append(self._driver.make_medium(self._instance.lpar, iso))
        return stored

    def _swap(
        self, kept: Sequence[disk_interfaces.PoolDisk], wanted: storage.Disk
    ) -> list[disk_interfaces.Stored]:
        """Create the swap disk unless it is kept."""
        for known in kept:
            if known.disk.role == wanted.role:
                self._compare(known.disk, wanted)
                return []
        return [self._driver.make_blank(self._instance.lpar, wanted)]

    def _compare(self, swap: storage.Disk, wanted: storage.Disk) -> None:
        """Log that a swap disk has not the flavor's size."""
        if not storage.is_same_size(swap.size_gb, wanted.size_gb):
            LOG.warning(
                'Keeping the %(swap)s, although the flavor has one of '
                '%(size)g GB.',
                {'swap': swap, 'size': wanted.size_gb},
                instance_uuid=self._instance.uuid,
            )

    def find(self) -> list[disk_interfaces.PoolDisk]:
        """Return the instance's disks, the root disk first.

        A swap disk may be missing: it holds nothing worth keeping.

        :raises exception.DiskMissing: Another one does not exist.
        :raises exception.DiskAmbiguous: Several may be one of them.
        :raises exception.DiskInUse: A running LPAR uses one of them.
        """
        pool, lpar = self._driver.pool, self._instance.lpar
        found = list(pool.disks(lpar)) if pool else []
        wanted = [
            self._one(found, 'root', storage.is_root),
            *(
                self._one(
                    found,
                    storage.role_name(disk.role),
                    functools.partial(operator.eq, disk.role),
                )
                for disk in self._instance.blanks
                if disk.role != storage.SWAP
                or any(known.disk.role == disk.role for known in found)
            ),
        ]
        disk_use.check_unused(wanted)
        return wanted

    def _one(
        self,
        found: Sequence[disk_interfaces.PoolDisk],
        what: str,
        is_wanted: Callable[[str], bool],
    ) -> disk_interfaces.PoolDisk:
        """Return the only disk of a role."""
        matching = [known for known in found if is_wanted(known.disk.role)]
        return disk_use.only(matching, what, f'instance {self._instance.uuid}')


def _disks(
    instance: instance_spec.InstanceSpec, contents: image.Contents
) -> Sequence[storage.Disk]:
    """Return the disks that a build creates, the root disk first.

    :raises exception.RootDiskTooSmall: The image does not fit the flavor.
    """
    root = instance.image_disk
    size = storage.root_disk_gb(
        root.flavor_gb, contents.disk_bytes, root.image.id
    )
    return (
        storage.Disk(storage.root_role(root.flavor_gb), size),
        *instance.blanks,
    )

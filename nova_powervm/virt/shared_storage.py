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

"""Finds disks, and caches images, in storage that several hosts share."""

from collections.abc import Sequence
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from oslo_utils import fileutils

from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.ops import images as image_ops
from nova_powervm.ops import sweep
from nova_powervm.virt import glance_images
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

CONF = nova.conf.CONF

#: Keys of a description of shared storage: the identity of its pool, and the
#: uuid of the LPAR that has disks in it.
POOL = 'pool'
LPAR = 'lpar'


class SharedStorage:
    """Finds disks that an instance has on another host, and caches images.

    :param disks: The disk driver.
    :param images: Reads images.
    :param unused: Removes unused images and disks.
    :param nodename: Nova's name of this host.
    """

    def __init__(
        self,
        disks: drivers.Disks,
        images: image_ops.ImageOps,
        unused: sweep.Sweep,
        nodename: str,
    ) -> None:
        self._disks = disks
        self._images = images
        self._sweep = unused
        self._nodename = nodename

    @property
    def pool(self) -> drivers.Pool | None:
        """The pool that this host shares with others, if any."""
        return self._disks.pool

    @property
    def capabilities(self) -> dict[str, bool]:
        """The capabilities of the driver that depend on the disk driver."""
        return {
            'supports_image_type_qcow2': image.QCOW2
            in self._disks.image_formats,
            'has_imagecache': self.pool is not None,
        }

    def sees_disks(self, instance: Any) -> bool:
        """Return whether this host sees the disks of an instance.

        Nova asks the destination of an evacuation before it binds ports to it.
        Therefore refuse an evacuation here if it cannot work.

        :raises nova.exception.NovaException: A running LPAR uses the disks.
        """
        disks = self.kept_disks(instance)
        storage.check_unused(disks)
        return bool(disks)

    def kept_disks(self, instance: Any) -> Sequence[storage.PoolDisk]:
        """Return the disks of an instance in the pool of this host.

        Ignore disks that the instance had before it was built elsewhere with
        other disks: they may be years old.
        """
        pool = self.pool
        if pool is None or recorded_pool(instance) != pool.identity():
            return ()
        return pool.disks(translation.lpar_of(instance))

    def record_pool(self, instance: Any) -> None:
        """Record which pool has the disks of an instance that was built.

        Nova saves this with the rest of the instance.
        """
        pool = self.pool
        if pool is None:
            system_metadata.POOL.remove(instance.system_metadata)
        else:
            system_metadata.POOL.write(
                instance.system_metadata, pool.identity()
            )

    def may_delete_disks(self, instance: Any) -> bool:
        """Return whether this host may delete the disks of an instance.

        Nova may have a stale LPAR removed after its instance has come back to
        the pool, and pass a record that is older than that.
        """
        pool = self.pool
        if pool is None:
            return True
        try:
            record = objects.Instance.get_by_uuid(
                nova_context.get_admin_context(read_deleted='yes'),
                instance.uuid,
                expected_attrs=['system_metadata'],
            )
        except nova_exception.InstanceNotFound:
            return True
        if record.deleted or recorded_pool(record) != pool.identity():
            return True
        return bool(record.host == self._nodename)

    def describe(self, instance: Any) -> dict[str, str]:
        """Describe the storage that has the disks of an instance.

        Nova asks the host that an instance was evacuated from, when that host
        is back.

        :returns: The argument for :meth:`is_shared`, as can be sent to another
            host.
        :raises NotImplementedError: No other host shares the storage; any
            other result would let Nova keep the disks.
        """
        pool = self.pool
        if pool is None or not pool.disks(translation.lpar_of(instance)):
            raise NotImplementedError()
        return {POOL: pool.identity(), LPAR: translation.lpar_of(instance)}

    def is_shared(self, data: dict[str, str]) -> bool:
        """Return whether this host shares the storage of another one.

        :param data: The result of :meth:`describe` on the other host.
        """
        pool = self.pool
        return pool is not None and pool.identity() == data[POOL]

    def cache_image(self, context: Any, image_id: str) -> bool:
        """Write an image to the pool's cache before servers need it.

        :returns: Whether it was not there yet.
        :raises NotImplementedError: The disk driver has no cache.
        """
        if self.pool is None:
            raise NotImplementedError()
        glance = glance_images.GlanceImage(context, image_id)
        return self._images.cache(
            glance.describe(),
            glance.read,
            self._disks,
            inspect=not CONF.workarounds.disable_deep_image_inspection,
        )

    def remove_unused(self) -> None:
        """Remove images and disks that no server of any host needs.

        An image is unused if no disk in the pool is made from it: Nova lists
        the instances of this host only.
        """
        options = CONF.image_cache
        age = options.remove_unused_original_minimum_age_seconds
        self._sweep.run(
            sweep.When.IMAGE_CACHE,
            image_age=age if options.remove_unused_base_images else None,
        )


def recorded_pool(instance: Any) -> str | None:
    """Return the identity of the pool that has the disks of an instance."""
    return system_metadata.POOL.read(instance.system_metadata)


def prepare_cache(disks: drivers.Disks) -> None:
    """Create the directory that Nova expects of a host with a cache.

    Nova notes there which hosts share it before it calls manage_image_cache,
    and does not create it.
    """
    if disks.pool is not None:
        fileutils.ensure_tree(CONF.instances_path)

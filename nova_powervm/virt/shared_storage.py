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

"""The methods of the compute driver for storage that several hosts share."""

from typing import Any

import nova.conf
from oslo_log import log as logging
from oslo_utils import fileutils

from nova_powervm import exception
from nova_powervm.instance import image
from nova_powervm.ops import disk_interfaces
from nova_powervm.virt import driver_base
from nova_powervm.virt import errors
from nova_powervm.virt import images

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


@errors.translate_errors
class SharedStorage(driver_base.DriverBase):
    """Finds disks that an instance has on another host, and caches images."""

    def _pool(self) -> disk_interfaces.Pool | None:
        return self._services().disks.pool

    def _declare_storage(self) -> None:
        """Tell Nova what the disk driver supports."""
        disks = self._services().disks
        self.capabilities: dict[str, bool] = {
            **self.capabilities,
            'supports_image_type_qcow2': image.QCOW2 in disks.image_formats,
            'has_imagecache': disks.pool is not None,
        }
        if disks.pool is not None:
            # Nova notes there which hosts share it before it calls
            # manage_image_cache, and does not create it.
            fileutils.ensure_tree(CONF.instances_path)

    def instance_on_disk(self, instance: Any) -> bool:
        """Return whether this host sees the disks of an instance.

        Nova asks the destination of an evacuation, and records the answer in
        its log and its notifications only.
        """
        pool = self._pool()
        return bool(pool and pool.disks(driver_base.lpar_of(instance)))

    def check_instance_shared_storage_local(
        self, context: Any, instance: Any
    ) -> dict[str, str]:
        """Describe the storage that has the disks of an instance.

        Nova asks the host that an instance was evacuated from, when that host
        is back.

        :returns: What :meth:`check_instance_shared_storage_remote` needs, in
            a form that can be sent to another host.
        :raises NotImplementedError: No other host shares the storage; any
            other result would let Nova keep the disks.
        """
        pool = self._pool()
        if pool is None:
            raise NotImplementedError()
        return {'pool': pool.identity(), 'lpar': driver_base.lpar_of(instance)}

    def check_instance_shared_storage_remote(
        self, context: Any, data: dict[str, str]
    ) -> bool:
        """Return whether this host shares the storage of another one.

        :param data: What the other host's driver returned.
        """
        pool = self._pool()
        return pool is not None and pool.identity() == data['pool']

    def check_instance_shared_storage_cleanup(
        self, context: Any, data: dict[str, str]
    ) -> None:
        """Do nothing, because the check created nothing."""

    def cache_image(self, context: Any, image_id: str) -> bool:
        """Write an image to the pool's cache before servers need it.

        :returns: Whether it was not there yet.
        :raises NotImplementedError: The disk driver has no cache.
        """
        running = self._services()
        if running.disks.pool is None:
            raise NotImplementedError()
        glance = images.GlanceImage(context, image_id)
        return running.images.cache(
            glance.describe(),
            glance.read,
            running.disks,
            inspect=not CONF.workarounds.disable_deep_image_inspection,
        )

    def manage_image_cache(self, context: Any, all_instances: Any) -> None:
        """Remove images and disks that no server of any host needs.

        An image is unused if no disk in the pool is made from it: Nova lists
        the instances of this host only.
        """
        running = self._services()
        pool = running.disks.pool
        if pool is None:
            return
        try:
            if CONF.image_cache.remove_unused_base_images:
                pool.clean_cache(
                    CONF.image_cache.remove_unused_original_minimum_age_seconds
                )
            running.pool_orphans.remove()
        except exception.PowerVMError as error:
            LOG.warning(
                'Unused images and disks could not be removed from the '
                'shared storage pool: %s',
                error,
            )

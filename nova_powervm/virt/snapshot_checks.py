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

"""Checks whether an image can be made of the root disk of an instance."""

from typing import Any

import nova.conf
from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import images
from nova_powervm.ops import interfaces
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.virt import translation
from nova_powervm.virt import volumes

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

_SHELVES = (task_states.SHELVING, task_states.SHELVING_OFFLOADING)


class SnapshotChecks:
    """Refuses images that cannot be made, before anything changes.

    :param disks: The disk driver.
    :param partitions: The host's LPARs.
    :param connects: Connects volumes to LPARs.
    """

    def __init__(
        self,
        disks: disk_interfaces.Disks,
        partitions: interfaces.Partitions,
        connects: volume_ops.VolumeOps,
    ) -> None:
        self._disks = disks
        self._partitions = partitions
        self._volumes = connects

    def check(self, instance: Any) -> None:
        """Refuse an image of an instance as it is now, running or not.

        :param instance: nova.objects.Instance.
        :raises exception.PowerVMError: No image can be made, or not as it is
            asked for.
        """
        lpar_uuid = translation.lpar_of(instance)
        lpar = interfaces.require_lpar(self._partitions, lpar_uuid)
        is_off = lpar.power is partition.Power.OFF
        size_gb = self._disks.check_read(lpar_uuid, is_off=is_off)
        if _is_too_large(instance, size_gb):
            LOG.warning(
                'The root disk has %(size)g GB, more than the %(root)d GB of '
                'the flavor: a server with this flavor cannot be built from '
                'the image.',
                {'size': size_gb, 'root': instance.flavor.root_gb},
                instance=instance,
            )
        if is_off:
            return
        if instance.image_meta.properties.get('os_require_quiesce', False):
            raise exception.SnapshotRefused(
                reason='its image says os_require_quiesce, but PowerVM cannot '
                'freeze the file systems of a guest. Stop the server first'
            )
        LOG.warning(
            'The guest runs while an image is made of its root disk: file '
            'systems may be inconsistent in the image. Stop the server first '
            'for a clean one.',
            instance=instance,
        )

    def check_stop(self, instance: Any) -> None:
        """Refuse a stop that is the first step of a shelve that would fail.

        Nova makes no image of a server that boots from a volume, but removes
        its LPAR at once.

        :param instance: nova.objects.Instance; it need not be off yet.
        :raises exception.PowerVMError: No image can be made of it, or no
            server from the image; or the LPAR could not be removed.
        """
        if instance.task_state not in _SHELVES:
            return
        leaves = instance.task_state == task_states.SHELVING_OFFLOADING
        makes_image = not leaves and not volumes.is_volume_backed(instance)
        if not makes_image or CONF.shelved_offload_time == 0:
            self._check_removal(instance)
        if makes_image:
            self._check_shelving(instance)

    def _check_removal(self, instance: Any) -> None:
        """Refuse to remove an LPAR whose volumes cannot be disconnected.

        By the time that Nova has the driver remove it, it has unbound its
        ports.
        """
        wanted = volumes.recorded(instance)
        if wanted:
            self._volumes.check_removal(translation.lpar_of(instance), wanted)

    def _check_shelving(self, instance: Any) -> None:
        """Refuse to shelve an instance that could not come back."""
        size_gb = self._disks.check_read(
            translation.lpar_of(instance), is_off=True
        )
        self.check_size(instance, size_gb * storage.GIB)
        if instance.trusted_certs or CONF.glance.verify_glance_signatures:
            raise exception.SnapshotRefused(
                reason='its images must be signed, and the image of a shelved '
                'server is not, so that it could not be unshelved. Stop the '
                'server instead'
            )

    def check_size(self, instance: Any, size: float) -> None:
        """Refuse to shelve an instance whose root disk is too large.

        :param size: That of the disk, in bytes.
        :raises exception.SnapshotRefused: It could not be unshelved.
        """
        if _is_too_large(instance, size / storage.GIB):
            raise exception.SnapshotRefused(
                reason='it could not be unshelved, because its root disk has '
                f'{size / storage.GIB:.10g} GB, more than the '
                f'{instance.flavor.root_gb} GB of the flavor. Resize it to a '
                'flavor with a larger disk first'
            )

    def check_beginning(
        self, instance: Any, beginning: bytes, *, shelves: bool
    ) -> None:
        """Refuse to shelve an instance if no disk is made from its image.

        A guest may write to the first sectors of its disk what makes them
        look like another format, or like a damaged partition table.

        :param beginning: The first bytes of its root disk.
        :param shelves: Whether the image is all that will be left of it.
        :raises exception.SnapshotRefused: It could not be unshelved.
        """
        if CONF.workarounds.disable_deep_image_inspection:
            return
        problem = images.problem_with_raw(beginning)
        if problem and shelves:
            raise exception.SnapshotRefused(
                reason='it could not be unshelved, as its disk does not begin '
                f'like a raw image ({problem}). Correct its partition '
                'table, or stop the server instead'
            )
        if problem:
            LOG.warning(
                'The first bytes of the root disk are not those of a raw '
                'image (%s): no server can be built from the image.',
                problem,
                instance=instance,
            )


def _is_too_large(instance: Any, size_gb: float) -> bool:
    return bool(0 < instance.flavor.root_gb < size_gb)

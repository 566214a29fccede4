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

"""Makes images of the root disks of instances, and checks that it can."""

import hashlib
from collections.abc import Callable
from typing import Any

import nova.conf
from nova import exception as nova_exception
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.image import glance
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.ops import images
from nova_powervm.ops import interfaces
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import errors
from nova_powervm.virt import glance_images
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

#: Name of the event that records why there is no snapshot.
_EVENT = 'powervm_snapshot'
_MIB = 2**20
_ALGORITHM = 'sha512'


class Snapshots:
    """Makes images of the root disks of instances.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred
        self._checks = SnapshotChecks(host)

    def take(
        self,
        context: Any,
        instance: Any,
        image_id: str,
        update_task_state: Callable[..., None],
    ) -> None:
        """Make an image for a snapshot, a backup or a shelved instance.

        After an error Nova deletes the image, but not the image of a shelve,
        which has also stopped the guest: undo both.

        :param context: Nova's request context.
        :param instance: nova.objects.Instance.
        :param image_id: The image that Nova has created for it.
        :param update_task_state: As Nova passes it.
        :raises nova.exception.NovaException: There is no image, and the guest
            is as it was; the reason is in a failed event of the action.
        """
        task = instance.task_state
        try:
            self._take(context, instance, image_id, update_task_state)
        except Exception as error:
            if task == task_states.SHELVING:
                self._undo_shelving(context, instance, image_id, error)
            if not isinstance(error, exception.PowerVMError):
                raise
            refusal = errors.to_nova(error, instance.uuid)
            if isinstance(error, exception.PartitionNotFound):
                # Nova would take the server for deleted, leave its task, and
                # record a success.
                refusal = nova_exception.NovaException(errors.for_users(error))
            # Nova marks the action of a snapshot as done before it calls this,
            # but not the action of a backup or a shelve.
            if task == task_states.IMAGE_SNAPSHOT:
                errors.record_failure(context, instance, _EVENT, refusal)
            raise refusal from error

    def _take(
        self,
        context: Any,
        instance: Any,
        image_id: str,
        update_task_state: Callable[..., None],
    ) -> None:
        shelves = instance.task_state == task_states.SHELVING
        self._checks.check(instance)
        update_task_state(task_states.IMAGE_PENDING_UPLOAD)
        with self._host.disks.read_root(translation.lpar_of(instance)) as disk:
            if shelves:
                # The host rounds the sizes that it reports.
                self._checks.check_size(instance, disk.size)
            update_task_state(
                task_states.IMAGE_UPLOADING,
                expected_state=task_states.IMAGE_PENDING_UPLOAD,
            )

            def verify_task() -> None:
                """Raise Nova's error if the server is being deleted.

                While a server is shelved Nova does not call destroy.
                """
                update_task_state(
                    task_states.IMAGE_UPLOADING,
                    expected_state=task_states.IMAGE_UPLOADING,
                )

            def check_beginning(data: bytes) -> None:
                self._checks.check_beginning(instance, data, shelves=shelves)

            _Upload(
                context,
                instance,
                image_id,
                disk,
                verify_task,
                check_beginning,
            ).run()

    def _undo_shelving(
        self, context: Any, instance: Any, image_id: str, error: Exception
    ) -> None:
        """Delete the image, and start the guest that Nova has stopped.

        Log further errors: they must not replace the reason.
        """
        compute_utils.delete_image(
            context, instance, glance.API(), image_id, log_exc_info=True
        )
        is_deleted = isinstance(
            error,
            nova_exception.UnexpectedDeletingTaskStateError
            | nova_exception.InstanceNotFound,
        )
        if is_deleted or instance.vm_state != vm_states.ACTIVE:
            return
        LOG.error(
            'The server is not shelved, and started again: %s',
            error,
            instance=instance,
        )
        try:
            self._deferred_starts.start_or_defer(context, instance)
        except exception.PowerVMError as second:
            LOG.error(
                'The server stays off: %s. Start it when that is mended.',
                second,
                instance=instance,
            )


class SnapshotChecks:
    """Refuses images that cannot be made, before anything changes.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def check(self, instance: Any) -> None:
        """Refuse an image of an instance as it is now, running or not.

        :param instance: nova.objects.Instance.
        :raises exception.PowerVMError: No image can be made, or not as it is
            asked for.
        """
        lpar_uuid = translation.lpar_of(instance)
        lpar = interfaces.require_lpar(self._host.partitions, lpar_uuid)
        is_off = lpar.power is partition.Power.OFF
        size_gb = self._host.disks.check_read(lpar_uuid, is_off=is_off)
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

        :param instance: nova.objects.Instance, which may be running.
        :raises exception.PowerVMError: No image could be made, no server could
            be built from the image, or the LPAR could not be removed.
        """
        if not instance_records.is_being_shelved(instance):
            return
        leaves = instance.task_state == task_states.SHELVING_OFFLOADING
        makes_image = not leaves and not instance_volumes.is_volume_backed(
            instance
        )
        if not makes_image or CONF.shelved_offload_time == 0:
            self._check_removal(instance)
        if makes_image:
            self._check_shelving(instance)

    def _check_removal(self, instance: Any) -> None:
        """Refuse to remove an LPAR whose volumes cannot be disconnected.

        When Nova has the driver remove the LPAR, it has already unbound the
        ports.
        """
        volumes = instance_volumes.recorded(instance)
        if volumes:
            self._host.volumes.check_removal(
                translation.lpar_of(instance), volumes
            )

    def _check_shelving(self, instance: Any) -> None:
        """Refuse to shelve an instance that could not come back."""
        size_gb = self._host.disks.check_read(
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

        :param size: The size of the disk in bytes.
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
        """Refuse to shelve an instance whose image would be refused later.

        A guest can make the first sectors of its disk look like another
        format, or like a damaged partition table.

        :param beginning: The first bytes of its root disk.
        :param shelves: Whether the instance is being shelved.
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


class _Upload:
    """The upload of one root disk to an image.

    :param context: Nova's request context.
    :param instance: nova.objects.Instance.
    :param image_id: The image.
    :param disk: The disk.
    :param verify_task: Is called from time to time; an error ends the upload.
    :param check_beginning: Is called with the first bytes of the disk, as many
        as are inspected before a server is built; an error ends the upload.
    """

    def __init__(
        self,
        context: Any,
        instance: Any,
        image_id: str,
        disk: drivers.DiskBytes,
        verify_task: Callable[[], None],
        check_beginning: Callable[[bytes], None],
    ) -> None:
        self._context = context
        self._instance = instance
        self._image_id = image_id
        self._disk = disk
        self._verify_task = verify_task
        self._check_beginning = check_beginning
        # The first bytes, until there are enough of them; then None.
        self._beginning: bytes | None = b''
        self._hash = hashlib.new(_ALGORITHM)
        self._sent = 0
        # The driver's own error, which Glance's client may wrap.
        self._error: Exception | None = None

    def run(self) -> None:
        """Send the bytes of the disk to Glance, and compare their hash.

        :raises exception.PowerVMError: Glance has not all of them.
        :raises nova.exception.ImageNotFound: A user has deleted the image.
        """
        LOG.info(
            'Sending the root disk (%(size)d bytes) to image %(image)s.',
            {'size': self._disk.size, 'image': self._image_id},
            instance=self._instance,
        )
        api = glance.API()
        try:
            record = api.get(self._context, self._image_id)
            api.update(
                self._context, self._image_id, self._metadata(record), self
            )
        except nova_exception.ImageNotFound:
            raise
        except Exception as error:
            # Nova passes on any error of Glance's client.
            if self._error is not None:
                raise self._error from error
            raise exception.SnapshotRefused(
                reason=exception.PrivateText(
                    f'Glance did not take the image: {error}',
                    'Glance did not take the image',
                )
            ) from error
        self._compare()

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes of the disk; called by Glance's client.

        :param size: The most bytes to return; -1 for a size of our choice.
        """
        try:
            data = self._disk.stream.read(size if size > 0 else _MIB)
            self._hash.update(data)
            self._inspect(data)
            self._report(len(data))
        except Exception as error:
            self._error = error
            raise
        return data

    def _inspect(self, data: bytes) -> None:
        """Have the first bytes checked, once there are enough of them."""
        if self._beginning is None:
            return
        self._beginning += data
        if data and len(self._beginning) < images.BEGINNING:
            return
        beginning, self._beginning = self._beginning, None
        self._check_beginning(beginning)

    def _report(self, size: int) -> None:
        """Log each tenth of the disk, and verify that it is still wanted."""
        sent, self._sent = self._sent, self._sent + size
        percent = 100 * self._sent // self._disk.size
        if percent // 10 == 100 * sent // self._disk.size // 10:
            return
        LOG.info(
            'Sent %(percent)d %% of the root disk to image %(image)s.',
            {'percent': percent, 'image': self._image_id},
            instance=self._instance,
        )
        self._verify_task()

    def _metadata(self, record: Any) -> dict[str, Any]:
        """Return the metadata that Nova's drivers give to an image.

        Nova creates the image of a backup with the format of the original
        image, which is not the format of the bytes that are sent.
        """
        properties = {
            'image_location': 'snapshot',
            'image_state': 'available',
            'owner_id': self._instance.project_id,
        }
        if self._instance.os_type:
            properties['os_type'] = self._instance.os_type
        return {
            'name': record['name'],
            'disk_format': image.RAW,
            'container_format': 'bare',
            'properties': properties,
        }

    def _compare(self) -> None:
        """Compare the bytes of the disk with those that Glance has stored.

        :raises exception.SnapshotRefused: They differ.
        """
        stored = glance_images.GlanceImage(
            self._context, self._image_id
        ).describe()
        is_same = stored.size == self._disk.size and (
            stored.hash_algorithm != _ALGORITHM
            or stored.hash_value == self._hash.hexdigest()
        )
        if not is_same:
            raise exception.SnapshotRefused(
                reason='Glance has stored other bytes than those of the disk '
                f'({stored.size} of {self._disk.size} bytes)'
            )

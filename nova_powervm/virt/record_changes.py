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

"""All changes that the driver makes to records of Nova's, and why it must.

No other module saves an object of Nova's, sets a state, a status or a host, or
moves allocations. Interrupted operations are ended by Nova's own start, a hard
reboot or the commands of the page on stuck servers. Each function names the
code of Nova that forces the change. (A hard reboot that ends a move also has
Neutron bind the ports; so does :mod:`nova_powervm.virt.instance_ports`, if
ports of an instance of this host are unbound.)
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import utils
from nova.compute import task_states
from nova.compute import vm_states
from nova.virt import block_device
from oslo_log import log as logging
from oslo_serialization import jsonutils

from nova_powervm import exception

LOG = logging.getLogger(__name__)

#: How often to ask Placement for what others change at the same time.
_ATTEMPTS = 5


def save_metadata(instance: Any, *, only_idle: bool = False) -> None:
    """Save an instance whose system metadata or device tags have changed.

    No state of Nova's is concerned.

    :param only_idle: Whether to save it only if it has no task now.
    :raises nova.exception.UnexpectedTaskStateError: It has a task.
    """
    condition = {'expected_task_state': [None]} if only_idle else {}
    instance.save(**condition)


def save_volume(disk: Any) -> None:
    """Save Nova's record of a volume in which the driver has noted its UDID.

    In ``DriverVolumeBlockDevice.attach`` Nova saves what a driver adds to the
    connection of a volume. For the volumes of a new or restarted instance, the
    driver has to save it.

    :param disk: nova.virt.block_device.DriverVolumeBlockDevice.
    """
    disk.save()


def save_connection(instance: Any, connection_info: Mapping[str, Any]) -> None:
    """Save how a volume can be reached before the host is asked to look.

    ``DriverVolumeBlockDevice.attach`` saves this once the volume is connected.
    If nova-compute is killed before that, a detachment or deletion would not
    know what to disconnect, and Nova would give the volume away.

    :param instance: nova.objects.Instance.
    :param connection_info: With the volume's id as ``serial``.
    """
    disk = objects.BlockDeviceMapping.get_by_volume_and_instance(
        nova_context.get_admin_context(),
        connection_info['serial'],
        instance.uuid,
    )
    disk.connection_info = jsonutils.dumps(connection_info)
    disk.save()


def refresh_connection(
    context: Any, instance: Any, volume_api: Any, disk: Any
) -> None:
    """Record how Cinder has mapped a volume after an interrupted move.

    ``ComputeManager._finish_resize`` and ``_finish_revert_resize`` do so, but
    ``ComputeManager.reboot_instance`` passes the record as it is, and so does
    ``_init_instance``, which takes a move back.

    :param context: The context of Nova's request.
    :param instance: nova.objects.Instance.
    :param volume_api: nova.volume.cinder.API.
    :param disk: nova.virt.block_device.DriverVolumeBlockDevice, which keeps
        the UDID.
    """
    disk.refresh_connection_info(context, instance, volume_api, None)


def replace_attachment(
    instance: Any, volume_id: str, former: str, attachment_id: str
) -> bool:
    """Record another attachment of a volume, after an interrupted move.

    ``ComputeManager._terminate_volume_connections`` saves it only after Cinder
    has deleted the former one, and ``_delete_dangling_bdms`` would delete the
    record of the volume then. ``ComputeManager.rebuild_instance`` leaves the
    attachment of an evacuation which has failed.

    :param instance: nova.objects.Instance.
    :param volume_id: The id of the volume.
    :param former: The attachment that was recorded.
    :param attachment_id: An attachment without a connector.
    :returns: Whether the former one was still recorded.
    """
    record = objects.BlockDeviceMapping.get_by_volume_and_instance(
        nova_context.get_admin_context(), volume_id, instance.uuid
    )
    if record.attachment_id != former:
        return False
    record.attachment_id = attachment_id
    record.save()
    return True


def record_attachment(
    context: Any, instance: Any, volume_api: Any, record: Any, uuid: str
) -> None:
    """Record the attachment by which the host of an instance has a volume.

    ``ComputeManager._do_pre_live_migration`` records that of the destination,
    and ``_reset_live_migration``, after the source was killed, leaves it so.

    :param context: The context of an administrator.
    :param instance: nova.objects.Instance.
    :param volume_api: nova.volume.cinder.API.
    :param record: nova.objects.BlockDeviceMapping.
    :param uuid: The attachment.
    """
    record.attachment_id = uuid
    record.save()
    disk = block_device.convert_volume(record)
    refresh_connection(context, instance, volume_api, disk)


def drop_migration_context(instance: Any) -> None:
    """Drop the migration context of an instance that is not moved.

    After a refused move,
    ``ResourceTracker._update_available_resource`` applies the context of each
    migration in error to its instance, so that the devices of the new flavor
    would stay claimed as long as the instance exists. After a hard reboot
    that ended a move, ``_update_usage_from_migrations`` would use it, too.
    """
    instance.drop_migration_context()


def take_allocations_home(
    client: Any, instance: Any, migration_uuid: str
) -> None:
    """Give an instance that is rebooted hard the allocations of its migration.

    ``ComputeManager.reboot_instance`` claims nothing, and no command can move
    the allocations of a one-time-use device: Placement accepts no new ones
    where ``reserved`` equals ``total``. Nova's client swaps them in one
    request, which frees those of the instance on other hosts.

    :param client: Nova's client of Placement.
    :param instance: nova.objects.Instance.
    :param migration_uuid: The consumer that has the allocations.
    :raises exception.ClaimFailed: Placement refused.
    """
    try:
        has_moved = client.move_allocations(
            nova_context.get_admin_context(), migration_uuid, instance.uuid
        )
    except nova_exception.NovaException as error:
        raise exception.ClaimFailed(
            instance_uuid=instance.uuid,
            reason=exception.PrivateText(
                error, 'Placement did not move its allocations to it'
            ),
        ) from error
    if not has_moved:
        raise exception.ClaimFailed(
            instance_uuid=instance.uuid,
            reason='Placement did not move the allocations of migration '
            f'{migration_uuid} to it; the log of nova-compute says why',
        )


def record_resources(instance: Any, resources: Any) -> None:
    """Record the resources of an instance that is rebooted hard.

    ``ComputeManager.reboot_instance`` claims nothing, so that a record from
    an interrupted move would stay, and ``ResourceTracker`` would assign
    resources of another host.
    """
    instance.resources = resources
    instance.save()


@contextlib.contextmanager
def resources_recorded(
    instance: Any, resources: Any, nodename: str
) -> Iterator[None]:
    """Record the resources of an instance before it is built on its host.

    ``ComputeManager._unshelve_instance`` saves what it has claimed once the
    instance is built, and ``ComputeManager._rebuild_default_impl`` claims
    nothing. A cycle meanwhile, and a kill, would find an LPAR with slots that
    Nova does not record. Where an evacuation or a move goes on, the source is
    recorded as the host, and the migration context has the resources.

    :param instance: nova.objects.Instance, which is not saved: it has other
        changes, as the image of an instance that is unshelved.
    :param resources: nova.objects.ResourceList.
    :param nodename: This host.
    """
    record = objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        instance.uuid,
        expected_attrs=['resources'],
    )
    previous = record.resources
    is_known = {*(previous or ())} == {*resources}
    if record.host != nodename or is_known:
        yield
        return
    unshelves = instance.vm_state == vm_states.SHELVED_OFFLOADED
    record.resources = resources
    record.save()
    # Nova would save them again after a failure.
    resources.obj_reset_changes(recursive=True)
    instance.resources = resources
    instance.obj_reset_changes(['resources'])
    try:
        yield
    except Exception:
        if unshelves:
            _put_back_resources(record, previous)
        raise


def _put_back_resources(record: Any, previous: Any) -> None:
    """Restore what ``ComputeManager._unshelve_instance`` would not save."""
    record.resources = previous
    try:
        record.save()
    except nova_exception.InstanceNotFound:
        pass
    except Exception:
        # Any error of the database: what made the build fail matters more.
        LOG.exception(
            "Nova's record of the server still names the devices of its "
            'unshelve, which has failed. The next one corrects it.',
            instance=record,
        )


def put_back_image(
    instance: Any, image_ref: str, image: Mapping[str, Any]
) -> None:
    """Put back the image of an instance whose rebuild is refused.

    ``API.rebuild`` of ``nova.compute.api`` has recorded the new image, and
    nothing puts it back. :func:`end_refused_rebuild` saves this.

    :param instance: nova.objects.Instance.
    :param image_ref: The image of its disk.
    :param image: That image, as Glance describes it.
    """
    metadata = instance.system_metadata
    for key in list(metadata):
        if key.startswith(utils.SM_IMAGE_PROP_PREFIX):
            del metadata[key]
    metadata.update(
        utils.get_system_metadata_from_image(image, instance.flavor),
        image_base_image_ref=image_ref,
    )
    instance.image_ref = image_ref
    # The driver refuses images with a kernel or ramdisk.
    instance.kernel_id = instance.ramdisk_id = ''


def end_refused_rebuild(instance: Any) -> None:
    """End the task of an instance whose rebuild is refused.

    ``ComputeManager.rebuild_instance`` deletes the allocations after any
    error but InstanceNotFound; after that one it takes the server for
    deleted, and leaves its task. Also save the image that the caller has put
    back.

    :raises nova.exception.UnexpectedDeletingTaskStateError: The server is
        being deleted meanwhile.
    """
    instance.task_state = None
    try:
        instance.save(expected_task_state=[*task_states.rebuild_states])
    except nova_exception.UnexpectedDeletingTaskStateError:
        raise
    except nova_exception.UnexpectedTaskStateError:
        # An administrator has set the state.
        instance.obj_reset_changes(['task_state'])
        instance.save()


def remove_evacuation_allocations(
    context: Any, client: Any, instance: Any, node_uuid: str
) -> None:
    """Remove an instance's allocations here after a killed evacuation.

    ``ComputeManager.rebuild_instance`` does so if a build fails, but Nova has
    no code for it if nova-compute ends meanwhile. If the old host starts at
    the same time and frees its part, Nova's client changes nothing: try again.

    :param context: The context to use.
    :param client: Nova's client of Placement.
    :param instance: nova.objects.Instance.
    :param node_uuid: The uuid of the compute node of this host, the new one.
    :raises nova.exception.NovaException: Placement refused.
    """
    for _ in range(_ATTEMPTS):
        if client.remove_provider_tree_from_instance_allocation(
            context, instance.uuid, node_uuid
        ):
            return
        # It returns this for a consumer without allocations, too.
        if not client.get_allocs_for_consumer(context, instance.uuid)[
            'allocations'
        ]:
            return
    raise nova_exception.AllocationUpdateFailed(
        consumer_uuid=instance.uuid,
        error='Placement refused to remove what it has on this host',
    )


def set_error_of_evacuation(instance: Any) -> None:
    """End the task of an instance whose evacuation to this host was killed.

    ``ComputeManager.init_host`` ends interrupted builds of the host's own
    instances only: this one still belongs to its old host.
    """
    instance.vm_state = vm_states.ERROR
    instance.task_state = None
    instance.save()
    instance.drop_migration_context()


def set_evacuation_failed(migration: Any) -> None:
    """Mark an evacuation as failed that was killed on this host, the new one.

    ``ComputeManager._destroy_evacuated_instances`` on the old host would take
    it for done, and destroy the only LPAR.
    """
    migration.status = 'failed'
    migration.save()


def set_evacuation_completed(migration: Any) -> None:
    """Mark an evacuation as completed whose instance has come back.

    ``ComputeManager._destroy_evacuated_instances`` on the old host does so
    itself, but destroys the LPAR before, and deletes the allocations.
    """
    migration.status = 'completed'
    migration.save()


def record_on_source(instance: Any, migration: Any, compute_id: int) -> None:
    """Record an instance on this host, which its move has never left.

    ``ComputeManager._resize_instance`` records the destination before it
    sends the message for it, and no command of Nova's takes that back.

    :param instance: nova.objects.Instance.
    :param migration: Its move from this host.
    :param compute_id: The id of the compute node of this host.
    """
    instance.host = migration.source_compute
    instance.node = migration.source_node
    instance.compute_id = compute_id
    instance.save(expected_task_state=[None])

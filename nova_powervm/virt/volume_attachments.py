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

"""Has Cinder map volumes that a server lost when its move was interrupted.

When a guest has stopped for its move,
``ComputeManager._terminate_volume_connections`` replaces the attachment of
each volume by one without a connector: the array maps the volume to no host,
and Nova's record of its paths is outdated. The host that continues the
instance gives the attachment its connector. If nova-compute is killed in
between, nothing in Nova does: a hard reboot passes the outdated record, and so
does Nova's start, which takes the move back. If it is killed while it replaces
an attachment, Nova even records the one that Cinder has deleted.

When an evacuation fails late, Cinder has unmapped volumes from the old host,
and may have mapped them to the new one. Nova leaves the instance on the old
one, where its LPAR still has them. If that host is back, and the server is
rebooted hard, it takes the volumes back.
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states
from nova.virt import driver
from nova.volume import cinder
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from nova_powervm.ops import power
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import record_changes
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Cinder's status of an attachment that Nova has completed.
_COMPLETE = 'attached'
#: States of servers whose move or shelve may have failed halfway.
_FAILED = [vm_states.ERROR, vm_states.SHELVED]
#: Cinder's status of an attachment without a connector.
_RESERVED = 'reserved'


class Renewal:
    """Makes attachments whole that an instance has on this host.

    :param host: The operations on the host.
    :param context: The context of Nova's request; at Nova's start one without
        a token, for which nova.conf needs the credentials in ``[cinder]``.
    :param instance: nova.objects.Instance.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        context: Any,
        instance: Any,
    ) -> None:
        self._host = host
        self._context = context
        self._instance = instance
        self._api = cinder.API()
        self._incomplete: list[str] = []

    def begin(self, block_device_info: Any) -> None:
        """Have Cinder map volumes to this host that it does not map here.

        Record the paths of each volume that Cinder has mapped since Nova
        recorded them.

        :param block_device_info: As Nova passes it to the driver; changed.
        :raises exception.PowerVMError: Cinder refused or did not answer, or
            this host can connect no volume.
        """
        disks = [
            disk
            for disk in driver.block_device_info_get_mapping(block_device_info)
            if disk.get('attachment_id')
        ]
        paths = {
            disk.volume_id: self._paths(disk['attachment_id'])
            for disk in disks
        }
        lost_ids = self._find_lost(paths)
        lost = [disk for disk in disks if disk.volume_id in lost_ids]
        if lost:
            self._take_back(lost, paths)
        for disk in disks:
            known = paths[disk.volume_id] or {}
            if disk in lost or known.get('status') != _COMPLETE:
                self._refresh(disk)

    def check(self) -> None:
        """Refuse to start a guest whose volumes an evacuation has taken.

        Its LPAR may still have them as they were at their former places on the
        array. Only a hard reboot looks at all volumes.

        :raises exception.PowerVMError: Its last evacuation has failed, and
            Cinder does not map all its volumes to this host.
        """
        if not instance_records.has_failed_evacuation(self._instance):
            return
        paths = {
            disk.volume_id: self._paths(disk.attachment_id)
            for disk in instance_volumes.recorded_disks(self._instance)
            if disk.attachment_id
        }
        lost = sorted(self._find_lost(paths))
        if lost:
            raise exception.VolumesImpossible(
                where='',
                reason=exception.Listing(
                    lost,
                    before='an evacuation that has failed has taken ',
                    after=' from the server. Reboot it hard',
                ),
            )

    def _find_lost(
        self, paths: Mapping[str, Mapping[str, Any] | None]
    ) -> set[str]:
        """Return the volumes that Cinder maps elsewhere or nowhere.

        :param paths: As Cinder has them, by volume id; empty for an attachment
            without a connector, None for one that is gone.
        """
        elsewhere = self._host.volumes.elsewhere(
            volumes.identify({**known, 'serial': volume_id})
            for volume_id, known in paths.items()
            if known
        )
        return {*elsewhere} | {
            one for one, known in paths.items() if not known
        }

    def _paths(self, attachment_id: str) -> Mapping[str, Any] | None:
        """Return the paths of an attachment; None if Cinder has deleted it."""
        with _asking():
            try:
                found = self._api.attachment_get(self._context, attachment_id)
            except nova_exception.VolumeAttachmentNotFound:
                return None
        paths: Mapping[str, Any] = found['connection_info'] or {}
        return paths

    def _take_back(
        self, lost: Sequence[Any], paths: Mapping[str, Any]
    ) -> None:
        """Have Cinder map volumes here that it maps elsewhere or nowhere.

        After an evacuation, the LPAR here may still have a volume as it was at
        its former place on the array, where another one may be soon.

        :param paths: As for :meth:`_find_lost`.
        """
        lpar_uuid = translation.lpar_of(self._instance)
        with contextlib.suppress(exception.PartitionNotFound):
            power.power_off(self._host.partitions, lpar_uuid, 0)
        # It may run on the other host, with a disk in the pool.
        storage.check_unused(self._host.storage.kept_disks(self._instance))
        former = [volumes.identify(d['connection_info'] or {}) for d in lost]
        self._host.volumes.check_arrival(former)
        for volume in former:
            self._host.volumes.disconnect(volume, lpar_uuid)
        connects = instance_volumes.InstanceVolumes(self._host)
        connector = connects.connector(self._instance)
        for disk in lost:
            if paths[disk.volume_id] != {}:
                self._replace(disk, paths[disk.volume_id])
            with _asking():
                self._api.attachment_update(
                    self._context,
                    disk['attachment_id'],
                    {**connector},
                    disk['mount_device'],
                )

    def _replace(self, disk: Any, known: Mapping[str, Any] | None) -> None:
        """Replace an attachment that is gone, or that is to another host.

        Record the new one first: Nova's next reboot of the server would delete
        its record of a volume whose attachment is gone.

        :param known: The paths to the other host; None if it is gone.
        """
        lost, volume_id = disk['attachment_id'], disk.volume_id
        with _asking():
            made = _find_spare(
                self._api, self._context, self._instance, volume_id
            )
            if made is None:
                if known and known.get('status') != _COMPLETE:
                    # Cinder reserves no volume that is just being attached.
                    self._api.attachment_complete(self._context, lost)
                made = self._api.attachment_create(
                    self._context, volume_id, self._instance.uuid
                )['id']
        record_changes.replace_attachment(
            self._instance, volume_id, lost, made
        )
        disk['attachment_id'] = made
        if known is None:
            return
        # Nova asks again if an answer is lost.
        gone = contextlib.suppress(nova_exception.VolumeAttachmentNotFound)
        with _asking(), gone:
            self._api.attachment_delete(self._context, lost)

    def _refresh(self, disk: Any) -> None:
        """Record the paths of a volume that Cinder has mapped here."""
        LOG.warning(
            'Something was interrupted before the server had its volume '
            '%(volume)s again. Cinder is asked for it.',
            {'volume': disk.volume_id},
            instance=self._instance,
        )
        with _asking():
            record_changes.refresh_connection(
                self._context, self._instance, self._api, disk
            )
        self._incomplete.append(disk['attachment_id'])

    def complete(self) -> None:
        """Have Cinder show volumes as in use that are connected by now.

        :raises exception.PowerVMError: Cinder refused or did not answer.
        """
        for attachment_id in self._incomplete:
            with _asking():
                self._api.attachment_complete(self._context, attachment_id)


def delete_others(context: Any, instance: Any) -> None:
    """Delete the attachments of volumes that Nova does not record.

    An unfinished live migration has left a second one of each volume, beside
    which Cinder maps the volume to no further host.

    :raises exception.VolumesImpossible: Cinder refused or did not answer.
    """
    api = cinder.API()
    for disk in instance_volumes.recorded_disks(instance):
        recorded = disk.attachment_id
        with _asking():
            found = api.attachment_get_all(
                context, instance.uuid, disk.volume_id
            )
            ids = {attachment['id'] for attachment in found}
            # The server would lose a volume without any attachment.
            for other in ids - {recorded} if recorded in ids else ():
                api.attachment_delete(context, other)


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Translate the errors of Cinder, its client and Nova's."""
    try:
        yield
    except Exception as error:
        raise exception.VolumesImpossible(
            where='',
            reason=exception.PrivateText(
                f'Cinder does not give one back to the server: {error}',
                'Cinder does not give one back to the server',
            ),
        ) from error


def replace_lost(nodename: str, *, is_starting: bool) -> None:
    """Replace attachments that Cinder has deleted, and that Nova records.

    ``ComputeManager._terminate_volume_connections`` records the successor of
    an attachment after it has deleted it. If Cinder's answer is lost, or
    nova-compute is killed in between, the next reboot of the server
    (``_delete_dangling_bdms``) would take the volume from it: one that boots
    from the volume would be lost. The connection stays as it is recorded, and
    :class:`Renewal` has Cinder map the volume.

    :param nodename: The host whose servers to look at.
    :param is_starting: Whether nova-compute starts: what it was doing has
        ended, too.
    :raises nova.exception.NovaException: Nova's database failed.
    """
    context = nova_context.get_admin_context()
    filters = {'host': nodename, 'deleted': False}
    if not is_starting:
        filters['vm_state'] = _FAILED
    for instance in objects.InstanceList.get_by_filters(
        context, filters, expected_attrs=['migration_context']
    ):
        has_begun = instance.migration_context or instance.task_state
        if not (_has_failed(instance) or (is_starting and has_begun)):
            continue
        for disk in objects.BlockDeviceMappingList.get_by_instance_uuid(
            context, instance.uuid
        ):
            if disk.is_volume and disk.attachment_id:
                try:
                    _replace_lost(context, instance, disk)
                except Exception as error:
                    LOG.log(
                        logging.WARNING if is_starting else logging.INFO,
                        'Do not reboot the server yet: if Cinder has deleted '
                        'the attachment of volume %(volume)s, Nova would take '
                        'the volume from the server: %(error)s',
                        {'volume': disk.volume_id, 'error': error},
                        instance=instance,
                    )


def _has_failed(instance: Any) -> bool:
    """Return whether Nova has failed to do something, and does nothing now."""
    return instance.vm_state in _FAILED and instance.task_state is None


def _replace_lost(context: Any, instance: Any, disk: Any) -> None:
    """Replace an attachment if Cinder does not know it."""
    api, lost, volume_id = cinder.API(), disk.attachment_id, disk.volume_id
    with contextlib.suppress(nova_exception.VolumeAttachmentNotFound):
        api.attachment_get(context, lost)
        return
    made = (
        _find_spare(api, context, instance, volume_id)
        or api.attachment_create(context, volume_id, instance.uuid)['id']
    )
    if record_changes.replace_attachment(instance, volume_id, lost, made):
        LOG.warning(
            'Cinder has deleted the attachment of volume %(volume)s, which '
            'Nova still recorded. The server has another one now. Reboot it '
            'hard.',
            {'volume': volume_id},
            instance=instance,
        )


def _find_spare(
    api: Any, context: Any, instance: Any, volume_id: str
) -> str | None:
    """Return an attachment without a connector that Nova has made already."""
    return next(
        (
            str(found['id'])
            for found in api.attachment_get_all(
                context, instance.uuid, volume_id
            )
            if found.get('status') == _RESERVED
        ),
        None,
    )

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

"""Puts Nova's records of volumes right after an interrupted live migration.

The destination gives each volume a second attachment, and Nova records that
one (``ComputeManager._do_pre_live_migration``). If nova-compute of the source
is killed, the record stays so, and the next reboot of the server deletes all
attachments that are not on record (``_delete_dangling_bdms``): the volumes
would be unmapped from the host that the guest is on.

So the first cycle after a start records the attachments of this host again,
before Nova accepts a request, as does the end of a migration that has failed.
Later cycles try again as long as Cinder does not answer.
"""

import threading
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.compute import vm_states
from nova.objects import fields
from nova.volume import cinder
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import volumes
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_config_drives
from nova_powervm.virt import lpar_locations
from nova_powervm.virt import record_changes
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

#: The status of live migrations after which Nova's records are right. After
#: others, Cinder may have failed while Nova took back what it had recorded
#: (``_rollback_volume_bdms`` only warns of that).
_COMPLETED = 'completed'
#: The states of servers that a live migration may have left without their
#: config drive: any of others, as of a rescue, is theirs.
_MAY_LACK_DRIVE = (vm_states.ACTIVE, vm_states.ERROR)
#: What to read of an instance: Nova makes config drives of what was read.
_READ = (
    'system_metadata',
    'metadata',
    'flavor',
    'info_cache',
    'keypairs',
    'device_metadata',
    'security_groups',
    'ec2_ids',
)


class LiveVolumes:
    """Looks for servers whose records an interrupted migration has left.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host
        # Uuids of instances whose records are still to be looked at; None
        # before they are known.
        self._pending: set[str] | None = None
        # Those whose migration has ended since the start.
        self._noted: set[str] = set()
        # Both a cycle and the end of a migration may look at a record.
        self._lock = threading.Lock()

    @staticmethod
    def obstacle() -> str:
        """Return why a later start could not put records right.

        Nova has no context of a user then.
        """
        if CONF.cinder.auth_type is None:
            return (
                'nova.conf of this host has no credentials in [cinder], '
                'which a start after a failure needs for its volumes'
            )
        return ''

    def note(self, uuid: str) -> None:
        """Have the record of an instance looked at in the next cycles."""
        self._noted.add(uuid)

    def put_right(self) -> None:
        """Look at the records until all are right; only log errors."""
        try:
            if self._pending is None:
                self._pending = self._interrupted()
        except Exception:
            LOG.exception('Interrupted live migrations cannot be looked for')
            return
        while self._noted:
            self._pending.add(self._noted.pop())
        for uuid in sorted(self._pending):
            if self._try(uuid):
                self._pending.discard(uuid)

    def put_right_now(self, uuid: str) -> None:
        """Look at the record of an instance before the next cycle does.

        Until then a reboot would have the volumes unmapped. Only log errors.
        """
        if uuid in self._noted or uuid in (self._pending or ()):
            self._try(uuid)

    def _try(self, uuid: str) -> bool:
        """Return whether there is nothing left to do; only log errors."""
        try:
            with self._lock:
                return self._put_right(uuid)
        except Exception as error:
            LOG.error(
                'A live migration of the server was interrupted, and its '
                'volumes are not on record as this host has them: %(error)s. '
                'Do not reboot it, because Nova has Cinder unmap them then. '
                'The next cycle tries again.',
                {'error': error},
                instance_uuid=uuid,
            )
            return False

    def _interrupted(self) -> set[str]:
        """Return instances of this host that did not leave it orderly."""
        moves = objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(),
            {
                'source_compute': self._host.nodename,
                'migration_type': fields.MigrationType.LIVE_MIGRATION,
            },
        )
        last = {
            move.instance_uuid: move
            for move in sorted(moves, key=lambda move: move.id)
        }
        hosted = {*self._host.records.hosted(self._host.nodename)}
        return {
            uuid
            for uuid, move in last.items()
            if move.status != _COMPLETED and uuid in hosted
        }

    def _put_right(self, uuid: str) -> bool:
        """Return whether there is nothing left to do."""
        context = nova_context.get_admin_context()
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=_READ
        )
        is_recorded_here = instance.host == self._host.nodename
        if is_recorded_here and instance.task_state is not None:
            # Whatever Nova does now may change its records.
            return False
        marked = system_metadata.live_migration(instance.system_metadata)
        destination = marked or _last_destination(instance)
        if not is_recorded_here or destination is None:
            return True
        sight = self._recovered(context, instance, destination)
        if sight is not None and not sight.is_settled:
            return False
        has_left = sight is None
        if has_left and not marked:
            # Its LPAR was lost in another way.
            return True
        # Without credentials, a migration of volumes was refused.
        if marked or not self.obstacle():
            self._settle_volumes(context, instance, has_left=has_left)
        if has_left:
            # It will come back.
            return False
        if marked or instance.vm_state in _MAY_LACK_DRIVE:
            # It was disconnected for the migration, before the mark is made.
            live_config_drives.insert(
                self._host, instance, instance.get_network_info()
            )
        # After an unknown end, PowerVM may still begin to move it: the next
        # hard reboot removes the mark.
        if not marked or instance.vm_state != vm_states.ERROR:
            instance_ports.unbind_ports(instance, destination)
            if marked:
                system_metadata.write_live_migration(instance, None)
        return True

    def _recovered(
        self, context: Any, instance: Any, destination: str
    ) -> live_migration.Sight | None:
        """Look for an LPAR, after its host has cleaned up.

        A host cannot do that while the other one has no power, unless an
        administrator says that it is lost.
        """
        lpar_uuid = translation.lpar_of(instance)
        sight = self._host.locations.here(lpar_uuid)
        if sight is None or not sight.is_to_recover:
            return sight
        self._host.live_migrations.recover(
            lpar_uuid, force=lpar_locations.is_gone(context, destination)
        )
        return self._host.locations.here(lpar_uuid)

    def _settle_volumes(
        self, context: Any, instance: Any, *, has_left: bool
    ) -> None:
        for record in objects.BlockDeviceMappingList.get_by_instance_uuid(
            context, instance.uuid
        ):
            if record.is_volume and record.attachment_id:
                present = cinder.API().attachment_get_all(
                    context, instance.uuid, record.volume_id
                )
                ids = [each['id'] for each in present]
                self._settle(context, instance, record, ids, has_left=has_left)

    def _settle(
        self,
        context: Any,
        instance: Any,
        record: Any,
        ids: list[str],
        *,
        has_left: bool,
    ) -> None:
        """Record the attachment of this host, and delete others.

        If the LPAR has left, it has to come back by the same volumes: have
        this host see them, and change no record.
        """
        whose = {one: self._is_own(context, one) for one in ids}
        if whose.get(record.attachment_id, False) is None:
            # Nova is just attaching the volume.
            return
        own = [one for one, is_own in whose.items() if is_own]
        if not own:
            own = [self._attach(context, instance, record)]
        if has_left:
            self._find(context, instance, record, own[0])
            return
        if record.attachment_id not in own:
            LOG.warning(
                'A live migration of the server was interrupted. Volume '
                '%(volume)s is recorded as this host has it again.',
                {'volume': record.volume_id},
                instance=instance,
            )
            record_changes.record_attachment(
                context, instance, cinder.API(), record, own[0]
            )
        for other, is_own in whose.items():
            if is_own is False:
                cinder.API().attachment_delete(context, other)

    def _is_own(self, context: Any, attachment_id: str) -> bool | None:
        """Return whether an attachment maps a volume to this host.

        :returns: None if it maps it to no host.
        :raises exception.VolumesImpossible: Cinder does not tell.
        """
        found = cinder.API().attachment_get(context, attachment_id)
        if not found['connection_info']:
            return None
        ports = {
            volumes.normal_wwpn(wwpn)
            for wwpn in self._host.volumes.connector().get('wwpns', ())
        }
        volume = volumes.identify(found['connection_info'])
        initiators = {*(volumes.fibre_channel(volume).zones or ())}
        if initiators and initiators <= ports:
            return True
        if initiators and initiators.isdisjoint(ports):
            return False
        raise exception.VolumesImpossible(
            where='',
            reason=f'attachment {attachment_id} does not tell to which host '
            'Cinder has mapped its volume',
        )

    def _attach(self, context: Any, instance: Any, record: Any) -> str:
        """Have Cinder map a volume to this host, and complete that."""
        connects = instance_volumes.InstanceVolumes(self._host)
        made = cinder.API().attachment_create(
            context,
            record.volume_id,
            instance.uuid,
            connector=connects.connector(instance),
            mountpoint=record.device_name,
        )
        cinder.API().attachment_complete(context, made['id'])
        return str(made['id'])

    def _find(
        self, context: Any, instance: Any, record: Any, attachment_id: str
    ) -> None:
        """Have this host see a volume that its LPAR is to come back with."""
        found = cinder.API().attachment_get(context, attachment_id)
        paths = {**found['connection_info'], 'serial': record.volume_id}
        self._host.volumes.find(
            volumes.identify(paths), translation.lpar_of(instance)
        )


def _last_destination(instance: Any) -> str | None:
    """Return where the last move of an instance was to bring it live.

    After a later move of another kind, the attachments and bindings to other
    hosts may be right.
    """
    last = instance_records.last_move(instance)
    is_live = last is not None and (
        last.migration_type == fields.MigrationType.LIVE_MIGRATION
    )
    return last.dest_compute if is_live else None

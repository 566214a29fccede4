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

"""Nova's database: records of instances and moves, and its RPC.

The driver reads them through Nova's own objects, of which only the queries
are replaced.
"""

import contextlib
import dataclasses
import datetime
import json
import types
import zlib
from unittest import mock

import oslo_messaging
from nova import exception as nova_exception
from nova import objects
from nova.compute import power_state
from nova.compute import rpcapi
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.network import model
from nova.network import neutron
from nova.objects import fields

from nova_powervm.virt import errors
from tests.property.simulation import placement
from tests.property.simulation import process
from tests.property.simulation import volumes

EVACUATION = fields.MigrationType.EVACUATION
RESIZE = fields.MigrationType.RESIZE
#: Statuses of migrations that Nova has ended.
ENDED = ('confirmed', 'reverted', 'error', 'done', 'failed')
#: Those that its resource tracker does not look at.
TRACKED_NO_MORE = ('confirmed', 'reverted', 'done', 'failed')
#: An aware time, as Nova's database returns it.
_LONG_AGO = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_VM_STATES = {
    'active': vm_states.ACTIVE,
    'error': vm_states.ERROR,
    'deleting': vm_states.ACTIVE,
    'resized': vm_states.RESIZED,
    'offloaded': vm_states.SHELVED_OFFLOADED,
    'gone': vm_states.DELETED,
}


#: The other way round, as far as a move may change it.
_STATES = {
    vm_states.ACTIVE: 'active',
    vm_states.STOPPED: 'active',
    vm_states.ERROR: 'error',
    vm_states.RESIZED: 'resized',
}


@dataclasses.dataclass(frozen=True)
class Wish:
    """What a flavor asks for.

    :param groups: Resource class and trait, or None, of each device.
    """

    groups: tuple
    memory_mb: int = 512
    root_gb: int = 1
    swap_mb: int = 0

    @property
    def number(self):
        """The flavor's number in Nova's database."""
        return zlib.crc32(repr(self).encode())

    def flavor(self, extra_specs):
        """Return the flavor as Nova has it."""
        return objects.Flavor(
            id=self.number,
            flavorid=f'flavor {self.number}',
            name='flavor',
            memory_mb=self.memory_mb,
            vcpus=1,
            root_gb=self.root_gb,
            ephemeral_gb=0,
            swap=self.swap_mb,
            extra_specs=extra_specs,
        )


@dataclasses.dataclass(eq=False)
class Migration:
    """Nova's record of a move."""

    number: int
    uuid: str
    instance: object
    source: object
    target: object
    #: What the flavors before and after it ask for.
    old: Wish
    new: Wish
    status: str = 'pre-migrating'
    kind: str = RESIZE
    #: Whether the instance has left its source.
    has_left: bool = False

    @property
    def is_ended(self):
        is_returning = (
            self.status == 'reverted'
            and self.instance.task == task_states.RESIZE_REVERTING
        )
        return self.status in ENDED and not is_returning

    def record(self):
        record = MigrationRecord(
            id=self.number,
            uuid=self.uuid,
            instance_uuid=self.instance.uuid,
            source_compute=self.source.name,
            dest_compute=self.target.name,
            status=self.status,
            migration_type=self.kind,
            cross_cell_move=False,
            # Nova's steps are over when the driver sees them.
            updated_at=_LONG_AGO,
            created_at=_LONG_AGO,
            old_instance_type_id=self.old.number,
            new_instance_type_id=self.new.number,
        )
        record.simulated = self
        return record


class MigrationRecord(objects.Migration):
    """A move as Nova passes it to the driver."""

    simulated = None

    def save(self):
        self.simulated.status = self.status


class Incomplete(BaseException):
    """The driver needs what the simulated records do not have."""


def context_of(migration, claimed):
    """Return the migration context of a claim.

    :param claimed: The resources of the claim, or None.
    """
    return objects.MigrationContext(
        instance_uuid=migration.instance.uuid,
        migration_id=migration.number,
        old_resources=migration.instance.resources,
        new_resources=claimed,
    )


class Record(objects.Instance):
    """An instance as Nova passes it to the driver."""

    simulated = None

    def save(self, expected_task_state=None, **rest):
        simulated = self.simulated
        if expected_task_state and simulated.task not in expected_task_state:
            raise nova_exception.UnexpectedTaskStateError(
                instance_uuid=self.uuid, expected={}, actual={}
            )
        changed = self.obj_what_changed()
        simulated.metadata = dict(self.system_metadata)
        if 'vm_state' in changed:
            simulated.state = _STATES[self.vm_state]
        if 'task_state' in changed:
            simulated.task = self.task_state
        if 'resources' in changed:
            simulated.resources = self.resources
        if 'old_flavor' in changed and self.old_flavor is None:
            simulated.old = simulated.new = None
        self.obj_reset_changes()

    def obj_load_attr(self, name):
        raise Incomplete(name)

    def drop_migration_context(self):
        self.migration_context = self.simulated.context = None


def record_of(instance):
    """Return Nova's record of a simulated instance."""
    flavors = [
        wish and wish.flavor(instance.specs_of(wish))
        for wish in (instance.wish, instance.old, instance.new)
    ]
    record = Record(
        id=instance.number,
        uuid=instance.uuid,
        host=instance.node and instance.node.name,
        node=instance.node and instance.node.name,
        vm_state=_vm_state(instance),
        task_state=task_states.DELETING
        if instance.state == 'deleting'
        else instance.task,
        power_state=power_state.RUNNING,
        flavor=flavors[0],
        old_flavor=flavors[1],
        new_flavor=flavors[2],
        resources=instance.resources,
        migration_context=instance.context,
        system_metadata=dict(instance.metadata),
        config_drive='',
        image_ref='',
        info_cache=objects.InstanceInfoCache(network_info=model.NetworkInfo()),
        deleted=instance.state == 'gone',
        instance_type_id=instance.wish.number,
    )
    record.obj_reset_changes()
    record.simulated = instance
    return record


def _vm_state(instance):
    if instance.state == 'active' and instance.is_stopped:
        return vm_states.STOPPED
    return _VM_STATES[instance.state]


class Database:
    """The queries that the driver makes, and the calls to other hosts.

    :param nova: The :class:`.cloud.Nova`.
    """

    def __init__(self, nova):
        self._nova = nova
        self.migrations = []

    def add_migration(self, instance, target, kind, wish):
        number = len(self.migrations) + 1
        migration = Migration(
            number,
            placement.new_uuid(0x4D160000 + number),
            instance,
            instance.node,
            target,
            old=instance.wish,
            new=wish,
            kind=kind,
        )
        self.migrations.append(migration)
        return migration

    def of(self, instance):
        """Return the migrations of an instance."""
        return [m for m in self.migrations if m.instance is instance]

    def first(self, instance, *statuses):
        """Return the migration that Nova's API acts on, or None.

        It asks for a status only, so an earlier one takes precedence.
        """
        for status in statuses:
            for migration in self.of(instance):
                if migration.kind == RESIZE and migration.status == status:
                    return migration
        return None

    def end_mismatched(self, node):
        """End moves as the resource tracker of a host does.

        It looks at the last migration of each instance that moves.
        """
        last = {}
        for migration in self.migrations:
            if migration.status not in TRACKED_NO_MORE and node in (
                migration.source,
                migration.target,
            ):
                last[migration.instance] = migration
        for instance, migration in last.items():
            if (
                instance.context
                and instance.context.migration_id != migration.number
                and (instance.state == 'resized' or instance.task)
            ):
                migration.status = 'error'

    @contextlib.contextmanager
    def serving(self):
        """Answer the driver from here."""
        queries = (
            (objects.InstanceList, 'get_by_filters', self._instances),
            (objects.InstanceList, 'get_by_host', self._instances_of_host),
            (objects.Instance, 'get_by_uuid', self._instance),
            (objects.Migration, 'get_by_id_and_instance', self._migration),
            (objects.MigrationList, 'get_by_filters', self._migrations),
            (
                objects.BlockDeviceMappingList,
                'get_by_instance_uuid',
                self._volumes,
            ),
            (rpcapi, 'ComputeAPI', lambda: self),
            (neutron, 'API', lambda: self),
            # Its root disk is one of the host's.
            (compute_utils, 'is_volume_backed_instance', lambda *args: False),
            (errors, 'record_failure', lambda *args: None),
            (compute_utils, 'add_instance_fault_from_exc', lambda *args: None),
        )
        with contextlib.ExitStack() as stack:
            for owner, name, answer in queries:
                stack.enter_context(mock.patch.object(owner, name, answer))
            yield

    # Nova's database

    def _instances(self, context, filters, expected_attrs=None):
        # No server has a volume whose attachment Cinder could have lost.
        wanted = {*filters.get('uuid', ())}
        return [
            record
            for record in map(record_of, self._nova.instances)
            if record.uuid in wanted
            and not (record.deleted and 'deleted' in filters)
            and record.task_state
            in filters.get('task_state', [record.task_state])
            and record.vm_state == filters.get('vm_state', record.vm_state)
        ]

    def _instances_of_host(self, context, host, expected_attrs=None):
        return [
            record_of(i)
            for i in self._nova.instances
            if i.node and i.node.name == host and i.state != 'gone'
        ]

    def _instance(self, context, uuid, expected_attrs=None):
        for instance in self._nova.instances:
            if instance.uuid == uuid:
                return record_of(instance)
        raise nova_exception.InstanceNotFound(instance_id=uuid)

    def _volumes(self, context, uuid):
        return [
            types.SimpleNamespace(
                is_volume=True,
                volume_id=volume,
                boot_index=None,
                connection_info=json.dumps(volumes.connection_of(volume)),
            )
            for instance in self._nova.instances
            if instance.uuid == uuid
            for volume in sorted(instance.volumes)
        ]

    def _migration(self, context, number, uuid):
        for migration in self.migrations:
            if (migration.number, migration.instance.uuid) == (number, uuid):
                return migration.record()
        raise nova_exception.MigrationNotFoundForInstance(
            migration_id=number, instance_id=uuid
        )

    def _migrations(self, context, filters, **order):
        return [
            migration.record()
            for migration in self.migrations
            if _is_wanted(migration, filters)
            and (migration.instance.state == 'gone')
            == (context.read_deleted == 'only')
        ]

    # Calls to other hosts

    def check_instance_shared_storage(self, context, data, *, instance, host):
        (node,) = (n for n in self._nova.nodes if n.name == host)
        if node.compute is None:
            raise oslo_messaging.MessagingTimeout
        try:
            answer = node.compute.driver.check_instance_shared_storage_remote(
                context, json.loads(json.dumps(data))
            )
        except process.Killed:
            node.crash()
            raise oslo_messaging.MessagingTimeout from None
        except Exception as error:
            raise oslo_messaging.RemoteError(
                type(error).__name__, str(error), ['traceback']
            ) from error
        return json.loads(json.dumps(answer))

    # Neutron: no instance has a port

    def setup_instance_network_on_host(self, context, instance, host):
        pass

    def get_instance_nw_info(self, context, instance, force_refresh=False):
        return model.NetworkInfo()


def _is_wanted(migration, filters):
    statuses = filters.get('status', migration.status)
    return (
        filters.get('instance_uuid') in (None, migration.instance.uuid)
        and filters.get('source_compute') in (None, migration.source.name)
        and filters.get('dest_compute') in (None, migration.target.name)
        and filters.get('migration_type') in (None, migration.kind)
        and filters.get('host')
        in (None, migration.source.name, migration.target.name)
        and migration.status
        in ([statuses] if isinstance(statuses, str) else statuses)
    )

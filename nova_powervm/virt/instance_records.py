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

"""Nova's records: of this node, of instances, and of their moves.

Nova keeps the migration context of an instance after most moves that failed,
so only the status of its migration tells whether the instance still moves.

While a server moves, an administrator can set its state, and its user can
then reboot it hard. While it is rescued or rebuilt, its user can delete it.
Nova has a lock for a build, an unshelve, a reboot and a deletion, but not for
these: :func:`alone` keeps such steps apart, and compares the record.
"""

import contextlib
import functools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states
from nova.objects import fields
from nova.virt import node as virt_node
from oslo_concurrency import lockutils

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import interfaces
from nova_powervm.virt import system_metadata

#: Statuses of resizes, cold migrations and evacuations in progress; a resize
#: that waits for its confirmation is 'finished'.
MOVING = (
    'accepted',
    'pre-migrating',
    'migrating',
    'post-migrating',
    'finished',
    'confirming',
    'reverting',
)
#: The status of a move that is reverted, as soon as the destination has given
#: up its claim. The source has yet to take the instance back.
REVERTED = 'reverted'
#: Further statuses of live migrations in progress.
_MOVING_LIVE = ('queued', 'preparing', 'running')
#: Statuses of live migrations of which Nova knows where the server is.
_SETTLED_LIVE = ('completed', 'failed', 'cancelled')
#: The status of a move that was refused or failed, and of one whose
#: nova-compute was killed.
_FAILED = 'error'
#: Statuses of evacuations that Nova has completed.
_EVACUATED = ('done', 'completed')


class LocalNode:
    """The node that this compute service has in Nova's records.

    :param name: Its name, which is that of the host.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @functools.cached_property
    def uuid(self) -> str:
        """The uuid of the node.

        Do not read it in init_host: that may write a new uuid, and Nova checks
        afterwards that an existing service has not lost its uuid.
        """
        return str(virt_node.get_local_node_uuid())


class NovaRecords(interfaces.Records):
    """Finds the instances that LPARs belong to."""

    def instances_of(self, lpar_uuids: Iterable[str]) -> Mapping[str, str]:
        """Ask Nova about both instances that an LPAR may belong to.

        Nova has to clean up the LPARs that deleted and evacuated ones left.
        """
        return {
            lpar_uuid: instance.uuid
            for lpar_uuid, instance in _read_instances(lpar_uuids)
        }

    def hosted(self, nodename: str) -> frozenset[str]:
        instances = objects.InstanceList.get_by_host(
            nova_context.get_admin_context(), nodename, expected_attrs=[]
        )
        return frozenset(instance.uuid for instance in instances)

    def running(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> Mapping[str, str]:
        return {
            lpar_uuid: instance.uuid
            for lpar_uuid, instance in _read_instances(lpar_uuids)
            if not instance.deleted
            and instance.host == nodename
            and instance.vm_state == vm_states.ACTIVE
            and instance.task_state is None
        }

    def gone(self, lpar_uuids: Iterable[str]) -> frozenset[str]:
        """Leave out what Nova does not know: another cell may have it."""
        needed: dict[str, bool] = {}
        for lpar_uuid, instance in _read_instances(lpar_uuids):
            is_needed = not instance.deleted and bool(
                instance.host or instance.task_state
            )
            needed[lpar_uuid] = needed.get(lpar_uuid, False) or is_needed
        return frozenset(
            lpar_uuid
            for lpar_uuid, is_needed in needed.items()
            if not is_needed
        )

    def abandoned(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> frozenset[str]:
        """Find instances on another host whose last evacuation here failed.

        Nova records the host of an instance anew when its evacuation is
        complete. An LPAR that a live migration has brought is another one: its
        evacuation to this host is refused, and it is the only one.
        """
        return frozenset(
            lpar_uuid
            for lpar_uuid, instance in _read_instances(
                lpar_uuids, ('system_metadata',)
            )
            if not instance.deleted
            and instance.host not in (None, nodename)
            and not may_arrive(instance, nodename)
            and _last_evacuation_failed(instance.uuid, nodename)
        )

    def holdings(
        self, lpar_uuids: Iterable[str]
    ) -> Mapping[str, Mapping[str, claims.SlotProvider]]:
        """Find the slot providers that Nova stored with instances.

        When a build fails, Nova deletes the allocations but keeps the record.
        """
        attributes = ('resources', 'migration_context')
        return {
            lpar_uuid: {}
            if instance.deleted or not instance.host
            else _providers(instance)
            for lpar_uuid, instance in _read_instances(lpar_uuids, attributes)
        }

    def stale_lpars(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> Mapping[str, slot_providers.StaleLpar]:
        """Leave out an LPAR of two instances of which one is here."""
        candidates = [
            (lpar_uuid, instance)
            for lpar_uuid, instance in _read_instances(
                lpar_uuids, ('migration_context', 'system_metadata')
            )
            if not instance.deleted and instance.host
        ]
        needed = {
            lpar_uuid
            for lpar_uuid, instance in candidates
            if instance.host == nodename
        }
        return {
            lpar_uuid: slot_providers.StaleLpar(
                instance.uuid,
                instance.host,
                is_doubtful=may_arrive(instance, nodename),
            )
            for lpar_uuid, instance in candidates
            if lpar_uuid not in needed
            and not is_moving_with(instance, nodename)
        }

    def awaited(self, nodename: str) -> frozenset[str]:
        """Find them by Nova's migrations.

        Nova calls a migration failed after any refusal and any error, and so
        does a nova-compute that starts, whatever the hosts do.
        """
        last = {
            move.instance_uuid: move
            for move in _moves_to(
                nodename, migration_type=fields.MigrationType.LIVE_MIGRATION
            )
        }
        moves = {
            uuid: move
            for uuid, move in last.items()
            if move.status not in _SETTLED_LIVE
        }
        lpar_uuids = map(partition.lpar_uuid, sorted(moves))
        return frozenset(
            lpar_uuid
            for lpar_uuid, instance in _read_instances(
                lpar_uuids, ('system_metadata',)
            )
            if instance.uuid in moves
            and not instance.deleted
            and instance.host != nodename
            and (
                may_arrive(instance, nodename)
                or _is_under_way(moves[instance.uuid], instance)
            )
        )


def _moves_to(nodename: str, **filters: Any) -> list[Any]:
    """Return Nova's migrations to a host, the last one last.

    :param filters: As Nova takes them; it ignores ``dest_compute``.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(), {'host': nodename, **filters}
    )
    return sorted(
        (move for move in moves if move.dest_compute == nodename),
        key=lambda move: move.id,
    )


def live_source(instance: Any) -> str | None:
    """Return from where a live migration has brought an instance to its host.

    :returns: None if Nova has no record of that.
    """
    moves = _moves_to(
        instance.host,
        instance_uuid=instance.uuid,
        migration_type=fields.MigrationType.LIVE_MIGRATION,
    )
    return moves[-1].source_compute if moves else None


def _is_under_way(move: Any, instance: Any) -> bool:
    """Return whether a live migration has neither failed nor been given up.

    If its source is lost, nobody ends it, and the server is evacuated.
    """
    last = last_move(instance)
    return move.status != _FAILED and (last is None or last.id == move.id)


def _read_instances(
    lpar_uuids: Iterable[str], attributes: Iterable[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Read the instances of LPARs, including deleted instances."""
    candidates = {
        candidate: lpar_uuid
        for lpar_uuid in lpar_uuids
        for candidate in partition.instance_uuids(lpar_uuid)
    }
    if not candidates:
        return
    instances = objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {'uuid': sorted(candidates)},
        expected_attrs=list(attributes),
    )
    for instance in instances:
        yield candidates[instance.uuid], instance


def evacuated(nodename: str) -> Mapping[str, bool]:
    """Find the instances whose evacuation may have had volumes unmapped.

    When nova-compute starts, Nova removes what is left of those that are gone,
    and marks their evacuations as completed. One whose evacuation has failed
    is in ERROR until it is rebooted hard.

    :param nodename: The host that they are or were to be evacuated from.
    :returns: Uuid of each instance -> whether it is gone.
    """
    evacuations = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {
            'source_compute': nodename,
            'status': ['pre-migrating', 'failed', 'done'],
            'migration_type': fields.MigrationType.EVACUATION,
        },
    )
    if not evacuations:
        return {}
    here = {
        instance.uuid: instance.vm_state == vm_states.ERROR
        or instance.task_state in task_states.rebuild_states
        for instance in objects.InstanceList.get_by_host(
            nova_context.get_admin_context(), nodename, expected_attrs=[]
        )
    }
    gone = {
        move.instance_uuid: True
        for move in evacuations
        if move.status == 'done' and move.instance_uuid not in here
    }
    return gone | {
        move.instance_uuid: False
        for move in evacuations
        if move.status != 'done' and here.get(move.instance_uuid)
    }


def _last_evacuation_failed(instance_uuid: str, nodename: str) -> bool:
    """Return whether the last move to a host was an evacuation that failed.

    The host needs the LPAR of an instance that came there by a later move,
    and is moving away again.
    """
    moves = _moves_to(nodename, instance_uuid=instance_uuid)
    return bool(
        moves
        and moves[-1].migration_type == fields.MigrationType.EVACUATION
        and moves[-1].status not in _EVACUATED
    )


def last_move(instance: Any) -> Any:
    """Return Nova's last migration of an instance, of any kind, or None."""
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(), {'instance_uuid': instance.uuid}
    )
    return max(moves, key=lambda move: move.id, default=None)


def has_failed_evacuation(instance: Any) -> bool:
    """Return whether the last move of an instance was to leave a lost host.

    :param instance: nova.objects.Instance, which is on that host.
    """
    last = last_move(instance)
    return (
        last is not None
        and last.migration_type == fields.MigrationType.EVACUATION
        and last.source_compute == instance.host
        and last.status not in _EVACUATED
    )


def may_arrive(instance: Any, nodename: str) -> bool:
    """Return whether a live migration has perhaps brought an instance here.

    :param instance: With its system metadata.
    """
    return bool(
        instance.host != nodename
        and system_metadata.live_migration(instance.system_metadata)
        == nodename
    )


def _providers(instance: Any) -> Mapping[str, claims.SlotProvider]:
    lists = [instance.resources]
    if is_moving(instance):
        move = instance.migration_context
        lists += [move.old_resources, move.new_resources]
    return {
        uuid: provider
        for resources in lists
        for uuid, provider in stored_slots(resources).items()
    }


def is_moving(instance: Any) -> bool:
    """Return whether the move of a migration context is in progress.

    :param instance: With its migration context, which may be None.
    """
    move = instance.migration_context
    if not move:
        return False
    try:
        migration = objects.Migration.get_by_id_and_instance(
            nova_context.get_admin_context(), move.migration_id, instance.uuid
        )
    except nova_exception.MigrationNotFoundForInstance:
        return False
    return migration.status in _statuses(instance)


def is_moving_with(instance: Any, nodename: str) -> bool:
    """Return whether an instance moves from or to a host.

    An interrupted move keeps its status. After a hard reboot only the absence
    of a context, a task and the state RESIZED tells that it is over.

    :param instance: With its migration context, which may be None.
    :param nodename: As in ``instance.host``.
    """
    is_settled = (
        instance.migration_context is None
        and instance.task_state is None
        and instance.vm_state != vm_states.RESIZED
    )
    if is_settled:
        return False
    filters = {
        'instance_uuid': instance.uuid,
        'host': nodename,
        'status': [*_statuses(instance), *_MOVING_LIVE],
    }
    migrations = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(), filters, limit=1
    )
    return bool(migrations)


def _statuses(instance: Any) -> tuple[str, ...]:
    """Return the statuses of a move of an instance that is in progress."""
    if instance.task_state == task_states.RESIZE_REVERTING:
        return (*MOVING, REVERTED)
    return MOVING


def move_of(instance: Any) -> Any:
    """Return the migration record of the move that an instance is in.

    Nova passes some methods of a driver only the address of the destination,
    which hosts may have in common.

    :param instance: nova.objects.Instance.
    :returns: nova.objects.Migration.
    :raises nova.exception.NovaException: Nova has no record of a move.
    """
    if instance.migration_context is None:
        raise nova_exception.NovaException(
            f'Instance {instance.uuid} has no migration context, so it is '
            'unknown where it moves'
        )
    return objects.Migration.get_by_id_and_instance(
        nova_context.get_admin_context(),
        instance.migration_context.migration_id,
        instance.uuid,
    )


def read_moving(uuid: str) -> Any:
    """Read an instance that is about to move to this host.

    :returns: nova.objects.Instance.
    """
    return objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        uuid,
        expected_attrs=[
            'flavor',
            'migration_context',
            'resources',
            'system_metadata',
        ],
    )


def is_being_shelved(instance: Any) -> bool:
    """Return whether Nova is shelving an instance, or offloading it."""
    return instance.task_state in (
        task_states.SHELVING,
        task_states.SHELVING_OFFLOADING,
    )


def is_within_host(migration: Any) -> bool:
    """Return whether source and destination are the same host."""
    return bool(migration.source_compute == migration.dest_compute)


def is_running(instance: Any) -> bool:
    """Return whether Nova starts an instance at the end of its move."""
    return bool(instance.vm_state != vm_states.STOPPED)


def flavors(instance: Any) -> list[Any]:
    """Return the flavors that may have asked for an instance's devices.

    Nova keeps both flavors of a failed move with the instance.

    :returns: nova.objects.Flavor, first the instance's own.
    """
    candidates = [instance.flavor, instance.new_flavor, instance.old_flavor]
    return [flavor for flavor in candidates if flavor is not None]


def disk_sizes(flavor: Any) -> storage.DiskSizes:
    """Return the sizes of disks that a flavor asks for."""
    return storage.DiskSizes(flavor.root_gb, flavor.ephemeral_gb, flavor.swap)


def changes_swap(instance: Any) -> bool:
    """Return whether the swap disks of the flavors of a move may differ.

    Nova may no longer have both flavors.
    """
    old, new = instance.old_flavor, instance.new_flavor
    return old is None or new is None or bool(old.swap != new.swap)


def stored_slots(resources: Any) -> dict[str, claims.SlotProvider]:
    """Read the slots that Nova stored with an instance in its claim.

    :param resources: ``instance.resources``: a ResourceList or None.
    :returns: Provider uuid to slot provider.
    """
    return {
        resource.provider_uuid: claims.SlotProvider(
            uuid=resource.provider_uuid,
            drc_index=int(resource.identifier, 16),
            resource_classes=frozenset((resource.resource_class,)),
        )
        for resource in resources or ()
        if is_slot(resource)
    }


def is_slot(resource: Any) -> bool:
    """Return whether a nova.objects.Resource stands for a slot."""
    name = names.PROVIDER_PREFIX + resource.identifier
    return names.slot_of_provider(name) is not None


def new_slots(instance: Any) -> dict[str, claims.SlotProvider]:
    """Return the slot providers that an instance gets in its move."""
    context = instance.migration_context
    return stored_slots(context and context.new_resources)


def moved_providers(
    instance: Any, nodename: str
) -> dict[str, claims.SlotProvider]:
    """Return the slot providers that a move takes or gives here, by uuid.

    :param nodename: This host; other hosts have slots with the same numbers.
    """
    return {
        provider.uuid: provider for _, provider in _moved(instance, nodename)
    }


def moved_slots(instance: Any, nodename: str) -> dict[int, str]:
    """Return the slots that a move takes or gives here.

    :returns: DRC index to the uuid of the migration.
    """
    return {
        provider.drc_index: move
        for move, provider in _moved(instance, nodename)
    }


def _moved(
    instance: Any, nodename: str
) -> Iterator[tuple[str, claims.SlotProvider]]:
    """Yield the uuid of the migration with each provider that it moves."""
    context = instance.migration_context
    if context is None:
        return
    move = move_of(instance)
    sides = (
        (move.source_compute, context.old_resources),
        (move.dest_compute, context.new_resources),
    )
    for name, resources in sides:
        if name == nodename:
            for provider in stored_slots(resources).values():
                yield move.uuid, provider


@contextlib.contextmanager
def alone(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance, even if its record has changed.

    :param instance: nova.objects.Instance.
    """
    with lockutils.lock(f'powervm-{instance.uuid}'):
        yield


@contextlib.contextmanager
def undeleted(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance that nobody is deleting.

    :param instance: nova.objects.Instance.
    :raises nova.exception.InstanceNotFound: It is deleted, or is being so.
    """
    with alone(instance):
        record = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), instance.uuid
        )
        if record.task_state == task_states.DELETING:
            raise nova_exception.InstanceNotFound(instance_id=instance.uuid)
        yield


@contextlib.contextmanager
def unchanged(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance that is still as Nova has passed it.

    :param instance: nova.objects.Instance.
    :raises exception.InstanceChanged: By Nova's present record, it is on
        another host or in another move.
    :raises nova.exception.InstanceNotFound: It was deleted.
    """
    with alone(instance):
        record = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            instance.uuid,
            expected_attrs=['migration_context'],
        )
        _compare(instance, 'host', instance.host, record.host)
        _compare(instance, 'migration', _move(instance), _move(record))
        yield


def _compare(instance: Any, field: str, passed: Any, recorded: Any) -> None:
    if passed != recorded:
        raise exception.InstanceChanged(
            instance_uuid=instance.uuid,
            what=field,
            known=passed,
            present=recorded,
        )


def _move(instance: Any) -> int | None:
    """Return the id of the migration that an instance is in."""
    context = instance.migration_context
    return None if context is None else context.migration_id

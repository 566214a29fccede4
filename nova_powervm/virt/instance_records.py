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


class LocalNode:
    """The node that a compute service has in Nova's records.

    :param name: Its name, which is that of the host.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @functools.cached_property
    def uuid(self) -> str:
        """Nova's uuid of it.

        Do not ask for it in init_host: reading may write a new uuid, and Nova
        checks afterwards that an existing service has not lost its uuid.
        """
        return str(virt_node.get_local_node_uuid())


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
#: The status that a revert has from the moment when the destination has given
#: up its claim. The source has yet to take the instance back.
REVERTED = 'reverted'
#: Further statuses of live migrations in progress.
_MOVING_LIVE = ('queued', 'preparing', 'running')


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


def is_moving_with(instance: Any, host: str) -> bool:
    """Return whether an instance moves from or to a host.

    After a move that was interrupted, its status stays as it was. A hard
    reboot then leaves nothing else that tells of it.

    :param instance: With its migration context, which may be None.
    :param host: As in ``instance.host``.
    """
    is_settled = (
        instance.migration_context is None
        and instance.task_state is None
        and instance.vm_state != vm_states.RESIZED
    )
    return not is_settled and bool(
        objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(),
            {
                'instance_uuid': instance.uuid,
                'host': host,
                'status': [*_statuses(instance), *_MOVING_LIVE],
            },
            limit=1,
        )
    )


def _statuses(instance: Any) -> tuple[str, ...]:
    """Return the statuses of a move of an instance that is in progress."""
    if instance.task_state == task_states.RESIZE_REVERTING:
        return (*MOVING, REVERTED)
    return MOVING


#: Statuses of evacuations that Nova has completed.
_SUCCEEDED = ('done', 'completed')


class NovaRecords(interfaces.Records):
    """Finds the instances that LPARs belong to."""

    def instances_of(self, lpar_uuids: Iterable[str]) -> Mapping[str, str]:
        """Ask Nova about both instances that an LPAR may belong to.

        Nova has to clean up the LPARs that deleted and evacuated ones left.
        """
        return {
            lpar_uuid: found.uuid for lpar_uuid, found in _find(lpar_uuids, ())
        }

    def hosted(self, host: str) -> frozenset[str]:
        return frozenset(
            instance.uuid
            for instance in objects.InstanceList.get_by_host(
                nova_context.get_admin_context(), host, expected_attrs=[]
            )
        )

    def running(
        self, lpar_uuids: Iterable[str], host: str
    ) -> Mapping[str, str]:
        return {
            lpar_uuid: found.uuid
            for lpar_uuid, found in _find(lpar_uuids, ())
            if not found.deleted
            and found.host == host
            and found.vm_state == vm_states.ACTIVE
            and found.task_state is None
        }

    def gone(self, lpar_uuids: Iterable[str]) -> frozenset[str]:
        """Leave out what Nova does not know: another cell may have it."""
        needed: dict[str, bool] = {}
        for lpar_uuid, found in _find(lpar_uuids, ()):
            is_needed = not found.deleted and bool(
                found.host or found.task_state
            )
            needed[lpar_uuid] = needed.get(lpar_uuid, False) or is_needed
        return frozenset(
            lpar_uuid
            for lpar_uuid, is_needed in needed.items()
            if not is_needed
        )

    def abandoned(
        self, lpar_uuids: Iterable[str], host: str
    ) -> frozenset[str]:
        """Find instances on another host whose last evacuation here failed.

        Nova records the host of an instance anew when its evacuation is
        complete.
        """
        return frozenset(
            lpar_uuid
            for lpar_uuid, found in _find(lpar_uuids, ())
            if not found.deleted
            and found.host not in (None, host)
            and _last_evacuation_failed(found.uuid, host)
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
            if found.deleted or not found.host
            else _providers(found)
            for lpar_uuid, found in _find(lpar_uuids, attributes)
        }

    def stale_lpars(
        self, lpar_uuids: Iterable[str], host: str
    ) -> Mapping[str, slot_providers.StaleLpar]:
        """Leave out an LPAR of two instances of which one is here."""
        existing = [
            (lpar_uuid, found)
            for lpar_uuid, found in _find(lpar_uuids, ('migration_context',))
            if not found.deleted and found.host
        ]
        here = {
            lpar_uuid for lpar_uuid, found in existing if found.host == host
        }
        return {
            lpar_uuid: slot_providers.StaleLpar(found.uuid, found.host)
            for lpar_uuid, found in existing
            if lpar_uuid not in here and not is_moving_with(found, host)
        }


def _last_evacuation_failed(instance_uuid: str, host: str) -> bool:
    """Return whether the last move to a host was an evacuation that failed.

    An instance that came to the host afterwards, and is moving away from it,
    has an LPAR there that is not left over.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
        {'instance_uuid': instance_uuid, 'dest_compute': host},
    )
    last = max(moves, key=lambda move: move.id, default=None)
    return (
        last is not None
        and last.migration_type == fields.MigrationType.EVACUATION
        and last.status not in _SUCCEEDED
    )


def _find(
    lpar_uuids: Iterable[str], attributes: Iterable[str]
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
    for found in instances:
        yield candidates[found.uuid], found


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


def move_of(instance: Any) -> Any:
    """Return the migration record of the move that an instance is in.

    Nova tells some methods of a driver no more than the address of the
    destination, which hosts may have in common.

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


def is_within_host(migration: Any) -> bool:
    """Return whether source and destination are the same host."""
    return bool(migration.source_compute == migration.dest_compute)


def is_running(instance: Any) -> bool:
    """Return whether Nova starts an instance at the end of its move."""
    return bool(instance.vm_state != vm_states.STOPPED)


def flavors(instance: Any) -> list[Any]:
    """Return the flavors that the devices of an instance may be of.

    Nova keeps both flavors of a move that failed with the instance.

    :returns: nova.objects.Flavor, first the instance's own.
    """
    found = [instance.flavor, instance.new_flavor, instance.old_flavor]
    return [flavor for flavor in found if flavor is not None]


def new_slots(instance: Any) -> dict[str, claims.SlotProvider]:
    """Return the slot providers that an instance gets in its move."""
    context = instance.migration_context
    return stored_slots(context and context.new_resources)


def moved_providers(
    instance: Any, host: str
) -> dict[str, claims.SlotProvider]:
    """Return the slot providers that a move takes or gives here, by uuid.

    :param host: This host; other hosts have slots with the same numbers.
    """
    return {provider.uuid: provider for _, provider in _moved(instance, host)}


def moved_slots(instance: Any, host: str) -> dict[int, str]:
    """Return the slots that a move takes or gives here.

    :returns: DRC index to the uuid of the migration.
    """
    return {
        provider.drc_index: move for move, provider in _moved(instance, host)
    }


def _moved(
    instance: Any, host: str
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
        if name == host:
            for provider in stored_slots(resources).values():
                yield move.uuid, provider


def changes_swap(instance: Any) -> bool:
    """Return whether the swap disks of the flavors of a move differ.

    If Nova has not both flavors any more, they may.
    """
    old, new = instance.old_flavor, instance.new_flavor
    return old is None or new is None or bool(old.swap != new.swap)


def disk_sizes(flavor: Any) -> storage.DiskSizes:
    """Return the sizes of disks that a flavor asks for."""
    return storage.DiskSizes(flavor.root_gb, flavor.ephemeral_gb, flavor.swap)


@contextlib.contextmanager
def alone(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance, whatever Nova records of it by now.

    :param instance: nova.objects.Instance.
    """
    with lockutils.lock(f'powervm-{instance.uuid}'):
        yield


@contextlib.contextmanager
def undeleted(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance that nobody is deleting.

    :param instance: nova.objects.Instance.
    :raises nova.exception.InstanceNotFound: Somebody is, or has deleted it.
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
    """Hold the lock of an instance that is still what Nova has handed over.

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


def _compare(instance: Any, what: str, known: Any, present: Any) -> None:
    if known != present:
        raise exception.InstanceChanged(
            instance_uuid=instance.uuid,
            what=what,
            known=known,
            present=present,
        )


def _move(instance: Any) -> int | None:
    """Return the id of the migration that an instance is in."""
    context = instance.migration_context
    return None if context is None else context.migration_id

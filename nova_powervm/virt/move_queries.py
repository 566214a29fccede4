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

"""Questions to Nova about resizes and cold migrations."""

from collections.abc import Iterable
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states
from nova.objects import fields

from nova_powervm.virt import move_records

#: How many of the moves that ended last are looked at.
_RECENT = 20

_TYPES = (fields.MigrationType.RESIZE, fields.MigrationType.MIGRATION)
_TASKS = (
    task_states.RESIZE_MIGRATING,
    task_states.RESIZE_MIGRATED,
    task_states.RESIZE_FINISH,
    task_states.RESIZE_REVERTING,
)
#: Statuses of moves that are over and may have left something.
ENDED = (
    move_records.REVERTED,
    'error',
    move_records.FAILED,
    'confirmed',
)


def find_moves(host: str, *, at_start: bool) -> list[tuple[Any, Any]]:
    """Find the migrations of a host that may be interrupted.

    Most have just begun, or wait for the user.

    :returns: Each with its instance.
    """
    migrations = {
        migration.id: migration
        for migration in [
            *_read_migrations(host, move_records.MOVING),
            *_read_ended(host, at_start=at_start),
        ]
    }
    moving = [migration.instance_uuid for migration in migrations.values()]
    instances = {found.uuid: found for found in read_instances(moving)}
    return [
        (migration, instances[migration.instance_uuid])
        for migration in migrations.values()
        if migration.instance_uuid in instances and is_last(migration)
    ]


def read_last(
    host: str,
    statuses: tuple[str, ...],
    end: str = 'host',
    read_deleted: str = 'no',
) -> list[Any]:
    """Read those resizes and cold migrations of a host that changed last.

    :param end: 'source_compute' for moves from the host only.
    :param read_deleted: 'only' for those of deleted instances.
    """
    found = _read_migrations(
        host,
        statuses,
        end,
        read_deleted,
        limit=_RECENT,
        sort_keys=['updated_at', 'id'],
        sort_dirs=['desc', 'desc'],
    )
    return sorted(found, key=changed_at, reverse=True)[:_RECENT]


def changed_at(migration: Any) -> tuple[Any, int]:
    """Return a key that sorts migrations by when they changed last."""
    return migration.updated_at or migration.created_at, migration.id


def _read_migrations(
    host: str,
    statuses: tuple[str, ...],
    end: str = 'host',
    read_deleted: str = 'no',
    **order: Any,
) -> list[Any]:
    """Read resizes and cold migrations from or to a host.

    :param order: Which of each type, and how many.
    """
    return [
        migration
        for kind in _TYPES
        for migration in objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(read_deleted=read_deleted),
            {end: host, 'status': list(statuses), 'migration_type': kind},
            **order,
        )
        if not migration.cross_cell_move
    ]


def _read_ended(host: str, *, at_start: bool) -> list[Any]:
    """Read the migrations that are over, unlike their instances' tasks.

    Nova writes a migration and its instance one after the other.
    """
    newest = {
        migration.instance_uuid: migration
        for migration in sorted(
            read_last(host, ENDED),
            key=lambda migration: migration.id,
        )
    }
    unfinished = read_instances(newest, task_state=list(_TASKS))
    if at_start:
        unfinished += read_instances(newest, vm_state=vm_states.RESIZED)
    return [newest[instance.uuid] for instance in unfinished]


def is_last(migration: Any) -> bool:
    """Return whether an instance has not begun another move, maybe elsewhere.

    What is left of an earlier one must not be done to a later one.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
        {'instance_uuid': migration.instance_uuid},
    )
    return all(other.id <= migration.id for other in moves)


def read_instances(uuids: Iterable[str], **filters: Any) -> list[Any]:
    """Read the existing ones among instances, without further tables."""
    wanted = sorted(set(uuids))
    if not wanted:
        return []
    return list(
        objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(),
            {'uuid': wanted, 'deleted': False, **filters},
            expected_attrs=[],
        )
    )


def find_instance(uuid: str) -> Any:
    """Read an instance; return None if it is deleted."""
    try:
        return read_instance(uuid)
    except nova_exception.InstanceNotFound:
        return None


def read_instance(uuid: str) -> Any:
    """Read an instance with all that a remedy looks at or changes.

    :raises nova.exception.InstanceNotFound: It is deleted.
    """
    return objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        uuid,
        expected_attrs=[
            'flavor',
            'migration_context',
            'numa_topology',
            'pci_devices',
            'pci_requests',
            'resources',
            'system_metadata',
        ],
    )

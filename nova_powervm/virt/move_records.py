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

"""Nova's records of moves: which of them are in progress.

Nova keeps the migration context of an instance after most moves that failed,
so only the status of its migration tells whether the instance still moves.
"""

from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states

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

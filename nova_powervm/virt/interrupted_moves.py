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

"""Resizes and cold migrations that ended with nova-compute, or with a message.

What is done about each is a table in :mod:`.instance.interrupted_move`.
"""

import functools
import time
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import servicegroup
from nova.compute import task_states
from nova.compute import vm_states
from nova.objects import fields
from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm.instance import interrupted_move
from nova_powervm.instance.interrupted_move import Side
from nova_powervm.virt import move_leftovers
from nova_powervm.virt import move_records
from nova_powervm.virt import move_remedies

LOG = logging.getLogger(__name__)

#: Seconds after which a message that has not arrived is lost.
LOST_SECONDS = 600
#: How many of the moves that ended last are looked at.
_RECENT = 20

_TYPES = (fields.MigrationType.RESIZE, fields.MigrationType.MIGRATION)
_TASKS = (
    task_states.RESIZE_MIGRATED,
    task_states.RESIZE_FINISH,
    task_states.RESIZE_REVERTING,
)
#: Statuses of moves that are over and may have left something.
_ENDED = (
    move_records.REVERTED,
    'error',
    move_records.FAILED,
    'confirmed',
)
#: What must not change for a move to count as interrupted.
_State = tuple[str, str | None, str | None]


class InterruptedMoves:
    """Ends the moves of a host that nobody continues.

    :param virtapi: Nova's VirtAPI.
    :param host: This host, as in ``instance.host``.
    :param clock: Returns monotonic seconds.
    :param busy: Whether this process is removing the LPAR of an instance,
        which may take longer than a message.
    """

    def __init__(
        self,
        virtapi: Any,
        host: str,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[str], bool] = lambda uuid: False,
    ) -> None:
        self._busy = busy
        self._remedies = move_remedies.MoveRemedies(virtapi, host)
        self._leftovers = move_leftovers.MoveLeftovers(virtapi, host)
        self._host = host
        self._clock = clock
        # By the id of a migration: its state at the start of nova-compute, if
        # it was interrupted then.
        self._dead: dict[int, _State] = {}
        # By the id of a migration: since when it has been in a state.
        self._seen: dict[int, tuple[_State, float]] = {}
        # When left allocations were looked for.
        self._freed_at = clock()

    def end(self, *, at_start: bool) -> None:
        """Find the moves that nobody continues, and resolve each.

        If that fails for one, the next call tries it again.

        :param at_start: Whether nova-compute is starting and accepts no
            requests yet.
        :raises nova.exception.NovaException: Nova's database failed.
        """
        found = _find_moves(self._host, at_start=at_start)
        ids = {migration.id for migration, _ in found}
        self._seen = {k: v for k, v in self._seen.items() if k in ids}
        self._dead = {k: v for k, v in self._dead.items() if k in ids}
        for migration, instance in found:
            row = self._find_row(migration, instance, at_start=at_start)
            if row:
                self._resolve(migration, row)
        self._release_claims(at_start=at_start)
        if at_start or self._clock() - self._freed_at >= LOST_SECONDS:
            self._freed_at = self._clock()
            self._free_left_allocations(at_start=at_start)

    def _release_claims(self, *, at_start: bool) -> None:
        """Let Nova's resource tracker forget failed moves.

        Of one within this host, the LPAR has the slots of one side, which are
        allocated to it; those of the other are free. Of one that is not the
        last of its instance, the tracker would count slots of the last.
        """
        failed = _read_last(self._host, ('error',))
        resting = {
            instance.uuid
            for instance in _read_instances(m.instance_uuid for m in failed)
            if instance.task_state is None
            and instance.vm_state != vm_states.RESIZED
        }
        for migration in failed:
            is_within = migration.source_compute == migration.dest_compute
            if (is_within and migration.instance_uuid in resting) or (
                at_start and not _is_last(migration)
            ):
                migration.status = move_records.FAILED
                migration.save()

    def _free_left_allocations(self, *, at_start: bool) -> None:
        """Free what the last moves from this host have left in Placement.

        Nova ends a migration before it gives back or deletes its allocations,
        and deletes an instance that moves without them. Later it may be about
        to do so.
        """
        for migration in [
            *_read_last(self._host, _ENDED, end='source_compute'),
            *_read_last(
                self._host,
                _ENDED + move_records.MOVING,
                end='source_compute',
                read_deleted='only',
            ),
        ]:
            if at_start or _has_rested(migration):
                self._free(migration)

    def _free(self, migration: Any) -> None:
        uuid = migration.instance_uuid
        try:
            self._leftovers.clear(
                migration, functools.partial(_find_instance, uuid)
            )
        except Exception:
            LOG.exception(
                'Allocations of the migration %(migration)s of instance '
                '%(instance)s could not be freed; this is tried again '
                'in ten minutes.',
                {'migration': migration.uuid, 'instance': uuid},
            )

    def _find_row(
        self, migration: Any, instance: Any, *, at_start: bool
    ) -> interrupted_move.Row | None:
        situation = describe(migration, instance, self._host)
        state = (migration.status, instance.task_state, instance.host)
        started = interrupted_move.find_remedy(
            situation, interrupted_move.STARTED
        )
        if started and at_start:
            self._dead[migration.id] = state
        if started and self._dead.get(migration.id) == state:
            return started
        if self._busy(migration.instance_uuid) or not _can_begin(migration):
            self._seen.pop(migration.id, None)
            return None
        if self._watch(migration.id, state) < LOST_SECONDS:
            return None
        return interrupted_move.find_remedy(
            situation, interrupted_move.AWAITED
        )

    def _watch(self, migration: int, state: _State) -> float:
        """Return for how many seconds a move has been seen in a state.

        Only while this process runs can a message arrive. Therefore the times
        in Nova's records, which other hosts write, do not count.
        """
        now = self._clock()
        before, since = self._seen.get(migration, (None, now))
        if before != state:
            since = now
        self._seen[migration] = (state, since)
        return now - since

    def _resolve(self, migration: Any, row: interrupted_move.Row) -> None:
        uuid = migration.instance_uuid
        try:
            self._remedies.apply(migration, _read_instance(uuid), row)
        except nova_exception.UnexpectedTaskStateError:
            LOG.info('The move of instance %s continues after all.', uuid)
        except Exception:
            LOG.exception(
                'The interrupted move of instance %s could not be ended; the '
                'next cycle tries again.',
                uuid,
            )
        else:
            self._dead.pop(migration.id, None)
            self._seen.pop(migration.id, None)


def _has_rested(migration: Any) -> bool:
    """Return whether Nova has not changed a migration for a while."""
    return bool(
        timeutils.is_older_than(_changed_at(migration)[0], LOST_SECONDS)
    )


def _can_begin(migration: Any) -> bool:
    """Return whether the destination can begin a move.

    Its message waits as long as it is down.
    """
    host = migration.dest_compute
    if migration.status not in ('accepted', 'pre-migrating') or host is None:
        return True
    try:
        service = objects.Service.get_by_compute_host(
            nova_context.get_admin_context(), host
        )
    except nova_exception.ComputeHostNotFound:
        return True
    return bool(servicegroup.API().service_is_up(service))


def describe(
    migration: Any, instance: Any, host: str
) -> interrupted_move.Situation:
    """Describe a move as Nova's records show it.

    :param host: This host, as in ``instance.host``.
    """
    ends = {
        Side.SOURCE: migration.source_compute,
        Side.DESTINATION: migration.dest_compute,
    }
    places = {side for side, name in ends.items() if name == instance.host}
    if len(places) > 1 and migration.status == move_records.REVERTED:
        # A resize in place: the flavor changes with the side.
        is_back = instance.instance_type_id == migration.old_instance_type_id
        places = {Side.SOURCE if is_back else Side.DESTINATION}
    return interrupted_move.Situation(
        status=migration.status,
        task=instance.task_state,
        awaits_decision=instance.vm_state == vm_states.RESIZED,
        ours=frozenset(side for side, name in ends.items() if name == host),
        places=frozenset(places),
    )


def _find_moves(host: str, *, at_start: bool) -> list[tuple[Any, Any]]:
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
    instances = {found.uuid: found for found in _read_instances(moving)}
    return [
        (migration, instances[migration.instance_uuid])
        for migration in migrations.values()
        if migration.instance_uuid in instances and _is_last(migration)
    ]


def _read_last(
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
    return sorted(found, key=_changed_at, reverse=True)[:_RECENT]


def _changed_at(migration: Any) -> tuple[Any, int]:
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
            _read_last(host, _ENDED),
            key=lambda migration: migration.id,
        )
    }
    unfinished = _read_instances(newest, task_state=list(_TASKS))
    if at_start:
        unfinished += _read_instances(newest, vm_state=vm_states.RESIZED)
    return [newest[instance.uuid] for instance in unfinished]


def _is_last(migration: Any) -> bool:
    """Return whether an instance has not begun another move, maybe elsewhere.

    What is left of an earlier one must not be done to a later one.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
        {'instance_uuid': migration.instance_uuid},
    )
    return all(other.id <= migration.id for other in moves)


def _read_instances(uuids: Iterable[str], **filters: Any) -> list[Any]:
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


def _find_instance(uuid: str) -> Any:
    """Read an instance; return None if it is deleted."""
    try:
        return _read_instance(uuid)
    except nova_exception.InstanceNotFound:
        return None


def _read_instance(uuid: str) -> Any:
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

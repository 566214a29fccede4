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

What is done about each is a table in :mod:`.lpar.interrupted_move`.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging
from nova import baserpc
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import servicegroup
from nova.compute import rpcapi
from nova.compute import vm_states
from oslo_concurrency import lockutils
from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm.lpar import interrupted_move
from nova_powervm.lpar.interrupted_move import Side
from nova_powervm.virt import move_leftovers
from nova_powervm.virt import move_queries
from nova_powervm.virt import move_records
from nova_powervm.virt import move_remedies

LOG = logging.getLogger(__name__)

#: Seconds after which a message that has not arrived is lost.
LOST_SECONDS = 600
#: What must not change for a move to count as interrupted.
_State = tuple[str, str | None, str | None]


@dataclasses.dataclass(slots=True)
class _Wait:
    """A move that waits for a message.

    :ivar state: The move's.
    :ivar since: When it was first seen in this state, in seconds.
    :ivar is_answered: Whether its host has answered a later message.
    """

    state: _State
    since: float
    is_answered: bool = False


class InterruptedMoves:
    """Ends the moves of a host that nobody continues.

    :param virtapi: Nova's VirtAPI.
    :param host: This host, as in ``instance.host``.
    :param clock: Returns monotonic seconds.
    :param busy: Whether this process is removing the LPAR of an instance,
        which may take longer than a message.
    :param answers: Whether a host takes up the messages that it gets.
    """

    def __init__(
        self,
        virtapi: Any,
        host: str,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[str], bool] = lambda uuid: False,
        answers: Callable[[str], bool] | None = None,
    ) -> None:
        self._busy = busy
        self._ask = answers or _takes_messages
        self._answers = self._ask
        self._remedies = move_remedies.MoveRemedies(virtapi, host)
        self._leftovers = move_leftovers.MoveLeftovers(virtapi, host)
        self._host = host
        self._clock = clock
        # By the id of a migration: its state at the start of nova-compute, if
        # it was interrupted then.
        self._dead: dict[int, _State] = {}
        # By the id of a migration.
        self._seen: dict[int, _Wait] = {}
        # When left allocations were looked for.
        self._freed_at = clock()

    def end(self, *, at_start: bool) -> None:
        """Find the moves that nobody continues, and resolve each.

        If that fails for one, the next call tries it again.

        :param at_start: Whether nova-compute is starting and accepts no
            requests yet.
        :raises nova.exception.NovaException: Nova's database failed.
        """
        # A host that does not answer is waited for once in a cycle.
        self._answers = functools.cache(self._ask)
        found = move_queries.find_moves(self._host, at_start=at_start)
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
        failed = move_queries.read_last(self._host, ('error',))
        resting = {
            instance.uuid
            for instance in move_queries.read_instances(
                m.instance_uuid for m in failed
            )
            if instance.task_state is None
            and instance.vm_state != vm_states.RESIZED
        }
        for migration in failed:
            is_within = migration.source_compute == migration.dest_compute
            if (is_within and migration.instance_uuid in resting) or (
                at_start and not move_queries.is_last(migration)
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
            *move_queries.read_last(
                self._host, move_queries.ENDED, end='source_compute'
            ),
            *move_queries.read_last(
                self._host,
                move_queries.ENDED + move_records.MOVING,
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
                migration, functools.partial(move_queries.find_instance, uuid)
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
        awaited = interrupted_move.find_remedy(
            situation, interrupted_move.AWAITED
        )
        if (
            awaited is None
            or self._busy(migration.instance_uuid)
            or not _can_begin(migration)
        ):
            self._seen.pop(migration.id, None)
            return None
        return awaited if self._is_lost(migration, state) else None

    def _is_lost(self, migration: Any, state: _State) -> bool:
        """Return whether the message about a move is lost, and not just late.

        Only while this process runs can a message arrive. Therefore the times
        in Nova's records, which other hosts write, do not count.

        Messages come in their order: one that was sent before another that
        its host has answered was taken up, or is lost. What it starts may
        have yet to begin, so only the next cycle may act.
        """
        wait = self._seen.get(migration.id)
        if wait is None or wait.state != state:
            wait = self._seen[migration.id] = _Wait(state, self._clock())
        if wait.is_answered:
            return True
        if self._clock() - wait.since >= LOST_SECONDS:
            hosts = {self._host}
            if _is_beginning(migration) and migration.dest_compute:
                hosts.add(migration.dest_compute)
            wait.is_answered = all(map(self._answers, hosts))
        return False

    def _resolve(self, migration: Any, row: interrupted_move.Row) -> None:
        uuid = migration.instance_uuid
        try:
            self._apply(migration.id, uuid, row)
        except (
            nova_exception.UnexpectedTaskStateError,
            lockutils.AcquireLockFailedException,
        ):
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

    def _apply(self, move: int, uuid: str, row: interrupted_move.Row) -> None:
        """Apply a remedy, unless the move has changed since it was read.

        Nova holds the lock of that name while it confirms a move, and would
        set a server to ERROR that is confirmed twice.

        :raises oslo_concurrency.lockutils.AcquireLockFailedException: Nova is
            at the instance.
        """
        with lockutils.lock(uuid, blocking=False):
            migration = objects.Migration.get_by_id_and_instance(
                nova_context.get_admin_context(), move, uuid
            )
            instance = move_queries.read_instance(uuid)
            if row.fits(describe(migration, instance, self._host)):
                self._remedies.apply(migration, instance, row)


def _takes_messages(host: str) -> bool:
    """Return whether a host has taken up its earlier messages.

    Nova sends the steps of moves to two topics of nova-compute.
    """
    context = nova_context.get_admin_context()
    try:
        for topic in (rpcapi.RPC_TOPIC, rpcapi.RPC_TOPIC_ALT):
            baserpc.BaseAPI(topic).get_backdoor_port(context, host)
    except oslo_messaging.MessagingTimeout:
        return False
    return True


def _has_rested(migration: Any) -> bool:
    """Return whether Nova has not changed a migration for a while."""
    return bool(
        timeutils.is_older_than(
            move_queries.changed_at(migration)[0], LOST_SECONDS
        )
    )


def _is_beginning(migration: Any) -> bool:
    """Return whether the destination has the next step of a move."""
    return migration.status in ('accepted', 'pre-migrating')


def _can_begin(migration: Any) -> bool:
    """Return whether the destination can begin a move.

    Its message waits as long as it is down.
    """
    host = migration.dest_compute
    if not _is_beginning(migration) or host is None:
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

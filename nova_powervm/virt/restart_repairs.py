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

"""Ends what was interrupted when nova-compute ended, as it starts again.

The first cycle gives up evacuations to this host that ended with the service.
Evacuations from this host whose instances have come back are completed before
Nova cleans up after them.

The source of a move records an instance on the destination before it sends
the message for it (``ComputeManager._resize_instance``: ``instance.host =
migration.dest_compute``, then ``compute_rpcapi.finish_resize``). If the
message cannot be sent, Nova gives the allocations back to the source, but
leaves the record. No command of Nova's can change it: the first cycle takes
the instance home.
"""

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.objects import fields
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.ops import interfaces
from nova_powervm.virt import instance_records
from nova_powervm.virt import record_changes

LOG = logging.getLogger(__name__)

#: Consecutive timeouts before pausing; a single one may be temporary.
MAX_WAITS = 2
#: Seconds for which a silent host is not asked after that.
PAUSE_SECONDS = 60
# Statuses of evacuations.
#: The new host has claimed resources.
_CLAIMED = 'pre-migrating'
#: The old host has started, even if the new one has not ended the evacuation.
_CLEANED = 'completed'
#: The instance is recorded on the new host.
_DONE = 'done'
_FAULT = (
    'nova-compute of the new host ended during the evacuation. Evacuate the '
    'server again'
)


class Startup:
    """The time before the first cycle of Nova's resource tracker.

    nova-compute accepts no requests yet: no build is in progress. Nova asks
    for each instance in turn, and every request to a host that hangs lasts
    until its timeout.

    :param clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_over = False
        self._clock = clock
        self._waits = 0
        self._waited_at = 0.0
        self._fields: dict[str, Any] = {}

    def end(self) -> bool:
        """End the start; return whether it has lasted until now."""
        ends_now, self.is_over = not self.is_over, True
        return ends_now

    @contextlib.contextmanager
    def limit_waits(self) -> Iterator[None]:
        """Run the block, unless the host hangs while nova-compute starts.

        :raises exception.RestSilent: The host did not answer in this block,
            or in the preceding ones.
        """
        if (
            not self.is_over
            and self._waits >= MAX_WAITS
            and self._clock() < self._waited_at + PAUSE_SECONDS
        ):
            raise exception.RestSilent(**self._fields)
        try:
            yield
        except exception.RestSilent as error:
            self._waits += 1
            self._waited_at = self._clock()
            self._fields = error.fields
            raise
        self._waits = 0


def complete_returned(nodename: str) -> None:
    """Complete the evacuations whose instances are back on this host.

    Nova cleans up after evacuations when nova-compute of the old host starts.
    If it kept running while its host was given up, the clean-up comes at a
    later start, and concerns the LPAR with which the instance has come back,
    perhaps by a live migration that Nova has not ended. Call this before the
    clean-up.

    :param nodename: This host, the old one.
    :raises nova.exception.NovaException: Nova's database failed.
    """
    context = nova_context.get_admin_context()
    evacuations = _read_evacuations(
        context, {'source_compute': nodename, 'status': [_DONE]}
    )
    for migration in evacuations:
        for instance in objects.InstanceList.get_by_filters(
            context,
            {'uuid': [migration.instance_uuid]},
            expected_attrs=['system_metadata'],
        ):
            if instance.host != nodename and not (
                instance_records.may_arrive(instance, nodename)
            ):
                continue
            LOG.warning(
                'Instance %(uuid)s has come back since its evacuation to host '
                '%(destination)s; marking the evacuation as completed.',
                {
                    'uuid': instance.uuid,
                    'destination': migration.dest_compute,
                },
            )
            record_changes.set_evacuation_completed(migration)


def give_up_evacuations(
    node: instance_records.LocalNode,
    client: Any,
    note_leftover: Callable[[str], None],
) -> None:
    """Give up the evacuations that nova-compute was killed in.

    Nova ends interrupted builds and rebuilds of a host's own instances when
    nova-compute starts. An instance that is being evacuated still belongs to
    its old host: Nova would leave its devices allocated on the new one, and
    never end its task. Do what Nova does if the build of an evacuation fails.

    Call this only while nova-compute starts: later, evacuations may be in
    progress. Mark the evacuation as failed last, so that the next start
    repeats what was not completed.

    :param node: This node.
    :param client: Nova's client of Placement.
    :param note_leftover: Called with the uuid of each instance whose LPAR is
        to be removed.
    :raises nova.exception.NovaException: Nova's database or Placement failed.
    """
    context = nova_context.get_admin_context()
    for migration in _evacuations_to(node.name):
        instance = _read_instance(context, migration.instance_uuid)
        if not _is_interrupted(context, migration, instance):
            continue
        LOG.warning(
            'nova-compute ended during the evacuation of instance %s to this '
            'host; removing what was built.',
            migration.instance_uuid,
        )
        note_leftover(migration.instance_uuid)
        if instance:
            record_changes.remove_evacuation_allocations(
                context, client, instance, node.uuid
            )
            if not _has_newer(context, migration):
                _set_error(context, instance)
        record_changes.set_evacuation_failed(migration)


def _read_instance(context: Any, uuid: str) -> Any:
    """Read an instance; None if Nova has deleted it with its allocations.

    It may have left an LPAR here all the same.
    """
    with contextlib.suppress(nova_exception.InstanceNotFound):
        return objects.Instance.get_by_uuid(context, uuid)


def _is_interrupted(context: Any, migration: Any, instance: Any) -> bool:
    """Return whether an evacuation ended before its build succeeded."""
    if instance and instance.host == migration.dest_compute:
        return False
    return migration.status != _CLEANED or (
        _is_waiting(instance, migration) and not _has_newer(context, migration)
    )


def _evacuations_to(nodename: str) -> list[Any]:
    """Return the evacuations to a host that may have been interrupted."""
    evacuations = _read_evacuations(
        # Nova deletes the migrations of an instance with it.
        nova_context.get_admin_context().elevated(read_deleted='yes'),
        {'host': nodename, 'status': [_CLAIMED, _CLEANED]},
    )
    return [each for each in evacuations if each.dest_compute == nodename]


def _read_evacuations(context: Any, filters: dict[str, Any]) -> Iterable[Any]:
    evacuations: Iterable[Any] = objects.MigrationList.get_by_filters(
        context, filters | {'migration_type': fields.MigrationType.EVACUATION}
    )
    return evacuations


def _is_waiting(instance: Any, migration: Any) -> bool:
    """Return whether the task of an instance is still its evacuation."""
    return bool(
        instance
        and instance.host == migration.source_compute
        and instance.task_state in task_states.rebuild_states
    )


def _has_newer(context: Any, migration: Any) -> bool:
    """Return whether the instance has moved since, or was evacuated again."""
    migrations = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': migration.instance_uuid}
    )
    return any(other.id > migration.id for other in migrations)


def _set_error(context: Any, instance: Any) -> None:
    """Let the user see that the evacuation has failed."""
    fault = nova_exception.NovaException(_FAULT)
    compute_utils.add_instance_fault_from_exc(context, instance, fault)
    record_changes.set_error_of_evacuation(instance)


def take_home(
    node: instance_records.LocalNode, placement: interfaces.Placement
) -> None:
    """Record instances on this host again that have never left it.

    Call this only while nova-compute starts: no move is in progress then.

    :param node: This node.
    :param placement: Placement.
    :raises exception.PlacementUnanswered: Placement did not answer.
    """
    context = nova_context.get_admin_context()
    for migration in objects.MigrationList.get_by_filters(
        context, {'source_compute': node.name, 'status': 'error'}
    ):
        for instance in objects.InstanceList.get_by_filters(
            context,
            {'uuid': [migration.instance_uuid], 'deleted': False},
            expected_attrs=['migration_context'],
        ):
            if _may_be_stranded(migration, instance):
                allocations = placement.allocated_to(instance.uuid)
                is_here = node.uuid in allocations
                if is_here and not _has_any_there(instance, allocations):
                    _record(context, instance, migration, node.uuid)


def _may_be_stranded(migration: Any, instance: Any) -> bool:
    """Return whether an instance is recorded on the destination of a move.

    The move has to be its last one, if Nova still has its context, which a
    hard reboot in the middle of a move drops.
    """
    context = instance.migration_context
    return (
        (context is None or context.migration_id == migration.id)
        and migration.source_compute != migration.dest_compute
        and instance.host == migration.dest_compute
        and instance.task_state is None
        and instance.vm_state == vm_states.ERROR
    )


def _has_any_there(instance: Any, allocations: Any) -> bool:
    """Return whether some allocations are of the host in the record."""
    node = objects.ComputeNode.get_by_id(
        nova_context.get_admin_context(), instance.compute_id
    )
    return node.uuid in allocations


def _record(
    context: Any, instance: Any, migration: Any, node_uuid: str
) -> None:
    LOG.warning(
        'The instance is recorded on host %(destination)s, to which its '
        'move has not begun, but has its allocations here: recording it '
        'here again. Reboot it hard.',
        {'destination': instance.host},
        instance=instance,
    )
    node = objects.ComputeNode.get_by_uuid(context, node_uuid)
    record_changes.record_on_source(instance, migration, node.id)

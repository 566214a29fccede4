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

"""Instances that Nova has recorded on a host that they never reached.

The source of a move records an instance on the destination before it sends
the message for it (``ComputeManager._resize_instance``: ``instance.host =
migration.dest_compute``, then ``compute_rpcapi.finish_resize``). If the
message cannot be sent, Nova gives the allocations back to the source, but
leaves the record. No command of Nova's can change it.
"""

from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import vm_states
from oslo_log import log as logging

from nova_powervm.ops import interfaces
from nova_powervm.virt import record_changes

LOG = logging.getLogger(__name__)


def take_home(
    host: str, node_uuid: str, placement: interfaces.Placement
) -> None:
    """Record instances on this host again that have never left it.

    Call this only while nova-compute starts: no move is in progress then.

    :param host: This host, as in ``instance.host``.
    :param node_uuid: The uuid of its compute node.
    :param placement: Placement.
    :raises exception.PlacementUnanswered: Placement did not answer.
    """
    context = nova_context.get_admin_context()
    for migration in objects.MigrationList.get_by_filters(
        context, {'source_compute': host, 'status': 'error'}
    ):
        for instance in objects.InstanceList.get_by_filters(
            context,
            {'uuid': [migration.instance_uuid], 'deleted': False},
            expected_attrs=['migration_context'],
        ):
            if _may_be_stranded(migration, instance):
                held = placement.allocated_to(instance.uuid)
                if node_uuid in held and not _is_on(instance, held):
                    _record(context, instance, migration, node_uuid)


def _may_be_stranded(migration: Any, instance: Any) -> bool:
    """Return whether an instance is on the destination of its last move.

    A hard reboot in the middle of a move has dropped its context.
    """
    context = instance.migration_context
    return (
        (context is None or context.migration_id == migration.id)
        and migration.source_compute != migration.dest_compute
        and instance.host == migration.dest_compute
        and instance.task_state is None
        and instance.vm_state == vm_states.ERROR
    )


def _is_on(instance: Any, held: Any) -> bool:
    """Return whether an instance has allocations of the host of its record."""
    node = objects.ComputeNode.get_by_id(
        nova_context.get_admin_context(), instance.compute_id
    )
    return node.uuid in held


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

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

"""What moves that are over have left in Placement and in Nova's records."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import vm_states
from oslo_log import log as logging

from nova_powervm.virt import move_allocations

LOG = logging.getLogger(__name__)


class MoveLeftovers:
    """Clears up after moves from a host.

    :param virtapi: Nova's VirtAPI.
    :param host: This host, as in ``instance.host``.
    """

    def __init__(self, virtapi: Any, host: str) -> None:
        self._allocations = move_allocations.MoveAllocations(virtapi)
        self._host = host

    def clear(self, migration: Any, find_instance: Callable[[], Any]) -> None:
        """Free the allocations of a move, and record its instance here.

        :param migration: A migration from this host that is over, or whose
            instance is deleted.
        :param find_instance: Returns the instance with resources and
            migration context; None if it is deleted.
        :raises nova.exception.NovaException: Nova or Placement did not answer.
        """
        held = self._allocations.of(
            nova_context.get_admin_context(), migration.uuid
        )
        if not held and migration.status != 'error':
            return
        instance = find_instance()
        if held:
            self._free_allocations(migration, instance, held)
        self._take_home(migration, instance)

    def _free_allocations(
        self, migration: Any, instance: Any, held: Mapping[str, Any]
    ) -> None:
        """Free what a migration that is over still holds of its source."""
        context = nova_context.get_admin_context()
        if not _is_over(migration, instance):
            return
        LOG.warning(
            'Migration %(migration)s of instance %(instance)s is over '
            '(%(status)s), but holds allocations of this host: freeing them.',
            {
                'migration': migration.uuid,
                'instance': migration.instance_uuid,
                'status': migration.status,
            },
        )
        if (
            instance
            and instance.host == self._host
            and migration.status != 'confirmed'
            and _belong_to_instance(
                held,
                self._allocations.of(context, instance.uuid),
                migration,
                instance,
            )
        ):
            self._allocations.give_back(context, migration, instance)
        else:
            self._allocations.delete(context, migration)

    def _take_home(self, migration: Any, instance: Any) -> None:
        """Record an instance on this host again, if it has never left.

        If Nova cannot send its message to the destination, it gives the
        allocations back, but has recorded the instance there.
        """
        context = nova_context.get_admin_context()
        if not _is_stranded(migration, instance):
            return
        source, destination = (
            objects.ComputeNode.get_first_node_by_host_for_old_compat(
                context, host
            )
            for host in (migration.source_compute, migration.dest_compute)
        )
        held = self._allocations.of(context, instance.uuid)
        if source.uuid not in held or destination.uuid in held:
            return
        LOG.warning(
            'The instance is recorded on host %(destination)s, to which its '
            'move has not begun, but has its allocations here: recording it '
            'here again. Reboot it hard.',
            {'destination': instance.host},
            instance=instance,
        )
        instance.host = migration.source_compute
        instance.node = migration.source_node
        instance.compute_id = source.id
        instance.save(expected_task_state=[None])


def _is_over(migration: Any, instance: Any) -> bool:
    """Return whether nobody needs the allocations of a migration any more."""
    if instance is None or migration.status == 'confirmed':
        return True
    return (
        instance.task_state is None and instance.vm_state != vm_states.RESIZED
    )


def _is_stranded(migration: Any, instance: Any) -> bool:
    """Return whether an instance may wrongly be on the destination."""
    return (
        instance is not None
        and migration.status == 'error'
        and migration.source_compute != migration.dest_compute
        and instance.host == migration.dest_compute
        and instance.task_state is None
        and instance.vm_state == vm_states.ERROR
    )


def _belong_to_instance(
    held: Mapping[str, Any],
    own: Mapping[str, Any],
    migration: Any,
    instance: Any,
) -> bool:
    """Return whether a migration holds what its instance should have.

    After a move in place both have allocations of this host: then the slots
    decide that Nova recorded with the instance, or else its flavor.

    :param held: Allocations of the migration by provider.
    :param own: Those of the instance.
    :param migration: A move that was not confirmed.
    :param instance: An instance of this host.
    """
    if held.keys().isdisjoint(own):
        return True
    wanted = _slot_providers(instance.resources)
    known = wanted | _moving_providers(instance.migration_context)
    if held.keys() & known != own.keys() & known:
        return held.keys() & known == wanted
    return bool(instance.instance_type_id == migration.old_instance_type_id)


def _moving_providers(context: Any) -> set[str]:
    """Return the slot providers of both sides of a migration context."""
    if context is None:
        return set()
    return _slot_providers(context.old_resources) | _slot_providers(
        context.new_resources
    )


def _slot_providers(resources: Any) -> set[str]:
    return {resource.provider_uuid for resource in resources or ()}

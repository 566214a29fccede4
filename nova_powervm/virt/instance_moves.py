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

"""What a resize or cold migration does with an instance."""

from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states

from nova_powervm.devices import claims
from nova_powervm.lpar import disk_resizes
from nova_powervm.virt import instance_records


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
    return instance_records.stored_slots(context and context.new_resources)


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
            for provider in instance_records.stored_slots(resources).values():
                yield move.uuid, provider


def changes_swap(instance: Any) -> bool:
    """Return whether the swap disks of the flavors of a move differ.

    If Nova has not both flavors any more, they may.
    """
    old, new = instance.old_flavor, instance.new_flavor
    return old is None or new is None or bool(old.swap != new.swap)


def disk_sizes(flavor: Any) -> disk_resizes.DiskSizes:
    """Return the sizes of disks that a flavor asks for."""
    return disk_resizes.DiskSizes(
        flavor.root_gb, flavor.ephemeral_gb, flavor.swap
    )

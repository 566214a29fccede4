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

"""Finds the allocations of an instance on this host in Placement.

A move gives what an instance had on the source to its migration, as the
consumer in Placement. If the move is interrupted, Nova leaves it there.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import spec
from nova_powervm.ops import claiming
from nova_powervm.ops import interfaces
from nova_powervm.virt import instance_records
from nova_powervm.virt import record_changes
from nova_powervm.virt.provider_tree import contents

LOG = logging.getLogger(__name__)

#: Statuses of migrations after which an instance is whole.
_SUCCEEDED = ('confirmed', 'reverted', 'done', 'completed')


@dataclasses.dataclass(frozen=True, slots=True)
class LocalAllocations:
    """What Placement has allocated of this host for an instance.

    :param by_provider: Provider uuid to ``{'resources': {class: amount}}``.
    :param migration: The migration that holds the allocations in place of the
        instance; None if the instance does.
    :param has_failed: Whether the last move of the instance did not end well,
        or did not end on this host.
    :param moved_slots: DRC index of each slot here that the instance has been
        allocated in a resize that did not begin or was taken back, and the
        uuid of the migration. The LPAR may have these slots.
    """

    by_provider: Mapping[str, Mapping[str, Any]]
    migration: Any = None
    has_failed: bool = False
    moved_slots: Mapping[int, str] = dataclasses.field(default_factory=dict)


class InstanceAllocations:
    """Finds the allocations of instances, and moves them home.

    :param virtapi: Nova's VirtAPI.
    :param placement: Placement.
    :param slot_claims: Knows the providers of this host.
    :param node: The node of this compute service.
    """

    def __init__(
        self,
        virtapi: Any,
        placement: interfaces.Placement,
        slot_claims: claiming.ClaimOps,
        node: instance_records.LocalNode,
    ) -> None:
        self._virtapi = virtapi
        self._placement = placement
        self._claims = slot_claims
        self._node = node

    def find_moved(self, instance: Any) -> LocalAllocations | None:
        """Ask Placement about an instance whose move has not ended well.

        :returns: None for any other instance: Nova's record decides.
        """
        if instance.migration_context is None:
            return None
        return self.find(instance)

    def find(self, instance: Any) -> LocalAllocations:
        """Return the allocations that decide about an instance on this host.

        They are the instance's own, or if it has none here, those of the
        newest migration from this host that has some. After a resize within
        the host that has not begun or was taken back, they are those of its
        migration.

        :param instance: nova.objects.Instance.
        :raises exception.ClaimFailed: Placement does not answer, or has
            allocated nothing of this host.
        """
        everywhere = self._ask(instance, instance.uuid)
        own = self._select_local(instance, everywhere)
        moves = _migrations(instance)
        has_failed = bool(moves) and not _has_ended_at(
            self._node.name, moves[0]
        )
        for migration in _candidates(
            instance, self._node.name, moves, has_own=bool(own)
        ):
            allocations = self._select_local(
                instance, self._ask(instance, migration.uuid)
            )
            if allocations:
                moved = dict.fromkeys(
                    self._slots(own) - self._slots(allocations), migration.uuid
                )
                return LocalAllocations(
                    allocations, migration, has_failed, moved
                )
        if everywhere and not own:
            raise exception.ClaimFailed(
                instance_uuid=instance.uuid,
                reason='Nova has recorded it on this host, but Placement has '
                'its allocations on another one. See "If the server is '
                'recorded on the wrong host" in the page on stuck servers',
            )
        return LocalAllocations(own, has_failed=has_failed)

    def _slots(self, allocations: Mapping[str, Any]) -> frozenset[int]:
        """Return the DRC indexes of the slots in allocations of this host."""
        providers = self._claims.published.providers
        return frozenset(
            providers[uuid].drc_index
            for uuid in allocations
            if uuid in providers
        )

    def _ask(self, instance: Any, consumer: str) -> Mapping[str, Any]:
        try:
            return self._placement.allocated_to(consumer)
        except exception.PlacementUnanswered as error:
            raise exception.ClaimFailed(
                instance_uuid=instance.uuid,
                reason=exception.PrivateText(
                    f'it is unknown which devices belong to it. {error}',
                    'it is unknown which devices belong to it. '
                    f'{error.summary}',
                ),
            ) from error

    def _select_local(
        self, instance: Any, allocations: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the allocations of this host among all of a consumer."""
        node, published = self._node, self._claims.published
        local = {node.uuid, *published.providers, *published.others.uuids}
        if not published.is_complete and node.uuid in allocations:
            local |= instance_records.stored_slots(instance.resources).keys()
            local |= instance_records.moved_providers(
                instance, node.name
            ).keys()
            if allocations.keys() - local:
                raise exception.ClaimFailed(
                    instance_uuid=instance.uuid,
                    reason='this host has not updated Placement since '
                    'nova-compute was started. Reboot the server hard again '
                    'in a minute; if it fails again, the log of nova-compute '
                    'says why',
                )
        return {
            uuid: record
            for uuid, record in allocations.items()
            if uuid in local
        }

    def bring_home(
        self,
        instance: Any,
        allocations: LocalAllocations,
        slots: Sequence[spec.WantedSlot],
    ) -> None:
        """Give an instance its migration's allocations, and record its slots.

        :param instance: nova.objects.Instance; it is saved.
        :param allocations: The result of :meth:`find`.
        :param slots: The slots that follow from the allocations.
        :raises exception.ClaimFailed: Placement refused.
        """
        migration = allocations.migration
        if migration is not None:
            LOG.warning(
                'Migration %(migration)s to host %(destination)s was '
                'interrupted and holds the allocations of the instance: '
                'giving them back.',
                {
                    'migration': migration.uuid,
                    'destination': migration.dest_compute,
                },
                instance=instance,
            )
            record_changes.take_allocations_home(
                self._virtapi.reportclient, instance, migration.uuid
            )
        resources = resources_of(instance, allocations.by_provider, slots)
        recorded = instance_records.stored_slots(instance.resources)
        if recorded.keys() != instance_records.stored_slots(resources).keys():
            record_changes.record_resources(instance, resources)


def _migrations(instance: Any) -> Sequence[Any]:
    """Return the migrations of an instance, the newest first.

    Leave out a migration for which Nova found no destination: it has changed
    nothing.
    """
    return sorted(
        (
            migration
            for migration in objects.MigrationList.get_by_filters(
                nova_context.get_admin_context(),
                {'instance_uuid': instance.uuid},
            )
            if migration.dest_compute is not None
        ),
        key=lambda migration: migration.id,
        reverse=True,
    )


def _has_ended_at(nodename: str, move: Any) -> bool:
    """Return whether a move has succeeded in bringing an instance to a host.

    When the old host of an evacuation starts, Nova calls the evacuation
    completed, even if it never ended.
    """
    is_back = move.status == 'reverted'
    end = move.source_compute if is_back else move.dest_compute
    return move.status in _SUCCEEDED and end == nodename


def _candidates(
    instance: Any, nodename: str, moves: Sequence[Any], *, has_own: bool
) -> Sequence[Any]:
    """Return the migrations whose allocations may be the instance's.

    An interrupted resize within the host may hold allocations although later
    resizes have failed: those hold none. The last move counts in any status:
    Nova calls it reverted before the instance has its allocations back.
    """
    if not has_own:
        return [move for move in moves if move.source_compute == nodename]
    return [
        move
        for move in _unsettled(instance, nodename, moves)
        if move.dest_compute == nodename
    ]


def _unsettled(
    instance: Any, nodename: str, moves: Sequence[Any]
) -> Iterator[Any]:
    """Yield the moves that may still hold allocations, the newest first.

    Stop at the first move that succeeded, or that began on another host or
    with another flavor: older moves no longer matter. Their status does not
    tell: if an administrator sets the state of a server, its moves stay
    finished for ever.
    """
    origin = (nodename, instance.instance_type_id)
    for move in moves:
        if (move.source_compute, move.old_instance_type_id) != origin:
            return
        yield move
        if move.status in _SUCCEEDED:
            return


def resources_of(
    instance: Any,
    allocations: Mapping[str, Mapping[str, Any]],
    slots: Sequence[spec.WantedSlot],
) -> Any:
    """Return Nova's record of the resources of an instance with these slots.

    :param instance: nova.objects.Instance.
    :param allocations: Its allocations on this host, by provider.
    :param slots: The slots that follow from them.
    :returns: nova.objects.ResourceList, which keeps resources that are no
        slots.
    """
    drc_indexes = {
        slot.claim.provider_uuid: slot.drc_index
        for slot in slots
        if slot.claim.source is claims.Source.COMPUTE
    }
    others = itertools.filterfalse(
        instance_records.is_slot, instance.resources or ()
    )
    resources = [
        contents.resource(uuid, resource_class, drc_indexes[uuid])
        for uuid, record in allocations.items()
        if uuid in drc_indexes
        for resource_class in record['resources']
    ]
    return objects.ResourceList(objects=[*others, *resources])

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

"""Providers of one compute node in Placement, as values."""

import dataclasses
import datetime
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers as existing
from nova_powervm.devices import slots
from nova_powervm.lpar import partition


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementProvider:
    """A resource provider with its inventory, traits and allocations.

    :param uuid: UUID in Placement.
    :param name: Name of the provider.
    :param parent_uuid: UUID of the parent; None for a root provider.
    :param generation: Generation, which a write has to give.
    :param inventory: Resource class to inventory record.
    :param traits: Names of the traits.
    :param consumers: Consumer UUID to its allocated amounts by resource class.
    :param written_at: When its inventory was written last, in UTC; None if
        Placement does not tell.
    """

    uuid: str
    name: str
    parent_uuid: str | None
    generation: int
    inventory: existing.Inventory = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    consumers: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )
    written_at: datetime.datetime | None = None

    def __str__(self) -> str:
        return f"provider '{self.name}' ({self.uuid})"

    @property
    def for_plan(self) -> existing.Provider:
        """The provider in the form that the planner takes."""
        return existing.Provider(
            self.uuid, self.name, self.inventory, self.traits
        )

    @property
    def drc_index(self) -> int | None:
        """DRC index in its name; None if it is not a slot provider's name."""
        return names.slot_of_provider(self.name)

    @property
    def used(self) -> int:
        """Allocated units of all classes."""
        return sum(
            amount
            for held in self.consumers.values()
            for amount in held.values()
        )

    @property
    def reserved(self) -> int:
        """Highest reserved value of its classes."""
        return self._highest('reserved')

    @property
    def total(self) -> int:
        """Highest total of its classes."""
        return self._highest('total')

    def _highest(self, key: str) -> int:
        values = (int(r.get(key, 0)) for r in self.inventory.values())
        return max(values, default=0)

    @property
    def one_time_use(self) -> bool:
        """Whether its device is a one-time-use device."""
        return os_traits.HW_PCI_ONE_TIME_USE in self.traits

    @property
    def needs_cleaning(self) -> bool:
        """Whether its device is burned and no longer allocated.

        One-time use specification: total 1, reserved 1, used 0.
        """
        return (
            self.one_time_use
            and self.total > 0
            and self.reserved >= self.total
            and not self.consumers
            and names.WITHDRAWN_TRAIT not in self.traits
            and not names.quarantine_traits(self.traits)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Moves:
    """Instances of which one side of a move is on this host.

    :param migrations: Consumer that is a migration to the upper-case uuid of
        the LPAR that moves.
    :param stale_lpars: Upper-case uuid of each LPAR that owns a slot, although
        its instance is on another node, to where that is.
    """

    migrations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stale_lpars: Mapping[str, existing.StaleLpar] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The providers of one compute node.

    :param node: Name of the node.
    :param root: Provider of the node, without its inventory and traits. Its
        consumers are the instances of the host.
    :param below: All providers below the root, direct children first.
    :param additions: Additions from Nova's provider configuration files, by
        provider UUID or name.
    :param moves: Moves from or to this node.
    """

    node: str
    root: PlacementProvider
    below: tuple[PlacementProvider, ...] = ()
    additions: Mapping[str, existing.Additions] = dataclasses.field(
        default_factory=dict
    )
    moves: Moves = Moves()

    @property
    def providers(self) -> tuple[existing.Provider, ...]:
        """All providers below the node, in the form that the plan takes.

        What Nova's provider.yaml adds is left out.
        """
        return tuple(
            dataclasses.replace(
                existing.remove_additions(each.for_plan, self.additions),
                is_direct=each.parent_uuid == self.root.uuid,
            )
            for each in self.below
        )

    @property
    def children(self) -> tuple[existing.Provider, ...]:
        """The direct children of the node's provider."""
        return tuple(p for p in self.providers if p.is_direct)

    @property
    def holdings(self) -> Mapping[str, frozenset[str]]:
        """Upper-case LPAR uuid to the providers that its instance holds.

        Placement alone tells: nova-compute asks Nova's records as well, and
        takes away what Placement does not confirm.
        """
        return {
            lpar_uuid: frozenset(
                each.uuid
                for each in self.below
                if self.is_held(each, lpar_uuid)
            )
            for lpar_uuid in (*self.instance_lpars, *self.moves.stale_lpars)
        }

    def is_held(self, provider: PlacementProvider, lpar_uuid: str) -> bool:
        """Return whether a provider is allocated to the instance of an LPAR.

        :param lpar_uuid: Upper-case uuid. While its instance moves,
            allocations of the migration count, too.
        """
        return any(self.lpar_of(c) == lpar_uuid for c in provider.consumers)

    def lpar_of(self, consumer: str) -> str:
        """Return the upper-case uuid of the LPAR of a consumer."""
        return self.moves.migrations.get(consumer) or partition.lpar_uuid(
            consumer
        )

    @property
    def slot_providers(self) -> tuple[PlacementProvider, ...]:
        """Direct children of the root that are named after slots."""
        return tuple(
            provider
            for provider in self.below
            if provider.parent_uuid == self.root.uuid
            and provider.drc_index is not None
        )

    @property
    def allocations(self) -> existing.Allocations:
        """Allocations and reservations of the providers below the root."""
        return existing.Allocations(
            {o.uuid: o.consumers for o in self.below},
            frozenset(
                o.uuid for o in self.below if self._is_reserved(o.for_plan)
            ),
        )

    def _is_reserved(self, provider: existing.Provider) -> bool:
        own = existing.remove_additions(provider, self.additions)
        return any(record.get('reserved') for record in own.inventory.values())

    @property
    def instance_lpars(self) -> Mapping[str, str]:
        """LPAR UUID in upper case to the consumer that owns the LPAR.

        All consumers of the tree count: an instance without devices has an
        allocation of the node itself. A migration stands for the LPAR that
        moves, unless its instance is here, too. Others have no LPAR.
        """
        consumers = {
            consumer
            for provider in (self.root, *self.below)
            for consumer in provider.consumers
        }
        moving = self.moves.migrations
        # The instance itself last, so that it takes precedence.
        order = sorted(consumers, key=lambda c: (c not in moving, c))
        return {self.lpar_of(c): c for c in order}

    def source(self, slot: slots.Slot) -> claims.Source | None:
        """Return whether Nova or Cyborg allocated a slot to its instance.

        :returns: None if no instance owns the slot, or if the slot is not
            allocated to the instance that owns it.
        """
        owner = slot.owner_lpar
        for provider in self.below:
            if (
                owner
                and self.is_held(provider, owner)
                and slot.drc_index
                in existing.slots_named_by(provider.name, provider.traits)
            ):
                if os_traits.OWNER_CYBORG in provider.traits:
                    return claims.Source.ACCELERATOR
                return claims.Source.COMPUTE
        return None

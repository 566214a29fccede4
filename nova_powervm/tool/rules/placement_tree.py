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

"""What Placement holds below one compute node, as values."""

import dataclasses
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import ownership
from nova_powervm.devices import slot_providers as existing
from nova_powervm.devices import slots
from nova_powervm.instance import partition


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementProvider:
    """One provider with all that Placement says of it.

    :param uuid: Placement's uuid of it.
    :param name: Its name.
    :param parent_uuid: The provider it stands below; None for a root.
    :param generation: Goes up with each change; a write has to name it.
    :param inventory: Resource class to inventory record.
    :param traits: Names of its traits.
    :param consumers: Consumer uuid to what it holds of the provider, by
        resource class.
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

    def __str__(self) -> str:
        return f"provider '{self.name}' ({self.uuid})"

    @property
    def for_plan(self) -> existing.Provider:
        """The same as the plan takes it."""
        return existing.Provider(
            uuid=self.uuid,
            name=self.name,
            inventory=self.inventory,
            traits=self.traits,
        )

    @property
    def drc_index(self) -> int | None:
        """The slot that its name stands for; None if it is not ours."""
        return names.slot_of_provider(self.name)

    @property
    def used(self) -> int:
        """Units of all classes that consumers hold."""
        return sum(
            amount
            for held in self.consumers.values()
            for amount in held.values()
        )

    @property
    def reserved(self) -> int:
        """The highest number of units reserved in any class."""
        return max(
            (int(r.get('reserved', 0)) for r in self.inventory.values()),
            default=0,
        )

    @property
    def total(self) -> int:
        """The highest number of units in any class."""
        return max(
            (int(r.get('total', 0)) for r in self.inventory.values()),
            default=0,
        )

    @property
    def one_time_use(self) -> bool:
        """Whether its device is kept back once it was used."""
        return os_traits.HW_PCI_ONE_TIME_USE in self.traits

    @property
    def needs_cleaning(self) -> bool:
        """Whether its device was used once and waits for its release.

        One-time use specification: total 1, reserved 1, used 0.
        """
        return (
            self.one_time_use
            and self.total > 0
            and self.reserved >= self.total
            and not self.consumers
            and names.WITHDRAWN_TRAIT not in self.traits
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The providers of one compute node.

    :param node: The node's name.
    :param root: The node's own provider. Its inventory and traits are left
        out; its consumers are the instances of the host.
    :param below: All providers below it, direct children first.
    :param additions: What Nova itself adds to providers, by uuid or name.
    """

    node: str
    root: PlacementProvider
    below: tuple[PlacementProvider, ...] = ()
    additions: Mapping[str, existing.Additions] = dataclasses.field(
        default_factory=dict
    )

    @property
    def children(self) -> tuple[existing.Provider, ...]:
        """The direct children of the node's provider, as the plan has them.

        What Nova adds by itself is left out.
        """
        return tuple(
            existing.without_additions(provider.for_plan, self.additions)
            for provider in self.below
            if provider.parent_uuid == self.root.uuid
        )

    @property
    def slot_providers(self) -> tuple[PlacementProvider, ...]:
        """The direct children whose names are those of slots."""
        return tuple(
            provider
            for provider in self.below
            if provider.parent_uuid == self.root.uuid
            and provider.drc_index is not None
        )

    @property
    def allocations(self) -> existing.Allocations:
        """Who holds each provider below the node."""
        return existing.Allocations(
            {o.uuid: o.consumers for o in self.below},
            frozenset(
                o.uuid for o in self.below if self._is_reserved(o.for_plan)
            ),
        )

    def _is_reserved(self, provider: existing.Provider) -> bool:
        own = existing.without_additions(provider, self.additions)
        return any(record.get('reserved') for record in own.inventory.values())

    @property
    def instance_lpars(self) -> Mapping[str, str]:
        """Upper-case LPAR uuid to the consumer that it is the LPAR of.

        Each consumer of this tree counts, so an instance without a device is
        known by what it holds of the node itself. A consumer can be a
        migration; there is no LPAR of such a uuid.
        """
        consumers = {
            consumer
            for provider in (self.root, *self.below)
            for consumer in provider.consumers
        }
        return {partition.lpar_uuid(c): c for c in sorted(consumers)}

    def source(self, slot: slots.Slot) -> claims.Source | None:
        """Say by whom the instance that holds a slot got it.

        :returns: None if no instance holds it, or if nobody allocated it to
            the one that does.
        """
        owner = slot.owner.uuid if slot.owner else None
        consumer = self.instance_lpars.get(owner or '')
        for provider in self.below:
            if (
                consumer in provider.consumers
                and slot.drc_index
                in ownership.slots_of_cyborg(provider.name, provider.traits)
            ):
                if os_traits.OWNER_CYBORG in provider.traits:
                    return claims.Source.ACCELERATOR
                return claims.Source.COMPUTE
        return None

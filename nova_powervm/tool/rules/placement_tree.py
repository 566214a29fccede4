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

"""What Placement tells of one compute node: its providers, and its moves.

While an instance moves, its allocations on the source belong to the migration,
and its LPAR there keeps its slots. Placement does not say what a consumer is:
Nova gives a migration the project and the user of its instance, and it has no
LPAR of its own.
"""

import dataclasses
import datetime
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers as existing
from nova_powervm.devices import slots
from nova_powervm.lpar import partition


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
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
    def named_slots(self) -> frozenset[int]:
        """DRC indexes of the slots that its name or its traits name."""
        return existing.slots_named_by(self.name, self.traits)

    @property
    def drc_hex(self) -> str:
        """DRC index in its name, as the user sees it."""
        return slots.format_drc_index(self.drc_index or 0)

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
    """What Placement tells of moves from or to this host.

    :param migrations: Consumer that is a migration to the upper-case uuid of
        the LPAR that moves.
    :param stale_lpars: Upper-case uuid of each stale LPAR that owns a slot,
        whose instance has moved to another host, to where that is.
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
    root: Provider
    below: tuple[Provider, ...] = ()
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

    def is_held(self, provider: Provider, lpar_uuid: str) -> bool:
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
    def slot_providers(self) -> tuple[Provider, ...]:
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
            {each.uuid: each.consumers for each in self.below},
            frozenset(
                provider.uuid
                for provider in self.providers
                if any(r.get('reserved') for r in provider.inventory.values())
            ),
        )

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
                and slot.drc_index in provider.named_slots
            ):
                if os_traits.OWNER_CYBORG in provider.traits:
                    return claims.Source.ACCELERATOR
                return claims.Source.COMPUTE
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of allocations.

    :param uuid: Its uuid.
    :param owner: Its project and user.
    :param providers: Uuids of the providers that it has allocations of.
    """

    uuid: str
    owner: tuple[str, str]
    providers: frozenset[str]


#: Reads a consumer from Placement; None if it has no allocations.
Read = Callable[[str], Consumer | None]


def find_moves(
    tree: Tree,
    io_slots: Collection[slots.Slot],
    read: Read,
    node_of: Callable[[str], str],
) -> Moves:
    """Find the moves of the LPARs that own slots.

    Placement is asked only about LPARs that own a slot which is not allocated
    to their instances.
    """
    migrations: dict[str, str] = {}
    stale_lpars: dict[str, existing.StaleLpar] = {}
    lpar_uuids = {slot.owner_lpar for slot in io_slots}
    for lpar_uuid, holders in _find_others(tree, io_slots).items():
        instance = _read_instance(tree, lpar_uuid, read)
        if instance is None:
            continue
        its_migrations = {
            holder: lpar_uuid
            for holder in sorted(holders)
            if partition.lpar_uuid(holder) not in lpar_uuids
            and (consumer := read(holder))
            and consumer.owner == instance.owner
        }
        migrations |= its_migrations
        if not its_migrations and lpar_uuid not in tree.instance_lpars:
            stale_lpars[lpar_uuid] = existing.StaleLpar(
                instance.uuid, node_of(min(instance.providers))
            )
    return Moves(migrations, stale_lpars)


def _find_others(
    tree: Tree, io_slots: Iterable[slots.Slot]
) -> Mapping[str, frozenset[str]]:
    """Find the LPARs that own slots without an allocation of their instances.

    :returns: Upper-case uuid of the LPAR to the consumers of its slots.
    """
    others: dict[str, frozenset[str]] = {}
    for slot in io_slots:
        lpar_uuid = slot.owner_lpar
        if (
            lpar_uuid
            and slot.owner
            and slot.owner.kind is slots.PartitionKind.CLIENT
        ):
            holders = frozenset(_holders(tree, slot.drc_index))
            if lpar_uuid not in map(partition.lpar_uuid, holders):
                holders |= others.get(lpar_uuid, frozenset())
                others[lpar_uuid] = holders
    return others


def _holders(tree: Tree, index: int) -> Iterator[str]:
    """Yield the consumers of the providers of a slot, whoever made them."""
    for provider in tree.below:
        if index in provider.named_slots:
            yield from provider.consumers


def _read_instance(tree: Tree, lpar_uuid: str, read: Read) -> Consumer | None:
    """Read the consumer that an LPAR of any host belongs to."""
    known = tree.instance_lpars.get(lpar_uuid)
    candidates = (known,) if known else partition.instance_uuids(lpar_uuid)
    answers = map(read, candidates)
    return next((answer for answer in answers if answer), None)

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

"""The existing providers: their devices, and who else has their slots.

A plan is based on what Placement has for each provider, and on the device that
it belongs to. A slot that Cyborg also manages, and a slot that an instance has
without an allocation, are not offered: the scheduler would allocate them
twice. Neither is a slot of a stale LPAR, whose instance has moved to another
host.
"""

import dataclasses
import re
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import os_traits

from nova_powervm.devices import card_ids
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import slots

#: One unit; step, minimum and maximum are 1 (specification, "Inventory").
TOTAL = 1

Inventory = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A provider below the compute node's provider, as in Nova's tree.

    :param uuid: Its uuid in Placement.
    :param name: Its name.
    :param inventory: Resource class to inventory record.
    :param traits: Names of its traits.
    :param is_direct: Whether it is a direct child of the compute node's
        provider.
    """

    uuid: str
    name: str
    inventory: Inventory = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    is_direct: bool = True

    @property
    def is_owned_by_cyborg(self) -> bool:
        """Whether Cyborg owns it."""
        return os_traits.OWNER_CYBORG in self.traits

    @property
    def is_one_time_use(self) -> bool:
        """Whether its device is, or was, a one-time-use device."""
        return names.ONE_TIME_USE_TRAIT in self.traits

    @property
    def quarantine(self) -> frozenset[str]:
        """Its traits that a quarantine has set."""
        return names.quarantine_traits(self.traits)

    @property
    def is_withdrawn(self) -> bool:
        """Whether the driver set the reserve, and may lower it."""
        return (
            names.WITHDRAWN_TRAIT in self.traits and not self.is_one_time_use
        )

    @property
    def reserved(self) -> int:
        """The reserved units; 0 if the driver itself reserved them.

        In quarantine all units count as reserved, even if Placement has lost
        the reserve.
        """
        if self.quarantine:
            return TOTAL
        if self.is_withdrawn:
            return 0
        records = self.inventory.values()
        units = (int(record.get('reserved', 0)) for record in records)
        return min(TOTAL, max(units, default=0))

    @property
    def is_frozen(self) -> bool:
        """Whether its ids and its class stay as they were at the burn.

        A provider without ids gets the ids of the card in its slot.
        """
        return bool(self.reserved and card_ids.select_traits(self.traits))

    def other_classes(self, resource_class: str) -> tuple[str, ...]:
        """Return the classes of its inventory, except for one."""
        return tuple(rc for rc in self.inventory if rc != resource_class)


def mark_replaced(
    providers: Iterable[Provider], io_slots: Collection[slots.Slot]
) -> tuple[Provider, ...]:
    """Put providers into quarantine if their slots show other cards.

    The ids differ until an operator accepts the card. So one update can both
    mark and reserve a provider: a mark that is lost on the way is set again.

    :param providers: Direct children of the compute node's provider.
    :param io_slots: All slots of the host.
    """
    reported = slots.by_index(io_slots)
    return tuple(
        dataclasses.replace(
            provider, traits=provider.traits | names.REPLACED_TRAITS
        )
        if (slot := reported.get(names.slot_of_provider(provider.name) or -1))
        and card_ids.find_changes(provider.traits, slot)
        else provider
        for provider in providers
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Additions:
    """What Nova adds to a provider after the driver, from provider.yaml.

    :param classes: Resource classes of the added inventory.
    :param traits: The added traits. Traits that the driver sets are ignored.
    """

    classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def remove_from(self, provider: Provider) -> Provider:
        """Return a provider without these additions."""
        return dataclasses.replace(
            provider,
            inventory={
                name: record
                for name, record in provider.inventory.items()
                if name not in self.classes
            },
            traits=provider.traits
            - {t for t in self.traits if not names.is_driver_trait(t)},
        )


def remove_additions(
    provider: Provider, additions: Mapping[str, Additions]
) -> Provider:
    """Return a provider without the additions of provider.yaml.

    :param provider: As Placement has it.
    :param additions: Uuid or name of a provider to its additions.
    """
    for key in (provider.uuid, provider.name):
        if key in additions:
            provider = additions[key].remove_from(provider)
    return provider


class Allocations:
    """Placement's current answers about the providers of interest.

    :param consumers: Provider uuid to its consumers, each with the allocated
        classes, for each provider that Placement answered for. A provider
        without an answer counts as allocated, in all its classes: doubt never
        leads to deletion.
    :param reserved: Uuids of the providers with reserved units: Nova's copy of
        a provider may be minutes old.
    """

    def __init__(
        self,
        consumers: Mapping[str, Mapping[str, Collection[str]]],
        reserved: Collection[str] = (),
    ) -> None:
        self._consumers = consumers
        self._reserved = frozenset(reserved)

    def consumers_of(self, provider: Provider) -> tuple[str, ...]:
        """Return the known consumers of a provider."""
        return tuple(sorted(self._consumers.get(provider.uuid, ())))

    def classes(self, provider: Provider) -> frozenset[str]:
        """Return the classes that are, or may be, allocated."""
        consumers = self._consumers.get(provider.uuid)
        if consumers is None:
            return frozenset(provider.inventory)
        return frozenset().union(*consumers.values())

    def is_free(self, provider: Provider) -> bool:
        """Return whether Placement has no allocation of the provider."""
        consumers = self._consumers.get(provider.uuid)
        return consumers is not None and not consumers

    def in_use(self, provider: Provider) -> bool:
        """Return whether it is or may be allocated, or is reserved."""
        return not self.is_free(provider) or self.is_reserved(provider)

    def is_reserved(self, provider: Provider) -> bool:
        """Return whether it is reserved and the driver did not withdraw it."""
        return bool(provider.reserved) or (
            provider.uuid in self._reserved and not provider.is_withdrawn
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Pairing:
    """Devices and existing providers, matched by DRC index.

    :param offered: Each offered device with its provider, or None.
    :param orphans: The driver's own providers without an offered device.
    """

    offered: tuple[tuple[matching.Device, Provider | None], ...]
    orphans: tuple[Provider, ...]

    @property
    def undecided(self) -> tuple[Provider, ...]:
        """The providers for which the plan depends on their allocations."""
        reclassed = tuple(
            provider
            for device, provider in self.offered
            if provider and provider.other_classes(device.resource_class)
        )
        return self.orphans + reclassed

    @property
    def one_time_use(self) -> tuple[Provider, ...]:
        """The providers of current and former one-time-use devices."""
        flagged = tuple(
            provider
            for device, provider in self.offered
            if provider and (device.one_time_use or provider.is_one_time_use)
        )
        return flagged + tuple(p for p in self.orphans if p.is_one_time_use)


def pair(
    devices: Iterable[matching.Device], providers: Iterable[Provider]
) -> Pairing:
    """Find the provider of each device; the rest of ours are orphans.

    :param devices: The offered devices.
    :param providers: The direct children of the compute node's provider;
        providers that are not the driver's own are ignored.
    """
    by_slot: dict[int, Provider] = {}
    spare: list[Provider] = []
    # A provider with the specification's short name, left by an earlier
    # process, is used as it is; if a slot has two, the longer name wins.
    for provider in sorted(providers, key=lambda p: (-len(p.name), p.uuid)):
        index = names.slot_of_provider(provider.name)
        if index is None:
            continue
        if index in by_slot:
            spare.append(provider)
        else:
            by_slot[index] = provider
    offered = tuple((d, by_slot.pop(d.slot.drc_index, None)) for d in devices)
    return Pairing(offered, (*by_slot.values(), *spare))


#: Codes of the reasons for withholding a slot.
CYBORG = 'cyborg'
HELD = 'held'


@dataclasses.dataclass(frozen=True, slots=True)
class StaleLpar:
    """A stale LPAR: its instance has moved to another host.

    :param instance_uuid: Uuid of the instance.
    :param host: The host that the instance is on now.
    :param is_doubtful: Whether a live migration whose end is unknown may have
        brought it: it may be the only LPAR of its instance.
    """

    instance_uuid: str
    host: str
    is_doubtful: bool = False


_SLOT_TRAIT = re.compile(r'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_([0-9A-F]{8})')


def slots_named_by(name: str, traits: Iterable[str]) -> frozenset[int]:
    """Find the slots that a provider names, by its name or its traits.

    :param name: Its name. A name in the driver's own form contains the slot.
    :param traits: Its traits. ``CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020``
        also names a slot.
    :returns: DRC indexes; empty if neither names a slot.
    """
    matches = map(_SLOT_TRAIT.fullmatch, traits)
    by_traits = {int(match.group(1), 16) for match in matches if match}
    by_name = names.slot_of_provider(name)
    return frozenset(by_traits if by_name is None else by_traits | {by_name})


def cyborg_slots(providers: Iterable[Provider]) -> dict[int, str]:
    """Find the slots that Cyborg manages.

    :param providers: The providers that Cyborg owns.
    :returns: DRC index to the name of Cyborg's provider.
    """
    return {
        index: provider.name
        for provider in providers
        for index in slots_named_by(provider.name, provider.traits)
    }


def withhold(
    verdicts: Iterable[matching.Verdict],
    cyborgs: Mapping[int, str],
    unallocated: Mapping[int, str],
    source: str,
) -> tuple[matching.Verdict, ...]:
    """Withhold slots of other owners, although file and host allow them.

    :param verdicts: The decisions from file and host alone.
    :param cyborgs: DRC index to the name of Cyborg's provider.
    :param unallocated: See :func:`find_unallocated`.
    :param source: The name of the inventory file in messages.
    """
    return tuple(
        dataclasses.replace(verdict, reason=reason)
        if verdict.offered
        and (reason := _reason(verdict, cyborgs, unallocated, source))
        else verdict
        for verdict in verdicts
    )


def _reason(
    verdict: matching.Verdict,
    cyborgs: Mapping[int, str],
    unallocated: Mapping[int, str],
    source: str,
) -> slots.Reason | None:
    index = verdict.slot.drc_index
    if index in cyborgs:
        return slots.Reason(
            CYBORG,
            f'{verdict.paragraphs[0]} of {source} gives it to Nova, but '
            f"Cyborg manages it, too (provider '{cyborgs[index]}'). Remove "
            "it from the file or from Cyborg's configuration",
        )
    if index in unallocated:
        return slots.Reason(HELD, unallocated[index])
    return None


def find_unallocated(
    host_slots: Iterable[slots.Slot],
    providers: Iterable[Provider],
    holdings: Mapping[str, Collection[str]],
    stale_lpars: Mapping[str, StaleLpar],
) -> dict[int, str]:
    """Find the slots that instances have without an allocation.

    :param host_slots: All slots of the host.
    :param providers: Direct children of the compute node's provider.
    :param holdings: Upper-case uuid of each LPAR of an instance to the
        providers whose resources Nova stored with the instance.
    :param stale_lpars: Upper-case uuid of each stale LPAR to where its
        instance is.
    :returns: DRC index to the reason, in words.
    """
    by_slot = _by_slot(providers)
    return {
        slot.drc_index: _describe(slot, stale_lpars.get(lpar_uuid))
        for slot, lpar_uuid in _slots_with_lpars(host_slots, holdings)
        if by_slot.get(slot.drc_index, set()).isdisjoint(holdings[lpar_uuid])
    }


def _describe(slot: slots.Slot, stale: StaleLpar | None) -> str:
    """Say why a slot that an LPAR of an instance owns is not offered."""
    if stale:
        return (
            f'{slot.owner} owns it, but its instance {stale.instance_uuid} is '
            f'on host {stale.host}. Check that the server is well there, '
            'then delete the partition with pvmctl, but not its disks'
        )
    return (
        f'{slot.owner} owns it, but its instance has no allocation for it. '
        'Delete the instance, or remove the slot from the partition with '
        'pvmctl'
    )


def find_owned_slots(
    host_slots: Iterable[slots.Slot], lpar_uuids: Collection[str]
) -> frozenset[int]:
    """Return the DRC indexes of the slots that LPARs of instances own.

    :param host_slots: All slots of the host.
    :param lpar_uuids: Upper-case uuids of the LPARs of instances.
    """
    return frozenset(
        slot.drc_index for slot in host_slots if slot.owner_lpar in lpar_uuids
    )


def _by_slot(providers: Iterable[Provider]) -> dict[int, set[str]]:
    by_slot: dict[int, set[str]] = {}
    for provider in providers:
        index = names.slot_of_provider(provider.name)
        if index is not None:
            by_slot.setdefault(index, set()).add(provider.uuid)
    return by_slot


def _slots_with_lpars(
    host_slots: Iterable[slots.Slot], holdings: Mapping[str, object]
) -> Iterator[tuple[slots.Slot, str]]:
    """Yield the slots that LPARs of instances own, each with its LPAR."""
    for slot in host_slots:
        if slot.owner_lpar in holdings:
            yield slot, slot.owner_lpar

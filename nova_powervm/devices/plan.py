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

"""The plan: what happens to each slot provider of a compute node, and why.

nova-compute and ``nova-powervm-inventory`` collect the same facts in different
ways and use the same two functions to decide: :func:`assess`, which says what
is offered and what Placement must be asked, and with the answers
:func:`make_plan`. The service applies the plan to Nova's provider tree; the
log and the operator's commands print it.
"""

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import card_ids
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import one_time_use
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

#: Code of the reason for withholding a slot whose card is in doubt.
UNREPORTED = 'unreported'


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the plan for one compute node depends on.

    :param policy: What the inventory file allows.
    :param io_slots: All I/O slots of the host, with their owners.
    :param holdings: Upper-case uuid of each LPAR that belongs to an instance
        to the uuids of the providers that the instance was allocated. None if
        it is unknown which LPARs belong to instances.
    :param descendants: All providers below the compute node's provider,
        without what Nova's provider.yaml adds to them.
    :param lost: Uuids of providers without an allocation whose slots are owned
        by LPARs of instances.
    :param stale_lpars: Upper-case uuid of each stale LPAR, among those in
        ``holdings``, to where its instance is.
    :param publishes_locations: Whether providers have traits for the location
        codes of their slots.
    """

    policy: policies.Policy
    io_slots: tuple[slots.Slot, ...] = ()
    holdings: Mapping[str, Collection[str]] | None = None
    descendants: tuple[slot_providers.Provider, ...] = ()
    lost: frozenset[str] = frozenset()
    stale_lpars: Mapping[str, slot_providers.StaleLpar] = dataclasses.field(
        default_factory=dict
    )
    publishes_locations: bool = True

    @property
    def candidates(self) -> tuple[slot_providers.Provider, ...]:
        """The direct children, except those that Cyborg owns."""
        return tuple(
            provider
            for provider in self.descendants
            if provider.is_direct and not provider.is_owned_by_cyborg
        )

    @property
    def allocated(self) -> Mapping[str, frozenset[str]]:
        """``holdings`` without lost allocations."""
        return {
            lpar_uuid: frozenset(uuids) - self.lost
            for lpar_uuid, uuids in (self.holdings or {}).items()
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Assessment:
    """What the facts mean for each slot and provider.

    :param facts: The facts that were assessed.
    :param verdicts: One for each slot, with the reason if it is not offered.
    :param pairing: The offered devices with their providers, and orphans.
    :param held: DRC indexes of the slots that are owned by LPARs of instances.
    """

    facts: Facts
    verdicts: tuple[matching.Verdict, ...]
    pairing: slot_providers.Pairing
    held: frozenset[int]

    @property
    def questions(self) -> tuple[slot_providers.Provider, ...]:
        """The providers for which the plan depends on their allocations."""
        return self.pairing.undecided

    @property
    def to_refresh(self) -> tuple[slot_providers.Provider, ...]:
        """The providers that must be current before a plan is made.

        Nova deletes a provider without checking whether it has changed, and an
        update must not overwrite a burn or a release.
        """
        return self.pairing.one_time_use + self.questions


def assess(facts: Facts) -> Assessment:
    """Decide which slots are offered, and find the provider of each.

    :param facts: The facts about the file, the host, Placement and Nova.
    """
    candidates = slot_providers.mark_replaced(facts.candidates, facts.io_slots)
    verdicts = slot_providers.withhold(
        matching.judge(facts.policy, facts.io_slots, facts.holdings),
        slot_providers.cyborg_slots(
            provider
            for provider in facts.descendants
            if provider.is_owned_by_cyborg
        ),
        slot_providers.find_unallocated(
            facts.io_slots, candidates, facts.allocated, facts.stale_lpars
        ),
        str(facts.policy.source),
    )
    traits = _traits_by_slot(candidates)
    verdicts = tuple(
        _withhold_unreported(verdict, traits.get(verdict.slot.drc_index, ()))
        for verdict in verdicts
    )
    return Assessment(
        facts=facts,
        verdicts=verdicts,
        pairing=slot_providers.pair(matching.devices(verdicts), candidates),
        held=slot_providers.find_owned_slots(
            facts.io_slots, facts.holdings or ()
        ),
    )


def believe_placement(
    assessment: Assessment,
    allocations: slot_providers.Allocations,
    lpar_of: Callable[[str], str],
) -> Assessment:
    """Assess anew if Placement has allocated to LPARs what Nova lacks.

    Nova's record of the devices of an instance is out of date if nova-compute
    was killed in an unshelve: the instance has what Placement says. Stale
    LPARs are left out, as their instances have their devices elsewhere.

    :param assessment: The assessment by Nova's record.
    :param allocations: Placement's answers to ``assessment.questions``.
    :param lpar_of: Returns the LPAR of an instance; both by uuid.
    """
    facts = assessment.facts
    recorded = {
        lpar_uuid: frozenset(uuids)
        for lpar_uuid, uuids in (facts.holdings or {}).items()
    }
    holdings = dict(recorded)
    for provider in assessment.questions:
        for lpar_uuid in map(lpar_of, allocations.consumers_of(provider)):
            if lpar_uuid in holdings.keys() - facts.stale_lpars:
                holdings[lpar_uuid] |= {provider.uuid}
    if holdings == recorded:
        return assessment
    return assess(dataclasses.replace(facts, holdings=holdings))


def _traits_by_slot(
    providers: Iterable[slot_providers.Provider],
) -> dict[int | None, list[frozenset[str]]]:
    """Return the traits of each provider of a slot, by DRC index."""
    by_slot: dict[int | None, list[frozenset[str]]] = {}
    for provider in providers:
        index = names.slot_of_provider(provider.name)
        by_slot.setdefault(index, []).append(provider.traits)
    return by_slot


def _withhold_unreported(
    verdict: matching.Verdict, provider_traits: Iterable[frozenset[str]]
) -> matching.Verdict:
    """Withhold a slot if the host no longer reports known ids of its card.

    Whether the card was replaced cannot be told. The slot is offered again
    when the host reports the same ids, at the same place.

    :param verdict: The decision so far.
    :param provider_traits: The traits of each provider of the slot.
    """
    if verdict.reason and verdict.reason.code != matching.UNMATCHED:
        return verdict
    for traits in provider_traits:
        if card_ids.find_changes(traits, verdict.slot):
            continue
        if missing := card_ids.find_unreported(traits, verdict.slot):
            text = f'the host no longer reports {missing} of its card'
            reason = slots.Reason(UNREPORTED, text)
            return dataclasses.replace(verdict, reason=reason)
    return verdict


_SPARE = slots.Reason('spare', 'another provider stands for its slot')
_DUPLICATE = slots.Reason(
    'duplicate', 'another provider of its slot is in use'
)


class Action(enum.StrEnum):
    """What is done with one provider."""

    CREATE = 'create'
    PUBLISH = 'publish'
    KEEP_CLASS = 'keep-class'
    QUARANTINE = 'quarantine'
    WITHDRAW = 'withdraw'
    DELETE = 'delete'


class State(enum.StrEnum):
    """The state of a device, in an operator's words: for log and metrics."""

    OFFERED = 'offered'
    #: Allocated, but no LPAR owns the slot yet; only commands ask for it.
    ALLOCATED = 'allocated'
    #: An LPAR of an instance owns the slot.
    ATTACHED = 'attached'
    #: A one-time-use device that has to be cleaned and released.
    BURNED = 'burned'
    #: Not offered any more, but still allocated or reserved.
    WITHDRAWN = 'withdrawn'
    QUARANTINED = 'quarantined'
    #: The provider is deleted.
    REMOVED = 'removed'
    #: The slot has no provider.
    FOREIGN = 'foreign'


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What happens to one provider, and why.

    :param action: What is done.
    :param drc_index: The slot it stands for.
    :param name: The provider's name.
    :param uuid: Its uuid; None if it is to be created.
    :param inventory: Its inventory afterwards.
    :param traits: Its traits afterwards.
    :param reason: The reason in words, or empty.
    :param consumers: Uuids of the known consumers of its allocations.
    :param replacement: How the card in the slot differs from the one that the
        provider was made for, in words; or empty.
    :param owner: The LPAR of an instance that owns the slot, in words; or
        empty.
    """

    action: Action
    drc_index: int
    name: str
    uuid: str | None
    inventory: slot_providers.Inventory = dataclasses.field(
        default_factory=dict
    )
    traits: frozenset[str] = frozenset()
    reason: str = ''
    consumers: tuple[str, ...] = ()
    replacement: str = ''
    owner: str = ''

    @property
    def state(self) -> State:
        """The state of the device, as far as the plan can tell."""
        if self.action is Action.QUARANTINE:
            return State.QUARANTINED
        if self.action is Action.DELETE:
            return State.REMOVED
        if self.owner and self.action is not Action.WITHDRAW:
            return State.ATTACHED
        if self.burned:
            return State.BURNED
        if self.action is Action.WITHDRAW or self.reserved:
            return State.WITHDRAWN
        return State.OFFERED

    @property
    def reserved(self) -> bool:
        """Whether no unit of its inventory is left for instances."""
        return any(record['reserved'] for record in self.inventory.values())

    @property
    def burned(self) -> bool:
        """Whether its one-time-use device is burned and not yet released."""
        return names.ONE_TIME_USE_TRAIT in self.traits and self.reserved

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The resource classes of its inventory afterwards."""
        return tuple(sorted(self.inventory))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Everything that happens to the slot providers of one compute node.

    :param entries: One for each provider that exists or is to be created.
    :param verdicts: One for each slot of the host, with the reason if it is
        not offered.
    """

    entries: tuple[Entry, ...] = ()
    verdicts: tuple[matching.Verdict, ...] = ()

    def entries_with(self, *actions: Action) -> tuple[Entry, ...]:
        """Return the entries with one of these actions."""
        return tuple(e for e in self.entries if e.action in actions)

    @property
    def contested(self) -> frozenset[int]:
        """DRC indexes of the slots that the file offers and Cyborg manages."""
        return frozenset(
            verdict.slot.drc_index
            for verdict in self.verdicts
            if verdict.reason and verdict.reason.code == slot_providers.CYBORG
        )

    @property
    def in_use_by_both(self) -> tuple[Entry, ...]:
        """Entries of slots that Nova allocated and Cyborg manages."""
        contested = self.contested
        return tuple(
            entry
            for entry in self.entries
            if entry.drc_index in contested and entry.consumers
        )

    @property
    def one_time_use(self) -> frozenset[int]:
        """DRC indexes of current and former one-time-use devices."""
        return frozenset(
            entry.drc_index
            for entry in self.entries
            if names.ONE_TIME_USE_TRAIT in entry.traits
        )


def make_plan(
    assessment: Assessment,
    allocations: slot_providers.Allocations,
    name_of: Callable[[int], str],
) -> Plan:
    """Decide what happens to each slot provider.

    A device is burned just before an LPAR gets it, not by a plan. A plan burns
    only devices that LPARs already own, to repair a missing burn.

    :param assessment: The assessment of the facts.
    :param allocations: Placement's answers to ``assessment.questions``.
    :param name_of: Returns the name of a new provider for a DRC index.
    """
    pairing, verdicts = assessment.pairing, assessment.verdicts
    used = one_time_use.find_used(
        one_time_use.find_devices(verdicts),
        assessment.held,
        pairing.orphans,
        allocations,
    )
    in_use = one_time_use.slots_where(pairing.orphans, allocations.in_use)
    published = (
        _publish_or_withdraw(
            device, provider, allocations, name_of, used, in_use
        )
        for device, provider in pairing.offered
    )
    paired = {d.slot.drc_index: p for d, p in pairing.offered if p}
    reasons = {v.slot.drc_index: v.reason for v in verdicts if v.reason}
    reasons |= dict.fromkeys(paired, _SPARE)
    removed = (
        _remove(provider, allocations, reasons, used)
        for provider in pairing.orphans
    )
    existing = {p.uuid: p for p in (*pairing.orphans, *paired.values())}
    reported = slots.by_index(assessment.facts.io_slots)
    return Plan(
        tuple(
            _decide_marks(
                entry,
                existing.get(entry.uuid or ''),
                reported.get(entry.drc_index),
                assessment,
            )
            for entry in (*published, *removed)
        ),
        verdicts,
    )


def _decide_marks(
    entry: Entry,
    provider: slot_providers.Provider | None,
    slot: slots.Slot | None,
    assessment: Assessment,
) -> Entry:
    """Decide what does not depend on the action of an entry."""
    described = _describe_slot(
        entry, provider, slot, is_held=entry.drc_index in assessment.held
    )
    return _decide_location(
        _keep_in_quarantine(described, provider),
        slot,
        is_published=assessment.facts.publishes_locations,
    )


def _describe_slot(
    entry: Entry,
    provider: slot_providers.Provider | None,
    slot: slots.Slot | None,
    *,
    is_held: bool,
) -> Entry:
    """Add the slot's owner, and how its card differs, for the operator.

    A provider without the ids and the place of its card gets them, whether the
    slot is offered or not: they tell a later change.
    """
    if slot is None:
        return entry
    traits = entry.traits
    if card_ids.is_unknown(traits, slot):
        present = names.generated_traits(slot)
        traits |= card_ids.select_traits(present)
        traits |= card_ids.select_place(present)
    changes = card_ids.find_changes(provider.traits, slot) if provider else ''
    owner = str(slot.owner) if is_held else ''
    return dataclasses.replace(
        entry, owner=owner, replacement=changes, traits=traits
    )


def _keep_in_quarantine(
    entry: Entry, provider: slot_providers.Provider | None
) -> Entry:
    """Keep a quarantine until an operator ends it.

    Neither a change of the file nor of the slot ends it.
    """
    if not provider or not provider.quarantine:
        return entry
    why = names.quarantine_reason(provider.quarantine)
    return dataclasses.replace(
        entry,
        action=Action.QUARANTINE,
        traits=(entry.traits | provider.quarantine) - {names.WITHDRAWN_TRAIT},
        reason='; '.join(filter(None, (why, entry.replacement, entry.reason))),
    )


def _decide_location(
    entry: Entry, slot: slots.Slot | None, *, is_published: bool
) -> Entry:
    """Add the trait for the location of a slot, or leave it out.

    Only a location that can be put back is left out: a provider keeps that of
    a slot that is now elsewhere, or gone.
    """
    if slot is None or entry.action is Action.DELETE:
        return entry
    place = card_ids.select_place(names.generated_traits(slot))
    if not is_published:
        return dataclasses.replace(entry, traits=entry.traits - place)
    if card_ids.select_place(entry.traits):
        return entry
    return dataclasses.replace(entry, traits=entry.traits | place)


def _publish_or_withdraw(
    device: matching.Device,
    provider: slot_providers.Provider | None,
    allocations: slot_providers.Allocations,
    name_of: Callable[[int], str],
    used: Collection[int],
    in_use: Collection[int],
) -> Entry:
    """Publish a device, unless another provider of its slot is in use.

    A slot with two providers must not be allocated twice.
    """
    index = device.slot.drc_index
    if provider is None or index not in in_use:
        return _publish(device, provider, allocations, name_of, used)
    provider = one_time_use.drop_stale_trait(device, provider)
    return _withdraw(provider, index, _DUPLICATE, (), used)


def _publish(
    device: matching.Device,
    provider: slot_providers.Provider | None,
    allocations: slot_providers.Allocations,
    name_of: Callable[[int], str],
    used: Collection[int],
) -> Entry:
    index = device.slot.drc_index
    burned = slot_providers.TOTAL if index in used else 0
    if provider is None:
        return Entry(
            action=Action.CREATE,
            drc_index=index,
            name=name_of(index),
            uuid=None,
            inventory={device.resource_class: _record(burned)},
            traits=device.traits,
        )
    record = _record(burned or provider.reserved)
    entry = Entry(
        action=Action.PUBLISH,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={device.resource_class: record},
        traits=_choose_traits(device, provider),
    )
    other_classes = provider.other_classes(device.resource_class)
    if allocations.classes(provider).intersection(other_classes):
        return _keep_classes(entry, provider, allocations)
    return _freeze_classes(entry, provider) if provider.is_frozen else entry


def _choose_traits(
    device: matching.Device, provider: slot_providers.Provider
) -> frozenset[str]:
    """Return the traits of a device, with the ids that a burn has frozen."""
    traits = device.traits | one_time_use.kept_trait(provider)
    if not provider.is_frozen:
        return traits
    return (traits - card_ids.select_traits(traits)) | card_ids.select_traits(
        provider.traits
    )


def _freeze_classes(entry: Entry, provider: slot_providers.Provider) -> Entry:
    """Keep the classes of a provider as long as it is reserved.

    Otherwise a device that was burned in one class could be released into
    another.
    """
    ((new, record),) = entry.inventory.items()
    if provider.inventory.keys() <= {new}:
        return entry
    old = ', '.join(sorted(provider.inventory))
    return dataclasses.replace(
        entry,
        inventory={
            name: _with_reserved(old_record, record['reserved'])
            for name, old_record in provider.inventory.items()
        },
        reason=f'its resource class stays {old} while it is reserved; it '
        f'becomes {new} when it is released',
    )


def _keep_classes(
    entry: Entry,
    provider: slot_providers.Provider,
    allocations: slot_providers.Allocations,
) -> Entry:
    """Keep the allocated classes of a provider, and offer no other.

    Placement would refuse to remove them, and another class would offer the
    slot a second time.
    """
    ((new, record),) = entry.inventory.items()
    classes = allocations.classes(provider) & provider.inventory.keys()
    old = ', '.join(sorted(classes - {new}))
    return dataclasses.replace(
        entry,
        action=Action.KEEP_CLASS,
        inventory={
            name: _with_reserved(provider.inventory[name], record['reserved'])
            for name in sorted(classes)
        },
        reason=f'its resource class stays {old} while it is allocated; it '
        f'becomes {new} when it is free',
        consumers=allocations.consumers_of(provider),
    )


def _remove(
    provider: slot_providers.Provider,
    allocations: slot_providers.Allocations,
    reasons: Mapping[int, slots.Reason],
    used: Collection[int],
) -> Entry:
    index = names.slot_of_provider(provider.name) or 0
    reason = reasons.get(index) or slots.Reason(
        'gone', 'the host no longer reports the slot'
    )
    consumers = allocations.consumers_of(provider)
    if allocations.is_reserved(provider):
        # The reserve records that the device was taken out of use.
        why = (
            'its device was used once'
            if provider.is_one_time_use
            else 'an operator has reserved it'
        )
        if not provider.quarantine:
            reason = slots.Reason('reserved', f'{reason}, but {why}')
        entry = _withdraw(provider, index, reason, consumers, used)
        # Nova's copy may not have this reserve yet; the driver did not set it.
        return dataclasses.replace(
            entry, traits=entry.traits - {names.WITHDRAWN_TRAIT}
        )
    if allocations.is_free(provider) and index not in used:
        if reason.code == UNREPORTED:
            return _offer_nothing(provider, index, reason)
        return Entry(
            action=Action.DELETE,
            drc_index=index,
            name=provider.name,
            uuid=provider.uuid,
            reason=reason.text,
        )
    return _withdraw(provider, index, reason, consumers, used)


def _offer_nothing(
    provider: slot_providers.Provider, index: int, reason: slots.Reason
) -> Entry:
    """Take the inventory of a free provider away, and keep its traits.

    A provider that is created anew would not tell which card it was for. A
    reserve would burn a one-time-use device.
    """
    return Entry(
        action=Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        traits=provider.traits - {names.WITHDRAWN_TRAIT},
        reason=reason.text,
    )


def _withdraw(
    provider: slot_providers.Provider,
    index: int,
    reason: slots.Reason,
    consumers: tuple[str, ...],
    used: Collection[int],
) -> Entry:
    """Prevent new allocations of a provider, in a way that can be undone.

    Nova writes inventory before traits. So one update adds the trait, and the
    inventory is reserved when a later update finds the trait: a reserve
    without the trait would count as the operator's and withhold the device for
    good. For a one-time-use device every reserve is a burn, so it is reserved
    only if an LPAR owns its slot.
    """
    withdrawn = {names.WITHDRAWN_TRAIT}
    reserved = provider.reserved
    traits = provider.traits
    if index in used:
        reserved = slot_providers.TOTAL
        traits = (traits | {names.ONE_TIME_USE_TRAIT}) - withdrawn
    elif provider.is_one_time_use:
        traits = traits - withdrawn
    elif provider.is_withdrawn:
        reserved = slot_providers.TOTAL
    elif not reserved:
        traits = traits | withdrawn
    return Entry(
        action=Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={
            name: _with_reserved(record, reserved)
            for name, record in provider.inventory.items()
        },
        traits=traits,
        reason=reason.text,
        consumers=consumers,
    )


def _with_reserved(record: Mapping[str, Any], reserved: int) -> dict[str, Any]:
    """Return the record of an existing provider with another reserve."""
    return {**_record(0), **record, 'reserved': reserved}


def _record(reserved: int) -> dict[str, Any]:
    # Placement resets missing values, so a record always has all of them.
    return {
        'total': slot_providers.TOTAL,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': 1,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }

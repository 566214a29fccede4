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

"""From what is offered and what Placement holds to a plan of changes.

The plan is a value. The service applies it to Nova's provider tree, the log
and the operator's tool print it, the tests compare it.
"""

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.domain import burning
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import policy
from nova_powervm.domain import slots
from nova_powervm.domain import traitkeeping

#: One unit; step, minimum and maximum one (specification, "Inventory").
TOTAL = 1

_SPARE = slots.Reason('spare', 'another provider stands for its slot')
_NO_BURNS = burning.Burns()
_NO_TRAITS: traitkeeping.Kept = {}
_TWIN = slots.Reason('twin', 'another provider of its slot is in use')

Inventory = Mapping[str, Mapping[str, Any]]


class Action(enum.StrEnum):
    """What is done with one provider."""

    CREATE = 'create'
    PUBLISH = 'publish'
    KEEP_CLASS = 'keep-class'
    WITHDRAW = 'withdraw'
    DELETE = 'delete'


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A provider below the compute node's, as Nova's tree has it.

    :param uuid: Placement's uuid of it.
    :param name: Its name.
    :param inventory: Resource class to inventory record.
    :param traits: Names of its traits.
    """

    uuid: str
    name: str
    inventory: Inventory = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What happens to one provider, and why.

    :param action: What is done.
    :param drc_index: The slot it stands for.
    :param name: The provider's name.
    :param uuid: Its uuid; None if it is yet to be made.
    :param inventory: The inventory that it has afterwards.
    :param traits: The traits that it has afterwards.
    :param reason: Why, in words; empty where nothing needs to be said.
    :param consumers: Who is known to hold an allocation of it.
    :param released: Whether it was there and nobody had burned or reserved
        it. Whatever the journal says of its device is over.
    :param had: The traits that it had before.
    """

    action: Action
    drc_index: int
    name: str
    uuid: str | None
    inventory: Inventory = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    reason: str = ''
    consumers: tuple[str, ...] = ()
    released: bool = False
    had: frozenset[str] = frozenset()

    @property
    def burned(self) -> bool:
        """Whether its device was used once and waits for its release."""
        return names.ONE_TIME_USE_TRAIT in self.traits and any(
            record['reserved'] for record in self.inventory.values()
        )

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The classes that the provider has inventory of afterwards."""
        return tuple(sorted(self.inventory))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """All that is to happen to the slot providers of one compute node.

    :param entries: One for each provider that is, or is to be made.
    :param verdicts: One for each slot of the host, with why it is not
        offered.
    """

    entries: tuple[Entry, ...] = ()
    verdicts: tuple[matching.Verdict, ...] = ()

    def of(self, *actions: Action) -> tuple[Entry, ...]:
        """Pick the entries with one of these actions."""
        return tuple(e for e in self.entries if e.action in actions)

    @property
    def settled(self) -> bool:
        """Whether the same devices and providers give the same plan again.

        What is withdrawn, and what waits for another resource class, depends
        on who holds an allocation, too. So does what is burned. A trait of
        the file that is taken away is forgotten in the next plan only.
        """
        return not self.one_time_use and all(
            entry.action in (Action.CREATE, Action.PUBLISH)
            and not traitkeeping.of_file(entry.had - entry.traits)
            for entry in self.entries
        )

    @property
    def one_time_use(self) -> frozenset[int]:
        """DRC indexes of the devices that are, or were, for one use."""
        return frozenset(
            entry.drc_index
            for entry in self.entries
            if names.ONE_TIME_USE_TRAIT in entry.traits
        )

    @property
    def burned(self) -> frozenset[int]:
        """DRC indexes of the devices that wait for their release."""
        return frozenset(e.drc_index for e in self.entries if e.burned)

    @property
    def released(self) -> frozenset[int]:
        """DRC indexes of which no provider is, or was, reserved."""
        kept = {e.drc_index for e in self.entries if not e.released}
        return frozenset(e.drc_index for e in self.entries) - kept


class Allocations:
    """What Placement says now of the providers that were asked about.

    :param consumers: Provider uuid to the uuids of its consumers, for each
        provider that Placement gave an answer about. A provider without an
        answer counts as allocated: doubt never leads to deletion.
    :param reserved: Uuids of those that have units reserved. Nova's copy of
        a provider may be minutes old.
    """

    def __init__(
        self,
        consumers: Mapping[str, Collection[str]],
        reserved: Collection[str] = (),
    ) -> None:
        self._consumers = consumers
        self._reserved = frozenset(reserved)

    def of(self, provider: Provider) -> tuple[str, ...]:
        """Give the known consumers of a provider."""
        return tuple(sorted(self._consumers.get(provider.uuid, ())))

    def is_free(self, provider: Provider) -> bool:
        """Whether Placement said that nobody holds the provider."""
        consumers = self._consumers.get(provider.uuid)
        return consumers is not None and not consumers

    def in_use(self, provider: Provider) -> bool:
        """Whether it is, or may be, allocated, or an operator reserved it."""
        return not self.is_free(provider) or self.is_reserved(provider)

    def is_reserved(self, provider: Provider) -> bool:
        """Whether somebody other than the driver has reserved it."""
        return bool(_reserved(provider)) or (
            provider.uuid in self._reserved and not _marked(provider)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Pairing:
    """Devices and existing providers, brought together by DRC index.

    :param wanted: Each offered device with its provider, if there is one.
    :param orphans: Providers of ours that stand for no offered device.
    """

    wanted: tuple[tuple[matching.Device, Provider | None], ...]
    orphans: tuple[Provider, ...]

    @property
    def questionable(self) -> tuple[Provider, ...]:
        """The providers whose allocations decide what may be done."""
        reclassed = tuple(
            provider
            for device, provider in self.wanted
            if provider
            and (
                _other_classes(device, provider) or _in_doubt(device, provider)
            )
        )
        return self.orphans + reclassed

    @property
    def one_time_use(self) -> tuple[Provider, ...]:
        """The providers whose devices are, or were, for one use."""
        flagged = tuple(
            provider
            for device, provider in self.wanted
            if provider and (device.one_time_use or _once(provider))
        )
        return flagged + tuple(filter(_once, self.orphans))

    @property
    def gaining(self) -> tuple[Provider, ...]:
        """The providers that lack a trait of the file.

        Whether somebody else has set it meanwhile decides whose it is.
        """
        return tuple(
            provider
            for device, provider in self.wanted
            if provider
            and traitkeeping.of_file(device.traits - provider.traits)
        )

    @property
    def burnable(self) -> tuple[Provider, ...]:
        """The providers that are burned if Placement has no room in them.

        A reserve of the driver's own takes the room, too, and says nothing.
        """
        return tuple(
            provider
            for device, provider in self.wanted
            if provider and device.one_time_use and not _marked(provider)
        )


def pair(
    devices: Iterable[matching.Device], providers: Iterable[Provider]
) -> Pairing:
    """Find each device's provider; the rest of ours are orphans.

    :param devices: What is offered.
    :param providers: The direct children of the compute node's provider;
        those that are not ours are passed over.
    """
    found: dict[int, Provider] = {}
    spare: list[Provider] = []
    # A provider with the specification's short name, left by an earlier
    # process, serves as it is; of two for one slot the longer name wins.
    for provider in sorted(providers, key=lambda p: (-len(p.name), p.uuid)):
        index = names.slot_of_provider(provider.name)
        if index is None:
            continue
        if index in found:
            spare.append(provider)
        else:
            found[index] = provider
    wanted = tuple(
        (device, found.pop(device.slot.drc_index, None)) for device in devices
    )
    return Pairing(wanted, (*found.values(), *spare))


def make_plan(
    pairing: Pairing,
    allocations: Allocations,
    name_of: Callable[[int], str],
    verdicts: Sequence[matching.Verdict],
    burns: burning.Burns = _NO_BURNS,
    kept: traitkeeping.Kept = _NO_TRAITS,
) -> Plan:
    """Decide what happens to each slot provider.

    :param pairing: Devices and providers.
    :param allocations: Placement's answer about ``pairing.questionable``.
    :param name_of: Makes the name of a new provider from a DRC index.
    :param verdicts: What the file and the host mean for each slot.
    :param burns: What Placement and the journal say of
        ``pairing.burnable``.
    :param kept: The traits of the file that the driver itself has set.
    """
    reasons = {v.slot.drc_index: v.reason for v in verdicts if v.reason}
    taken = {
        names.slot_of_provider(orphan.name)
        for orphan in pairing.orphans
        if allocations.in_use(orphan)
    }
    published = (
        # A slot of two providers must not be given away twice.
        _withdraw(provider, device.slot.drc_index, _TWIN, ())
        if provider and device.slot.drc_index in taken
        else _publish(device, provider, allocations, name_of, burns, kept)
        for device, provider in pairing.wanted
    )
    spare = {
        device.slot.drc_index: _SPARE
        for device, found in pairing.wanted
        if found
    }
    once = {
        v.slot.drc_index
        for v in verdicts
        if any(paragraph.one_time_use for paragraph in v.paragraphs)
    }
    removed = (
        _remove(provider, allocations, {**reasons, **spare}, once)
        for provider in pairing.orphans
    )
    return Plan((*published, *removed), tuple(verdicts))


def _publish(
    device: matching.Device,
    provider: Provider | None,
    allocations: Allocations,
    name_of: Callable[[int], str],
    burns: burning.Burns,
    kept: traitkeeping.Kept,
) -> Entry:
    index = device.slot.drc_index
    if provider is None:
        reserved = TOTAL if burns.apply_to_new(index) else 0
        return Entry(
            action=Action.CREATE,
            drc_index=index,
            name=name_of(index),
            uuid=None,
            inventory={device.resource_class: _record(reserved)},
            # What was burned stays so without its paragraph's flag.
            traits=device.traits
            | ({names.ONE_TIME_USE_TRAIT} if reserved else set()),
        )
    burned = _is_burned(device, provider, allocations, burns)
    reserved = TOTAL if burned else _reserved(provider)
    once = {names.ONE_TIME_USE_TRAIT} & provider.traits if reserved else set()
    ours = traitkeeping.ours(kept, provider.uuid)
    traits = (
        (_foreign_traits(provider) - {names.ONE_TIME_USE_TRAIT} - ours)
        | device.traits
        | ({names.ONE_TIME_USE_TRAIT} if burned else once)
    )
    others = _other_classes(device, provider)
    if others and not allocations.is_free(provider):
        return Entry(
            action=Action.KEEP_CLASS,
            drc_index=index,
            name=provider.name,
            uuid=provider.uuid,
            # One class too many is better than to drop the allocated one.
            inventory={rc: _record(reserved) for rc in provider.inventory},
            traits=traits,
            reason=(
                f'its resource class stays {", ".join(others)} while it is '
                f'allocated; it becomes {device.resource_class} when it is '
                'free'
            ),
            consumers=allocations.of(provider),
            had=provider.traits,
        )
    return Entry(
        action=Action.PUBLISH,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={device.resource_class: _record(reserved)},
        traits=traits,
        released=not reserved,
        had=provider.traits,
    )


def _is_burned(
    device: matching.Device,
    provider: Provider,
    allocations: Allocations,
    burns: burning.Burns,
) -> bool:
    index = device.slot.drc_index
    if not provider.inventory:
        # Whoever made it did not get further: it says nothing of its own.
        return burns.apply_to_new(index)
    if _marked(provider):
        return device.one_time_use and (
            burns.apply_to_new(index) or not allocations.is_free(provider)
        )
    return burns.apply_to(provider.uuid)


def _remove(
    provider: Provider,
    allocations: Allocations,
    reasons: Mapping[int, slots.Reason],
    once: Collection[int],
) -> Entry:
    index = names.slot_of_provider(provider.name) or 0
    reason = reasons.get(index) or slots.Reason(
        'gone', 'the host no longer reports the slot'
    )
    if allocations.is_reserved(provider):
        # Deleting it would forget that somebody took the device out of use.
        holder = (
            'its device was used once'
            if _once(provider)
            else 'an operator has reserved it'
        )
        quarantine = slots.Reason('reserved', f'{reason}, but {holder}')
        # Not marked: the driver must never lower this reserve.
        return dataclasses.replace(
            _withdraw(provider, index, quarantine, allocations.of(provider)),
            traits=provider.traits,
        )
    if allocations.is_free(provider):
        return Entry(
            action=Action.DELETE,
            drc_index=index,
            name=provider.name,
            uuid=provider.uuid,
            reason=reason.text,
            released=bool(provider.inventory),
            had=provider.traits,
        )
    consumers = allocations.of(provider)
    # Its paragraph may have got the flag while it was in use.
    flag = {names.ONE_TIME_USE_TRAIT} if consumers and index in once else set()
    used = dataclasses.replace(provider, traits=provider.traits | flag)
    entry = _withdraw(used, index, reason, consumers)
    return dataclasses.replace(entry, had=provider.traits)


def _withdraw(
    provider: Provider,
    index: int,
    reason: slots.Reason,
    consumers: tuple[str, ...],
) -> Entry:
    # Of a device for one use this is the burn, so it is not the driver's to
    # lower again.
    final = _reserved(provider) > 0 or _once(provider)
    mark = frozenset() if final else {names.WITHDRAWN_TRAIT}
    return Entry(
        action=Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={rc: _record(TOTAL) for rc in provider.inventory},
        traits=(provider.traits - {names.WITHDRAWN_TRAIT}) | mark,
        reason=reason.text,
        consumers=consumers,
        had=provider.traits,
    )


def _record(reserved: int) -> dict[str, Any]:
    # Placement resets what a record leaves out, so it is always whole.
    return {
        'total': TOTAL,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': 1,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


def has_room(provider: Provider) -> bool:
    """Whether it has a unit that is not reserved, be it allocated or not."""
    return bool(provider.inventory) and not _reserved(provider)


def _reserved(provider: Provider) -> int:
    """Give the units that somebody other than the driver has reserved."""
    if _marked(provider):
        return 0
    return min(
        TOTAL,
        max(
            (int(r.get('reserved', 0)) for r in provider.inventory.values()),
            default=0,
        ),
    )


def _marked(provider: Provider) -> bool:
    """Whether what is reserved is the driver's own to lower."""
    return names.WITHDRAWN_TRAIT in provider.traits and not _once(provider)


def _once(provider: Provider) -> bool:
    return names.ONE_TIME_USE_TRAIT in provider.traits


def _in_doubt(device: matching.Device, provider: Provider) -> bool:
    """Whether it was withdrawn before its paragraph got its flag."""
    return device.one_time_use and _marked(provider)


def _other_classes(
    device: matching.Device, provider: Provider
) -> tuple[str, ...]:
    return tuple(
        rc for rc in provider.inventory if rc != device.resource_class
    )


def _foreign_traits(provider: Provider) -> frozenset[str]:
    """Leave out what the driver generates, so that old values go."""
    return frozenset(
        trait
        for trait in provider.traits
        if not trait.startswith(policy.GENERATED_PREFIX)
    )

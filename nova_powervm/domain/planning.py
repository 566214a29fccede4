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

from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import policy
from nova_powervm.domain import slots

#: One unit; step, minimum and maximum one (specification, "Inventory").
TOTAL = 1

_SPARE = slots.Reason('spare', 'another provider stands for its slot')
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
    """

    action: Action
    drc_index: int
    name: str
    uuid: str | None
    inventory: Inventory = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    reason: str = ''
    consumers: tuple[str, ...] = ()

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
        on who holds an allocation, too.
        """
        return all(
            entry.action in (Action.CREATE, Action.PUBLISH)
            for entry in self.entries
        )


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
            provider.uuid in self._reserved
            and names.WITHDRAWN_TRAIT not in provider.traits
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
            if provider and _other_classes(device, provider)
        )
        return self.orphans + reclassed


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
) -> Plan:
    """Decide what happens to each slot provider.

    :param pairing: Devices and providers.
    :param allocations: Placement's answer about ``pairing.questionable``.
    :param name_of: Makes the name of a new provider from a DRC index.
    :param verdicts: What the file and the host mean for each slot.
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
        else _publish(device, provider, allocations, name_of)
        for device, provider in pairing.wanted
    )
    spare = {
        device.slot.drc_index: _SPARE
        for device, found in pairing.wanted
        if found
    }
    removed = (
        _remove(provider, allocations, {**reasons, **spare})
        for provider in pairing.orphans
    )
    return Plan((*published, *removed), tuple(verdicts))


def _publish(
    device: matching.Device,
    provider: Provider | None,
    allocations: Allocations,
    name_of: Callable[[int], str],
) -> Entry:
    index = device.slot.drc_index
    if provider is None:
        return Entry(
            action=Action.CREATE,
            drc_index=index,
            name=name_of(index),
            uuid=None,
            inventory={device.resource_class: _record(0)},
            traits=device.traits,
        )
    traits = _foreign_traits(provider) | device.traits
    reserved = _reserved(provider)
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
        )
    return Entry(
        action=Action.PUBLISH,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={device.resource_class: _record(reserved)},
        traits=traits,
    )


def _remove(
    provider: Provider,
    allocations: Allocations,
    reasons: Mapping[int, slots.Reason],
) -> Entry:
    index = names.slot_of_provider(provider.name) or 0
    reason = reasons.get(index) or slots.Reason(
        'gone', 'the host no longer reports the slot'
    )
    if allocations.is_reserved(provider):
        # Deleting it would forget that somebody took the device out of use.
        quarantine = slots.Reason(
            'reserved', f'{reason}, but an operator has reserved it'
        )
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
        )
    return _withdraw(provider, index, reason, allocations.of(provider))


def _withdraw(
    provider: Provider,
    index: int,
    reason: slots.Reason,
    consumers: tuple[str, ...],
) -> Entry:
    raised_by_operator = _reserved(provider) > 0
    mark = frozenset() if raised_by_operator else {names.WITHDRAWN_TRAIT}
    return Entry(
        action=Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={rc: _record(TOTAL) for rc in provider.inventory},
        traits=(provider.traits - {names.WITHDRAWN_TRAIT}) | mark,
        reason=reason.text,
        consumers=consumers,
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


def _reserved(provider: Provider) -> int:
    """Give the units that somebody other than the driver has reserved."""
    if names.WITHDRAWN_TRAIT in provider.traits:
        return 0
    return min(
        TOTAL,
        max(
            (int(r.get('reserved', 0)) for r in provider.inventory.values()),
            default=0,
        ),
    )


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

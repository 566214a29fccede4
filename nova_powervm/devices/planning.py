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

"""From what is offered and what Placement holds to a plan of changes."""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import planned
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

_SPARE = slots.Reason('spare', 'another provider stands for its slot')
_TWIN = slots.Reason('twin', 'another provider of its slot is in use')
_NONE: frozenset[int] = frozenset()


def make_plan(
    pairing: slot_providers.Pairing,
    allocations: slot_providers.Allocations,
    name_of: Callable[[int], str],
    verdicts: Sequence[matching.Verdict],
    held: Collection[int] = _NONE,
) -> planned.Plan:
    """Decide what happens to each slot provider.

    Nothing is burned here but what an LPAR holds already: a device is burned
    just before its LPAR gets it, and a plan only repairs that.

    :param pairing: Devices and providers.
    :param allocations: Placement's answer about ``pairing.questionable``.
    :param name_of: Makes the name of a new provider from a DRC index.
    :param verdicts: What the file and the host mean for each slot.
    :param held: DRC indexes of the slots that LPARs of instances own.
    """
    reasons = {v.slot.drc_index: v.reason for v in verdicts if v.reason}
    taken = _slots_of(pairing.orphans, allocations.in_use)
    # A device that is withheld can be in use as well.
    once = {v.slot.drc_index for v in verdicts if v.one_time_use} | {
        device.slot.drc_index
        for device, _ in pairing.wanted
        if device.one_time_use
    }
    # What one provider of a slot says of its device holds for the other.
    used = once & {*held, *_slots_of(pairing.orphans, allocations.is_reserved)}
    published = (
        # A slot of two providers must not be given away twice.
        _withdraw(
            _flagged_as(device, provider),
            device.slot.drc_index,
            _TWIN,
            (),
            used,
        )
        if provider and device.slot.drc_index in taken
        else _publish(device, provider, allocations, name_of, used)
        for device, provider in pairing.wanted
    )
    spare = {
        device.slot.drc_index: _SPARE
        for device, found in pairing.wanted
        if found
    }
    removed = (
        _remove(provider, allocations, {**reasons, **spare}, used)
        for provider in pairing.orphans
    )
    return planned.Plan((*published, *removed), tuple(verdicts))


def _slots_of(
    providers: Iterable[slot_providers.Provider],
    condition: Callable[[slot_providers.Provider], bool],
) -> frozenset[int]:
    """Give the DRC indexes of the providers that meet a condition."""
    found = (
        names.slot_of_provider(provider.name)
        for provider in providers
        if condition(provider)
    )
    return frozenset(index for index in found if index is not None)


def _flagged_as(
    device: matching.Device, provider: slot_providers.Provider
) -> slot_providers.Provider:
    """Take the trait of one-time use away if nothing speaks for it."""
    if device.one_time_use or provider.reserved:
        return provider
    return dataclasses.replace(
        provider, traits=provider.traits - {names.ONE_TIME_USE_TRAIT}
    )


def _publish(
    device: matching.Device,
    provider: slot_providers.Provider | None,
    allocations: slot_providers.Allocations,
    name_of: Callable[[int], str],
    used: Collection[int],
) -> planned.Entry:
    index = device.slot.drc_index
    burned = slot_providers.TOTAL if index in used else 0
    if provider is None:
        return planned.Entry(
            action=planned.Action.CREATE,
            drc_index=index,
            name=name_of(index),
            uuid=None,
            inventory={device.resource_class: _record(burned)},
            traits=device.traits,
        )
    entry = planned.Entry(
        action=planned.Action.PUBLISH,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={
            device.resource_class: _record(burned or provider.reserved)
        },
        traits=device.traits | _still_once(provider),
    )
    others = allocations.classes(provider) & {
        *provider.other_classes(device.resource_class)
    }
    return _keep_classes(entry, provider, allocations) if others else entry


def _still_once(provider: slot_providers.Provider) -> frozenset[str]:
    """Keep the trait of what was used once, whatever its paragraph says."""
    return (
        frozenset({names.ONE_TIME_USE_TRAIT}) & provider.traits
        if provider.reserved
        else frozenset()
    )


def _keep_classes(
    entry: planned.Entry,
    provider: slot_providers.Provider,
    allocations: slot_providers.Allocations,
) -> planned.Entry:
    """Keep the allocated classes of a provider, and offer no other.

    Placement would refuse to drop them, and a class more would offer the
    slot a second time.
    """
    ((wanted, record),) = entry.inventory.items()
    classes = allocations.classes(provider) & provider.inventory.keys()
    old = ', '.join(sorted(classes - {wanted}))
    return dataclasses.replace(
        entry,
        action=planned.Action.KEEP_CLASS,
        inventory={
            name: _whole(provider.inventory[name], record['reserved'])
            for name in sorted(classes)
        },
        reason=(
            f'its resource class stays {old} while it is allocated; it '
            f'becomes {wanted} when it is free'
        ),
        consumers=allocations.of(provider),
    )


def _remove(
    provider: slot_providers.Provider,
    allocations: slot_providers.Allocations,
    reasons: Mapping[int, slots.Reason],
    used: Collection[int],
) -> planned.Entry:
    index = names.slot_of_provider(provider.name) or 0
    reason = reasons.get(index) or slots.Reason(
        'gone', 'the host no longer reports the slot'
    )
    if allocations.is_reserved(provider):
        # Deleting it would forget that somebody took the device out of use.
        holder = (
            'its device was used once'
            if provider.is_one_time_use
            else 'an operator has reserved it'
        )
        quarantine = slots.Reason('reserved', f'{reason}, but {holder}')
        entry = _withdraw(
            provider, index, quarantine, allocations.of(provider), used
        )
        # Nova's copy may not have that reserve yet. It is not the driver's.
        return dataclasses.replace(
            entry, traits=entry.traits - {names.WITHDRAWN_TRAIT}
        )
    if allocations.is_free(provider) and index not in used:
        return planned.Entry(
            action=planned.Action.DELETE,
            drc_index=index,
            name=provider.name,
            uuid=provider.uuid,
            reason=reason.text,
        )
    return _withdraw(provider, index, reason, allocations.of(provider), used)


def _withdraw(
    provider: slot_providers.Provider,
    index: int,
    reason: slots.Reason,
    consumers: tuple[str, ...],
    used: Collection[int],
) -> planned.Entry:
    """Keep a provider from being allocated, as far as that can be undone.

    Nova writes inventory before traits. So the mark goes first, and what is
    reserved is raised when the mark is found there: a reserve whose mark was
    lost would count as an operator's, and hide the device for ever. Of a
    one-time-use device any reserve is a burn, so none is raised, unless an
    LPAR has it.
    """
    mark = {names.WITHDRAWN_TRAIT}
    reserved = provider.reserved
    traits = provider.traits
    if index in used:
        reserved = slot_providers.TOTAL
        traits = (traits | {names.ONE_TIME_USE_TRAIT}) - mark
    elif provider.is_one_time_use:
        traits = traits - mark
    elif provider.is_withdrawn:
        reserved = slot_providers.TOTAL
    elif not reserved:
        traits = traits | mark
    return planned.Entry(
        action=planned.Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={
            name: _whole(record, reserved)
            for name, record in provider.inventory.items()
        },
        traits=traits,
        reason=reason.text,
        consumers=consumers,
    )


def _whole(record: Mapping[str, Any], reserved: int) -> dict[str, Any]:
    """Give a record of an existing provider with another reserve."""
    return {**_record(0), **record, 'reserved': reserved}


def _record(reserved: int) -> dict[str, Any]:
    # Placement resets what a record leaves out, so it is always whole.
    return {
        'total': slot_providers.TOTAL,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': 1,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }

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
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.domain import burning
from nova_powervm.domain import existing
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import planned
from nova_powervm.domain import policy
from nova_powervm.domain import slots
from nova_powervm.domain import traitkeeping

_SPARE = slots.Reason('spare', 'another provider stands for its slot')
_NO_BURNS = burning.Burns()
_NO_TRAITS: traitkeeping.Kept = {}
_TWIN = slots.Reason('twin', 'another provider of its slot is in use')


def make_plan(
    pairing: existing.Pairing,
    allocations: existing.Allocations,
    name_of: Callable[[int], str],
    verdicts: Sequence[matching.Verdict],
    burns: burning.Burns = _NO_BURNS,
    kept: traitkeeping.Kept = _NO_TRAITS,
) -> planned.Plan:
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
    return planned.Plan((*published, *removed), tuple(verdicts))


def _publish(
    device: matching.Device,
    provider: existing.Provider | None,
    allocations: existing.Allocations,
    name_of: Callable[[int], str],
    burns: burning.Burns,
    kept: traitkeeping.Kept,
) -> planned.Entry:
    index = device.slot.drc_index
    if provider is None:
        reserved = existing.TOTAL if burns.apply_to_new(index) else 0
        return planned.Entry(
            action=planned.Action.CREATE,
            drc_index=index,
            name=name_of(index),
            uuid=None,
            inventory={device.resource_class: _record(reserved)},
            # What was burned stays so without its paragraph's flag.
            traits=device.traits
            | ({names.ONE_TIME_USE_TRAIT} if reserved else set()),
        )
    burned = _is_burned(device, provider, allocations, burns)
    reserved = existing.TOTAL if burned else provider.reserved
    once = {names.ONE_TIME_USE_TRAIT} & provider.traits if reserved else set()
    ours = traitkeeping.ours(kept, provider.uuid)
    traits = (
        (_foreign_traits(provider) - {names.ONE_TIME_USE_TRAIT} - ours)
        | device.traits
        | ({names.ONE_TIME_USE_TRAIT} if burned else once)
    )
    others = provider.other_classes(device.resource_class)
    if others and not allocations.is_free(provider):
        return planned.Entry(
            action=planned.Action.KEEP_CLASS,
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
    return planned.Entry(
        action=planned.Action.PUBLISH,
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
    provider: existing.Provider,
    allocations: existing.Allocations,
    burns: burning.Burns,
) -> bool:
    index = device.slot.drc_index
    if not provider.inventory:
        # Whoever made it did not get further: it says nothing of its own.
        return burns.apply_to_new(index)
    if provider.is_withdrawn:
        return device.one_time_use and (
            burns.apply_to_new(index) or not allocations.is_free(provider)
        )
    return burns.apply_to(provider.uuid)


def _remove(
    provider: existing.Provider,
    allocations: existing.Allocations,
    reasons: Mapping[int, slots.Reason],
    once: Collection[int],
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
        # Not marked: the driver must never lower this reserve.
        return dataclasses.replace(
            _withdraw(provider, index, quarantine, allocations.of(provider)),
            traits=provider.traits,
        )
    if allocations.is_free(provider):
        return planned.Entry(
            action=planned.Action.DELETE,
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
    provider: existing.Provider,
    index: int,
    reason: slots.Reason,
    consumers: tuple[str, ...],
) -> planned.Entry:
    # Of a device for one use this is the burn, so it is not the driver's to
    # lower again.
    final = provider.reserved > 0 or provider.is_one_time_use
    mark = frozenset() if final else {names.WITHDRAWN_TRAIT}
    return planned.Entry(
        action=planned.Action.WITHDRAW,
        drc_index=index,
        name=provider.name,
        uuid=provider.uuid,
        inventory={rc: _record(existing.TOTAL) for rc in provider.inventory},
        traits=(provider.traits - {names.WITHDRAWN_TRAIT}) | mark,
        reason=reason.text,
        consumers=consumers,
        had=provider.traits,
    )


def _record(reserved: int) -> dict[str, Any]:
    # Placement resets what a record leaves out, so it is always whole.
    return {
        'total': existing.TOTAL,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': 1,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


def _foreign_traits(provider: existing.Provider) -> frozenset[str]:
    """Leave out what the driver generates, so that old values go."""
    return frozenset(
        trait
        for trait in provider.traits
        if not trait.startswith(policy.GENERATED_PREFIX)
    )

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

"""Rules for the release of burned devices (one-time use specification).

To burn a one-time-use device, the driver sets its provider's reserved to its
total. After the device has been cleaned, an operator has to lower reserved
again: the driver never does.
"""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import os_traits

from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree

_Provider = placement_tree.Provider
_Slots = Collection[slots.Slot]


def find_provider(which: str, tree: placement_tree.Tree) -> _Provider:
    """Find the slot provider that a user names.

    :param which: DRC index of a slot in hex digits, with or without ``0x``,
        or name or UUID of a provider.
    :raises errors.DeviceUnchanged: The name matches no provider, several
        providers, or one that does not belong to a slot.
    """
    if not which.strip():
        raise errors.DeviceUnchanged(
            which="''",
            reason='an empty text names no device. Give the DRC index of a '
            'slot, or the name or UUID of a provider',
        )
    named = [p for p in tree.below if which in (p.uuid, p.name)]
    meant = named or [
        p for p in tree.slot_providers if p.drc_index == _index(which)
    ]
    if len(meant) == 1 and meant[0] in tree.slot_providers:
        return meant[0]
    if not meant:
        there = sorted(p.drc_hex for p in tree.slot_providers)
        reason = (
            f'{tree.node} has no such slot or provider in Placement; its '
            f'slots are: {", ".join(there) or "none"}'
        )
    elif len(meant) > 1:
        uuids = ', '.join(p.uuid for p in meant)
        reason = f'the slot has several providers: {uuids}. Give one UUID'
    elif os_traits.OWNER_CYBORG in meant[0].traits:
        reason = (
            'Cyborg manages it. Disable it there: `openstack accelerator '
            'device disable <uuid of the device>`'
        )
    else:
        reason = 'this driver did not create the provider'
    raise errors.DeviceUnchanged(which=which, reason=reason)


def _index(which: str) -> int | None:
    try:
        return int(which, 16)
    except ValueError:
        return None


def check_release(provider: _Provider, io_slots: _Slots) -> None:
    """Check that a device may be released now.

    :raises errors.DeviceUnchanged: The device must not be released.
    """
    check_releasable(provider)
    check_on_host(provider, io_slots)


def check_releasable(provider: _Provider) -> None:
    """Check what Placement tells against the release of a device.

    :raises errors.DeviceUnchanged: The device must not be released.
    """
    if provider.consumers:
        reason = (
            f'it is allocated to {", ".join(sorted(provider.consumers))}. '
            'If that is a server, delete it and clean the device first. If '
            'it is a migration, which `openstack --os-compute-api-version '
            '2.59 server migration list` tells, confirm or revert the resize '
            'or migration of its server first'
        )
    elif names.quarantine_traits(provider.traits):
        reason = (
            'it is in quarantine, because '
            f'{names.quarantine_reason(provider.traits)}. End that first: '
            f'`{_restore_command(provider)}`'
        )
    elif names.WITHDRAWN_TRAIT in provider.traits:
        reason = (
            'the driver has withdrawn it because its slot is not offered. '
            '"nova-powervm-inventory show" tells the reason; the driver '
            'restores the device when the reason no longer applies'
        )
    elif not provider.one_time_use:
        reason = (
            'it is not a one-time-use device. If an operator has reserved '
            f'it, run: {_reserved_command(provider)}'
        )
    elif not provider.reserved:
        reason = 'it is not burned: reserved is 0'
    else:
        return
    raise errors.DeviceUnchanged(which=provider, reason=reason)


def check_on_host(provider: _Provider, io_slots: _Slots) -> None:
    """Check that the host has what is to be released, and nobody uses it.

    :raises errors.DeviceUnchanged: A partition has the device, or it is not
        the one that was burned, or the host does not tell.
    """
    check_unowned(provider, io_slots)
    slot = _find_slot(provider, io_slots)
    if changes := card_ids.find_changes(provider.traits, slot):
        reason = (
            f'its slot shows another card than the one that was burned: '
            f'{changes}. {_accept(provider)}'
        )
    elif unreported := card_ids.find_unreported(provider.traits, slot):
        reason = (
            f'the host no longer reports {unreported} of its card. '
            f'{_accept(provider)}'
        )
    elif card_ids.is_unknown(provider.traits, slot):
        reason = (
            'nova-compute has not taken up the new card yet. Wait for its '
            'next cycle'
        )
    else:
        return
    raise errors.DeviceUnchanged(which=provider, reason=reason)


def check_same_card(provider: _Provider, io_slots: _Slots) -> None:
    """Check that the end of a quarantine lets no other card in.

    :raises errors.DeviceUnchanged: Another card is in the slot, or may be.
    """
    slot = _find_slot(provider, io_slots)
    changes = card_ids.find_changes(provider.traits, slot)
    was_replaced = provider.traits >= names.REPLACED_TRAITS
    if changes:
        reason = f'another card is in its slot: {changes}'
    elif was_replaced and slot.is_empty:
        reason = (
            f'{names.QUARANTINE_REASONS[names.REPLACED]}, and is empty or '
            'not reported now, or more than once'
        )
    elif was_replaced and (
        unreported := card_ids.find_unreported(provider.traits, slot)
    ):
        reason = f'the host does not report {unreported} of its card'
    else:
        return
    raise errors.DeviceUnchanged(
        which=provider, reason=f'{reason}. {_accept(provider)}'
    )


def check_new_card(provider: _Provider, io_slots: _Slots) -> None:
    """Check that there is another card to accept.

    :raises errors.DeviceUnchanged: The slot has no other card.
    """
    slot = _find_slot(provider, io_slots)
    if slot.is_empty:
        reason = (
            'its slot is empty, or the host does not report it, or more than '
            'once. Put the new card in first'
        )
    elif not (
        card_ids.find_changes(provider.traits, slot)
        or card_ids.find_unreported(provider.traits, slot)
    ):
        reason = (
            'the host reports the ids that its provider has. If it is in '
            'quarantine, leave out --new-card'
        )
    else:
        return
    raise errors.DeviceUnchanged(which=provider, reason=reason)


def _find_slot(provider: _Provider, io_slots: _Slots) -> slots.Slot:
    """Return the slot of a provider.

    :returns: An empty one if it is not reported, or several times.
    """
    index = provider.drc_index or 0
    nothing = slots.Slot(index, vendor_id=slots.EMPTY_ID)
    return slots.by_index(io_slots).get(index, nothing)


def _accept(provider: _Provider) -> str:
    return (
        'If you have put another card in or updated its firmware, run '
        f'`{_restore_command(provider, is_new=True)}`; else do not trust the '
        'card'
    )


def _restore_command(provider: _Provider, *, is_new: bool = False) -> str:
    is_new = is_new or provider.traits >= names.REPLACED_TRAITS
    return f'nova-powervm-inventory restore {provider.drc_hex}' + (
        ' --new-card' if is_new else ''
    )


def check_unowned(provider: _Provider, io_slots: _Slots) -> None:
    """Check that no partition has a device, according to the host.

    Placement alone can be wrong: somebody may have deleted the allocations of
    a server that still runs with its device.

    :raises errors.DeviceUnchanged: A partition has the device, or the host
        does not tell.
    """
    its_slots = [s for s in io_slots if s.drc_index == provider.drc_index]
    owners = [str(slot.owner) for slot in its_slots if slot.owner]
    if owners:
        raise errors.DeviceUnchanged(
            which=provider,
            reason=f'its slot is owned by {" and ".join(owners)}. If that is '
            'an instance, the device is in use, even if Placement has not '
            'allocated it. '
            'Otherwise, remove the slot from the partition first',
        )
    if len(its_slots) > 1:
        raise errors.DeviceUnchanged(
            which=provider,
            reason='the host reports its DRC index more than once',
        )
    if all(card_ids.is_elsewhere(provider.traits, slot) for slot in its_slots):
        raise errors.DeviceUnchanged(
            which=provider,
            reason='the host does not report its slot, so it may be in use. '
            'Check that [powervm]rest_url names the host of this compute '
            'node. If the slot is gone for good, run: '
            + _reserved_command(provider),
        )


def _reserved_command(provider: _Provider) -> str:
    name = min(provider.inventory, default='CLASS')
    return (
        'openstack resource provider inventory set --amend --resource '
        f'{name}:reserved=0 {provider.uuid}'
    )


def make_released_records(
    provider: _Provider,
) -> Sequence[tuple[str, dict[str, Any]]]:
    """Create the inventory records that release a device.

    :param provider: A provider that passed :func:`check_releasable`.
    :returns: Resource class and complete record, for each changed record.
    """
    return [
        (name, {**record, 'reserved': 0})
        for name, record in sorted(provider.inventory.items())
        if record.get('reserved')
    ]


def find_used_devices(tree: placement_tree.Tree) -> Sequence[_Provider]:
    """List the providers of devices that need cleaning, by slot."""
    waiting = (p for p in tree.slot_providers if p.needs_cleaning)
    return sorted(waiting, key=lambda p: (p.drc_index or 0, p.uuid))

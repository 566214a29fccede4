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

"""Other owners of slots that the inventory file offers.

A slot that Cyborg also manages, and a slot that an instance has without an
allocation, are not offered: the scheduler would allocate them twice. So is one
of an LPAR on the wrong side, whose instance has moved to another host.
"""

import dataclasses
import re
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

#: Codes of the reasons for withholding a slot.
CYBORG = 'cyborg'
HELD = 'held'


@dataclasses.dataclass(frozen=True, slots=True)
class StaleLpar:
    """An LPAR on the wrong side: its instance has moved to another host.

    :param instance_uuid: Uuid of the instance.
    :param host: The host that the instance is on.
    """

    instance_uuid: str
    host: str


_SLOT_TRAIT = re.compile(r'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_([0-9A-F]{8})')


def slots_named_by(name: str, traits: Iterable[str]) -> frozenset[int]:
    """Find the slots that a provider names, by its name or its traits.

    :param name: Its name. A name in the driver's own form contains the slot.
    :param traits: Its traits. ``CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020``
        also names a slot.
    :returns: DRC indexes; empty if neither names a slot.
    """
    matches = map(_SLOT_TRAIT.fullmatch, traits)
    found = {int(match.group(1), 16) for match in matches if match}
    named = names.slot_of_provider(name)
    return frozenset(found if named is None else found | {named})


def cyborg_slots(
    providers: Iterable[slot_providers.Provider],
) -> dict[int, str]:
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
    providers: Iterable[slot_providers.Provider],
    holdings: Mapping[str, Collection[str]],
    stale: Mapping[str, StaleLpar],
) -> dict[int, str]:
    """Find the slots that instances have without an allocation.

    :param host_slots: All slots of the host.
    :param providers: Direct children of the compute node's provider.
    :param holdings: Upper-case uuid of each LPAR of an instance to the
        providers whose resources Nova stored with the instance.
    :param stale: Upper-case uuid of each LPAR on the wrong side to where
        its instance is.
    :returns: DRC index to the reason, in words.
    """
    by_slot = _by_slot(providers)
    return {
        slot.drc_index: _describe(slot, stale.get(lpar_uuid))
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
    """Return the DRC indexes of the slots that given LPARs own.

    :param host_slots: All slots of the host.
    :param lpar_uuids: Upper-case uuids of the LPARs of instances.
    """
    return frozenset(
        slot.drc_index for slot in host_slots if slot.owner_lpar in lpar_uuids
    )


def _by_slot(
    providers: Iterable[slot_providers.Provider],
) -> dict[int, set[str]]:
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

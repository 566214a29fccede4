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

"""Compares the card in a slot with the card that a provider was made for.

An instance can change the firmware of its device, and with it every id that
the card reports. The traits of the provider record which card it was.
"""

from collections.abc import Collection
from collections.abc import Iterator

from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import slots

#: The keys that the card itself reports: all keys by which a paragraph of the
#: inventory file can tell cards apart, except for the place.
KEYS = (
    'vendor_id',
    'device_id',
    'subsys_vendor_id',
    'subsys_device_id',
    'class',
    'revision_id',
)
_PREFIXES = {key: names.property_trait(key, '') for key in KEYS}
_PLACE = 'drc_name'
_PLACE_PREFIX = names.property_trait(_PLACE, '')
#: What a host reports in place of an id that it cannot read: a configuration
#: space that cannot be read shows ones, and what a real host called "Unknown"
#: had zeros. As a revision, and as a subsystem, zero is usual.
_UNREAD = {key: {f'{slots.EMPTY_ID:04X}'} for key in KEYS} | {
    'vendor_id': {f'{slots.EMPTY_ID:04X}', '0000'},
    'device_id': {f'{slots.EMPTY_ID:04X}', '0000'},
    'class': {f'{slots.EMPTY_ID:04X}', '0000'},
    'revision_id': {'FF'},
}
_UNREAD_TRAITS = frozenset(
    names.property_trait(key, value)
    for key, values in _UNREAD.items()
    for value in values
)


def select_traits(traits: Collection[str]) -> frozenset[str]:
    """Select the traits that tell which card a provider was made for."""
    prefixes = tuple(_PREFIXES.values())
    return frozenset(
        trait
        for trait in traits
        if trait.startswith(prefixes) and trait not in _UNREAD_TRAITS
    )


def select_place(traits: Collection[str]) -> frozenset[str]:
    """Select the traits that tell where the slot of a provider is."""
    return frozenset(t for t in traits if t.startswith(_PLACE_PREFIX))


def is_elsewhere(traits: Collection[str], slot: slots.Slot) -> bool:
    """Return whether a slot is at another place than its provider says.

    DRC indexes are the same on many hosts, but a location code names the
    enclosure, and no guest can change it: another code means another slot.

    :param traits: The provider's traits.
    :param slot: A slot with the DRC index of the provider.
    """
    place = select_place(traits)
    return bool(
        place
        and slot.drc_name
        and names.property_trait(_PLACE, slot.drc_name) not in place
    )


def find_changes(traits: Collection[str], slot: slots.Slot) -> str:
    """Describe the ids of a card that have changed.

    A new card with the same ids cannot be told from the former card. An id
    that was unknown before proves nothing; nor does a card at another place.

    :param traits: The provider's traits.
    :param slot: What the host reports now.
    :returns: The ids that differ, in words; empty if there are none, or if
        the slot is empty.
    """
    return '; '.join(
        f'{key} was {before}, and is {now}'
        for key, before, now in _differences(traits, slot)
        if now
    )


def find_unreported(traits: Collection[str], slot: slots.Slot) -> str:
    """Describe the known ids that the host no longer reports.

    They prove nothing: a host can fail to report ids for a while.

    :param traits: The provider's traits.
    :param slot: What the host reports now.
    :returns: The ids in words, or the location code if the slot is elsewhere;
        empty if there are none, or if the slot is empty.
    """
    return ', '.join(
        f'{key} {before}'
        for key, before, now in _differences(traits, slot)
        if not now
    )


def is_unknown(traits: Collection[str], slot: slots.Slot) -> bool:
    """Return whether a provider lacks the ids of the card in its slot.

    :param traits: The provider's traits.
    :param slot: What the host reports now.
    """
    return (
        not slot.is_empty
        and not is_elsewhere(traits, slot)
        and not select_traits(traits)
        and any(_value(key, slot) for key in KEYS)
    )


def _differences(
    traits: Collection[str], slot: slots.Slot
) -> Iterator[tuple[str, str, str]]:
    """Yield key, former value and present value of each id that differs.

    A slot at another place differs in the place alone, and reports none.
    """
    if slot.is_empty:
        return
    if is_elsewhere(traits, slot):
        yield _PLACE, _in_words(select_place(traits), _PLACE_PREFIX), ''
        return
    id_traits = select_traits(traits)
    for key in KEYS:
        now = _value(key, slot)
        if now and names.property_trait(key, now) in traits:
            continue
        if before := _in_words(id_traits, _PREFIXES[key]):
            yield key, before, now


def _in_words(traits: Collection[str], prefix: str) -> str:
    """Return the values in the traits that have a prefix."""
    return ' or '.join(
        sorted(t.removeprefix(prefix) for t in traits if t.startswith(prefix))
    )


def _value(key: str, slot: slots.Slot) -> str:
    """Return an id that the host reports, or ''."""
    value = policy.PROPERTIES[key].value_in(slot)
    return '' if value is None or value in _UNREAD[key] else value

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

"""Names of providers and traits (specification, "Resource Providers")."""

import functools
import hashlib
import re
from collections.abc import Callable
from collections.abc import Iterable

import os_traits

from nova_powervm.devices import policy
from nova_powervm.devices import slots

#: Specification: the names of all our providers begin with this.
PROVIDER_PREFIX = 'PowerVM IOSlot '
#: Placement's limit on the length of a provider's name.
PROVIDER_NAME_LIMIT = 200
#: On every provider of the driver's own; tells it from a provider of Cyborg's.
OWNER_TRAIT = os_traits.OWNER_NOVA
#: On a provider whose inventory the driver itself has reserved.
WITHDRAWN_TRAIT = 'CUSTOM_POWERVM_WITHDRAWN'
#: On a provider that was taken out of use until an operator restores it, with
#: at least one trait of :func:`quarantine_trait` beside it.
QUARANTINED_TRAIT = 'CUSTOM_POWERVM_QUARANTINED'
#: The code of a reason that only the driver gives, and no operator.
REPLACED = 'REPLACED'
#: The codes of reasons for a quarantine, and what they mean.
QUARANTINE_REASONS = {
    'FAILED': 'the device is defective',
    'SUSPECT': 'the device may be defective',
    'MAINTENANCE': 'the device is being serviced',
    'CLEANING': 'the device could not be cleaned',
    REPLACED: 'its slot has shown the ids of another card',
}
#: The codes that an operator may give.
OPERATOR_REASONS = tuple(
    code for code in QUARANTINE_REASONS if code != REPLACED
)
#: On a provider of a one-time-use device. This is os-traits' name for the
#: specification's HW_ONE_TIME_USE.
ONE_TIME_USE_TRAIT = os_traits.HW_PCI_ONE_TIME_USE

CYBORG_PROVIDER_PREFIX = 'PowerVM Cyborg IOSlot '
#: Only offered slots of Cyborg bear it, so device profiles can require it.
CYBORG_TRAIT = 'CUSTOM_POWERVM_CYBORG'

_TRAIT_PREFIX = 'POWERVM_IOSLOT_'
#: The prefix of the traits that describe slots.
SLOT_TRAIT_PREFIX = f'CUSTOM_{_TRAIT_PREFIX}'
_TRAIT_LIMIT = 255
_OUR_NAME = re.compile(
    re.escape(PROVIDER_PREFIX) + r'(?:.* )?([0-9A-F]{8})', re.DOTALL
)
_CYBORG_NAME = re.compile(
    re.escape(CYBORG_PROVIDER_PREFIX) + r'.* ([0-9A-F]{8})', re.DOTALL
)


def provider_name(nodename: str, drc_index: int, style: str = 'node') -> str:
    """Name the provider of a slot.

    The specification's name is ``PowerVM IOSlot 1C0FFEE1``. Provider names are
    unique in a Placement service, but DRC indexes repeat from host to host.
    With that name, Placement would answer 409 to the whole update of a second
    host. The nodename therefore stands between the prefix and the index; the
    specification's two rules (the prefix, the last eight characters) still
    find the slot.

    :param nodename: The compute node's hypervisor_hostname. If the name would
        exceed 200 characters, it is cut and gets a digest.
    :param drc_index: The slot's DRC index.
    :param style: 'node', or 'spec' for the specification's short form.
    :returns: The name, at most 200 characters.
    """
    if style == 'spec':
        return PROVIDER_PREFIX + slots.format_drc_index(drc_index)
    return _name(PROVIDER_PREFIX, nodename, drc_index)


def cyborg_provider_name(nodename: str, drc_index: int) -> str:
    """Name the provider of a slot that Cyborg manages.

    Cyborg computes the provider's uuid from this name, and finds deployables
    by the name without their host. So the name must be unique in the whole
    cloud and must never change.

    :param nodename: See :func:`provider_name`.
    :param drc_index: The slot's DRC index.
    :returns: ``PowerVM Cyborg IOSlot <nodename> <DRC index>``, at most 200
        characters.
    """
    return _name(CYBORG_PROVIDER_PREFIX, nodename, drc_index)


def slot_of_cyborg_provider(name: str, nodename: str = '') -> int | None:
    """Return the DRC index in a name by :func:`cyborg_provider_name`.

    :param name: The name of a provider.
    :param nodename: The compute node's name; if it is empty, slots of all
        nodes count.
    :returns: The DRC index, or None if the name has another form or is of
        another node's slot.
    """
    match = _CYBORG_NAME.fullmatch(name)
    if match is None:
        return None
    index = int(match.group(1), 16)
    if nodename and name != cyborg_provider_name(nodename, index):
        return None
    return index


def _name(prefix: str, nodename: str, drc_index: int) -> str:
    suffix = slots.format_drc_index(drc_index)
    space = PROVIDER_NAME_LIMIT - len(prefix) - len(suffix) - 1
    return f'{prefix}{_fit(nodename, space)} {suffix}'


def namer(nodename: str, style: str) -> Callable[[int], str]:
    """Return a function that names the providers of a node's slots.

    :param nodename: See :func:`provider_name`, also for ``style``.
    :returns: A function from DRC index to name.
    """
    return lambda drc_index: provider_name(nodename, drc_index, style)


def _fit(text: str, space: int) -> str:
    if len(text) <= space:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{text[: space - len(digest) - 1]}~{digest}'


def slot_of_provider(name: str) -> int | None:
    """Return the DRC index in the name of a provider of the driver's own.

    Only direct children of the compute node's provider are the driver's own;
    the caller must check this.

    :returns: The DRC index, or None if the name has another form.
    """
    match = _OUR_NAME.fullmatch(name)
    return int(match.group(1), 16) if match else None


def generated_traits(slot: slots.Slot) -> frozenset[str]:
    """Return the traits that describe a slot (specification, "Generated").

    There is no trait for a property that the host does not report.
    """
    traits = set()
    for key, prop in policy.PROPERTIES.items():
        value = prop.value_in(slot)
        if value:
            traits.add(property_trait(key, value))
    return frozenset(traits)


def quarantine_trait(code: str) -> str:
    """Return the trait for a key of :data:`QUARANTINE_REASONS`."""
    return f'{QUARANTINED_TRAIT}_{code}'


#: The quarantine of a provider whose slot shows another card.
REPLACED_TRAITS = frozenset({QUARANTINED_TRAIT, quarantine_trait(REPLACED)})


def quarantine_traits(traits: Iterable[str]) -> frozenset[str]:
    """Select the traits that put a device in quarantine."""
    marks = {QUARANTINED_TRAIT, *map(quarantine_trait, QUARANTINE_REASONS)}
    return frozenset(marks.intersection(traits))


def quarantine_reason(traits: Iterable[str]) -> str:
    """Return in words why a device is in quarantine."""
    codes = quarantine_codes(traits)
    return ' and '.join(QUARANTINE_REASONS[code] for code in codes)


def quarantine_codes(traits: Iterable[str]) -> tuple[str, ...]:
    """Return the codes of the reasons why a device is in quarantine."""
    marks = quarantine_traits(traits)
    return tuple(
        code for code in QUARANTINE_REASONS if quarantine_trait(code) in marks
    )


def is_driver_trait(trait: str) -> bool:
    """Return whether only the driver sets and removes a trait."""
    return trait in (OWNER_TRAIT, ONE_TIME_USE_TRAIT) or trait.startswith(
        policy.GENERATED_PREFIX
    )


def is_slot_trait(trait: str) -> bool:
    """Return whether a trait describes a slot."""
    return trait.startswith(SLOT_TRAIT_PREFIX)


def is_generated_trait(trait: str) -> bool:
    """Return whether :func:`generated_traits` can have made a trait."""
    return any(
        re.fullmatch(
            re.escape(property_trait(key, ''))
            + (f'[0-9A-F]{{{prop.digits},}}' if prop.digits else '[A-Z0-9_]*'),
            trait,
        )
        for key, prop in policy.PROPERTIES.items()
    )


@functools.cache
def property_trait(key: str, value: str) -> str:
    """Return the trait for one property of a slot.

    :param key: One of :data:`.policy.PROPERTIES`.
    :param value: Its value, in the form of the inventory file.
    """
    name = f'{_TRAIT_PREFIX}{key.upper()}_{value}'
    full: str = os_traits.normalize_name(name)
    return full[:_TRAIT_LIMIT]

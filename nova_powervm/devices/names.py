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

import hashlib
import re
from collections.abc import Callable

import os_traits

from nova_powervm.devices import policy
from nova_powervm.devices import slots

#: Specification: the names of all our providers begin with this.
PROVIDER_PREFIX = 'PowerVM IOSlot '
#: Placement's limit on the length of a provider's name.
PROVIDER_NAME_LIMIT = 200
#: On every provider of ours, so that a flavor can tell it from Cyborg's.
OWNER_TRAIT = os_traits.OWNER_NOVA
#: On a provider whose inventory the driver itself has reserved.
WITHDRAWN_TRAIT = 'CUSTOM_POWERVM_WITHDRAWN'
#: On a provider whose device is kept back once it was used. The
#: specification's HW_ONE_TIME_USE is called so in os-traits.
ONE_TIME_USE_TRAIT = os_traits.HW_PCI_ONE_TIME_USE

_TRAIT_PREFIX = 'POWERVM_IOSLOT_'
_TRAIT_LIMIT = 255
_OURS = re.compile(
    re.escape(PROVIDER_PREFIX) + r'(?:.* )?([0-9A-F]{8})', re.DOTALL
)


def provider_name(nodename: str, drc_index: int, style: str = 'node') -> str:
    """Name the provider of a slot.

    The specification's name is ``PowerVM IOSlot 1C0FFEE1``. Names of
    providers are unique in a whole Placement service while DRC indexes
    repeat from host to host, so the second host of a cloud would lose its
    whole update to a 409. The node's name therefore stands between the
    prefix and the index; the specification's two rules (the prefix, the last
    eight characters) still find the slot.

    :param nodename: The compute node's hypervisor_hostname. One that would
        make the name longer than 200 characters is cut and given a digest.
    :param drc_index: The slot's DRC index.
    :param style: 'node', or 'spec' for the specification's short form.
    :returns: The name, at most 200 characters.
    """
    suffix = slots.format_drc_index(drc_index)
    if style == 'spec':
        return PROVIDER_PREFIX + suffix
    room = PROVIDER_NAME_LIMIT - len(PROVIDER_PREFIX) - len(suffix) - 1
    return f'{PROVIDER_PREFIX}{_fit(nodename, room)} {suffix}'


def namer(nodename: str, style: str) -> Callable[[int], str]:
    """Make the function that names the providers of a node's slots.

    :param nodename: As for :func:`provider_name`, and so is ``style``.
    :returns: A function from DRC index to name.
    """
    return lambda drc_index: provider_name(nodename, drc_index, style)


def _fit(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{text[: room - len(digest) - 1]}~{digest}'


def slot_of_provider(name: str) -> int | None:
    """Find the DRC index in the name of a provider of ours.

    Only direct children of the compute node's provider are ours; the caller
    sees to that.

    :returns: The DRC index, or None if the name is not of our form.
    """
    match = _OURS.fullmatch(name)
    return int(match.group(1), 16) if match else None


def generated_traits(slot: slots.Slot) -> frozenset[str]:
    """Make the traits that describe a slot (specification, "Generated").

    A property that the host does not report gives no trait.
    """
    traits = set()
    for key, prop in policy.PROPERTIES.items():
        value = prop.value_in(slot)
        if value:
            traits.add(property_trait(key, value))
    return frozenset(traits)


def is_driver_trait(trait: str) -> bool:
    """Return whether a trait is one that only the driver sets and removes."""
    return trait in (OWNER_TRAIT, ONE_TIME_USE_TRAIT) or trait.startswith(
        policy.GENERATED_PREFIX
    )


def is_slot_trait(trait: str) -> bool:
    """Return whether a trait is one that describes a slot."""
    return trait.startswith(f'CUSTOM_{_TRAIT_PREFIX}')


def property_trait(key: str, value: str) -> str:
    """Make the trait that says one property of a slot.

    :param key: One of :data:`.policy.PROPERTIES`.
    :param value: Its value in the form that the file uses.
    """
    name = f'{_TRAIT_PREFIX}{key.upper()}_{value}'
    full: str = os_traits.normalize_name(name)
    return full[:_TRAIT_LIMIT]

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

"""The resource providers that the driver has to publish.

This is a second implementation of the specification's rules for slots and
inventory.yaml. The demonstration compares Placement with it, so it must not
use the code of the driver.
"""

import collections.abc
import dataclasses
import typing

import os_traits
import yaml

from demo import host

# os_traits.normalize_name adds the prefix CUSTOM_.
_GENERATED = 'POWERVM_IOSLOT_'

OWNER_NOVA = 'OWNER_NOVA'

#: The trait that device profiles require.
CYBORG_MARK = 'CUSTOM_POWERVM_CYBORG'

#: The inventory of a slot, whatever its resource class.
INVENTORY: dict[str, float] = {
    'total': 1,
    'reserved': 0,
    'min_unit': 1,
    'max_unit': 1,
    'step_size': 1,
    'allocation_ratio': 1.0,
}


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A paragraph of inventory.yaml."""

    name: str
    identification: dict[str, str]
    resource_class: str
    traits: tuple[str, ...]

    def matches(self, slot: host.Slot) -> bool:
        """Return whether the slot has all values of the paragraph."""
        return all(
            slot.properties.get(key) == value
            for key, value in self.identification.items()
        )


@dataclasses.dataclass(frozen=True)
class Owner:
    """A project that publishes slots; ``traits`` are what it adds."""

    prefix: str
    traits: tuple[str, ...]

    def provider_name(self, node: str, drc_index: str) -> str:
        """Return the name of the resource provider of a slot."""
        return f'{self.prefix} {node} {drc_index}'


NOVA = Owner('PowerVM IOSlot', (OWNER_NOVA,))
CYBORG = Owner('PowerVM Cyborg IOSlot', ('OWNER_CYBORG', CYBORG_MARK))


def read_paragraphs(text: str) -> list[Paragraph]:
    """Read the paragraphs of a valid inventory.yaml without wildcards."""
    return [
        Paragraph(
            name=name,
            identification=section['identification'],
            resource_class=section.get('resource_class', 'CUSTOM_IOSLOT'),
            traits=tuple(section.get('traits', ())),
        )
        for name, section in yaml.safe_load(text).items()
    ]


def offered(
    policy: collections.abc.Iterable[Paragraph],
    slots: collections.abc.Iterable[host.Slot],
) -> dict[str, list[str]]:
    """Return the DRC indexes of the offered slots, by paragraph name.

    Slots that a partition owns when the service starts are not offered.
    """
    return {
        paragraph.name: [
            slot.drc_index
            for slot in slots
            if slot.owner is None and paragraph.matches(slot)
        ]
        for paragraph in policy
    }


def drc_index_trait(drc_index: str) -> str:
    """Return the trait with which a flavor requests this slot."""
    return str(os_traits.normalize_name(f'{_GENERATED}DRC_INDEX_{drc_index}'))


def traits(
    slot: host.Slot, paragraph: Paragraph, owner: Owner = NOVA
) -> list[str]:
    """Return the sorted traits of the provider of a slot.

    A property that the host does not report generates no trait.
    """
    generated = (
        os_traits.normalize_name(f'{_GENERATED}{key}_{value}')
        for key, value in slot.properties.items()
    )
    return sorted({*generated, *owner.traits, *paragraph.traits})


def providers(
    policy: collections.abc.Sequence[Paragraph],
    slots: collections.abc.Sequence[host.Slot],
    node: str,
    node_uuid: str,
    owner: Owner = NOVA,
) -> dict[str, dict[str, typing.Any]]:
    """Return the expected properties of all slot providers, by name.

    :param node: the name of the compute node.
    :param node_uuid: the UUID of the compute node's provider.
    :param owner: the project whose inventory file has the paragraphs.
    """
    by_index = {slot.drc_index: slot for slot in slots}
    offers = offered(policy, slots)
    return {
        owner.provider_name(node, index): {
            'parent': node_uuid,
            'root': node_uuid,
            'inventories': {paragraph.resource_class: INVENTORY},
            'traits': traits(by_index[index], paragraph, owner),
        }
        for paragraph in policy
        for index in offers[paragraph.name]
    }

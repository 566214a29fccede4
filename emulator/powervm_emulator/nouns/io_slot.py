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

"""Physical I/O slots of a system, and who owns them.

The truth about owners is here; the ``Partition*`` elements of the system's
IOSlots and the ProfileIOSlots of partitions follow it.
"""

import dataclasses
from typing import Any

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import fields
from powervm_emulator.core import resource

# Early NovaLink servers reported the device id as PCIVendorID, and nothing or
# a made-up number as PCIDeviceID. The vendors of the devices in question, by
# device id, from the public PCI id registry.
VENDORS = {
    0x034A: 0x1014,
    0x1657: 0x14E4,
    0x168E: 0x14E4,
    0x2532: 0x1077,
    0x6750: 0x15B3,
    0x8241: 0x104C,
    0xE220: 0x10DF,
}
DRC_INDEX = 'SlotDynamicReconfigurationConnectorIndex'
DRC_NAME = 'SlotDynamicReconfigurationConnectorName'
EMPTY = 'Empty slot'
ASSIGNABLE = 'LogicalPartitionAssignmentCapable'
_ADAPTER = 'RelatedIOAdapter'
FIBRE_CHANNEL = 'PhysicalFibreChannelAdapter'
OWNER_ELEMENTS = (
    'PartitionID',
    'PartitionUUID',
    'PartitionName',
    'PartitionType',
)
# What a description of a card does not say, and an HMC reports of some.
_OLD_CARD = (
    'VitalProductDataModel',
    'VitalProductDataSerialNumber',
    'VitalProductDataType',
    'SRIOVCapableDevice',
    'SRIOVLogicalPortsLimit',
)
# The schema versions in which K2 got these elements.
_KSV = {
    'PartitionID': 'V1_3_0',
    'PartitionUUID': 'V1_6_0',
    'PartitionName': 'V1_3_0',
    'PartitionType': 'V1_3_0',
}


@dataclasses.dataclass(frozen=True)
class Owner:
    """The partition that a slot belongs to.

    It need not be a resource of this host: a captured system names owners
    that were not captured with it.
    """

    uuid: str
    id: int
    name: str
    type: str


@dataclasses.dataclass(frozen=True)
class Card:
    """What sits in a slot; the defaults are those of an empty one.

    Numbers as the REST API has them, in decimal there.
    """

    description: str = EMPTY
    vendor_id: int | None = 0xFFFF
    device_id: int | None = 0xFFFF
    subsystem_vendor_id: int | None = 0xFFFF
    subsystem_device_id: int | None = 0xFFFF
    revision_id: int | None = 0xFF
    pci_class: int | None = 0xFFFF
    feature_codes: str = '0'


class Slot:
    """One IOSlot of a system.

    :param element: the system's IOSlot element.
    """

    def __init__(self, element: content.Element) -> None:
        self.element = element
        self.owner = _reported_owner(element)

    #: The slot's number, unique in its system.
    drc_index = fields.integer(DRC_INDEX)

    @property
    def name(self) -> str:
        """The DRC index as people write it, and the location code."""
        return f'{self.drc_index:08X} ({self.drc_name})'

    #: The location code.
    drc_name = fields.text(DRC_NAME)
    #: What sits in the slot, in words.
    description = fields.text('Description')

    @property
    def is_empty(self) -> bool:
        """Whether no card is in the slot."""
        return self.description == EMPTY

    #: Whether a partition can get the slot; True if it does not say.
    assignable = fields.boolean(f'{_ADAPTER}/IOAdapter/{ASSIGNABLE}', True)

    def set_assignable(self, assignable: bool) -> None:
        """Have the slot say whether a partition can get it."""
        if content.find(self.element, _ADAPTER) is None:
            self.element.append(_related_adapter(self.element))
            elements.sort(self.element)
        path = f'{_ADAPTER}/IOAdapter/{ASSIGNABLE}'
        content.put(self.element, path, assignable).set('ksv', 'V1_2_0')

    def set_card(self, card: Card) -> None:
        """Put a card into the slot, or take it out with ``Card()``."""
        content.remove(self.element, ['FeatureCodes', *_OLD_CARD])
        drop_ports(self.element)
        values = {
            'Description': card.description,
            'FeatureCodes': card.feature_codes,
            'PCIClass': card.pci_class,
            'PCIDeviceID': card.device_id,
            'PCISubsystemDeviceID': card.subsystem_device_id,
            'PCIRevisionID': card.revision_id,
            'PCIVendorID': card.vendor_id,
            'PCISubsystemVendorID': card.subsystem_vendor_id,
        }
        for name, value in values.items():
            _put_or_remove(self.element, name, value)
        # These repeat the ids, if a system reports them at all.
        _change(self.element, 'PCAdapterID', card.device_id)
        _change(self.element, 'PCIManufacturerID', card.vendor_id)
        for flag in content.find_all(self.element, 'RelatedIBMiIOSlot/IOP'):
            flag.text = content.as_text(False)
        for path in (_ADAPTER, f'{_ADAPTER}/IOAdapter'):
            for adapter in content.find_all(self.element, path):
                set_adapter(adapter, card)
        elements.sort(self.element)

    def set_name(self, name: str) -> None:
        """Give the slot a location code."""
        content.put(self.element, DRC_NAME, name)
        _change(self.element, 'SlotPhysicalLocationCode', _place(name))
        for path in (_ADAPTER, f'{_ADAPTER}/IOAdapter'):
            for adapter in content.find_all(self.element, path):
                name_adapter(adapter, name)

    def set_related_adapter(self, adapter: content.Element) -> None:
        """Say in the slot what its adapter is, in place of what it said."""
        related = content.leaf(_ADAPTER)
        related.append(adapter)
        content.replace(self.element, related)
        elements.sort(self.element)

    def set_owner(self, owner: Owner | None, reported: bool) -> None:
        """Give the slot to a partition, or to none.

        :param reported: whether the system says who owns its slots.
        """
        self.owner = owner
        content.remove(self.element, OWNER_ELEMENTS)
        if owner is None or not reported:
            return
        values: tuple[content.Value, ...] = (
            owner.id,
            owner.uuid,
            owner.name,
            owner.type,
        )
        for name, value in zip(OWNER_ELEMENTS, values, strict=True):
            content.put(self.element, name, value).set('ksv', _KSV[name])
        elements.sort(self.element)


def drop_ports(slot: content.Element) -> None:
    """Remove an adapter with Fibre Channel ports from a slot.

    Profiles show it, and systems do not.
    """
    if content.find(slot, f'{_ADAPTER}/{FIBRE_CHANNEL}') is not None:
        content.remove(slot, [_ADAPTER])


def set_adapter(adapter: content.Element, card: Card) -> None:
    """Make an IOAdapter that of a card, as far as it says anything of it."""
    _change(adapter, 'Description', card.description)
    _change(adapter, 'UniqueDeviceID', card.device_id)


def name_adapter(adapter: content.Element, name: str) -> None:
    """Give an IOAdapter the location code of its slot."""
    _change(adapter, 'DeviceName', name)
    _change(adapter, 'DynamicReconfigurationConnectorName', name)
    _change(adapter, 'PhysicalLocation', _place(name))


def _place(name: str) -> str:
    """Return the last part of a location code, the place in its unit."""
    return name.rpartition('-')[2]


def _change(
    element: content.Element, name: str, value: content.Value | None
) -> None:
    """Change or remove a value, if it is there."""
    if content.find(element, name) is not None:
        _put_or_remove(element, name, value)


def _put_or_remove(
    element: content.Element, name: str, value: content.Value | None
) -> None:
    if value is None:
        content.remove(element, [name])
    else:
        content.put(element, name, value)


def correct_ids(slot: content.Element) -> None:
    """Put the vendor and device ids of a captured slot right, if they are not.

    Knows the wrong ones by :data:`VENDORS`; leaves all others as they are.
    """
    reported = content.integer(slot, 'PCIVendorID')
    if Slot(slot).is_empty:
        content.put(slot, 'PCIDeviceID', 0xFFFF)
    elif reported in VENDORS:
        content.put(slot, 'PCIVendorID', VENDORS[reported])
        content.put(slot, 'PCIDeviceID', reported)
    elements.sort(slot)


def new_slot(drc_index: int, drc_name: str) -> content.Element:
    """Return the element of a new slot, which has no card set yet."""
    return content.new(
        'IOSlot',
        content.leaf('BusGroupingRequired', False),
        content.leaf(DRC_INDEX, drc_index),
        content.leaf(DRC_NAME, drc_name),
    )


def associated_slot(slot: content.Element) -> content.Element:
    """Return a system's slot as profiles show it (AssociatedIOSlot)."""
    shown = content.copy(slot)
    content.remove(shown, (*OWNER_ELEMENTS, 'Metadata'))
    element = content.new('AssociatedIOSlot', *shown)
    if content.find(element, _ADAPTER) is None:
        element.append(_related_adapter(slot))
    elements.sort(element)
    return element


def _related_adapter(slot: content.Element) -> content.Element:
    adapter = content.new(
        'IOAdapter',
        content.leaf('AdapterID', content.integer(slot, DRC_INDEX)),
        content.leaf('Description', content.text(slot, 'Description')),
        content.leaf('DeviceName', content.text(slot, DRC_NAME)),
    )
    related = content.leaf(_ADAPTER)
    related.append(adapter)
    return related


def _reported_owner(element: content.Element) -> Owner | None:
    if content.find(element, 'PartitionID') is None:
        return None
    return Owner(
        content.text(element, 'PartitionUUID'),
        content.integer(element, 'PartitionID'),
        content.text(element, 'PartitionName'),
        content.text(element, 'PartitionType'),
    )


IDS = {
    'vendor_id': ('PCIVendorID', 4),
    'device_id': ('PCIDeviceID', 4),
    'subsystem_vendor_id': ('PCISubsystemVendorID', 4),
    'subsystem_device_id': ('PCISubsystemDeviceID', 4),
    'revision_id': ('PCIRevisionID', 2),
    'class': ('PCIClass', 4),
}


def hexadecimal(
    element: content.Element, name: str, digits: int
) -> str | None:
    """Return a number of a slot in hexadecimal; None if it has none."""
    if not content.text(element, name):
        return None
    return f'{content.integer(element, name):0{digits}X}'


def card(spec: resource.JSON) -> Card:
    """Return the card that the specification of a slot describes.

    The card does not report ids that the specification omits. A slot
    without a description is empty.
    """
    if 'description' not in spec:
        return Card()
    ids: dict[str, Any] = {
        # The word that a description uses is a keyword of Python.
        'pci_class' if key == 'class' else key: (
            int(spec[key], 16) if spec.get(key) is not None else None
        )
        for key in IDS
    }
    return Card(
        description=spec['description'],
        feature_codes=spec.get('feature_codes', '0'),
        **ids,
    )

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

"""ManagedSystems that world documents describe."""

from typing import Any

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import resource
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system

# Template of systems that name no capture.
TEMPLATE: resource.JSON = {'file': 'sys_with_sriov.txt', 'slots': []}
SRIOV = f'{managed_system.IO}/SRIOVAdapters'


def build_slot(system: managed_system.System, spec: resource.JSON) -> None:
    """Create or change one slot of a system as its specification says.

    :raises errors.WorldError: the slot cannot have an adapter for SR-IOV.
    """
    drc_index = int(spec['drc_index'], 16)
    slot = system.find_slot(drc_index)
    if slot is None:
        name = spec.get('drc_name', default_name(system, drc_index))
        slot = system.add_slot(io_slot.new_slot(drc_index, name))
        system.set_card(slot, io_slot.card(spec))
    elif 'description' in spec:
        system.set_card(slot, io_slot.card(spec))
    if 'assignable' in spec:
        slot.set_assignable(spec['assignable'])
    if 'bus_group_required' in spec:
        content.put(
            slot.element, 'BusGroupingRequired', spec['bus_group_required']
        )
    if 'drc_name' in spec:
        system.name_slot(slot, spec['drc_name'])
    if spec.get('sriov'):
        _set_sriov(system, slot)
    elif 'sriov' in spec:
        system.remove_sriov(drc_index)


def default_name(system: managed_system.System, drc_index: int) -> str:
    """Return the location code of a slot without a specified one."""
    return f'U78D2.001.{system.serial}-P1-C{drc_index & 0xFFFF}'


def _set_sriov(system: managed_system.System, slot: io_slot.Slot) -> None:
    """Put the adapter in a slot into SR-IOV mode, with captured ports."""
    if slot.is_empty:
        raise errors.WorldError(
            [f'slot {slot.name}: sriov needs an adapter, and it is empty']
        )
    if slot.owner is not None:
        raise errors.WorldError(
            [
                f'slot {slot.name}: an adapter in SR-IOV mode has no owner, '
                f'and it belongs to {slot.owner.name!r}'
            ]
        )
    section = content.section(system.element, SRIOV)
    adapter = None
    for choice in content.find_all(section, 'IOAdapterChoice'):
        if content.integer(choice, 'SRIOVAdapter/AdapterID') == slot.drc_index:
            adapter = content.section(choice, 'SRIOVAdapter')
    if adapter is None:
        captured = captures.find(TEMPLATE, managed_system.KIND)
        choice = content.section(captured.element, f'{SRIOV}/IOAdapterChoice')
        section.append(choice)
        adapter = content.section(choice, 'SRIOVAdapter')
    old_name = content.text(adapter, 'PhysicalLocation')
    number = len(content.find_all(section, 'IOAdapterChoice'))
    content.put(adapter, 'AdapterID', slot.drc_index)
    content.put(adapter, 'AdapterMode', 'Sriov')
    content.put(adapter, 'SRIOVAdapterID', number)
    for node in adapter.iter():
        if node.text and node.text.startswith(old_name):
            node.text = slot.drc_name + node.text[len(old_name) :]


SCHEMA: dict[str, Any] = {
    'type': 'object',
    'additionalProperties': False,
    'properties': {
        'capture': {'$ref': '#/$defs/capture'},
        'uuid': {'$ref': '#/$defs/uuid_or_random'},
        'name': {
            'description': 'SystemName. Required without capture.',
            'type': 'string',
            'minLength': 1,
        },
        'machine_type': {
            'description': 'Four characters, such as 9009.',
            'type': 'string',
            'pattern': '^[0-9A-Z]{4}$',
        },
        'model': {
            'description': 'Three characters, such as 22A.',
            'type': 'string',
            'pattern': '^[0-9A-Z]{3}$',
        },
        'serial': {
            'description': 'The serial number, seven characters.',
            'type': 'string',
            'pattern': '^[0-9A-Z]{7}$',
        },
        'memory': {
            'type': 'object',
            'additionalProperties': False,
            'properties': {
                'configurable': {
                    'description': 'MB that the machine has.',
                    'type': 'integer',
                    'minimum': 0,
                },
                'hypervisor': {
                    'description': 'MB of them that the hypervisor keeps.',
                    'type': 'integer',
                    'minimum': 0,
                },
                'region_size': {
                    'description': 'MB; memory of partitions is a multiple.',
                    'type': 'integer',
                    'minimum': 1,
                },
            },
        },
        'processors': {
            'type': 'object',
            'additionalProperties': False,
            'properties': {
                'configurable': {
                    'description': 'Processor units that the machine has.',
                    'type': 'number',
                    'minimum': 0,
                },
                'compatibility_modes': {
                    'description': (
                        'From the oldest to the newest, default first.'
                    ),
                    'type': 'array',
                    'minItems': 1,
                    'items': {'type': 'string'},
                },
            },
        },
        'reports_slot_owners': {
            'description': (
                'Whether IOSlots say whose they are. If false, only the '
                'profiles of partitions do. The default is true, and what '
                'was captured for a capture.'
            ),
            'type': 'boolean',
        },
        'slot_owner_capability': {
            'description': (
                'Whether the system claims that IOSlots say whose they are '
                '(IOSlotOwnerAssignmentCapable). The default is '
                'reports_slot_owners; false beside it is a system that names'
                ' owners and does not claim to name all of them.'
            ),
            'type': 'boolean',
        },
        'slots': {
            'description': (
                'I/O slots; one with the DRC index of a captured slot '
                'changes that one.'
            ),
            'type': 'array',
            'items': {
                'type': 'object',
                'additionalProperties': False,
                'required': ['drc_index'],
                'properties': {
                    'drc_index': {'$ref': '#/$defs/drc_index'},
                    'drc_name': {
                        'description': (
                            'The location code. Without it one is made from '
                            'the DRC index.'
                        ),
                        'type': 'string',
                        'minLength': 1,
                    },
                    'description': {
                        'description': (
                            'Of the card. A new slot without it is empty.'
                        ),
                        'type': 'string',
                        'minLength': 1,
                    },
                    'vendor_id': {'$ref': '#/$defs/pci_id'},
                    'device_id': {'$ref': '#/$defs/pci_id'},
                    'subsystem_vendor_id': {'$ref': '#/$defs/pci_id'},
                    'subsystem_device_id': {'$ref': '#/$defs/pci_id'},
                    'class': {
                        'description': (
                            'PCI class and subclass, such as 0302 for a 3D '
                            'controller.'
                        ),
                        '$ref': '#/$defs/pci_id',
                    },
                    'revision_id': {
                        'description': 'Two hexadecimal digits, in quotes.',
                        'type': ['string', 'null'],
                        'pattern': '^[0-9a-fA-F]{2}$',
                    },
                    'feature_codes': {'type': 'string'},
                    'bus_group_required': {
                        'description': (
                            'BusGroupingRequired. It is reported; no rule '
                            'follows from it here.'
                        ),
                        'type': 'boolean',
                    },
                    'assignable': {
                        'description': 'False: no partition can get the slot.',
                        'type': 'boolean',
                    },
                    'sriov': {
                        'description': (
                            'True: the adapter is in SR-IOV mode, the '
                            'hypervisor owns it.'
                        ),
                        'type': 'boolean',
                    },
                    'owner': {
                        'description': (
                            'The name of the partition that the slot belongs'
                            ' to.'
                        ),
                        '$ref': '#/$defs/name',
                    },
                },
            },
        },
    },
}

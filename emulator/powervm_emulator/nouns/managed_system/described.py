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
from powervm_emulator.core import shapes
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.fibre_channel import ports
from powervm_emulator.nouns.managed_system import model as managed_system

# Template of systems that name no capture.
TEMPLATE: resource.JSON = {'file': 'sys_with_sriov.txt', 'slots': []}
SRIOV = f'{managed_system.IO}/SRIOVAdapters'
#: Keys of capabilities to their elements, in their order, and their meaning.
CAPABILITIES = {
    'simplified_remote_restart': (
        managed_system.REMOTE_RESTART,
        'Partitions can be made ready for simplified remote restart. The '
        'default is true without capture.',
    ),
    'simplified_remote_restart_toggle': (
        managed_system.REMOTE_RESTART_TOGGLE,
        'Active ones too. The default is false without capture.',
    ),
    'live_migration': (
        managed_system.LIVE_MIGRATION,
        'Running partitions can migrate from it and to it. The default is '
        'true without capture.',
    ),
    'secure_boot': (
        managed_system.SECURE_BOOT,
        'Partitions can have a secure boot policy. The default is false '
        'without capture.',
    ),
}


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
    if 'fibre_channel_ports' in spec:
        ports.build(system, slot, spec['fibre_channel_ports'])


def default_name(system: managed_system.System, drc_index: int) -> str:
    """Return the location code of a slot without a specified one."""
    return f'U78D2.001.{system.serial}-P1-C{drc_index & 0xFFFF}'


def _set_sriov(system: managed_system.System, slot: io_slot.Slot) -> None:
    """Put the adapter in a slot into SR-IOV mode, with captured ports."""
    if slot.is_empty:
        raise errors.WorldError(
            f'slot {slot.name}: sriov needs an adapter, and it is empty'
        )
    if slot.owner is not None:
        raise errors.WorldError(
            f'slot {slot.name}: an adapter in SR-IOV mode has no owner, '
            f'and it belongs to {slot.owner.name!r}'
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


SCHEMA: dict[str, Any] = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'uuid': shapes.ref('uuid_or_random'),
        'name': shapes.text('SystemName. Required without capture.'),
        'machine_type': shapes.value(
            'string', 'Four characters, such as 9009.', pattern='^[0-9A-Z]{4}$'
        ),
        'model': shapes.value(
            'string', 'Three characters, such as 22A.', pattern='^[0-9A-Z]{3}$'
        ),
        'serial': shapes.value(
            'string',
            'The serial number, seven characters. Machine type, model and '
            'serial number together are different for each system of a site.',
            pattern='^[0-9A-Z]{7}$',
        ),
        'memory': shapes.record(
            {
                'configurable': shapes.value(
                    'integer', 'MB that the machine has.', minimum=0
                ),
                'hypervisor': shapes.value(
                    'integer',
                    'MB of them that the hypervisor keeps, without its share '
                    'for each partition.',
                    minimum=0,
                ),
                'region_size': shapes.value(
                    'integer',
                    'MB; memory of partitions is a multiple.',
                    minimum=1,
                ),
            }
        ),
        'processors': shapes.record(
            {
                'configurable': shapes.value(
                    'number',
                    'Processor units that the machine has.',
                    minimum=0,
                ),
                'compatibility_modes': shapes.array(
                    shapes.value('string'),
                    'From the oldest to the newest, default first.',
                    minItems=1,
                ),
                'minimum_units': shapes.value(
                    'number',
                    'Processor units that a virtual processor needs at '
                    'least; 0.05 without capture.',
                    exclusiveMinimum=0,
                    maximum=1,
                ),
                'desired_limit': shapes.value(
                    'integer',
                    'The most processors, virtual or dedicated ones, that a '
                    'partition can have; 64 without capture.',
                    minimum=1,
                ),
                'maximum_limit': shapes.value(
                    'integer',
                    'The most that its maximum can be; 256 without capture.',
                    minimum=1,
                ),
            }
        ),
        'capabilities': shapes.record(
            {
                key: shapes.boolean(words)
                for key, (_path, words) in CAPABILITIES.items()
            }
            | {
                'aix': shapes.choice(
                    ['Active', 'Inactive', 'Unavailable'],
                    'What AIXCapable says. By default it is not reported, as '
                    'by most captured systems, or as it was captured.',
                )
            }
        ),
        'migrations': shapes.value(
            'integer',
            'How many partitions can migrate at once; 16 without capture.',
            minimum=0,
        ),
        'reports_slot_owners': shapes.boolean(
            'Whether IOSlots say whose they are. If false, only the profiles '
            'of partitions do. The default is true, and what was captured '
            'for a capture.'
        ),
        'slot_owner_capability': shapes.boolean(
            'Whether the system claims that IOSlots say whose they are '
            '(IOSlotOwnerAssignmentCapable). The default is '
            'reports_slot_owners; false beside it is a system that names '
            'owners and does not claim to name all of them.'
        ),
        'slots': shapes.array(
            shapes.record(
                {
                    'drc_index': shapes.ref('drc_index'),
                    'drc_name': shapes.text(
                        'The location code. Without it one is made from the '
                        'DRC index.'
                    ),
                    'description': shapes.text(
                        'Of the card. A new slot without it is empty, and a '
                        'captured one keeps its card. IDs and feature codes '
                        'require it.'
                    ),
                    'vendor_id': shapes.ref('pci_id'),
                    'device_id': shapes.ref('pci_id'),
                    'subsystem_vendor_id': shapes.ref('pci_id'),
                    'subsystem_device_id': shapes.ref('pci_id'),
                    'class': shapes.ref(
                        'pci_id',
                        'PCI class and subclass, such as 0302 for a 3D '
                        'controller.',
                    ),
                    'revision_id': shapes.value(
                        ['string', 'null'],
                        'Two hexadecimal digits, in quotes.',
                        pattern='^[0-9a-fA-F]{2}$',
                    ),
                    'feature_codes': shapes.value('string', 'Of the card.'),
                    'bus_group_required': shapes.boolean(
                        'BusGroupingRequired. It is reported; no rule '
                        'follows from it here.'
                    ),
                    'assignable': shapes.boolean(
                        'False: no partition can get the slot. Without it, '
                        'the property is not reported, and partitions can.'
                    ),
                    'sriov': shapes.boolean(
                        'True: the adapter is in SR-IOV mode, and the '
                        'hypervisor has it. The slot is neither empty nor '
                        'owned.'
                    ),
                    'fibre_channel_ports': shapes.array(
                        ports.SCHEMA,
                        'The ports of the adapter, which are those of the '
                        'owner of the slot.',
                    ),
                    'owner': shapes.ref(
                        'name',
                        'The name of the partition whose profile contains the '
                        'slot.',
                    ),
                },
                required=['drc_index'],
            ),
            'I/O slots; one with the DRC index of a captured slot changes '
            'that one.',
        ),
    }
)

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

"""Building the resources that a world document describes."""

from typing import Any

from nova_powervm.emulator import captures
from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import ownership
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import slots as slots_module
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.worlds import network
from nova_powervm.emulator.worlds import partitions

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
System = system_module.System
Spec = dict[str, Any]

# Template of systems that name no capture.
_TEMPLATE: Spec = {'file': 'sys_with_sriov.txt', 'slots': []}
_SRIOV = f'{system_module.IO}/SRIOVAdapters'
_HEX_KEYS = {
    'vendor_id': 'vendor_id',
    'device_id': 'device_id',
    'subsystem_vendor_id': 'subsystem_vendor_id',
    'subsystem_device_id': 'subsystem_device_id',
    'revision_id': 'revision_id',
    'class': 'pci_class',
}


def build(host: Host, world: Spec) -> None:
    """Fill an empty host with the resources of a world, without events."""
    rmc_state = world.get('rmc_after_power_on')
    if rmc_state is not None:
        host.behaviour.rmc_after_power_on = rmc_state
    for spec in world['systems']:
        _build_system(host, spec)


def _build_system(host: Host, spec: Spec) -> None:
    capture_spec = spec.get('capture', _TEMPLATE)
    capture = captures.get(
        capture_spec['file'], capture_spec.get('entry', 0), system_module.KIND
    )
    element = capture.element
    _choose_slots(element, capture_spec)
    reports = _reports_owners(element, spec)
    _describe(element, spec)
    named = capture.uuid if 'capture' in spec else 'random'
    uuid = spec.get('uuid', named)
    if uuid == 'random':
        uuid = host.new_uuid()
    if uuid != capture.uuid:
        content.put(element, 'Metadata/Atom/AtomID', uuid)
    system = System(uuid.lower(), element)
    system.reports_owners = reports
    host.add(system, quiet=True)
    for slot_spec in spec.get('slots', ()):
        build_slot(system, slot_spec)
    owners = {
        slot['drc_index']: slot['owner']
        for slot in spec.get('slots', ())
        if 'owner' in slot
    }
    made = partitions.build(host, system, spec)
    network.build(host, system, spec, made)
    _assign(host, system, owners)
    ownership.seed(host, system)
    _count_capacity(host, system, spec)


def _reports_owners(element: Element, spec: Spec) -> bool:
    """Decide whether slots report owners; set the system's capability."""
    described = 'capture' not in spec or 'reports_slot_owners' in spec
    captured = content.boolean(element, system_module.OWNER_CAPABILITY)
    reports: bool = spec.get(
        'reports_slot_owners', captured or 'capture' not in spec
    )
    if described or 'slot_owner_capability' in spec:
        content.put(
            element,
            system_module.OWNER_CAPABILITY,
            spec.get('slot_owner_capability', reports),
        )
    return reports


def _choose_slots(element: Element, spec: Spec) -> None:
    """Remove unwanted captured slots and their adapters."""
    if spec.get('correct_ids'):
        for slot in content.find_all(
            element, f'{system_module.IO}/IOSlots/IOSlot'
        ):
            captures.correct_ids(slot)
    if 'slots' not in spec:
        return
    wanted = {int(index, 16) for index in spec['slots']}
    for slot in content.find_all(
        element, f'{system_module.IO}/IOSlots/IOSlot'
    ):
        if content.integer(slot, slots_module.DRC_INDEX) not in wanted:
            slot.getparent().remove(slot)
    path = f'{_SRIOV}/IOAdapterChoice'
    for choice in content.find_all(element, path):
        index = content.integer(choice, 'SRIOVAdapter/AdapterID')
        if index not in wanted:
            choice.getparent().remove(choice)


def _describe(element: Element, spec: Spec) -> None:
    """Set the properties of a system that its specification names."""
    memory = spec.get('memory', {})
    processors = spec.get('processors', {})
    section = system_module.MEMORY
    mtms = system_module.MTMS
    values = {
        'SystemName': spec.get('name'),
        f'{mtms}/MachineType': spec.get('machine_type'),
        f'{mtms}/Model': spec.get('model'),
        f'{mtms}/SerialNumber': spec.get('serial'),
        f'{section}/ConfigurableSystemMemory': memory.get('configurable'),
        f'{section}/InstalledSystemMemory': memory.get('configurable'),
        f'{section}/MemoryUsedByHypervisor': memory.get('hypervisor'),
        f'{section}/MemoryRegionSize': memory.get('region_size'),
    }
    for kind in ('Configurable', 'Installed'):
        path = f'{system_module.PROCESSORS}/{kind}SystemProcessorUnits'
        values[path] = processors.get('configurable')
    for path, value in values.items():
        if value is not None:
            content.put(element, path, value)
    if 'compatibility_modes' in processors:
        _set_modes(element, processors['compatibility_modes'])


def _set_modes(element: Element, modes: list[str]) -> None:
    section = content.section(element, system_module.PROCESSORS)
    name = system_module.COMPATIBILITY.rpartition('/')[2]
    old = content.find_all(section, name)
    place = section.index(old[0]) if old else len(section)
    content.remove(section, [name])
    for offset, mode in enumerate(modes):
        section.insert(place + offset, content.leaf(name, mode))


def build_slot(system: System, spec: Spec) -> None:
    """Create or change one slot of a system as its specification says."""
    drc_index = int(spec['drc_index'], 16)
    slot = system.find_slot(drc_index)
    if slot is None:
        name = spec.get('drc_name', default_name(system, drc_index))
        slot = system.add_slot(slots_module.new_slot(drc_index, name))
        slot.set_card(card(spec))
    elif 'description' in spec:
        slot.set_card(card(spec))
    if 'assignable' in spec:
        slot.set_assignable(spec['assignable'])
    if 'bus_group_required' in spec:
        content.put(
            slot.element, 'BusGroupingRequired', spec['bus_group_required']
        )
    if 'drc_name' in spec:
        content.put(slot.element, slots_module.DRC_NAME, spec['drc_name'])
    if spec.get('sriov'):
        _set_sriov(system, slot)


def default_name(system: System, drc_index: int) -> str:
    """Return the location code of a slot without a specified one."""
    return f'U78D2.001.{system.serial}-P1-C{drc_index & 0xFFFF}'


def card(spec: Spec) -> slots_module.Card:
    """Return the card that the specification of a slot describes.

    The card does not report ids that the specification omits. A slot
    without a description is empty.
    """
    if 'description' not in spec:
        return slots_module.Card()
    ids: dict[str, Any] = {
        name: int(spec[key], 16) if spec.get(key) is not None else None
        for key, name in _HEX_KEYS.items()
    }
    return slots_module.Card(
        description=spec['description'],
        feature_codes=spec.get('feature_codes', '0'),
        **ids,
    )


def _set_sriov(system: System, slot: slots_module.Slot) -> None:
    """Put the adapter in a slot into SR-IOV mode, with captured ports."""
    section = content.section(system.element, _SRIOV)
    adapter = None
    for choice in content.find_all(section, 'IOAdapterChoice'):
        if content.integer(choice, 'SRIOVAdapter/AdapterID') == slot.drc_index:
            adapter = content.section(choice, 'SRIOVAdapter')
    if adapter is None:
        captured = captures.get(_TEMPLATE['file'], 0, system_module.KIND)
        choice = content.section(captured.element, f'{_SRIOV}/IOAdapterChoice')
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


def _assign(host: Host, system: System, owners: dict[str, str]) -> None:
    """Assign slots to the owners that the world names."""
    named = {other.name: other for other in host.of_type(Partition, system)}
    for drc_index, name in owners.items():
        if name not in named:
            raise errors.WorldError([f'unknown partition {name!r}'])
        slot = system.get_slot(int(drc_index, 16))
        partition = named[name]
        slot.set_owner(partition.owner, system.reports_owners)
        if slot.drc_index not in partition.profile_slots:
            partition.add_profile_slot(slot, required=False)


def _count_capacity(host: Host, system: System, spec: Spec) -> None:
    """Compute available memory and processors unless captured."""
    active = [
        partition
        for partition in host.of_type(Partition, system)
        if partition.is_active
    ]
    memory = system_module.MEMORY
    if 'memory' in spec or 'capture' not in spec:
        free = system.integer(f'{memory}/ConfigurableSystemMemory')
        free -= system.integer(f'{memory}/MemoryUsedByHypervisor')
        free -= sum(partition.memory for partition in active)
        for kind in ('Current', 'Pending'):
            system.put(f'{memory}/{kind}AvailableSystemMemory', free)
    processors = system_module.PROCESSORS
    if 'processors' in spec or 'capture' not in spec:
        units = system.number(f'{processors}/ConfigurableSystemProcessorUnits')
        units -= sum(partition.units for partition in active)
        for kind in ('Current', 'Pending'):
            name = f'{kind}AvailableSystemProcessorUnits'
            system.put(f'{processors}/{name}', round(units, 2))

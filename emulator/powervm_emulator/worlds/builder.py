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

import dataclasses
from collections.abc import Sequence
from typing import Any

from powervm_emulator import nouns
from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.fibre_channel import ports
from powervm_emulator.nouns.managed_system import described as system_described
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import described
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import ownership

Element = content.Element
System = managed_system.System
Partition = partition_module.Partition
Host = host_module.Host


Spec = dict[str, Any]


def build(host: Host, world: Spec) -> None:
    """Fill an empty host with the resources of a world, without events."""
    rmc_state = world.get('rmc_after_power_on')
    if rmc_state is not None:
        host.behaviour.rmc_after_power_on = rmc_state
    host.behaviour.guests_have_rsct = world.get('guests_have_rsct', False)
    host.behaviour.guests_configure_rmc = world.get(
        'guests_configure_rmc', False
    )
    host.behaviour.residue = world.get('residue', '')
    host.behaviour.hmc = world.get('hmc', '')
    for spec in world['systems']:
        _build_system(host, spec)
    for noun in nouns.NOUNS:
        key = noun.world
        if key is not None and key.build is not None and not key.holders:
            key.build(host, None, world.get(key.name, key.default))
    _check_serials(host)
    ports.check_unique(host)


def _check_serials(host: Host) -> None:
    """Refuse systems that say of themselves to be the same machine.

    Location codes, and names of disks, are made of serial numbers.

    :raises errors.WorldError: two of a site do.
    """
    known: dict[str, System] = {}
    others = [one for one in host.site.hosts if one is not host]
    for system in (
        system for one in (*others, host) for system in one.of_type(System)
    ):
        other = known.setdefault(system.mtms, system)
        if other is not system:
            raise errors.WorldError(
                f'{other.name!r} and {system.name!r} are both the '
                f'machine {system.mtms}: give each a serial of its own'
            )


def _build_system(host: Host, spec: Spec) -> None:
    capture_spec = spec.get('capture', system_described.TEMPLATE)
    capture = captures.find(capture_spec, managed_system.KIND)
    element = capture.element
    _describe(element, spec)
    reports = _reports_owners(element, spec)
    named = capture.uuid if 'capture' in spec else 'random'
    uuid = spec.get('uuid', named)
    if uuid == 'random':
        uuid = host.new_uuid()
    if uuid != capture.uuid:
        content.put(element, 'Metadata/Atom/AtomID', uuid)
    system = System(uuid.lower(), element)
    system.reports_owners = reports
    host.add(system, quiet=True)
    _choose_slots(system, capture_spec)
    _build_slots(system, spec)
    made = described.build(host, system, spec)
    _show_slots(host, system, spec)
    _build_nouns(host, [(system, spec), *made])
    _assign(host, system, spec)
    ownership.seed(host, system)
    promised = [one for one, its_spec in made if 'capture' not in its_spec]
    _count_capacity(host, system, spec, promised)


def _reports_owners(element: Element, spec: Spec) -> bool:
    """Decide whether slots report owners; set the system's capability."""
    described = 'capture' not in spec or 'reports_slot_owners' in spec
    captured = content.boolean(element, managed_system.OWNER_CAPABILITY)
    reports: bool = spec.get(
        'reports_slot_owners', captured or 'capture' not in spec
    )
    if described or 'slot_owner_capability' in spec:
        content.put(
            element,
            managed_system.OWNER_CAPABILITY,
            spec.get('slot_owner_capability', reports),
        )
    return reports


def _choose_slots(system: System, spec: Spec) -> None:
    """Keep the wanted slots of a capture, and correct their ids.

    :param spec: the key ``capture`` of the system.
    :raises errors.WorldError: the capture does not have a wanted slot.
    """
    wanted = {int(index, 16) for index in spec.get('slots', ())}
    for drc_index in wanted:
        if system.find_slot(drc_index) is None:
            raise errors.WorldError(
                f'{system.name} was captured without slot {drc_index:08X}'
            )
    for slot in system.slots():
        if 'slots' in spec and slot.drc_index not in wanted:
            system.remove_slot(slot.drc_index)
        elif spec.get('correct_ids'):
            io_slot.correct_ids(slot.element)


def _describe(element: Element, spec: Spec) -> None:
    """Set the properties of a system that its specification names."""
    memory = spec.get('memory', {})
    processors = spec.get('processors', {})
    section = managed_system.MEMORY
    mtms = managed_system.MTMS
    values = {
        'SystemName': spec.get('name'),
        f'{mtms}/MachineType': spec.get('machine_type'),
        f'{mtms}/Model': spec.get('model'),
        f'{mtms}/SerialNumber': spec.get('serial'),
        f'{section}/ConfigurableSystemMemory': memory.get('configurable'),
        f'{section}/InstalledSystemMemory': memory.get('configurable'),
        f'{section}/MemoryUsedByHypervisor': memory.get('hypervisor'),
        f'{section}/MemoryRegionSize': memory.get('region_size'),
        managed_system.MOST_MIGRATIONS: spec.get('migrations'),
        managed_system.UNITS_PER_PROCESSOR: processors.get('minimum_units'),
    }
    for kind in ('Configurable', 'Installed'):
        path = f'{managed_system.PROCESSORS}/{kind}SystemProcessorUnits'
        values[path] = processors.get('configurable')
    for current, allowed in managed_system.LIMITS.values():
        for environment in managed_system.ENVIRONMENTS:
            name = f'{current}Per{environment}Partition'
            path = f'{managed_system.PROCESSORS}/{name}'
            values[path] = processors.get('desired_limit')
        path = f'{managed_system.PROCESSORS}/{allowed}'
        values[path] = processors.get('maximum_limit')
    capabilities = spec.get('capabilities', {})
    for key, (path, _words) in system_described.CAPABILITIES.items():
        values[path] = capabilities.get(key)
    values[managed_system.AIX] = capabilities.get('aix')
    for path, value in values.items():
        if value is not None:
            content.put(element, path, value)
    if 'compatibility_modes' in processors:
        _set_modes(element, processors['compatibility_modes'])


def _set_modes(element: Element, modes: list[str]) -> None:
    section = content.section(element, managed_system.PROCESSORS)
    name = managed_system.COMPATIBILITY.rpartition('/')[2]
    old = content.find_all(section, name)
    place = section.index(old[0]) if old else len(section)
    content.remove(section, [name])
    for offset, mode in enumerate(modes):
        section.insert(place + offset, content.leaf(name, mode))


def _build_slots(system: System, spec: Spec) -> None:
    """Create and change the slots that the world describes."""
    if 'reports_slot_owners' in spec:
        for slot in system.slots():
            slot.set_owner(slot.owner, system.reports_owners)
    for slot_spec in spec.get('slots', ()):
        system_described.build_slot(system, slot_spec)


def _show_slots(host: Host, system: System, spec: Spec) -> None:
    """Show the described slots in the profiles of captured partitions."""
    described = {int(one['drc_index'], 16) for one in spec.get('slots', ())}
    for partition in host.of_type(Partition, system):
        for drc_index in described.intersection(partition.profile_slots):
            partition.show_profile_slot(system.get_slot(drc_index))


def _assign(host: Host, system: System, spec: Spec) -> None:
    """Assign slots to the owners that the world names."""
    named = {other.name: other for other in host.of_type(Partition, system)}
    for slot_spec in spec.get('slots', ()):
        if 'owner' not in slot_spec:
            continue
        name = slot_spec['owner']
        if name not in named:
            raise errors.WorldError(
                f'{system.name}: unknown partition {name!r} owns a slot'
            )
        slot = system.get_slot(int(slot_spec['drc_index'], 16))
        if system.in_sriov_mode(slot):
            raise errors.WorldError(
                f'slot {slot.name}: an adapter in SR-IOV mode has no owner'
            )
        partition = named[name]
        slot.set_owner(partition.owner, system.reports_owners)
        if slot.drc_index not in partition.profile_slots:
            partition.add_profile_slot(slot, required=False)


def _count_capacity(
    host: Host, system: System, spec: Spec, promised: Sequence[Partition]
) -> None:
    """Take what active partitions hold from what the system has.

    What a captured system has available is without the captured partitions,
    unless the world gives it another amount in all.

    :param promised: the described partitions, active or not.
    :raises errors.WorldError: they need more than the system has.
    """
    free = system.available
    memory = 'memory' in spec or 'capture' not in spec
    processors = 'processors' in spec or 'capture' not in spec
    if memory:
        free = dataclasses.replace(free, memory=_memory(system))
        system.set_memory(free.memory)
    if processors:
        free = dataclasses.replace(free, units=system.units)
        system.set_units(free.units)
    wanted = managed_system.Amounts()
    for one in promised:
        wanted += partition_module.amounts_of(system, one.element)
    _check_promise(
        system,
        "MB of memory with the hypervisor's share",
        wanted.total_memory,
        free.memory,
    )
    _check_promise(system, 'processor units', wanted.units, free.units)
    for one in host.of_type(Partition, system):
        held = one.held
        if one not in promised and not memory:
            held = managed_system.Amounts(units=held.units)
        if one not in promised and not processors:
            held = dataclasses.replace(held, units=0.0)
        system.take(held)


def _memory(system: System) -> int:
    """Return the MB of memory that partitions can have.

    :raises errors.WorldError: the hypervisor needs more than there is.
    """
    section = managed_system.MEMORY
    configurable = system.integer(f'{section}/ConfigurableSystemMemory')
    hypervisor = system.integer(f'{section}/MemoryUsedByHypervisor')
    if hypervisor > configurable:
        raise errors.WorldError(
            f'{system.name}: the hypervisor needs {hypervisor} MB of '
            f'memory, and {configurable} MB are configurable'
        )
    return configurable - hypervisor


def _check_promise(
    system: System, what: str, promised: float, free: float
) -> None:
    if round(promised - free, 2) > 0:
        raise errors.WorldError(
            f'{system.name}: the partitions need {promised:g} {what}, and '
            f'there are {free:g} for them'
        )


def _build_nouns(
    host: Host, holders: Sequence[tuple[resource.Resource, Spec]]
) -> None:
    """Build what the descriptions of systems and partitions hold.

    :param holders: each with its description.
    :raises errors.RestError: a rule of the host forbids something in it.
    """
    for noun in nouns.NOUNS:
        key = noun.world
        if key is None or key.build is None:
            continue
        for holder, spec in holders:
            if holder.kind in key.holders:
                key.build(host, holder, spec.get(key.name, key.default))

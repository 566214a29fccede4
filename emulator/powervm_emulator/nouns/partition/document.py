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

"""What the host itself puts into a partition's content.

Clients send the desired values; everything here is read-only to them and is
made again after every change.
"""

import uuid as uuid_module
import zlib
from collections.abc import Iterable

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

Partition = partition_module.Partition
REFERENCE_OFF = '00000000'
REFERENCE_ON = {
    partition_module.AIX_LINUX: 'Linux ppc64le',
    partition_module.VIOS_TYPE: '',
    partition_module.IBM_I: '00000000',
}
# Firmware without the memory or processors that a partition asks for.
_REFERENCE_FAILED = 'B2001230'
# The sections of a VIOS that belong to extended groups, and their groups.
_VIOS_SECTIONS = {
    'MediaRepositories': 'ViosStorage',
    'PhysicalVolumes': 'ViosStorage',
    'SharedEthernetAdapters': 'ViosNetwork',
    'StoragePools': 'ViosStorage',
    'TrunkAdapters': 'ViosNetwork',
    'VirtualFibreChannelMappings': 'ViosFCMapping',
    'VirtualSCSIMappings': 'ViosSCSIMapping',
    'FreeIOAdaptersForLinkAggregation': 'ViosNetwork',
    'FreeEthenetBackingDevicesForSEA': 'ViosNetwork',
}
# An element that clients write, and that is its extended group.
_NVRAM = 'PartitionNVRAM'
# The parts of a content that clients and the emulator write.
WRITTEN = (
    '.',
    partition_module.IO,
    partition_module.MEMORY,
    partition_module.PROCESSORS,
    partition_module.SHARED,
    partition_module.DEDICATED,
)
# What memory has, and the element of what it is to have.
_CURRENT_MEMORY = {
    'CurrentBarrierSynchronizationRegisterArrays': (
        'BarrierSynchronizationRegisterArrayCount'
    ),
    'CurrentExpansionFactor': 'ExpansionFactor',
    'CurrentHardwarePageTableRatio': 'HardwarePageTableRatio',
    'CurrentHugePageCount': 'DesiredHugePageCount',
    'CurrentMaximumHugePageCount': 'MaximumHugePageCount',
    'CurrentMinimumHugePageCount': 'MinimumHugePageCount',
    'RuntimeHugePageCount': 'DesiredHugePageCount',
}
_DLPAR = ('IO', 'Memory', 'Processor')
# How the values begin that an active partition keeps until its next boot.
_KEPT = ('CurrentMaximum', 'CurrentMinimum', 'RuntimeMinimum')


def set_defaults(partition: Partition) -> None:
    """Fill in what a new partition's content does not say."""
    # Clients add slots to the section where they find it.
    content.section(partition.element, partition_module.PROFILE_SLOTS)
    if partition.kind == partition_module.VIOS:
        _add_vios_sections(partition.element)
    set_group(partition.element)
    for path in WRITTEN:
        part = content.find(partition.element, path)
        if part is not None:
            elements.fill(part)


def set_group(element: content.Element) -> None:
    """Let only requests that name its group show the NVRAM, if there is one.

    A client does not say the group of an element that it adds.
    """
    nvram = content.find(element, _NVRAM)
    if nvram is not None:
        nvram.set('group', 'NVRAM')


def set_identity(partition: Partition, partition_id: int, mac: int) -> None:
    """Write the values that never change after creation.

    :param mac: MACAddressPrefix, a number that no other partition has.
    """
    system = partition.system
    partition.put('PartitionUUID', partition.uuid)
    partition.put('PartitionID', partition_id)
    partition.put('LogicalSerialNumber', f'{system.serial}{partition_id:X}')
    partition.put('MACAddressPrefix', mac)
    link = content.leaf('AssociatedManagedSystem')
    link.set('href', system.path)
    link.set('rel', 'related')
    content.replace(partition.element, link)


def set_profile(partition: Partition, name: str) -> None:
    """Give a partition a profile that follows its configuration."""
    kind = partition_module.PROFILE
    uuid = uuid_module.uuid3(uuid_module.UUID(partition.uuid), kind)
    path = f'{partition.path}/{kind}/{uuid}'
    link = content.link(path, partition_module.PROFILE_LINK)
    content.replace(partition.element, link)
    profiles = content.leaf('PartitionProfiles')
    profiles.append(content.link(path))
    content.replace(partition.element, profiles)
    for key in ('DefaultProfileName', 'LastActivatedProfile'):
        partition.put(key, name)
    partition.put('CurrentProfileSync', 'On')
    sort(partition.element)


def set_state(
    partition: Partition, state: str, rmc_state: str, boots: bool = False
) -> None:
    """Write the state, and everything that follows from it.

    :param boots: whether the guest boots, beside the case that the partition
        becomes active.
    """
    boots |= partition.state == partition_module.NOT_ACTIVATED != state
    goes_on = {partition.state, state}.issubset(partition_module.WORKING)
    if (partition.state != state and not goes_on) or content.find(
        partition.element, 'Uptime'
    ) is None:
        # No clock runs: a partition was always booted just now, unless its
        # world says otherwise.
        partition.put('Uptime', 0)
    if boots:
        partition.count = 0
    partition.put('PartitionState', state)
    partition.put('ResourceMonitoringControlState', rmc_state)
    _set_address(partition)
    running = state in partition_module.WORKING
    partition.put('ReferenceCode', _reference(partition, state))
    dlpar = running and partition.can_change_when_active
    for resource in _DLPAR:
        name = f'DynamicLogicalPartition{resource}Capable'
        partition.put(f'{partition_module.CAPABILITIES}/{name}', dlpar)
    partition.put(
        f'{partition_module.CAPABILITIES}/ResourceMonitoringControl'
        'OperatingSystemShutdownCapable',
        running and rmc_state == partition_module.RMC_ACTIVE,
    )
    set_current(partition, boots)


def _set_address(partition: Partition) -> None:
    """Write the address of an active RMC connection.

    A partition that is not activated keeps the one that it has had.
    """
    if partition.rmc_state == partition_module.RMC_ACTIVE:
        partition.address = partition.address or _address(partition)
        partition.put(partition_module.ADDRESS, partition.address)
    elif partition.is_active:
        content.remove(partition.element, [partition_module.ADDRESS])


def _address(partition: Partition) -> str:
    """Return an address of a private network that no other partition has."""
    network = zlib.crc32(partition.system.uuid.encode()) & 0xFF
    return f'10.{network}.{partition.id >> 8}.{partition.id & 0xFF}'


def _reference(partition: Partition, state: str) -> str:
    if state == partition_module.ERROR:
        number = content.integer(partition.element, 'PartitionID')
        return f'{_REFERENCE_FAILED} LP={number:05d}'
    if state in partition_module.WORKING:
        return REFERENCE_ON.get(partition.type, '')
    return REFERENCE_OFF


def set_current(partition: Partition, boots: bool = False) -> None:
    """Write Current* and Runtime* from the desired values and the state.

    :param boots: whether what was pending takes effect now.
    """
    _set_at_boot(partition, boots)
    keeps = partition.is_active and not boots
    _set_memory(partition, keeps)
    section = content.section(partition.element, partition_module.PROCESSORS)
    if partition_module.is_dedicated(partition.element):
        name, values = (
            partition_module.CURRENT_DEDICATED,
            _dedicated(partition),
        )
    else:
        name, values = partition_module.CURRENT_SHARED, _shared(partition)
    old = content.find(partition.element, name)
    if keeps and old is not None:
        values |= _kept(old, values)
    content.remove(
        section,
        (
            'CurrentSharedProcessorConfiguration',
            'CurrentDedicatedProcessorConfiguration',
        ),
    )
    leaves = [content.leaf(*item) for item in values.items()]
    section.append(content.new(name.rpartition('/')[2], *leaves))
    io = content.section(partition.element, partition_module.IO)
    slots = content.integer(io, 'MaximumVirtualIOSlots', 64)
    content.put(io, 'CurrentMaximumVirtualIOSlots', slots)
    sort(partition.element)


def sort(element: content.Element) -> None:
    """Put the elements of a partition's content into their order."""
    for path in WRITTEN:
        part = content.find(element, path)
        if part is not None:
            elements.sort(part)


def _set_at_boot(partition: Partition, boots: bool) -> None:
    """Write the compatibility mode and the secure boot policy in effect."""
    current = 'CurrentProcessorCompatibilityMode'
    if boots or not partition.text(current):
        mode = partition.text(partition_module.COMPATIBILITY, 'default')
        partition.put(current, _resolved(mode, partition.system))
    if content.find(partition.element, partition_module.SECURE_BOOT) is None:
        return
    current = 'CurrentSecureBoot'
    source = partition_module.SECURE_BOOT if boots else current
    partition.put(current, partition.text(source, '0'))


def _resolved(mode: str, system: managed_system.System) -> str:
    """Return the mode that ``default`` stands for: the newest one."""
    named = [one for one in system.compatibility_modes if one != 'default']
    return named[-1] if mode == 'default' and named else mode


def _kept(
    element: content.Element, names: Iterable[str]
) -> dict[str, content.Value]:
    """Return those of an element's values that stay until the next boot."""
    return {
        name: content.text(element, name)
        for name in names
        if name.startswith(_KEPT) and content.find(element, name) is not None
    }


def _set_memory(partition: Partition, keeps: bool) -> None:
    section = content.section(partition.element, partition_module.MEMORY)
    desired = content.integer(section, 'DesiredMemory')
    maximum = content.integer(section, 'MaximumMemory', desired)
    minimum = content.integer(section, 'MinimumMemory', desired)
    active = partition.is_active
    values: dict[str, content.Value] = {
        'CurrentMemory': desired,
        'CurrentMaximumMemory': maximum,
        'CurrentMinimumMemory': minimum,
        'RuntimeMemory': desired if active else 0,
        'RuntimeMinimumMemory': minimum if active else 0,
    }
    for current, wanted in _CURRENT_MEMORY.items():
        if content.find(section, wanted) is not None:
            values[current] = content.text(section, wanted)
    if keeps:
        values |= _kept(section, values)
    for name, value in values.items():
        content.put(section, name, value)


def _shared(partition: Partition) -> dict[str, content.Value]:
    """Return the values of CurrentSharedProcessorConfiguration."""
    section = content.section(partition.element, partition_module.PROCESSORS)
    mode = _set_mode(section, partition.is_active)
    wanted = content.section(section, 'SharedProcessorConfiguration')
    units = content.number(wanted, 'DesiredProcessingUnits')
    weight = content.integer(wanted, 'UncappedWeight')
    active = partition.is_active
    return {
        'AllocatedVirtualProcessors': content.integer(
            wanted, 'DesiredVirtualProcessors'
        ),
        'CurrentMaximumProcessingUnits': content.number(
            wanted, 'MaximumProcessingUnits'
        ),
        'CurrentMinimumProcessingUnits': content.number(
            wanted, 'MinimumProcessingUnits'
        ),
        'CurrentProcessingUnits': units,
        'CurrentSharedProcessorPoolID': content.integer(
            wanted, 'SharedProcessorPoolID'
        ),
        'CurrentUncappedWeight': weight if mode == 'uncapped' else 0,
        'CurrentMinimumVirtualProcessors': content.integer(
            wanted, 'MinimumVirtualProcessors'
        ),
        'CurrentMaximumVirtualProcessors': content.integer(
            wanted, 'MaximumVirtualProcessors'
        ),
        'RuntimeProcessingUnits': units if active else 0,
        'RuntimeUncappedWeight': weight if active else 0,
    }


def _dedicated(partition: Partition) -> dict[str, content.Value]:
    """Return the values of CurrentDedicatedProcessorConfiguration."""
    section = content.section(partition.element, partition_module.PROCESSORS)
    _set_mode(section, partition.is_active)
    wanted = content.section(section, 'DedicatedProcessorConfiguration')
    desired = content.integer(wanted, 'DesiredProcessors')
    return {
        'CurrentMaximumProcessors': content.integer(
            wanted, 'MaximumProcessors', desired
        ),
        'CurrentMinimumProcessors': content.integer(
            wanted, 'MinimumProcessors', desired
        ),
        'CurrentProcessors': desired,
        'RunProcessors': desired if partition.is_active else 0,
    }


def _set_mode(section: content.Element, active: bool) -> str:
    mode = content.text(section, 'SharingMode')
    dedicated = content.boolean(section, 'HasDedicatedProcessors')
    content.put(section, 'CurrentHasDedicatedProcessors', dedicated)
    content.put(section, 'CurrentSharingMode', mode)
    content.put(section, 'RuntimeHasDedicatedProcessors', dedicated)
    if active:
        content.put(section, 'RuntimeSharingMode', mode)
    return mode


def _add_vios_sections(element: content.Element) -> None:
    for name, group in _VIOS_SECTIONS.items():
        content.section(element, name).set('group', group)

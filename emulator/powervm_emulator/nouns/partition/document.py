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

import zlib

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.nouns.partition import model as partition_module

Partition = partition_module.Partition
REFERENCE_OFF = '00000000'
REFERENCE_ON = {
    partition_module.AIX_LINUX: 'Linux ppc64le',
    partition_module.VIOS_TYPE: '',
    partition_module.IBM_I: '00000000',
}
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


def set_defaults(partition: Partition) -> None:
    """Fill in what a new partition's content does not say."""
    # Clients add slots to the section where they find it.
    content.section(partition.element, partition_module.PROFILE_SLOTS)
    if partition.kind == partition_module.VIOS:
        _add_vios_sections(partition.element)
    for path in WRITTEN:
        part = content.find(partition.element, path)
        if part is not None:
            elements.fill(part)


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


def set_state(partition: Partition, state: str, rmc_state: str) -> None:
    """Write the state, and everything that follows from it."""
    if (
        partition.state != state
        or content.find(partition.element, 'Uptime') is None
    ):
        # No clock runs: a partition was always booted just now, unless its
        # world says otherwise.
        partition.put('Uptime', 0)
    partition.put('PartitionState', state)
    partition.put('ResourceMonitoringControlState', rmc_state)
    _set_address(partition)
    running = state == partition_module.RUNNING
    reference = REFERENCE_ON.get(partition.type, '')
    partition.put('ReferenceCode', reference if running else REFERENCE_OFF)
    dlpar = running and partition.can_change_when_active
    for resource in _DLPAR:
        name = f'DynamicLogicalPartition{resource}Capable'
        partition.put(f'{partition_module.CAPABILITIES}/{name}', dlpar)
    partition.put(
        f'{partition_module.CAPABILITIES}/ResourceMonitoringControl'
        'OperatingSystemShutdownCapable',
        running and rmc_state == partition_module.RMC_ACTIVE,
    )
    set_current(partition)


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


def set_current(partition: Partition) -> None:
    """Write Current* and Runtime* from the desired values and the state."""
    _set_compatibility(partition)
    _set_memory(partition)
    content.remove(
        content.section(partition.element, partition_module.PROCESSORS),
        (
            'CurrentSharedProcessorConfiguration',
            'CurrentDedicatedProcessorConfiguration',
        ),
    )
    if partition_module.is_dedicated(partition.element):
        _set_dedicated(partition)
    else:
        _set_shared(partition)
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


def _set_compatibility(partition: Partition) -> None:
    mode = partition.text('PendingProcessorCompatibilityMode', 'default')
    if mode == 'default':
        named = [
            known
            for known in partition.system.compatibility_modes
            if known != 'default'
        ]
        mode = named[-1] if named else mode
    partition.put('CurrentProcessorCompatibilityMode', mode)


def _set_memory(partition: Partition) -> None:
    section = content.section(partition.element, partition_module.MEMORY)
    desired = content.integer(section, 'DesiredMemory')
    maximum = content.integer(section, 'MaximumMemory', desired)
    minimum = content.integer(section, 'MinimumMemory', desired)
    active = partition.is_active
    content.put(section, 'CurrentMemory', desired)
    content.put(section, 'CurrentMaximumMemory', maximum)
    content.put(section, 'CurrentMinimumMemory', minimum)
    for current, wanted in _CURRENT_MEMORY.items():
        if content.find(section, wanted) is not None:
            content.put(section, current, content.text(section, wanted))
    content.put(section, 'RuntimeMemory', desired if active else 0)
    content.put(section, 'RuntimeMinimumMemory', minimum if active else 0)


def _set_shared(partition: Partition) -> None:
    section = content.section(partition.element, partition_module.PROCESSORS)
    mode = _set_mode(section, partition.is_active)
    wanted = content.section(section, 'SharedProcessorConfiguration')
    units = content.number(wanted, 'DesiredProcessingUnits')
    weight = content.integer(wanted, 'UncappedWeight')
    active = partition.is_active
    values: dict[str, content.Value] = {
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
    leaves = [content.leaf(*item) for item in values.items()]
    section.append(content.new('CurrentSharedProcessorConfiguration', *leaves))


def _set_dedicated(partition: Partition) -> None:
    section = content.section(partition.element, partition_module.PROCESSORS)
    _set_mode(section, partition.is_active)
    wanted = content.section(section, 'DedicatedProcessorConfiguration')
    desired = content.integer(wanted, 'DesiredProcessors')
    values = {
        'CurrentMaximumProcessors': content.integer(
            wanted, 'MaximumProcessors', desired
        ),
        'CurrentMinimumProcessors': content.integer(
            wanted, 'MinimumProcessors', desired
        ),
        'CurrentProcessors': desired,
        'RunProcessors': desired if partition.is_active else 0,
    }
    leaves = [content.leaf(*item) for item in values.items()]
    section.append(
        content.new('CurrentDedicatedProcessorConfiguration', *leaves)
    )


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

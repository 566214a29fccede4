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

"""The order of elements in K2's schema, as far as the emulator makes them."""

from nova_powervm.emulator.core import content
from nova_powervm.emulator.nouns.partition import model as partition_module

_PARTITION = (
    'Metadata',
    'AllowPerformanceDataCollection',
    'AssociatedPartitionProfile',
    'AvailabilityPriority',
    'CurrentProcessorCompatibilityMode',
    'CurrentProfileSync',
    'Hostname',
    'IsOperationInProgress',
    'IsVirtualServiceAttentionLEDOn',
    'IsVirtualTrustedPlatformModuleEnabled',
    'KeylockPosition',
    'LogicalSerialNumber',
    'OperatingSystemVersion',
    'PartitionCapabilities',
    'PartitionID',
    'PartitionIOConfiguration',
    'PartitionMemoryConfiguration',
    'PartitionName',
    'PartitionProcessorConfiguration',
    'PartitionProfiles',
    'PartitionState',
    'PartitionType',
    'PartitionUUID',
    'PendingProcessorCompatibilityMode',
    'ProcessorPool',
    'ProgressPartitionDataRemaining',
    'ProgressPartitionDataTotal',
    'ProgressState',
    'ResourceMonitoringControlState',
    'ResourceMonitoringIPAddress',
    'AssociatedManagedSystem',
    'SRIOVEthernetLogicalPorts',
    'ClientNetworkAdapters',
    'HostEthernetAdapterLogicalPorts',
    'MACAddressPrefix',
    'IsServicePartition',
    'PowerVMManagementCapable',
    'ReferenceCode',
    'ReferenceCodeFull',
    'IsManagementPartition',
    'AutoStart',
    'BootMode',
    'PartitionNVRAM',
    'Uptime',
    'DisableSecureBoot',
    'PendingSecureBoot',
    'CurrentSecureBoot',
    'AssociatedGroups',
    'PowerOnWithHypervisor',
    'AssociatedTasks',
    'Description',
)
_LPAR = (
    'RemoteRestartCapable',
    'SimplifiedRemoteRestartCapable',
    'HasDedicatedProcessorsForMigration',
    'SuspendCapable',
    'MigrationDisable',
    'MigrationState',
    'RemoteRestartState',
    'PowerManagementMode',
    'UsesHighSpeedLinkOpticonnect',
    'UsesVirtualOpticonnect',
    'VirtualFibreChannelClientAdapters',
    'VirtualSCSIClientAdapters',
    'IsRestrictedIOPartition',
    'StorageDeviceUniqueDeviceID',
    'DesignatedIPLSource',
    'DedicatedVirtualNICs',
    'BootListInformation',
)
_VIOS = (
    'APICapable',
    'IsVNICCapable',
    'VNICFailOverCapable',
    'ServerInstallConfiguration',
    'LinkAggregations',
    'ManagerPassthroughCapable',
    'MediaRepositories',
    'MoverServicePartition',
    'NetworkBootDevices',
    'PagingServicePartition',
    'PhysicalVolumes',
    'SharedEthernetAdapters',
    'SharedStoragePoolCapable',
    'SharedStoragePoolVersion',
    'StoragePools',
    'TrunkAdapters',
    'VirtualIOServerLicense',
    'VirtualIOServerLicenseAccepted',
    'VirtualFibreChannelMappings',
    'VirtualSCSIMappings',
    'FreeIOAdaptersForLinkAggregation',
    'FreeEthenetBackingDevicesForSEA',
    'VirtualNICBackingDevices',
    'VirtualIOServerCapabilities',
)
_PROCESSORS = (
    'Metadata',
    'DedicatedProcessorConfiguration',
    'HasDedicatedProcessors',
    'SharedProcessorConfiguration',
    'SharingMode',
    'CurrentHasDedicatedProcessors',
    'CurrentSharingMode',
    'CurrentDedicatedProcessorConfiguration',
    'RuntimeHasDedicatedProcessors',
    'RuntimeSharingMode',
    'CurrentSharedProcessorConfiguration',
)
_MEMORY = (
    'Metadata',
    'ActiveMemoryExpansionEnabled',
    'ActiveMemorySharingEnabled',
    'BarrierSynchronizationRegisterArrayCount',
    'DesiredHugePageCount',
    'DesiredMemory',
    'ExpansionFactor',
    'PhysicalPageTableRatio',
    'HardwarePageTableRatio',
    'MaximumHugePageCount',
    'MaximumMemory',
    'MinimumHugePageCount',
    'MinimumMemory',
    'CurrentBarrierSynchronizationRegisterArrays',
    'CurrentExpansionFactor',
    'CurrentPhysicalPageTableRatio',
    'CurrentHardwarePageTableRatio',
    'CurrentHugePageCount',
    'CurrentMaximumHugePageCount',
    'CurrentMaximumMemory',
    'CurrentMemory',
    'CurrentMinimumHugePageCount',
    'CurrentMinimumMemory',
    'MemoryExpansionEnabled',
    'RedundantErrorPathReportingEnabled',
    'RequiredMinimumForMaximum',
    'RuntimeHugePageCount',
    'RuntimeMemory',
    'RuntimeMinimumMemory',
    'SharedMemoryEnabled',
)
_IO = (
    'Metadata',
    'HostChannelAdapters',
    'MaximumVirtualIOSlots',
    'ProfileIOSlots',
    'CurrentMaximumVirtualIOSlots',
    'TaggedIO',
)
PARTITION = {
    partition_module.LPAR: _PARTITION + _LPAR,
    partition_module.VIOS: _PARTITION + _VIOS,
}


def sort_partition(element: content.Element, kind: str) -> None:
    """Put the elements of a partition's content into the schema's order."""
    content.sort_children(element, PARTITION[kind])
    for path, order in (
        (partition_module.PROCESSORS, _PROCESSORS),
        (partition_module.MEMORY, _MEMORY),
        (partition_module.IO, _IO),
    ):
        section = content.find(element, path)
        if section is not None:
            content.sort_children(section, order)

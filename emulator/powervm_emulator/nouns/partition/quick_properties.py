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

"""Quick properties of partitions."""

from powervm_emulator.core import quick
from powervm_emulator.core import resource
from powervm_emulator.nouns.partition import model as partition_module

_CURRENT = f'{partition_module.PROCESSORS}/Current'
_SHARED = f'{_CURRENT}SharedProcessorConfiguration'
_DEDICATED = f'{_CURRENT}DedicatedProcessorConfiguration'


def _system_link(resource: resource.Resource) -> quick.JSON:
    return resource.parent.path if resource.parent else None


#: What both kinds have.
PROPERTIES: dict[str, quick.Reader] = {
    **quick.texts(
        'IsVirtualServiceAttentionLEDOn',
        'OperatingSystemVersion',
        'PartitionName',
        'PartitionState',
        'PartitionType',
        'ReferenceCode',
        'ResourceMonitoringIPAddress',
    ),
    'AllocatedVirtualProcessors': quick.number(
        f'{_SHARED}/AllocatedVirtualProcessors'
    ),
    'AssociatedManagedSystem': _system_link,
    'CurrentMemory': quick.number(f'{partition_module.MEMORY}/CurrentMemory'),
    'CurrentProcessingUnits': quick.number(
        f'{_SHARED}/CurrentProcessingUnits'
    ),
    'CurrentProcessors': quick.number(f'{_DEDICATED}/CurrentProcessors'),
    'HasDedicatedProcessors': quick.text(
        f'{partition_module.PROCESSORS}/HasDedicatedProcessors'
    ),
    'PartitionID': quick.number('PartitionID'),
    'RMCState': quick.text('ResourceMonitoringControlState'),
    'SharingMode': quick.text(f'{partition_module.PROCESSORS}/SharingMode'),
}
OF_LPARS: dict[str, quick.Reader] = {
    **quick.texts(
        'Description',
        'LastActivatedProfile',
        'MigrationState',
        'PowerManagementMode',
        'ProgressState',
        'RemoteRestartState',
    ),
    'HasPhysicalIO': quick.exists(
        f'{partition_module.IO}/ProfileIOSlots/ProfileIOSlot'
    ),
    # No partition shares its memory here.
    'MemoryMode': lambda _partition: 'Dedicated',
}

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

"""The noun ManagedSystem."""

from powervm_emulator.core import noun
from powervm_emulator.core import quick
from powervm_emulator.core import resource
from powervm_emulator.nouns.managed_system import described as system_described
from powervm_emulator.nouns.managed_system import model as managed_system


def _mtms(found: resource.Resource) -> quick.JSON:
    return found.mtms if isinstance(found, managed_system.System) else None


_MEMORY = (
    'ConfigurableSystemMemory',
    'CurrentAvailableSystemMemory',
    'InstalledSystemMemory',
)
_PROCESSORS = (
    'ConfigurableSystemProcessorUnits',
    'CurrentAvailableSystemProcessorUnits',
    'InstalledSystemProcessorUnits',
)
_QUICK = {
    **quick.texts(
        'ActivatedLevel',
        'Description',
        'IsClassicHMCManagement',
        'IsNotPowerVMManagementMaster',
        'IsPowerVMManagementMaster',
        'ManufacturingDefaultConfigurationEnabled',
        'MemoryDefragmentationState',
        'MergedReferenceCode',
        'PhysicalSystemAttentionLEDState',
        'ReferenceCode',
        'ServiceProcessorVersion',
        'State',
        'SystemFirmware',
        'SystemLocation',
        'SystemName',
    ),
    **{
        name: quick.text(f'{managed_system.CAPABILITIES}/{name}')
        for name in (
            'CapacityOnDemandMemoryCapable',
            'CapacityOnDemandProcessorCapable',
        )
    },
    **{
        name: quick.number(f'{managed_system.MEMORY}/{name}')
        for name in _MEMORY
    },
    **{
        name: quick.number(f'{managed_system.PROCESSORS}/{name}')
        for name in _PROCESSORS
    },
    'IPAddress': quick.text('PrimaryIPAddress'),
    'MTMS': _mtms,
    'MaximumPartitions': quick.number('MaximumPartitions'),
}
NOUN = noun.Noun(
    managed_system.KIND,
    parents=(noun.ROOT,),
    quick=_QUICK,
    operations={managed_system.RESERVED_MEMORY: managed_system.ReservedMemory},
    world=noun.WorldKey(
        'systems', (), system_described.SCHEMA, required=('name',)
    ),
)

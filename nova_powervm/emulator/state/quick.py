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

"""Quick properties: single values of a resource, in JSON."""

from collections.abc import Callable

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import partition
from nova_powervm.emulator.state import resource as resource_module
from nova_powervm.emulator.state import system

Resource = resource_module.Resource
JSON = str | int | float | bool | None
Reader = Callable[[Resource], JSON]

_CURRENT_SHARED = f'{partition.PROCESSORS}/CurrentSharedProcessorConfiguration'
_CURRENT_DEDICATED = (
    f'{partition.PROCESSORS}/CurrentDedicatedProcessorConfiguration'
)


def _text(path: str) -> Reader:
    def read(resource: Resource) -> JSON:
        return resource.text(path) or None

    return read


def _integer(path: str) -> Reader:
    def read(resource: Resource) -> JSON:
        if content.find(resource.element, path) is None:
            return None
        return resource.integer(path)

    return read


def _number(path: str) -> Reader:
    def read(resource: Resource) -> JSON:
        if content.find(resource.element, path) is None:
            return None
        return resource.number(path)

    return read


def _boolean(path: str) -> Reader:
    def read(resource: Resource) -> JSON:
        return resource.boolean(path)

    return read


def _system_link(resource: Resource) -> JSON:
    return resource.parent.path if resource.parent else None


def _mtms(resource: Resource) -> JSON:
    section = system.MTMS
    kind = resource.text(f'{section}/MachineType')
    model = resource.text(f'{section}/Model')
    return f'{kind}-{model}*{resource.text(f"{section}/SerialNumber")}'


_VIOS: dict[str, Reader] = {
    'IsVirtualServiceAttentionLEDOn': _boolean(
        'IsVirtualServiceAttentionLEDOn'
    ),
    'PartitionType': _text('PartitionType'),
    'PartitionName': _text('PartitionName'),
    'PartitionID': _integer('PartitionID'),
    'PartitionState': _text('PartitionState'),
    'AssociatedManagedSystem': _system_link,
    'RMCState': _text('ResourceMonitoringControlState'),
}
_LPAR = _VIOS | {
    'MigrationState': _text('MigrationState'),
    'CurrentProcessingUnits': _number(
        f'{_CURRENT_SHARED}/CurrentProcessingUnits'
    ),
    'ProgressState': _text('ProgressState'),
    'AllocatedVirtualProcessors': _integer(
        f'{_CURRENT_SHARED}/AllocatedVirtualProcessors'
    ),
    'RemoteRestartState': _text('RemoteRestartState'),
    'OperatingSystemVersion': _text('OperatingSystemVersion'),
    'PowerManagementMode': _text('PowerManagementMode'),
    # A string, unlike the other truth values.
    'HasDedicatedProcessors': _text(
        f'{partition.PROCESSORS}/HasDedicatedProcessors'
    ),
    'ResourceMonitoringIPAddress': _text('ResourceMonitoringIPAddress'),
    'ReferenceCode': _text('ReferenceCode'),
    'CurrentProcessors': _integer(f'{_CURRENT_DEDICATED}/CurrentProcessors'),
    'CurrentMemory': _integer(f'{partition.MEMORY}/CurrentMemory'),
    'SharingMode': _text(f'{partition.PROCESSORS}/SharingMode'),
}
PROPERTIES: dict[str, dict[str, Reader]] = {
    partition.LPAR: _LPAR,
    partition.VIOS: _VIOS | {'APICapable': _boolean('APICapable')},
    system.KIND: {
        'State': _text('State'),
        'SystemName': _text('SystemName'),
        'IPAddress': _text('PrimaryIPAddress'),
        'MTMS': _mtms,
        'PhysicalSystemAttentionLEDState': _text(
            'PhysicalSystemAttentionLEDState'
        ),
        'MemoryDefragmentationState': _text('MemoryDefragmentationState'),
    },
}


def every(resource: Resource) -> dict[str, JSON]:
    """Return every quick property of a resource."""
    readers = PROPERTIES[resource.kind]
    return {name: read(resource) for name, read in readers.items()}


def one(resource: Resource, name: str) -> JSON:
    """Return one quick property of a resource.

    :raises errors.NotFound: the kind has none with this name.
    """
    reader = PROPERTIES[resource.kind].get(name)
    if reader is None:
        raise errors.NotFound(
            f'{resource.kind} has no quick property {name!r}.'
        )
    return reader(resource)

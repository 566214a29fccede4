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

"""Building the partitions that a world document describes."""

from typing import Any

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import document
from powervm_emulator.nouns.partition import lifecycle
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import ownership

System = managed_system.System
Partition = partition_module.Partition
Host = host_module.Host
Element = content.Element


Spec = dict[str, Any]
_KINDS = {
    'virtual_io_servers': partition_module.VIOS,
    'partitions': partition_module.LPAR,
}
#: Keys that a description without a capture must have.
REQUIRED = ('name', 'memory', 'processors')
AMOUNTS = ('memory', 'processors', 'processor_units')
CAPTURED = (*AMOUNTS, 'dedicated', 'profile')


def _amount(type_: str, description: str, **limits: int) -> resource.JSON:
    """Return the schema of an amount, which can be a range."""
    number = {'type': type_, **limits}
    return {
        'description': (
            f'{description} A number, or minimum, desired and maximum, of '
            'which desired is required and the default of the others.'
        ),
        **number,
        'type': [type_, 'object'],
        'additionalProperties': False,
        'required': ['desired'],
        'properties': dict.fromkeys(('minimum', 'desired', 'maximum'), number),
    }


SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'uuid': shapes.ref('uuid_or_random'),
        'name': shapes.ref('name', 'Required without capture.'),
        'id': shapes.value(
            'integer',
            'PartitionID. Without it the lowest that is free.',
            minimum=1,
            maximum=65535,
        ),
        'type': shapes.choice(
            ['AIX/Linux', 'OS400'],
            'Of a logical partition; AIX/Linux is the default.',
        ),
        'state': shapes.choice(
            [
                'not activated',
                'running',
                'open firmware',
                'error',
                'not available',
                'suspended',
            ],
            'The default is not activated.',
        ),
        'rmc_state': shapes.choice(
            ['active', 'inactive', 'none', 'unknown', 'busy'],
            'The default is inactive.',
        ),
        'memory': _amount('integer', 'MB.', minimum=1),
        'processors': _amount(
            'integer',
            'The number of virtual or dedicated processors.',
            minimum=1,
        ),
        'processor_units': _amount(
            'number',
            'Of shared processors only. Half of their number by default.',
            exclusiveMinimum=0,
        ),
        'dedicated': shapes.boolean(
            "Whether the processors are the partition's own."
        ),
        'management': shapes.boolean(
            'Whether this is the NovaLink partition.'
        ),
        'uptime': shapes.value(
            'integer',
            'Seconds since it was booted; 0 if it is not given. It does not '
            'increase.',
            minimum=0,
        ),
        'virtual_slots': shapes.value(
            'integer',
            'MaximumVirtualIOSlots; 64 is the default. A VIOS needs one slot '
            'for each pair of virtual SCSI adapters.',
            minimum=2,
        ),
        'profile': shapes.text(
            'The name of its profile, as HMCs have it. None by default, as '
            'on NovaLink.'
        ),
    }
)
# Of Virtual I/O Servers, which are all of one type.
VIOS_SCHEMA = {
    **SCHEMA,
    'properties': {
        key: value
        for key, value in SCHEMA['properties'].items()
        if key != 'type'
    },
}


def build(
    host: Host, system: System, spec: Spec
) -> list[tuple[Partition, Spec]]:
    """Build the partitions of one system.

    Partitions with a specified id come first, while their id is free.

    :returns: each partition with its specification.
    """
    built = []
    wanted = [
        (kind, partition)
        for key, kind in _KINDS.items()
        for partition in spec.get(key, ())
    ]
    wanted.sort(key=lambda pair: 'id' not in pair[1])
    for kind, partition in wanted:
        make = _build_captured if 'capture' in partition else _build
        made = make(host, system, kind, partition)
        built.append((made, partition))
    return built


def _build_captured(
    host: Host, system: System, kind: str, spec: Spec
) -> Partition:
    """Build a captured partition, changed as its specification says."""
    capture = captures.find(spec['capture'], kind)
    uuid = _uuid(host, spec, capture.uuid).upper()
    partition = Partition(kind, uuid, capture.element, system)
    if uuid != capture.uuid.upper():
        partition.put('Metadata/Atom/AtomID', uuid)
        partition.put('PartitionUUID', uuid)
    values = {
        'PartitionName': spec.get('name'),
        'PartitionID': spec.get('id'),
        'PartitionType': spec.get('type'),
        'PartitionState': spec.get('state'),
        'ResourceMonitoringControlState': spec.get('rmc_state'),
        'IsManagementPartition': spec.get('management'),
        'Uptime': spec.get('uptime'),
        f'{partition_module.IO}/MaximumVirtualIOSlots': spec.get(
            'virtual_slots'
        ),
    }
    for name, value in values.items():
        if value is not None:
            partition.put(name, value)
    if not {'uuid', 'name', 'id', 'type'}.isdisjoint(spec):
        ownership.rename(host, partition, capture.uuid)
    return _add(host, partition)


def _build(host: Host, system: System, kind: str, spec: Spec) -> Partition:
    """Build a partition from its specification alone."""
    element = content.new(
        kind,
        content.leaf('PartitionName', spec['name']),
        content.new(
            partition_module.MEMORY, *_leaves(spec['memory'], 'Memory')
        ),
        _processors(spec),
        content.new(
            partition_module.IO,
            content.leaf(
                'MaximumVirtualIOSlots', spec.get('virtual_slots', 64)
            ),
        ),
    )
    if 'id' in spec:
        element.append(content.leaf('PartitionID', spec['id']))
    if 'type' in spec:
        element.append(content.leaf('PartitionType', spec['type']))
    if spec.get('management'):
        for name in ('IsManagementPartition', 'PowerVMManagementCapable'):
            element.append(content.leaf(name, True))
    uuid = _uuid(host, spec, 'random')
    partition = lifecycle.build(host, system, kind, uuid, element)
    state = spec.get('state', partition_module.NOT_ACTIVATED)
    document.set_state(partition, state, spec.get('rmc_state', 'inactive'))
    if 'uptime' in spec:
        partition.put('Uptime', spec['uptime'])
    if 'profile' in spec:
        document.set_profile(partition, spec['profile'])
    return _add(host, partition)


def _add(host: Host, partition: Partition) -> Partition:
    host.add(partition, quiet=True)
    partition.system.link(partition)
    return partition


def _uuid(host: Host, spec: Spec, default: str) -> str:
    uuid: str = spec.get('uuid', default)
    return host.new_uuid() if uuid == 'random' else uuid


def amounts(value: Any) -> dict[str, float]:
    """Return the minimum, desired and maximum amount of a description.

    What is not given is as desired.
    """
    given = value if isinstance(value, dict) else {'desired': value}
    desired: float = given['desired']
    return {
        bound: given.get(bound.lower(), desired)
        for bound in ('Desired', 'Maximum', 'Minimum')
    }


def _leaves(value: Any, name: str) -> list[Element]:
    return [
        content.leaf(f'{bound}{name}', amount)
        for bound, amount in amounts(value).items()
    ]


def _processors(spec: Spec) -> Element:
    dedicated = spec.get('dedicated', False)
    if dedicated:
        section = content.new(
            'DedicatedProcessorConfiguration',
            *_leaves(spec['processors'], 'Processors'),
        )
    else:
        counts = amounts(spec['processors'])
        halves = {bound.lower(): count / 2 for bound, count in counts.items()}
        section = content.new(
            'SharedProcessorConfiguration',
            *_leaves(spec.get('processor_units', halves), 'ProcessingUnits'),
            *_leaves(spec['processors'], 'VirtualProcessors'),
            content.leaf('SharedProcessorPoolID', 0),
            content.leaf('UncappedWeight', 128),
        )
    mode = 'sre idle proces' if dedicated else 'uncapped'
    return content.new(
        partition_module.PROCESSORS,
        content.leaf('HasDedicatedProcessors', dedicated),
        section,
        content.leaf('SharingMode', mode),
    )

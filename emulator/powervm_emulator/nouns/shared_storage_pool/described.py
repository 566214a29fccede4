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

"""Clusters and pools that world documents describe."""

from collections.abc import Iterable

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import captured
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import logical_units
from powervm_emulator.nouns.shared_storage_pool import model
from powervm_emulator.nouns.shared_storage_pool import volumes

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
Pool = model.Pool
Tier = model.Tier
TYPES = {'disk': model.DISK, 'image': model.IMAGE}
DEFAULT_TIER = 'SYSTEM'


def build(
    host: Host, _parent: None, described: Iterable[resource.JSON]
) -> None:
    """Build the clusters of a world, or make the host share their pools.

    :raises errors.WorldError: a node is unknown, or another host of the site
        has described the pool in another way.
    """
    for spec in described:
        nodes = [_server(host, name) for name in spec['nodes']]
        if 'capture' in spec:
            common, make = captured.common(spec), captured.pool
        else:
            common = {key: spec[key] for key in spec if key != 'nodes'}
            make = _pool
        pool = _present(host, common)
        if pool is None:
            pool = make(host, common)
        else:
            host.pools[pool.uuid] = []
        host.pools[pool.uuid] += [vios.uuid for vios in nodes]
        cluster.build(host, pool, captured.cluster_element(spec))


def tiers(spec: resource.JSON) -> list[resource.JSON]:
    """Return the descriptions of a pool's tiers, complete.

    The first one is the default if none says so, and the only one of a pool
    without a list.
    """
    whole = {'name': DEFAULT_TIER, 'capacity': spec['capacity']}
    found = [{'default': False, **tier} for tier in spec.get('tiers', [whole])]
    if found and not any(tier['default'] for tier in found):
        found[0]['default'] = True
    return found


def _server(host: Host, name: str) -> Partition:
    found = [
        vios
        for vios in host.of_type(Partition)
        if (vios.kind, vios.name) == (partition_module.VIOS, name)
    ]
    if len(found) != 1:
        raise errors.WorldError(
            f'{len(found)} Virtual I/O Servers have the name {name!r}'
        )
    return found[0]


def _present(host: Host, spec: resource.JSON) -> Pool | None:
    """Return the pool that another host of the site has, if any."""
    name = spec['pool']['name']
    for pool in host.site.shared.get(model.KIND, {}).values():
        if not isinstance(pool, Pool) or pool.name != name:
            continue
        if pool.spec != spec:
            raise errors.WorldError(
                f'another host of the site describes the pool {name!r} '
                'or its cluster in another way'
            )
        return pool
    return None


def _pool(host: Host, spec: resource.JSON) -> Pool:
    """Make a pool that no host has, with all that is in it."""
    pool = Pool(spec, host.site.seed)
    described = spec['pool']
    # The host has to share it before it can have what is in it.
    host.pools[pool.uuid] = []
    capacity = units.gigabytes(described['capacity'])
    values: dict[str, content.Value] = {
        'Capacity': capacity,
        'FreeSpace': capacity,
        'OverCommitSpace': 0,
        'TotalLogicalUnitSize': 0,
        'StoragePoolName': described['name'],
        'UniqueDeviceID': f'24{pool.identity}{pool.new_number()[:30]}',
    }
    pool.element.extend(content.leaf(*item) for item in values.items())
    pool.element.append(content.new(model.UNITS))
    elements.fill(pool.element)
    host.add(pool)
    for number, tier in enumerate(tiers(described), 1):
        _tier(host, pool, number, tier)
    pool.put('MultiDataTierConfigured', len(pool.tiers) > 1)
    elements.sort(pool.element)
    for unit in described.get('logical_units', ()):
        _unit(host, pool, unit)
    return pool


def _tier(host: Host, pool: Pool, number: int, spec: resource.JSON) -> None:
    """Add a tier, which is on a disk of its own, to a pool."""
    volume = volumes.volume(pool.identity, number, spec['capacity'])
    content.section(pool.element, 'PhysicalVolumes').append(
        content.copy(volume)
    )
    capacity = units.gigabytes(spec['capacity'])
    group = content.new(
        'FailureGroup',
        content.leaf('UniqueDeviceID', _udid('26', pool)),
        content.leaf('Capacity', capacity),
        content.new('PhysicalVolumes', volume),
    )
    type_ = 'System' if spec['default'] else 'User'
    element = content.new(
        model.TIER,
        content.leaf('Name', spec['name']),
        content.leaf('UniqueDeviceID', _udid('25', pool)),
        content.leaf('Type', f'Unrestricted{type_}Tier'),
        content.leaf('IsDefault', spec['default']),
        content.leaf('Capacity', capacity),
        content.new('FailureGroups', group),
        content.link(pool.path, 'AssociatedSharedStoragePool'),
    )
    for part in (group, element):
        elements.fill(part)
        elements.sort(part)
    tier = Tier(pool.new_uuid(), element, pool)
    pool.tiers.append(tier)
    host.add(tier)


def _unit(host: Host, pool: Pool, spec: resource.JSON) -> None:
    """Make a logical unit as a client would."""
    name = spec.get('tier', pool.default_tier.name)
    tier = next(tier for tier in pool.tiers if tier.name == name)
    body = content.new(
        model.UNIT,
        content.leaf('ThinDevice', spec.get('thin', True)),
        content.leaf('UnitCapacity', units.gigabytes(spec['capacity'])),
        content.leaf('LogicalUnitType', TYPES[spec.get('type', 'disk')]),
        content.leaf('UnitName', spec['name']),
    )
    logical_units.create(host, tier, body)


def _udid(digits: str, pool: Pool) -> str:
    return f'{digits}{pool.identity}{pool.new_number()[:16]}'


_TIERS: resource.JSON = shapes.array(
    shapes.record(
        {
            'name': shapes.ref('name'),
            'capacity': shapes.ref('gigabytes'),
            'default': shapes.boolean(
                'Whether it is for clients that name none. Without one that '
                'is, the first one is.'
            ),
        },
        required=['name', 'capacity'],
    ),
    'Without it there is one, SYSTEM, with the capacity of the pool.',
    minItems=1,
)
_UNITS: resource.JSON = shapes.array(
    shapes.record(
        {
            'name': shapes.text(maxLength=logical_units.MAX_NAME),
            'capacity': shapes.ref('gigabytes'),
            'type': shapes.choice(sorted(TYPES), 'disk is the default.'),
            'thin': shapes.boolean('True is the default.'),
            'tier': shapes.ref(
                'name', 'Its name. The default tier without it.'
            ),
        },
        'A logical unit without contents.',
        required=['name', 'capacity'],
    )
)
SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'captured_pool': captured.SCHEMA,
        'name': shapes.ref('name', 'Required without capture.'),
        'nodes': shapes.array(
            shapes.ref('name'),
            "Names of this world's Virtual I/O Servers.",
            uniqueItems=True,
        ),
        'pool': shapes.record(
            {
                'name': shapes.ref('name'),
                'capacity': shapes.ref('gigabytes'),
                'tiers': _TIERS,
                'logical_units': _UNITS,
            },
            'Required without capture.',
            required=['name', 'capacity'],
        ),
    },
    'Hosts of a site share what has the same name and description.',
    required=['nodes'],
) | {
    'if': {'required': ['capture']},
    'then': {'required': ['captured_pool']},
    'else': {'required': ['name', 'pool']},
}

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

"""Captured clusters and pools, with their tiers and logical units."""

from typing import Any

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import model

Host = host_module.Host
_CAPTURE = shapes.ref('capture')
# UDIDs of all that is in a pool begin with so many characters; the first two
# say what it is.
_IDENTITY = slice(2, 34)


def common(spec: resource.JSON) -> resource.JSON:
    """Return what hosts that share a captured pool have in common."""
    found = captures.find(spec['capture'], cluster.KIND)
    captured = spec['captured_pool']
    pool = captures.find(captured['capture'], model.KIND)
    return {
        'name': content.text(found.element, 'ClusterName'),
        'pool': {'name': content.text(pool.element, 'StoragePoolName')},
        'cluster_uuid': found.uuid.lower(),
        'captured_pool': captured,
    }


def cluster_element(spec: resource.JSON) -> content.Element | None:
    """Return what a host shows of its captured cluster, None without one."""
    if 'capture' not in spec:
        return None
    return captures.find(spec['capture'], cluster.KIND).element


def pool(host: Host, spec: resource.JSON) -> model.Pool:
    """Make a captured pool, with all that is in it.

    :param spec: from :func:`common`.
    """
    described = spec['captured_pool']
    found = captures.find(described['capture'], model.KIND)
    made = model.Pool(spec, host.site.seed)
    made.uuid = made.pool_uuid = found.uuid.lower()
    made.element = found.element
    made.cluster_uuid = spec['cluster_uuid']
    made.identity = made.text('UniqueDeviceID')[_IDENTITY].lower()
    # The host has to share it before it can have what is in it.
    host.pools[made.uuid] = []
    host.add(made)
    for tier in described.get('tiers', ()):
        _tier(host, made, tier)
    made.unseen = made.free - made.number('FreeSpace')
    return made


def _tier(host: Host, pool: model.Pool, spec: resource.JSON) -> None:
    found = captures.find(spec['capture'], model.TIER)
    tier = model.Tier(found.uuid.lower(), found.element, pool)
    pool.tiers.append(tier)
    host.add(tier)
    for unit_spec in spec.get('logical_units', ()):
        captured = captures.find(unit_spec['capture'], model.UNIT)
        unit = model.LogicalUnit(captured.uuid, captured.element, tier)
        pool.units[unit.key] = unit
        host.add(unit)


def _list_of(properties: dict[str, Any]) -> resource.JSON:
    return {
        'type': 'array',
        'items': {
            'type': 'object',
            'additionalProperties': False,
            'required': ['capture'],
            'properties': {'capture': _CAPTURE, **properties},
        },
    }


SCHEMA: resource.JSON = shapes.record(
    {'capture': _CAPTURE, 'tiers': _list_of({'logical_units': _list_of({})})},
    'The SharedStoragePool of a captured cluster.',
    required=['capture'],
)

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

"""The nouns of shared storage: clusters, pools, tiers and logical units."""

from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import described
from powervm_emulator.nouns.shared_storage_pool import logical_units
from powervm_emulator.nouns.shared_storage_pool import model
from powervm_emulator.nouns.shared_storage_pool import update


def summary(host: host_module.Host, _parent: None) -> resource.JSON:
    """Summarize the clusters with their pools; sizes are in GB."""
    return {
        'clusters': [
            cluster.summary(host, pool) | {'pool': _pool(host, pool)}
            for pool in model.of(host)
        ]
    }


def _pool(host: host_module.Host, pool: model.Pool) -> resource.JSON:
    return {
        'name': pool.name,
        'uuid': pool.uuid,
        'capacity': pool.capacity,
        'free': round(pool.free, 6),
        'tiers': [
            {
                'name': tier.name,
                'uuid': tier.uuid,
                'capacity': tier.capacity,
                'free': round(tier.free, 6),
                'default': tier is pool.default_tier,
            }
            for tier in pool.tiers
        ],
        'logical_units': [_unit(host, one) for one in pool.units.values()],
    }


def _unit(host: host_module.Host, unit: model.LogicalUnit) -> resource.JSON:
    found = host.site.contents.find(unit.pool.uuid, unit.udid)
    return {
        'name': unit.name,
        'uuid': unit.uuid,
        'udid': unit.udid,
        'type': unit.type,
        'tier': unit.tier.name,
        'capacity': unit.capacity,
        'thin': unit.is_thin,
        'cloned_from': unit.text('ClonedFrom') or None,
        'in_use': unit.in_use,
        'used': round(unit.used, 6),
        'size': found.size if found else 0,
        'sha256': found.sha256 if found else None,
    }


NOUNS = (
    noun.Noun(
        cluster.KIND,
        parents=(noun.ROOT,),
        searchable=True,
        world=noun.WorldKey(
            'clusters',
            (),
            described.SCHEMA,
            captured=('name', 'pool'),
            build=described.build,
        ),
        summary=summary,
    ),
    noun.Noun(
        model.KIND,
        parents=(noun.ROOT,),
        update=update.update,
        searchable=True,
    ),
    noun.Noun(model.TIER, parents=(noun.ROOT, model.KIND)),
    noun.Noun(
        model.UNIT,
        parents=(model.TIER,),
        create=logical_units.create,
        update=logical_units.update,
        delete=logical_units.delete,
    ),
)

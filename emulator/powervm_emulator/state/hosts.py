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

"""Whole hosts and sites as values of JSON, and back."""

from collections.abc import Sequence

from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import san
from powervm_emulator.nouns.partition import migration
from powervm_emulator.state import resources

JSON = resource.JSON
Emulation = emulation_module.Emulation


def save(emulations: Sequence[Emulation]) -> JSON:
    """Return the hosts of a site; the caller holds them.

    Sessions, jobs, uploads, faults and the journal are not in it.
    """
    site = emulations[0].host.site
    return {
        'revision': site.revision,
        'san': site.san.described,
        'shared': [
            resources.save(found)
            for table in site.shared.values()
            for found in table.values()
        ],
        'hosts': [_save_host(one) for one in emulations],
    }


def load(emulation: Emulation, saved: JSON, number: int) -> None:
    """Fill one host of a site with what was saved of it.

    Hosts are loaded in their order.

    :param number: which one it is, counted from 0.
    """
    host = emulation.host
    mine = saved['hosts'][number]
    with host.changing(), host.loading():
        _load_resources(host, saved['shared'], mine)
    host.site.revision = max(host.site.revision, saved['revision'])
    host.site.san = san.San(saved['san'])
    host.random.setstate(resources.random_state(mine['random']))
    host.is_off = mine['is_off']
    with host.changing():
        # Their jobs are lost.
        for partition in migration.under_way(host):
            migration.fail(host, partition)
    emulation.world = mine['world']
    emulation.jobs.last = mine['last_job']
    emulation.starting = [
        (host.get(kind, uuid), rmc_state)
        for (kind, uuid), rmc_state in mine['starting']
    ]


def _save_host(emulation: Emulation) -> JSON:
    host = emulation.host
    return {
        'world': emulation.world,
        'random': host.random.getstate(),
        'rmc_after_power_on': host.behaviour.rmc_after_power_on,
        'is_off': host.is_off,
        'starting': [
            (resources.key_of(one), rmc_state)
            for one, rmc_state in emulation.starting
        ],
        'last_job': emulation.jobs.last,
        'pools': host.pools,
        'resources': [
            resources.save(found)
            for found in host.of_type(resource.Resource)
            if not found.pool_uuid and resources.is_saved(found)
        ],
    }


def _load_resources(
    host: host_module.Host, shared: list[JSON], mine: JSON
) -> None:
    host.behaviour.rmc_after_power_on = mine['rmc_after_power_on']
    for name in ('residue', 'hmc'):
        setattr(host.behaviour, name, mine['world'].get(name, ''))
    for name in ('guests_have_rsct', 'guests_configure_rmc'):
        setattr(host.behaviour, name, mine['world'].get(name, False))
    host.pools = mine['pools']
    known = {resources.key_of(found): found for found in _shared(host.site)}
    present = set(known)
    for found in resources.load([*shared, *mine['resources']], known):
        if resources.key_of(found) not in present:
            revision = found.revision
            host.add(found, quiet=True)
            found.revision = revision


def _shared(site: host_module.Site) -> list[resource.Resource]:
    return [
        found for table in site.shared.values() for found in table.values()
    ]

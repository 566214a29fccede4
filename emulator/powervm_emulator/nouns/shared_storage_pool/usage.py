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

"""What follows from mappings of logical units, and from who is running."""

from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import model
from powervm_emulator.nouns.virtual_scsi_mapping import adapters
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Host = host_module.Host
LogicalUnit = model.LogicalUnit
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition
Site = host_module.Site


def settle(site: Site) -> None:
    """Write what has become of mappings and servers to all that shows it."""
    pools = _pools(site)
    if not pools:
        return
    used: set[str] = set()
    for host, vios in _servers(site):
        used |= _settle_mappings(host, vios)
    for pool in pools:
        for host in site.sharers(pool.uuid):
            cluster.show(host, pool)
        _settle_use(site, pool, used)


def _settle_use(site: Site, pool: model.Pool, used: set[str]) -> None:
    """Show which logical units active partitions have.

    :param used: their keys.
    """
    changed = [
        unit
        for unit in pool.units.values()
        if unit.in_use != (unit.key in used)
    ]
    host = site.sharers(pool.uuid)[0]
    for unit in changed:
        unit.put('InUse', unit.key in used)
        host.touch(unit, 'derived')
    if changed:
        # It shows them, too.
        host.touch(pool, 'Other')


def server_of(site: Site, unit: LogicalUnit) -> Partition | None:
    """Return a running server that maps a logical unit, None without one."""
    for host, vios in _servers(site):
        if model.of_server(host, vios) is not unit.pool:
            continue
        for mapping in _mappings(vios):
            if model.key_of(mapping.udid) == unit.key:
                return vios
    return None


def _pools(site: Site) -> list[model.Pool]:
    """Return the pools that hosts share; those of the others are gone."""
    found = site.shared.get(model.KIND, {}).values()
    return [
        pool
        for pool in found
        if isinstance(pool, model.Pool) and site.sharers(pool.uuid)
    ]


def _servers(site: Site) -> Iterator[tuple[Host, Partition]]:
    """Yield the Virtual I/O Servers that are running, with their hosts."""
    for host in site.hosts:
        for vios in host.all(partition_module.VIOS):
            if isinstance(vios, Partition) and cluster.is_up(vios):
                yield host, vios


def _mappings(vios: Partition) -> Iterator[Mapping]:
    for mapping in scsi_mapping.of(vios):
        if mapping.kind == model.UNIT:
            yield mapping


def _settle_mappings(host: Host, vios: Partition) -> set[str]:
    """Show logical units as they are in the mappings of a server.

    :returns: the keys of those that active partitions have.
    """
    used: set[str] = set()
    pool = model.of_server(host, vios)
    changed = False
    for mapping in _mappings(vios) if pool else ():
        unit = pool.find(mapping.udid) if pool else None
        if unit is not None:
            client = scsi_mapping.client_of(host, mapping)
            if client is not None and client.is_active:
                used.add(unit.key)
            changed |= _show(mapping, unit)
        elif pool and pool.has_had(mapping.udid):
            content.remove(mapping.element, ['Storage'])
            _name(mapping)
            changed = True
    if changed:
        host.touch(vios, scsi_mapping.DETAIL)
    return used


def _show(mapping: Mapping, unit: LogicalUnit) -> bool:
    """Write a logical unit to a mapping; return whether it was another."""
    present = mapping.storage
    if present is None or _values(present) == _values(unit.element):
        return False
    wanted = scsi_mapping.backing(unit.element)
    present.getparent().replace(present, wanted)
    _name(mapping)
    return True


def _values(element: content.Element) -> list[tuple[str, str]]:
    """Return what mappings show of a logical unit."""
    return [
        (content.local_name(child), child.text or '')
        for child in element
        if content.local_name(child) not in ('Metadata', 'InUse')
    ]


def _name(mapping: Mapping) -> None:
    server = content.section(mapping.element, scsi_mapping.SERVER)
    adapters.set_backing(server, mapping.name)

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

"""What has to be true of a cloud whose hosts share a pool, when it rests."""

import collections
import hashlib

from nova_powervm.lpar import image
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage

GPU = 'CUSTOM_GPU'

#: The status of a server that has moved and waits for its confirmation.
WAITING = 'VERIFY_RESIZE'
#: Status of a server that has to be whole -> the state of its LPAR.
_WHOLE = {
    'ACTIVE': 'running',
    'SHUTOFF': 'not activated',
    WAITING: 'running',
}
_OFF = 'not activated'

_FOREIGN = {'novalink', 'database', 'archive', 'vios1'}
_ROUNDING_GB = 0.01


def unit_name(server, role):
    """Return the name of a server's logical unit with a role."""
    return storage.unit_name(
        partition.lpar_uuid(server), storage.ROOT
    ).replace('-root', f'-{role}')


def units(control):
    """Return the logical units of the pool, by name."""
    (found,) = control.state()['clusters']
    return {unit['name']: unit for unit in found['pool']['logical_units']}


class State:
    """The state of a site: hosts, pool, Nova and Placement, read once.

    :param site: the :class:`.pool_site.Site`.
    """

    def __init__(self, site):
        self.site = site
        self.servers = {
            found.id: found
            for found in site.api.compute.servers(all_projects=True)
        }
        self.lpars = {
            found: partition.lpar_uuid(found) for found in self.servers
        }
        self.by_lpar = {lpar: found for found, lpar in self.lpars.items()}
        self.hosts = {side.name: side.control.state() for side in site.sides}
        (cluster,) = self.hosts[site.sides[0].name]['clusters']
        self.pool = cluster['pool']
        self.allocations = {
            found: site.cloud.allocations(found) for found in self.servers
        }
        moves = site.moves()
        #: Those in progress; the others were interrupted, and are history.
        self.moves = {
            server: move
            for server, move in moves.items()
            if server in self.servers and self._may_move(server)
        }
        self.finished = {
            server
            for server, move in moves.items()
            if move.status == 'finished'
        }
        self.held = {
            server: site.cloud.allocations(move.uuid)
            for server, move in self.moves.items()
        }
        self.trees = {
            name: site.cloud.provider_tree(uuid)
            for name, uuid in site.cloud.compute_hosts.node_uuids().items()
        }

    def _may_move(self, server):
        found = self.servers[server]
        return found.status == WAITING or found.task_state

    def system(self, host):
        """Return the system of a host."""
        (found,) = self.hosts[host]['systems']
        return found

    def partitions(self, host):
        """Return the LPARs of servers on a host, by their uuids."""
        return {
            found['uuid']: found
            for found in self.system(host)['partitions']
            if found['name'] not in _FOREIGN
        }

    def vios(self, host):
        """Return the Virtual I/O Server of a host."""
        return next(
            found
            for found in self.system(host)['partitions']
            if found['name'] == 'vios1'
        )

    def gpus(self, host):
        """Return the DRC indexes of GPUs that servers have in Placement."""
        return self._gpus(host, self.allocations)

    def gpus_held(self, host):
        """Return those that the moves of servers hold, by the servers."""
        return self._gpus(host, self.held)

    def _gpus(self, host, allocations):
        slots = {
            child.uuid: child.name.rsplit(' ', 1)[1]
            for child in self.trees[host]
            if GPU in child.inventories
        }
        found = collections.defaultdict(set)
        for server, allocated in allocations.items():
            for provider, resources in allocated.items():
                if GPU in resources and provider in slots:
                    found[server].add(slots[provider])
        return found

    def has_source(self, server, host):
        """Return whether a host is the one that a server is moving from.

        Its LPAR there waits for a revert.
        """
        move = self.moves.get(server.id)
        return bool(
            server.status == WAITING
            and move
            and host == move.source_compute != move.dest_compute
        )

    def faults(self):
        """Return what is wrong, in words."""
        return [
            *self._pool_faults(),
            *self._image_faults(),
            *self._usage_faults(),
            *(fault for side in self.site.sides for fault in self._host(side)),
            *(
                fault
                for server in self.servers.values()
                for fault in self._server(server)
            ),
        ]

    def _pool_faults(self):
        used = sum(unit['used'] for unit in self.pool['logical_units'])
        free = self.pool['capacity'] - used
        if abs(free - self.pool['free']) > _ROUNDING_GB:
            yield f'{self.pool["free"]} GB are free instead of {free}'
        names = collections.Counter(
            unit['name'] for unit in self.pool['logical_units']
        )
        for name, count in names.items():
            if count > 1 and image.parse(name) is None:
                yield f'{count} units are named {name}'
            parsed = storage.parse_unit_name(name)
            if parsed and parsed[0] not in self.by_lpar:
                yield f'{name} belongs to no server'
            if not parsed and not image.parse(name):
                yield f'{name} is unknown'

    def _image_faults(self):
        hashes = {
            hashlib.sha256(data).hexdigest()
            for data in self.site.images.values()
        }
        has_all = all(side.is_up for side in self.site.sides)
        for unit in self.pool['logical_units']:
            known = image.parse(unit['name'])
            if known is None:
                continue
            if known.is_usable and unit['sha256'] not in hashes:
                yield f'{unit["name"]} is usable, but not an image'
            if known.state is image.State.PARTIAL and has_all:
                yield f'{unit["name"]} is incomplete'

    def _usage_faults(self):
        """Return what is in use without a server or a move that has it."""
        used = collections.Counter()
        for allocated in (*self.allocations.values(), *self.held.values()):
            for provider, resources in allocated.items():
                for resource_class, amount in resources.items():
                    used[provider, resource_class] += amount
        for provider in (
            child for tree in self.trees.values() for child in tree
        ):
            for resource_class, amount in provider.usages.items():
                known = used[provider.uuid, resource_class]
                if amount != known:
                    yield (
                        f'{amount} {resource_class} of {provider.name} are in '
                        f'use, {known} by servers and their moves'
                    )

    def _host(self, side):
        """Return what is wrong with LPARs, mappings and slots of a host."""
        if not (side.is_up and side.has_power):
            return
        here = self.partitions(side.name)
        for lpar, found in here.items():
            server = self.servers.get(self.by_lpar.get(lpar))
            if server is None:
                yield f'LPAR {found["name"]} of {side.name} has no server'
            elif self.has_source(server, side.name):
                if found['state'] != _OFF:
                    yield (
                        f'{server.id} has moved, and its LPAR on {side.name} '
                        f'is {found["state"]}'
                    )
            elif server.compute_host != side.name:
                yield (
                    f'LPAR {found["name"]} is on {side.name}, its server on '
                    f'{server.compute_host}'
                )
        yield from self._storage(side, here)
        yield from self._slots(side, here)

    def _storage(self, side, here):
        vios = self.vios(side.name)
        names = {found['name'] for found in here.values()}
        for mapping in vios['scsi_mappings']:
            if mapping['client'] not in names:
                yield (
                    f'{mapping["name"]} is mapped to {mapping["client"]} by '
                    f'{side.name}'
                )
        for group in vios['volume_groups']:
            media = (group['media_repository'] or {'media': ()})['media']
            for medium in (*media, *group['disks']):
                owner = [
                    server
                    for lpar, server in self.by_lpar.items()
                    if storage.belongs_to(medium['name'], lpar)
                    and self._may_be_on(self.servers[server], side.name)
                ]
                if not owner:
                    yield f'{medium["name"]} is on {side.name} for no server'

    def _may_be_on(self, server, host):
        return server.compute_host == host or self.has_source(server, host)

    def _slots(self, side, here):
        allocated = self.gpus(side.name)
        held = self.gpus_held(side.name)
        for found in self.servers.values():
            if self.has_source(found, side.name):
                allocated[found.id] = held[found.id]
        lpar_names = {found['name']: lpar for lpar, found in here.items()}
        owned = collections.defaultdict(set)
        for slot in self.system(side.name)['slots']:
            if slot['owner'] in lpar_names:
                server = self.by_lpar.get(lpar_names[slot['owner']])
                owned[server].add(slot['drc_index'])
        for server, indexes in owned.items():
            if not indexes <= allocated.get(server, set()):
                yield (
                    f'{server} owns {sorted(indexes)} of {side.name}, and has '
                    f'{sorted(allocated.get(server, ()))} in Placement'
                )

    def _server(self, server):
        """Return what is wrong with a server that has to be whole."""
        state = _WHOLE.get(server.status)
        side = self.site.side_of(server.compute_host)
        if server.task_state:
            yield f'{server.id} is {server.status}, {server.task_state}'
            return
        if state is None or not (side and side.is_up and side.has_power):
            yield from self._kept(server)
            return
        lpar = self.partitions(side.name).get(self.lpars[server.id])
        if lpar is None or lpar['state'] != state:
            yield f'{server.id} is {server.status}, and its LPAR {lpar}'
            return
        yield from self._whole(server, side, lpar)

    def _whole(self, server, side, lpar):
        wanted = self.site.expected[server.id]
        mapped = {
            mapping['name']
            for mapping in self.vios(side.name)['scsi_mappings']
            if mapping['client'] == lpar['name']
            and storage.parse_unit_name(mapping['name'])
        }
        named = {
            unit_name(server.id, role) for role in ('root', 'eph0', 'swap')
        }
        if mapped != named:
            yield f'{server.id} has the disks {sorted(mapped)}'
        indexes = self.gpus(side.name).get(server.id, set())
        owned = {slot['drc_index'] for slot in lpar['slots']}
        has_number = len(indexes) == wanted.flavor.gpus or wanted.is_repaired
        if owned != indexes or not has_number:
            yield (
                f'LPAR of {server.id} has {sorted(owned)}, Placement '
                f'{sorted(indexes)}'
            )
        elsewhere = self.site.other(side)
        if elsewhere.is_up and set(self.allocations[server.id]) & {
            child.uuid for child in self.trees[elsewhere.name]
        }:
            yield f'{server.id} has allocations on {elsewhere.name}, too'
        yield from self._sizes(server, lpar)
        yield from self._source(server)
        yield from self._contents(server, must_exist=True)

    def _sizes(self, server, lpar):
        """Return which sizes are not those of the flavor."""
        wanted = self.site.expected[server.id]
        if server.flavor.original_name != wanted.name:
            yield f'{server.id} is a {server.flavor.original_name}'
        if lpar['memory'] != wanted.flavor.memory:
            yield f'LPAR of {server.id} has {lpar["memory"]} MB'
        sizes = {'root': wanted.disk, 'swap': wanted.flavor.swap / 1024}
        if wanted.is_repaired:
            return
        for unit in self.pool['logical_units']:
            for role, size in sizes.items():
                if (
                    unit['name'] == unit_name(server.id, role)
                    and unit['capacity'] != size
                ):
                    yield f'{unit["name"]} has {unit["capacity"]} GB'

    def _source(self, server):
        """Return what is wrong with the LPAR to which a server may go back."""
        move = self.moves.get(server.id)
        if server.status != WAITING:
            if server.id in self.finished:
                yield f'{server.id} is {server.status}, its move finished'
            return
        if move is None or not self.has_source(server, move.source_compute):
            return
        lpar = self.partitions(move.source_compute).get(self.lpars[server.id])
        held = self.gpus_held(move.source_compute).get(server.id, set())
        if lpar is None:
            yield f'{server.id} has no LPAR on {move.source_compute}'
        elif {slot['drc_index'] for slot in lpar['slots']} != held:
            yield (
                f'LPAR of {server.id} on {move.source_compute} has '
                f'{lpar["slots"]}, and its move {sorted(held)}'
            )

    def _kept(self, server):
        """Return what is wrong with disks of a server that is not whole."""
        wanted = self.site.expected[server.id]
        yield from self._contents(server, must_exist=wanted.was_whole)

    def _contents(self, server, *, must_exist):
        wanted = self.site.expected[server.id]
        name = unit_name(server.id, 'root')
        found = [
            unit for unit in self.pool['logical_units'] if unit['name'] == name
        ]
        if not found:
            if must_exist:
                yield f'{name} is gone'
            return
        digest = hashlib.sha256(wanted.contents).hexdigest()
        if found[0]['sha256'] != digest:
            yield f'{name} has other contents than were written'


def await_rest(site, seconds=90.0):
    """Wait until nothing is wrong; return what still is at the end."""
    found = []

    def is_right():
        found[:] = State(site).faults()
        return not found

    try:
        site.await_true('no faults', is_right, seconds)
    except TimeoutError:
        return list(found)
    return []

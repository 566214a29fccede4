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


"""Steps about servers on two hosts, up to the failure of one."""

import dataclasses

from demo import cloud as cloud_lib
from demo import compute_hosts
from demo import display
from demo import expected_providers
from demo import guest
from demo import host as host_lib
from demo import report
from demo import server_steps
from demo import step_context
from demo import two_hosts

Context = two_hosts.Context
Outcome = step_context.Outcome

FLAVOR = 'gpu.v100'
FLAVOR_SAME_INDEX = 'gpu.same-index'
FLAVOR_TRAIT = 'gpu.t4'

#: The trait of the GPU that only the second host has.
TRAIT = 'CUSTOM_TESLA_T4'

# On the first host, the GPU in the slot where the second host has another
# model reports no subsystem. All other indexes have equal GPUs.
_SUBSYSTEM = 'CUSTOM_POWERVM_IOSLOT_SUBSYS_DEVICE_ID_124A'

#: The traits of the GPUs that both hosts have.
COMMON_TRAITS = (*server_steps.BY_IDS, _SUBSYSTEM)

# Nova maps a host before it publishes its devices.
_PUBLICATION_SECONDS = 30.0


def show_slots(context: Context) -> Outcome:
    """Show the slots of both hosts, whose DRC indexes have to be equal."""
    slots = context.on_each(lambda side: side.host.slots())
    systems = context.on_each(lambda side: side.host.system_name())
    context.slots_before = context.on_each(lambda side: side.host.owners())
    first, second = (
        [slot.drc_index for slot in found] for found in slots.values()
    )
    expected = {'systems': len(slots), 'DRC indexes of the second': first}
    observed = {
        'systems': len(set(systems.values())),
        'DRC indexes of the second': second,
    }
    shown = []
    for name, found in slots.items():
        shown += [
            f'{name} is {systems[name]}',
            '',
            *display.slots(found),
            '',
        ]
    return expected, observed, shown


def show_inventories(context: Context) -> Outcome:
    """Show the inventory files, each paragraph of which needs a free slot."""
    offers = context.on_each(
        lambda side: expected_providers.offered(
            side.paragraphs, side.host.slots()
        )
    )
    without = {
        name: [paragraph for paragraph, found in offer.items() if not found]
        for name, offer in offers.items()
    }
    shown = []
    for side in context.sides:
        path = side.compute.inventory_file
        shown += [
            f'{path} of {side.name}',
            *display.offers(offers[side.name]),
            '',
        ]
    return (
        {
            'paragraphs that no free slot matches': {
                name: [] for name in offers
            }
        },
        {'paragraphs that no free slot matches': without},
        shown,
    )


def check_provider_trees(context: Context) -> Outcome:
    """Compare both provider trees with those that the slots should have."""
    nodes = context.cloud.compute_hosts.node_uuids()
    expected = {
        'services': dict.fromkeys(nodes, 'up'),
        'trees': context.on_each(
            lambda side: expected_providers.providers(
                side.paragraphs,
                side.host.slots(),
                side.name,
                nodes.get(side.name, ''),
            )
        ),
    }
    observed = step_context.read_until(
        expected, lambda: _read_trees(context, nodes), _PUBLICATION_SECONDS
    )
    shown = []
    for side in context.sides:
        tree = context.cloud.provider_tree(nodes[side.name])
        context.provider_names |= {child.uuid: child.name for child in tree}
        context.unused |= {
            child.name: dict.fromkeys(child.inventories, 0)
            for child in tree[1:]
        }
        shown += [*display.tree(tree), '']
    return expected, observed, shown


def _read_trees(context: Context, nodes: dict[str, str]) -> report.Json:
    services = context.cloud.compute_hosts.services()
    return {
        'services': {name: item.state for name, item in services.items()},
        'trees': {
            name: {
                child.name: child.published()
                for child in context.cloud.provider_tree(uuid)[1:]
            }
            for name, uuid in nodes.items()
        },
    }


def create_flavor(context: Context) -> Outcome:
    """Create a flavor for a GPU that both hosts have."""
    groups = server_steps.gpu_group(1, *COMMON_TRAITS)
    return server_steps.create_flavor(context, FLAVOR, groups)


def boot_on_first_host(context: Context) -> Outcome:
    """Boot a server with a GPU on the first host."""
    return boot(context, 'on-first', FLAVOR, context.sides[0].name)


def boot_on_second_host(context: Context) -> Outcome:
    """Boot a server with a GPU of the same DRC index on the second host."""
    first, second = (side.name for side in context.sides)
    (index,) = context.gpus_of(context.servers[0])[first]
    trait = expected_providers.drc_index_trait(index)
    _, _, flavor = server_steps.create_flavor(
        context,
        FLAVOR_SAME_INDEX,
        server_steps.gpu_group(1, trait, expected_providers.OWNER_NOVA),
    )
    expected, observed, shown = boot(
        context, 'on-second', FLAVOR_SAME_INDEX, second
    )
    expected['its GPU'] = [index]
    observed['its GPU'] = context.gpus_of(context.servers[-1]).get(second)
    return expected, observed, [*flavor, '', *shown]


def boot_by_trait(context: Context) -> Outcome:
    """Boot a server that needs a trait, wherever the scheduler finds it."""
    _, _, flavor = server_steps.create_flavor(
        context,
        FLAVOR_TRAIT,
        server_steps.gpu_group(1, TRAIT, expected_providers.OWNER_NOVA),
    )
    _, second = context.sides
    expected, observed, shown = boot(
        context, 'by-trait', FLAVOR_TRAIT, second.name, is_forced=False
    )
    return expected, observed, [*flavor, '', *shown]


def boot(
    context: Context,
    name: str,
    flavor: str,
    host: str,
    *,
    is_forced: bool = True,
    gpus: int = 1,
) -> Outcome:
    """Boot a server; compare Placement, Nova and both hosts.

    :param host: where the server has to be.
    :param is_forced: whether the request names this host.
    :param gpus: how many GPUs its flavor gives to it.
    """
    server = context.create_server(name, flavor, host if is_forced else None)
    context.contents[name] = guest.sha256(context.image_data)
    place = two_hosts.find_place(context, server, host)
    expected = two_hosts.expect(context, place)
    observed = two_hosts.observe(context, server)
    expected |= {'GPUs': gpus, 'ports': 1}
    observed |= {'GPUs': len(place.gpus), 'ports': len(place.macs)}
    return expected, observed, two_hosts.show(context, server)


def check_ports(context: Context) -> Outcome:
    """Verify that each port is active, and bound to the host of its server."""
    expected, observed, shown = {}, {}, []
    for server in context.servers:
        hosts = context.cloud.compute_hosts
        host = hosts.host_of(server.id)
        expected[server.name] = [(host, 'pvm_sea', 'ACTIVE')]
        bindings = hosts.bindings(server.id)
        observed[server.name] = [
            (binding.host, binding.vif_type, binding.status)
            for binding in bindings
        ]
        shown += [
            f'{server.name}: port {binding.mac} with '
            f'{", ".join(binding.addresses)} is {binding.status} on '
            f'{binding.host}'
            for binding in bindings
        ]
    return expected, observed, shown


def ports_of(context: Context, server: cloud_lib.Server) -> list[report.Json]:
    """Return the ports of a server with all that has to stay in a move."""
    bindings = context.cloud.compute_hosts.bindings(server.id)
    return [dataclasses.asdict(binding) for binding in bindings]


def ports_on(
    side: two_hosts.Side, bindings: list[compute_hosts.Binding]
) -> list[report.Json]:
    """Return what ports have to be after a move to a host."""
    return [
        dataclasses.asdict(dataclasses.replace(binding, host=side.name))
        for binding in bindings
    ]


def check_disks(context: Context) -> Outcome:
    """Compare the contents of all root disks with what was written."""
    expected = {'SHA-256 of disks': dict(context.contents)}
    observed = {
        'SHA-256 of disks': {
            server.name: read_sha256(context, server)
            for server in context.servers
        }
    }
    shown = [
        f'{name}: {digest}'
        for name, digest in observed['SHA-256 of disks'].items()
    ]
    return expected, observed, shown


def check_pool(context: Context) -> Outcome:
    """Verify that both hosts see clones of one image in one pool."""
    pools = context.on_each(lambda side: side.host.pool_units())
    units, other = pools.values()
    images = [unit.name for unit in units if unit.name.startswith('nvi')]
    names = [root_name(server) for server in context.servers]
    image = next(iter(images), 'an image')
    expected = {
        'images': 1,
        'images of the root disks': dict.fromkeys(names, image),
        'the other host sees the same units': True,
    }
    observed = {
        'images': len(images),
        'images of the root disks': {
            unit.name: unit.image for unit in units if unit.name in names
        },
        'the other host sees the same units': units == other,
    }
    shown = display.table(
        ('logical unit', 'UDID', 'clone of'),
        ((unit.name, unit.udid, unit.image or '-') for unit in units),
    )
    return expected, observed, shown


def root_name(server: cloud_lib.Server) -> str:
    """Return the name of the logical unit with the root disk of a server."""
    uuid = step_context.partition_uuid(server.id)
    return f'nv{uuid.replace("-", "")}-root'


def read_sha256(context: Context, server: cloud_lib.Server) -> str | None:
    """Return the SHA-256 of a server's disk on the host that has it."""
    disk = read_disk(context.side_of(server), server)
    return None if disk is None else guest.sha256(disk.contents)


def read_disk(
    side: two_hosts.Side, server: cloud_lib.Server
) -> host_lib.StorageElement | None:
    """Return the disk that the LPAR of a server boots from, or None.

    It is the one in the lowest virtual slot.
    """
    uuid = step_context.partition_uuid(server.id)
    disks = (item for item in side.host.storage(uuid) if item.is_disk)
    return min(disks, key=lambda disk: disk.slot, default=None)


def delete_servers(context: Context) -> Outcome:
    """Delete all servers; verify that both hosts are as at the beginning."""
    for server in context.servers:
        context.cloud.delete_server(server)
    expected: report.Json = {
        'allocations': {server.name: {} for server in context.servers},
        'used': context.unused,
        'owners of slots': context.slots_before,
        'LPARs': context.on_each(lambda _side: []),
        'disks and media': context.on_each(lambda _side: []),
        'ports': [],
    }
    observed = step_context.read_until(
        expected, lambda: _find_remains(context), seconds=30
    )
    nodes = context.cloud.compute_hosts.node_uuids()
    shown = [
        line
        for uuid in nodes.values()
        for line in display.usages(context.cloud.provider_tree(uuid))
    ]
    return expected, observed, shown


def _find_remains(context: Context) -> report.Json:
    """Return what deleted servers left in Placement and on both hosts."""
    cloud = context.cloud
    trees = [
        cloud.provider_tree(uuid)
        for uuid in cloud.compute_hosts.node_uuids().values()
    ]
    return {
        'allocations': {
            server.name: cloud.allocations(server.id)
            for server in context.servers
        },
        'used': {
            child.name: child.usages for tree in trees for child in tree[1:]
        },
        'owners of slots': context.on_each(lambda side: side.host.owners()),
        'LPARs': context.on_each(lambda side: _lpars(context, side)),
        'disks and media': context.on_each(_disks_and_media),
        'ports': [
            dataclasses.asdict(port)
            for server in context.servers
            for port in cloud.ports(server)
        ],
    }


def _lpars(context: Context, side: two_hosts.Side) -> list[str]:
    uuids = {step_context.partition_uuid(item.id) for item in context.servers}
    return [
        partition.name
        for partition in side.host.partitions()
        if partition.uuid in uuids
    ]


def _disks_and_media(side: two_hosts.Side) -> list[str]:
    """Return the names of what a host stores, except for cached images."""
    units = side.host.pool_units()
    return [
        *side.host.volume_group_contents(),
        *(unit.name for unit in units if not unit.name.startswith('nvi')),
    ]

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

"""Steps about flavors and servers."""

import hashlib

from demo import attachments
from demo import cloud as cloud_lib
from demo import display
from demo import expected_providers
from demo import guest
from demo import operator_commands
from demo import report
from demo import step_context

Context = step_context.Context
Outcome = step_context.Outcome

FLAVOR_ONE = 'gpu.one'
FLAVOR_TWO = 'gpu.two'
FLAVOR_TAKEN = 'gpu.taken'

_OWNER = expected_providers.OWNER_NOVA
BY_IDS = (
    'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE',
    'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6',
    _OWNER,
)

_DIFFERENCES = (
    '',
    "The specification's sample has traits1: and PRODUCT_ID and no policy;",
    'the working keys are trait1:, DEVICE_ID and group_policy. OWNER_NOVA',
    'excludes devices that Cyborg manages.',
)


def gpu_group(number: int, *traits: str) -> dict[str, str]:
    """Return the extra specs of a request group for one GPU."""
    return {
        f'resources{number}:{step_context.GPU}': '1',
        **{f'trait{number}:{trait}': 'required' for trait in traits},
    }


def create_image_network_key(context: Context) -> Outcome:
    """Create what servers need; compare the image's hash in Glance."""
    data = context.image_data
    context.image = image = context.cloud.create_image(data)
    context.network = context.cloud.create_network()
    context.cloud.create_key(guest.PUBLIC_KEY)
    digest = hashlib.new(image.hash_algorithm, data).hexdigest()
    expected = {'bytes': len(data), image.hash_algorithm: digest}
    observed = {'bytes': image.size, image.hash_algorithm: image.hash_value}
    shown = [
        f'image {cloud_lib.IMAGE}: {image.size} bytes, SHA-256 '
        f'{guest.sha256(data)}',
        f'network {cloud_lib.NETWORK}: VLAN {context.network.vlan}',
        f'key {cloud_lib.KEY}: {guest.PUBLIC_KEY}',
    ]
    return expected, observed, shown


def create_flavor_one(context: Context) -> Outcome:
    """Create a flavor that requests one GPU by its PCI ids."""
    return create_flavor(context, FLAVOR_ONE, gpu_group(1, *BY_IDS))


def create_flavor_two(context: Context) -> Outcome:
    """Create a flavor with one GPU by its ids, another by its DRC index."""
    free = [
        index for index in context.gpus if index not in context.allocated_gpus
    ]
    # The last one; group 1 is left with the others.
    context.named_gpu = free[-1]
    trait = expected_providers.drc_index_trait(context.named_gpu)
    extra_specs = {
        **gpu_group(1, *BY_IDS),
        **gpu_group(2, trait, _OWNER),
        'group_policy': 'isolate',
    }
    expected, observed, shown = create_flavor(context, FLAVOR_TWO, extra_specs)
    return expected, observed, [*shown, *_DIFFERENCES]


def create_flavor_taken(context: Context) -> Outcome:
    """Create a flavor that requests a GPU that a server already has."""
    trait = expected_providers.drc_index_trait(context.allocated_gpus[0])
    return create_flavor(context, FLAVOR_TAKEN, gpu_group(1, trait, _OWNER))


def create_flavor(
    context: Context,
    name: str,
    extra_specs: dict[str, str],
    sizes: cloud_lib.Sizes = cloud_lib.SMALL,
) -> Outcome:
    """Create a flavor; compare its extra specs with those in Nova."""
    context.cloud.create_flavor(name, extra_specs, sizes)
    observed = context.cloud.extra_specs(name)
    shown = [f'{key}={value}' for key, value in sorted(observed.items())]
    return extra_specs, observed, [f'flavor {name}', *shown]


def boot_one_gpu(context: Context) -> Outcome:
    """Boot a server with one GPU."""
    return _boot(context, 'one-gpu', FLAVOR_ONE, 1)


def boot_two_gpus(context: Context) -> Outcome:
    """Boot a server with two GPUs, of which the flavor names one."""
    expected, observed, shown = _boot(context, 'two-gpus', FLAVOR_TWO, 2)
    named = f'has the GPU {context.named_gpu}, which the flavor names'
    expected[named] = True
    observed[named] = context.named_gpu in context.allocated_gpus[-2:]
    return expected, observed, shown


def _boot(context: Context, name: str, flavor: str, gpus: int) -> Outcome:
    """Boot a server; compare Placement, Nova and the host."""
    context.host.pop_request_count()
    server = context.create_server(name, flavor)
    request_count = context.host.pop_request_count()
    allocated = context.find_allocated(server, step_context.GPU)
    context.allocated_gpus += allocated
    slots = context.host.slots()
    partition = context.find_partition(server)
    observed = {
        'server': server.status,
        'fault': server.fault,
        'GPUs allocated in Placement': len(allocated),
        'LPAR': partition and partition.document(),
        'slots that the LPAR owns': context.host.owned_by(
            server.instance_name
        ),
    }
    expected = {
        'server': 'ACTIVE',
        'fault': '',
        'GPUs allocated in Placement': gpus,
        'LPAR': step_context.expected_lpar(server, allocated),
        'slots that the LPAR owns': allocated,
    }
    shown = [
        *display.server(server, partition, slots),
        '',
        f'{request_count} requests to the host during the boot',
    ]
    return expected, observed, shown


def check_attachments(context: Context) -> Outcome:
    """Verify disk, port and config drive of the server with one GPU."""
    assert context.network is not None  # noqa: S101 - for mypy
    server = context.servers[0]
    found = attachments.read_attachments(
        context.host,
        context.cloud,
        server,
        step_context.partition_uuid(server.id),
    )
    locations = [
        slot.properties['drc_name']
        for slot in context.host.slots()
        if slot.drc_index in context.allocated_gpus
    ]
    expected = attachments.expected_attachments(
        server, context.network, context.image_data, locations, found.macs
    )
    return expected, found.document(), display.attachments(found)


def boot_taken_gpu(context: Context) -> Outcome:
    """Verify that a request for an allocated GPU changes nothing."""
    _, _, flavor = create_flavor_taken(context)
    expected, observed, shown = boot_in_vain(context, 'no-gpu', FLAVOR_TAKEN)
    return expected, observed, [*flavor, '', *shown]


def boot_in_vain(
    context: Context, name: str, flavor: str
) -> tuple[dict[str, report.Json], dict[str, report.Json], list[str]]:
    """Boot a server that no host can have; compare what it leaves."""
    before = context.host.owners()
    server = context.create_server(name, flavor)
    partition = context.find_partition(server)
    observed = {
        'server': server.status,
        'fault': server.fault.partition('.')[0],
        'allocations': context.cloud.allocations(server.id),
        'LPAR': partition and partition.document(),
        'owners of the slots': context.host.owners(),
    }
    expected = {
        'server': 'ERROR',
        'fault': 'No valid host was found',
        'allocations': {},
        'LPAR': None,
        'owners of the slots': before,
    }
    shown = [f'server {server.name} is {server.status}: {server.fault}']
    return expected, observed, shown


def lint_flavors(context: Context) -> Outcome:
    """Run the operator's lint over all flavors, which must find nothing.

    It also reads the device profiles if the cloud has Cyborg.
    """
    options = ['--cloud'] + ['--cyborg'] * context.stack.has_cyborg
    result = operator_commands.run_inventory(
        context.stack, 'flavor', 'lint', *options
    )
    return {'exit status': 0}, {'exit status': result.status}, result.lines()


def delete_servers(context: Context) -> Outcome:
    """Delete all servers; verify that nothing of them remains."""
    for server in context.servers:
        context.cloud.delete_server(server)
    expected: dict[str, report.Json] = {
        'allocations': {server.name: {} for server in context.servers},
        'used': context.unused,
        'LPARs': [],
        'disks, media and ports': [],
        'slots without an owner': sorted(context.gpus + context.cards),
    }
    if context.stack.has_cyborg:
        expected['accelerator requests'] = 0
    observed = step_context.read_until(
        expected, lambda: _find_remains(context)
    )
    cloud = context.cloud
    tree = cloud.provider_tree(cloud.compute_node_uuid())
    shown = [*display.usages(tree), '', *display.slots(context.host.slots())]
    return expected, observed, shown


def _find_remains(context: Context) -> dict[str, report.Json]:
    """Return what deleted servers left in Placement and on the host."""
    cloud, host = context.cloud, context.host
    uuids = sorted(
        step_context.partition_uuid(server.id) for server in context.servers
    )
    tree = cloud.provider_tree(cloud.compute_node_uuid())
    storage = [
        element.name for uuid in uuids for element in host.storage(uuid)
    ]
    ports = [
        port.mac for server in context.servers for port in cloud.ports(server)
    ]
    remains = {
        'allocations': {
            server.name: cloud.allocations(server.id)
            for server in context.servers
        },
        'used': {child.name: child.usages for child in tree[1:]},
        'LPARs': [
            partition.name
            for partition in host.partitions()
            if partition.uuid in uuids
        ],
        'disks, media and ports': [
            *storage,
            *host.volume_group_contents(),
            *ports,
        ],
        'slots without an owner': [
            slot.drc_index
            for slot in host.slots()
            if slot.drc_index in context.gpus + context.cards
            and slot.owner is None
        ],
    }
    if context.stack.has_cyborg:
        remains['accelerator requests'] = sum(
            len(cloud.cyborg.requests(server.id)) for server in context.servers
        )
    return remains

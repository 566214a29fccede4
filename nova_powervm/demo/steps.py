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

"""The demonstration: device passthrough as operators and users see it.

Every step states what it must come to and what it came to, in values that
can be compared; it shows a person the same; and the first that is wrong is
the last.
"""

import collections.abc
import configparser
import hashlib
import importlib.resources
import time

import openstack.exceptions
import requests

from nova_powervm.demo import belongings
from nova_powervm.demo import cloud as cloud_lib
from nova_powervm.demo import config
from nova_powervm.demo import display
from nova_powervm.demo import expectation
from nova_powervm.demo import guest
from nova_powervm.demo import host as host_lib
from nova_powervm.demo import report
from nova_powervm.demo import stack as stack_lib

#: What tells "an API refused" from a mistake of the demonstration itself.
REFUSALS = (
    openstack.exceptions.SDKException,
    requests.RequestException,
    TimeoutError,
)

#: What a step comes to: expected, observed, and lines to look at.
Outcome = tuple[report.Json, report.Json, list[str]]

_GPU = 'CUSTOM_GPU'
_BY_IDS = (
    'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE',
    'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6',
    'OWNER_NOVA',
)

_CURED = (
    '',
    "The specification's sample says traits1: and PRODUCT_ID, and no policy;",
    'the keys that work are trait1:, DEVICE_ID and group_policy. OWNER_NOVA',
    "keeps Nova from a device of Cyborg's.",
)

# Two servers get three, and one of these is then asked for again.
_GPUS_NEEDED = 3


def inventory_text() -> str:
    """Return the inventory.yaml of the demonstration."""
    package = importlib.resources.files('nova_powervm.demo')
    text = (package / 'inventory.yaml').read_text()
    # Without the license, which the file in this package begins with.
    return text.partition('\n\n')[2]


def partition_uuid(server_id: str) -> str:
    """Return the UUID of a server's partition.

    It is the server's, but the platform keeps the first bit clear.
    """
    first = int(server_id[:2], 16) & 0x7F
    return f'{first:02x}{server_id[2:].lower()}'


def gpu_group(number: int, *traits: str) -> dict[str, str]:
    """Return the extra specs of one request group for one GPU."""
    return {
        f'resources{number}:{_GPU}': '1',
        **{f'trait{number}:{trait}': 'required' for trait in traits},
    }


class Demonstration:
    """One walk through all steps, on a cloud in which nothing was done."""

    def __init__(
        self,
        stack: stack_lib.Stack,
        cloud: cloud_lib.Cloud,
        host: host_lib.Host,
    ) -> None:
        self._stack = stack
        self._cloud = cloud
        self._host = host
        self._policy = expectation.paragraphs(inventory_text())
        self._data = guest.image()
        self._image: cloud_lib.Image | None = None
        self._network: cloud_lib.Network | None = None
        self._gpus: list[str] = []
        #: The slots' providers: names by UUID, and nothing used by name.
        self._names: dict[str, str] = {}
        self._unused: dict[str, dict[str, int]] = {}
        self._servers: list[cloud_lib.Server] = []
        self._taken: list[str] = []
        self._wanted = ''

    def run(self) -> collections.abc.Iterator[report.Step]:
        """Yield the steps one by one, up to the first wrong one."""
        for title, action in (
            ('The slots of the host', self._slots),
            ('The inventory.yaml in use', self._inventory),
            ('The provider tree in Placement', self._tree),
            ('in_tree of any slot names the whole tree', self._in_tree),
            ('An image, a network and a key', self._supplies),
            ('A flavor with one GPU', self._flavor_one),
            ('A server with one GPU', self._boot_one),
            ('Its disk, its port and its config drive', self._belongings),
            ("The specification's flavor with two GPUs", self._flavor_two),
            ('A server with two GPUs', self._boot_two),
            ('A server that asks for a taken GPU', self._boot_taken),
            ('Deletion gives everything back', self._delete),
        ):
            try:
                expected, observed, shown = action()
            except REFUSALS as error:
                step = report.Step(title, 'no error', report.reason(error))
            else:
                step = report.Step(title, expected, observed, shown)
            yield step
            if not step.ok:
                return

    def _slots(self) -> Outcome:
        found = self._host.slots()
        offers = expectation.offered(self._policy, found)
        self._gpus = offers['gpus']
        enough = f'free GPUs of the host, {_GPUS_NEEDED} or more'
        return (
            {enough: True},
            {enough: len(self._gpus) >= _GPUS_NEEDED},
            display.slots(found),
        )

    def _inventory(self) -> Outcome:
        nova = configparser.RawConfigParser(strict=False)
        nova.read(self._stack.etc / config.NOVA)
        text = self._stack.inventory_file.read_text()
        offers = expectation.offered(self._policy, self._host.slots())
        observed = {
            '[powervm]inventory_file': nova['powervm']['inventory_file'],
            'paragraphs that no free slot matches': [
                name for name, indexes in offers.items() if not indexes
            ],
        }
        expected = {
            '[powervm]inventory_file': str(self._stack.inventory_file),
            'paragraphs that no free slot matches': [],
        }
        shown = [str(self._stack.inventory_file), '', *text.splitlines(), '']
        return expected, observed, shown + display.offers(offers)

    def _tree(self) -> Outcome:
        node = self._cloud.compute_node_uuid()
        root, *children = tree = self._cloud.tree(node)
        self._names = {child.uuid: child.name for child in children}
        self._unused = {
            child.name: dict.fromkeys(child.inventories, 0)
            for child in children
        }
        expected = {
            'root': {'name': stack_lib.NODE, 'uuid': node},
            **expectation.providers(
                self._policy, self._host.slots(), stack_lib.NODE, node
            ),
        }
        observed = {
            'root': {'name': root.name, 'uuid': root.uuid},
            **{child.name: child.published() for child in children},
        }
        return expected, observed, display.tree(tree)

    def _in_tree(self) -> Outcome:
        whole = sorted([self._cloud.compute_node_uuid(), *self._names])
        observed = {
            name: self._cloud.tree_uuids(uuid)
            for uuid, name in self._names.items()
        }
        expected = {name: whole for name in self._names.values()}
        uuid, name = next(iter(self._names.items()))
        shown = [
            f'GET /resource_providers?in_tree={uuid}  ({name})',
            *(f'  {found}' for found in observed[name]),
        ]
        return expected, observed, shown

    def _flavor(self, name: str, extra_specs: dict[str, str]) -> Outcome:
        self._cloud.create_flavor(name, extra_specs)
        observed = self._cloud.extra_specs(name)
        shown = [f'{key}={value}' for key, value in sorted(observed.items())]
        return extra_specs, observed, [f'flavor {name}', *shown]

    def _flavor_one(self) -> Outcome:
        return self._flavor('gpu.one', gpu_group(1, *_BY_IDS))

    def _flavor_two(self) -> Outcome:
        # A GPU that is still free; another one is left for group 1.
        free = [index for index in self._gpus if index not in self._taken]
        self._wanted = free[-1]
        expected, observed, shown = self._flavor(
            'gpu.two',
            {
                **gpu_group(1, *_BY_IDS),
                **gpu_group(
                    2,
                    expectation.drc_index_trait(self._wanted),
                    'OWNER_NOVA',
                ),
                'group_policy': 'isolate',
            },
        )
        return expected, observed, [*shown, *_CURED]

    def _supplies(self) -> Outcome:
        """Compare what Glance keeps with the bytes that it was sent."""
        self._image = image = self._cloud.create_image(self._data)
        self._network = self._cloud.create_network()
        self._cloud.create_key(guest.PUBLIC_KEY)
        wanted = hashlib.new(image.hash_algorithm, self._data).hexdigest()
        expected = {'bytes': len(self._data), image.hash_algorithm: wanted}
        observed = {
            'bytes': image.size,
            image.hash_algorithm: image.hash_value,
        }
        shown = [
            f'image {cloud_lib.IMAGE}: {image.size} bytes, SHA-256 '
            f'{guest.sha256(self._data)}',
            f'network {cloud_lib.NETWORK}: VLAN {self._network.vlan}',
            f'key {cloud_lib.KEY}: {guest.PUBLIC_KEY}',
        ]
        return expected, observed, shown

    def _boot_one(self) -> Outcome:
        return self._boot('one-gpu', 'gpu.one', 1)

    def _belongings(self) -> Outcome:
        assert self._network is not None  # noqa: S101 - for the type checker
        server = self._servers[0]
        found = belongings.look(
            self._host, self._cloud, server, partition_uuid(server.id)
        )
        locations = [
            slot.properties['drc_name']
            for slot in self._host.slots()
            if slot.drc_index in self._taken
        ]
        expected = belongings.expected(
            server, self._network, self._data, locations, found.macs
        )
        return expected, found.document(), display.belongings(found)

    def _boot_two(self) -> Outcome:
        expected, observed, shown = self._boot('two-gpus', 'gpu.two', 2)
        named = f'has the GPU {self._wanted}, which the flavor names'
        expected[named] = True
        observed[named] = self._wanted in self._taken[-2:]
        return expected, observed, shown

    def _boot(self, name: str, flavor: str, gpus: int) -> Outcome:
        """Boot a server; compare Placement's word, Nova's, the host's."""
        self._host.requests()
        server = self._create(name, flavor)
        requests_made = self._host.requests()
        given = self._allocated(server)
        self._taken += given
        slots = self._host.slots()
        partition = self._partition(server)
        observed = {
            'server': server.status,
            'fault': server.fault,
            'GPUs allocated in Placement': len(given),
            'partition': partition and partition.document(),
            "slots that are the partition's": [
                slot.drc_index
                for slot in slots
                if slot.owner == server.instance_name
            ],
        }
        expected = {
            'server': 'ACTIVE',
            'fault': '',
            'GPUs allocated in Placement': gpus,
            'partition': {
                'name': server.instance_name,
                'uuid': partition_uuid(server.id),
                'state': 'running',
                'slots': given,
            },
            "slots that are the partition's": given,
        }
        shown = [
            *display.server(server, partition, slots),
            '',
            f'{requests_made} requests to the host meanwhile',
        ]
        return expected, observed, shown

    def _create(self, name: str, flavor: str) -> cloud_lib.Server:
        assert self._image and self._network  # noqa: S101 - for the checker
        server = self._cloud.boot(
            name, flavor, self._image, self._network, guest.USER_DATA
        )
        self._servers.append(server)
        return server

    def _boot_taken(self) -> Outcome:
        taken = self._taken[0]
        trait = expectation.drc_index_trait(taken)
        self._cloud.create_flavor('gpu.taken', gpu_group(1, trait))
        before = display.slots(self._host.slots())
        server = self._create('no-gpu', 'gpu.taken')
        partition = self._partition(server)
        observed = {
            'server': server.status,
            'fault': server.fault.partition('.')[0],
            'allocations': self._cloud.allocations(server.id),
            'partition': partition and partition.document(),
            "the host's slots": display.slots(self._host.slots()),
        }
        expected: dict[str, report.Json] = {
            'server': 'ERROR',
            'fault': 'No valid host was found',
            'allocations': {},
            'partition': None,
            "the host's slots": before,
        }
        shown = [
            f'flavor gpu.taken asks for {trait}',
            f'server {server.name} is {server.status}: {server.fault}',
        ]
        return expected, observed, shown

    def _delete(self) -> Outcome:
        for server in self._servers:
            self._cloud.delete(server)
        expected = {
            'allocations': {server.name: {} for server in self._servers},
            'used': self._unused,
            'partitions': [],
            'disks, media and ports': [],
            'GPUs without an owner': self._gpus,
        }
        observed = self._after_deletion()
        # Nova forgets a server a moment before Placement does.
        deadline = time.monotonic() + 10
        while observed != expected and time.monotonic() < deadline:
            time.sleep(0.2)
            observed = self._after_deletion()
        tree = self._cloud.tree(self._cloud.compute_node_uuid())
        shown = [*display.usages(tree), '', *display.slots(self._host.slots())]
        return expected, observed, shown

    def _after_deletion(self) -> dict[str, report.Json]:
        ours = {partition_uuid(server.id) for server in self._servers}
        tree = self._cloud.tree(self._cloud.compute_node_uuid())
        return {
            'allocations': {
                server.name: self._cloud.allocations(server.id)
                for server in self._servers
            },
            'used': {child.name: child.usages for child in tree[1:]},
            'partitions': [
                partition.name
                for partition in self._host.partitions()
                if partition.uuid in ours
            ],
            'disks, media and ports': [
                *(
                    stored.name
                    for uuid in sorted(ours)
                    for stored in self._host.storage(uuid)
                ),
                *self._host.left_in_groups(),
                *(
                    port.mac
                    for server in self._servers
                    for port in self._cloud.ports(server)
                ),
            ],
            'GPUs without an owner': [
                slot.drc_index
                for slot in self._host.slots()
                if slot.drc_index in self._gpus and slot.owner is None
            ],
        }

    def _allocated(self, server: cloud_lib.Server) -> list[str]:
        """Return the DRC indexes of the GPUs that Placement gave a server."""
        return sorted(
            self._names.get(provider, provider)[-8:]
            for provider, resources in self._cloud.allocations(
                server.id
            ).items()
            if _GPU in resources
        )

    def _partition(
        self, server: cloud_lib.Server
    ) -> host_lib.Partition | None:
        # Not by its name: a server that no host took has one of a cell that
        # has no hosts, and names are unique within a cell.
        uuid = partition_uuid(server.id)
        for partition in self._host.partitions():
            if partition.uuid == uuid:
                return partition
        return None

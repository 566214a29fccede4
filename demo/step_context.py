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

"""What the steps of the demonstration share."""

import collections.abc
import dataclasses
import time

from demo import cloud as cloud_lib
from demo import expected_providers
from demo import guest
from demo import host as host_lib
from demo import launcher
from demo import report
from demo import stack as stack_lib

#: The result of a step: expected, observed, and lines to show.
Outcome = tuple[report.Json, report.Json, list[str]]

GPU = 'CUSTOM_GPU'
CARD = 'CUSTOM_CRYPTO'

Server = cloud_lib.Server

# Nova forgets a deleted server before Placement, Cyborg and the host do.
_DELETION_TIMEOUT = 10.0


@dataclasses.dataclass
class Context:
    """The cloud, and what earlier steps found or created.

    :ivar paragraphs: the paragraphs of Nova's inventory file.
    :ivar accelerator_paragraphs: those of Cyborg's, if the cloud has Cyborg.
    :ivar image_data: the contents of the image.
    :ivar image: the image in Glance, once it exists.
    :ivar network: the network in Neutron, once it exists.
    :ivar gpus: the DRC indexes of the GPUs that Nova offers.
    :ivar cards: the DRC indexes of the crypto cards that Cyborg offers.
    :ivar provider_names: the names of the slot providers, by UUID.
    :ivar unused: the usages of a slot provider without consumers, by name.
    :ivar servers: the servers created, in order.
    :ivar allocated_gpus: the DRC indexes of the GPUs that servers have.
    :ivar named_gpu: the DRC index that the flavor with two GPUs names.
    """

    stack: stack_lib.Stack
    cloud: cloud_lib.Cloud
    host: host_lib.Host
    paragraphs: list[expected_providers.Paragraph] = dataclasses.field(
        init=False
    )
    accelerator_paragraphs: list[expected_providers.Paragraph] = (
        dataclasses.field(init=False)
    )
    image_data: bytes = dataclasses.field(
        default_factory=guest.make_image, repr=False
    )
    image: cloud_lib.Image | None = None
    network: cloud_lib.Network | None = None
    gpus: list[str] = dataclasses.field(default_factory=list)
    cards: list[str] = dataclasses.field(default_factory=list)
    provider_names: dict[str, str] = dataclasses.field(default_factory=dict)
    unused: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    servers: list[cloud_lib.Server] = dataclasses.field(default_factory=list)
    allocated_gpus: list[str] = dataclasses.field(default_factory=list)
    named_gpu: str = ''

    def __post_init__(self) -> None:
        has_cyborg = self.stack.has_cyborg
        self.paragraphs = expected_providers.read_paragraphs(
            launcher.default_inventory(has_cyborg)
        )
        self.accelerator_paragraphs = (
            expected_providers.read_paragraphs(launcher.default_accelerators())
            if has_cyborg
            else []
        )

    def log_off(self) -> None:
        """End the session with the host."""
        self.host.log_off()

    def create_server(
        self, name: str, flavor: str, host: str | None = None
    ) -> cloud_lib.Server:
        """Create a server with the context's image and network.

        :param host: where it has to be; by default the scheduler chooses.
        """
        assert self.image and self.network  # noqa: S101 - for mypy
        server = self.cloud.create_server(
            name,
            flavor,
            self.image,
            self.network,
            guest.USER_DATA,
            host=host,
        )
        self.servers.append(server)
        return server

    def find_partition(
        self, server: cloud_lib.Server
    ) -> host_lib.Partition | None:
        """Return the LPAR of a server, or None if there is none."""
        # Names are unique only within a cell, and a server that was never
        # scheduled is in a cell without hosts.
        uuid = partition_uuid(server.id)
        for partition in self.host.partitions():
            if partition.uuid == uuid:
                return partition
        return None

    def find_allocated(
        self, server: cloud_lib.Server, resource_class: str
    ) -> list[str]:
        """Return the sorted DRC indexes of a server's slots in Placement."""
        allocations = self.cloud.allocations(server.id)
        return sorted(
            self.provider_names.get(provider, provider)[-8:]
            for provider, resources in allocations.items()
            if resource_class in resources
        )


def expected_lpar(server: Server, slots: list[str]) -> report.Json:
    """Return what the LPAR of a running server has to be."""
    return {
        'name': server.instance_name,
        'uuid': partition_uuid(server.id),
        'state': 'running',
        'slots': slots,
    }


def read_until(
    expected: report.Json,
    read: collections.abc.Callable[[], report.Json],
    seconds: float = _DELETION_TIMEOUT,
) -> report.Json:
    """Read until the expected result is there.

    :param seconds: after this time, the last result is returned as it is.
    """
    observed = read()
    deadline = time.monotonic() + seconds
    while observed != expected and time.monotonic() < deadline:
        time.sleep(0.2)
        observed = read()
    return observed


def partition_uuid(server_id: str) -> str:
    """Return the UUID of the LPAR of a server.

    It is the UUID of the server with its first bit cleared, which the
    platform reserves.
    """
    first = int(server_id[:2], 16) & 0x7F
    return f'{first:02x}{server_id[2:].lower()}'

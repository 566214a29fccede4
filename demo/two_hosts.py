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


"""What the steps on two hosts share, and how they see a server."""

import collections.abc
import dataclasses
import functools
import typing

import requests

from demo import cloud as cloud_lib
from demo import expected_providers
from demo import host as host_lib
from demo import report
from demo import stack as stack_lib
from demo import step_context
from demo import supervisor as supervisor_lib

NO_ANSWER = 'the host does not answer'

#: The statuses of servers whose guests run; one that has moved waits for its
#: confirmation.
_RUNNING = ('ACTIVE', 'RESCUE', 'VERIFY_RESIZE')

_T = typing.TypeVar('_T')


@dataclasses.dataclass(frozen=True)
class Side:
    """A compute host: what its nova-compute and its PowerVM host are.

    :ivar host: a client of the PowerVM host.
    """

    compute: stack_lib.Compute
    host: host_lib.Host

    @property
    def name(self) -> str:
        """The name of the host in Nova."""
        return self.compute.name

    @functools.cached_property
    def paragraphs(self) -> list[expected_providers.Paragraph]:
        """The paragraphs of the inventory file."""
        text = self.compute.inventory_file.read_text()
        return expected_providers.read_paragraphs(text)


@dataclasses.dataclass(frozen=True)
class Volume:
    """What a guest has to find on a volume, and where, after each move.

    :ivar sha256: the SHA-256 of what was written to it.
    :ivar slots: its virtual slots, by Virtual I/O Server.
    """

    sha256: str
    slots: dict[str, list[str]]


@dataclasses.dataclass(kw_only=True)
class Context(step_context.Context):
    """A cloud with two compute hosts, and what earlier steps found.

    :ivar supervisor: has the processes of the cloud.
    :ivar sides: the two hosts.
    :ivar slots_before: the owners of the slots before the first server, by
        host and DRC index.
    :ivar contents: the SHA-256 that the root disk of each server has to
        have, by the name of the server.
    :ivar before_resize: the server that is resized, as it was before.
    :ivar volumes: the volumes of the first server, by device.
    """

    supervisor: supervisor_lib.Supervisor
    sides: tuple[Side, Side]
    slots_before: dict[str, dict[str, str | None]] = dataclasses.field(
        default_factory=dict
    )
    contents: dict[str, str] = dataclasses.field(default_factory=dict)
    before_resize: report.Json = None
    volumes: dict[str, Volume] = dataclasses.field(default_factory=dict)

    def on_each(
        self, read: collections.abc.Callable[[Side], _T]
    ) -> dict[str, _T]:
        """Return what a function reads of each host, by its name."""
        return {side.name: read(side) for side in self.sides}

    def gpus_of(self, server: cloud_lib.Server) -> dict[str, list[str]]:
        """Return the DRC indexes of a server's GPUs in Placement, by host."""
        return self.gpus_of_consumer(server.id)

    def gpus_of_consumer(self, consumer: str) -> dict[str, list[str]]:
        """Return the GPUs of a server, or of a move, by its UUID."""
        found: dict[str, list[str]] = {}
        allocations = self.cloud.allocations(consumer)
        for provider, resources in allocations.items():
            if step_context.GPU in resources:
                name = self.provider_names.get(provider, f'? {provider}')
                _, node, index = name.rsplit(' ', 2)
                found.setdefault(node, []).append(index)
        return {node: sorted(indexes) for node, indexes in found.items()}

    def side_of(self, server: cloud_lib.Server) -> Side:
        """Return the side that a server is on, according to Nova.

        :raises LookupError: Nova has it on no host.
        """
        name = self.cloud.compute_hosts.host_of(server.id)
        for side in self.sides:
            if side.name == name:
                return side
        raise LookupError(f'{server.name} is on {name}, which is no host')

    def other(self, side: Side) -> Side:
        """Return the other side."""
        first, second = self.sides
        return second if side is first else first

    def log_off(self) -> None:
        """End the sessions with the hosts."""
        for side in self.sides:
            side.host.log_off()


def make_context(
    stack: stack_lib.Stack, supervisor: supervisor_lib.Supervisor
) -> Context:
    """Log on to both hosts of a cloud."""
    first, second = (
        Side(compute, host_lib.Host(compute.host))
        for compute in stack.computes
    )
    return Context(
        stack,
        cloud_lib.Cloud(stack),
        first.host,
        supervisor=supervisor,
        sides=(first, second),
    )


def observe(context: Context, server: cloud_lib.Server) -> report.Json:
    """Return a server as Nova, Placement and both hosts have it."""
    found = context.cloud.server(server.id)
    return {
        'server': found.status,
        'fault': found.fault,
        'host': context.cloud.compute_hosts.host_of(server.id),
        'GPUs in Placement': context.gpus_of(server),
        'LPAR': context.on_each(lambda side: _observe_lpar(side, server)),
    }


def _observe_lpar(side: Side, server: cloud_lib.Server) -> report.Json:
    uuid = step_context.partition_uuid(server.id)
    try:
        for partition in side.host.partitions():
            if partition.uuid == uuid:
                return {
                    'state': partition.state,
                    'slots': list(partition.slots),
                    'owns': side.host.owned_by(partition.name),
                    'adapters': [
                        adapter.mac for adapter in side.host.adapters(uuid)
                    ],
                }
    except requests.ConnectionError:
        return NO_ANSWER
    return None


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a server has to be.

    :ivar name: the name of its host.
    :ivar gpus: the DRC indexes of its GPUs there.
    :ivar macs: the MAC addresses of its ports.
    """

    name: str
    gpus: list[str]
    macs: list[str]

    def lpar(self, state: str) -> report.Json:
        """Return what the LPAR has to be."""
        return {
            'state': state,
            'slots': self.gpus,
            'owns': self.gpus,
            'adapters': self.macs,
        }


def expect(
    context: Context,
    place: Place,
    *,
    status: str = 'ACTIVE',
    elsewhere: report.Json = None,
    held: collections.abc.Mapping[str, list[str]] | None = None,
) -> report.Json:
    """Return what :func:`observe` has to return.

    :param elsewhere: what the other host says about the LPAR.
    :param held: GPUs that Placement keeps allocated on another host.
    """
    state = 'running' if status in _RUNNING else 'not activated'
    lpars = context.on_each(lambda _side: elsewhere)
    return {
        'server': status,
        'fault': '',
        'host': place.name,
        'GPUs in Placement': {
            **(held or {}),
            **({place.name: place.gpus} if place.gpus else {}),
        },
        'LPAR': {**lpars, place.name: place.lpar(state)},
    }


def find_place(context: Context, server: cloud_lib.Server, name: str) -> Place:
    """Return the place of a server on a host, according to the APIs."""
    return Place(
        name,
        context.gpus_of(server).get(name, []),
        [port.mac for port in context.cloud.ports(server)],
    )


def show(context: Context, server: cloud_lib.Server) -> list[str]:
    """Return lines about a server and its LPARs."""
    found = observe(context, server)
    lines = [
        f'server {server.name} {server.id} is {found["server"]} on '
        f'{found["host"]}',
        *(
            f'  allocated in Placement: GPU {", ".join(indexes)} of {node}'
            for node, indexes in found['GPUs in Placement'].items()
        ),
    ]
    for node, lpar in found['LPAR'].items():
        if isinstance(lpar, dict):
            lines.append(
                f'  LPAR on {node}: {lpar["state"]}, owns '
                f'{", ".join(lpar["owns"]) or "no slot"}, adapter '
                f'{", ".join(lpar["adapters"]) or "none"}'
            )
        else:
            lines.append(f'  LPAR on {node}: {lpar or "none"}')
    return lines

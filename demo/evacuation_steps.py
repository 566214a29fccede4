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


"""Steps about a host that fails, the evacuation of its server, its return."""

import dataclasses
import hashlib

import requests

from demo import compute_hosts
from demo import launcher
from demo import report
from demo import step_context
from demo import two_host_steps
from demo import two_hosts

Context = two_hosts.Context
Outcome = step_context.Outcome

# A guest writes less than it reads from its image.
_WRITTEN = b'written by the guest'

# From the start of nova-compute until it has removed evacuated servers.
_RETURN_SECONDS = 90.0


def write_disk(context: Context) -> Outcome:
    """Have the guest on the first host write to its disk.

    Only this disk may change: the others are clones of the same image.
    """
    first, _ = context.sides
    server = context.servers[0]
    uuid = step_context.partition_uuid(server.id)
    (disk,) = (item for item in first.host.storage(uuid) if item.is_disk)
    first.host.write_disk(disk.udid, _WRITTEN)
    changed = _WRITTEN + context.image_data[len(_WRITTEN) :]
    context.contents[server.name] = hashlib.sha256(changed).hexdigest()
    return two_host_steps.check_disks(context)


def fail_first_host(context: Context) -> Outcome:
    """Kill a nova-compute, power off its host, and tell Nova about it."""
    first, second = context.sides
    hosts = context.cloud.compute_hosts
    context.supervisor.kill(first.compute.service)
    first.host.power_off()
    hosts.force_down(first.name)
    server = context.servers[0]
    observed = {
        'services': {
            name: dataclasses.asdict(service)
            for name, service in hosts.services().items()
        },
        'REST API': context.on_each(_try_host),
        'server': context.cloud.server(server.id).status,
    }
    expected = {
        'services': {
            first.name: {'state': 'down', 'forced_down': True},
            second.name: {'state': 'up', 'forced_down': False},
        },
        'REST API': {
            first.name: two_hosts.NO_ANSWER,
            second.name: 'answers',
        },
        # Nova knows of no failure of the server itself.
        'server': 'ACTIVE',
    }
    shown = [
        f'{first.compute.service} is killed, {first.name} has no power, and '
        'its service is forced down'
    ]
    return expected, observed, shown


def _try_host(side: two_hosts.Side) -> str:
    try:
        side.host.partitions()
    except requests.ConnectionError:
        return two_hosts.NO_ANSWER
    return 'answers'


def evacuate(context: Context) -> Outcome:
    """Evacuate the server; it has to be whole, and off, on the other host."""
    _, second = context.sides
    server = context.servers[0]
    hosts = context.cloud.compute_hosts
    bindings = hosts.bindings(server.id)
    held = context.gpus_of(server)
    taken = _taken(context, second.name)
    hosts.evacuate(server.id)
    place = two_hosts.find_place(context, server, second.name)
    expected = two_hosts.expect(
        context,
        place,
        status='SHUTOFF',
        elsewhere=two_hosts.NO_ANSWER,
        # Its nova-compute releases them, when it is back.
        held=held,
    )
    observed = step_context.read_until(
        expected, lambda: two_hosts.observe(context, server)
    )
    if observed != expected:
        # The host that has failed would be asked for the disk.
        return expected, observed, two_hosts.show(context, server)
    expected |= _expect_rest(context, bindings, held)
    observed |= {
        'GPUs': len(place.gpus),
        'GPUs that other servers have': sorted(taken & {*place.gpus}),
        'ports': two_host_steps.ports_of(context, server),
        'SHA-256 of disks': two_host_steps.read_sha256(context, server),
    }
    return expected, observed, two_hosts.show(context, server)


def _taken(context: Context, name: str) -> set[str]:
    """Return the GPUs of a host that servers have."""
    return {
        index
        for server in context.servers
        for index in context.gpus_of(server).get(name, [])
    }


def _expect_rest(
    context: Context,
    before: list[compute_hosts.Binding],
    held: dict[str, list[str]],
) -> dict[str, report.Json]:
    """Return what the evacuated server has to have, and keep.

    :param before: its ports before the evacuation.
    :param held: its GPUs before the evacuation.
    """
    first, second = context.sides
    server = context.servers[0]
    return {
        'GPUs': len(held[first.name]),
        'GPUs that other servers have': [],
        'ports': two_host_steps.ports_on(second, before),
        'SHA-256 of disks': context.contents[server.name],
    }


def start_evacuated(context: Context) -> Outcome:
    """Start the evacuated server on its new host."""
    first, second = context.sides
    server = context.servers[0]
    held = context.gpus_of(server)[first.name]
    context.cloud.compute_hosts.start(server.id)
    expected = two_hosts.expect(
        context,
        two_hosts.find_place(context, server, second.name),
        elsewhere=two_hosts.NO_ANSWER,
        held={first.name: held},
    )
    observed = step_context.read_until(
        expected, lambda: two_hosts.observe(context, server)
    )
    return expected, observed, two_hosts.show(context, server)


def return_first_host(context: Context) -> Outcome:
    """Bring the first host back, which has to give up what was evacuated."""
    first, second = context.sides
    server = context.servers[0]
    hosts = context.cloud.compute_hosts
    first.host.power_on()
    launcher.start_compute(context.supervisor, context.stack, first.compute)
    hosts.end_force(first.name)
    expected = {
        **two_hosts.expect(
            context, two_hosts.find_place(context, server, second.name)
        ),
        'owners of slots': context.slots_before[first.name],
        'services': {
            side.name: {'state': 'up', 'forced_down': False}
            for side in context.sides
        },
        'SHA-256 of disks': dict(context.contents),
    }
    observed = step_context.read_until(
        expected, lambda: _observe_return(context), _RETURN_SECONDS
    )
    context.supervisor.check()
    shown = [
        f'{first.name} has power again, {first.compute.service} runs',
        '',
        *two_hosts.show(context, server),
    ]
    return expected, observed, shown


def _observe_return(context: Context) -> report.Json:
    """Return the evacuated server, and what its first host still has."""
    first, _ = context.sides
    return {
        **two_hosts.observe(context, context.servers[0]),
        'owners of slots': first.host.owners(),
        'services': {
            name: dataclasses.asdict(service)
            for name, service in context.cloud.compute_hosts.services().items()
        },
        'SHA-256 of disks': {
            server.name: two_host_steps.read_sha256(context, server)
            for server in context.servers
        },
    }


def boot_on_returned_host(context: Context) -> Outcome:
    """Boot a server on the host that is back, whose GPUs are free."""
    first, _ = context.sides
    return two_host_steps.boot(
        context, 'after-return', two_host_steps.FLAVOR_SAME_INDEX, first.name
    )

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

"""Steps about servers that migrate while their guests run.

A guest that counts tells whether it has gone on: it would begin again after a
boot.
"""

import collections.abc

from demo import cloud as cloud_lib
from demo import guest
from demo import operator_commands
from demo import report
from demo import server_steps
from demo import step_context
from demo import two_host_steps
from demo import two_hosts

Context = two_hosts.Context
Outcome = step_context.Outcome

FLAVOR = 'no-device'
SERVER = 'live'

#: Where the guest writes its number, and how many bytes it has.
_OFFSET, _BYTES = 4096, 8
_COUNTS = 3
_SECONDS = 120.0
_PORT_SECONDS = 30.0


def create_flavor(context: Context) -> Outcome:
    """Create a flavor without a device."""
    return server_steps.create_flavor(context, FLAVOR, {})


def boot(context: Context) -> Outcome:
    """Boot a server without a device on the first host."""
    _, _, flavor = create_flavor(context)
    first, _ = context.sides
    expected, observed, shown = two_host_steps.boot(
        context, SERVER, FLAVOR, first.name, gpus=0
    )
    return expected, observed, [*flavor, '', *shown]


def migrate(context: Context) -> Outcome:
    """Migrate the server to the second host while its guest counts."""
    first, second = context.sides
    server = context.cloud.find_server(SERVER)
    partition = step_context.partition_uuid(server.id)
    bindings = context.cloud.compute_hosts.bindings(server.id)
    mapped = _read_mappings(first, server)
    counts = [first.host.count(partition, _OFFSET) for _ in range(_COUNTS)]
    result = _ask(context, server)
    counted = second.host.count(partition, _OFFSET)
    context.contents[server.name] = _contents(context, _COUNTS + 1)
    place = two_hosts.find_place(context, server, second.name)
    expected = {
        'exit status': 0,
        **two_hosts.expect(context, place),
        'ports': two_host_steps.ports_on(second, bindings),
        'disks, media and their slots': {first.name: [], second.name: mapped},
        'counts of the guest': {
            first.name: [*range(1, _COUNTS + 1)],
            second.name: [_COUNTS + 1],
        },
        'SHA-256 of the disk': context.contents[server.name],
    }
    seen = {
        'exit status': result.status,
        'counts of the guest': {first.name: counts, second.name: [counted]},
    }
    observed = step_context.read_until(
        expected, lambda: {**seen, **_observe(context, server)}, _PORT_SECONDS
    )
    shown = [*result.lines(), '', *_show(context, server, observed)]
    return expected, observed, shown


def refuse(context: Context) -> Outcome:
    """Ask to migrate a server with a GPU, which has to stay as it is."""
    server = context.servers[0]
    side = context.side_of(server)
    (index,) = context.gpus_of(server)[side.name]
    before = _observe(context, server)
    result = _ask(context, server)
    reasons = context.cloud.last_details(server)
    named = f'the physical I/O slot(s) {index}'
    expected = {
        **before,
        'server': 'ACTIVE',
        'fault': '',
        'exit status': 1,
        'reason': named,
    }
    observed = {
        **_observe(context, server),
        'exit status': result.status,
        'reason': next((named for one in reasons if named in one), reasons),
    }
    shown = [
        *result.lines(),
        '',
        # The conductor's event repeats it, with a traceback.
        *(f'reason: {one}' for one in reasons if '\n' not in one),
        '',
        *two_hosts.show(context, server),
    ]
    return expected, observed, shown


def _ask(
    context: Context, server: cloud_lib.Server
) -> operator_commands.Result:
    """Ask to migrate a server live, and wait until Nova is done with it."""
    result = operator_commands.run_openstack(
        context.stack, 'server', 'migrate', '--live-migration', server.name
    )
    context.cloud.compute_hosts.await_task(server.id, _SECONDS)
    return result


def _contents(context: Context, count: int) -> str:
    """Return the SHA-256 of a disk to which a guest has written a number."""
    data = context.image_data
    number = count.to_bytes(_BYTES)
    return guest.sha256(data[:_OFFSET] + number + data[_OFFSET + _BYTES :])


def _observe(
    context: Context, server: cloud_lib.Server
) -> dict[str, report.Json]:
    """Return a server as Nova, Placement, Neutron and both hosts have it."""
    return {
        **two_hosts.observe(context, server),
        'ports': two_host_steps.ports_of(context, server),
        'disks, media and their slots': context.on_each(
            lambda side: _read_mappings(side, server)
        ),
        'SHA-256 of the disk': two_host_steps.read_sha256(context, server),
    }


def _read_mappings(
    side: two_hosts.Side, server: cloud_lib.Server
) -> list[str]:
    """Return what a host maps to a server, and in which virtual slot."""
    uuid = step_context.partition_uuid(server.id)
    return sorted(
        # The names of disks of an array differ from host to host.
        f'{item.kind} {item.udid if item.is_disk else item.name} '
        f'in virtual slot {item.slot}'
        for item in side.host.storage(uuid)
    )


def _show(
    context: Context,
    server: cloud_lib.Server,
    observed: collections.abc.Mapping[str, report.Json],
) -> list[str]:
    """Return lines about a server that has migrated live."""
    lines = two_hosts.show(context, server)
    for side in context.sides:
        mapped = observed['disks, media and their slots'][side.name]
        counts = observed['counts of the guest'][side.name]
        lines += [
            f'  {side.name} maps {", ".join(mapped) or "nothing"}',
            f'  the guest counted {", ".join(map(str, counts))} there',
        ]
    digest = observed['SHA-256 of the disk']
    return [*lines, f'  its disk, with the number, has SHA-256 {digest}']

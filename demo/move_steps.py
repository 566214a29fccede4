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

"""Steps about a server that is migrated and resized between two hosts.

The scheduler always finds the other host: Nova resizes a server on its own
host only if it is told to ([DEFAULT]allow_resize_to_same_host).
"""

import dataclasses

from demo import cloud as cloud_lib
from demo import compute_hosts
from demo import report
from demo import server_steps
from demo import step_context
from demo import two_host_steps
from demo import two_hosts

Context = two_hosts.Context
Outcome = step_context.Outcome

FLAVOR = 'gpu.two-v100'
LARGE = cloud_lib.Sizes(
    memory_mb=4096, processors=2, disk_gb=cloud_lib.DISK_GB + 1
)
#: A disk that has grown could not shrink again in a revert; a volume stays as
#: it is.
KEEPS_DISK = dataclasses.replace(LARGE, disk_gb=cloud_lib.DISK_GB)


@dataclasses.dataclass(frozen=True)
class _Start:
    """A server before a move.

    :ivar side: the host that it is on.
    :ivar place: where it is, with its GPUs and MAC addresses.
    :ivar ports: its ports.
    """

    side: two_hosts.Side
    place: two_hosts.Place
    ports: list[compute_hosts.Binding]


def _find_start(context: Context) -> _Start:
    server = context.servers[0]
    side = context.side_of(server)
    return _Start(
        side,
        two_hosts.find_place(context, server, side.name),
        context.cloud.compute_hosts.bindings(server.id),
    )


def migrate(context: Context) -> Outcome:
    """Migrate a server with a GPU to the second host."""
    start = _find_start(context)
    context.cloud.compute_hosts.migrate(context.servers[0].id)
    return _check_arrival(context, start, cloud_lib.SMALL, 1)


def create_flavor(context: Context) -> Outcome:
    """Create a flavor for two GPUs, with more of everything."""
    groups: dict[str, str] = {'group_policy': 'isolate'}
    for number in (1, 2):
        groups |= server_steps.gpu_group(number, *two_host_steps.COMMON_TRAITS)
    expected, observed, shown = server_steps.create_flavor(
        context, FLAVOR, groups, LARGE
    )
    sizes = (
        f'{LARGE.memory_mb} MB, {LARGE.processors} processors, '
        f'{LARGE.disk_gb} GB'
    )
    return expected, observed, [*shown, sizes]


def resize(context: Context) -> Outcome:
    """Resize the server to two GPUs, which the first host has."""
    start = _find_start(context)
    context.before_resize = _observe(context)
    context.cloud.compute_hosts.resize(context.servers[0].id, FLAVOR)
    return _check_arrival(context, start, KEEPS_DISK, 2)


def _check_arrival(
    context: Context, start: _Start, sizes: cloud_lib.Sizes, gpus: int
) -> Outcome:
    """Verify both sides of a move that waits for its confirmation.

    :param sizes: what the server has to have on the destination.
    :param gpus: how many GPUs it has to have there.
    """
    server = context.servers[0]
    target = context.other(start.side)
    place = two_hosts.find_place(context, server, target.name)
    expected = {
        **two_hosts.expect(
            context,
            place,
            status='VERIFY_RESIZE',
            # A revert continues with it.
            elsewhere=start.place.lpar('not activated'),
        ),
        'GPUs of the migration': {start.side.name: start.place.gpus},
        'ports': two_host_steps.ports_on(target, start.ports),
        'sizes': dataclasses.asdict(sizes),
        'SHA-256 of the disk': context.contents[server.name],
        'GPUs': gpus,
    }
    observed = {**_observe(context), 'GPUs': len(place.gpus)}
    return expected, observed, _show(context)


def confirm_migration(context: Context) -> Outcome:
    """Confirm the migration; nothing may remain on the first host."""
    return confirm(context, cloud_lib.SMALL)


def confirm(context: Context, sizes: cloud_lib.Sizes) -> Outcome:
    """Confirm a move; verify that the source is clean.

    :param sizes: what the server has to have afterwards.
    """
    server = context.servers[0]
    start = _find_start(context)
    source = context.other(start.side)
    slots = _find_held(context)[source.name]
    context.cloud.compute_hosts.confirm(server.id)
    expected = {
        **two_hosts.expect(context, start.place),
        'GPUs of the migration': {},
        'ports': two_host_steps.ports_on(start.side, start.ports),
        'sizes': dataclasses.asdict(sizes),
        'SHA-256 of the disk': context.contents[server.name],
        'left on the source': {
            'owners of its slots': dict.fromkeys(slots),
            'disks and media': [],
        },
    }
    observed = step_context.read_until(
        expected,
        lambda: {
            **_observe(context),
            'left on the source': _find_remains(source, server, slots),
        },
    )
    return expected, observed, _show(context)


def _find_remains(
    source: two_hosts.Side, server: cloud_lib.Server, slots: list[str]
) -> report.Json:
    """Return what the source still has of a server that has moved."""
    uuid = step_context.partition_uuid(server.id)
    owners = source.host.owners()
    return {
        'owners of its slots': {index: owners[index] for index in slots},
        'disks and media': [item.name for item in source.host.storage(uuid)],
    }


def revert(context: Context) -> Outcome:
    """Revert the resize; the server has to be what it was before."""
    context.cloud.compute_hosts.revert(context.servers[0].id)
    observed = step_context.read_until(
        context.before_resize, lambda: _observe(context)
    )
    return context.before_resize, observed, _show(context)


def resize_for_good(context: Context) -> Outcome:
    """Resize again and confirm, which makes the disk larger."""
    context.cloud.compute_hosts.resize(context.servers[0].id, FLAVOR)
    return confirm(context, LARGE)


def _observe(context: Context) -> dict[str, report.Json]:
    """Return the server as Nova, Placement, Neutron and both hosts have it."""
    server = context.servers[0]
    side = context.side_of(server)
    return {
        **two_hosts.observe(context, server),
        'GPUs of the migration': _find_held(context),
        'ports': two_host_steps.ports_of(context, server),
        'sizes': _read_sizes(side, server),
        'SHA-256 of the disk': two_host_steps.read_sha256(context, server),
    }


def _find_held(context: Context) -> dict[str, list[str]]:
    """Return the GPUs that the last move of the server holds."""
    hosts = context.cloud.compute_hosts
    migration = hosts.last_migration(context.servers[0].id)
    return context.gpus_of_consumer(migration)


def _read_sizes(side: two_hosts.Side, server: cloud_lib.Server) -> report.Json:
    """Return the sizes of a server's LPAR and of its disk."""
    size = side.host.size(step_context.partition_uuid(server.id))
    disk = two_host_steps.read_disk(side, server)
    return {
        'memory_mb': size.memory_mb,
        'processors': size.processors,
        'disk_gb': None if disk is None else disk.gigabytes,
    }


def _show(context: Context) -> list[str]:
    """Return lines about the server, its sizes and what its move holds."""
    server = context.servers[0]
    side = context.side_of(server)
    sizes = _read_sizes(side, server)
    held = _find_held(context)
    return [
        *two_hosts.show(context, server),
        *(
            f'  held by its migration: GPU {", ".join(indexes)} of {node}'
            for node, indexes in held.items()
        ),
        f'  {sizes["memory_mb"]} MB, {sizes["processors"]} processors, disk '
        f'of {sizes["disk_gb"]:g} GB with SHA-256 '
        f'{two_host_steps.read_sha256(context, server)}',
    ]

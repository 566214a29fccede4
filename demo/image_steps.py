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

"""Steps about the image of a server, and a server that comes back from one.

Users type the commands that are run here.
"""

from demo import cloud as cloud_lib
from demo import guest
from demo import host as host_lib
from demo import operator_commands
from demo import report
from demo import step_context
from demo import two_host_steps
from demo import two_hosts

Context = two_hosts.Context
Outcome = step_context.Outcome

IMAGE = 'on-first-image'

# Knows the host of an unshelved server.
_MICROVERSION = '2.91'
_GIBIBYTE = 1024**3


def create_image(context: Context) -> Outcome:
    """Make an image of the server on the first host, while its guest runs.

    The disk may belong to nobody but the server afterwards.
    """
    server = context.servers[0]
    side = context.side_of(server)
    place = two_hosts.find_place(context, server, side.name)
    result = operator_commands.run_openstack(
        context.stack,
        *('server', 'image', 'create'),
        *('--name', IMAGE, '--wait', '-c', 'size', '-c', 'status'),
        server.name,
    )
    # Glance has the image before nova-compute gives the disk back.
    context.cloud.compute_hosts.await_task(server.id)
    image = context.cloud.find_image(IMAGE)
    disk = _find_disk(side, server)
    expected = {
        'exit status': 0,
        'bytes': _size(disk),
        image.hash_algorithm: _hash(image.hash_algorithm, disk),
        'partitions with the disk': [step_context.partition_uuid(server.id)],
        **two_hosts.expect(context, place),
    }
    observed = {
        'exit status': result.status,
        'bytes': image.size,
        image.hash_algorithm: image.hash_value,
        'partitions with the disk': side.host.users_of(disk.udid),
        **two_hosts.observe(context, server),
    }
    shown = [
        *result.lines(),
        '',
        f'disk {disk.name}: {_size(disk)} bytes, {image.hash_algorithm} '
        f'{expected[image.hash_algorithm]}',
    ]
    return expected, observed, shown


def rescue(context: Context) -> Outcome:
    """Start a rescue system beside the server's disk, and end it again.

    The rescue disk has to be where the firmware finds the server's own disk,
    which keeps what the guest has written.
    """
    server = context.servers[0]
    side = context.side_of(server)
    place = two_hosts.find_place(context, server, side.name)
    disk = _find_disk(side, server)
    at_first = _observe_disks(side, server, disk)
    rescuing = _run_and_wait(context, 'rescue', server)
    in_rescue = {
        **two_hosts.observe(context, server),
        **_observe_disks(side, server, disk),
    }
    ending = _run_and_wait(context, 'unrescue', server)
    expected = {
        'exit status': [0, 0],
        'in rescue': {
            **two_hosts.expect(context, place, status='RESCUE'),
            'first disk': guest.sha256(guest.make_image()),
            'own disk': at_first['own disk'],
        },
        **two_hosts.expect(context, place),
        **at_first,
    }
    observed = {
        'exit status': [rescuing.status, ending.status],
        'in rescue': in_rescue,
        **two_hosts.observe(context, server),
        **_observe_disks(side, server, disk),
    }
    shown = [
        *rescuing.lines(),
        f'  {in_rescue["server"]}, first disk with SHA-256 '
        f'{in_rescue["first disk"]}',
        *ending.lines(),
        *two_hosts.show(context, server),
    ]
    return expected, observed, shown


def _run_and_wait(
    context: Context, command: str, server: cloud_lib.Server
) -> operator_commands.Result:
    """Run a command on a server, and wait until Nova is done with it."""
    result = operator_commands.run_openstack(
        context.stack, 'server', command, server.name
    )
    context.cloud.compute_hosts.await_task(server.id)
    return result


def _observe_disks(
    side: two_hosts.Side,
    server: cloud_lib.Server,
    own: host_lib.StorageElement,
) -> dict[str, report.Json]:
    """Return the hashes of the disk that the guest boots from, and its own.

    It boots from the one in the lowest virtual slots.
    """
    units = [
        unit
        for unit in side.host.pool_units()
        if unit.name in (own.name, own.name.replace('-root', '-rescue'))
    ]
    first = min(units, key=lambda unit: side.host.virtual_slots(unit.udid))
    return {
        'first disk': side.host.sha256_of_unit(first.udid),
        'own disk': side.host.sha256_of_unit(own.udid),
    }


def shelve(context: Context) -> Outcome:
    """Shelve a server; it has to be whole on the other host afterwards."""
    server = context.servers[0]
    hosts = context.cloud.compute_hosts
    source = context.side_of(server)
    target = context.other(source)
    bindings = hosts.bindings(server.id)
    gpus = context.gpus_of(server)[source.name]
    disk = _find_disk(source, server)
    away, shelved, shelving = _leave(context, server, gpus)
    unshelving = operator_commands.run_openstack(
        context.stack,
        *('--os-compute-api-version', _MICROVERSION),
        *('server', 'unshelve', '--host', target.name, '--wait', server.name),
    )
    place = two_hosts.find_place(context, server, target.name)
    unit = _read_unit(target, server)
    expected = {
        'shelved': away,
        'exit status': 0,
        **two_hosts.expect(context, place),
        'GPUs': len(gpus),
        'ports': two_host_steps.ports_on(target, bindings),
        'disk': {
            'SHA-256': _hash('sha256', disk),
            'partitions': [step_context.partition_uuid(server.id)],
        },
    }
    observed = {
        'shelved': shelved,
        'exit status': unshelving.status,
        **two_hosts.observe(context, server),
        'GPUs': len(place.gpus),
        'ports': two_host_steps.ports_of(context, server),
        'disk': unit,
    }
    shown = [
        *shelving,
        *unshelving.lines(),
        '',
        *two_hosts.show(context, server),
        f'  disk with SHA-256 {unit and unit["SHA-256"]}',
    ]
    return expected, observed, shown


def _leave(
    context: Context, server: cloud_lib.Server, gpus: list[str]
) -> tuple[report.Json, report.Json, list[str]]:
    """Shelve a server, which leaves its host without a trace.

    :param gpus: those that it has.
    """
    source = context.side_of(server)
    result = operator_commands.run_openstack(
        context.stack, 'server', 'shelve', '--wait', server.name
    )
    expected = {
        'exit status': 0,
        'server': 'SHELVED_OFFLOADED',
        'fault': '',
        'host': None,
        'GPUs in Placement': {},
        'LPAR': context.on_each(lambda _side: None),
        'owners of its slots': dict.fromkeys(gpus),
        'disks': [],
    }
    root = two_host_steps.root_name(server)
    observed = step_context.read_until(
        expected,
        lambda: {
            'exit status': result.status,
            **two_hosts.observe(context, server),
            'owners of its slots': {
                index: owner
                for index, owner in source.host.owners().items()
                if index in gpus
            },
            'disks': [
                unit.name
                for unit in source.host.pool_units()
                if unit.name == root
            ],
        },
        seconds=30,
    )
    context.cloud.compute_hosts.await_task(server.id)
    return expected, observed, [*result.lines(), f'  {observed["server"]}']


def _read_unit(side: two_hosts.Side, server: cloud_lib.Server) -> report.Json:
    """Return the root disk of a server, which is too large to be read here."""
    for unit in side.host.pool_units():
        if unit.name == two_host_steps.root_name(server):
            return {
                'SHA-256': side.host.sha256_of_unit(unit.udid),
                'partitions': side.host.users_of(unit.udid),
            }
    return None


def _find_disk(
    side: two_hosts.Side, server: cloud_lib.Server
) -> host_lib.StorageElement:
    """Return the root disk of a server.

    :raises LookupError: its host has none.
    """
    disk = two_host_steps.read_disk(side, server)
    if disk is None:
        raise LookupError(f'{server.name} has no disk on {side.name}')
    return disk


def _size(disk: host_lib.StorageElement) -> int:
    """Return the size of a disk in bytes."""
    return int(float(disk.size) * _GIBIBYTE)


def _hash(algorithm: str, disk: host_lib.StorageElement) -> str:
    return guest.hash_of_disk(algorithm, disk.contents, _size(disk))

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

"""Steps about a server that moves between two hosts with its volumes.

It boots from one volume and has another one. Before it, a server without a
device migrates live. After each move, the array, both hosts and the bytes of
the volumes tell where they are.
"""

import dataclasses
import functools
import itertools

import requests

from demo import array_evidence
from demo import cloud as cloud_lib
from demo import evacuation_steps
from demo import guest
from demo import live_migration_steps
from demo import move_steps
from demo import operator_commands
from demo import report
from demo import step_context
from demo import two_host_steps
from demo import two_hosts
from demo import volume_world

Context = two_hosts.Context
Outcome = step_context.Outcome

SERVER = 'from-volume'
VOLUME = 'data'

_BOOT_BYTES = b'written to the boot volume'
_DATA_BYTES = b'written to the other volume'
# Knows the host that a server is created on.
_MICROVERSION = '2.74'
_SECONDS = 30.0


def boot(context: Context) -> Outcome:
    """Boot a server with a GPU from a volume, on the first host."""
    return _boot(context, SERVER, two_host_steps.FLAVOR, 1)


def boot_live(context: Context) -> Outcome:
    """Boot a server without a device from a volume, on the first host."""
    _, _, flavor = live_migration_steps.create_flavor(context)
    expected, observed, shown = _boot(
        context, live_migration_steps.SERVER, live_migration_steps.FLAVOR, 0
    )
    return expected, observed, [*flavor, '', *shown]


def _boot(context: Context, name: str, flavor: str, gpus: int) -> Outcome:
    """Boot a server from a volume, on the first host.

    :param gpus: how many GPUs its flavor gives to it.
    """
    first, _ = context.sides
    result = operator_commands.run_openstack(
        context.stack,
        *('--os-compute-api-version', _MICROVERSION),
        *('server', 'create', '--flavor', flavor),
        *('--image', cloud_lib.IMAGE, '--boot-from-volume', '1'),
        *('--network', cloud_lib.NETWORK, '--key-name', cloud_lib.KEY),
        *('--config-drive', 'True', '--host', first.name),
        *('--wait', '-c', 'name', '-c', 'status', name),
    )
    server = context.cloud.find_server(name)
    context.servers.append(server)
    written = guest.sha256(context.image_data)
    context.contents[name] = written
    _meet(context, written)
    place = two_hosts.find_place(context, server, first.name)
    expected = {
        'exit status': 0,
        **two_hosts.expect(context, place),
        'GPUs': gpus,
        'ports': 1,
        'units of the pool': [],
    }
    observed = {
        'exit status': result.status,
        **two_hosts.observe(context, server),
        'GPUs': len(place.gpus),
        'ports': len(place.macs),
        'units of the pool': first.host.pool_units(),
    }
    shown = [*result.lines(), '', *two_hosts.show(context, server)]
    return _add_volumes(context, first, (expected, observed, shown))


def migrate_live(context: Context) -> Outcome:
    """Migrate the server to the second host while its guest runs."""
    _, second = context.sides
    outcome = live_migration_steps.migrate(context)
    ((device, known),) = context.volumes.items()
    context.volumes[device] = dataclasses.replace(
        known, sha256=context.contents[live_migration_steps.SERVER]
    )
    return _add_volumes(context, second, outcome)


def delete_live(context: Context) -> Outcome:
    """Delete the server; verify that both hosts are as at the beginning."""
    outcome = two_host_steps.delete_servers(context)
    # The steps after this one follow another server.
    for found in (context.servers, context.volumes, context.contents):
        found.clear()
    return outcome


def attach(context: Context) -> Outcome:
    """Attach another volume; the guest writes to both."""
    first, _ = context.sides
    creation, attachment = (
        operator_commands.run_openstack(context.stack, *arguments)
        for arguments in (
            ('volume', 'create', '--size', '1', '-c', 'name', VOLUME),
            ('server', 'add', 'volume', SERVER, VOLUME, '-c', 'Device'),
        )
    )
    _meet(context, guest.sha256(b''))
    both = zip(
        context.volumes.items(), (_BOOT_BYTES, _DATA_BYTES), strict=True
    )
    for (device, known), data in both:
        disk = _find(context, device)
        before = disk.file.read_bytes()
        first.host.write_disk(disk.udid, data)
        context.volumes[device] = dataclasses.replace(
            known, sha256=guest.sha256(data + before[len(data) :])
        )
    context.contents[SERVER] = next(iter(context.volumes.values())).sha256
    results = [creation, attachment]
    return _add_volumes(
        context,
        first,
        (
            {'exit status': [0, 0]},
            {'exit status': [result.status for result in results]},
            [line for result in results for line in result.lines()],
        ),
    )


def migrate(context: Context) -> Outcome:
    """Migrate the server to the second host."""
    _, second = context.sides
    return _add_volumes(context, second, move_steps.migrate(context))


def confirm_migration(context: Context) -> Outcome:
    """Confirm the migration; nothing may remain on the first host."""
    _, second = context.sides
    outcome = move_steps.confirm_migration(context)
    return _add_volumes(context, second, outcome)


def resize(context: Context) -> Outcome:
    """Resize the server to two GPUs, which the first host has."""
    first, _ = context.sides
    return _add_volumes(context, first, move_steps.resize(context))


def revert(context: Context) -> Outcome:
    """Revert the resize; the server has to be what it was before."""
    _, second = context.sides
    return _add_volumes(context, second, move_steps.revert(context))


def resize_for_good(context: Context) -> Outcome:
    """Resize again and confirm, which leaves the volumes as large."""
    first, _ = context.sides
    context.cloud.compute_hosts.resize(
        context.servers[0].id, move_steps.FLAVOR
    )
    outcome = move_steps.confirm(context, move_steps.KEEPS_DISK)
    return _add_volumes(context, first, outcome)


def evacuate(context: Context) -> Outcome:
    """Evacuate the server, whose volumes the array gives to its new host."""
    _, second = context.sides
    outcome = evacuation_steps.evacuate(context)
    return _add_volumes(context, second, outcome, two_hosts.NO_ANSWER)


def start_evacuated(context: Context) -> Outcome:
    """Start the evacuated server on its new host."""
    _, second = context.sides
    outcome = evacuation_steps.start_evacuated(context)
    return _add_volumes(context, second, outcome, two_hosts.NO_ANSWER)


def return_first_host(context: Context) -> Outcome:
    """Bring the first host back, which has to give up its mappings."""
    _, second = context.sides
    outcome = evacuation_steps.return_first_host(context)
    return _add_volumes(context, second, outcome)


def _meet(context: Context, sha256: str) -> None:
    """Remember how the guest sees the volume that the server has got.

    :param sha256: that of what it has to contain.
    """
    server = context.servers[0]
    side = context.side_of(server)
    for device in context.cloud.volumes_of(server):
        if device not in context.volumes:
            udid = _find(context, device).udid
            slots = {
                name: disk.slots
                for name, disk in side.host.array_disks(udid).items()
            }
            context.volumes[device] = two_hosts.Volume(sha256, slots)


def _find(context: Context, device: str) -> array_evidence.ArrayVolume:
    """Return the volume of a device, as the array has it.

    :raises LookupError: the array has no such volume.
    """
    identifier = context.cloud.volumes_of(context.servers[0])[device]
    found = array_evidence.find(context.stack, identifier)
    if found is None:
        raise LookupError(f'the array has no volume for {device}')
    return found


def _add_volumes(
    context: Context,
    side: two_hosts.Side,
    outcome: Outcome,
    elsewhere: report.Json = None,
) -> Outcome:
    """Add to the outcome of a step where the volumes are after it.

    :param side: the only host that may have them.
    :param elsewhere: what the other host has to say about them.
    """
    expected, observed, shown = outcome
    wanted = _expect(context, side, elsewhere or {})
    found = step_context.read_until(
        wanted, lambda: _observe(context), _SECONDS
    )
    return (
        {**expected, 'volumes': wanted},
        {**observed, 'volumes': found},
        [*shown, *_show(context, found)],
    )


def _expect(
    context: Context, side: two_hosts.Side, elsewhere: report.Json
) -> report.Json:
    """Return what :func:`_observe` has to return."""
    partition = step_context.partition_uuid(context.servers[0].id)
    return {
        device: {
            'Cinder': 'in-use',
            'array': {
                'mapped to': _ports(context, side),
                'SHA-256': known.sha256,
            },
            'hosts': {
                context.other(side).name: elsewhere,
                side.name: {
                    vios: {
                        'mapped to': [partition],
                        'virtual slots': slots,
                        'SHA-256': known.sha256,
                    }
                    for vios, slots in known.slots.items()
                },
            },
        }
        for device, known in context.volumes.items()
    }


def _ports(context: Context, side: two_hosts.Side) -> list[str]:
    """Return the worldwide port names of a host."""
    number = context.sides.index(side) + 1
    return sorted(itertools.chain(*volume_world.wwpns(number).values()))


def _observe(context: Context) -> dict[str, report.Json]:
    """Return the volumes as Cinder, the array and both hosts have them."""
    found = {}
    volumes = context.cloud.volumes_of(context.servers[0])
    for device, identifier in volumes.items():
        volume = context.cloud.find_volume(identifier)
        disk = _find(context, device)
        found[device] = {
            'Cinder': volume and volume.status,
            'array': {'mapped to': disk.wwpns, 'SHA-256': disk.sha256},
            'hosts': context.on_each(
                functools.partial(_read_disks, udid=disk.udid)
            ),
        }
    return found


def _read_disks(side: two_hosts.Side, udid: str) -> report.Json:
    """Return the disks of a volume, by Virtual I/O Server."""
    try:
        return {
            vios: {
                'mapped to': disk.users,
                'virtual slots': disk.slots,
                'SHA-256': side.host.sha256_of(udid),
            }
            for vios, disk in side.host.array_disks(udid).items()
        }
    except requests.ConnectionError:
        return two_hosts.NO_ANSWER


def _show(context: Context, found: dict[str, report.Json]) -> list[str]:
    """Return lines about the volumes."""
    names = {tuple(_ports(context, side)): side.name for side in context.sides}
    lines = []
    for device, volume in found.items():
        ports = volume['array']['mapped to']
        lines += [
            '',
            f'volume {device}: the array maps it to '
            f'{names.get(tuple(ports), "no single host")} '
            f'({", ".join(ports)})',
        ]
        for name, disks in volume['hosts'].items():
            if not isinstance(disks, dict):
                lines.append(f'  {name}: {disks}')
                continue
            lines += [
                f'  {vios} of {name}: mapped to {", ".join(disk["mapped to"])}'
                f' in virtual slot {", ".join(disk["virtual slots"])}, '
                f'SHA-256 {disk["SHA-256"]}'
                for vios, disk in disks.items()
            ] or [f'  {name}: no disk']
    return lines

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

"""Steps about volumes of the storage array.

Users type the commands that are run here. What comes of them is read from
Cinder, from the array, and from both Virtual I/O Servers of the host.
"""

import itertools

from demo import array_evidence
from demo import cloud as cloud_lib
from demo import guest
from demo import operator_commands
from demo import report
from demo import server_steps
from demo import step_context
from demo import volume_world

Context = step_context.Context
Outcome = step_context.Outcome

VOLUME = 'data'
BOOTED = 'from-volume'

_BYTES = b'written by the guest'
_LARGER_GB = 2
# A volume that is in use can be extended since then.
_VOLUME_API = '3.42'
_SECONDS = 30.0


def create_volume(context: Context) -> Outcome:
    """Create an empty volume, which the array maps to nobody."""
    result = operator_commands.run_openstack(
        context.stack,
        *('volume', 'create', '--size', '1'),
        *('-c', 'name', '-c', 'size', '-c', 'type', VOLUME),
    )
    expected = _expect(None, cloud_lib.DISK_GB, b'')
    return _compare(context, result, expected, VOLUME)


def attach(context: Context) -> Outcome:
    """Attach the volume to the server with one GPU, whose guest writes."""
    server = context.servers[0]
    result = operator_commands.run_openstack(
        context.stack,
        *('server', 'add', 'volume', server.name, VOLUME),
        *('-c', 'Device', '-c', 'Volume ID'),
    )
    partition = step_context.partition_uuid(server.id)
    expected = _expect(partition, cloud_lib.DISK_GB, b'')
    outcome = _compare(context, result, expected, VOLUME)
    found = _find(context, VOLUME)
    if found is None or outcome[0] != outcome[1]:
        return outcome
    context.host.write_disk(found[1].udid, _BYTES)
    expected = _expect(partition, cloud_lib.DISK_GB, _BYTES)
    return _compare(context, result, expected, VOLUME)


def extend(context: Context) -> Outcome:
    """Extend the attached volume, which both servers have to notice."""
    result = operator_commands.run_openstack(
        context.stack,
        *('--os-volume-api-version', _VOLUME_API),
        *('volume', 'set', '--size', str(_LARGER_GB), VOLUME),
    )
    partition = step_context.partition_uuid(context.servers[0].id)
    expected = _expect(partition, _LARGER_GB, _BYTES)
    return _compare(context, result, expected, VOLUME)


def detach(context: Context) -> Outcome:
    """Detach the volume: the servers forget it, and it keeps its bytes."""
    server = context.servers[0]
    result = operator_commands.run_openstack(
        context.stack, 'server', 'remove', 'volume', server.name, VOLUME
    )
    expected = _expect(None, _LARGER_GB, _BYTES)
    return _compare(context, result, expected, VOLUME)


def boot(context: Context) -> Outcome:
    """Boot a server with a GPU from a volume that Cinder makes of the image.

    It has no disk in the volume group of the host.
    """
    before = context.host.volume_group_contents()
    result = operator_commands.run_openstack(
        context.stack,
        *('server', 'create', '--flavor', server_steps.FLAVOR_ONE),
        *('--image', cloud_lib.IMAGE, '--boot-from-volume', '1'),
        *('--network', cloud_lib.NETWORK, '--key-name', cloud_lib.KEY),
        *('--wait', '-c', 'name', '-c', 'status', BOOTED),
    )
    server = context.cloud.find_server(BOOTED)
    context.servers.append(server)
    gpus = context.find_allocated(server, step_context.GPU)
    context.allocated_gpus += gpus
    uuid = step_context.partition_uuid(server.id)
    partition = context.find_partition(server)
    volumes = context.cloud.volumes_of(server)
    expected, observed, shown = _compare(
        context,
        result,
        _expect(uuid, cloud_lib.DISK_GB, context.image_data),
        *volumes.values(),
    )
    expected |= {
        'server': ('ACTIVE', ''),
        'GPUs': 1,
        'LPAR': step_context.expected_lpar(server, gpus),
        'disks in volume groups': before,
    }
    observed |= {
        'server': (server.status, server.fault),
        'GPUs': len(gpus),
        'LPAR': partition and partition.document(),
        'disks in volume groups': context.host.volume_group_contents(),
    }
    shown += [f'GPU {gpu}' for gpu in gpus]
    return expected, observed, shown


def delete_volumes(context: Context) -> Outcome:
    """Delete all volumes, after the servers; the array is as at first."""
    context.cloud.delete_volumes()
    expected: report.Json = {
        'volumes in Cinder': 0,
        'array': {'hosts': [], 'volumes': [], 'maps': []},
        'files': [array_evidence.DESCRIPTION],
    }
    observed = step_context.read_until(
        expected, lambda: _find_remains(context), _SECONDS
    )
    return expected, observed, ['the array has no host, volume or map']


def _find_remains(context: Context) -> report.Json:
    described = array_evidence.read(context.stack)
    return {
        'volumes in Cinder': context.cloud.count_volumes(),
        'array': {key: described[key] for key in ('hosts', 'volumes', 'maps')},
        'files': [path.name for path in context.stack.volumes.iterdir()],
    }


def _expect(
    partition: str | None, gigabytes: int, written: bytes
) -> dict[str, report.Json]:
    """Return what has to be seen of a volume.

    :param partition: the UUID of the LPAR that has it; None for nobody.
    """
    digest = guest.sha256(written)
    ports = volume_world.wwpns() if partition else {}
    on_host: report.Json = {
        'MB': gigabytes * 1024,
        'mapped to': [partition],
        'SHA-256': digest,
    }
    return {
        'exit status': 0,
        'Cinder': {
            'status': 'in-use' if partition else 'available',
            'GB': gigabytes,
        },
        'array': {
            'bytes': gigabytes << 30,
            'mapped to': sorted(itertools.chain(*ports.values())),
            'SHA-256': digest,
        },
        'host': dict.fromkeys(ports, on_host),
    }


def _compare(
    context: Context,
    result: operator_commands.Result,
    expected: dict[str, report.Json],
    *names: str,
) -> tuple[dict[str, report.Json], dict[str, report.Json], list[str]]:
    """Wait for what is expected of a volume, after a command.

    :param names: of which there has to be one.
    """
    observed: dict[str, report.Json] = step_context.read_until(
        expected,
        lambda: (
            {'exit status': result.status}
            | (_observe(context, *names) if len(names) == 1 else {})
        ),
        _SECONDS,
    )
    return expected, observed, [*result.lines(), '', *_show(observed)]


def _observe(context: Context, name: str) -> dict[str, report.Json]:
    """Return what Cinder, the array and the host have of a volume."""
    both = _find(context, name)
    if both is None:
        return {}
    volume, found = both
    return {
        'Cinder': {'status': volume.status, 'GB': volume.size},
        'array': {
            'bytes': found.size,
            'mapped to': found.wwpns,
            'SHA-256': found.sha256,
        },
        'host': {
            name: {
                'MB': disk.megabytes,
                'mapped to': disk.users,
                'SHA-256': context.host.sha256_of(found.udid),
            }
            for name, disk in context.host.array_disks(found.udid).items()
        },
    }


def _find(
    context: Context, name: str
) -> tuple[cloud_lib.Volume, array_evidence.ArrayVolume] | None:
    """Return a volume as Cinder has it, and as the array has it."""
    volume = context.cloud.find_volume(name)
    found = volume and array_evidence.find(context.stack, volume.id)
    return (volume, found) if volume and found else None


def _show(observed: dict[str, report.Json]) -> list[str]:
    """Return lines about the array and the host."""
    array = observed.get('array')
    if array is None:
        return []
    ports = ', '.join(array['mapped to']) or 'nobody'
    return [
        f'array: {array["bytes"] >> 20} MB, mapped to {ports}',
        *(
            f'{name}: {disk["MB"]} MB, mapped to '
            f'{", ".join(disk["mapped to"])}, SHA-256 {disk["SHA-256"]}'
            for name, disk in observed['host'].items()
        ),
    ]

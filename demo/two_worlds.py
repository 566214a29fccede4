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


"""The worlds of two emulated hosts.

Both are like the emulator's default world, with the same DRC indexes and
their own names and serial numbers. One GPU of the second host is of another
model. They share a storage pool. Guests have RMC, without which they cannot
migrate live.
"""

import pathlib
import typing

import yaml

from demo import volume_world
from powervm_emulator import worlds

_DEFAULT_SERIAL = 'EMU0001'
_SERIALS = ('EMU0001', 'EMU0002')

#: The GPU of which the second host has another model.
OTHER_GPU = '21020024'
#: The cluster to which the Virtual I/O Servers of both hosts belong.
CLUSTER = 'demo'
_POOL = {'name': 'demo-pool', 'capacity': 2048}

_OTHER_DEVICE_ID = '1EB8'


def write(
    directory: pathlib.Path, *, has_volumes: bool = False
) -> list[pathlib.Path]:
    """Write the worlds to files, and return their paths."""
    paths = []
    for number, world in enumerate(make(has_volumes=has_volumes), start=1):
        path = directory / f'world-{number}.yaml'
        path.write_text(yaml.safe_dump(world, sort_keys=False))
        paths.append(path)
    return paths


def make(*, has_volumes: bool = False) -> list[worlds.World]:
    """Return the worlds of both hosts.

    :param has_volumes: whether a storage area network reaches the hosts.
    """
    first, second = (_with_serial(serial) for serial in _SERIALS)
    (system,) = second['systems']
    for slot in system['slots']:
        if slot['drc_index'] == OTHER_GPU:
            slot['device_id'] = _OTHER_DEVICE_ID
    for number, world in enumerate((first, second), start=1):
        if has_volumes:
            volume_world.add_to(world, number)
        else:
            volume_world.add_management(world)
        world['clusters'] = [_cluster(world)]
    return [first, second]


def _cluster(world: worlds.World) -> dict[str, typing.Any]:
    """Return the cluster of all Virtual I/O Servers."""
    (system,) = world['systems']
    servers = [server['name'] for server in system['virtual_io_servers']]
    return {'name': CLUSTER, 'nodes': servers, 'pool': dict(_POOL)}


def _with_serial(serial: str) -> worlds.World:
    """Return the default world as that of another machine."""
    world: worlds.World = _replaced(worlds.default(), serial)
    return world


def _replaced(value: typing.Any, serial: str) -> typing.Any:
    """Return a value with another serial number in names and locations."""
    if isinstance(value, dict):
        return {key: _replaced(item, serial) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, serial) for item in value]
    if isinstance(value, str):
        return value.replace(_DEFAULT_SERIAL, serial)
    return value

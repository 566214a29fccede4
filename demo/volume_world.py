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

"""The world of an emulated host with a storage area network.

It is like the emulator's default world, with a second Virtual I/O Server and
Fibre Channel adapters for both. It has NovaLink's management switch, and its
guests have the RSCT packages. So they answer RMC, without which a host refuses
to change what a running guest has.
"""

import pathlib
import typing

import yaml

from powervm_emulator import worlds

#: The fabric of all ports; the simulated array has one target port.
FABRIC = 'demo'

_SERVERS = ('vios1', 'vios2')
_PORTS = (1, 2)


def write(directory: pathlib.Path) -> pathlib.Path:
    """Write the world to a file, and return its path."""
    path = directory / 'world.yaml'
    path.write_text(yaml.safe_dump(make(), sort_keys=False))
    return path


def make() -> worlds.World:
    """Return the world."""
    return add_to(worlds.default())


def add_to(world: worlds.World, host: int = 1) -> worlds.World:
    """Add the network and the second server to a world like the default one.

    :param host: The number of the host, for names of its ports.
    """
    add_management(world)
    (system,) = world['systems']
    first, second = _SERVERS
    (server,) = system['virtual_io_servers']
    system['virtual_io_servers'].append(
        {key: value for key, value in server.items() if key != 'id'}
        | {
            'name': second,
            'volume_groups': [{'name': 'rootvg', 'capacity': 278}],
        }
    )
    system['slots'] += [
        _adapter(number, name, host)
        for number, name in enumerate((first, second))
    ]
    return world


def add_management(world: worlds.World) -> None:
    """Let guests have RMC, which needs NovaLink's management switch."""
    world |= {'guests_have_rsct': True}
    (system,) = world['systems']
    system['virtual_switches'].append({'name': 'MGMTSWITCH', 'mode': 'Vepa'})


def wwpns(host: int = 1) -> dict[str, list[str]]:
    """Return the worldwide port names of a host, by server.

    :param host: its number.
    """
    return {
        name: [_wwpn(number, port, host) for port in _PORTS]
        for number, name in enumerate(_SERVERS)
    }


def _adapter(number: int, owner: str, host: int) -> dict[str, typing.Any]:
    """Describe the slot with the adapter of a Virtual I/O Server."""
    return {
        'drc_index': f'2101005{number}',
        'drc_name': f'U78D2.001.EMU0001-P1-C{13 + number}',
        'description': 'FC5052 2-port 16Gb FC Adapter',
        'owner': owner,
        'fibre_channel_ports': [
            {'wwpn': _wwpn(number, port, host), 'fabric': FABRIC}
            for port in _PORTS
        ],
    }


def _wwpn(number: int, port: int, host: int) -> str:
    return f'10000090FA5{host + 2}{number + 1:02}{port:02}'

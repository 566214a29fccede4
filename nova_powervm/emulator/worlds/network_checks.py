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

"""Checks of virtual Ethernet in worlds that the schema can't express."""

from collections.abc import Iterator
from typing import Any

_REQUIRED = {
    'virtual_switches': ('name',),
    'network_bridges': ('vios', 'pvid'),
    'adapters': ('vlan',),
}
_PARTITIONS = ('virtual_io_servers', 'partitions')


def problems(system: dict[str, Any], path: str) -> Iterator[str]:
    """Yield all contradictions in a system, each with the path to it."""
    for key in ('virtual_switches', 'network_bridges'):
        yield from _missing(system, key, path)
    for kind in _PARTITIONS:
        for number, partition in enumerate(system.get(kind, ())):
            where = f'{path}.{kind}[{number}]'
            yield from _missing(partition, 'adapters', where)
    names = {
        server.get('name') for server in system.get('virtual_io_servers', ())
    }
    for number, bridge in enumerate(system.get('network_bridges', ())):
        for key in ('vios', 'failover_vios'):
            if key in bridge and bridge[key] not in names:
                yield (
                    f'{path}.network_bridges[{number}].{key}: unknown '
                    f'Virtual I/O Server {bridge[key]!r}'
                )


def _missing(holder: dict[str, Any], key: str, path: str) -> Iterator[str]:
    for number, spec in enumerate(holder.get(key, ())):
        for name in _REQUIRED[key]:
            if name not in spec and 'capture' not in spec:
                yield (
                    f'{path}.{key}[{number}]: {name} is required without '
                    'capture'
                )

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

"""Tables of the keys of worlds and of the requests of the emulator.

They are made from the JSON schema of worlds and from the route table.
"""

import re
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from powervm_emulator import nouns
from powervm_emulator import worlds

_SCHEMA = worlds.schema()
_SERVER = ('systems', 'virtual_io_servers')
#: The objects of worlds that have a table each: its title, and the keys that
#: lead to them.
_OBJECTS = (
    ('The world', ()),
    ('Systems', ('systems',)),
    ('Slots', ('systems', 'slots')),
    ('Fibre Channel ports', ('systems', 'slots', 'fibre_channel_ports')),
    ('Partitions', ('systems', 'partitions')),
    ('Virtual I/O Servers', _SERVER),
    ('Volume groups', (*_SERVER, 'volume_groups')),
    ('Physical volumes', (*_SERVER, 'physical_volumes')),
    ('Network adapters', ('systems', 'partitions', 'adapters')),
    ('Virtual switches', ('systems', 'virtual_switches')),
    ('Virtual networks', ('systems', 'virtual_networks')),
    ('Network bridges', ('systems', 'network_bridges')),
    ('Clusters', ('clusters',)),
    ('Management consoles', ('management_consoles',)),
)
_TABLES = {way[-1] for _, way in _OBJECTS if way}
_RANGE = ('minimum', 'desired', 'maximum')

Schema = dict[str, Any]


def list_keys() -> Iterator[str]:
    """Yield tables of all keys of worlds as reStructuredText."""
    for title, way in _OBJECTS:
        place = _SCHEMA
        for key in way:
            place = place['properties'][key]['items']
        yield from _table(title, 'Key', _keys(place))
    yield from _table('Captures', 'Key', _keys(_SCHEMA['$defs']['capture']))


def list_requests() -> Iterator[str]:
    """Yield a table of all requests with their labels."""
    found: dict[str, list[str]] = {}
    for route in nouns.ROUTES:
        path = re.sub(r'<(?:path:)?(\w+)>', r'{\1}', route.rule)
        path = path.removeprefix('/rest/api/')
        found.setdefault(route.label, []).append(f'``{route.method} {path}``')
    rows = ((label, ', '.join(uris)) for label, uris in found.items())
    yield from _table('', 'Label', rows)


def _keys(place: Schema, before: str = '') -> Iterator[tuple[str, str]]:
    """Yield each key of an object, and of those in it, with its meaning."""
    for key, value in place['properties'].items():
        meaning = _meaning(key, value, place.get('required', ()))
        if meaning:
            yield before + key, meaning
        inner = value.get('items', value)
        below = inner.get('properties', ())
        if below and tuple(below) != _RANGE and key not in _TABLES:
            yield from _keys(inner, f'{before}{key}.')


def _meaning(key: str, value: Schema, required: Iterable[str]) -> str:
    name = value.get('$ref', '').rpartition('/')[2]
    words = value.get('description') or _SCHEMA['$defs'].get(name, {}).get(
        'description', ''
    )
    parts = [words.replace('*', r'\*').replace('_', r'\_')]
    if 'enum' in value:
        values = ', '.join(f'``{each}``' for each in value['enum'])
        parts.append(f'One of {values}.')
    if value.get('type') == 'array':
        parts.append('A list.')
    if key in required:
        parts.append('Required.')
    return ' '.join(part for part in parts if part)


def _table(
    title: str, first: str, rows: Iterable[tuple[str, str]]
) -> Iterator[str]:
    if title:
        yield from (f'.. rubric:: {title}', '')
    yield from ('.. list-table::', '   :header-rows: 1')
    yield from ('   :widths: 35 65', '')
    yield from (f'   * - {first}', '     - Meaning')
    for name, meaning in rows:
        yield from (f'   * - ``{name}``', f'     - {meaning}')
    yield ''

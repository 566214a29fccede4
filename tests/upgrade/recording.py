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

"""What Nova, Placement, Neutron, Glance and an emulated host have, as JSON.

This module runs in the checkout of an old release, where it records, and in
that of the present one, where it loads. It uses what both have.
"""

import datetime
import json

import fixtures
import sqlalchemy
from nova.db.api import api as api_db
from nova.db.main import api as main_db
from placement import db_api as placement_db

from powervm_emulator import fixture
from powervm_emulator.state import hosts
from tests.functional import base

#: What each start of Nova's fixtures makes for itself.
_OF_FIXTURES = ('alembic_version', 'cell_mappings', 'host_mappings')
_TIMES = ('created_at', 'updated_at')
#: All images have the same contents when they are loaded.
_OF_CONTENTS = ('size', 'os_hash_algo', 'os_hash_value')


def _engines():
    """Return the engine of each database, and columns with any times."""
    return {
        'nova_api': (api_db.get_engine(), ()),
        'nova': (main_db.get_engine(), ()),
        # It has hundreds of traits, and only needs times that it can compare.
        'placement': (placement_db.get_placement_engine(), _TIMES),
    }


def dump(case, emulator, ports, images):
    """Return all that a state consists of, as values of JSON.

    :param case: A test of the functional tests, with running services.
    :param emulator: The emulator of its only host.
    :param ports: The ids of the ports of its servers.
    :param images: The ids of the images that matter.
    """
    return {
        'databases': {
            name: _dump_database(engine, left_out)
            for name, (engine, left_out) in _engines().items()
        },
        'host': hosts.save([emulator._application.emulation]),
        'ports': {
            port: [
                case.neutron._ports[port],
                case.neutron._port_bindings[port],
            ]
            for port in ports
        },
        'images': [
            {
                key: value.isoformat() if key in _TIMES else value
                for key, value in case.glance.images[image].items()
                if key not in _OF_CONTENTS
            }
            for image in images
        ],
    }


def _dump_database(engine, left_out):
    with engine.connect() as connection:
        names = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        )
        tables = {
            name: _dump_table(connection, name, left_out)
            for (name,) in names.all()
            if name not in _OF_FIXTURES and not name.startswith('sqlite_')
        }
    return {name: table for name, table in tables.items() if table}


def _dump_table(connection, name, left_out):
    """Return the names of the columns of a table, and then its rows.

    Leave out the columns that are empty in all rows.
    """
    query = f'SELECT * FROM {name}'  # noqa: S608 - the name of a table
    found = connection.exec_driver_sql(query)
    names, rows = list(found.keys()), found.all()
    used = [
        number
        for number, column in enumerate(names)
        if column not in left_out
        and any(row[number] is not None for row in rows)
    ]
    table = [names, *rows] if rows else []
    return [[row[number] for number in used] for row in table]


def load(case, recorded):
    """Load a state into the services of a test, before its host starts."""
    for name, (engine, times) in _engines().items():
        made_up = dict.fromkeys(times, '2011-01-01 01:02:03.000000')
        _load_database(engine, recorded['databases'][name], made_up)
    for port, (shown, bindings) in recorded['ports'].items():
        case.neutron._ports[port] = shown
        case.neutron._port_bindings[port] = bindings
    for image in recorded['images']:
        times = {
            key: datetime.datetime.fromisoformat(image[key]) for key in _TIMES
        }
        case.create_image(base.IMAGE, **image | times)


def _load_database(engine, tables, made_up):
    with engine.begin() as connection:
        for name, (names, *rows) in tables.items():
            columns = map(sqlalchemy.column, (*names, *made_up))
            table = sqlalchemy.table(name, *columns)
            connection.execute(sqlalchemy.delete(table))
            connection.execute(
                sqlalchemy.insert(table),
                [dict(zip(names, row, strict=True)) | made_up for row in rows],
            )


def load_host(recorded, **options):
    """Return an emulator that is the recorded host.

    :param options: Those of the emulator.
    """
    with fixtures.MonkeyPatch(
        'powervm_emulator.control.verbs.Control.load_world', lambda *_: None
    ):
        emulator = fixture.Emulator(**options)
    hosts.load(emulator._application.emulation, recorded['host'], 0)
    return emulator


def write(path, state):
    """Write a state to a file, each row and each resource on a line."""
    path.write_text(f'{_lines(state, 2)}\n')


def _compact(value):
    return json.dumps(value, separators=(',', ':'))


def _lines(value, depth):
    """Return JSON whose lines are broken above a depth only."""
    if not value or not isinstance(value, dict | list):
        return _compact(value)
    if isinstance(value, list):
        inner = [_compact(each) for each in value]
        return '[\n' + ',\n'.join(inner) + '\n]'
    inner = [
        f'{_compact(key)}: {_lines(each, depth - 1)}'
        for key, each in value.items()
    ]
    return '{\n' + ',\n'.join(inner) + '\n}'

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

import concurrent.futures
import pathlib
import tempfile
import threading
import unittest
import uuid
from unittest import mock

import requests
import sqlalchemy
import testtools
from placement.handlers import allocation as handler
from placement.tests.functional.fixtures import placement as fixtures

from demo import sqlite


class Placement(fixtures.PlacementFixture):
    """The application of Placement, with a database in a file."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def _configure_placement(self, conf_fixture):
        conf_fixture.config(
            connection=f'sqlite:///{self._path}', group='placement_database'
        )

    def put(self, path, **body):
        """Send a PUT as an administrator."""
        return requests.put(
            self.endpoint + path,
            json=body,
            headers={
                'X-Auth-Token': 'admin',
                'OpenStack-API-Version': 'placement 1.38',
            },
            timeout=120,
        )

    def allocate(self, provider):
        """Allocate VCPU of a provider to a new consumer; return the answer."""
        return self.put(
            f'/allocations/{uuid.uuid4()}',
            allocations={provider: {'resources': {'VCPU': 1}}},
            consumer_generation=None,
            consumer_type='INSTANCE',
            project_id='project',
            user_id='user',
        )


class PlacementTest(testtools.TestCase):
    """Placement, which nests transactions."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(_remove_listeners)
        sqlite.serialize_writers()
        path = pathlib.Path(directory.name) / 'placement.db'
        self.placement = self.useFixture(Placement(path))

    def test_concurrent_allocations_of_one_provider_succeed(self):
        provider = self.provider()
        # Both have read the provider before one of them changes it.
        together = threading.Barrier(2)
        prepare = handler._new_allocations

        def prepared(*arguments):
            together.wait(60)
            return prepare(*arguments)

        with (
            mock.patch.object(handler, '_new_allocations', prepared),
            concurrent.futures.ThreadPoolExecutor(2) as threads,
        ):
            answers = list(
                threads.map(self.placement.allocate, [provider] * 6)
            )

        self.assertEqual(
            [(204, '')] * 6, [(a.status_code, a.text) for a in answers]
        )

    def provider(self):
        """Create a provider with inventory; return its UUID."""
        identifier = str(uuid.uuid4())
        requests.post(
            self.placement.endpoint + '/resource_providers',
            json={'uuid': identifier, 'name': 'host'},
            headers={'X-Auth-Token': 'admin'},
            timeout=60,
        ).raise_for_status()
        self.placement.put(
            f'/resource_providers/{identifier}/inventories',
            inventories={'VCPU': {'total': 8}},
            resource_provider_generation=0,
        ).raise_for_status()
        return identifier


class SerializeWritersTest(unittest.TestCase):
    def test_transactions_that_read_first_all_write(self):
        with tempfile.TemporaryDirectory() as directory:
            self.addCleanup(_remove_listeners)
            sqlite.serialize_writers()
            path = pathlib.Path(directory) / 'counter.db'
            engine = sqlalchemy.create_engine(f'sqlite:///{path}')
            # As oslo.db does it: the BEGIN is SQLAlchemy's, not sqlite3's.
            sqlalchemy.event.listen(engine, 'connect', _no_implicit_begin)
            sqlalchemy.event.listen(
                engine, 'begin', lambda c: c.exec_driver_sql('BEGIN')
            )
            with engine.begin() as connection:
                connection.execute(sqlalchemy.text('CREATE TABLE c (n)'))
                connection.execute(sqlalchemy.text('INSERT INTO c VALUES (0)'))
            self._count(engine, threads=4, times=25)
            with engine.connect() as connection:
                total = connection.scalar(sqlalchemy.text('SELECT n FROM c'))
            engine.dispose()

        self.assertEqual(100, total)

    def _count(self, engine, threads, times):
        def count():
            for _ in range(times):
                with engine.begin() as connection:
                    n = connection.scalar(sqlalchemy.text('SELECT n FROM c'))
                    connection.execute(
                        sqlalchemy.text('UPDATE c SET n = :n'), {'n': n + 1}
                    )

        workers = [threading.Thread(target=count) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


class CheckReferencesTest(unittest.TestCase):
    def test_row_that_another_refers_to_is_not_deleted(self):
        self.addCleanup(
            sqlalchemy.event.remove,
            sqlalchemy.engine.Engine,
            'connect',
            sqlite._on_referring_connect,
        )
        sqlite.check_references()
        engine = sqlalchemy.create_engine('sqlite://')
        self.addCleanup(engine.dispose)
        with engine.begin() as connection:
            for statement in (
                'CREATE TABLE profile (id INTEGER PRIMARY KEY)',
                'CREATE TABLE request (profile REFERENCES profile (id))',
                'INSERT INTO profile VALUES (1), (2)',
                'INSERT INTO request VALUES (1)',
                'DELETE FROM profile WHERE id = 2',
            ):
                connection.execute(sqlalchemy.text(statement))

            with self.assertRaises(sqlalchemy.exc.IntegrityError):
                connection.execute(sqlalchemy.text('DELETE FROM profile'))


def _remove_listeners():
    engines = sqlalchemy.engine.Engine
    sqlalchemy.event.remove(engines, 'connect', sqlite._on_connect)
    sqlalchemy.event.remove(
        engines, 'before_cursor_execute', sqlite._on_execute
    )


def _no_implicit_begin(connection, _record):
    connection.isolation_level = None

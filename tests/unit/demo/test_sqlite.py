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

import pathlib
import tempfile
import threading
import unittest

import sqlalchemy

from nova_powervm.demo import sqlite


class TestTune(unittest.TestCase):
    def test_two_transactions_that_read_first_both_write(self):
        with tempfile.TemporaryDirectory() as directory:
            self.addCleanup(self._untune)
            sqlite.tune()
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

    def _untune(self):
        engines = sqlalchemy.engine.Engine
        sqlalchemy.event.remove(engines, 'connect', sqlite._on_connect)
        sqlalchemy.event.remove(
            engines, 'before_cursor_execute', sqlite._on_execute
        )


def _no_implicit_begin(connection, _record):
    connection.isolation_level = None

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

"""SQLite databases with several writing threads and services.

oslo.db begins transactions with BEGIN, which takes the write lock of SQLite
only at the first statement that writes. If two transactions have read by
then, one of them fails immediately with "database is locked", whatever the
timeout. A transaction that takes the lock when it begins waits instead.

A nested transaction must not wait: Placement rereads a provider in a second
transaction while the same thread holds the lock in a first one, and would
wait for itself. So the second transaction of a thread begins with BEGIN.
"""

import sqlite3
import threading
import typing
import weakref

import sqlalchemy.engine
import sqlalchemy.event

_PRAGMAS = (
    # Readers continue while another connection writes.
    'PRAGMA journal_mode=WAL',
    'PRAGMA busy_timeout=60000',
    # The databases need not survive a power failure.
    'PRAGMA synchronous=OFF',
)


class _Begun(threading.local):
    """The connection with which this thread last locked each database."""

    def __init__(self) -> None:
        self.by_database: dict[
            sqlalchemy.engine.URL,
            weakref.ref[sqlalchemy.engine.Connection],
        ] = {}


_begun = _Begun()


def serialize_writers() -> None:
    """Make transactions of all SQLAlchemy engines lock when they begin.

    Call it once per process.
    """
    engines = sqlalchemy.engine.Engine
    sqlalchemy.event.listen(engines, 'connect', _on_connect)
    sqlalchemy.event.listen(
        engines, 'before_cursor_execute', _on_execute, retval=True
    )


def check_references() -> None:
    """Make SQLite refuse to delete a row that others refer to.

    Other databases always do; SQLite does if a connection asks for it. Call
    it once per process.
    """
    sqlalchemy.event.listen(
        sqlalchemy.engine.Engine, 'connect', _on_referring_connect
    )


def _on_referring_connect(connection: typing.Any, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute('PRAGMA foreign_keys=ON')


def _on_connect(connection: typing.Any, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        for pragma in _PRAGMAS:
            connection.execute(pragma)


def _on_execute(
    connection: sqlalchemy.engine.Connection,
    _cursor: object,
    statement: str,
    parameters: object,
    *_rest: object,
) -> tuple[str, object]:
    if (
        statement == 'BEGIN'
        and connection.dialect.name == 'sqlite'
        and not _is_inside_another(connection)
    ):
        statement = 'BEGIN IMMEDIATE'
    return statement, parameters


def _is_inside_another(connection: sqlalchemy.engine.Connection) -> bool:
    """Return whether this thread already holds the write lock."""
    database = connection.engine.url
    known = _begun.by_database.get(database)
    holder = known and known()
    if holder and holder is not connection and holder.in_transaction():
        return True
    _begun.by_database[database] = weakref.ref(connection)
    return False

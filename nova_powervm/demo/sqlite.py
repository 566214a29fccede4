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

"""Let several threads and services write to SQLite databases.

oslo.db begins transactions with BEGIN, which takes SQLite's write lock only
at the first statement that writes. Two transactions that have both read by
then can't both go on, and one fails with "database is locked" at once,
whatever the timeout. A transaction that takes the lock when it begins waits
for its turn instead.

There is one that must not wait: Placement reads a provider anew in a second
transaction, while the same thread has the lock in a first one. It would wait
for itself. So what begins inside another one of its thread begins plainly.
"""

import sqlite3
import threading
import typing
import weakref

import sqlalchemy.engine
import sqlalchemy.event

_PRAGMAS = (
    # Readers go on while somebody writes.
    'PRAGMA journal_mode=WAL',
    'PRAGMA busy_timeout=60000',
    # A machine that loses power may keep half of a demonstration.
    'PRAGMA synchronous=OFF',
)


class _Begun(threading.local):
    """What each thread has begun with the lock of a database, last of all."""

    def __init__(self) -> None:
        self.by_database: dict[
            sqlalchemy.engine.URL,
            weakref.ref[sqlalchemy.engine.Connection],
        ] = {}


_begun = _Begun()


def tune() -> None:
    """Apply this to every SQLAlchemy engine of the process, once."""
    engines = sqlalchemy.engine.Engine
    sqlalchemy.event.listen(engines, 'connect', _on_connect)
    sqlalchemy.event.listen(
        engines, 'before_cursor_execute', _on_execute, retval=True
    )


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
    """Whether this thread has the database's write lock already."""
    database = connection.engine.url
    known = _begun.by_database.get(database)
    holder = known and known()
    if holder and holder is not connection and holder.in_transaction():
        return True
    _begun.by_database[database] = weakref.ref(connection)
    return False

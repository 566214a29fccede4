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

"""Cyborg's tables: emptied between tests, read, and changed by tests."""

import sqlalchemy
from cyborg.db.sqlalchemy import models

_REQUESTS = models.ExtArq.__table__


class Database:
    """The database of Cyborg's services.

    :param url: As in ``[database]connection``.
    """

    def __init__(self, url):
        self._engine = sqlalchemy.create_engine(url)
        # Alembic's migrations alter tables, which SQLite can't do.
        models.Base.metadata.create_all(self._engine)

    def clear(self):
        """Delete all rows."""
        with self._engine.begin() as connection:
            for table in reversed(models.Base.metadata.sorted_tables):
                connection.execute(table.delete())

    def set_state(self, uuid, state):
        """Set the state of an accelerator request.

        The statement is text because Cyborg's model refuses the state
        UnbindFailed.
        """
        with self._engine.begin() as connection:
            changed = connection.execute(
                sqlalchemy.text(
                    f'UPDATE {_REQUESTS.name} SET state = :state '  # noqa: S608
                    'WHERE uuid = :uuid'
                ),
                {'state': state, 'uuid': uuid},
            )
            if changed.rowcount != 1:
                raise LookupError(f'no accelerator request {uuid}')

    def run(self, statement):
        """Run a statement of SQL."""
        with self._engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    def delete_profile_unchecked(self, name):
        """Delete a device profile without a check of references to it.

        MySQL does that after ``SET FOREIGN_KEY_CHECKS = 0``.
        """
        profiles = models.DeviceProfile.__table__
        with self._engine.connect() as connection:
            on_driver = connection.connection.driver_connection
            on_driver.execute('PRAGMA foreign_keys=0')
            with connection.begin():
                connection.execute(
                    profiles.delete().where(profiles.c.name == name)
                )
            on_driver.execute('PRAGMA foreign_keys=1')

    def rows(self):
        """Return all rows by table, as dictionaries of texts and numbers."""
        with self._engine.connect() as connection:
            return {
                table.name: [
                    dict(row)
                    for row in connection.execute(
                        sqlalchemy.text(f'SELECT * FROM {table.name}')  # noqa: S608
                    ).mappings()
                ]
                for table in models.Base.metadata.sorted_tables
            }

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

"""Cyborg's API, with the tables of all of Cyborg's services."""

import cyborg.cmd  # noqa: F401 - the first import: it chooses threads
import sqlalchemy
from cyborg.api import app
from cyborg.db.sqlalchemy import models

from demo import config
from demo import sqlite
from demo import stack as stack_lib
from demo.services import cyborg_services
from demo.services import http


def serve(stack: stack_lib.Stack) -> None:
    """Create the database of Cyborg and serve its API."""
    sqlite.serialize_writers()
    _create_tables(stack)
    cyborg_services.prepare(stack, 'cyborg_api')
    http.serve(app.load_app(), stack.ports[stack_lib.CYBORG])


def _create_tables(stack: stack_lib.Stack) -> None:
    """Create the tables from the models.

    Cyborg's migrations alter columns, which SQLite does not support.
    """
    engine = sqlalchemy.create_engine(config.database_url(stack, 'cyborg'))
    models.Base.metadata.create_all(engine)
    engine.dispose()

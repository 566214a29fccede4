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

"""Neutron, with ML2 and this project's mechanism driver."""

import importlib
import os

import sqlalchemy
from neutron.db.migration.models import head

from demo import config
from demo import sqlite
from demo import stack as stack_lib
from demo.services import http


def serve(stack: stack_lib.Stack) -> None:
    """Create the database of Neutron and serve its API."""
    sqlite.serialize_writers()
    _create_tables(stack)
    os.environ['OS_NEUTRON_CONFIG_DIR'] = str(stack.etc)
    os.environ['OS_NEUTRON_CONFIG_FILES'] = 'neutron.conf'
    # This module creates the application when it is imported.
    api = importlib.import_module('neutron.wsgi.api')
    http.serve(api.application, stack.ports['neutron'])


def _create_tables(stack: stack_lib.Stack) -> None:
    """Create the tables from the models.

    Neutron's migrations alter columns, which SQLite does not support.
    """
    engine = sqlalchemy.create_engine(config.database_url(stack, 'neutron'))
    head.get_metadata().create_all(engine)
    engine.dispose()

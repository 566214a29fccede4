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

"""Cyborg's API, its conductor, and its agent with this project's driver."""

import cyborg.cmd  # noqa: F401 - the first import: it chooses threads
import sqlalchemy
from cyborg import context
from cyborg.api import app
from cyborg.common import constants
from cyborg.common import service
from cyborg.db.sqlalchemy import models

from demo import config
from demo import sqlite
from demo import stack as stack_lib
from demo.services import http


def serve_api(stack: stack_lib.Stack) -> None:
    """Create the database of Cyborg and serve its API.

    The tables come from the models: Cyborg's migrations alter columns, which
    SQLite does not support.
    """
    sqlite.serialize_writers()
    engine = sqlalchemy.create_engine(config.database_url(stack, 'cyborg'))
    models.Base.metadata.create_all(engine)
    engine.dispose()
    _prepare(stack, 'cyborg_api')
    http.serve(app.load_app(), stack.ports[stack_lib.CYBORG])


def serve_conductor(stack: stack_lib.Stack) -> None:
    """Start the conductor, as soon as its database exists."""
    sqlite.serialize_writers()
    _prepare(stack, 'cyborg_conductor')
    http.wait_until_up(stack.url(stack_lib.CYBORG))
    http.wait_until_up(stack.auth_url)
    _start(
        'cyborg.conductor.manager',
        'ConductorManager',
        constants.CONDUCTOR_TOPIC,
    )


def serve_agent(stack: stack_lib.Stack) -> None:
    """Start the agent, and return when it has reported its devices.

    The agent gives up after a few seconds without the compute node's
    provider, which exists when Nova's API answers.
    """
    _prepare(stack, 'cyborg_agent')
    http.wait_until_up(stack.url('nova'))
    manager = 'cyborg.agent.manager', 'AgentManager'
    agent = _start(*manager, constants.AGENT_TOPIC)
    # The agent's own first report is made by another thread. This one waits
    # for it, and finds nothing new.
    agent.manager.update_available_resource(context.get_admin_context())


def _prepare(stack: stack_lib.Stack, process: str) -> None:
    """Read the configuration, set up the log and connect to the broker.

    Cyborg relies on a database that does not delete what is referred to.
    """
    sqlite.check_references()
    service.prepare_service(
        [
            process,
            *('--config-file', str(stack.etc / config.CYBORG)),
            *('--log-file', str(stack.log / f'{process}.log')),
        ]
    )


def _start(module: str, manager: str, topic: str) -> service.RPCService:
    """Start a service with remote procedure calls and periodic tasks."""
    started = service.RPCService(module, manager, topic)
    started.start()
    return started

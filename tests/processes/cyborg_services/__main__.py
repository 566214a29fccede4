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

"""Runs Cyborg's services and obeys commands on standard input.

Each line of standard input is a JSON object with the name of a command and
its arguments; each gets one line on standard output, ``{"result": ...}`` or
``{"error": text}``. The process ends when its standard input does.
"""

import argparse
import faulthandler
import functools
import gc
import json
import os
import sys
import traceback

import oslo_service.backend as oslo_backend

oslo_backend.init_backend(oslo_backend.BackendType.THREADING)

from cyborg import context  # noqa: E402
from cyborg import objects  # noqa: E402
from cyborg.api import app  # noqa: E402
from cyborg.common import constants  # noqa: E402
from cyborg.common import service  # noqa: E402
from cyborg.conductor import manager  # noqa: E402, F401  loads its options
from cyborg.conf import CONF  # noqa: E402
from cyborg_services import agents  # noqa: E402
from cyborg_services import database  # noqa: E402
from cyborg_services import interventions  # noqa: E402
from cyborg_services import serving  # noqa: E402

from demo import sqlite  # noqa: E402
from nova_powervm.conf import accelerators  # noqa: E402


class Services:
    """Cyborg's API, conductor and agents; its public methods are commands.

    :param parts: Which of 'api', 'conductor' and 'agent' to run. Parts in
        different processes need a transport that reaches all of them.
    """

    def __init__(self, parts):
        self._database = database.Database(CONF.database.connection)
        self._agents = agents.Agents() if 'agent' in parts else None
        self._api = self._between = None
        if 'conductor' in parts:
            service.RPCService(
                'cyborg.conductor.manager',
                'ConductorManager',
                constants.CONDUCTOR_TOPIC,
            ).start()
        if 'api' in parts:
            self._between = interventions.Interventions(app.load_app())
            self._api = serving.Server(self._between)
            self._api.start()

    def url(self):
        """Return the URL of the API."""
        return self._api.url

    def clear(self):
        """Make everything as it was at the start."""
        self.plan()
        self.come_back()
        if self._agents:
            self._agents.clear()
        self._database.clear()

    def configure(self, host, options):
        """Set the options of a host's agent."""
        self._agents.configure(host, options)

    def report(self, host):
        """Make the agent of a host report its devices now."""
        self._agents.report(host)

    def set_state(self, uuid, state):
        """Set the state of an accelerator request."""
        self._database.set_state(uuid, state)

    def delete_profile_unchecked(self, name):
        """Delete a device profile, whatever refers to it."""
        self._database.delete_profile_unchecked(name)

    def run_sql(self, statement):
        """Run a statement of SQL on the database."""
        self._database.run(statement)

    def tables(self):
        """Return all rows of Cyborg's database."""
        return self._database.rows()

    def go_away(self):
        """Close all connections to the API without an answer."""
        self._api.is_away = True

    def come_back(self):
        """Answer again."""
        self._api.is_away = False

    def plan(self, action=None, number=None, skip=0):
        """Plan what happens when requests are bound; see Interventions.

        :param action: 'away': the API goes away. 'unbind': requests are
            unbound again. Anything else: the state that requests get. None
            for nothing.
        :param number: Number of requests that are affected; None for all.
        :param skip: Number of bindings to leave alone before.
        """
        self._between.plan(
            action and functools.partial(self._intervene, action, number),
            skip,
        )

    def _intervene(self, action, number, uuids):
        if action == 'away':
            self.go_away()
            return
        for uuid in uuids[:number]:
            if action == 'unbind':
                admin = context.get_admin_context()
                objects.ExtARQ.get(admin, uuid).unbind(admin)
            else:
                self.set_state(uuid, action)


def _obey(services, line):
    """Run a command and return its answer."""
    command = json.loads(line)
    name = command.pop('command')
    try:
        return {'result': getattr(services, name)(**command)}
    except Exception as error:
        traceback.print_exc()
        return {'error': f'{type(error).__name__}: {error}'}


def main():
    """Start the services and obey until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--config-file', required=True)
    parser.add_argument(
        '--parts', default='api,conductor,agent', help='parts to run'
    )
    arguments = parser.parse_args()
    # Services may print to standard output; only answers belong there.
    answers = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    sqlite.serialize_writers()
    sqlite.check_references()
    service.prepare_service(['cyborg', '--config-file', arguments.config_file])
    accelerators.register_opts(CONF)
    services = Services(arguments.parts.split(','))
    # What is in memory by now stays there.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    answers.write('{"result": "ready"}\n')
    for line in sys.stdin:
        answers.write(json.dumps(_obey(services, line), default=str) + '\n')
    os._exit(0)


if __name__ == '__main__':
    main()

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

"""Runs a neutron server: ``python tests/neutron/server.py DIRECTORY``.

It reads ``neutron.conf`` and ``agents.json`` (agents that report to it) in the
directory. The first line of its output is its port.
"""

import json
import os
import pathlib
import sys
import threading

import sqlalchemy
from neutron.db.migration.models import head
from neutron_lib import context
from neutron_lib.plugins import directory
from werkzeug import serving


def main():
    """Serve until standard input is closed."""
    folder = pathlib.Path(sys.argv[1])
    # Neutron reads the command line, too.
    sys.argv = ['neutron-api']
    # The migrations alter columns, which SQLite can't.
    engine = sqlalchemy.create_engine(f'sqlite:///{folder}/neutron.db')
    head.get_metadata().create_all(engine)
    engine.dispose()
    os.environ['OS_NEUTRON_CONFIG_DIR'] = str(folder)
    os.environ['OS_NEUTRON_CONFIG_FILES'] = 'neutron.conf'
    # Builds the application when it is imported.
    from neutron.wsgi import api  # noqa: PLC0415

    for agent in json.loads((folder / 'agents.json').read_text()):
        directory.get_plugin().create_or_update_agent(
            context.get_admin_context(), agent
        )
    one_at_a_time = threading.Lock()

    def application(environ, start_response):
        # SQLite refuses the second of two requests that read before they
        # write, and waits for neither.
        with one_at_a_time:
            return api.application(environ, start_response)

    server = serving.make_server('127.0.0.1', 0, application, threaded=True)
    print(server.port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    # Neutron's threads would go on.
    os._exit(0)


if __name__ == '__main__':
    main()

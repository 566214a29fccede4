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

"""The child process that runs Cyborg's services for tests."""

import atexit
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

from werkzeug.middleware import dispatcher

from tests.processes.cyborg_services import serving
from tests.processes.cyborg_services import tokens

#: The project of the service users; Cyborg insists on a uuid.
SERVICE_PROJECT = 'c6' * 16
_REGION = 'RegionOne'
# Where nova's fixtures set it to, it would be removed after the first test.
_TEMPORARY = tempfile.gettempdir()
_ROOT = pathlib.Path(__file__).parents[2]
_PROCESSES = _ROOT / 'tests' / 'processes'

_PASTE = """\
[pipeline:main]
pipeline = request_id tokens api_v2

[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory

[filter:tokens]
paste.filter_factory = cyborg_services.tokens:filter_factory

[app:api_v2]
paste.app_factory = cyborg.api.app:app_factory
"""

_CONFIG = """\
[DEFAULT]
transport_url = fake:/
state_path = {directory}
log_file = {directory}/cyborg.log
debug = false

[oslo_concurrency]
lock_path = {directory}

[oslo_messaging_notifications]
driver = noop

[database]
connection = sqlite:///{directory}/cyborg.db

[api]
api_paste_config = {directory}/api-paste.ini

[agent]
enabled_drivers = powervm
resource_provider_startup_retries = 0

[placement]
auth_type = password
auth_url = {others}/identity/v3
username = cyborg
password = any
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne

[nova]
auth_type = admin_token
endpoint = {others}/compute/v2.1
endpoint_override = {others}/compute/v2.1
token = {token}
"""


class ServiceError(Exception):
    """A command of the child process failed, with Cyborg's error."""


class Services:
    """The child process, and the server that it reaches Nova by.

    One for a process of tests: it takes seconds to start.

    :param apps: See :meth:`serve`. Cyborg's conductor wants an answer of
        Placement to start.
    """

    def __init__(self, apps):
        self._lock = threading.Lock()
        self._mounts = {}
        self.serve(apps)
        self._others = serving.Server(
            dispatcher.DispatcherMiddleware(_not_found, self._mounts)
        )
        self._others.start()
        self._directory = tempfile.TemporaryDirectory(dir=_TEMPORARY)
        self.log_path = pathlib.Path(self._directory.name, 'cyborg.log')
        atexit.register(self._directory.cleanup)
        self.url = ''
        self._start()
        atexit.register(self._stop)
        self.url = self.call('url')

    def _start(self):
        directory = pathlib.Path(self._directory.name)
        (directory / 'api-paste.ini').write_text(_PASTE)
        (directory / 'cyborg.conf').write_text(
            _CONFIG.format(
                directory=directory,
                others=self._others.url,
                token=tokens.make_token('cyborg', SERVICE_PROJECT, 'admin'),
            )
        )
        with open(directory / 'output', 'w') as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, '-m', 'cyborg_services'),
                    *('--config-file', directory / 'cyborg.conf'),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=_ROOT,
                env={**os.environ, 'PYTHONPATH': f'{_PROCESSES}:{_ROOT}'},
            )
        if not self._process.stdout.readline():
            raise ServiceError(self._describe_end())

    def _stop(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(30)
        self._others.stop()

    def kill(self):
        """End the child process as a power failure would."""
        self._process.kill()
        self._process.wait(30)

    def restart(self):
        """Start a new child process on the same database."""
        self._start()
        self.url = self.call('url')

    def call(self, command, **arguments):
        """Run a command of the child process; see its module.

        :raises ServiceError: It failed.
        """
        with self._lock:
            line = self._ask(json.dumps({'command': command, **arguments}))
        if not line:
            raise ServiceError(self._describe_end())
        answer = json.loads(line)
        if 'error' in answer:
            raise ServiceError(answer['error'])
        return answer['result']

    def _ask(self, line):
        """Return the answer to a line, or nothing if the process has ended."""
        try:
            self._process.stdin.write(f'{line}\n')
            self._process.stdin.flush()
        except BrokenPipeError:
            return ''
        return self._process.stdout.readline()

    def _describe_end(self):
        """Return the exit status and the last words of the process."""
        output = (self.log_path.parent / 'output').read_text()
        log = self.log_path.read_text() if self.log_path.exists() else ''
        return (
            f"Cyborg's process has ended with {self._process.wait(30)}: "
            f'{output[-2000:]}\n{log[-2000:]}'
        )

    def set_roles(self, *roles):
        """Set the roles of the user in ``[placement]`` of cyborg.conf."""
        self._identity.token = tokens.make_token(
            'admin', SERVICE_PROJECT, *roles
        )

    def serve(self, apps):
        """Serve WSGI applications of a test to Cyborg, each by its name."""
        self._identity = Identity(
            # Placement's own stand-in for keystone knows one administrator.
            tokens.make_token('admin', SERVICE_PROJECT, 'admin'),
            self._endpoints,
        )
        self._mounts.clear()
        self._mounts.update(
            {f'/{name}': app for name, app in apps.items()}
            | {'/identity': self._identity}
        )

    def _endpoints(self):
        return {
            'accelerator': f'{self.url}/v2',
            'placement': f'{self._others.url}/placement',
        }


class Identity:
    """Stands for keystone: gives out one token with a catalog of services.

    keystone would add seconds to each test. The user is always the same, and
    any password is right.

    :param token: The token, which ends with the roles of the user.
    :param endpoints: Returns service type to URL.
    """

    def __init__(self, token, endpoints):
        self.token = token
        self._endpoints = endpoints

    def __call__(self, environ, start_response):
        if environ['REQUEST_METHOD'] == 'POST':
            status, body = '201 Created', {'token': self._access()}
        else:
            status, body = '200 OK', {'version': self._version(environ)}
        content = json.dumps(body).encode()
        start_response(
            status,
            [
                ('Content-Type', 'application/json'),
                ('Content-Length', str(len(content))),
                ('X-Subject-Token', self.token),
            ],
        )
        return [content]

    def _access(self):
        return {
            'methods': ['password'],
            'expires_at': '2100-01-01T00:00:00.000000Z',
            'issued_at': '2026-01-01T00:00:00.000000Z',
            'user': {'id': 'cyborg', 'name': 'cyborg'},
            'project': {'id': 'service', 'name': 'service'},
            'roles': [
                {'id': role, 'name': role}
                for role in self.token.rpartition(':')[2].split(',')
            ],
            'catalog': [
                {
                    'type': kind,
                    'name': kind,
                    'endpoints': [
                        {
                            'interface': interface,
                            'region': _REGION,
                            'region_id': _REGION,
                            'url': url,
                        }
                        for interface in ('public', 'internal')
                    ],
                }
                for kind, url in self._endpoints().items()
            ],
        }

    @staticmethod
    def _version(environ):
        url = f'http://{environ["HTTP_HOST"]}{environ["SCRIPT_NAME"]}/v3/'
        return {
            'id': 'v3.14',
            'status': 'stable',
            'links': [{'rel': 'self', 'href': url}],
        }


def _not_found(_environ, start_response):
    start_response('404 Not Found', [('Content-Length', '0')])
    return [b'']


_running = []


def start(apps):
    """Return the services of this process, which now reach these apps."""
    if _running:
        _running[0].serve(apps)
    else:
        _running.append(Services(apps))
    return _running[0]

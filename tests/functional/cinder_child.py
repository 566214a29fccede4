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

"""The child process that runs Cinder's services for tests.

It is the process of the demonstration, with its array. There is no keystone:
a token names its bearer, as for Cyborg's services.
"""

import atexit
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import requests
from werkzeug.middleware import dispatcher

from demo import array_evidence
from demo import config
from demo import stack as stack_lib
from tests.processes.cyborg_services import serving
from tests.processes.cyborg_services import tokens

#: The project of Nova's fixture of the API.
PROJECT = b'openstack 4 ever'.hex()
#: What Nova and these tests show Cinder.
TOKEN = tokens.make_token('admin', PROJECT, 'admin', 'service')

# Where nova's fixtures set it to, it would be removed after the first test.
_TEMPORARY = tempfile.gettempdir()
_ROOT = pathlib.Path(__file__).parents[2]
_PROCESSES = _ROOT / 'tests' / 'processes'
_SECONDS = 120
_PASTE = """\
[composite:osapi_volume]
use = call:cinder.api:root_app_factory
/: versions
/v3: volumes

[pipeline:versions]
pipeline = request_id faultwrap versionapp

[pipeline:volumes]
pipeline = request_id faultwrap tokens context apiv3

[filter:request_id]
paste.filter_factory = cinder.api.middleware.request_id:RequestId.factory

[filter:faultwrap]
paste.filter_factory = cinder.api.middleware.fault:FaultWrapper.factory

[filter:tokens]
paste.filter_factory = cyborg_services.tokens:filter_factory

[filter:context]
paste.filter_factory = cinder.api.middleware.auth:CinderKeystoneContext.factory

[app:apiv3]
paste.app_factory = cinder.api.v3.router:APIRouter.factory

[app:versionapp]
paste.app_factory = cinder.api.versions:Versions.factory
"""


class ServiceError(Exception):
    """Cinder's process has not started, with its last words."""


class Network:
    """The storage area network: what the array tells the emulated hosts.

    A WSGI application that the array takes for the control plane of a host.

    :ivar hosts: The control planes of the hosts, one of each site.
    :ivar told: The descriptions that the array has told last.
    """

    def __init__(self):
        self.told = []
        self.reset()

    def reset(self, *hosts):
        """Let the array be as it is, for these hosts."""
        self.hosts = list(hosts)
        self.tell()

    def tell(self):
        """Tell the hosts what the array is now."""
        for host in self.hosts:
            host.set_san(self.told)

    def __call__(self, environ, start_response):
        size = int(environ['CONTENT_LENGTH'])
        self.told = json.loads(environ['wsgi.input'].read(size))['arrays']
        self.tell()
        start_response('200 OK', [('Content-Type', 'application/json')])
        return [b'null']


class Services:
    """The child process, and the server by which it reaches the test.

    One for a process of tests: it takes seconds to start.
    """

    def __init__(self):
        self.network = Network()
        self._mounts = {'/san/control/v1/set_san': self.network}
        self._others = serving.Server(
            dispatcher.DispatcherMiddleware(_not_found, self._mounts)
        )
        self._others.start()
        self._directory = tempfile.TemporaryDirectory(dir=_TEMPORARY)
        atexit.register(self._directory.cleanup)
        self._stack = self._make_stack()
        self._output = self._stack.log / 'cinder.out'
        self._start()
        atexit.register(self._stop)

    @property
    def url(self):
        """The URL of Cinder's API."""
        return self._stack.url('cinder') + '/v3'

    @property
    def log_path(self):
        """The log of all services."""
        return self._stack.log / 'cinder.log'

    def serve(self, nova):
        """Serve the API of Nova to Cinder, as a WSGI application."""
        self._mounts['/compute'] = nova

    def find(self, volume):
        """Return what the array has of a volume, by its id, or None."""
        return array_evidence.find(self._stack, volume)

    def _make_stack(self):
        state = stack_lib.make_state_dir(
            pathlib.Path(self._directory.name) / 'state'
        )
        users = (*stack_lib.SERVICE_USERS, 'cinder')
        stack = stack_lib.Stack(
            state_dir=state,
            ports=stack_lib.free_ports(
                (*stack_lib.APIS, stack_lib.CINDER, stack_lib.ARRAY)
            ),
            passwords=stack_lib.new_passwords(users),
            prefix=pathlib.Path(sys.prefix),
            computes=(
                stack_lib.Compute(
                    name=stack_lib.NODE,
                    address=stack_lib.ADDRESS,
                    host=stack_lib.HostRest(
                        f'{self._others.url}/san', 'user', 'secret', '/'
                    ),
                    inventory_file=state,
                ),
            ),
        )
        stack.save()
        paste = stack.etc / 'cinder-paste.ini'
        paste.write_text(_PASTE)
        sections = config.cinder(stack)
        sections['DEFAULT'] |= {
            'api_paste_config': paste,
            'quota_volumes': -1,
            'quota_gigabytes': -1,
        }
        endpoint = f'{self._others.url}/compute/v2.1'
        sections['nova'] = {
            'auth_type': 'admin_token',
            'endpoint': endpoint,
            'endpoint_override': endpoint,
            'token': tokens.make_token('cinder', PROJECT, 'admin'),
        }
        sections['service_user'] = {'send_service_user_token': False}
        (stack.etc / config.CINDER).write_text(config.ini(sections))
        return stack

    def _start(self):
        with open(self._output, 'w') as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, '-W', 'ignore', '-m', 'demo.services'),
                    *('cinder', '--state-dir', str(self._stack.state_dir)),
                ],
                # Its end is that of the child.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=_ROOT,
                env={**os.environ, 'PYTHONPATH': f'{_PROCESSES}:{_ROOT}'},
            )
        deadline = time.monotonic() + _SECONDS
        while not self._stack.mark_of('cinder').exists():
            if self._process.poll() or time.monotonic() > deadline:
                raise ServiceError(self._output.read_text()[-4000:])
            time.sleep(0.05)

    def _stop(self):
        self._process.kill()
        self._process.wait(30)
        self._others.stop()

    def request(self, method, path, **options):
        """Send a request to Cinder's API; return its JSON, if it has any."""
        answer = requests.request(
            method,
            f'{self.url}{path}',
            headers={
                'X-Auth-Token': TOKEN,
                'X-Service-Token': TOKEN,
                'OpenStack-API-Version': 'volume 3.71',
            },
            timeout=60,
            **options,
        )
        if not answer.ok:
            raise AssertionError(f'{method} {path}: {answer.text}')
        return answer.json() if answer.content else None


def _not_found(_environ, start_response):
    start_response('404 Not Found', [('Content-Length', '0')])
    return [b'']


_running = []


def start():
    """Return the services of this process."""
    if not _running:
        _running.append(Services())
    return _running[0]

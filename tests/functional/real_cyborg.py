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

"""Runs real Cyborg services beside the nova services of a test.

Cyborg's API, conductor and agents run in a child process that all tests of a
process share. Everything between them and Nova goes over HTTP: Nova's client
of Cyborg, Cyborg's client of Placement, and the events that Cyborg sends to
Nova.
"""

import os
import re
import textwrap
import threading

import fixtures
import keystoneauth1.session
import openstack
import requests
from keystoneauth1 import token_endpoint
from oslo_config import cfg
from placement import deploy

from nova_powervm.devices import names
from tests.functional import cyborg_child
from tests.functional import token_users
from tests.processes.cyborg_services import tokens

CONF = cfg.CONF

#: A command of the child process failed, with Cyborg's error.
ServiceError = cyborg_child.ServiceError

PROFILE = 'the-profile'
#: The trait that device profiles require.
MARK = names.CYBORG_TRAIT

#: Uuids in paths of requests.
_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_NOBODY = 'http://127.0.0.1:9'
_SERVICE = tokens.make_token(
    'nova', cyborg_child.SERVICE_PROJECT, 'admin', 'service'
)


class RealCyborg(fixtures.Fixture):
    """Real Cyborg services for a test.

    There is no keystone. It would add seconds to each test and decide
    nothing here: the users are always the same. Instead, a token names its
    bearer (see the module ``tokens`` of the child process). Nova gets tokens
    for its users where its own fixture of the API makes contexts, and Cyborg's
    API reads them where keystonemiddleware would. What Cyborg demands remains:
    a user's token for each request, and a service token for binding.

    :param test: The test, with nova's fixtures of the API and Placement.
    """

    def __init__(self, test):
        super().__init__()
        self._test = test
        self._hosts = {}

    def _setUp(self):
        #: What Cyborg reaches Placement through.
        self.placement = Gate(
            deploy.loadapp(self._test.placement.fixture.conf_fixture.conf)
        )
        self._services = cyborg_child.start(
            {
                'placement': self.placement,
                'compute': self._test.api_fixture.app(),
            }
        )
        self._log_start = self._services.log_path.stat().st_size
        self.call('clear')
        self.useFixture(token_users.TokenUsers())
        self.configure_nova()

    def configure_nova(self):
        """Tell Nova where Cyborg's API is; a new process is elsewhere."""
        token_users.show_service_token(
            self._test, self._services.url, _SERVICE
        )
        self._test.flags(
            group='cyborg', endpoint_override=f'{self._services.url}/v2'
        )

    def call(self, command, **arguments):
        """Run a command of the child process; see Services.call."""
        return self._services.call(command, **arguments)

    def logged(self):
        """Return what Cyborg's services have logged during this test."""
        with open(self._services.log_path) as log:
            log.seek(self._log_start)
            return log.read()

    def set_roles(self, *roles):
        """Set the roles of the agent's user, which Placement does not mind."""
        self._services.set_roles(*roles)

    def kill(self):
        """End Cyborg's services as a power failure would."""
        self._services.kill()

    def restart(self):
        """Start Cyborg's services again, with the same database and hosts."""
        self._services.restart()
        self.configure_nova()
        for host, options in self._hosts.items():
            self.call('configure', host=host, options=options)

    # Hosts

    def configure(self, host, accelerators, drivers=('powervm',), **changes):
        """Configure Cyborg's agent on a host of the test.

        :param host: Its name.
        :param accelerators: Text of the file of Cyborg's slots.
        :param drivers: Enabled drivers of Cyborg.
        :param changes: Other options of the group [powervm].
        :returns: Path of the file.
        """
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'accelerators.yaml')
        with open(path, 'w') as file:
            file.write(textwrap.dedent(accelerators))
        emulator = self._test.hosts[host].emulator
        options = {
            'agent': {'enabled_drivers': list(drivers)},
            'powervm': {
                'accelerator_file': path,
                'inventory_file': CONF.powervm.inventory_file,
                'rest_url': emulator.url,
                'rest_username': emulator.username,
                'rest_password': emulator.password,
                **changes,
            },
        }
        self._hosts[host] = options
        self.call('configure', host=host, options=options)
        return path

    def report(self, host='host1'):
        """Make the agent of a host report its devices.

        :raises ServiceError: The report failed.
        """
        self.call('report', host=host)

    # The API, as an administrator uses it

    def request(self, method, path, token=_SERVICE, **options):
        """Send a request to Cyborg's API and return the answer."""
        return requests.request(
            method,
            f'{self._services.url}/v2{path}',
            headers={'X-Auth-Token': token, 'X-Service-Token': _SERVICE},
            timeout=60,
            **options,
        )

    def connect(self, user='admin', roles=('admin', 'member', 'reader')):
        """Return the SDK's connection to Nova and Cyborg as a user."""
        nova = self._test.api_fixture
        token = tokens.make_token(user, nova.project_id, *roles)
        return openstack.connection.Connection(
            session=keystoneauth1.session.Session(
                auth=token_endpoint.Token(nova.base_url, token)
            ),
            compute_endpoint_override=nova.base_url,
            accelerator_endpoint_override=f'{self._services.url}/v2',
            # There are no such services.
            image_endpoint_override=_NOBODY,
            network_endpoint_override=_NOBODY,
        )

    def create_profile(self, *groups, name=PROFILE):
        """Create a device profile.

        :param groups: Each a dictionary as in Cyborg's API.
        """
        answer = self.request(
            'POST',
            '/device_profiles',
            json=[{'name': name, 'groups': list(groups)}],
        )
        self._test.assertEqual(201, answer.status_code, answer.text)

    def requests(self, server=None):
        """Return the accelerator requests, or those of one server."""
        path = '/accelerator_requests'
        if server:
            path += f'?instance={server["id"]}'
        answer = self.request('GET', path)
        self._test.assertEqual(200, answer.status_code, answer.text)
        return answer.json()['arqs']

    def unbind(self, arqs):
        """Unbind accelerator requests."""
        self._patch(arqs, 'remove')

    def bind(self, arqs):
        """Bind accelerator requests as they were when they were read.

        Cyborg binds all requests of an instance at once or none.
        """
        self._patch(arqs, 'add')

    def _patch(self, arqs, operation):
        fields = ('hostname', 'device_rp_uuid', 'instance_uuid')
        answer = self.request(
            'PATCH',
            '/accelerator_requests',
            # The requests belong to the project that binds them.
            token=tokens.make_token('admin', arqs[0]['project_id'], 'admin'),
            json={
                arq['uuid']: [
                    {'path': f'/{f}', 'op': operation, 'value': arq[f]}
                    for f in fields
                ]
                for arq in arqs
            },
        )
        self._test.assertEqual(202, answer.status_code, answer.text)

    def delete(self, arqs):
        """Delete accelerator requests that no instance has."""
        uuids = ','.join(arq['uuid'] for arq in arqs)
        answer = self.request('DELETE', f'/accelerator_requests?arqs={uuids}')
        self._test.assertEqual(204, answer.status_code, answer.text)


class Gate:
    """A WSGI middleware between Cyborg's services and Placement.

    :param app: Placement.
    """

    def __init__(self, app):
        self._app = app
        self._lock = threading.Lock()
        self._taken = []
        self._trap = None

    def take(self):
        """Return method and path of the requests since the last call."""
        with self._lock:
            taken, self._taken = self._taken, []
        return taken

    def set_trap(self, number, spring, *, passing, match='PUT|POST|DELETE'):
        """Call a function at one request, which gets a 503.

        :param number: The number of the request among those that match,
            beginning with 1.
        :param spring: The function.
        :param passing: Whether Placement gets the request before, so that only
            its answer is lost.
        :param match: A regular expression for method and path.
        """
        with self._lock:
            self._trap = [number, spring, passing, re.compile(match)]

    def remove_trap(self):
        """Pass on all requests again.

        :returns: Whether the trap had sprung.
        """
        with self._lock:
            sprung = self._trap is not None and self._trap[0] <= 0
            self._trap = None
        return sprung

    def __call__(self, environ, start_response):
        line = f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}'
        if query := environ['QUERY_STRING']:
            line += f'?{query}'
        if trap := self._note(line):
            spring, passing = trap
            if passing:
                list(self._app(environ, lambda *_: None))
            spring()
            start_response('503 Trapped', [('Content-Length', '0')])
            return [b'']
        return self._app(environ, start_response)

    def _note(self, line):
        with self._lock:
            self._taken.append(_UUID.sub('{}', line))
            if self._trap is None or not self._trap[3].match(line):
                return None
            self._trap[0] -= 1
            return self._trap[1:3] if self._trap[0] == 0 else None

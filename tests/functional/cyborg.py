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

"""Nova's Cyborg fixture, extended by slots of PowerVM hosts."""

import contextlib
import copy
import http.server
import json
import threading
import urllib.parse
from unittest import mock

import fixtures
import nova.utils
from keystoneauth1 import loading
from nova import exception as nova_exception
from nova import service_auth
from nova.accelerator import cyborg as nova_cyborg
from nova.tests.fixtures import cyborg
from oslo_config import cfg
from oslo_utils import uuidutils

PROFILE = 'the-profile'
#: A trait that only Cyborg's devices bear.
MARK = 'CUSTOM_CYBORG'

# Nova's fixture replaces these functions.
_REAL = (
    (service_auth, 'get_service_user_token_auth_plugin'),
    (nova.utils, 'get_sdk_adapter'),
    (nova_cyborg._CyborgClient, 'get_arqs_for_instance'),
)
_REAL = [(owner, name, getattr(owner, name)) for owner, name in _REAL]


def slot(index):
    """Return type and info of the attach handle of a slot."""
    return 'PCI', {
        'domain': '0000',
        'bus': '00',
        'device': '00',
        'function': '0',
        'drc_index': f'{index:08X}',
    }


class Cyborg(cyborg.CyborgFixture):
    """Device profiles and accelerator requests that a test defines."""

    def setUp(self):
        # Nova's fixture shares them among all tests.
        self.arq_list = []
        self.bound_arq_list = []
        self.down = False
        self.groups = []
        self.state = 'Bound'
        # Number of reads until a request is bound; None: bound at once.
        self.looks = None
        #: Uuid of the instance of each read of its requests.
        self.reads = []
        super().setUp()

    def promise(self, *groups, resources='FPGA', mark=MARK):
        """Define the device profile: one group per list of handles.

        :param groups: Lists of (type, info) of attach handles.
        :param resources: Resource class that each group requests.
        :param mark: Trait that each group requires; None for no trait.
        """
        self.groups = [
            (
                {
                    f'resources:{resources}': len(handles),
                    **({f'trait:{mark}': 'required'} if mark else {}),
                },
                handles,
            )
            for handles in groups
        ]

    @contextlib.contextmanager
    def over_http(self):
        """Serve keystone and Cyborg to Nova's client by HTTP in a context.

        The server accepts the service user alone, whose credentials are set in
        ``[service_user]`` of nova.conf for that time.

        :returns: The server.
        """
        with contextlib.ExitStack() as stack:
            api = stack.enter_context(Api(self))
            for owner, name, real in _REAL:
                stack.enter_context(mock.patch.object(owner, name, real))
            service_auth.reset_globals()
            stack.callback(service_auth.reset_globals)
            yield api

    def bound_to(self, instance):
        """Return the requests that are bound to an instance."""
        return [
            arq
            for arq in self.bound_arq_list
            if arq['instance_uuid'] == instance
        ]

    def fake_get_device_profile_list(self, dp_name):
        """Return the device profile."""
        return [
            {
                'name': dp_name,
                'uuid': uuidutils.generate_uuid(),
                'groups': [group for group, _ in self.groups],
            }
        ]

    def fake_create_arqs(self, dp_name):
        """Create one request for each accelerator of each group."""
        made = []
        for number, (_, handles) in enumerate(self.groups):
            for kind, contents in handles:
                arq = {
                    'uuid': uuidutils.generate_uuid(),
                    'device_profile_name': dp_name,
                    'device_profile_group_id': number,
                    'state': 'Initial',
                    'device_rp_uuid': None,
                    'hostname': None,
                    'instance_uuid': None,
                    'attach_handle_info': {},
                    'attach_handle_type': '',
                }
                bound = {
                    'state': self.state,
                    'attach_handle_type': kind,
                    'attach_handle_info': contents,
                }
                self.arq_list.append(arq)
                self.bound_arq_list.append(arq | bound)
                made.append(copy.deepcopy(arq))
        return made

    def fake_bind_arqs(self, bindings):
        """Bind requests to a host, provider and instance."""
        for arq in self.bound_arq_list:
            arq.update(bindings.get(arq['uuid'], {}))

    def fake_get_arqs_for_instance(self, instance_uuid, only_resolved=False):
        """Return the requests of an instance, unless Cyborg is down."""
        self.reads.append(instance_uuid)
        if self.down:
            raise nova_exception.AcceleratorRequestOpFailed(
                op='get', msg='Cyborg is down'
            )
        if self.looks is not None:
            self.looks -= 1
            for arq in self.bound_to(instance_uuid):
                arq['state'] = 'BindStarted' if self.looks > 0 else 'Bound'
        return copy.deepcopy(self.bound_to(instance_uuid))


class Api(fixtures.Fixture):
    """Serves keystone's tokens and Cyborg's accelerator requests over HTTP.

    :param cyborg: Fixture whose requests it serves.
    """

    def __init__(self, cyborg):
        super().__init__()
        self._cyborg = cyborg
        self._password = uuidutils.generate_uuid()
        self._token = uuidutils.generate_uuid()
        #: Method and path of each request that was served.
        self.served = []

    def _setUp(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get('Content-Length', 0))
                sent = json.loads(self.rfile.read(length) or 'null')
                status, headers, body = api._answer(self, sent)
                content = json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._url = f'http://127.0.0.1:{server.server_port}'
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self._configure()

    def _configure(self):
        """Configure the service user."""
        for option in loading.get_auth_plugin_conf_options('v3password'):
            if cfg.CONF.register_opt(option, group='service_user'):
                self.addCleanup(self._forget, option)
        for option, value in {
            'auth_type': 'v3password',
            'auth_url': f'{self._url}/identity/v3',
            'username': 'nova',
            'password': self._password,
            'user_domain_id': 'default',
            'project_name': 'service',
            'project_domain_id': 'default',
        }.items():
            cfg.CONF.set_override(option, value, group='service_user')
            self.addCleanup(
                cfg.CONF.clear_override, option, group='service_user'
            )

    def _forget(self, option):
        """Unregister an option that later tests have to register again."""
        with mock.patch.object(cfg.CONF, '_args', None):
            cfg.CONF.unregister_opt(option, group='service_user')

    def _answer(self, request, sent):
        """Return status, headers and body of an answer."""
        url = urllib.parse.urlsplit(request.path)
        self.served.append(f'{request.command} {url.path}')
        match self.served[-1]:
            case 'POST /identity/v3/auth/tokens':
                user = sent['auth']['identity']['password']['user']
                if user['password'] != self._password:
                    return 401, {}, {}
                return 201, {'X-Subject-Token': self._token}, self._access()
            case 'GET /accelerator/v2':
                return 200, {}, self._version()
            case 'GET /accelerator/v2/accelerator_requests':
                if request.headers['X-Auth-Token'] != self._token:
                    return 401, {}, {}
                (instance,) = urllib.parse.parse_qs(url.query)['instance']
                found = self._cyborg.fake_get_arqs_for_instance(instance)
                return 200, {}, {'arqs': found}
        return 404, {}, {}

    def _access(self):
        return {
            'token': {
                'methods': ['password'],
                'expires_at': '2100-01-01T00:00:00.000000Z',
                'issued_at': '2026-01-01T00:00:00.000000Z',
                'user': {'id': 'nova', 'name': 'nova'},
                'project': {'id': 'service', 'name': 'service'},
                'roles': [{'id': 'service', 'name': 'service'}],
                'catalog': [
                    {
                        'type': 'accelerator',
                        'name': 'cyborg',
                        'endpoints': [
                            {
                                'interface': interface,
                                'region': 'RegionOne',
                                'url': f'{self._url}/accelerator/v2',
                            }
                            for interface in ('public', 'internal')
                        ],
                    }
                ],
            }
        }

    def _version(self):
        return {
            'version': {
                'id': 'v2.0',
                'status': 'CURRENT',
                'links': [
                    {'rel': 'self', 'href': f'{self._url}/accelerator/v2'}
                ],
            }
        }

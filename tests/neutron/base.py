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

"""Starts neutron servers and sends them requests."""

import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import uuid

import requests

_SERVER = pathlib.Path(__file__).with_name('server.py')

_CONF = """\
[DEFAULT]
auth_strategy = noauth
core_plugin = ml2
service_plugins = {service_plugins}
transport_url = fake:/
api_paste_config = {prefix}/etc/neutron/api-paste.ini
state_path = {folder}
log_file = {folder}/neutron.log
debug = {debug}
# To write the debug lines of neutron itself takes time.
default_log_levels = neutron=INFO,neutron_lib=INFO,oslo_policy=INFO
logging_debug_format_suffix =
# The agents of a test report once only.
agent_down_time = 3600

[database]
connection = sqlite:///{folder}/neutron.db

[oslo_concurrency]
lock_path = {folder}

[oslo_messaging_notifications]
driver = noop

[nova]
auth_type = none
endpoint = {nova}

[ml2]
type_drivers = vlan,flat,geneve
project_network_types = vlan
mechanism_drivers = {mechanism_drivers}
extension_drivers = {extension_drivers}

[ml2_type_vlan]
network_vlan_ranges = datacenter:100:999,lab:100:999

[ml2_type_flat]
flat_networks = *

[ml2_type_geneve]
vni_ranges = 1:1000
max_header_size = 38

[pvm_sea]
{options}
"""


class Nova:
    """The part of Nova's API that neutron calls; records events."""

    def __init__(self):
        self.events = []
        self._arrived = threading.Condition()
        nova = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers['Content-Length'])
                body = json.loads(self.rfile.read(length))
                with nova._arrived:
                    nova.events += body['events']
                    nova._arrived.notify_all()
                answer = json.dumps(
                    {'events': [e | {'code': 200} for e in body['events']]}
                ).encode()
                self.send_response(200)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), Handler
        )
        self.url = f'http://127.0.0.1:{self._server.server_port}/v2.1'
        threading.Thread(
            target=self._server.serve_forever, daemon=True
        ).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, name, port, seconds=30):
        """Return the first event of a name about a port."""

        def find():
            for event in self.events:
                if (event['name'], event.get('tag')) == (name, port):
                    return event
            return None

        with self._arrived:
            event = self._arrived.wait_for(find, timeout=seconds)
        if not event:
            raise AssertionError(f'no {name} of {port} in {self.events}')
        return event


class Server:
    """A neutron server in its own process."""

    def __init__(
        self,
        options='',
        mechanism_drivers='pvm_sea',
        service_plugins='segments',
        extension_drivers='port_security',
        agents=(),
        debug=True,
    ):
        self._directory = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._directory.name)
        self.nova = Nova()
        (self.folder / 'neutron.conf').write_text(
            _CONF.format(
                prefix=sys.prefix,
                folder=self.folder,
                nova=self.nova.url,
                mechanism_drivers=mechanism_drivers,
                service_plugins=service_plugins,
                extension_drivers=extension_drivers,
                options=textwrap.dedent(options),
                debug=debug,
            )
        )
        (self.folder / 'agents.json').write_text(json.dumps(agents))
        with open(self.folder / 'output', 'w') as output:
            self._process = subprocess.Popen(
                # Started by its path, since the package tests imports nova.
                [sys.executable, '-P', '-W', 'ignore', _SERVER, self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        port = self._process.stdout.readline().strip()
        if not port:
            said = (self.folder / 'output').read_text() + self.log[-3000:]
            self.stop()
            raise AssertionError(f'neutron did not start:\n{said}')
        self.url = f'http://127.0.0.1:{port}/v2.0'

    def stop(self):
        self._process.kill()
        self._process.communicate()
        self.nova.stop()
        self._directory.cleanup()

    @property
    def log(self):
        path = self.folder / 'neutron.log'
        return path.read_text() if path.exists() else ''

    def send(self, method, path, body=None):
        """Send a request as administrator; return the answer."""
        return requests.request(
            method,
            f'{self.url}/{path}',
            json=body,
            # Preparing bindings needs the role service, which Nova has.
            headers={'X-Roles': 'service'},
            timeout=60,
        )


class NeutronTestCase(unittest.TestCase):
    """Shares one server among the tests of a class; each makes networks."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start()
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def start(cls):
        """Return the server; a class may start another kind."""
        return Server()

    def request(self, method, path, body=None, expected=(200, 201, 204)):
        answer = self.server.send(method, path, body)
        self.assertIn(answer.status_code, expected, answer.text)
        return answer.json() if answer.text else {}

    def network(self, segments=None, subnet=True, **attributes):
        """Create and return a network, with an IPv4 subnet by default.

        :param segments: Segments of a multi-segment network, as keys of the
            provider extension without their prefix.
        """
        if segments:
            attributes['segments'] = [_provider(s) for s in segments]
        elif 'network_type' in attributes:
            attributes = _provider(attributes)
        network = self.request('POST', 'networks', {'network': attributes})
        network = network['network']
        if subnet:
            self.subnet(network)
        return network

    def vlan_network(self, vlan, physical_network='datacenter', subnet=True):
        return self.network(
            subnet=subnet,
            network_type='vlan',
            physical_network=physical_network,
            segmentation_id=vlan,
        )

    def subnet(self, network, **attributes):
        body = {
            'network_id': network['id'],
            'ip_version': 4,
            'cidr': '192.0.2.0/24',
        }
        answer = self.request('POST', 'subnets', {'subnet': body | attributes})
        return answer['subnet']

    def port(self, network, host=None, **attributes):
        """Create and return a port as Nova does."""
        body = {
            'network_id': network['id'],
            'device_owner': 'compute:nova',
            'device_id': str(uuid.uuid4()),
        }
        if host:
            body['binding:host_id'] = host
        port = self.request('POST', 'ports', {'port': body | attributes})
        return port['port']

    def update(self, port, **attributes):
        answer = self.request(
            'PUT', f'ports/{port["id"]}', {'port': attributes}
        )
        return answer['port']

    def show(self, port):
        return self.request('GET', f'ports/{port["id"]}')['port']

    def details(self, port):
        """Return the VIF details of a port that this driver bound."""
        self.assertEqual('pvm_sea', port['binding:vif_type'])
        details = dict(port['binding:vif_details'])
        self.assertEqual({'0': 'pvm_sea'}, details.pop('bound_drivers'))
        return details

    def reasons(self, port):
        """Return the log lines with the reason why a port was not bound."""
        return [
            line
            for line in self.server.log.splitlines()
            if f'pvm_sea does not bind port {port["id"]}' in line
        ]

    def assert_not_bound(self, port, reason, level):
        """Assert that a port was not bound, and the reason in the log."""
        self.assertEqual('binding_failed', port['binding:vif_type'])
        self.assertEqual('DOWN', port['status'])
        self.assert_left_alone(port, reason, level)

    def assert_left_alone(self, port, reason, level):
        lines = self.reasons(port)
        self.assertTrue(lines, self.server.log[-2000:])
        for line in lines:
            self.assertIn(f' {level} ', line)
            self.assertIn(f'on host {port["binding:host_id"]}: ', line)
            self.assertTrue(line.endswith(reason), line)


def _provider(attributes):
    return {f'provider:{key}': value for key, value in attributes.items()}

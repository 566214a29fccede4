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

"""A real neutron server, in place of Nova's stand-in for one.

The stand-in leaves a port that Nova has unbound as it was. It stays in place
for what a test reads of it; nova-api and nova-compute do not reach it.
"""

import fixtures
from keystoneauth1 import noauth
from keystoneauth1 import session
from neutronclient.v2_0 import client
from nova.tests import fixtures as nova_fixtures
from testtools import content
from testtools import content_type

from tests.neutron import base

#: The driver's option for the only physical network that it uses.
BRIDGES = ['datacenter:ETHERNET0']


class RealNeutron(fixtures.Fixture):
    """Neutron with the mechanism driver, in a process of its own."""

    def _setUp(self):
        self.server = base.Server(debug=False)
        self.addCleanup(self.server.stop)
        self.addDetail(
            'neutron.log',
            content.Content(
                content_type.UTF8_TEXT,
                lambda: [self.server.log[-20_000:].encode()],
            ),
        )
        self._client = client.Client(
            session=session.Session(
                auth=noauth.NoAuth(),
                # Preparing bindings needs it, and Nova has it.
                additional_headers={'X-Roles': 'service'},
            ),
            endpoint_override=self.server.url.removesuffix('/v2.0'),
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.network.neutron.get_client',
                lambda context, admin=False: self._client,
            )
        )
        network = self._create(
            'network',
            name='datacenter100',
            **{
                'provider:network_type': 'vlan',
                'provider:physical_network': 'datacenter',
                'provider:segmentation_id': 100,
            },
        )
        self._network_id = network['id']
        self._create(
            'subnet',
            network_id=self._network_id,
            ip_version=4,
            cidr='192.0.2.0/24',
        )

    def _create(self, kind, **attributes):
        attributes['project_id'] = nova_fixtures.PROJECT_ID
        answer = getattr(self._client, f'create_{kind}')({kind: attributes})
        return answer[kind]

    def make_port(self):
        """Create a port on VLAN 100; return it."""
        return self._create('port', network_id=self._network_id)

    def show_port(self, port_id):
        """Return a port, with its binding."""
        return self._client.show_port(port_id)['port']

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

"""Common parts of the tests of ports, adapters and VLANs."""

import time

from powervm_emulator import worlds
from tests.functional import base
from tests.functional import other_tool

SWITCH = 'ETHERNET0(Default)'
SECOND = 'ETHERNET1'


def world(*bridges):
    """Return the default world with other bridges.

    :param bridges: Switch, PVID and tagged VLANs of each.
    """
    made = worlds.default()
    (system,) = made['systems']
    system['virtual_switches'] = [{'name': SWITCH}, {'name': SECOND}]
    system['network_bridges'] = [
        {'vios': 'vios1', 'switch': switch, 'pvid': pvid, 'vlans': vlans}
        for switch, pvid, vlans in bridges
    ]
    return made


class NetworkTestCase(base.PowerVMTestCase):
    """Boots servers with ports, mostly without a device."""

    def boot_with(self, *ports, expected='ACTIVE', **options):
        """Boot a server with ports; return it once it is built or failed."""
        networks = [{'port': port['id']} for port in ports]
        return self.boot({}, expected, networks=networks, **options)

    def connected(self, server):
        """Return MAC, VLAN and switch of a server's adapters, sorted."""
        return sorted(
            (adapter['mac'], adapter['vlan'], adapter['switch'])
            for adapter in self.adapters(server)
        )

    def vlans(self, bridge=0):
        """Return the tagged VLANs of a bridge."""
        return self.host_state()['network_bridges'][bridge]['vlans']

    def count(self, request):
        """Count the requests with a method and label."""
        return self.control().journal_counts().get(request, 0)

    def changes(self):
        """Return the requests since the start that changed something."""
        return [
            record['label']
            for record in self.control().journal()
            if record['method'] != 'GET' and record['label'] != 'Logon.create'
        ]

    def refused(self, *ports, **options):
        """Boot a server that is refused unchanged; return the reason."""
        self.control().clear_journal()
        server = self.boot_with(*ports, expected='ERROR', **options)
        self.assertEqual([], self.changes())
        self.assertIsNone(self.lpar(server))
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        return server['fault']['message']

    def wait_for(self, condition):
        """Poll until a condition holds; return its value."""
        for _ in range(1200):
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail('it never came true')

    def start_shared_host(self, **options):
        """Start a host whose bridges another tool manages as well."""
        self.start_host(**options)
        self.other = other_tool.Client(self.hosts['host1'].emulator)
        self.addCleanup(self.other.close)

    def metadata_vlans(self, server):
        """Return the VLANs in the metadata of a server's record."""
        return sorted(
            int(key.rpartition(':')[2].partition('@')[0])
            for key in self.instance(server).system_metadata
            if 'powervm_vlan:' in key
        )

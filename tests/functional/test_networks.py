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

"""Ports of servers that are built and deleted.

What the host does for them is tested in ``tests/ops/test_networks.py`` and
``tests/ops/test_vlans.py``.
"""

from nova import context as nova_context
from nova import objects

from tests import proofs
from tests.functional import networks
from tests.functional import other_tool
from tests.functional.networks import SECOND
from tests.functional.networks import SWITCH


class PortsTest(networks.NetworkTestCase):
    """A host with two bridges, of which another tool manages the first."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_shared_host(
            world=networks.world((SWITCH, 1, [50]), (SECOND, 7, [])),
            bridge_mappings=['front:ETHERNET0', 'back:ETHERNET1'],
        )
        self.flags(vif_plugging_timeout=60)

    def make_port(self, vlan=100, network='front', **changes):
        """Add a port on a physical network; ``vlan`` may be None."""
        details = {'port_filter': False, 'physical_network': network}
        if vlan is not None:
            details['vlan'] = vlan
        return super().make_port(**{'binding:vif_details': details, **changes})

    def test_ports_of_new_servers(self):
        self.tell_stories()

    @proofs.proves(
        'operation.device-tags', 'operation.launch', 'operation.terminate'
    )
    def story_server_has_its_ports_until_it_is_deleted(self):
        tagged, flat = self.make_port(), self.make_port(None, 'back')

        server = self.boot(
            {},
            networks=[
                {'port': tagged['id'], 'tag': 'backup'},
                {'port': flat['id']},
            ],
            disk=1,
            request={'config_drive': True},
        )

        self.assertEqual(
            sorted(
                [
                    (tagged['mac_address'], 100, SWITCH),
                    (flat['mac_address'], 7, SECOND),
                ]
            ),
            self.connected(server),
        )
        self.assertEqual([[50, 100], []], [self.vlans(0), self.vlans(1)])
        self.assertEqual('running', self.lpar(server).state)
        self.assertEqual(
            [(tagged['mac_address'], ['backup'])], self.tagged(server)
        )
        self.assert_logged_in_order(
            'Creating root disk',
            f'of 1 GB from image {self.image} (',
            'Created config drive',
            f'Created LPAR {self.lpar(server).name} '
            f'({self.lpar_uuid(server)}) with the slots: none',
            f'has a network adapter for port {tagged["id"]}',
            'Attached the disks of LPAR',
            'Started LPAR',
        )

        self._delete_server(server)

        self.assertEqual(
            [],
            [
                adapter['mac']
                for partition in self.host_state()['partitions']
                for adapter in partition['adapters']
                if adapter['mac'].startswith('fa:16:3e')
            ],
        )
        self.assertEqual([[50], []], [self.vlans(0), self.vlans(1)])

    def tagged(self, server):
        """Return the address and tags of the devices of Nova's record."""
        stored = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            server['id'],
            expected_attrs=['device_metadata'],
        ).device_metadata
        return [(device.mac, device.tags) for device in stored.devices]

    def assert_logged_in_order(self, *steps):
        """Assert that the log tells some steps, one after the other."""
        lines = iter(self.logged().splitlines())
        for step in steps:
            self.assertTrue(any(step in line for line in lines), step)

    def story_vlan_is_marked_on_every_server_on_it(self):
        ports = [self.make_port(vlan=100) for _ in range(2)]
        started = [
            self.start_boot({}, networks=[{'port': port['id']}])
            for port in ports
        ]
        first, second = (self._wait_until_built(s['id']) for s in started)
        for server in (first, second):
            self.assertEqual([100], self.metadata_vlans(server))
        # Nova's record of the port alone keeps the VLAN.
        self.control().set_partition(
            self.lpar(second).uuid, rmc_state='active'
        )
        self.other.delete_adapters(self.lpar(second).uuid)

        self._delete_server(first)
        self.assertEqual([50, 100], self.vlans())
        self.assertEqual([100], self.metadata_vlans(second))
        self.restart_host()
        self._delete_server(second)

        self.assertEqual([50], self.vlans())

    # Nova waits for Neutron's word before it starts a server.

    def has_started_lpar(self):
        """Return whether an LPAR was ever started."""
        return self.count('PUT LogicalPartition.job') > 0

    def start_with(self, *ports):
        """Ask for a server, and wait until it has all but the event."""
        server = self.start_boot(
            {}, networks=[{'port': port['id']} for port in ports]
        )
        self.wait_for(self.has_mappings)
        return self.api.get_server(server['id'])

    def has_mappings(self):
        """Return whether the last request before the start was answered."""
        return any(
            record['label'] == 'VirtualIOServer.update'
            and record['status'] is not None
            for record in self.control().journal()
        )

    def built(self, server, expected):
        """Wait until a server has an end, and return it."""
        server = self._wait_until_built(server['id'])
        self.assertEqual(expected, server['status'], server.get('fault'))
        return server

    def report(self, server, port, status='completed'):
        """Report as Neutron does that a port is plugged."""
        self.api.create_server_external_events(
            [
                {
                    'name': 'network-vif-plugged',
                    'server_uuid': server['id'],
                    'tag': port['id'],
                    'status': status,
                }
            ]
        )

    def assert_nothing_left_of(self, server):
        """Assert that a failed build has left nothing and started nothing."""
        self.assertFalse(self.has_started_lpar())
        self.assertEqual(
            other_tool.NO_RESOURCES,
            other_tool.resources_of_instances(self.host_state()),
        )
        self.wait_until_unallocated(server)

    def story_server_is_started_after_the_event_of_each_inactive_port(self):
        active, down = self.make_port(), self.make_port(status='DOWN')
        server = self.start_with(active, down)
        self.assertEqual('BUILD', server['status'])
        self.assertFalse(self.has_started_lpar())

        self.report(server, down)

        server = self.built(server, 'ACTIVE')
        self.assertEqual('running', self.lpar(server).state)

    def story_failed_event_fails_the_build(self):
        port = self.make_port(status='DOWN')
        server = self.start_with(port)

        self.report(server, port, 'failed')

        server = self.built(server, 'ERROR')
        self.assertIn('reported a failure', server['fault']['message'])
        self.assert_nothing_left_of(server)

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

"""Ports of servers on the Shared Ethernet bridges of a host."""

from nova import context as nova_context
from nova import objects
from nova.tests.functional.api import client

from nova_powervm.emulator import worlds
from tests.functional import networks
from tests.functional import other_tool
from tests.functional.networks import SECOND
from tests.functional.networks import SWITCH
from tests.functional.networks import world


class BootWithPortsTest(networks.NetworkTestCase):
    """A host with one bridge, as most have."""

    def test_boot_creates_adapter_and_adds_new_vlan_to_bridge(self):
        self.start_host()
        port = self.make_port(vlan=100)

        server = self.boot_with(port)

        self.assertEqual(
            [(port['mac_address'], 100, SWITCH)], self.connected(server)
        )
        self.assertEqual([100], self.vlans())
        self.assertEqual('running', self.lpar(server).state)

    def test_log_tells_each_step_of_a_boot(self):
        self.start_host()
        port = self.make_port(vlan=100)

        server = self.boot_with(port, disk=1, request={'config_drive': True})

        name = server['OS-EXT-SRV-ATTR:instance_name']
        lines = iter(self.logged().splitlines())
        for step in (
            'Creating root disk',
            f'of 1 GB from image {self.image} (',
            'Created config drive',
            f'Created LPAR {name} ({self.lpar_uuid(server)}) with the slots: '
            'none',
            f'LPAR {name} has a network adapter for port {port["id"]}',
            f'Attached the disks of LPAR {name}',
            f'Started LPAR {name}',
        ):
            self.assertTrue(any(step in line for line in lines), step)

    def test_boot_does_not_update_bridge_that_carries_vlan(self):
        self.start_host(world=world((SWITCH, 1, [100, 200])))

        server = self.boot_with(self.make_port(vlan=100))

        self.assertEqual([100, 200], self.vlans())
        self.assertEqual(0, self.count('POST NetworkBridge.update'))
        self.assertEqual(100, self.adapters(server)[0]['vlan'])

    def test_boot_updates_bridge_once_for_two_ports_of_same_vlan(self):
        self.start_host()
        ports = [self.make_port(vlan=100) for _ in range(2)]

        server = self.boot_with(*ports)

        self.assertEqual(
            sorted((port['mac_address'], 100, SWITCH) for port in ports),
            self.connected(server),
        )
        self.assertEqual([100], self.vlans())
        self.assertEqual(1, self.count('POST NetworkBridge.update'))

    def test_boot_updates_bridge_once_for_two_ports_of_different_vlans(self):
        self.start_host()
        ports = [self.make_port(vlan=vlan) for vlan in (200, 100)]

        server = self.boot_with(*ports)

        self.assertEqual(
            sorted(
                (port['mac_address'], vlan, SWITCH)
                for port, vlan in zip(ports, (200, 100), strict=True)
            ),
            self.connected(server),
        )
        self.assertEqual([100, 200], self.vlans())
        self.assertEqual(1, self.count('POST NetworkBridge.update'))

    def test_flat_network_uses_pvid_of_bridge(self):
        self.start_host(world=world((SWITCH, 7, [])))
        port = self.make_port(vlan=None)

        server = self.boot_with(port)

        self.assertEqual(
            [(port['mac_address'], 7, SWITCH)], self.connected(server)
        )
        self.assertEqual([], self.vlans())
        self.assertEqual(0, self.count('POST NetworkBridge.update'))

    def test_delete_takes_the_adapters_and_the_vlan(self):
        self.start_host()
        port = self.make_port(vlan=100)
        server = self.boot_with(port)

        self._delete_server(server)

        macs = [
            adapter['mac']
            for partition in self.host_state()['partitions']
            for adapter in partition['adapters']
        ]
        self.assertNotIn(port['mac_address'], macs)
        self.assertEqual([], self.vlans())

    def test_device_metadata_lists_tagged_port(self):
        self.start_host()
        ports = [self.make_port() for _ in range(2)]

        server = self.boot(
            {},
            networks=[
                {'port': ports[0]['id'], 'tag': 'backup'},
                {'port': ports[1]['id']},
            ],
        )

        stored = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            server['id'],
            expected_attrs=['device_metadata'],
        ).device_metadata
        self.assertEqual(
            [(ports[0]['mac_address'], ['backup'])],
            [(device.mac, device.tags) for device in stored.devices],
        )

    def test_ports_that_no_adapter_can_be_made_for_are_refused(self):
        self.start_host()
        cases = {
            'ovs': "its VIF type is 'ovs', and this host has VIF drivers for: "
            'pvm_sea',
            'unbound': "its VIF type is 'unbound'",
        }
        for vif_type, words in cases.items():
            with self.subTest(vif_type):
                port = self.make_port(**{'binding:vif_type': vif_type})
                message = self.refused(port)
                self.assertIn(words, message)
                self.assertIn(port['id'], message)


class BridgeChoiceTest(networks.NetworkTestCase):
    """Which of a host's bridges serves which physical network."""

    def start_host(self, world=None, bridge_mappings=(), provision_vlans=True):
        """Start a host, or the next story's in its place."""
        options = {
            'bridge_mappings': list(bridge_mappings),
            'provision_vlans': provision_vlans,
        }
        if self.hosts:
            self.control().load_world(world or worlds.default())
            self.restart_host(**options)
        else:
            super().start_host(world=world, **options)

    def port_of(self, physical_network, vlan=100):
        """Make a port on a physical network."""
        return self.make_port(
            **{
                'binding:vif_details': {
                    'port_filter': False,
                    'vlan': vlan,
                    'physical_network': physical_network,
                }
            }
        )

    def test_bridges_of_physical_networks(self):
        self.tell_stories()

    def story_mappings_choose_bridge_of_physical_network(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SECOND, 1, [])),
            bridge_mappings=['front:ETHERNET0', 'back:ETHERNET1'],
        )
        front, back = self.port_of('front', 100), self.port_of('back', 200)

        server = self.boot_with(front, back)

        self.assertEqual(
            sorted(
                [
                    (front['mac_address'], 100, SWITCH),
                    (back['mac_address'], 200, SECOND),
                ]
            ),
            self.connected(server),
        )
        self.assertEqual([[100], [200]], [self.vlans(0), self.vlans(1)])

    def story_vlan_id_on_two_switches_is_two_networks(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SECOND, 1, [100])),
            bridge_mappings=['front:ETHERNET0', 'back:ETHERNET1'],
        )

        server = self.boot_with(self.port_of('front', 100))

        self.assertEqual(SWITCH, self.adapters(server)[0]['switch'])
        self.assertEqual([[100], [100]], [self.vlans(0), self.vlans(1)])

    def story_bridges_of_one_switch_are_told_apart_by_their_pvid(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SWITCH, 2, [])),
            bridge_mappings=['front:ETHERNET0/1', 'back:ETHERNET0/2'],
        )

        self.boot_with(self.port_of('back', 200))

        self.assertEqual([[], [200]], [self.vlans(0), self.vlans(1)])

    def story_vlan_carried_by_another_bridge_is_refused(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SWITCH, 2, [200])),
            bridge_mappings=['front:ETHERNET0/1', 'back:ETHERNET0/2'],
        )

        message = self.refused(self.port_of('front', 200))

        self.assertIn('VLAN 200 belongs to', message)
        self.assertIn('ETHERNET0/2', message)
        self.assertEqual([[], [200]], [self.vlans(0), self.vlans(1)])

    def story_untagged_vlan_of_another_bridge_is_refused(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SWITCH, 2, [])),
            bridge_mappings=['front:ETHERNET0/1', 'back:ETHERNET0/2'],
        )

        message = self.refused(self.port_of('front', 2))

        self.assertIn('VLAN 2 belongs to', message)

    def story_port_is_refused_on_two_bridges_without_mappings(self):
        self.start_host(world=world((SWITCH, 1, []), (SECOND, 1, [])))

        message = self.refused(self.make_port())

        self.assertIn('2 Shared Ethernet bridges could carry', message)
        self.assertIn('[powervm]bridge_mappings', message)

    def story_mapping_without_pvid_is_refused_on_switch_with_two_bridges(self):
        self.start_host(
            world=world((SWITCH, 1, []), (SWITCH, 2, [])),
            bridge_mappings=['front:ETHERNET0'],
        )

        message = self.refused(self.port_of('front'))

        self.assertIn('ETHERNET0/1, ETHERNET0/2', message)
        self.assertIn('name one as SWITCH/PVID', message)

    def story_unknown_physical_network_is_refused(self):
        self.start_host(bridge_mappings=['front:ETHERNET0'])

        message = self.refused(self.port_of('elsewhere'))

        self.assertIn("'elsewhere' is none of", message)
        self.assertIn('[powervm]bridge_mappings (front)', message)

    def story_port_is_refused_on_host_without_bridge(self):
        self.start_host(world=world())

        message = self.refused(self.make_port())

        self.assertIn('no Shared Ethernet bridge', message)

    def story_host_without_bridge_builds_server_without_ports(self):
        self.start_host(world=world())

        server = self.boot({})

        self.assertEqual([], self.adapters(server))

    def story_bridges_that_others_provision(self):
        self.start_host(world=world((SWITCH, 1, [100])), provision_vlans=False)

        self.boot_with(self.make_port(vlan=100))
        self.boot_with(self.make_port(vlan=None))
        message = self.refused(self.make_port(vlan=300))

        self.assertIn('does not carry VLAN 300', message)
        self.assertIn('[powervm]provision_vlans is false', message)
        self.assertEqual([100], self.vlans())


class VifPluggedEventTest(networks.NetworkTestCase):
    """Nova waits for Neutron's word before it starts a server."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_host()
        self.flags(vif_plugging_timeout=60)

    def started(self):
        """Whether an LPAR was ever started."""
        return self.count('PUT LogicalPartition.job') > 0

    def start_with(self, port):
        """Ask for a server, and wait until it has all but the event."""
        server = self.start_boot({}, networks=[{'port': port['id']}])
        self.wait_for(
            lambda: (
                self.count('POST VirtualIOServer.update')
                and 'VirtualIOServer.update'
                in [record['label'] for record in self.ended()]
            )
        )
        return self.api.get_server(server['id'])

    def built(self, server, expected):
        """Wait until a server has an end, and give it."""
        server = self._wait_until_built(server['id'])
        self.assertEqual(expected, server['status'], server.get('fault'))
        return server

    def ended(self):
        """Give the requests that were answered."""
        return [
            record
            for record in self.control().journal()
            if record['status'] is not None
        ]

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

    def test_events_of_neutron(self):
        self.tell_stories()

    def story_server_is_started_after_the_event(self):
        port = self.make_port(status='DOWN')
        server = self.start_with(port)
        self.assertEqual('BUILD', server['status'])
        self.assertFalse(self.started())

        self.report(server, port)

        server = self.built(server, 'ACTIVE')
        self.assertEqual('running', self.lpar(server).state)

    def story_missing_event_fails_the_build(self):
        port = self.make_port(status='DOWN')

        with self.flagged(vif_plugging_timeout=1):
            server = self.boot_with(port, expected='ERROR')

        message = server['fault']['message']
        self.assertIn('Neutron did not report port(s)', message)
        self.assertIn(port['id'], message)
        self.assertIn('within 1 seconds', message)
        self.assertFalse(self.started())
        self.assertEqual(
            other_tool.NO_RESOURCES,
            other_tool.resources_of_instances(self.host_state()),
        )
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def story_missing_event_is_tolerated_if_not_fatal(self):
        with self.flagged(vif_plugging_timeout=1, vif_plugging_is_fatal=False):
            server = self.boot_with(self.make_port(status='DOWN'))

        self.assertEqual('running', self.lpar(server).state)
        self.assertIn(
            'The instance is started nevertheless',
            self.logged(),
        )

    def story_failed_event_fails_the_build(self):
        port = self.make_port(status='DOWN')
        server = self.start_with(port)

        self.report(server, port, 'failed')

        server = self.built(server, 'ERROR')
        self.assertIn('reported a failure', server['fault']['message'])
        self.assertFalse(self.started())
        self.assertEqual(
            other_tool.NO_RESOURCES,
            other_tool.resources_of_instances(self.host_state()),
        )

    def story_ports_that_are_active_are_not_waited_for(self):
        active, down = self.make_port(), self.make_port(status='DOWN')
        server = self.start_boot(
            {}, networks=[{'port': active['id']}, {'port': down['id']}]
        )
        self.wait_for(lambda: self.count('POST VirtualIOServer.update'))

        self.report(server, down)

        self.built(server, 'ACTIVE')

    def story_build_does_not_wait_without_a_timeout(self):
        with self.flagged(vif_plugging_timeout=0):
            server = self.boot_with(self.make_port(status='DOWN'))

        self.assertEqual('running', self.lpar(server).state)


class AttachInterfaceTest(networks.SharedTestCase):
    """Ports come and go while the server is there."""

    def prepare(self):
        """Boot a server on a bridge without VLANs."""
        super().prepare()
        self.port = self.make_port(vlan=100)
        self.server = self.boot_with(self.port)
        self.more = self.make_port(vlan=200)

    def set_rmc(self, state):
        """Let the guest's RMC connection have a state."""
        self.control().set_partition(
            self.lpar(self.server).uuid, rmc_state=state
        )

    def macs(self):
        """Give the MAC addresses of the server's adapters."""
        return sorted(adapter['mac'] for adapter in self.adapters(self.server))

    def ports_of_nova(self):
        """Give the ports that Nova's API tells of the server."""
        return sorted(
            attached['port_id']
            for attached in self.api.get_port_interfaces(self.server['id'])
        )

    def come_and_go(self):
        """Attach a port and detach it again."""
        both = sorted([self.port['mac_address'], self.more['mac_address']])

        self._attach_interface(self.server, self.more['id'])
        self.assertEqual(both, self.macs())
        self.assertIn(200, self.vlans())
        self.assertEqual(
            sorted([self.port['id'], self.more['id']]), self.ports_of_nova()
        )

        self._detach_interface(self.server, self.more['id'])
        self.assertEqual([self.port['mac_address']], self.macs())
        self.assertEqual([self.port['id']], self.ports_of_nova())

    def test_ports_come_and_go(self):
        self.tell_stories()

    def story_stopped_server_gets_and_loses_port(self):
        self._stop_server(self.server)

        self.come_and_go()

    def story_running_server_with_rmc_gets_and_loses_port(self):
        self.set_rmc('active')

        self.come_and_go()

    def story_attach_is_refused_by_running_server_without_rmc(self):
        self.set_rmc('inactive')

        error = self.assertRaises(
            client.OpenStackApiException,
            self._attach_interface,
            self.server,
            self.more['id'],
        )

        self.assertEqual(400, error.response.status_code)
        self.assertIn(b'does not have an active RMC', error.response.content)
        self.assertEqual([self.port['mac_address']], self.macs())
        self.assertEqual([self.port['id']], self.ports_of_nova())
        found = self.neutron.show_port(self.more['id'])['port']
        self.assertFalse(found.get('binding:host_id'))
        self.assertFalse(found['device_id'])
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])
        self.assertEqual('running', self.lpar(server).state)

    def story_attach_refuses_unsupported_vif_type(self):
        self._stop_server(self.server)
        port = self.make_port(**{'binding:vif_type': 'ovs'})

        self.assertRaises(
            client.OpenStackApiException,
            self._attach_interface,
            self.server,
            port['id'],
        )

        self.assertEqual([self.port['mac_address']], self.macs())
        self.assertIn("its VIF type is 'ovs'", self.logged())

    def story_detach_fails_on_running_server_without_rmc(self):
        self.set_rmc('inactive')

        self.api.detach_interface(self.server['id'], self.port['id'])

        self._wait_for_action_fail_completion(
            self.server, 'detach_interface', 'compute_detach_interface'
        )
        self.assertEqual([self.port['mac_address']], self.macs())
        self.assertEqual([self.port['id']], self.ports_of_nova())

    def story_second_detach_fails_and_keeps_server_state(self):
        self._stop_server(self.server)
        self._detach_interface(self.server, self.port['id'])

        self.api.detach_interface(self.server['id'], self.port['id'])

        self._wait_for_action_fail_completion(
            self.server, 'detach_interface', 'compute_detach_interface'
        )
        self.assertEqual([], self.macs())
        server = self.api.get_server(self.server['id'])
        self.assertEqual('SHUTOFF', server['status'])

    def remove_adapters(self):
        """Let another management tool take the server's adapters away."""
        self.other.delete_adapters(self.lpar(self.server).uuid)

    def story_service_starts_with_running_server_without_rmc(self):
        self._stop_server(self.server)
        self.remove_adapters()
        self.control().set_partition(
            self.lpar(self.server).uuid, state='running', rmc_state='inactive'
        )

        self.restart_host()

        self.assertIn(
            'The network adapters cannot be checked',
            self.logged(),
        )
        self.assertEqual([], self.macs())
        self.boot({})

    def story_service_starts_if_adapters_of_lpar_are_unreadable(self):
        self.control().add_fault(
            match='ClientNetworkAdapter', every=True, drop=True
        )

        self.restart_host()

        self.assertIn(
            'The network adapters cannot be checked',
            self.logged(),
        )
        self.control().clear_faults()
        self._stop_server(self.server)
        self.come_and_go()

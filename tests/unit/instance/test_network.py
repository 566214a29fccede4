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

import unittest

from nova_powervm import exception
from nova_powervm.instance import network


def port(**changes):
    values = {
        'id': 'port-1',
        'mac': 'fa:16:3e:00:00:01',
        'vif_type': network.VIF_TYPE,
        'vlan': 100,
    }
    return network.Port(**values | changes)


def bridge(name='b1', switch='ETHERNET0', pvid=1, vlans=()):
    return network.Bridge(name, switch, pvid, frozenset((pvid, *vlans)))


class PortRefusalTest(unittest.TestCase):
    def test_port_of_our_mechanism_driver_is_accepted(self):
        self.assertIsNone(port().refusal())

    def test_failed_binding_is_refused(self):
        reason = port(vif_type='binding_failed').refusal()
        self.assertIn('Neutron could not bind port port-1', reason)

    def test_unknown_vif_type_is_refused_naming_mechanism_driver(self):
        for vif_type in ('ovs', 'unbound', 'bridge', 'hw_veb'):
            with self.subTest(vif_type):
                reason = port(vif_type=vif_type).refusal()
                self.assertIn(f'bound as {vif_type} and not', reason)
                self.assertIn('ML2 mechanism driver pvm_sea', reason)

    def test_unsupported_vnic_type_is_refused(self):
        for vnic_type in ('direct', 'macvtap', 'baremetal'):
            with self.subTest(vnic_type):
                reason = port(vnic_type=vnic_type, vif_type='any').refusal()
                self.assertIn(f'vnic_type {vnic_type}', reason)

    def test_failed_binding_is_reported_before_vnic_type(self):
        reason = port(vnic_type='direct', vif_type='binding_failed').refusal()
        self.assertIn('could not bind', reason)


class ConnectTest(unittest.TestCase):
    def refused(self, wanted, bridges, mappings):
        with self.assertRaises(exception.PortRefused) as caught:
            network.connect(wanted, bridges, mappings)
        self.assertEqual('port-1', caught.exception.fields['port'])
        return caught.exception.fields['reason']

    def test_single_bridge_serves_every_network(self):
        for name in (None, 'default', 'other'):
            with self.subTest(name):
                wanted = port(physical_network=name)
                made = network.connect(wanted, [bridge()], {})
                self.assertEqual(
                    network.Adapter('fa:16:3e:00:00:01', 100, 'ETHERNET0'),
                    made.adapter,
                )
                self.assertFalse(made.is_provisioned)

    def test_carried_vlan_is_provisioned(self):
        made = network.connect(port(), [bridge(vlans=[100])], {})
        self.assertTrue(made.is_provisioned)

    def test_flat_network_uses_pvid_of_bridge(self):
        made = network.connect(port(vlan=None), [bridge(pvid=7)], {})
        self.assertEqual(7, made.vlan)
        self.assertTrue(made.is_provisioned)

    def test_mapping_chooses_bridge_by_switch(self):
        bridges = [bridge(), bridge('b2', 'ETHERNET1')]
        mappings = {
            'front': network.BridgeName('ETHERNET0'),
            'back': network.BridgeName('ETHERNET1'),
        }
        for name, expected in (('front', 'b1'), ('back', 'b2')):
            with self.subTest(name):
                made = network.connect(
                    port(physical_network=name), bridges, mappings
                )
                self.assertEqual(expected, made.bridge.uuid)

    def test_mapping_chooses_bridge_by_pvid(self):
        bridges = [bridge(), bridge('b2', pvid=2)]
        mappings = {'back': network.BridgeName('ETHERNET0', 2)}
        made = network.connect(
            port(physical_network='back'), bridges, mappings
        )
        self.assertEqual('b2', made.bridge.uuid)

    def test_connect_refuses_unmapped_network_if_mappings_exist(self):
        mappings = {'front': network.BridgeName('ETHERNET0')}
        for name in (None, 'back'):
            with self.subTest(name):
                reason = self.refused(
                    port(physical_network=name), [bridge()], mappings
                )
                self.assertIn(f"'{name}' is none of", reason)
                self.assertIn('bridge_mappings (front)', reason)

    def test_connect_refuses_mapping_to_unknown_bridge(self):
        mappings = {'front': network.BridgeName('ETHERNET9')}
        reason = self.refused(
            port(physical_network='front'), [bridge()], mappings
        )
        self.assertIn('no Shared Ethernet bridge for front', reason)
        self.assertIn('ETHERNET0/1', reason)

    def test_connect_refuses_host_without_bridge(self):
        reason = self.refused(port(), [], {})
        self.assertIn('there are: none', reason)

    def test_connect_refuses_several_bridges_without_mapping(self):
        reason = self.refused(
            port(), [bridge(), bridge('b2', 'ETHERNET1')], {}
        )
        self.assertIn('2 Shared Ethernet bridges', reason)
        self.assertIn('SWITCH/PVID in [powervm]bridge_mappings', reason)

    def test_connect_refuses_vlan_of_other_bridge_on_switch(self):
        bridges = [bridge(), bridge('b2', pvid=2, vlans=[100])]
        mappings = {'front': network.BridgeName('ETHERNET0', 1)}
        for vlan in (100, 2):
            with self.subTest(vlan):
                reason = self.refused(
                    port(physical_network='front', vlan=vlan),
                    bridges,
                    mappings,
                )
                self.assertIn(f'VLAN {vlan} belongs to', reason)
                self.assertIn('ETHERNET0/2', reason)

    def test_connect_accepts_vlan_of_bridge_on_other_switch(self):
        bridges = [bridge(), bridge('b2', 'ETHERNET1', vlans=[100])]
        mappings = {'front': network.BridgeName('ETHERNET0')}
        made = network.connect(
            port(physical_network='front'), bridges, mappings
        )
        self.assertEqual('b1', made.bridge.uuid)

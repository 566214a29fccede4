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

"""Ports, shared Ethernet adapters, and what they become."""

import unittest

import hypothesis
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet

MACS = st.sampled_from([f'fa:16:3e:00:00:0{n}' for n in range(4)])
VLANS = st.sampled_from([1, 100, 200])
ADAPTERS = st.lists(
    st.builds(shared_ethernet.Adapter, MACS, VLANS, st.just('ETHERNET0')),
    unique_by=lambda adapter: adapter.mac,
)
PORTS = st.lists(
    st.builds(
        network_ports.Port,
        id=MACS,
        mac=MACS,
        vif_type=st.just(shared_ethernet.VIF_TYPE),
        vlan=st.none() | VLANS,
    ),
    unique_by=lambda port: port.mac,
)


def compare(ports, adapters):
    return network_ports.compare(
        ports, adapters, shared_ethernet.Adapter.serves
    )


class DifferencesTest(unittest.TestCase):
    @hypothesis.given(PORTS, ADAPTERS)
    def test_carried_out_differences_leave_none(self, ports, adapters):
        mismatch = compare(ports, adapters)
        changed = [
            adapter for adapter in adapters if adapter not in mismatch.surplus
        ] + [
            shared_ethernet.Adapter(port.mac, port.vlan or 1, 'ETHERNET0')
            for port in mismatch.missing
        ]

        self.assertFalse(compare(ports, changed))

    @hypothesis.given(PORTS, ADAPTERS)
    def test_adapter_of_port_is_never_surplus(self, ports, adapters):
        mismatch = compare(ports, adapters)

        missing = {port.mac for port in mismatch.missing}
        kept = {port.mac for port in ports} - missing
        self.assertFalse(kept & {adapter.mac for adapter in mismatch.surplus})

    @hypothesis.given(ADAPTERS)
    def test_adapters_are_all_surplus_without_ports(self, adapters):
        self.assertEqual(adapters, list(compare([], adapters).surplus))


def port(**changes):
    values = {
        'id': 'port-1',
        'mac': 'fa:16:3e:00:00:01',
        'vif_type': shared_ethernet.VIF_TYPE,
        'vlan': 100,
    }
    return network_ports.Port(**values | changes)


def bridge(name='b1', switch='ETHERNET0', pvid=1, vlans=()):
    return shared_ethernet.Bridge(
        name, switch, pvid, frozenset((pvid, *vlans))
    )


class ConnectTest(unittest.TestCase):
    def refused(self, wanted, bridges, mappings):
        with self.assertRaises(exception.PortRefused) as caught:
            shared_ethernet.connect(wanted, bridges, mappings)
        self.assertEqual('port-1', caught.exception.fields['port'])
        return caught.exception.fields['reason']

    def test_sole_bridge_serves_every_network(self):
        for name in (None, 'default', 'other'):
            with self.subTest(name):
                wanted = port(physical_network=name)
                made = shared_ethernet.connect(wanted, [bridge()], {})
                self.assertEqual(
                    shared_ethernet.Adapter(
                        'fa:16:3e:00:00:01', 100, 'ETHERNET0'
                    ),
                    made.adapter,
                )
                self.assertFalse(made.is_provisioned)

    def test_carried_vlan_is_provisioned(self):
        made = shared_ethernet.connect(port(), [bridge(vlans=[100])], {})
        self.assertTrue(made.is_provisioned)

    def test_flat_network_uses_pvid(self):
        made = shared_ethernet.connect(port(vlan=None), [bridge(pvid=7)], {})
        self.assertEqual(7, made.vlan)
        self.assertTrue(made.is_provisioned)

    def test_mappings_choose_by_switch(self):
        bridges = [bridge(), bridge('b2', 'ETHERNET1')]
        mappings = {
            'front': shared_ethernet.BridgeName('ETHERNET0'),
            'back': shared_ethernet.BridgeName('ETHERNET1'),
        }
        for name, expected in (('front', 'b1'), ('back', 'b2')):
            with self.subTest(name):
                made = shared_ethernet.connect(
                    port(physical_network=name), bridges, mappings
                )
                self.assertEqual(expected, made.bridge.uuid)

    def test_mappings_choose_by_pvid(self):
        bridges = [bridge(), bridge('b2', pvid=2)]
        mappings = {'back': shared_ethernet.BridgeName('ETHERNET0', 2)}
        made = shared_ethernet.connect(
            port(physical_network='back'), bridges, mappings
        )
        self.assertEqual('b2', made.bridge.uuid)

    def test_unmapped_network_is_refused_on_host_with_mappings(self):
        mappings = {'front': shared_ethernet.BridgeName('ETHERNET0')}
        for name in (None, 'back'):
            with self.subTest(name):
                reason = self.refused(
                    port(physical_network=name), [bridge()], mappings
                )
                self.assertIn(f"'{name}' is none of", reason)
                self.assertIn('bridge_mappings (front)', reason)

    def test_connect_refuses_mapping_to_missing_bridge(self):
        mappings = {'front': shared_ethernet.BridgeName('ETHERNET9')}
        reason = self.refused(
            port(physical_network='front'), [bridge()], mappings
        )
        self.assertIn('no Shared Ethernet bridge for front', reason)
        self.assertIn('ETHERNET0/1', reason)

    def test_connect_refuses_host_without_bridge(self):
        reason = self.refused(port(), [], {})
        self.assertIn('there are: none', reason)

    def test_connect_refuses_several_bridges_without_mappings(self):
        reason = self.refused(
            port(), [bridge(), bridge('b2', 'ETHERNET1')], {}
        )
        self.assertIn('2 Shared Ethernet bridges', reason)
        self.assertIn('SWITCH/PVID in [powervm]bridge_mappings', reason)

    def test_vlan_of_another_bridge_of_switch_is_refused(self):
        bridges = [bridge(), bridge('b2', pvid=2, vlans=[100])]
        mappings = {'front': shared_ethernet.BridgeName('ETHERNET0', 1)}
        for vlan in (100, 2):
            with self.subTest(vlan):
                reason = self.refused(
                    port(physical_network='front', vlan=vlan),
                    bridges,
                    mappings,
                )
                self.assertIn(f'VLAN {vlan} belongs to', reason)
                self.assertIn('ETHERNET0/2', reason)

    def test_same_vlan_on_another_switch_is_accepted(self):
        bridges = [bridge(), bridge('b2', 'ETHERNET1', vlans=[100])]
        mappings = {'front': shared_ethernet.BridgeName('ETHERNET0')}
        made = shared_ethernet.connect(
            port(physical_network='front'), bridges, mappings
        )
        self.assertEqual('b1', made.bridge.uuid)


class RoomTest(unittest.TestCase):
    def test_trunk_adapter_carries_twenty_vlans(self):
        self.assertEqual(300, shared_ethernet.free_vlans_of([]))
        self.assertEqual(280 + 13, shared_ethernet.free_vlans_of([7]))
        self.assertEqual(0, shared_ethernet.free_vlans_of([20] * 15))
        self.assertEqual(0, shared_ethernet.free_vlans_of([21] * 16))

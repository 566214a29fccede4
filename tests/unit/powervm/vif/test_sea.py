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

"""Adapters for Shared Ethernet, and what every driver of ports has."""

import unittest

from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network as pvm_network
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm import system
from nova_powervm.powervm.vif import sea
from nova_powervm.powervm.vif import virtual_ethernet
from tests.unit.powervm import hosts

OWN = shared_ethernet.Adapter('fa:16:3e:00:00:01', 100, 'ETHERNET0')
MANAGEMENT = shared_ethernet.Adapter(
    'fa:16:3e:00:00:02', 1, management_adapter.SWITCH
)


class Ethernet:
    """A virtual Ethernet with one adapter beside that of NovaLink."""

    def adapters(self, lpar_uuid):
        return [OWN, MANAGEMENT]


def port(**changes):
    values = {'id': 'port-1', 'mac': OWN.mac, 'vif_type': 'pvm_sea'}
    return network_ports.Port(**values | changes)


class SeaVifDriverTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.driver = sea.SeaVifDriver(Ethernet(), {}, None)

    def test_check_accepts_normal_port_and_one_that_ovn_serves(self):
        self.driver.check(port())
        self.driver.check(port(vnic_type='baremetal'))

    def test_check_refuses_other_vnic_types(self):
        for vnic_type in ('direct', 'macvtap', 'virtio-forwarder'):
            with self.subTest(vnic_type):
                with self.assertRaises(exception.PortRefused) as caught:
                    self.driver.check(port(vnic_type=vnic_type))
                text = str(caught.exception)
                self.assertIn('Port port-1', text)
                self.assertIn(f'vnic_type is {vnic_type}', text)

    def test_adapters_leaves_out_management_switch(self):
        self.assertEqual([OWN], self.driver.adapters('LPAR-1'))

    def test_serves_compares_vlans_that_are_known(self):
        for vlan, expected in ((100, True), (200, False), (None, True)):
            with self.subTest(vlan=vlan):
                self.assertIs(
                    expected, self.driver.serves(OWN, port(vlan=vlan))
                )


class VirtualEthernetTest(unittest.TestCase):
    """A host whose virtual Ethernet is not as one expects."""

    def setUp(self):
        super().setUp()
        emulator = hosts.start(self)
        self.adapter = hosts.connect(self, emulator)
        self.networks = virtual_ethernet.VirtualEthernet(
            self.adapter,
            system.RestSystem(self.adapter, hosts.server_of(emulator)),
        )

    def bridge(self):
        """Read the one bridge with pypowervm."""
        (managed,) = managed_system.System.get(self.adapter)
        (found,) = pvm_network.NetBridge.get(self.adapter, parent=managed)
        return found

    def test_bridges_reads_switch_pvid_and_vlans(self):
        (found,) = self.networks.bridges()
        self.assertEqual(
            ('ETHERNET0', 1, frozenset([1])),
            (found.switch, found.pvid, found.vlans),
        )

    def test_provisioned_vlan_takes_space_until_withdrawn(self):
        def read():
            (found,) = self.networks.bridges()
            return found.vlans, found.free_vlans

        (bridge,) = self.networks.bridges()
        before = read()

        self.networks.provision(bridge, [100, 200])
        self.assertEqual((frozenset([1, 100, 200]), 298), read())

        for _ in range(2):
            self.networks.withdraw(bridge, 100)
        self.assertEqual((frozenset([1, 200]), 299), read())
        self.networks.withdraw(bridge, 200)
        self.assertEqual(before, read())
        self.assertEqual(300, bridge.free_vlans)

    def test_client_adapters_of_all_partitions_occupy_vlans(self):
        (lpar,) = logical_partition.LPAR.search(self.adapter, name='archive')
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        (switch,) = pvm_network.VSwitch.get(
            self.adapter, parent=managed_system.System.get(self.adapter)[0]
        )
        for parent, vlan, tagged in (
            (lpar, 100, [30, 31]),
            (vios, 200, None),
        ):
            pvm_network.CNA.bld(
                self.adapter,
                vlan,
                switch.related_href,
                addl_tagged_vlans=tagged,
            ).create(parent=parent)

        self.assertEqual(
            {('ETHERNET0', vlan) for vlan in (100, 30, 31, 200)},
            set(self.networks.occupied()),
        )

    def test_bridge_without_sea_is_left_out(self):
        bridge = self.bridge()
        bridge.seas.remove(bridge.seas[0])
        self.assertIsNone(self.networks._describe(bridge))

    def test_unlisted_switch_is_an_error(self):
        with self.assertRaises(exception.RestError) as caught:
            self.networks._switch(7)
        self.assertIn('virtual switch 7', str(caught.exception))

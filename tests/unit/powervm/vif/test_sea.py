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
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm.vif import sea

OWN = shared_ethernet.Adapter('fa:16:3e:00:00:01', 100, 'ETHERNET0')
MANAGEMENT = shared_ethernet.Adapter(
    'fa:16:3e:00:00:02', 1, shared_ethernet.MANAGEMENT_SWITCH
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

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

"""The mechanism driver's answers to ML2, without a server."""

import unittest

from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

from nova_powervm.neutron import mechanism
from nova_powervm.neutron import options

VLAN = {
    'id': 'f00',
    'network_type': 'vlan',
    'physical_network': 'datacenter',
    'segmentation_id': 101,
}
TUNNEL = {
    'id': 'f01',
    'network_type': 'geneve',
    'physical_network': None,
    'segmentation_id': 7,
}


class MechanismDriverTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        options.register_opts(cfg.CONF)
        cfg.CONF.set_override('hosts', ['power*'], 'pvm_sea')
        self.addCleanup(cfg.CONF.clear_override, 'hosts', 'pvm_sea')
        self.driver = mechanism.SeaMechanismDriver()
        self.driver.initialize()

    def reached(self, *segments):
        return self.driver.filter_hosts_with_segment_access(
            None, segments, {'power1', 'power2', 'libvirt1'}, None
        )

    def test_filter_keeps_hosts_that_vlan_segment_reaches(self):
        self.assertTrue(self.driver.is_host_filtering_supported())
        self.assertEqual({'power1', 'power2'}, self.reached(VLAN))
        self.assertEqual({'power1', 'power2'}, self.reached(TUNNEL, VLAN))

    def test_filter_drops_all_hosts_for_tunnel_segment(self):
        self.assertEqual(set(), self.reached(TUNNEL))
        self.assertEqual(set(), self.reached())

    def test_driver_keeps_supported_extensions(self):
        extensions = {'security-group', 'trunk', 'qos'}
        self.assertEqual(
            extensions, self.driver.supported_extensions(extensions)
        )

    def test_driver_is_not_responsible_for_bandwidth(self):
        self.assertIs(
            False, self.driver.responsible_for_ports_allocation(None)
        )
        self.assertIsInstance(self.driver, api.MechanismDriver)

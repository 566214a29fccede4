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

from neutron_lib import constants
from neutron_lib.api.definitions import port_resource_request
from neutron_lib.api.definitions import portbindings
from neutron_lib.api.definitions import provider_net
from neutron_lib.plugins.ml2 import api
from nova.network import model

from nova_powervm.neutron import binding

VLAN = {
    'id': 'f00',
    'network_type': 'vlan',
    'physical_network': 'datacenter',
    'segmentation_id': 101,
}
FLAT = VLAN | {'network_type': 'flat', 'segmentation_id': None}
PORT = {'device_owner': 'compute:nova', 'binding:vnic_type': 'normal'}


class HostRulesTest(unittest.TestCase):
    def test_has_host_matches_names_and_patterns(self):
        rules = binding.Rules(hosts=('power1', 'rack?-*'))

        for host in ('power1', 'rack1-', 'rack1-a.example.org'):
            self.assertTrue(rules.has_host(host), host)
        for host in ('', 'power', 'power12', 'xpower1', 'rack12-a', 'Power1'):
            self.assertFalse(rules.has_host(host), host)

    def test_has_host_accepts_any_host_by_default(self):
        self.assertTrue(binding.Rules().has_host('anything'))

    def test_has_host_rejects_any_host_without_patterns(self):
        self.assertFalse(binding.Rules(hosts=()).has_host('power1'))


class SegmentRulesTest(unittest.TestCase):
    def test_vlan_and_flat_segments_are_bound(self):
        for segment in (VLAN, FLAT):
            self.assertIsNone(binding.Rules().why_not_segment(segment))

    def test_segments_of_other_types_are_not_bound(self):
        for network_type in ('geneve', 'vxlan', 'gre', 'local', 'new'):
            # A tunnel has no physical network.
            segment = {
                'id': 'f00',
                'network_type': network_type,
                'physical_network': None,
                'segmentation_id': 5,
            }
            self.assertEqual(
                f'its type is {network_type}',
                binding.Rules().why_not_segment(segment),
            )

    def test_physical_networks_match_names_and_patterns(self):
        for names, bound in (
            (('lab', 'datacenter'), True),
            (('data*',), True),
            (('data',), False),
            ((), False),
        ):
            rules = binding.Rules(physical_networks=names)
            reason = rules.why_not_segment(VLAN)
            self.assertEqual(bound, reason is None, names)
            if reason:
                self.assertEqual(
                    'datacenter is not among [pvm_sea]physical_networks',
                    reason,
                )


class PortRulesTest(unittest.TestCase):
    def test_port_of_instance_is_bound(self):
        for owner in ('compute:nova', 'compute:az-1', ''):
            self.assertIsNone(
                binding.why_foreign(PORT | {'device_owner': owner})
            )
        self.assertIsNone(binding.why_not_port(PORT))

    def test_vnic_types_without_pci_device_are_bound(self):
        for vnic_type in portbindings.VNIC_TYPES:
            port = PORT | {'binding:vnic_type': vnic_type}
            if vnic_type in {'normal', 'baremetal'}:
                self.assertIsNone(binding.why_foreign(port))
            else:
                self.assertEqual(
                    f'its vnic_type is {vnic_type}', binding.why_foreign(port)
                )

    def test_ports_of_agents_are_foreign(self):
        for owner in (
            constants.DEVICE_OWNER_DHCP,
            constants.DEVICE_OWNER_DVR_INTERFACE,
            constants.DEVICE_OWNER_ROUTER_INTF,
        ):
            self.assertEqual(
                f'it belongs to {owner}',
                binding.why_foreign(PORT | {'device_owner': owner}),
            )

    def test_parent_of_trunk_is_not_bound(self):
        port = PORT | {'trunk_details': {'trunk_id': 'f01', 'sub_ports': []}}

        self.assertEqual(
            'it is the parent of a trunk', binding.why_not_port(port)
        )

    def test_port_with_guarantee_is_not_bound(self):
        for request, reason in (
            (
                {'request_groups': [{}], 'same_subtree': []},
                'it has a guaranteed bandwidth or packet rate',
            ),
            # What neutron's QoS plugin says of a port without a guarantee.
            (None, None),
        ):
            port = PORT | {'resource_request': request}
            self.assertEqual(reason, binding.why_not_port(port))


class VifDetailsTest(unittest.TestCase):
    def test_nova_reads_vlan_and_physical_network(self):
        vif = model.VIF(
            type=binding.VIF_TYPE, details=binding.vif_details(VLAN)
        )

        self.assertEqual(101, vif['details'][model.VIF_DETAILS_VLAN])
        self.assertEqual(
            'datacenter', vif['details'][model.VIF_DETAILS_PHYSICAL_NETWORK]
        )
        self.assertFalse(vif.is_neutron_filtering_enabled())

    def test_details_of_flat_network_have_no_vlan(self):
        self.assertNotIn('vlan', binding.vif_details(FLAT))


class NeutronConstantsTest(unittest.TestCase):
    """The rules have copies of neutron's constants."""

    def test_constants_equal_those_of_neutron(self):
        self.assertEqual(
            set(VLAN),
            {
                api.ID,
                api.NETWORK_TYPE,
                api.PHYSICAL_NETWORK,
                api.SEGMENTATION_ID,
            },
        )
        self.assertEqual(
            (
                'flat',
                'vlan',
                'binding:vnic_type',
                'normal',
                'resource_request',
            ),
            (
                constants.TYPE_FLAT,
                constants.TYPE_VLAN,
                portbindings.VNIC_TYPE,
                portbindings.VNIC_NORMAL,
                port_resource_request.RESOURCE_REQUEST,
            ),
        )
        self.assertEqual(
            {'port_filter', 'connectivity', 'vlan', 'physical_network'},
            {
                portbindings.CAP_PORT_FILTER,
                portbindings.VIF_DETAILS_CONNECTIVITY,
                portbindings.VIF_DETAILS_VLAN,
                provider_net.PHYSICAL_NETWORK.removeprefix('provider:'),
            },
        )
        self.assertEqual(
            portbindings.CONNECTIVITY_L2,
            binding.vif_details(VLAN)['connectivity'],
        )

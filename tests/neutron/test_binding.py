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

"""Binding of ports in a cloud of PowerVM and libvirt hosts."""

import json
import subprocess
import sys
import uuid

from tests.neutron import base

OVS_AGENT = {
    'agent_type': 'Open vSwitch agent',
    'binary': 'neutron-openvswitch-agent',
    'host': 'libvirt1',
    'topic': 'N/A',
    'configurations': {
        'bridge_mappings': {'datacenter': 'br-ex'},
        'tunnel_types': ['geneve'],
        'datapath_type': 'system',
    },
}


#: Reads ports of the API, and prints what Neutron makes of each.
_ARE_EXTERNAL = """
import json, sys
from neutron.common.ovn import utils
print(json.dumps([*map(utils.is_port_external, json.load(sys.stdin))]))
"""


class MixedCloudTest(base.NeutronTestCase):
    @classmethod
    def start(cls):
        return base.Server(
            options="""
                hosts = power1, power2, rack?-*
                physical_networks = data*
                """,
            # pvm_sea is first, so it left the ports that openvswitch binds.
            mechanism_drivers='pvm_sea,openvswitch',
            service_plugins='segments,trunk,router,qos',
            extension_drivers='port_security,qos',
            agents=[OVS_AGENT],
        )

    def test_vlan_port_is_bound_with_its_vlan(self):
        port = self.port(self.vlan_network(101), 'power1')

        self.assertEqual(
            {
                'vlan': 101,
                'physical_network': 'datacenter',
                'port_filter': False,
                'connectivity': 'l2',
            },
            self.details(port),
        )
        self.assertEqual('ACTIVE', port['status'])
        self.assertEqual('ACTIVE', self.show(port)['status'])

    def test_flat_port_is_bound_without_vlan(self):
        network = self.network(
            network_type='flat', physical_network='datacenter'
        )

        port = self.port(network, 'power1')

        self.assertEqual(
            {
                'physical_network': 'datacenter',
                'port_filter': False,
                'connectivity': 'l2',
            },
            self.details(port),
        )
        self.assertEqual('ACTIVE', port['status'])

    def test_port_without_address_is_bound(self):
        port = self.port(self.vlan_network(102), 'power1', fixed_ips=[])

        self.assertEqual([], port['fixed_ips'])
        self.assertEqual(102, self.details(port)['vlan'])

    def test_hosts_option_accepts_patterns(self):
        network = self.vlan_network(103)

        port = self.port(network, 'rack7-power')
        self.assertEqual(103, self.details(port)['vlan'])

        for host in ('rack17-power', 'power11', 'POWER1'):
            port = self.port(network, host)
            self.assert_not_bound(
                port, 'the host is not among [pvm_sea]hosts', 'DEBUG'
            )

    def test_port_of_libvirt_host_is_bound_by_openvswitch(self):
        network = self.vlan_network(104)

        port = self.port(network, 'libvirt1')

        self.assertEqual('ovs', port['binding:vif_type'])
        self.assert_left_alone(
            port, 'the host is not among [pvm_sea]hosts', 'DEBUG'
        )
        self.assertEqual(
            104, self.details(self.port(network, 'power1'))['vlan']
        )

    def test_port_of_network_with_router_is_bound(self):
        network = self.vlan_network(120)
        (subnet,) = self.request('GET', f'networks/{network["id"]}')[
            'network'
        ]['subnets']
        router = self.request('POST', 'routers', {'router': {}})['router']
        path = f'routers/{router["id"]}'
        interface = {'subnet_id': subnet}

        self.request('PUT', f'{path}/add_router_interface', interface)

        port = self.port(network, 'power1')
        self.assertEqual(120, self.details(port)['vlan'])
        self.assertEqual('ACTIVE', port['status'])
        self.request('PUT', f'{path}/remove_router_interface', interface)
        self.request('DELETE', path)

    def test_ports_of_other_vnic_types_are_not_bound(self):
        network = self.vlan_network(105)

        for vnic_type in ('direct', 'macvtap', 'virtio-forwarder'):
            port = self.port(
                network, 'power1', **{'binding:vnic_type': vnic_type}
            )
            self.assert_not_bound(
                port, f'its vnic_type is {vnic_type}', 'DEBUG'
            )

    def test_port_that_ovn_serves_itself_is_bound(self):
        """OVN answers DHCP for a port on no chassis only if it is external.

        Nothing that a binding says makes a port external; its type does.
        """
        network = self.vlan_network(117)
        ports = [
            self.port(network, 'power1', **{'binding:vnic_type': vnic_type})
            for vnic_type in ('normal', 'baremetal')
        ]
        for port in ports:
            self.assertEqual(117, self.details(port)['vlan'])

        self.assertEqual([False, True], self.are_external(ports))

    def are_external(self, ports):
        """Ask Neutron's driver for OVN about ports, in its own process."""
        answer = subprocess.run(
            [sys.executable, '-P', '-W', 'ignore', '-c', _ARE_EXTERNAL],
            input=json.dumps(ports),
            capture_output=True,
            check=True,
            text=True,
        )
        return json.loads(answer.stdout)

    def test_port_of_dhcp_agent_is_not_bound(self):
        port = self.port(
            self.vlan_network(106), 'power1', device_owner='network:dhcp'
        )

        self.assert_not_bound(port, 'it belongs to network:dhcp', 'DEBUG')

    def test_tunnel_port_is_not_bound(self):
        network = self.network(network_type='geneve', segmentation_id=7)

        port = self.port(network, 'power1')

        self.assert_not_bound(port, 'its type is geneve', 'WARNING')
        self.assertEqual(
            'ovs', self.port(network, 'libvirt1')['binding:vif_type']
        )

    def test_unlisted_physical_network_is_not_bound(self):
        port = self.port(self.vlan_network(107, 'lab'), 'power1')

        self.assert_not_bound(
            port, 'lab is not among [pvm_sea]physical_networks', 'WARNING'
        )

    def test_port_is_bound_to_first_matching_segment(self):
        network = self.network(
            segments=[
                {'network_type': 'geneve', 'segmentation_id': 8},
                {
                    'network_type': 'vlan',
                    'physical_network': 'lab',
                    'segmentation_id': 108,
                },
                {
                    'network_type': 'vlan',
                    'physical_network': 'datacenter',
                    'segmentation_id': 109,
                },
                {
                    'network_type': 'vlan',
                    'physical_network': 'datacenter',
                    'segmentation_id': 110,
                },
            ]
        )

        details = self.details(self.port(network, 'power1'))

        self.assertEqual(109, details['vlan'])
        self.assertEqual('datacenter', details['physical_network'])

    def test_binding_fails_for_allocated_bandwidth(self):
        # The form in which Nova passes Placement's allocation.
        profile = {'allocation': {str(uuid.uuid4()): str(uuid.uuid4())}}

        port = self.port(
            self.vlan_network(115), 'power1', **{'binding:profile': profile}
        )

        self.assertEqual('binding_failed', port['binding:vif_type'])

    def policy(self, kind, **rule):
        """Create a QoS policy with a rule; return its id."""
        body = {'policy': {'name': kind}}
        made = self.request('POST', 'qos/policies', body)['policy']['id']
        self.request(
            'POST',
            f'qos/policies/{made}/{kind}_rules',
            {f'{kind}_rule': {'direction': 'egress', **rule}},
        )
        return made

    def test_port_with_guaranteed_bandwidth_is_not_bound(self):
        """Neutron's QoS plugin says so, if Placement was asked or not."""
        network = self.vlan_network(116)
        guaranteed = self.policy('minimum_bandwidth', min_kbps=1000)
        limited = self.policy('bandwidth_limit', max_kbps=1000)

        port = self.port(network, 'power1', qos_policy_id=guaranteed)

        self.assert_not_bound(
            port, 'it has a guaranteed bandwidth or packet rate', 'WARNING'
        )
        # A limit costs nobody anything; it is not applied.
        port = self.port(network, 'power1', qos_policy_id=limited)
        self.assertEqual(116, self.details(port)['vlan'])
        self.request(
            'PUT',
            f'ports/{port["id"]}',
            {'port': {'qos_policy_id': guaranteed}},
            expected=(400, 409),
        )

    def test_parent_of_trunk_is_not_bound(self):
        network = self.vlan_network(111)
        port = self.port(network)
        self.request('POST', 'trunks', {'trunk': {'port_id': port['id']}})

        port = self.update(port, **{'binding:host_id': 'power1'})

        self.assert_not_bound(port, 'it is the parent of a trunk', 'WARNING')

    def test_bound_port_cannot_become_parent_of_trunk(self):
        port = self.port(self.vlan_network(112), 'power1')

        self.request(
            'POST',
            'trunks',
            {'trunk': {'port_id': port['id']}},
            expected=(409,),
        )

    def test_vlan_of_bound_port_cannot_change(self):
        network = self.vlan_network(113)
        self.port(network, 'power1')

        self.request(
            'PUT',
            f'networks/{network["id"]}',
            {'network': {'provider:segmentation_id': 114}},
            expected=(400,),
        )

    # From creation to deletion

    def test_port_follows_its_host_until_it_is_unbound(self):
        port = self.port(self.vlan_network(121))
        self.assertEqual('unbound', port['binding:vif_type'])
        self.assertEqual('DOWN', port['status'])

        for host in ('power1', 'power2'):
            port = self.update(port, **{'binding:host_id': host})
            self.assertEqual(host, port['binding:host_id'])
            self.assertEqual(121, self.details(port)['vlan'])
            self.assertEqual('ACTIVE', port['status'])

        port = self.update(port, **{'binding:host_id': ''})
        self.assertEqual('unbound', port['binding:vif_type'])
        self.assertEqual({}, port['binding:vif_details'])
        self.assertEqual('DOWN', port['status'])

    def test_prepared_binding_can_be_activated(self):
        port = self.port(self.vlan_network(122), 'power1')
        bindings = f'ports/{port["id"]}/bindings'

        prepared = self.request(
            'POST', bindings, {'binding': {'host': 'power2'}}
        )['binding']
        self.assertEqual('pvm_sea', prepared['vif_type'])
        self.assertEqual('INACTIVE', prepared['status'])
        self.assertEqual('power1', self.show(port)['binding:host_id'])

        self.request('PUT', f'{bindings}/power2/activate')
        port = self.show(port)
        self.assertEqual('power2', port['binding:host_id'])
        self.assertEqual(122, self.details(port)['vlan'])
        self.assertEqual('ACTIVE', port['status'])

        # Until it is deleted, the former binding is in the way of another
        # one: a move there is answered with an error, after some minutes.
        back = {'binding': {'host': 'power1'}}
        self.request('POST', bindings, back, expected=(409,))
        self.request('DELETE', f'{bindings}/power1')
        port = self.update(port, **{'binding:host_id': 'power1'})
        self.assertEqual('pvm_sea', port['binding:vif_type'])

    def test_port_without_its_active_binding_cannot_be_bound(self):
        port = self.port(self.vlan_network(187), 'power1')
        bindings = f'ports/{port["id"]}/bindings'
        self.request('POST', bindings, {'binding': {'host': 'power2'}})

        self.request('DELETE', f'{bindings}/power1')
        update = {'port': {'binding:host_id': 'power2'}}
        self.request('PUT', f'ports/{port["id"]}', update, expected=(404,))
        self.request('PUT', f'{bindings}/power2/activate', expected=(500,))
        # Only as a new one.
        self.request('DELETE', f'{bindings}/power2')
        again = {'binding': {'host': 'power2'}}
        active = self.request('POST', bindings, again)['binding']
        self.assertEqual('ACTIVE', active['status'])

    def test_nova_gets_no_plugged_event(self):
        port = self.port(self.vlan_network(123))

        bound = self.update(port, **{'binding:host_id': 'power1'})
        self.assertEqual('ACTIVE', bound['status'])
        self.update(port, **{'binding:host_id': ''})

        # Events arrive in their order.
        event = self.server.nova.wait_for('network-vif-unplugged', port['id'])
        self.assertEqual(
            {
                'name': 'network-vif-unplugged',
                'server_uuid': port['device_id'],
                'status': 'completed',
                'tag': port['id'],
            },
            event,
        )
        self.assertNotIn(
            ('network-vif-plugged', port['id']),
            [(e['name'], e['tag']) for e in self.server.nova.events],
        )

    def test_routed_network_has_no_address_for_host(self):
        network = self.vlan_network(124, subnet=False)
        segments = self.request('GET', f'segments?network_id={network["id"]}')
        self.subnet(network, segment_id=segments['segments'][0]['id'])

        # Neutron learns from agents which hosts a segment reaches.
        answer = self.server.send(
            'POST',
            'ports',
            {
                'port': {
                    'network_id': network['id'],
                    'binding:host_id': 'power1',
                }
            },
        )

        self.assertEqual(409, answer.status_code)
        self.assertIn('HostNotConnectedToAnySegment', answer.text)

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

"""Virtual switches and networks, and worlds that define them."""

from pypowervm.tasks import cna
from pypowervm.wrappers import network

from powervm_emulator import worlds
from powervm_emulator.core import errors
from tests.emulator import base


class NetworkTestCase(base.EmulatorTestCase):
    def switches(self):
        """Read and return the switches by name."""
        found = network.VSwitch.get(self.adapter, parent=self.system())
        return {one.name: one for one in found}

    def networks(self):
        """Read and return the networks by name."""
        found = network.VNet.get(self.adapter, parent=self.system())
        return {one.name: one for one in found}

    def build_switch(self, name, **options):
        return network.VSwitch.bld(self.adapter, name, **options)

    def create_switch(self, name, **options):
        return self.build_switch(name, **options).create(parent=self.system())

    def create_network(self, vlan, name='net', switch='ETHERNET0'):
        href = self.switches()[switch].related_href
        planned = network.VNet.bld(self.adapter, name, vlan, href, True)
        return planned.create(parent=self.system())


class VirtualSwitchTest(NetworkTestCase):
    def test_default_world_has_default_switch(self):
        (found,) = self.switches().values()
        self.assertEqual('ETHERNET0', found.name)
        self.assertEqual(
            'ETHERNET0(Default)', found.element.findtext('SwitchName')
        )
        self.assertEqual((0, 'Veb'), (found.switch_id, found.mode))
        self.assertIs(found, found.refresh())

    def test_create_takes_lowest_free_switch_id(self):
        made = self.create_switch('MGMT', switch_mode='Vepa')
        self.assertEqual((1, 'Vepa'), (made.switch_id, made.mode))
        self.assertEqual(2, self.create_switch('OTHER').switch_id)
        made.delete()
        self.assertEqual(1, self.create_switch('AGAIN').switch_id)
        self.assertEqual({'ETHERNET0', 'OTHER', 'AGAIN'}, set(self.switches()))

    def test_state_shows_created_switch(self):
        made = self.create_switch('MGMT')
        system = self.control.state()['systems'][0]
        self.assertIn(
            {'name': 'MGMT', 'uuid': made.uuid, 'mode': 'Veb'},
            system['virtual_switches'],
        )

    def test_create_refuses_name_in_use(self):
        for name in ('ETHERNET0', 'ETHERNET0(Default)'):
            self.assert_refused(
                409, f"'{name}|already", self.create_switch, name
            )

    def test_create_refuses_empty_name_and_unknown_mode(self):
        self.assert_refused(400, 'SwitchName', self.create_switch, '')
        self.assert_refused(
            400,
            "'Hub' is not Veb or Vepa for SwitchMode",
            self.create_switch,
            'a',
            switch_mode='Hub',
        )

    def test_create_refuses_seventeenth_switch(self):
        for number in range(15):
            self.create_switch(f'S{number}')
        self.assert_refused(
            409, '16 virtual switches', self.create_switch, 'S'
        )

    def test_update_changes_name_and_mode_but_not_id(self):
        made = self.create_switch('MGMT')
        made.name, made.mode = 'OTHER', 'Vepa'
        made.set_parm_value('SwitchID', 7)
        changed = made.update()
        self.assertEqual(
            ('OTHER', 'Vepa', 1),
            (changed.name, changed.mode, changed.switch_id),
        )

    def test_update_refuses_name_in_use(self):
        made = self.create_switch('MGMT')
        made.name = 'ETHERNET0'
        self.assert_refused(409, 'already', made.update)
        self.assertEqual({'ETHERNET0', 'MGMT'}, set(self.switches()))

    def test_delete_refuses_outdated_etag(self):
        made = self.create_switch('MGMT')
        other = self.switches()['MGMT']
        other.mode = 'Vepa'
        other.update()
        self.assert_refused(412, 'If-Match', made.delete)

    def test_delete_refuses_default_switch(self):
        self.assert_refused(
            409, 'default', self.switches()['ETHERNET0'].delete
        )

    def test_delete_refuses_switch_with_adapter(self):
        self.create_switch('MGMT')
        vm = self.create()
        adapter = cna.crt_cna(self.adapter, None, vm.uuid, 5, vswitch='MGMT')
        self.assert_refused(
            409,
            "MGMT is in use .* slot 2 of the partition 'vm1'",
            self.switches()['MGMT'].delete,
        )
        adapter.delete()
        self.switches()['MGMT'].delete()
        self.assertEqual({'ETHERNET0'}, set(self.switches()))

    def test_delete_refuses_switch_with_virtual_network(self):
        self.create_switch('MGMT')
        made = self.create_network(7, switch='MGMT')
        self.assert_refused(409, 'VLAN 7', self.switches()['MGMT'].delete)
        made.delete()
        self.switches()['MGMT'].delete()

    def test_create_refuses_body_of_another_kind(self):
        self.assert_refused(
            400,
            'The body is a VirtualNetwork',
            self.adapter.create,
            network.VNet.bld(self.adapter, 'n', 1, 'x', True),
            'ManagedSystem',
            self.system().uuid,
            child_type='VirtualSwitch',
        )


class VirtualNetworkTest(NetworkTestCase):
    def test_network_exists_while_adapter_has_its_vlan(self):
        self.assertEqual({'ETHERNET0-1'}, set(self.networks()))
        vm = self.create()
        made = cna.crt_cna(self.adapter, None, vm.uuid, 100)
        found = self.networks()['ETHERNET0-100']
        self.assertEqual(
            (100, 0, True), (found.vlan, found.vswitch_id, found.tagged)
        )
        switch = self.switches()['ETHERNET0']
        self.assertEqual(switch.related_href, found.associated_switch_uri)
        self.assertIn(found.related_href, switch.vnet_uri_list)
        (link,) = made.element.find('VirtualNetworks')
        self.assertEqual(found.related_href, link.get('href'))
        made.delete()
        self.assertEqual({'ETHERNET0-1'}, set(self.networks()))
        self.assertEqual(1, len(self.switches()['ETHERNET0'].vnet_uri_list))

    def test_recreated_network_keeps_its_uuid(self):
        vm = self.create()
        uuids = set()
        for _ in range(2):
            made = cna.crt_cna(self.adapter, None, vm.uuid, 100)
            uuids.add(self.networks()['ETHERNET0-100'].uuid)
            made.delete()
        self.assertEqual(1, len(uuids))

    def test_switches_have_networks_with_same_vlan(self):
        vm = self.create()
        for name in ('ETHERNET0', 'MGMT'):
            cna.crt_cna(
                self.adapter, None, vm.uuid, 5, vswitch=name, crt_vswitch=True
            )
        self.assertLessEqual({'ETHERNET0-5', 'MGMT-5'}, set(self.networks()))

    def test_client_made_network_outlives_its_adapters(self):
        made = self.create_network(7, 'blue')
        vm = self.create()
        adapter = cna.crt_cna(self.adapter, None, vm.uuid, 7)
        self.assertEqual({'ETHERNET0-1', 'blue'}, set(self.networks()))
        self.assert_refused(
            409, "VLAN 7 is in use .* 'vm1'", self.networks()['blue'].delete
        )
        adapter.delete()
        self.assertEqual(made.uuid, self.networks()['blue'].uuid)
        self.networks()['blue'].delete()
        self.assertEqual({'ETHERNET0-1'}, set(self.networks()))

    def test_create_refuses_vlan_with_network(self):
        self.assert_refused(409, 'VLAN 1 already', self.create_network, 1)

    def test_create_refuses_invalid_vlan(self):
        for vlan in (0, 4095):
            self.assert_refused(400, '1 to 4094', self.create_network, vlan)

    def test_update_changes_name_but_refuses_vlan(self):
        made = self.create_network(7, 'blue')
        made.name = 'green'
        self.assertEqual('green', made.update().name)
        made = self.networks()['green']
        made.vlan = 8
        self.assert_refused(400, 'NetworkVLANID', made.update)


class NetworkWorldTest(NetworkTestCase):
    def load(self, **keys):
        """Load a world with two VIOSes, one partition and the given keys."""
        partition = {'memory': 1024, 'processors': 1}
        adapters = keys.pop('adapters', ())
        self.control.load_world(
            {
                'systems': [
                    {
                        'name': 'machine',
                        'virtual_io_servers': [
                            {'name': 'vios1', 'id': 1, **partition},
                            {'name': 'vios2', 'id': 2, **partition},
                        ],
                        'partitions': [
                            {
                                'name': 'vm',
                                'adapters': list(adapters),
                                **partition,
                            }
                        ],
                        **keys,
                    }
                ]
            }
        )
        return self.control.state()['systems'][0]

    def test_world_without_network_keys_has_default_switch(self):
        state = self.load()
        (switch,) = state['virtual_switches']
        self.assertEqual(
            ('ETHERNET0(Default)', 'Veb'), (switch['name'], switch['mode'])
        )
        self.assertEqual([], state['network_bridges'])

    def test_world_keys_describe_switches_bridges_and_adapters(self):
        state = self.load(
            virtual_switches=[
                {'name': 'ETHERNET0(Default)'},
                {'name': 'MGMT', 'mode': 'Vepa'},
            ],
            network_bridges=[
                {
                    'vios': 'vios1',
                    'failover_vios': 'vios2',
                    'pvid': 1,
                    'vlans': [30, 10, 20],
                },
                {'vios': 'vios2', 'pvid': 2, 'vlans': [4094]},
                {'vios': 'vios1', 'switch': 'MGMT', 'pvid': 1},
            ],
            adapters=[
                {'vlan': 10, 'mac': 'FA:16:3E:00:00:0a'},
                {'vlan': 10, 'switch': 'MGMT'},
            ],
        )
        first, second, third = state['network_bridges']
        self.assertEqual(['vios1', 'vios2'], first['vioses'])
        self.assertEqual([10, 20, 30], first['vlans'])
        self.assertEqual(
            (2, [4094], ['vios2']),
            (second['pvid'], second['vlans'], second['vioses']),
        )
        self.assertEqual('MGMT', third['switch'])
        one, two = state['partitions'][2]['adapters']
        self.assertEqual(
            ('fa:16:3e:00:00:0a', 10, 'ETHERNET0(Default)', 2),
            (one['mac'], one['vlan'], one['switch'], one['slot']),
        )
        self.assertEqual('MGMT', two['switch'])

    def test_bridge_spreads_50_vlans_over_trunk_adapters(self):
        vlans = list(range(100, 150))
        state = self.load(
            network_bridges=[{'vios': 'vios1', 'pvid': 1, 'vlans': vlans}]
        )
        self.assertEqual(vlans, state['network_bridges'][0]['vlans'])
        self.assertEqual(4, len(state['partitions'][0]['adapters']))

    def test_loading_emits_no_events_but_cache_cleared(self):
        events = self.emulator._application._emulation.host.events
        events.poll('me', '', 0)
        self.load(network_bridges=[{'vios': 'vios1', 'pvid': 1}])
        self.assertEqual(
            ['CACHE_CLEARED'],
            [event.type for event in events.poll('me', '', 0)],
        )

    def test_loading_refuses_impossible_networks(self):
        before = self.control.state()
        bridge = {'vios': 'vios1', 'pvid': 1}
        mac = {'vlan': 1, 'mac': 'fa:16:3e:00:00:01'}
        for message, keys in {
            'VLAN 1 is on': {
                'network_bridges': [bridge, {**bridge, 'vios': 'vios2'}]
            },
            'different Virtual I/O': {
                'network_bridges': [{**bridge, 'failover_vios': 'vios1'}]
            },
            "no virtual switch 'X'": {
                'network_bridges': [{**bridge, 'switch': 'X'}]
            },
            r"bridges\[0\].vios: unknown .* 'vm'": {
                'network_bridges': [{**bridge, 'vios': 'vm'}]
            },
            r'adapters\[0\]: vlan is required': {'adapters': [{}]},
            r'bridges\[0\]: pvid is required': {
                'network_bridges': [{'vios': 'vios1'}]
            },
            r'switches\[0\]: name is required': {'virtual_switches': [{}]},
            'FA163E000001 is in use': {'adapters': [mac, mac]},
            'less than the minimum': {'adapters': [{'vlan': 0}]},
        }.items():
            with self.subTest(message):
                with self.assertRaisesRegex(errors.WorldError, message):
                    self.load(**keys)
                self.assertEqual(before, self.control.state())

    def test_default_world_has_network_bridge(self):
        (bridge,) = worlds.default()['systems'][0]['network_bridges']
        self.assertEqual(('vios1', 1), (bridge['vios'], bridge['pvid']))

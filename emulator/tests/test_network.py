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

from . import base


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
        self.assertIn(
            {'name': 'MGMT', 'uuid': made.uuid, 'mode': 'Vepa'},
            self.control.state()['systems'][0]['virtual_switches'],
        )
        self.assertEqual(2, self.create_switch('OTHER').switch_id)
        made.delete()
        self.assertEqual(1, self.create_switch('AGAIN').switch_id)
        self.assertEqual({'ETHERNET0', 'OTHER', 'AGAIN'}, set(self.switches()))

    def test_create_refuses_invalid_or_seventeenth_switch(self):
        hub = self.build_switch('a', switch_mode='Hub')
        body = network.VNet.bld(self.adapter, 'n', 1, 'x', True)
        path = ('ManagedSystem', self.system().uuid, 'VirtualSwitch')
        system = {'parent': self.system()}
        for number in range(14):
            self.create_switch(f'S{number}')
        for status, message, function, *arguments in (
            (500, "'ETHERNET0' already", self.create_switch, 'ETHERNET0'),
            (500, 'already', self.create_switch, 'ETHERNET0(Default)'),
            (500, 'SwitchName', self.create_switch, ''),
            (
                400,
                'The body is a VirtualNetwork',
                self.adapter.create,
                body,
                *path,
            ),
        ):
            with self.subTest(message, arguments=arguments):
                self.assert_refused(status, message, function, *arguments)
        message = "'Hub' is not Veb or Vepa for SwitchMode"
        self.assert_refused(400, message, hub.create, **system)
        self.create_switch('S14')
        message = '16 virtual switches'
        self.assert_refused(500, message, self.create_switch, 'S')

    def test_update_changes_name_and_mode_but_not_id(self):
        made, old = self.create_switch('MGMT'), self.switches()['MGMT']
        made.name, made.mode = 'OTHER', 'Vepa'
        made.set_parm_value('SwitchID', 7)
        changed = made.update()
        self.assertEqual(
            ('OTHER', 'Vepa', 1),
            (changed.name, changed.mode, changed.switch_id),
        )
        self.assert_refused(412, 'If-Match', old.delete)
        changed.name = 'ETHERNET0'
        self.assert_refused(500, 'already', changed.update)
        self.assertEqual({'ETHERNET0', 'OTHER'}, set(self.switches()))

    def test_delete_refuses_default_switch_and_one_in_use(self):
        delete = self.switches()['ETHERNET0'].delete
        self.assert_refused(500, 'default', delete)
        self.create_switch('MGMT')
        vm = self.create()
        for message, made in (
            (
                "MGMT is in use .* slot 2 of the partition 'vm1'",
                cna.crt_cna(self.adapter, None, vm.uuid, 5, vswitch='MGMT'),
            ),
            ('VLAN 7', self.create_network(7, switch='MGMT')),
        ):
            delete = self.switches()['MGMT'].delete
            self.assert_refused(500, message, delete)
            made.delete()
        self.switches()['MGMT'].delete()
        self.assertEqual({'ETHERNET0'}, set(self.switches()))


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
            500, "VLAN 7 is in use .* 'vm1'", self.networks()['blue'].delete
        )
        adapter.delete()
        self.assertEqual(made.uuid, self.networks()['blue'].uuid)
        self.networks()['blue'].delete()
        self.assertEqual({'ETHERNET0-1'}, set(self.networks()))

    def test_create_refuses_vlan_with_network_and_invalid_one(self):
        create = self.create_network
        self.assert_each_refused(
            (500, 'VLAN 1 already', create, 1),
            (400, '1 to 4094', create, 0),
            (400, '1 to 4094', create, 4095),
        )

    def test_update_changes_name_but_refuses_vlan(self):
        made = self.create_network(7, 'blue')
        made.name = 'green'
        self.assertEqual('green', made.update().name)
        made = self.networks()['green']
        made.vlan = 8
        self.assert_refused(500, 'NetworkVLANID', made.update)


class NetworkWorldTest(NetworkTestCase):
    def load(self, **keys):
        """Load a world with two VIOSes, one partition and the given keys."""
        size = {'memory': 1024, 'processors': 1}
        vm = {'name': 'vm', 'adapters': keys.pop('adapters', []), **size}
        servers = [
            {'name': f'vios{number}', 'id': number, **size}
            for number in (1, 2)
        ]
        system = {'virtual_io_servers': servers, 'partitions': [vm], **keys}
        self.control.load_world({'systems': [{'name': 'machine', **system}]})
        return self.control.state()['systems'][0]

    def test_world_without_network_keys_has_default_switch(self):
        state = self.load()
        (switch,) = state['virtual_switches']
        self.assertEqual(
            ('ETHERNET0(Default)', 'Veb'), (switch['name'], switch['mode'])
        )
        self.assertEqual([], state['network_bridges'])

    def test_world_keys_describe_switches_bridges_and_adapters(self):
        vioses = {'vios': 'vios1', 'failover_vios': 'vios2'}
        state = self.load(
            virtual_switches=[
                {'name': 'ETHERNET0(Default)'},
                {'name': 'MGMT', 'mode': 'Vepa'},
            ],
            network_bridges=[
                {**vioses, 'pvid': 1, 'vlans': [30, 10, 20]},
                {'vios': 'vios2', 'pvid': 2, 'vlans': [4094]},
                {'vios': 'vios1', 'switch': 'MGMT', 'pvid': 1},
            ],
            adapters=[
                {'vlan': 10, 'mac': 'FA:16:3E:00:00:0a'},
                {'vlan': 10, 'switch': 'MGMT'},
            ],
        )
        self.assertEqual(
            [
                (['vios1', 'vios2'], 1, [10, 20, 30], 'ETHERNET0(Default)'),
                (['vios2'], 2, [4094], 'ETHERNET0(Default)'),
                (['vios1'], 1, [], 'MGMT'),
            ],
            [
                (one['vioses'], one['pvid'], one['vlans'], one['switch'])
                for one in state['network_bridges']
            ],
        )
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
        bridges, adapters = 'network_bridges', 'adapters'
        for message, key, *items in (
            ('VLAN 1 is on', bridges, bridge, {**bridge, 'vios': 'vios2'}),
            (
                'different Virtual I/O',
                *(bridges, {**bridge, 'failover_vios': 'vios1'}),
            ),
            ("no virtual switch 'X'", bridges, {**bridge, 'switch': 'X'}),
            (
                r"bridges\[0\].vios: unknown .* 'vm'",
                *(bridges, {**bridge, 'vios': 'vm'}),
            ),
            (r'adapters\[0\]: vlan is required', adapters, {}),
            (r'bridges\[0\]: pvid is required', bridges, {'vios': 'vios1'}),
            (r'switches\[0\]: name is required', 'virtual_switches', {}),
            ('FA163E000001 is in use', adapters, mac, mac),
            ('less than the minimum', adapters, {'vlan': 0}),
        ):
            with self.subTest(message):
                with self.assertRaisesRegex(errors.WorldError, message):
                    self.load(**{key: items})
                self.assertEqual(before, self.control.state())

    def test_default_world_has_network_bridge(self):
        (bridge,) = worlds.default()['systems'][0]['network_bridges']
        self.assertEqual(('vios1', 1), (bridge['vios'], bridge['pvid']))

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

"""Network bridges, changed by pypowervm's network_bridger."""

from oslo_config import cfg
from pypowervm import const
from pypowervm import exceptions
from pypowervm.tasks import cna
from pypowervm.tasks import network_bridger
from pypowervm.wrappers import network
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import worlds

from . import base

VIOS2 = {
    'name': 'vios2',
    'id': 9,
    'state': 'running',
    'rmc_state': 'active',
    'memory': 4096,
    'processors': 1,
}


def world_with(*bridges):
    """Return the default world with a second VIOS and other bridges."""
    world = worlds.default()
    system = world['systems'][0]
    system['virtual_io_servers'].append(VIOS2)
    system['network_bridges'] = list(bridges)
    return world


class BridgeTestCase(base.EmulatorTestCase):
    def bridges(self):
        """Read and return the bridges."""
        return network.NetBridge.get(self.adapter, parent=self.system())

    def bridge(self):
        """Read and return the first bridge."""
        return self.bridges()[0]

    def ensure(self, *vlans, bridge=None):
        network_bridger.ensure_vlans_on_nb(
            self.adapter,
            self.system().uuid,
            (bridge or self.bridge()).uuid,
            vlans,
        )

    def take_off(self, vlan):
        network_bridger.remove_vlan_from_nb(
            self.adapter, self.system().uuid, self.bridge().uuid, vlan
        )

    def vioses(self):
        """Return the VIOSes with their network, by name."""
        found = virtual_io_server.VIOS.get(
            self.adapter, xag=[const.XAG.VIO_NET]
        )
        return {one.name: one for one in found}

    def shown(self, number=0):
        """Return a bridge as the control plane shows it."""
        return self.control.state()['systems'][0]['network_bridges'][number]

    def trunk_adapters(self, vios='vios1'):
        """Return the trunk adapters among a VIOS's network adapters."""
        found = network.CNA.get(self.adapter, parent=self.vioses()[vios])
        return [one for one in found if one.is_trunk]

    def assert_in_step(self):
        """Assert that all views of a bridge show the same trunk adapters."""
        for bridge in self.bridges():
            everywhere = set()
            for sea in bridge.seas:
                own = trunks(sea)
                everywhere |= own
                uuid = sea.vio_uri.partition('?')[0].rpartition('/')[2]
                (vios,) = (
                    one for one in self.vioses().values() if one.uuid == uuid
                )
                self.assertLessEqual(own, set(map(keys, vios.trunk_adapters)))
                self.assertIn(own, [trunks(other) for other in vios.seas])
                adapters = network.CNA.get(self.adapter, parent=vios)
                self.assertLessEqual(own, set(map(keys, adapters)))
            groups = [
                set(map(keys, group.trunk_adapters))
                for group in bridge.load_grps
            ]
            self.assertEqual(everywhere, set().union(*groups))


def trunks(sea):
    """Return the values that identify each trunk adapter of a SEA."""
    return {keys(trunk) for trunk in (sea.primary_adpt, *sea.addl_adpts)}


def keys(trunk):
    """Return the values that identify a trunk adapter, read in any way."""
    return (
        trunk.loc_code,
        trunk.element.findtext('MACAddress'),
        trunk.pvid,
        tuple(trunk.tagged_vlans),
        trunk.dev_name,
        trunk.trunk_pri,
        trunk.vswitch_id,
    )


class ReadBridgeTest(BridgeTestCase):
    def test_default_world_has_bridge_with_one_sea(self):
        bridge = self.bridge()
        (sea,) = bridge.seas
        self.assertEqual((1, 0), (bridge.pvid, bridge.vswitch_id))
        self.assertFalse(bridge.load_balance)
        self.assertEqual([1], bridge.list_vlans())
        self.assertEqual(
            ('ent5', 'ent4', 'ent0'),
            (
                sea.dev_name,
                sea.primary_adpt.dev_name,
                sea.backing_device.dev_name,
            ),
        )
        self.assertEqual('Configured', sea.configuration_state)
        self.assertEqual((True, 'disabled'), (sea.is_primary, sea.ha_mode))
        vios = self.vioses()['vios1']
        self.assertEqual(vios.id, sea.primary_adpt.vios_id)
        self.assertEqual([], vios.derive_orphan_trunk_adapters())
        self.assert_in_step()
        self.assertIs(bridge, bridge.refresh())

    def test_vios_read_without_group_omits_network(self):
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        self.assertIsNone(vios.element.find('SharedEthernetAdapters'))
        self.assertIsNone(vios.element.find('TrunkAdapters'))


class BridgeVlanTest(BridgeTestCase):
    def test_vlans_create_additional_trunk_adapter_until_last_goes(self):
        self.ensure(100, 101)
        bridge = self.bridge()
        self.assertEqual({1, 100, 101}, set(bridge.list_vlans()))
        (trunk,) = bridge.seas[0].addl_adpts
        self.assertEqual((4094, 3), (trunk.pvid, trunk.virtual_slot_number))
        self.assertTrue(trunk.has_tag_support and trunk.varied_on)
        self.assertEqual('ent6', trunk.dev_name)
        self.assertEqual([100, 101], self.shown()['vlans'])
        self.assert_in_step()
        self.take_off(100)
        self.assertEqual([101], self.shown()['vlans'])
        self.assert_in_step()
        self.take_off(101)
        self.assertEqual([], self.bridge().seas[0].addl_adpts)
        self.assertEqual(1, len(self.trunk_adapters()))
        self.assertEqual(1, len(self.vioses()['vios1'].trunk_adapters))
        self.assert_in_step()

    def test_later_vlan_joins_existing_trunk_adapter_in_one_update(self):
        self.ensure(100)
        before = {one.uuid: one.mac for one in self.trunk_adapters()}
        self.control.clear_journal()
        for vlans in (['101'], [100, 1]):
            self.ensure(*vlans)
        counts = self.control.journal_counts()
        self.assertEqual(1, counts['POST NetworkBridge.update'])
        (trunk,) = self.bridge().seas[0].addl_adpts
        self.assertEqual([100, 101], trunk.tagged_vlans)
        after = {one.uuid: one.mac for one in self.trunk_adapters()}
        self.assertEqual(before, after)
        self.assert_in_step()

    def test_vlans_over_20_create_second_trunk_adapter(self):
        self.ensure(*range(100, 125))
        sizes = [
            len(trunk.tagged_vlans)
            for trunk in self.bridge().seas[0].addl_adpts
        ]
        self.assertEqual([20, 5], sizes)
        self.assertEqual(list(range(100, 125)), self.shown()['vlans'])
        self.assert_in_step()

    def test_arbitrary_pvid_gives_way_to_requested_vlan(self):
        self.ensure(100)
        self.ensure(4094)
        bridge = self.bridge()
        self.assertEqual([4093], bridge.arbitrary_pvids)
        self.assertEqual([100, 4094], self.shown()['vlans'])
        self.assert_in_step()

    def test_removal_of_vlan_keeps_client_adapters_on_it(self):
        vm = self.create()
        adapter = cna.crt_cna(self.adapter, None, vm.uuid, 100)
        self.ensure(100)
        self.take_off(100)
        self.assertEqual([], self.shown()['vlans'])
        self.assertEqual(100, adapter.refresh().pvid)

    def test_provisioning_refuses_vlan_of_orphan_trunk_adapter(self):
        href = network.VSwitch.get(self.adapter, parent=self.system())[0]
        network.CNA.bld(
            self.adapter, 300, href.related_href, trunk_pri=1
        ).create(parent=self.vioses()['vios1'])
        (orphan,) = self.vioses()['vios1'].derive_orphan_trunk_adapters()
        self.assertEqual(300, orphan.pvid)
        self.assertRaises(
            exceptions.OrphanVLANFoundOnProvision, self.ensure, 300
        )
        (found,) = (one for one in self.trunk_adapters() if one.pvid == 300)
        found.delete()
        self.ensure(300)
        self.assert_in_step()

    def test_load_balancing_spreads_vlans_across_trunk_adapters(self):
        cfg.CONF.set_override('load_balance_vlan_across_veas', True)
        self.addCleanup(
            cfg.CONF.clear_override, 'load_balance_vlan_across_veas'
        )
        self.ensure(100)
        self.ensure(101)
        self.assertEqual(2, len(self.bridge().seas[0].addl_adpts))
        self.assert_in_step()

    def test_provisioning_retries_after_etag_mismatch(self):
        self.control.add_fault(
            method='POST', match='NetworkBridge.update', status=412
        )
        self.ensure(100)
        self.assertEqual([100], self.shown()['vlans'])


class FailoverBridgeTest(BridgeTestCase):
    world = world_with({'vios': 'vios1', 'failover_vios': 'vios2', 'pvid': 1})

    def test_vlans_are_added_and_removed_on_both_vioses(self):
        bridge = self.bridge()
        self.assertEqual(
            [(1, 'auto', True), (2, 'auto', False)],
            [
                (sea.primary_adpt.trunk_pri, sea.ha_mode, sea.is_primary)
                for sea in bridge.seas
            ],
        )
        self.ensure(100)
        for sea in self.bridge().seas:
            (trunk,) = sea.addl_adpts
            self.assertEqual([100], trunk.tagged_vlans)
            self.assertEqual(sea.primary_adpt.trunk_pri, trunk.trunk_pri)
        self.assertEqual(['vios1', 'vios2'], self.shown()['vioses'])
        self.assert_in_step()
        self.take_off(100)
        self.assertEqual([], self.shown()['vlans'])
        self.assertEqual(1, len(self.trunk_adapters('vios2')))
        self.ensure(*range(100, 122))
        self.take_off(121)
        self.ensure(4094)
        self.assertEqual([*range(100, 121), 4094], self.shown()['vlans'])
        self.assert_in_step()

    def test_update_refuses_different_vlans_on_vioses(self):
        self.ensure(100)
        bridge = self.bridge()
        bridge.seas[1].addl_adpts[0].tagged_vlans = [7]
        self.assert_refused(500, 'the same VLANs', bridge.update)

    def test_delete_of_vios_removes_its_side_of_bridge(self):
        self.ensure(100)
        self.control.set_partition('vios2', 'not activated', 'inactive')
        self.vioses()['vios2'].delete()
        self.assertEqual(['vios1'], self.shown()['vioses'])
        self.assert_in_step()
        self.control.set_partition('vios1', 'not activated', 'inactive')
        self.vioses()['vios1'].delete()
        self.assertEqual([], self.bridges())


class PeerBridgeTest(BridgeTestCase):
    """Two bridges on one virtual switch."""

    world = world_with(
        {'vios': 'vios1', 'pvid': 1, 'vlans': [100, 101]},
        {'vios': 'vios2', 'pvid': 2, 'vlans': [200]},
    )

    def test_provisioning_moves_vlan_from_peer_bridge(self):
        self.ensure(200)
        self.assertEqual([100, 101, 200], self.shown()['vlans'])
        self.assertEqual([], self.shown(1)['vlans'])
        self.assert_in_step()

    def test_update_refuses_vlan_or_pvid_of_peer_bridge(self):
        self.assertRaises(exceptions.PvidOfNetworkBridgeError, self.ensure, 2)
        bridge = self.bridge()
        bridge.seas[0].addl_adpts[0].tagged_vlans.append(200)
        message = "VLAN 200 is on the trunk adapter .* 'vios2'"
        self.assert_refused(500, message, bridge.update)
        bridge = self.bridge()
        bridge.seas[0].addl_adpts[0].pvid = 2
        self.assert_refused(500, 'VLAN 2 is on the trunk', bridge.update)
        self.assertEqual([100, 101], self.shown()['vlans'])
        self.assert_in_step()


class RefusedBridgeUpdateTest(BridgeTestCase):
    def setUp(self):
        super().setUp()
        self.ensure(100)
        self.before = self.control.state()

    def tearDown(self):
        self.assertEqual(self.before, self.control.state())
        super().tearDown()

    def post(self, change):
        bridge = self.bridge()
        change(bridge, bridge.seas[0].addl_adpts[0])
        return bridge.update()

    def test_update_refuses_impossible_bridge(self):
        def tag(*vlans):
            return lambda _, trunk: trunk.tagged_vlans.extend(vlans)

        def replace_primary(bridge, _):
            bridge.seas[0].primary_adpt.pvid = 77

        def remove_seas(bridge, _):
            bridge.seas = []

        self.assert_each_refused(
            (500, "'0' is not a VLAN", self.post, tag(0)),
            (500, "'4095' is not a VLAN", self.post, tag(4095)),
            (500, '21 tagged', self.post, tag(*range(200, 220))),
            (500, 'VLAN 1 is on two trunk adapters', self.post, tag(1)),
            (500, 'PVID of a network', self.post, lambda nb, _: nb._pvid(5)),
            (
                500,
                'No trunk adapter has the PVID 1',
                self.post,
                replace_primary,
            ),
            (500, 'cannot be changed', self.post, remove_seas),
            (500, 'slot 3 .* taken', self.post, self.add_trunk),
        )

    def add_trunk(self, _, trunk):
        """Add another trunk adapter with the slot of the given one."""
        switch = network.VSwitch.get(self.adapter, parent=self.system())[0]
        other = network.TrunkAdapter.bld(self.adapter, 50, [], switch)
        other.element.remove(other.element.find('UseNextAvailableHighSlotID'))
        other.set_parm_value('VirtualSlotNumber', 3)
        trunk.element.element.getparent().append(other.element.element)

    def test_trunk_adapter_of_bridge_refuses_direct_update_and_delete(self):
        (_, trunk) = self.trunk_adapters()
        self.assert_refused(500, 'of the network bridge', trunk.delete)
        trunk.pvid = 9
        self.assert_refused(500, 'of the network bridge', trunk.update)

    def test_update_refuses_outdated_etag(self):
        old = self.bridge()
        self.ensure(101)
        old.seas[0].addl_adpts[0].tagged_vlans.append(102)
        self.assert_refused(412, 'If-Match', old.update)
        self.take_off(101)


class UnreachableViosTest(BridgeTestCase):
    def test_update_and_delete_refuse_vios_without_rmc_or_off(self):
        self.control.set_partition('vios1', rmc_state='inactive')
        message = "of 'vios1' cannot be changed"
        self.assert_refused(500, message, self.ensure, 5)
        self.control.set_partition('vios1', 'not activated')
        self.assert_refused(500, "'not activated'", self.ensure, 5)
        self.assert_refused(500, "'not activated'", self.bridge().delete)


class CreateBridgeTest(BridgeTestCase):
    world = world_with({'vios': 'vios1', 'pvid': 1})

    def plan(
        self, pvid=7, device='ent1', servers=('vios1', 'vios2'), switch=0
    ):
        found = network.VSwitch.get(self.adapter, parent=self.system())
        return network.NetBridge.bld(
            self.adapter,
            pvid,
            [(self.vioses()[name].href, device) for name in servers],
            found[switch],
        )

    def create_bridge(self, *args, **options):
        return self.plan(*args, **options).create(parent=self.system())

    def test_create_on_two_vioses_enables_failover(self):
        made = self.create_bridge(8, servers=['vios2'], device='ent2')
        self.assertEqual('disabled', made.seas[0].ha_mode)
        made = self.create_bridge()
        self.assertEqual(
            [('auto', 'ent1')] * 2,
            [(sea.ha_mode, sea.backing_device.dev_name) for sea in made.seas],
        )
        self.assertEqual('true', made.element.findtext('FailoverEnabled'))
        self.ensure(100, bridge=made)
        self.assertEqual([100], self.shown(2)['vlans'])
        self.assert_in_step()

    def test_create_uses_chosen_virtual_switch(self):
        network.VSwitch.bld(self.adapter, 'B').create(parent=self.system())
        self.create_bridge(1, switch=1)
        self.assertEqual('B', self.shown(1)['switch'])

    def test_create_refuses_values_in_use_or_invalid(self):
        another_priority = self.plan(1, servers=['vios2'])
        another_priority.seas[0].primary_adpt._trunk_pri(5)
        unknown_vios = self.plan()
        href = unknown_vios.seas[0].vio_uri.rpartition('/')[0]
        unknown_vios.seas[0]._vio_uri(f'{href}/{self.system().uuid}')
        for status, message, planned in (
            (500, 'VLAN 1 is on the trunk', self.plan(1)),
            (500, 'VLAN 1 is on the trunk', another_priority),
            (500, "ent0 of 'vios1' backs another", self.plan(device='ent0')),
            (500, 'backing', self.plan(device='')),
            (500, 'different Virtual', self.plan(servers=['vios1', 'vios1'])),
            (400, '1 to 4094', self.plan(4095)),
            (500, 'no Virtual I/O Server', unknown_vios),
        ):
            with self.subTest(message):
                self.assert_refused(
                    status, message, planned.create, parent=self.system()
                )

    def test_delete_removes_seas_trunk_adapters_and_networks(self):
        made = self.create_bridge()
        self.ensure(100, bridge=made)
        self.bridges()[1].delete()
        self.assertEqual(1, len(self.bridges()))
        self.assertEqual([], self.trunk_adapters('vios2'))
        for name, count in (('vios1', 1), ('vios2', 0)):
            vios = self.vioses()[name]
            self.assertEqual(count, len(vios.seas))
            self.assertEqual(count, len(vios.trunk_adapters))
        found = network.VNet.get(self.adapter, parent=self.system())
        self.assertEqual([1], [one.vlan for one in found])
        self.create_bridge()

    def test_create_refuses_vios_without_free_virtual_slot(self):
        vios = self.vioses()['vios1']
        vios.io_config.set_parm_value('MaximumVirtualIOSlots', 4)
        vios.update()
        href = network.VSwitch.get(self.adapter, parent=self.system())[0]
        network.CNA.bld(self.adapter, 50, href.related_href).create(
            parent=self.vioses()['vios1']
        )
        before = self.control.state()
        message = "'vios1' has no free virtual slot"
        self.assert_refused(500, message, self.create_bridge)
        self.assertEqual(before, self.control.state())

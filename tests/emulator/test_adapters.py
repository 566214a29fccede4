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

"""Client network adapters, created and read through pypowervm."""

from pypowervm import exceptions
from pypowervm.tasks import cna
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import network
from pypowervm.wrappers import virtual_io_server

from tests.emulator import base

MAC = 'fa:16:3e:00:00:01'


class AdapterTestCase(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.vm = self.create()

    def adapters(self, uuid=None):
        """Read and return the adapters of a partition."""
        return network.CNA.get(
            self.adapter,
            parent_type=lpar.LPAR,
            parent_uuid=uuid or self.vm.uuid,
        )

    def plug(self, vlan=100, **options):
        """Create an adapter the way a driver does."""
        return cna.crt_cna(self.adapter, None, self.vm.uuid, vlan, **options)

    def switch(self):
        """Return the default switch."""
        (found,) = network.VSwitch.get(self.adapter, parent=self.system())
        return found

    def build_adapter(self, vlan=100, **options):
        """Build an adapter without creating it."""
        return network.CNA.bld(
            self.adapter, vlan, self.switch().related_href, **options
        )

    def put(self, adapter):
        return adapter.create(parent_type=lpar.LPAR, parent_uuid=self.vm.uuid)

    def partition(self, name):
        """Return a partition as the control plane shows it."""
        (found,) = (
            one
            for one in self.control.state()['systems'][0]['partitions']
            if one['name'] == name
        )
        return found

    def networks(self):
        """Return the VLANs that have a virtual network."""
        found = network.VNet.get(self.adapter, parent=self.system())
        return {one.vlan for one in found}


class CreateAdapterTest(AdapterTestCase):
    def test_create_fills_in_location_code_and_switch(self):
        made = self.plug()
        code = f'U9009.22A.EMU0001-V{self.vm.id}-C{made.slot}'
        self.assertEqual(code, made.loc_code)
        self.assertEqual(
            code,
            made.element.findtext('DynamicReconfigurationConnectorName'),
        )
        self.assertEqual(self.vm.id, made.lpar_id)
        self.assertEqual(0, made.vswitch_id)
        self.assertEqual(self.switch().related_href, made.vswitch_uri)
        self.assertTrue(made.enabled)
        self.assertFalse(made.is_tagged_vlan_supported)
        self.assertEqual([], made.tagged_vlans)
        self.assertFalse(made.is_trunk)
        self.assertEqual(made.uuid, made.uuid.lower())
        self.assertIsNone(made.element.find('UseNextAvailableHighSlotID'))

    def test_feed_and_entry_show_created_adapter(self):
        made = self.plug()
        # Created without groups, so read without groups.
        (listed,) = network.CNA.get(self.adapter, parent=self.vm, xag=[])
        self.assertEqual(made.uuid, listed.uuid)
        self.assertEqual(made.etag, listed.etag)
        (listed,) = self.adapters()
        self.assertIs(listed, listed.refresh())

    def test_feed_of_partition_without_adapters_is_empty(self):
        self.assertEqual([], self.adapters())

    def test_partition_links_to_its_adapters(self):
        made = self.plug()
        (link,) = self.read(self.vm.uuid).element.find('ClientNetworkAdapters')
        self.assertEqual(made.related_href, link.get('href'))

    def test_create_generates_distinct_local_unicast_mac_addresses(self):
        macs = {self.plug().mac for _ in range(8)}
        self.assertEqual(8, len(macs))
        for mac in macs:
            self.assertRegex(mac, '^[0-9A-F][26AE][0-9A-F]{10}$')

    def test_mac_address_is_same_for_same_seed(self):
        mac = self.plug().mac
        self.control.reset()
        self.vm = self.create()
        self.assertEqual(mac, self.plug().mac)

    def test_create_keeps_requested_mac_address(self):
        self.assertEqual('FA163E000001', self.plug(mac_addr=MAC).mac)

    def test_create_keeps_tagged_vlans(self):
        made = self.put(self.build_adapter(addl_tagged_vlans=[53, 54]))
        self.assertEqual([53, 54], made.tagged_vlans)
        self.assertTrue(made.is_tagged_vlan_supported)
        (shown,) = self.partition('vm1')['adapters']
        self.assertEqual([53, 54], shown['tagged'])

    def test_control_plane_state_shows_adapter(self):
        made = self.plug(mac_addr=MAC)
        self.assertEqual(
            [
                {
                    'uuid': made.uuid,
                    'mac': MAC,
                    'vlan': 100,
                    'tagged': [],
                    'switch': 'ETHERNET0(Default)',
                    'slot': made.slot,
                }
            ],
            self.partition('vm1')['adapters'],
        )

    def test_create_and_delete_emit_events(self):
        events = self.emulator._application._emulation.host.events
        events.poll('me', '', 0)
        made = self.plug()
        path = (
            f'/rest/api/uom/LogicalPartition/{self.vm.uuid}/'
            f'ClientNetworkAdapter/{made.uuid}'
        )
        seen = {(event.type, event.data) for event in events.poll('me', '', 0)}
        self.assertIn(('ADD_URI', path), seen)
        made.delete()
        seen = {(event.type, event.data) for event in events.poll('me', '', 0)}
        self.assertIn(('DELETE_URI', path), seen)

    def test_adapters_can_share_vlan(self):
        self.plug()
        self.plug()
        self.assertEqual(2, len(self.adapters()))


class VirtualSlotTest(AdapterTestCase):
    def test_next_high_slot_follows_highest_in_use(self):
        self.assertEqual(2, self.plug().slot)
        self.assertEqual(10, self.plug(slot_num=10).slot)
        self.assertEqual(11, self.plug().slot)

    def test_next_high_slot_wraps_to_lowest_free_slot(self):
        self.plug(slot_num=63)
        self.assertEqual(2, self.plug().slot)

    def test_next_low_slot_is_lowest_free_slot(self):
        mgmt = partition_tasks.get_mgmt_partition(self.adapter)
        for slot in (10, None, None):
            self.build_adapter(slot_num=slot).create(parent=mgmt)
        found = [one.slot for one in self.adapters(mgmt.uuid)]
        self.assertEqual([2, 3, 10], sorted(found))

    def test_create_without_slot_takes_lowest_free_slot(self):
        planned = self.build_adapter()
        planned.element.remove(
            planned.element.find('UseNextAvailableHighSlotID')
        )
        self.plug(slot_num=3)
        self.assertEqual(2, self.put(planned).slot)

    def test_delete_frees_slot(self):
        self.plug(slot_num=5).delete()
        self.assertEqual(5, self.plug(slot_num=5).slot)

    def test_create_refuses_slot_in_use(self):
        self.plug(slot_num=5)
        self.assert_refused(
            409,
            'slot 5 of the partition .vm1. is taken',
            self.plug,
            slot_num=5,
        )

    def test_create_refuses_partition_without_free_slot(self):
        vm = self.create('vm2', max_io_slots=4)
        for _ in range(2):
            cna.crt_cna(self.adapter, None, vm.uuid, 100)
        self.assert_refused(
            409,
            "'vm2' has no free virtual slot: MaximumVirtualIOSlots is 4",
            cna.crt_cna,
            self.adapter,
            None,
            vm.uuid,
            100,
        )

    def test_create_refuses_slots_outside_2_to_63(self):
        for slot in (0, 1, 64):
            self.assert_refused(400, '2 to 63', self.plug, slot_num=slot)


class RefusedAdapterTest(AdapterTestCase):
    def tearDown(self):
        self.assertEqual([], self.adapters())
        self.assertEqual({1}, self.networks())
        super().tearDown()

    def test_create_refuses_invalid_vlan(self):
        for vlan in (0, 4095, -1, 'x', ''):
            self.assert_refused(400, '1 to 4094', self.plug, vlan)

    def test_create_refuses_invalid_tagged_vlan(self):
        for tagged in ([0], [4095], ['x']):
            planned = self.build_adapter(addl_tagged_vlans=tagged)
            self.assert_refused(400, '1 to 4094', self.put, planned)

    def test_create_refuses_repeated_vlan(self):
        for tagged in ([5, 5], [100]):
            planned = self.build_adapter(addl_tagged_vlans=tagged)
            self.assert_refused(400, 'more than once', self.put, planned)

    def test_create_refuses_more_than_20_tagged_vlans(self):
        planned = self.build_adapter(addl_tagged_vlans=range(200, 221))
        self.assert_refused(400, '21 tagged VLANs', self.put, planned)

    def test_create_refuses_invalid_mac_address(self):
        for mac in ('00', 'x' * 12, '01005E000001', '0' * 12):
            self.assert_refused(400, 'MAC', self.plug, mac_addr=mac)

    def test_create_refuses_unknown_virtual_switch(self):
        uuid = '00000000-0000-4000-8000-000000000000'
        planned = self.build_adapter()
        href = planned.vswitch_uri.rpartition('/')[0]
        planned.vswitch_uri = f'{href}/{uuid}'
        self.assert_refused(
            409, f'no virtual switch with the uuid {uuid}', self.put, planned
        )

    def test_create_refuses_invalid_trunk_priority(self):
        for priority in (16, 'x'):
            planned = self.build_adapter(trunk_pri=priority)
            self.assert_refused(400, 'TrunkPriority', self.put, planned)

    def test_create_refuses_running_partition_without_rmc(self):
        self.control.set_partition('vm1', 'running', 'inactive')
        self.assert_refused(
            409, "network adapters of the partition 'vm1'", self.plug
        )

    def test_create_refuses_unknown_partition(self):
        self.assertRaises(
            exceptions.HttpNotFound,
            self.build_adapter().create,
            parent_type=virtual_io_server.VIOS,
            parent_uuid=self.vm.uuid,
        )


class MacAddressTest(AdapterTestCase):
    def test_create_refuses_mac_address_in_use_by_other_partition(self):
        self.plug(mac_addr=MAC)
        other = self.create('vm2')
        self.assert_refused(
            409,
            "MAC address FA163E000001 is in use .* partition 'vm1'",
            cna.crt_cna,
            self.adapter,
            None,
            other.uuid,
            200,
            mac_addr=MAC,
        )

    def test_delete_frees_mac_address(self):
        self.plug(mac_addr=MAC).delete()
        self.plug(mac_addr=MAC)

    def test_create_refuses_mac_address_of_trunk_adapter(self):
        (trunk,) = self.partition('vios1')['adapters']
        self.assert_refused(409, 'vios1', self.plug, mac_addr=trunk['mac'])


class ActivePartitionTest(AdapterTestCase):
    def test_running_partition_with_rmc_gains_and_loses_adapter(self):
        self.control.set_partition('vm1', 'running', 'active')
        self.plug().delete()
        self.assertEqual([], self.adapters())

    def test_delete_refuses_running_partition_without_rmc(self):
        made = self.plug()
        self.control.set_partition('vm1', 'running', 'inactive')
        self.assert_refused(409, 'no active RMC', made.delete)
        self.assertEqual(1, len(self.adapters()))

    def test_update_changes_vlan_of_running_partition_without_rmc(self):
        made = self.plug()
        self.control.set_partition('vm1', 'running', 'inactive')
        made.pvid = 300
        made.enabled = False
        changed = made.update()
        self.assertEqual((300, False), (changed.pvid, changed.enabled))

    def test_update_refuses_new_mac_address_without_rmc(self):
        made = self.plug()
        self.control.set_partition('vm1', 'running', 'inactive')
        made.mac = MAC
        self.assert_refused(409, 'no active RMC', made.update)


class UpdateAdapterTest(AdapterTestCase):
    def test_update_changes_pvid_and_tagged_vlans(self):
        made = self.plug()
        made.pvid = 200
        made.tagged_vlans = [201, 202]
        changed = made.update()
        self.assertEqual(200, changed.pvid)
        self.assertEqual([201, 202], changed.tagged_vlans)
        self.assertTrue(changed.is_tagged_vlan_supported)
        self.assertEqual({1, 200, 201, 202}, self.networks())

    def test_update_removes_tagged_vlans(self):
        made = self.put(self.build_adapter(addl_tagged_vlans=[53]))
        made.tagged_vlans = []
        self.assertEqual([], made.update().tagged_vlans)
        self.assertEqual({1, 100}, self.networks())

    def test_update_changes_mac_address(self):
        made = self.plug(mac_addr=MAC)
        made.mac = '02:00:00:00:00:02'
        self.assertEqual('020000000002', made.update().mac)

    def test_update_accepts_unchanged_mac_address(self):
        made = self.plug(mac_addr=MAC)
        made.pvid = 101
        self.assertEqual(101, made.update().pvid)

    def test_update_refuses_mac_address_in_use(self):
        self.plug(mac_addr=MAC)
        made = self.plug()
        made.mac = MAC
        self.assert_refused(409, 'in use', made.update)

    def test_update_refuses_invalid_vlan(self):
        made = self.plug()
        made.pvid = 4095
        self.assert_refused(400, '1 to 4094', made.update)
        self.assertEqual(100, self.adapters()[0].pvid)

    def test_update_refuses_another_slot(self):
        made = self.plug()
        made._slot(9)
        self.assert_refused(400, 'cannot be changed', made.update)

    def test_update_ignores_read_only_values(self):
        made = self.plug()
        code = made.loc_code
        made.set_parm_value('LocationCode', 'elsewhere')
        made.set_parm_value('LocalPartitionID', 1)
        changed = made.update()
        self.assertEqual(code, changed.loc_code)
        self.assertEqual(self.vm.id, changed.lpar_id)

    def test_update_changes_open_vswitch_external_ids(self):
        made = self.put(
            self.build_adapter(ovs_bridge='br-int', ovs_ext_ids='iface-id=a')
        )
        made.ovs_ext_ids = 'iface-id=b'
        self.assertEqual('iface-id=b', made.update().ovs_ext_ids)

    def test_update_and_delete_refuse_outdated_etag(self):
        made = self.plug()
        other = self.adapters()[0]
        other.pvid = 5
        other.update()
        made.pvid = 6
        self.assert_refused(412, 'If-Match', made.update)
        self.assert_refused(412, 'If-Match', made.delete)


class DeleteAdapterTest(AdapterTestCase):
    def test_delete_removes_adapter_and_its_virtual_network(self):
        made = self.plug()
        self.assertEqual({1, 100}, self.networks())
        made.delete()
        self.assertEqual([], self.adapters())
        self.assertEqual({1}, self.networks())
        links = self.read(self.vm.uuid).element.find('ClientNetworkAdapters')
        self.assertEqual(0, len(links))

    def test_delete_of_partition_removes_its_adapters(self):
        self.plug(mac_addr=MAC)
        self.read(self.vm.uuid).delete()
        self.assertEqual({1}, self.networks())
        self.vm = self.create()
        self.assertEqual([], self.adapters())
        self.plug(mac_addr=MAC)

    def test_delete_refuses_adapter_of_another_partition(self):
        made = self.plug()
        other = self.create('vm2')
        self.assertRaises(
            exceptions.HttpNotFound,
            self.adapter.delete,
            'LogicalPartition',
            other.uuid,
            child_type='ClientNetworkAdapter',
            child_id=made.uuid,
        )

    def test_update_of_partition_keeps_its_adapters(self):
        self.plug()
        found = self.read(self.vm.uuid)
        links = found.element.find('ClientNetworkAdapters')
        links.remove(links[0])
        found.name = 'other'
        found.update()
        found = self.read(self.vm.uuid)
        self.assertEqual('other', found.name)
        self.assertEqual(1, len(found.element.find('ClientNetworkAdapters')))


class TrunkAdapterTest(AdapterTestCase):
    """Trunk adapters that belong to no bridge, for Open vSwitch."""

    def setUp(self):
        super().setUp()
        self.mgmt = partition_tasks.get_mgmt_partition(self.adapter)

    def pair(self):
        return cna.crt_p2p_cna(
            self.adapter,
            None,
            self.vm.uuid,
            [self.mgmt.uuid],
            'NovaLinkVEABridge',
            mac_addr=MAC,
            dev_name='tap0',
            ovs_bridge='br-int',
            ovs_ext_ids='iface-id=1',
            configured_mtu=1450,
        )

    def test_point_to_point_pair_finds_each_other(self):
        client, (trunk,) = self.pair()
        self.assertEqual(trunk.pvid, client.pvid)
        self.assertEqual(1, trunk.vswitch_id)
        self.assertEqual('tap0', trunk.dev_name)
        self.assertEqual(1450, trunk.configured_mtu)
        self.assertTrue(trunk.is_trunk)
        (found,) = cna.find_trunks(self.adapter, client)
        self.assertEqual(trunk.uuid, found.uuid)
        (found,) = cna.find_cnas_on_trunk(trunk)
        self.assertEqual(client.uuid, found.uuid)

    def test_pairs_have_vlans_of_their_own(self):
        first, _ = self.pair()
        first.mac = '02:00:00:00:00:01'
        first.update()
        second, _ = self.pair()
        self.assertNotEqual(first.pvid, second.pvid)

    def test_trunk_adapter_is_orphan_once_its_client_is_deleted(self):
        client, (trunk,) = self.pair()
        orphans = cna.find_orphaned_trunks(self.adapter, 'NovaLinkVEABridge')
        self.assertEqual([], orphans)
        client.delete()
        (orphan,) = cna.find_orphaned_trunks(self.adapter, 'NovaLinkVEABridge')
        self.assertEqual(trunk.uuid, orphan.uuid)

    def test_client_moved_to_free_vlan_has_no_trunk_adapter(self):
        client, _ = self.pair()
        moved = cna.assign_free_vlan(
            self.adapter, None, self.vswitch('NovaLinkVEABridge'), client
        )
        self.assertEqual([], cna.find_trunks(self.adapter, moved))

    def vswitch(self, name):
        return network.VSwitch.search(
            self.adapter,
            parent_type='ManagedSystem',
            parent_uuid=self.system().uuid,
            one_result=True,
            name=name,
        )

    def test_create_refuses_vlan_of_trunk_adapter_with_same_priority(self):
        self.build_adapter(50, trunk_pri=1).create(parent=self.mgmt)
        self.assert_refused(
            409,
            "VLAN 50 is on the trunk adapter .* 'novalink'",
            self.put,
            self.build_adapter(60, trunk_pri=1, addl_tagged_vlans=[50, 51]),
        )
        self.put(self.build_adapter(50, trunk_pri=2))

    def test_create_refuses_second_trunk_adapter_of_vlan_in_partition(self):
        self.build_adapter(50, trunk_pri=1).create(parent=self.mgmt)
        self.assert_refused(
            409,
            'VLAN 50',
            self.build_adapter(50, trunk_pri=2).create,
            parent=self.mgmt,
        )

    def test_device_name_is_unknown_outside_management_partition(self):
        made = self.put(self.build_adapter(dev_name='tap0'))
        self.assertEqual('Unknown', made.dev_name)

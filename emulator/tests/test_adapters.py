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

from . import base

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

    def switch(self, number=0):
        """Return a virtual switch, by default the first."""
        return network.VSwitch.get(self.adapter, parent=self.system())[number]

    def build_adapter(self, pvid=100, **options):
        """Build an adapter without creating it."""
        return network.CNA.bld(
            self.adapter, pvid, self.switch().related_href, **options
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
        name = made.element.findtext('DynamicReconfigurationConnectorName')
        self.assertEqual((code, code), (made.loc_code, name))
        self.assertEqual((self.vm.id, 0), (made.lpar_id, made.vswitch_id))
        self.assertEqual(self.switch().related_href, made.vswitch_uri)
        self.assertTrue(made.enabled)
        self.assertFalse(made.is_tagged_vlan_supported or made.is_trunk)
        self.assertEqual([], made.tagged_vlans)
        self.assertEqual(made.uuid, made.uuid.lower())
        self.assertIsNone(made.element.find('UseNextAvailableHighSlotID'))

    def test_feed_and_entry_and_partition_show_created_adapter(self):
        self.assertEqual([], self.adapters())
        made = self.plug()
        # Created without groups, so read without groups.
        (listed,) = network.CNA.get(self.adapter, parent=self.vm, xag=[])
        self.assertEqual((made.uuid, made.etag), (listed.uuid, listed.etag))
        (listed,) = self.adapters()
        self.assertIs(listed, listed.refresh())
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

    def test_create_keeps_requested_mac_address_and_tagged_vlans(self):
        made = self.put(
            self.build_adapter(mac_addr=MAC, addl_tagged_vlans=[53, 54])
        )
        self.assertEqual('FA163E000001', made.mac)
        self.assertEqual([53, 54], made.tagged_vlans)
        self.assertTrue(made.is_tagged_vlan_supported)
        expected = {
            'uuid': made.uuid,
            'mac': MAC,
            'vlan': 100,
            'tagged': [53, 54],
            'switch': 'ETHERNET0(Default)',
            'slot': made.slot,
        }
        self.assertEqual([expected], self.partition('vm1')['adapters'])

    def test_create_and_delete_emit_events(self):
        events = self.emulator._application._emulation.host.events
        events.poll('me', '', 0)
        made = self.plug()
        path = (
            f'/rest/api/uom/LogicalPartition/{self.vm.uuid}/'
            f'ClientNetworkAdapter/{made.uuid}'
        )
        for kind in ('ADD_URI', 'DELETE_URI'):
            seen = events.poll('me', '', 0)
            self.assertIn((kind, path), {(one.type, one.data) for one in seen})
            if kind == 'ADD_URI':
                made.delete()


class VirtualSlotTest(AdapterTestCase):
    def test_next_high_slot_follows_highest_in_use_or_wraps(self):
        for requested, slot in ((None, 2), (10, 10), (None, 11), (63, 63)):
            self.assertEqual(slot, self.plug(slot_num=requested).slot)
        self.assertEqual(3, self.plug().slot)

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

    def test_create_refuses_slot_in_use_until_delete_frees_it(self):
        made = self.plug(slot_num=5)
        message = 'slot 5 of the partition .vm1. is taken'
        self.assert_refused(500, message, self.plug, slot_num=5)
        made.delete()
        self.assertEqual(5, self.plug(slot_num=5).slot)

    def test_create_refuses_partition_without_free_slot(self):
        self.vm = self.create('vm2', max_io_slots=4)
        self.plug()
        self.plug()
        message = "'vm2' has no free virtual slot: MaximumVirtualIOSlots is 4"
        self.assert_refused(500, message, self.plug)


class RefusedAdapterTest(AdapterTestCase):
    def tearDown(self):
        self.assertEqual([], self.adapters())
        self.assertEqual({1}, self.networks())
        super().tearDown()

    def test_create_refuses_invalid_values(self):
        vlans = 'addl_tagged_vlans'
        macs = ('00', 'x' * 12, '01005E000001', '0' * 12)
        for status, message, name, values in (
            (400, '1 to 4094', 'pvid', (0, 4095, -1, 'x', '')),
            (500, '1 to 4094', vlans, ([0], [4095], ['x'])),
            (500, 'more than once', vlans, ([5, 5], [100])),
            (500, '21 tagged VLANs', vlans, [range(200, 221)]),
            (500, 'MAC', 'mac_addr', macs),
            (400, 'TrunkPriority', 'trunk_pri', (16, 'x')),
            (500, '2 to 63', 'slot_num', (0, 1, 64)),
        ):
            for value in values:
                options = {'pvid': 100, name: value}
                with self.subTest(name, value=value):
                    planned = self.build_adapter(**options)
                    self.assert_refused(status, message, self.put, planned)

    def test_create_refuses_unknown_virtual_switch(self):
        uuid = '00000000-0000-4000-8000-000000000000'
        planned = self.build_adapter()
        href = planned.vswitch_uri.rpartition('/')[0]
        planned.vswitch_uri = f'{href}/{uuid}'
        self.assert_refused(
            500, f'no virtual switch with the uuid {uuid}', self.put, planned
        )

    def test_create_refuses_running_partition_without_rmc(self):
        self.control.set_partition('vm1', 'running', 'inactive')
        self.assert_refused(
            500, "network adapters of the partition 'vm1'", self.plug
        )

    def test_create_refuses_unknown_partition(self):
        self.assertRaises(
            exceptions.HttpNotFound,
            self.build_adapter().create,
            parent_type=virtual_io_server.VIOS,
            parent_uuid=self.vm.uuid,
        )


class MacAddressTest(AdapterTestCase):
    def test_create_refuses_mac_address_in_use_until_it_is_freed(self):
        made = self.plug(mac_addr=MAC)
        self.vm = self.create('vm2')
        message = "MAC address FA163E000001 is in use .* partition 'vm1'"
        self.assert_refused(500, message, self.plug, 200, mac_addr=MAC)
        made.delete()
        self.plug(mac_addr=MAC)

    def test_create_refuses_mac_address_of_trunk_adapter(self):
        (trunk,) = self.partition('vios1')['adapters']
        self.assert_refused(500, 'vios1', self.plug, mac_addr=trunk['mac'])


class ActivePartitionTest(AdapterTestCase):
    def test_running_partition_with_rmc_gains_and_loses_adapter(self):
        self.control.set_partition('vm1', 'running', 'active')
        self.plug().delete()
        self.assertEqual([], self.adapters())

    def test_running_partition_without_rmc_can_change_vlan_only(self):
        made = self.plug()
        self.control.set_partition('vm1', 'running', 'inactive')
        self.assert_refused(500, 'no active RMC', made.delete)
        made.pvid = 300
        made.enabled = False
        changed = made.update()
        self.assertEqual((300, False), (changed.pvid, changed.enabled))
        changed.mac = MAC
        self.assert_refused(500, 'no active RMC', changed.update)
        self.assertEqual(1, len(self.adapters()))


class UpdateAdapterTest(AdapterTestCase):
    def test_update_changes_pvid_and_tagged_vlans(self):
        made = self.plug()
        made.pvid = 200
        made.tagged_vlans = [201, 202]
        changed = made.update()
        self.assertEqual(
            (200, [201, 202]), (changed.pvid, changed.tagged_vlans)
        )
        self.assertTrue(changed.is_tagged_vlan_supported)
        self.assertEqual({1, 200, 201, 202}, self.networks())
        changed.tagged_vlans = []
        self.assertEqual([], changed.update().tagged_vlans)
        self.assertEqual({1, 200}, self.networks())

    def test_update_keeps_or_changes_mac_address(self):
        made = self.plug(mac_addr=MAC)
        made.pvid = 101
        made = made.update()
        self.assertEqual(101, made.pvid)
        made.mac = '02:00:00:00:00:02'
        self.assertEqual('020000000002', made.update().mac)

    def test_update_refuses_mac_address_in_use_and_invalid_values(self):
        self.plug()
        self.plug(mac_addr=MAC)
        before = self.adapters()[0]
        for status, message, name, value in (
            (500, 'in use', 'MACAddress', MAC.replace(':', '').upper()),
            (400, '1 to 4094', 'PortVLANID', 4095),
            (500, 'cannot be changed', 'VirtualSlotNumber', 9),
        ):
            with self.subTest(name):
                planned = self.adapters()[0]
                planned.set_parm_value(name, value)
                self.assert_refused(status, message, planned.update)
                self.assertIs(before, before.refresh())

    def test_update_ignores_read_only_values(self):
        made = self.plug()
        before = (made.loc_code, self.vm.id)
        made.set_parm_value('LocationCode', 'elsewhere')
        made.set_parm_value('LocalPartitionID', 1)
        changed = made.update()
        self.assertEqual(before, (changed.loc_code, changed.lpar_id))

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
        self.assertEqual((client.pvid, 1), (trunk.pvid, trunk.vswitch_id))
        self.assertEqual('tap0', trunk.dev_name)
        self.assertEqual((1450, True), (trunk.configured_mtu, trunk.is_trunk))
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
        switch = self.switch(1)
        moved = cna.assign_free_vlan(self.adapter, None, switch, client)
        self.assertEqual([], cna.find_trunks(self.adapter, moved))

    def test_create_refuses_vlan_of_trunk_adapter(self):
        """With the same priority, or in the same partition."""
        self.build_adapter(50, trunk_pri=1).create(parent=self.mgmt)
        planned = self.build_adapter(
            60, trunk_pri=1, addl_tagged_vlans=[50, 51]
        )
        message = "VLAN 50 is on the trunk adapter .* 'novalink'"
        self.assert_refused(500, message, self.put, planned)
        other = self.build_adapter(50, trunk_pri=2)
        self.assert_refused(500, 'VLAN 50', other.create, parent=self.mgmt)
        self.put(self.build_adapter(50, trunk_pri=2))

    def test_device_name_is_unknown_outside_management_partition(self):
        made = self.put(self.build_adapter(dev_name='tap0'))
        self.assertEqual('Unknown', made.dev_name)

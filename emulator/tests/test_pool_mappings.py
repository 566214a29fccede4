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

"""Mappings of logical units, through pypowervm."""

from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import event
from pypowervm.wrappers import storage

from . import pools


class PoolMappingTest(pools.PoolTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.create()
        self.disk = self.client.unit('disk1', 2)

    def test_mapping_shows_the_unit_and_its_target(self):
        mapping = self.client.map(self.lpar, self.disk)
        self.assertIsInstance(mapping.backing_storage, storage.LU)
        self.assertEqual(self.disk.udid, mapping.backing_storage.udid)
        self.assertEqual(2, mapping.backing_storage.capacity)
        self.assertIsNone(mapping.backing_storage.in_use)
        self.assertIsInstance(mapping.target_dev, storage.LUTargetDev)
        self.assertEqual('vtscsi0', mapping.target_dev.name)
        self.assertEqual('disk1', mapping.server_adapter.backing_dev_name)

    def test_slot_and_address_are_those_asked_for_unless_they_are_taken(self):
        lua = '0x8700000000000000'
        mapping = self.client.map(
            self.lpar, self.disk, lpar_slot_num=9, lua=lua
        )
        self.assertEqual(9, mapping.client_adapter.lpar_slot_num)
        self.assertEqual(lua, mapping.target_dev.lua)
        other = self.client.unit('disk2')
        for message, vios, options in (
            ('virtual slot 9 .* is taken', 'vios2', {'lpar_slot_num': 9}),
            (f'address {lua} is taken', 'vios1', {'lua': lua}),
        ):
            given = (self.lpar, other, vios)
            self.assert_unchanged(
                500, message, self.client.map, *given, **options
            )

    def test_unit_is_mapped_by_several_nodes(self):
        slots = {
            self.client.map(
                self.lpar, self.disk, name
            ).client_adapter.lpar_slot_num
            for name in ('vios1', 'vios2')
        }
        self.assertEqual(2, len(slots))

    def test_server_maps_the_unit_to_one_client(self):
        self.client.map(self.lpar, self.disk)
        other = self.create('vm2')
        self.assert_unchanged(
            500, 'is mapped to', self.client.map, other, self.disk
        )
        self.client.map(other, self.disk, 'vios2')

    def test_units_of_one_name_are_different(self):
        same = self.client.unit('disk1')
        # For one client, pypowervm takes a name for the unit itself.
        other = self.create('vm2')
        for lpar, unit in ((self.lpar, self.disk), (other, same)):
            mapping = self.client.map(lpar, unit)
            self.assertEqual(unit.udid, mapping.backing_storage.udid)
        self.assertEqual(
            [self.disk.udid, same.udid],
            [
                one.backing_storage.udid
                for one in self.client.vios().scsi_mappings
            ],
        )

    def test_mapping_refuses_other_or_stopped_server_and_deleted_unit(self):
        gone = self.client.unit()
        gone.delete()
        for message, unit, vios in (
            ('vios3 has no LogicalUnit', self.disk, 'vios3'),
            ('has no LogicalUnit', gone, 'vios1'),
            ('vios1 is no active node', self.disk, 'vios1'),
        ):
            if 'active' in message:
                self.control.set_partition(vios, state='not activated')
            given = (self.lpar, unit, vios)
            self.assert_unchanged(500, message, self.client.map, *given)

    def test_unit_is_in_use_while_active_partition_and_server_have_it(self):
        before = self.disk
        self.client.map(self.lpar, self.disk)
        self.assertFalse(self.disk.refresh().in_use)
        self.control.set_partition('vm1', state='running')
        used = before.refresh()
        self.assertTrue(used.in_use)
        self.assertNotEqual(before.etag, used.etag)
        for name in ('vios1', 'vm1'):
            self.control.set_partition(name, state='not activated')
            self.assertFalse(used.refresh().in_use)
            self.control.set_partition(name, state='running')
            self.assertTrue(used.refresh().in_use)

    def test_pool_shows_use_of_unit_when_partition_starts_and_stops(self):
        self.client.map(self.lpar, self.disk)
        pool = self.client.pool()
        event.Event.get(self.adapter, 'test')
        for state in ('running', 'not activated'):
            with self.subTest(state):
                self.control.set_partition('vm1', state=state)
                pool = pool.refresh()
                (unit,) = pool.logical_units
                self.assertEqual(state == 'running', unit.in_use)
                changed = [
                    found.data.partition('/uom/')[2]
                    for found in event.Event.get(self.adapter, 'test')
                ]
                self.assertIn(f'SharedStoragePool/{pool.uuid}', changed)

    def test_mapped_unit_is_not_deleted(self):
        self.client.map(self.lpar, self.disk)
        self.client.map(self.lpar, self.disk, 'vios2')
        self.client.unmap(self.lpar)
        self.assert_unchanged(500, 'vios2 of host1 maps it', self.disk.delete)
        self.client.unmap(self.lpar, 'vios2')
        other = self.client.unit('disk2')
        self.disk.delete()
        # An orphan keeps its unit.
        self.client.map(self.lpar, other)
        self.lpar.delete()
        self.assert_unchanged(500, 'maps it', other.refresh().delete)

    def test_unit_of_stopped_server_is_deleted_and_its_storage_is_gone(self):
        self.client.map(self.lpar, self.disk)
        self.control.set_partition('vios1', state='not activated')
        self.disk.delete()
        self.control.set_partition('vios1', state='running')
        (mapping,) = self.client.vios().scsi_mappings
        self.assertIsNone(mapping.backing_storage)
        self.assertIsNone(mapping.server_adapter.backing_dev_name)
        vios = self.client.vios()
        scsi_mapper.remove_maps(vios, self.lpar.uuid)
        self.assertEqual([], list(vios.update().scsi_mappings))

    def test_mapping_shows_new_name_and_size(self):
        self.client.map(self.lpar, self.disk)
        self.disk._name('renamed')
        self.disk._capacity(3)
        self.disk.update()
        (mapping,) = self.client.vios().scsi_mappings
        self.assertEqual('renamed', mapping.backing_storage.name)
        self.assertEqual(3, mapping.backing_storage.capacity)
        self.assertEqual('renamed', mapping.server_adapter.backing_dev_name)

    def test_node_shows_new_name_of_its_server(self):
        vios = self.client.vios()
        vios.name = 'renamed'
        vios.update()
        (cluster,) = self.control.state()['clusters']
        self.assertEqual('renamed', cluster['nodes'][0]['name'])

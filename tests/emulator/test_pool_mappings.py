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

from tests.emulator import pools


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

    def test_slot_and_address_are_those_that_were_asked_for(self):
        mapping = self.client.map(
            self.lpar, self.disk, lpar_slot_num=9, lua='0x8700000000000000'
        )
        self.assertEqual(9, mapping.client_adapter.lpar_slot_num)
        self.assertEqual('0x8700000000000000', mapping.target_dev.lua)

    def test_taken_slot_and_address_are_refused(self):
        self.client.map(
            self.lpar, self.disk, lpar_slot_num=9, lua='0x8700000000000000'
        )
        other = self.client.unit('disk2')
        self.assert_unchanged(
            409,
            'virtual slot 9 .* is taken',
            self.client.map,
            self.lpar,
            other,
            'vios2',
            lpar_slot_num=9,
        )
        self.assert_unchanged(
            409,
            'address 0x8700000000000000 is taken',
            self.client.map,
            self.lpar,
            other,
            lua='0x8700000000000000',
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
            409, 'is mapped to', self.client.map, other, self.disk
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

    def test_server_outside_the_cluster_is_refused(self):
        self.assert_unchanged(
            409,
            'vios3 has no LogicalUnit',
            self.client.map,
            self.lpar,
            self.disk,
            'vios3',
        )

    def test_server_that_is_not_running_is_refused(self):
        self.control.set_partition('vios1', state='not activated')
        self.assert_unchanged(
            409,
            'vios1 is no active node',
            self.client.map,
            self.lpar,
            self.disk,
        )

    def test_unit_that_is_not_there_is_refused(self):
        gone = self.client.unit()
        gone.delete()
        self.assert_unchanged(
            409, 'has no LogicalUnit', self.client.map, self.lpar, gone
        )

    def test_unit_is_in_use_while_active_partition_has_it(self):
        before = self.disk
        self.client.map(self.lpar, self.disk)
        self.assertFalse(self.disk.refresh().in_use)
        self.control.set_partition('vm1', state='running')
        used = before.refresh()
        self.assertTrue(used.in_use)
        self.assertNotEqual(before.etag, used.etag)
        self.control.set_partition('vm1', state='not activated')
        self.assertFalse(used.refresh().in_use)

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

    def test_unit_is_not_in_use_without_running_server(self):
        self.client.map(self.lpar, self.disk)
        self.control.set_partition('vm1', state='running')
        self.control.set_partition('vios1', state='not activated')
        self.assertFalse(self.disk.refresh().in_use)
        self.control.set_partition('vios1', state='running')
        self.assertTrue(self.disk.refresh().in_use)

    def test_mapped_unit_is_not_deleted(self):
        self.client.map(self.lpar, self.disk)
        self.client.map(self.lpar, self.disk, 'vios2')
        self.client.unmap(self.lpar)
        self.assert_unchanged(409, 'vios2 of host1 maps it', self.disk.delete)
        self.client.unmap(self.lpar, 'vios2')
        self.disk.delete()

    def test_orphan_keeps_the_unit(self):
        self.client.map(self.lpar, self.disk)
        self.lpar.delete()
        self.assert_unchanged(409, 'maps it', self.disk.delete)

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

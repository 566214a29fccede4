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

"""Logical units: their contents and their mappings."""

import io

from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import event
from pypowervm.wrappers import storage

from powervm_emulator.core import errors

from . import pools
from . import storage as storage_base

MB = pools.MB
# 16 MB, in GB.
SMALL = 1 / 64


class ContentsTest(pools.PoolTestCase):
    def test_upload_is_the_contents_and_takes_space(self):
        data = b'x' * MB
        image = self.client.image(data=data)
        self.assertEqual(data, self.control.contents(image.udid))
        shown = self.shown_unit('image1')
        self.assertEqual(storage_base.sha256(data), shown['sha256'])
        self.assertEqual(MB, shown['size'])
        self.assertEqual(round(10 - 1 / 1024, 6), self.shown()['free'])

    def refuse_upload(self, message, file, data=b'x'):
        """Assert that data for a File are refused."""
        upload = self.adapter.upload_file
        self.assert_refused(
            500, message, upload, file.element, io.BytesIO(data)
        )

    def test_upload_goes_through_any_active_node_and_no_other_server(self):
        image, create = self.client.image(), self.client.file
        self.client.upload(image, b'through the other', 'vios2')
        found = self.control.contents(image.udid)
        self.assertEqual(b'through the other', found)
        self.assert_refused(500, 'no virtual disk', create, image, 'vios3')
        file = create(image)
        self.control.set_partition('vios1', state='not activated')
        message = 'vios1 is no active node'
        self.assert_refused(500, message, create, image)
        self.refuse_upload(message, file)

    def test_contents_are_those_of_file_download(self):
        image = self.client.image(data=b'image')
        file = self.client.file(image)
        path = f'/rest/api/web/File/contents/{file.uuid}'
        response = self.adapter.session.request(
            'GET', path, headers={'Accept': '*/*'}
        )
        self.assertEqual('image', response.body)

    def test_guest_changes_only_its_own_disk(self):
        """A clone begins with the contents of its image."""
        image = self.client.image(data=b'image')
        clone, other = (
            self.client.clone(image, name) for name in ('clone1', 'clone2')
        )
        self.assertEqual(b'image', self.control.contents(clone.udid))
        self.assertEqual(0, self.shown_unit('clone1')['used'])
        written = self.write(clone, b'MAGES', offset=1)
        self.assertEqual(b'iMAGES', self.control.contents(clone.udid))
        self.assertEqual(storage_base.sha256(b'iMAGES'), written['sha256'])
        self.assertEqual(6, written['size'])
        clone.refresh().delete()
        with self.assertRaisesRegex(errors.ControlError, '0 contents'):
            self.control.contents(clone.udid)
        for unit in (image, other):
            self.assertEqual(b'image', self.control.contents(unit.udid))

    def test_guest_takes_space_for_what_it_changes(self):
        image = self.client.image(data=b'x' * MB)
        clone = self.client.clone(image)
        self.write(clone, b'y' * 10, offset=MB - 5)
        self.assertEqual(round(2 / 1024, 6), self.shown_unit('clone1')['used'])
        self.write(clone, b'z' * 10, offset=MB - 5)
        self.assertEqual(round(2 / 1024, 6), self.shown_unit('clone1')['used'])

    def test_guest_writes_to_blank_disk(self):
        unit = self.client.unit()
        self.write(unit, b'swap', offset=3)
        self.assertEqual(b'\0\0\0swap', self.control.contents(unit.udid))

    def test_grown_clone_keeps_its_contents_and_ends_with_zeros(self):
        image = self.client.image(size=SMALL, data=b'image')
        clone = self.client.clone(image, size=SMALL)
        self.write(clone, b'I')
        with self.assertRaisesRegex(errors.ControlError, 'not within'):
            self.write(clone, b'end', 16 * MB)
        used = self.shown_unit('clone1')['used']
        clone = clone.refresh()
        clone._capacity(2 * SMALL)
        clone.update()
        self.assertEqual(used, self.shown_unit('clone1')['used'])
        self.assertEqual(b'Image', self.control.contents(clone.udid))
        self.assertEqual(b'image', self.control.contents(image.udid))
        self.write(clone, b'end', 16 * MB)
        zeros = bytes(16 * MB - len(b'image'))
        self.assertEqual(
            storage_base.sha256(b'Image' + zeros + b'end'),
            self.shown_unit('clone1')['sha256'],
        )

    def test_guest_cannot_write_beyond_disk_or_pool(self):
        unit = self.client.unit(size=SMALL)
        for data, offset in ((b'xx', 16 * MB - 1), (b'', 0), (b'x', -1)):
            with self.assertRaisesRegex(errors.ControlError, 'not within'):
                self.write(unit, data, offset)
        self.client.unit(size=10, thin=False)
        with self.assertRaisesRegex(errors.ControlError, '0 GB are free'):
            self.write(unit, b'x')
        with self.assertRaisesRegex(errors.ControlError, 'Base64'):
            self.control.write_disk(unit.udid, 'no base')
        with self.assertRaisesRegex(errors.ControlError, 'no disk has'):
            self.control.write_disk('27x', 'eA==')

    def test_upload_beyond_unit_or_pool_is_refused(self):
        unit, create = self.client.unit(size=SMALL), self.client.file
        large, message = 16 * MB + 1, 'does not fit'
        self.assert_unchanged(500, message, create, unit, f_size=large)
        self.refuse_upload(message, create(unit), b'x' * large)
        unit = self.client.unit()
        self.client.unit(size=10 - SMALL, thin=False)
        for byte in (b'x', b'y'):
            self.client.upload(unit, byte * 16 * MB)
        message = '0 GB are free'
        self.assert_unchanged(500, message, create, unit, f_size=17 * MB)

    def test_upload_to_image_with_clones_or_deleted_unit_is_refused(self):
        image = self.client.image(data=b'image')
        file = self.client.file(image)
        clone = self.client.clone(image)
        self.refuse_upload('has linked clones', file)
        self.assertEqual(b'image', self.control.contents(image.udid))
        clone.delete()
        image.refresh().delete()
        self.refuse_upload('no virtual disk', file)

    def test_upload_to_unit_of_active_partition_is_refused(self):
        unit = self.client.unit()
        self.client.map(self.create(), unit)
        self.client.file(unit)
        self.control.set_partition('vm1', state='running')
        self.assert_unchanged(500, 'is active', self.client.file, unit)

    def test_contents_go_with_world(self):
        image = self.client.image(data=b'image')
        self.control.reset()
        again = self.client.image()
        self.assertEqual(image.udid, again.udid)
        with self.assertRaisesRegex(errors.ControlError, '0 contents'):
            self.control.contents(again.udid)


class VolumeGroupTest(storage_base.StorageTestCase):
    def test_guest_changes_only_its_own_virtual_disk(self):
        image = self.disk('image', 1)
        self.upload(self.file(image.udid), b'image')
        disk = self.disk('disk', 1, base_image=image.udid)
        self.control.write_disk(disk.udid, 'WA==', 1, 'vios1')
        self.assertEqual(b'iXage', self.control.contents(disk.udid))
        self.assertEqual(b'image', self.control.contents(image.udid))


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

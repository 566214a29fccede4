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

"""Virtual disks on the emulated Virtual I/O Server."""

from unittest import mock

from pypowervm.wrappers import vios_file

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import volume_groups
from tests.unit.powervm.disk import group_host

DATA, DAMAGED = group_host.DATA, group_host.DAMAGED
LPAR, NAME = group_host.LPAR, group_host.NAME
roots = group_host.roots


class RootDiskTest(group_host.LocalDiskTestCase):
    def test_failed_removal_keeps_error_of_upload(self):
        self.control.add_fault(
            match='VolumeGroup.update', nth=2, every=True, status=500
        )
        with self.assertRaises(exception.ImageDamaged):
            self.make(DATA[:5], DAMAGED)

    def test_last_answer_saves_a_reading(self):
        self.make(DATA)
        self.disks.remove(LPAR)
        self.control.clear_journal()
        self.make(DATA)
        labels = [record['label'] for record in self.control.journal()]
        self.assertEqual(['VolumeGroup.update', 'File.create'], labels[:2])

    def test_concurrent_change_of_group_is_kept(self):
        self.make(DATA)
        self.disks.remove(LPAR)
        other = self.driver()
        self.make(DATA, lpar_uuid=self.lpar_named('archive'), disks=other)
        self.make(DATA)
        self.assertEqual(2, len(self.shown()))

    def test_fault_of_group_creates_no_second_disk(self):
        self.make(DATA)
        for fault in ({'status': 404}, {'drop': True, 'phase': 'after'}):
            with self.subTest(**fault):
                self.disks.remove(LPAR)
                self.control.add_fault(match='VolumeGroup.update', **fault)
                self.make(DATA)
                self.assertEqual(1, len(self.shown()))

    def test_removing_nothing_writes_nothing(self):
        self.control.clear_journal()
        self.disks.remove('4B1C2D3E-0F00-4000-8000-000000000001')
        methods = {record['method'] for record in self.control.journal()}
        self.assertEqual({'GET'}, methods)

    def test_disk_counted_by_placement_reserves_nothing(self):
        self.start(
            capacity=5.9, free=3.9, disks=[{'name': NAME, 'capacity': 2}]
        )
        # 5.9 - 3.9 - 2 is not quite nothing.
        self.assertEqual(
            host_values.DiskCapacity(total_gb=5, used_gb=2, reserved_gb=0),
            self.disks.capacity(),
        )

    def test_volume_group_of_large_units_rounds_up(self):
        self.start(unit=4)
        self.make(DATA, size=10)
        (disk,) = self.shown()
        self.assertEqual(12, disk['capacity'])
        # 48 GB are taken by others, and of 12 GB up to 3 are not counted.
        self.assertEqual(48 + 3, self.disks.capacity().reserved_gb)

    def test_busy_vios_is_waited_for_until_it_is_given_up(self):
        waits = []
        self.enterContext(mock.patch('tenacity.nap.time.sleep', waits.append))
        busy = {'match': 'VolumeGroup.update', 'status': 500}
        words = 'HSCL3205 The VIOS is busy processing some other request'
        self.control.add_fault(message=words, **busy)
        self.make(DATA)
        self.assertEqual(1, len(self.shown()))
        self.assertEqual([5.0], waits)
        self.control.add_fault(message='VIOS0014 busy', every=True, **busy)
        with self.assertRaises(exception.ViosBusy):
            self.disks.groups.change(lambda group: True)
        self.assertEqual([5.0, 5.0, 10.0], waits)

    def test_broken_pipe_of_source_is_raised_as_unreadable_image(self):
        # The HTTP library would take it for the server's.
        self.control.clear_journal()
        with self.assertRaises(exception.ImageUnreadable) as caught:
            self.make(DATA[:5], BrokenPipeError(32, 'Corrupt image download'))
        self.assertIn('Corrupt image download', str(caught.exception))
        self.assertEqual([], self.shown())

    def test_remove_deletes_storage_on_former_vios(self):
        elsewhere = self.driver(volume_group='other_pool')
        lpar = self.lpar_named('archive')
        stored = self.make(DATA, lpar_uuid=lpar, disks=elsewhere)
        elsewhere.attach(lpar, [stored])
        self.disks.remove(lpar)
        self.assertEqual([], self.shown())

    def test_remove_without_delete_only_unmaps(self):
        lpar = self.lpar_named('archive')
        self.disks.attach(lpar, [self.make(DATA, lpar_uuid=lpar)])
        self.disks.remove(lpar, delete=False)
        self.assertEqual(1, len(self.shown()))
        self.assertEqual([], self.vios()['scsi_mappings'])

    def test_check_room_counts_disks_of_the_instance_as_free(self):
        self.start(capacity=5, free=5)
        self.make(DATA, size=4)
        self.disks.check_room(LPAR, roots(5), None)
        words = 'image_pool has 5 GB free'
        with self.assertRaisesRegex(exception.InsufficientSpace, words):
            self.disks.check_room(LPAR, roots(6), None)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_room(self.lpar_named('archive'), roots(2), None)
        # Those of a rescue are beside them.
        self.disks.check_room(LPAR, roots(1), None, beside=True)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_room(LPAR, roots(2), None, beside=True)
        # A volume group of large units needs more room.
        self.start(capacity=12, free=11, unit=4)
        self.disks.check_room(LPAR, roots(8), None)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_room(LPAR, roots(9), None)

    def test_medium_needs_room_in_media_repository(self):
        self.disks.check_room(LPAR, roots(1), 1024)
        self.disks.make_medium(LPAR, bytes(storage.GIB // 16))
        self.disks.check_room(LPAR, roots(1), storage.GIB)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_room(LPAR, roots(1), storage.GIB, beside=True)
        words = 'the media repository vopt'
        with self.assertRaisesRegex(exception.InsufficientSpace, words):
            self.disks.check_room(LPAR, roots(1), 4 * storage.GIB)

    def test_forget_uploads_removes_descriptions_of_killed_service(self):
        # Media need a repository.
        self.disks.make_medium(self.lpar_named('archive'), b'iso')
        kind, vios = vios_file.FileType.MEDIA_ISO, self.disks.groups.vios
        for name in (NAME, 'nv4b1c2d3e0f00.iso', 'somebody'):
            vios_file.File.bld(self.adapter, name, kind, vios).create()
        self.disks.forget_uploads()
        left = vios_file.File.wrap(self.adapter.read('File', service='web'))
        self.assertEqual(['somebody'], [file.file_name for file in left])

    def test_silent_vios_is_waited_for(self):
        self.control.add_fault(match='VolumeGroup.feed', status=500)
        with self.assertRaises(exception.RestBusy):
            volume_groups.VolumeGroups(self.adapter, 'image_pool')._find()

    def test_silent_vios_does_not_hide_group_of_another(self):
        self.control.add_fault(match='VolumeGroup.feed', nth=2, status=500)
        self.assertEqual(2048, self.disks.capacity().total_gb)


class BlankDiskTest(group_host.LocalDiskTestCase):
    """Ephemeral and swap disks, which hold nothing."""

    def setUp(self):
        super().setUp()
        self.lpar = self.lpar_named('archive')

    def make_blank(self, role=storage.EPHEMERALS[0], size=2):
        return self.disks.make_blank(self.lpar, storage.Disk(role, size))

    def by_name(self):
        return {disk['name'][-1]: disk for disk in self.shown()}

    def test_make_blank_replaces_leftover_of_another_size(self):
        root = self.make(DATA, lpar_uuid=self.lpar)
        self.make_blank(size=1)
        old = self.by_name()
        self.make_blank(size=3)
        new = self.by_name()
        self.assertEqual(3, new['0']['capacity'])
        self.assertNotEqual(old['0']['udid'], new['0']['udid'])
        # The root disk is one that the same build has made.
        self.assertEqual(root.name, new['r']['name'])
        self.assertEqual(old['r']['udid'], new['r']['udid'])

    def test_make_blank_replaces_mapped_leftover(self):
        self.disks.attach(self.lpar, [self.make_blank()])
        (old,) = self.shown()
        made = self.make_blank()
        self.assertEqual([], self.vios()['scsi_mappings'])
        (disk,) = self.shown()
        self.assertNotEqual(old['udid'], disk['udid'])
        self.disks.attach(self.lpar, [made])
        (mapping,) = self.vios()['scsi_mappings']
        self.assertEqual(disk['udid'], mapping['udid'])

    def test_make_blank_reports_full_volume_group(self):
        self.start(capacity=5, free=1.5)
        self.lpar = self.lpar_named('archive')
        with self.assertRaises(exception.RestError) as caught:
            self.make_blank(size=2)
        self.assertIn('1.5 GB free', str(caught.exception))
        self.assertEqual([], self.shown())

    def test_swap_disk_of_large_units_is_rounded_up(self):
        self.start(unit=4, capacity=100, free=100)
        self.lpar = self.lpar_named('archive')
        self.make_blank(storage.SWAP, 0.5)
        self.assertEqual(4, self.by_name()['s']['capacity'])
        # Of 4 GB, Placement counts 1.
        self.assertEqual(3, self.disks.capacity().reserved_gb)

    def test_remove_stems_deletes_disks_of_each_role(self):
        self.make(DATA, lpar_uuid=self.lpar)
        self.make_blank()
        self.make_blank(storage.SWAP, 1)
        self.assertEqual({storage.stem(self.lpar)}, self.disks.stems())
        self.disks.remove_stems(self.disks.stems())
        self.assertEqual([], self.shown())

    def test_medium_without_a_disk_is_found(self):
        """That of a server which boots from a volume."""
        self.disks.make_medium(self.lpar, b'an iso')
        self.assertEqual({storage.stem(self.lpar)}, self.disks.stems())
        self.disks.remove_stems(self.disks.stems())
        self.assertEqual(frozenset(), self.disks.stems())

    def test_check_room_adds_rounded_sizes_and_names_disks(self):
        self.start(capacity=12, free=12, unit=4)
        root = storage.Disk(storage.ROOT, 4)
        disks = [root, storage.Disk(storage.EPHEMERALS[0], 1)]
        swap, large = (storage.Disk(storage.SWAP, gb) for gb in (0.5, 4.5))
        self.disks.check_room(LPAR, [*disks, swap], None)
        words = 'root disk of 4 GB, ephemeral 1 disk of 1 GB, swap disk of 4.5'
        with self.assertRaisesRegex(exception.InsufficientSpace, words):
            self.disks.check_room(LPAR, [*disks, large], None)

    def test_check_room_counts_blank_disks_of_the_instance_as_free(self):
        self.start(capacity=5, free=5)
        self.lpar = self.lpar_named('archive')
        self.make(DATA, size=1, lpar_uuid=self.lpar)
        self.make_blank(size=3)
        self.make_blank(storage.SWAP, 1)
        self.disks.check_room(self.lpar, roots(5), None)

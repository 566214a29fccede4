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

"""Volume groups, disks and media repositories through pypowervm."""

import base64
from unittest import mock

from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.tasks import vopt
from pypowervm.wrappers import storage as wrappers

from powervm_emulator import worlds
from powervm_emulator.core import captures
from powervm_emulator.core import errors

from . import base
from . import storage

SERIAL = '00f8d6de00004b000000014a54555cd9'
# A GB of bytes takes a second.
SMALL_GB = mock.patch('powervm_emulator.core.units._GB', 1 << 20)
#: The smallest disk in GB, and its end in bytes where a GB is 1 MiB.
SMALL, END = 0.125, 1 << 17


def _base64(data):
    return base64.b64encode(data).decode()


class VirtualDiskTest(storage.StorageTestCase):
    def test_create_takes_space_of_volume_group(self):
        disk = self.disk(size=2)
        self.assertEqual((2.0, 'None'), (disk.capacity, disk.label))
        self.assertEqual(wrappers.VDiskType.LV, disk.vdtype)
        group = self.group()
        self.assertEqual(f'03{group.serial_id}.1', disk.udid)
        self.assertTrue(disk.vg_uri.endswith(f'/VolumeGroup/{group.uuid}'))
        self.assertEqual(
            (1998.0, 1998.0), (group.free_space, group.available_size)
        )
        # The capacity is rounded up to the size of a physical partition.
        self.assertEqual(1.125, self.disk('disk2', size=1.01).capacity)
        self.assertEqual(1996.875, self.group().free_space)

    def test_removal_frees_space_and_its_udid_is_not_reused(self):
        disk, other = self.disk(), self.disk('disk2')
        tasks.rm_vg_storage(self.group(), vdisks=[disk])
        (left,) = self.group().virtual_disks
        self.assertEqual(other.udid, left.udid)
        self.assertEqual(1998.0, self.group().free_space)
        self.assertNotIn(self.disk().udid, (disk.udid, other.udid))

    def test_growth_keeps_udid_and_contents(self):
        data = b'contents'
        disk = self.disk(size=1)
        self.upload(self.file(disk.udid), data)
        group = self.group()
        group.virtual_disks[0].capacity = 5
        (grown,) = group.update().virtual_disks
        self.assertEqual(5.0, grown.capacity)
        self.assertEqual(disk.udid, grown.udid)
        self.assertEqual(1995.0, self.group().free_space)
        self.assertEqual(data, self.control.contents(disk.udid))

    def test_copy_outlives_its_image(self):
        data = b'an image'
        image = self.disk('image', size=1)
        self.upload(self.file(image.udid), data)
        target = (self.adapter, self.vios().uuid, self.group().uuid)
        copy = tasks.crt_copy_vdisk(
            *target, image.udid, len(data), 'copy', d_size=2 * storage.GB
        )
        self.assertEqual(2.0, copy.capacity)
        tasks.rm_vg_storage(self.group(), vdisks=[image])
        self.assertEqual(data, self.control.contents(copy.udid))

    def test_update_refuses_outdated_etag_unless_left_out(self):
        first, second = self.group(), self.group()
        first.virtual_disks.append(wrappers.VDisk.bld(self.adapter, 'a', 1))
        first.update()
        second.virtual_disks.append(wrappers.VDisk.bld(self.adapter, 'b', 1))
        self.assert_refused(412, 'has been changed', second.update)
        # Without If-Match the last update wins.
        second = wrappers.VG.wrap(second.entry)
        second.entry.properties.pop('etag', None)
        second.update()
        self.assertEqual(
            ['b'], [disk.name for disk in self.group().virtual_disks]
        )

    def test_new_disk_changes_etag_of_volume_group_only(self):
        group, etag = self.group(), self.vios().etag
        self.assertIs(group, group.refresh())
        self.disk()
        self.assertIsNot(group, group.refresh())
        self.assertEqual(etag, self.vios().etag)

    def test_update_without_disk_list_keeps_disks(self):
        disk = self.disk()
        group = self.group()
        group.element.remove(group.element.find('VirtualDisks'))
        group.update()
        self.assertEqual(disk.udid, self.group().virtual_disks[0].udid)


class ResidueTest(storage.StorageTestCase):
    """Disks of a world in which deleted ones have left something."""

    def setUp(self):
        super().setUp()
        self.enterContext(SMALL_GB)
        self.control.load_world(worlds.default() | {'residue': 'old bytes'})

    def test_new_disk_shows_residue_from_beginning_to_end(self):
        found = self.control.contents(self.disk(size=SMALL).udid)
        self.assertEqual(END, len(found))
        self.assertTrue(found.startswith(b'old bytes'))
        self.assertTrue(found.endswith(b'old bytes'))
        self.assertGreater(found.count(b'old bytes'), 16)

    def test_upload_leaves_what_is_behind_its_end(self):
        disk = self.disk(size=SMALL)
        data = bytes(END // 2)
        self.upload(self.file(disk.udid), data)
        found = self.control.contents(disk.udid)
        self.assertEqual(END, len(found))
        self.assertEqual(data, found[: len(data)])
        self.assertTrue(found.endswith(b'old bytes'))

    def test_growth_shows_residue_behind_the_former_end(self):
        disk = self.disk(size=SMALL)
        data = bytes(END)
        self.upload(self.file(disk.udid), data)
        group = self.group()
        group.virtual_disks[0].capacity = 2 * SMALL
        group.update()
        found = self.control.contents(disk.udid)
        self.assertEqual(2 * END, len(found))
        self.assertEqual(data, found[:END])
        self.assertTrue(found[END:].startswith(b'old bytes'))
        self.assertTrue(found.endswith(b'old bytes'))

    def test_disks_of_other_worlds_have_no_residue(self):
        self.control.load_world(worlds.default())
        with self.assertRaisesRegex(errors.ControlError, '0 contents'):
            self.control.contents(self.disk(size=SMALL).udid)


class RefusedDiskTest(storage.StorageTestCase):
    def setUp(self):
        super().setUp()
        self.before = self.control.state()

    def tearDown(self):
        self.assertEqual(self.before, self.control.state())
        super().tearDown()

    def test_create_refuses_impossible_disk(self):
        for status, message, options in (
            (500, '2000 GB free and 2001', {'size': 2001}),
            *(
                (500, 'not the name', {'name': name})
                for name in ('x' * 16, 'a/b', 'a b', '')
            ),
            (500, 'to copy', {'base_image': '03x.1'}),
        ):
            with self.subTest(**options):
                self.assert_refused(status, message, self.disk, **options)

    def test_update_refuses_invalid_values_of_new_disk(self):
        for status, message, name, value in (
            (500, "'File'", 'VirtualDiskType', wrappers.VDiskType.FILE),
            (500, 'DiskCapacity', 'DiskCapacity', '0'),
            *(
                (400, 'DiskCapacity', 'DiskCapacity', capacity)
                for capacity in ('-1', 'two', '1e3')
            ),
            # A disk that has been removed.
            (500, '03x.7', 'UniqueDeviceID', '03x.7'),
        ):
            with self.subTest(name, value=value):
                group = self.group()
                disk = wrappers.VDisk.bld(self.adapter, 'a', 1)
                disk.set_parm_value(name, value)
                group.virtual_disks.append(disk)
                self.assert_refused(status, message, group.update)

    def test_update_refuses_body_of_another_kind_and_physical_volumes(self):
        group = self.group()
        update = self.adapter.update_by_path
        body = (self.system(), None, group.href)
        self.assert_refused(400, 'not a VolumeGroup', update, *body)
        group.phys_vols.append(wrappers.PV.bld(self.adapter, 'hdisk9'))
        self.assert_refused(500, 'physical volumes', group.update)


class RefusedDiskChangeTest(storage.StorageTestCase):
    """Changes of an existing disk that are refused."""

    def setUp(self):
        super().setUp()
        self.made = self.disk()

    def test_create_refuses_name_in_use_and_image_larger_than_disk(self):
        self.assert_refused(500, 'in use', self.disk)
        vios, group = tasks.find_vg(self.adapter, 'rootvg')
        disk = (self.adapter, vios.uuid, group.uuid, 'disk1', 1)
        message = "in use.*'image_pool'"
        self.assert_refused(500, message, tasks.crt_vdisk, *disk)
        options = {'size': 1, 'base_image': self.made.udid}
        self.assert_refused(500, 'does not', self.disk, 'disk2', **options)

    def test_update_refuses_shrinking_renaming_and_excessive_growth(self):
        for message, name, value in (
            ('cannot shrink', 'capacity', 1),
            ('1998 GB free and 1999 GB', 'capacity', 2001),
            ('cannot be renamed', 'name', 'other'),
        ):
            with self.subTest(message):
                group = self.group()
                setattr(group.virtual_disks[0], name, value)
                self.assert_refused(500, message, group.update)
        self.assertEqual(2.0, self.group().virtual_disks[0].capacity)
        group = self.group()
        group.virtual_disks.append(self.made)
        self.assert_refused(500, 'more than once', group.update)

    def test_mapped_disk_is_not_removed_and_grows_in_its_mapping(self):
        self.map(self.create(), self.made)
        etag, group = self.vios().etag, self.group()
        remove = tasks.rm_vg_storage
        message = 'vhost0 of vios1'
        self.assert_refused(500, message, remove, group, vdisks=[self.made])
        group = self.group()
        group.virtual_disks[0].capacity = 4
        group.update()
        (mapping,) = self.vios().scsi_mappings
        self.assertEqual(4.0, mapping.backing_storage.capacity)
        self.assertNotEqual(etag, self.vios().etag)

    def test_disk_of_running_partition_grows_and_its_new_end_is_zero(self):
        self.enterContext(SMALL_GB)
        small = self.disk('small', size=SMALL)
        self.map(self.create(), small)
        self.control.set_partition('vm1', state='running')
        self.control.write_disk(small.udid, _base64(b'old'))
        self.assert_beyond_end(small, END)
        group = self.group()
        group.virtual_disks[-1].capacity = 2 * SMALL
        group.update()
        self.assertEqual(b'old', self.control.contents(small.udid))
        self.control.write_disk(small.udid, _base64(b'new'), END)
        zeros = bytes(END - len(b'old'))
        self.assertEqual(
            storage.sha256(b'old' + zeros + b'new'),
            storage.sha256(self.control.contents(small.udid)),
        )

    def assert_beyond_end(self, disk, offset):
        with self.assertRaisesRegex(errors.ControlError, 'not within'):
            self.control.write_disk(disk.udid, _base64(b'new'), offset)


class MediaRepositoryTest(storage.StorageTestCase):
    def test_first_task_creates_repository(self):
        group = self.repository(size=2)
        self.assertEqual('rootvg', group.name)
        (made,) = group.vmedia_repos
        self.assertEqual(('vopt', 2.0), (made.name, made.size))
        self.assertEqual(198.0, group.free_space)
        vopt._cur_vios_uuid = vopt._cur_vg_uuid = None
        self.assertEqual(group.uuid, self.repository().uuid)
        self.assertEqual(group.uuid, self.repository().uuid)
        self.assertEqual(198.0, self.group('rootvg').free_space)

    def test_vios_shows_repository_and_its_media(self):
        self.assertIsNone(self.vios(['ViosStorage']).media_repository)
        self.repository()
        self.medium()
        shown = wrappers.VMediaRepos.wrap(
            self.vios(['ViosStorage']).media_repository
        )
        self.assertEqual(
            ['cfg.iso'], [medium.name for medium in shown.optical_media]
        )

    def test_create_refuses_second_or_too_large_repository(self):
        self.assert_refused(500, '200 GB free', self.repository, size=201)
        for message, names in (
            ('one media repository', 'ab'),
            ("'rootvg' already", 'c'),
        ):
            group = self.group()
            group.vmedia_repos = [
                wrappers.VMediaRepos.bld(self.adapter, name, 1)
                for name in names
            ]
            self.assert_refused(500, message, group.update)
            self.repository()

    def test_removal_refuses_mapped_media_and_repository_with_media(self):
        uuid = self.repository().uuid
        mapping = self.map(self.create(), self.medium())
        group = self.read_group(uuid)
        media = list(group.vmedia_repos[0].optical_media)
        message = "'cfg.iso' cannot be removed"
        remove = tasks.rm_vg_storage
        self.assert_refused(500, message, remove, group, vopts=media)
        scsi_mapper.remove_vopt_mapping(
            self.adapter, self.vios().uuid, mapping.server_adapter.lpar_id
        )
        group = self.read_group(uuid)
        group.vmedia_repos = []
        self.assert_refused(500, 'has media', group.update)
        tasks.rm_vg_storage(self.read_group(uuid), vopts=media)
        group = self.read_group(uuid)
        group.vmedia_repos = []
        group.update()
        self.assertEqual(0, len(self.read_group(uuid).vmedia_repos))
        self.assertEqual(200.0, self.group('rootvg').free_space)
        self.assertIsNone(self.vios(['ViosStorage']).media_repository)

    def test_update_grows_but_refuses_shrinking_and_renaming(self):
        group = self.repository()
        group.vmedia_repos[0]._size(3)
        group = group.update()
        self.assertEqual(3.0, group.vmedia_repos[0].size)
        self.assertEqual(197.0, group.free_space)
        group.vmedia_repos[0]._size(1)
        self.assert_refused(500, 'cannot shrink', group.update)
        group = self.read_group(group.uuid)
        group.vmedia_repos[0]._name('other')
        self.assert_refused(500, 'cannot be renamed', group.update)

    def test_blank_media_are_created_until_repository_is_full(self):
        group = self.repository()
        media = group.vmedia_repos[0].optical_media
        media.append(wrappers.VOptMedia.bld(self.adapter, 'blank', 0.5, 'r'))
        group = group.update()
        (blank,) = group.vmedia_repos[0].optical_media
        self.assertEqual(
            ('0eblank', 0.5, 'r'), (blank.udid, blank.size, blank.mount_type)
        )
        media = group.vmedia_repos[0].optical_media
        media.append(wrappers.VOptMedia.bld(self.adapter, 'blank2', 0.6))
        self.assert_refused(500, 'need 1.1 GB', group.update)

    def test_update_refuses_removed_media(self):
        group = self.repository()
        stale = wrappers.VOptMedia.bld(self.adapter, 'old', 0.1)
        stale.set_parm_value('MediaUDID', '0eold')
        group.vmedia_repos[0].optical_media.append(stale)
        self.assert_refused(500, '0eold', group.update)


class StorageStateTest(storage.StorageTestCase):
    """Storage in the control plane's state."""

    def test_state_shows_disks_and_media(self):
        data = b'0123456789'
        disk, empty = self.disk(), self.disk('empty')
        self.upload(self.file(disk.udid), data)
        self.repository()
        self.medium(data=data)
        contents = {'size': 10, 'sha256': storage.sha256(data)}
        none = {'size': 0, 'sha256': None}
        group = self.shown_group()
        self.assertEqual(self.group().uuid, group['uuid'])
        self.assertEqual((2048.0, 1996.0), (group['capacity'], group['free']))
        self.assertIsNone(group['media_repository'])
        expected = [
            {'name': name, 'udid': one.udid, 'capacity': 2.0, **details}
            for name, one, details in (
                ('disk1', disk, contents),
                ('empty', empty, none),
            )
        ]
        self.assertEqual(expected, group['disks'])
        media = [{'name': 'cfg.iso', 'udid': '0ecfg.iso', **contents}]
        self.assertEqual(
            {'name': 'vopt', 'size': 1.0, 'media': media},
            self.shown_group('rootvg')['media_repository'],
        )

    def test_reset_drops_disks_and_contents_but_invalid_world_does_not(self):
        before = self.control.state()
        disk = self.disk()
        self.upload(self.file(disk.udid), b'data')
        with self.assertRaises(errors.WorldError):
            self.control.load_world(
                {'systems': [{'capture': {'file': 'none.txt'}}]}
            )
        self.assertEqual(b'data', self.control.contents(disk.udid))
        self.control.reset()
        self.assertEqual(before, self.control.state())
        with self.assertRaisesRegex(errors.ControlError, disk.udid):
            self.control.contents(disk.udid)

    def test_deleted_vios_drops_contents(self):
        disk = self.disk()
        self.upload(self.file(disk.udid), b'data')
        contents = self.emulator._application._emulation.host.contents
        path = contents.find(self.vios().uuid, disk.udid).path
        self.control.set_partition('vios1', state='not activated')
        self.vios().delete()
        with self.assertRaisesRegex(errors.ControlError, disk.udid):
            self.control.contents(disk.udid)
        self.assertFalse(path.exists())

    def test_udids_are_same_for_same_seed(self):
        self.repository()
        mapping = self.map(self.create(), self.disk())
        seen = mapping.target_dev.element.findtext('UniqueDeviceID')
        self.emulator = base.start(self)
        self.control = self.emulator.control
        self.adapter = base.adapter_for(self.emulator)
        self.addCleanup(base.forget, self.adapter.session)
        vopt._cur_vios_uuid = vopt._cur_vg_uuid = None
        self.repository()
        again = self.map(self.create(), self.disk())
        self.assertEqual(
            seen, again.target_dev.element.findtext('UniqueDeviceID')
        )
        self.assertEqual(
            mapping.backing_storage.udid, again.backing_storage.udid
        )


class StorageWorldTest(storage.StorageTestCase):
    def load(self, *groups):
        world = worlds.default()
        server = world['systems'][0]['virtual_io_servers'][0]
        server['volume_groups'] = list(groups)
        self.control.load_world(world)

    def test_world_keys_describe_disks_and_repository(self):
        self.load(
            {
                'name': 'datavg',
                'capacity': 100,
                'disks': [{'name': 'old', 'capacity': 10}],
                'media_repository': {
                    'size': 5,
                    'media': [{'name': 'aix.iso', 'size': 4}],
                },
            },
            {
                'name': 'other',
                'capacity': 100,
                'free': 7,
                'disks': [{'name': 'old2', 'capacity': 10}],
            },
        )
        group = self.group('datavg')
        self.assertEqual(85.0, group.free_space)
        self.assertEqual('old', group.virtual_disks[0].name)
        (medium,) = group.vmedia_repos[0].optical_media
        self.assertEqual(('aix.iso', 4.0), (medium.name, medium.size))
        self.assertEqual(7.0, self.group('other').free_space)
        self.assertIsNotNone(self.vios(['ViosStorage']).media_repository)
        self.map(self.create(), medium)

    def test_loading_emits_no_events_but_cache_cleared(self):
        self.adapter.read_by_path(base.EVENTS)
        disks = [{'name': 'old', 'capacity': 10}]
        self.load({'name': 'datavg', 'capacity': 100, 'disks': disks})
        events = self.adapter.read_by_path(base.EVENTS).feed.entries
        self.assertEqual(
            ['CACHE_CLEARED'],
            [event.element.findtext('EventType') for event in events],
        )

    def test_loading_refuses_impossible_storage(self):
        def group(name='x', **keys):
            return {'name': name, 'capacity': 100, **keys}

        def disk(name, capacity=1):
            return {'name': name, 'capacity': capacity}

        file = {'file': 'fake_volume_group.txt'}
        half = {'media_repository': {'size': 60}}
        for message, groups in (
            ('capacity is required', [{'name': 'x'}]),
            ('beyond capacity', [group(disks=[disk('a', 41)], **half)]),
            ('one media_repository', [group(**half), group('y', **half)]),
            ('name is that of the capture', [{'capture': file, 'name': 'x'}]),
            ('more than once', [{'capture': file}] * 2),
            ("'a' is in use", [group(disks=[disk('a')] * 2)]),
            ('does not match', [group(disks=[disk('a b')])]),
        ):
            with (
                self.subTest(message),
                self.assertRaisesRegex(errors.WorldError, message),
            ):
                self.load(*groups)


class CapturedVolumeGroupTest(storage.StorageTestCase):
    """Captured volume groups can be changed."""

    FILE = 'upload_volgrp2.txt'

    def setUp(self):
        self.world = worlds.default()
        server = self.world['systems'][0]['virtual_io_servers'][0]
        server['volume_groups'] = [{'capture': {'file': self.FILE}}]
        super().setUp()

    def test_captured_group_keeps_uuid_and_free_space(self):
        captured = captures.find({'file': self.FILE}, 'VolumeGroup')
        self.assertEqual(captured.uuid, self.group().uuid)
        self.assertEqual(1045.0, self.group().free_space)

    def test_new_disk_continues_captured_udids(self):
        before = {disk.name: disk.udid for disk in self.group().virtual_disks}
        made = self.disk('new', size=1.01)
        self.assertEqual(f'03{SERIAL}.4', made.udid)
        self.assertEqual(1.01, made.capacity)
        self.assertEqual(1043.99, self.group().free_space)
        after = {disk.name: disk.udid for disk in self.group().virtual_disks}
        self.assertEqual(before | {'new': made.udid}, after)

    def test_new_media_join_captured_repository(self):
        self.repository()
        self.medium()
        (repository,) = self.group().vmedia_repos
        self.assertEqual(4, len(repository.optical_media))
        self.assertEqual('VMLibrary', repository.name)

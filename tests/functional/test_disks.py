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

"""Root disks: what is on them, what they take, and what is refused."""

import hashlib
import threading

import requests
from cursive import exception as cursive_exception
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.virt import driver as virt_driver
from oslo_utils import uuidutils

from nova_powervm.emulator import worlds
from nova_powervm.lpar import storage
from tests.functional import base
from tests.functional import images

GIB = images.GIB


def world_with(*changes):
    """Give the default world with other volume groups.

    :param changes: Name of a group, and what is different of it.
    """
    world = worlds.default()
    (vios,) = world['systems'][0]['virtual_io_servers']
    groups = {group['name']: group for group in vios['volume_groups']}
    for name, change in changes:
        groups[name].update(change)
    return world


def two_servers():
    """Give a world of which two servers have a group of the same name."""
    world = worlds.default()
    servers = world['systems'][0]['virtual_io_servers']
    servers.append(
        servers[0]
        | {
            'name': 'vios2',
            'id': 9,
            'volume_groups': [
                {'name': 'rootvg', 'capacity': 100},
                {'name': 'image_pool', 'capacity': 500},
            ],
        }
    )
    return world


class DiskTestCase(base.PowerVMTestCase):
    """Looks at everything that a build can leave behind."""

    def setUp(self):
        super().setUp()
        self.downloads = images.Downloads(self.glance)
        self.image_data = base.IMAGE
        self.flags(max_attempts=1, group='scheduler')

    def prepare(self):
        """Let the image be one that the driver has not looked at yet."""
        self.downloads.forget()
        self.image_data = base.IMAGE + uuidutils.generate_uuid().encode()
        self.image = self.create_image(self.image_data)

    def changes(self):
        """Give the requests since the last clearing that change the host."""
        return [
            f'{record["method"]} {record["label"]}'
            for record in self.control().journal()
            if record['method'] != 'GET'
            and not record['label'].startswith('Logon.')
        ]

    def requests(self, label):
        """Count the requests of one kind since the last clearing."""
        return sum(
            record['label'] == label for record in self.control().journal()
        )

    def fail_boot(self, **options):
        """Boot in vain and give the fault; nothing may be left."""
        self.control().clear_journal()
        server = self.boot({}, expected='ERROR', **options)
        self.assert_nothing_left(server)
        return server['fault']['message']

    def refuse_boot(self, **options):
        """Boot in vain and give the fault; nothing may have been made."""
        message = self.fail_boot(**options)
        self.assertEqual([], self.changes())
        return message

    def assert_nothing_left(self, server):
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.disks())
        self.assertEqual([], self.media())
        self.assertEqual([], self.mappings())
        self.assertEqual([], self.hosts['host1'].reader.files())
        self.wait_until_unallocated(server)
        reading = [
            thread
            for thread in threading.enumerate()
            if thread.name == 'powervm-image'
        ]
        for thread in reading:
            thread.join(10)
            self.assertFalse(thread.is_alive())

    def assert_boots_from(self, server, data):
        """See that the only disk is the server's and holds these bytes."""
        (disk,) = self.disks()
        self.assertEqual(data, self.contents(disk))
        (mapping,) = self.mappings()
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual(
            (name, disk['udid']), (mapping['client'], mapping['udid'])
        )
        self.assertEqual([], self.hosts['host1'].reader.files())
        return disk

    def disk_inventory(self):
        """Give Placement's record of the host's DISK_GB."""
        root = self._get_provider_uuid_by_host('host1')
        return self._get_provider_inventory(root)['DISK_GB']

    def disk_usage(self):
        """Give what Placement counts as used of the host's DISK_GB."""
        root = self._get_provider_uuid_by_host('host1')
        return self._get_provider_usages(root)['DISK_GB']

    def delete_lpar(self, server):
        """Delete an LPAR past Nova, which leaves its disks."""
        lpar = self.lpar(server)
        self.control().set_partition(lpar.uuid, state='not activated')
        driver = self.computes['host1'].manager.driver
        driver._services().partitions.delete(lpar.uuid)

    def spawn_again(self, server):
        """Build a server as a nova-compute that was killed would not."""
        context = nova_context.get_admin_context()
        # All that nova-compute is given with an instance.
        instance = objects.Instance.get_by_uuid(
            context,
            server['id'],
            expected_attrs=[
                'keypairs',
                'metadata',
                'pci_requests',
                'resources',
                'system_metadata',
            ],
        )
        self.computes['host1'].manager.driver.spawn(
            context,
            instance,
            instance.image_meta,
            [],
            None,
            self._get_allocations_by_server_uuid(server['id']),
            network_info=[],
            block_device_info=virt_driver.get_block_device_info(
                instance,
                objects.BlockDeviceMappingList.get_by_instance_uuid(
                    context, instance.uuid
                ),
            ),
        )


class RootDiskTest(DiskTestCase):
    """A server boots from a disk that holds its image."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_boots_and_rebuilds(self):
        self.tell_stories()

    def story_boot_disk_holds_image_and_is_mapped_to_lpar(self):
        # Of no round size, and of more than one chunk.
        data = bytes(range(256)) * 1000 + b'end'
        server = self.boot({}, image=self.create_image(data), disk=3)

        disk = self.assert_boots_from(server, data)
        self.assertEqual(3, disk['capacity'])
        self.assertTrue(disk['name'].endswith('r'))

    def story_flavor_without_disk_gets_disk_of_image_size(self):
        server = self.boot({})

        disk = self.assert_boots_from(server, self.image_data)
        self.assertEqual(1, disk['capacity'])
        self.assertTrue(disk['name'].endswith('x'))

    def story_image_size_is_rounded_up_to_whole_gigabytes(self):
        data = images.qcow2(GIB + 512)
        image = self.create_image(data, disk_format='qcow2')

        server = self.boot({}, image=image)

        self.assertEqual(2, self.assert_boots_from(server, data)['capacity'])

    def story_delete_removes_disk_and_mapping_of_this_server_only(self):
        kept, gone = self.boot({}, disk=1), self.boot({}, disk=1)

        self._delete_server(gone)

        self.assert_boots_from(kept, self.image_data)
        self.assertIsNone(self.lpar(gone))

    def story_rebuild_writes_the_new_image_onto_a_new_disk(self):
        server = self.boot({}, disk=1)
        (old,) = self.disks()

        self._rebuild_server(server, self.create_image(b'another image'))

        disk = self.assert_boots_from(server, b'another image')
        self.assertNotEqual(old['udid'], disk['udid'])

    def story_boot_downloads_image_once(self):
        self.boot({}, disk=1)
        self.assertEqual(1, self.downloads.count)

        self.boot({}, disk=1)
        self.assertEqual(2, self.downloads.count)

    def story_rebuild_downloads_unknown_image_twice(self):
        server = self.boot({}, disk=1)
        self._rebuild_server(server, self.image)
        self.assertEqual(2, self.downloads.count)

        image = self.create_image(uuidutils.generate_uuid().encode())
        self._rebuild_server(server, image)
        self.assertEqual(4, self.downloads.count)

    def story_rebuild_downloads_image_without_hash_twice(self):
        image = self.create_image(
            b'no hash', os_hash_algo=None, os_hash_value=None
        )
        server = self.boot({}, image=image)
        self.assert_boots_from(server, b'no hash')

        # There is no telling whether it is the same.
        self._rebuild_server(server, image)
        self.assertEqual(3, self.downloads.count)

    def story_rebuild_recognizes_image_without_hash_by_its_checksum(self):
        data = b'of an old Glance'
        image = self.create_image(
            data,
            os_hash_algo=None,
            os_hash_value=None,
            checksum=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        )
        server = self.boot({}, image=image)
        self.assert_boots_from(server, data)

        self._rebuild_server(server, image)
        self.assertEqual(2, self.downloads.count)


class Qcow2ImageTest(DiskTestCase):
    """The host unpacks qcow2 images; they are sent as they are."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.data = images.qcow2(2 * GIB, b'boot sector')

    def format_of(self, disk):
        """Give FileFormat of a disk, as the REST API tells it."""
        formats = self.hosts['host1'].reader.disk_formats(
            self.vios()['uuid'], self.volume_group()['uuid']
        )
        return formats[disk['name']]

    def test_images_are_uploaded_in_their_format(self):
        self.tell_stories()

    def story_qcow2_is_sent_with_its_format(self):
        image = self.create_image(self.data, disk_format='qcow2')

        server = self.boot({}, image=image, disk=2)

        disk = self.assert_boots_from(server, self.data)
        self.assertEqual('QCOW2', self.format_of(disk).upper())
        self.assertEqual(2, disk['capacity'])

    def story_raw_image_is_uploaded_as_raw(self):
        server = self.boot({})

        disk = self.assert_boots_from(server, self.image_data)
        self.assertEqual('RAW', self.format_of(disk).upper())


class RefusedImageTest(DiskTestCase):
    """An image that is not what Glance says never becomes a disk."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_bad_images_leave_no_disk(self):
        self.tell_stories()

    def story_unsupported_formats_are_refused_without_a_download(self):
        for disk_format in ('iso', 'vmdk'):
            image = self.create_image(b'any', disk_format=disk_format)

            message = self.refuse_boot(image=image)

            self.assertIn(f'its disk format is {disk_format}', message)
        self.assertEqual(0, self.downloads.count)

    def prepare(self):
        """Let the image be one of which the beginning is not all."""
        self.downloads.forget()
        self.image_data = uuidutils.generate_uuid().encode() * 10000
        self.image = self.create_image(self.image_data)

    def story_wrong_hash_is_refused(self):
        image = self.create_image(self.image_data, os_hash_value='0' * 128)

        message = self.fail_boot(image=image)

        self.assertIn('arrived damaged', message)
        self.assertIn('Glance says 0000', message)
        self.assertEqual(1, self.downloads.count)

    def story_image_missing_in_glance_is_refused(self):
        def gone(_data, _download):
            raise nova_exception.ImageNotFound(image_id='it')

        self.downloads.meddle(1, gone)

        self.assertIn('could not be found', self.refuse_boot())

    def story_image_with_bad_signature_is_downloaded_once_and_refused(self):
        def refuse(data, download):
            download()
            raise cursive_exception.SignatureVerificationError(reason='bad')

        self.downloads.meddle(1, refuse)

        # Nova tells when it has handed out all of it.
        self.assertIn('is refused', self.fail_boot())
        self.assertEqual(1, self.downloads.count)

    def story_glance_does_not_answer(self):
        def lost(_data, _download):
            raise nova_exception.GlanceConnectionFailed(
                server='glance1', reason='refused'
            )

        self.downloads.meddle(1, lost)
        self.downloads.meddle(2, lost)

        self.assertIn('could not be read from Glance', self.refuse_boot())
        self.assertEqual(2, self.downloads.count)

    def story_glance_fails_half_way_through_the_upload(self):
        self.break_off(range(1, 10))

        message = self.fail_boot()

        self.assertIn('Glance went away', message)
        self.assertNotIn('REST server', message)

    def break_off(self, downloads, after=300000):
        """Let downloads fail as they do if the connection breaks."""

        def broken(data, _download):
            data.write(self.image_data[:after])
            raise requests.exceptions.ChunkedEncodingError('Glance went away')

        for nth in downloads:
            self.downloads.meddle(nth, broken)


class DiskSpaceTest(DiskTestCase):
    """What Placement is told of the volume group, and its end."""

    def start_with(self, **group):
        self.start_host(world=world_with(('image_pool', group)))

    def test_disks_of_others_are_reserved(self):
        self.start_with(
            capacity=100,
            free=70.5,
            disks=[
                {'name': 'database', 'capacity': 20},
                {'name': 'nv-not-ours', 'capacity': 5},
            ],
        )

        record = self.disk_inventory()

        self.assertEqual(100, record['total'])
        self.assertEqual(30, record['reserved'])

    def test_fraction_of_a_gigabyte_is_not_offered(self):
        self.start_with(capacity=99.9, free=99.9)

        record = self.disk_inventory()

        self.assertEqual((99, 0), (record['total'], record['reserved']))

    def test_disk_of_flavor_is_used_and_not_reserved(self):
        self.start_with(capacity=100, free=90)

        server = self.boot({}, disk=20)
        self._run_periodics()

        self.assertEqual(10, self.disk_inventory()['reserved'])
        self.assertEqual(20, self.disk_usage())
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual(10, self.disk_inventory()['reserved'])
        self.assertEqual(0, self.disk_usage())

    def test_disk_of_flavor_without_disk_is_reserved(self):
        self.start_with(capacity=100, free=90)

        server = self.boot({})
        self._run_periodics()

        self.assertEqual(11, self.disk_inventory()['reserved'])
        self.assertEqual(0, self.disk_usage())
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual(10, self.disk_inventory()['reserved'])

    def test_reserved_host_disk_mb_is_added_to_reserved(self):
        self.flags(reserved_host_disk_mb=2048)
        self.start_with(capacity=100, free=90)

        self.assertEqual(12, self.disk_inventory()['reserved'])

    def test_server_larger_than_free_space_is_not_scheduled(self):
        self.start_with(capacity=100, free=90)

        server = self.boot({}, expected='ERROR', disk=91)

        self.assertIn('No valid host', server['fault']['message'])

    def test_full_volume_group_leaves_nothing(self):
        self.start_with(capacity=100, free=0.5)

        message = self.fail_boot()

        self.assertIn('0.5 GB free', message)

    def test_media_repository_in_disk_volume_group_is_reserved(self):
        self.start_host(
            world=world_with(('image_pool', {'capacity': 100, 'free': 100})),
            media_volume_group_name='image_pool',
            media_repository_gb=3,
        )

        self.boot({}, request={'config_drive': True})
        self._run_periodics()

        self.assertEqual(4, self.disk_inventory()['reserved'])


class MediaRepositoryTest(DiskTestCase):
    """A Virtual I/O Server has one media repository."""

    def boot_with_medium(self):
        server = self.boot({}, request={'config_drive': True})
        self.assertEqual(1, len(self.media()))
        return server

    def test_repository_is_made_with_the_first_medium(self):
        self.start_host(media_repository_gb=2)
        self.assertIsNone(self.volume_group('rootvg')['media_repository'])

        self.boot_with_medium()

        repository = self.volume_group('rootvg')['media_repository']
        self.assertEqual(2, repository['size'])

    def test_repository_is_looked_for_once(self):
        self.start_host()
        server = self.boot_with_medium()
        self._delete_server(server)
        self.control().clear_journal()

        self.boot_with_medium()

        self.assertEqual(0, self.requests('VolumeGroup.feed'))

    def test_existing_repository_is_used_in_any_group(self):
        self.start_host(
            world=world_with(
                (
                    'image_pool',
                    {
                        'media_repository': {
                            'size': 5,
                            'media': [{'name': 'aix.iso', 'size': 1}],
                        }
                    },
                )
            )
        )

        server = self.boot({}, request={'config_drive': True})

        self.assertIsNone(self.volume_group('rootvg')['media_repository'])
        self.assertEqual(2, len(self.media()))
        self._delete_server(server)
        self.assertEqual(['aix.iso'], [m['name'] for m in self.media()])

    def test_vanished_repository_is_made_again(self):
        self.start_host()
        self._delete_server(self.boot_with_medium())
        # As an operator does with rmrep, or a new world with everything.
        self.control().reset()

        self.boot_with_medium()

    def test_missing_group_of_repository_is_named(self):
        self.start_host(media_volume_group_name='nowhere')

        message = self.fail_boot(request={'config_drive': True})

        self.assertIn("media_volume_group_name = 'nowhere'", message)

    def test_full_repository_leaves_nothing(self):
        self.start_host(
            world=world_with(
                (
                    'rootvg',
                    {
                        'media_repository': {
                            'size': 1,
                            'media': [{'name': 'other', 'size': 1}],
                        }
                    },
                )
            )
        )

        self.control().clear_journal()
        server = self.boot(
            {}, expected='ERROR', request={'config_drive': True}
        )

        self.assertIn('do not fit', server['fault']['message'])
        self.assertEqual([], self.disks())
        self.assertEqual(['other'], [m['name'] for m in self.media()])


class VolumeGroupTest(DiskTestCase):
    """Which volume group the disks are made in."""

    def test_start_refuses_volume_group_name_of_two_vioses(self):
        error = self.assertRaises(
            nova_exception.InvalidConfiguration,
            self.start_host,
            world=two_servers(),
        )

        self.assertIn('vios1/image_pool, vios2/image_pool', str(error))

    def test_vios_name_selects_one_of_two_volume_groups(self):
        self.start_host(
            world=two_servers(), volume_group_name='vios2/image_pool'
        )

        server = self.boot({}, disk=1)

        self.assertEqual(500, self.disk_inventory()['total'])
        self.assertEqual([], self.disks())
        vios2 = self._partition('vios2')
        (disk,) = vios2['volume_groups'][1]['disks']
        self.assertEqual(self.image_data, self.contents(disk))
        self._delete_server(server)
        vios2 = self._partition('vios2')
        self.assertEqual([], vios2['volume_groups'][1]['disks'])

    def test_start_refuses_volume_group_of_unknown_vios(self):
        error = self.assertRaises(
            nova_exception.InvalidConfiguration,
            self.start_host,
            volume_group_name='vios7/image_pool',
        )

        self.assertIn("'vios7/image_pool': no Virtual I/O", str(error))

    def test_host_without_volume_group_offers_no_disks(self):
        self.start_host(volume_group_name=None)

        root = self._get_provider_uuid_by_host('host1')
        self.assertNotIn('DISK_GB', self._get_provider_inventory(root))
        message = self.refuse_boot()

        self.assertIn('[powervm]volume_group_name', message)

    def test_start_refuses_disk_driver_that_is_not_installed(self):
        error = self.assertRaises(
            nova_exception.InvalidConfiguration,
            self.start_host,
            disk_driver='nowhere',
        )

        self.assertIn("disk_driver = 'nowhere'", str(error))
        self.assertIn('localdisk', str(error))

    def test_recreated_volume_group_is_found_by_name(self):
        self.start_host()
        self.boot({}, disk=1)
        old = self.volume_group()['uuid']
        world = world_with(('image_pool', {'capacity': 300, 'free': 300}))
        (vios,) = world['systems'][0]['virtual_io_servers']
        # The emulator numbers uuids, so without rootvg they are others.
        del vios['volume_groups'][0]
        self.control().load_world(world)
        self.assertNotEqual(old, self.volume_group()['uuid'])

        self._run_periodics()

        self.assertEqual(300, self.disk_inventory()['total'])


class LeftoverDiskTest(DiskTestCase):
    """What an interrupted build has left is never used."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_leftovers_of_builds(self):
        self.tell_stories()

    def story_delete_removes_disk_without_lpar(self):
        server = self.boot({}, disk=1)
        self.delete_lpar(server)
        self.assertEqual(1, len(self.disks()))

        self._delete_server(server)

        self.assert_nothing_left(server)

    def story_leftovers_on_a_silent_host_go_in_a_later_cycle(self):
        server = self.boot({}, disk=1)
        self.computes['host1'].manager.driver._services().removal.destroy(
            server['id']
        )
        self.control().add_fault(
            match='LogicalPartition.create', status=500, every=True
        )
        self.control().add_fault(
            match='VolumeGroup.feed', status=500, every=True
        )
        self.assertRaises(
            nova_exception.InstanceDeployFailure, self.spawn_again, server
        )
        self._run_periodics()
        self.assertEqual(1, len(self.disks()))
        self.control().clear_faults()

        self._run_periodics()
        self.assertEqual(1, len(self.disks()))
        # Nova has built it on another host by now.
        instance = self.instance(server)
        instance.host = 'elsewhere'
        instance.save()
        self._run_periodics()

        self.assertEqual([], self.disks())
        instance.host = 'host1'
        instance.save()

    def story_start_removes_disk_of_instance_on_another_host(self):
        server = self.boot({}, disk=1)
        lpar = self.lpar(server).uuid
        self.delete_lpar(server)
        driver = self.computes['host1'].manager.driver
        driver._services().disks.remove(lpar, delete=False)
        self.restart_host()
        self.assertEqual(1, len(self.disks()))
        instance = self.instance(server)
        instance.host = 'elsewhere'
        instance.save()

        self.restart_host()

        self.assertEqual([], self.disks())
        self.assertIn(
            f'Removing the disks and media {storage.stem(lpar)}*',
            self.stdlog.logger.output,
        )
        instance.host = 'host1'
        instance.save()

    def story_second_delete_completes_interrupted_removal(self):
        server = self.boot({}, disk=1, request={'config_drive': True})
        self.control().add_fault(match='VolumeGroup.update', status=500)
        self.api.delete_server(server['id'])
        self._wait_for_state_change(server, 'ERROR')
        self.assertIsNotNone(self.lpar(server))

        self.notifier.reset()
        self.api.delete_server(server['id'])
        self.notifier.wait_for_versioned_notifications('instance.delete.end')

        self.assert_nothing_left(server)

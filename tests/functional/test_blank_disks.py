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

"""Ephemeral and swap disks: what they take, and what becomes of them."""

import math

from nova_powervm.lpar import storage
from tests.functional import images
from tests.functional import test_disks


class BlankDiskTestCase(test_disks.DiskTestCase):
    """Looks at the disks of a server by their roles."""

    def setUp(self):
        super().setUp()
        # By default Nova's API accepts three.
        self.flags(max_local_block_devices=-1)

    def by_role(self):
        """Return the disks in the volume group by the ends of their names."""
        return {disk['name'][14:]: disk for disk in self.disks()}

    def sizes(self):
        """Return the size of each disk in GB by its role."""
        return {
            role: disk['capacity'] for role, disk in self.by_role().items()
        }

    def assert_mapped(self, server, *roles):
        """Assert that the LPAR sees exactly its disks, in this order."""
        mappings = sorted(self.mappings(), key=lambda found: found['lua'])
        self.assertEqual(list(roles), [m['name'][14:] for m in mappings])
        self.assertEqual(
            {self.lpar(server).name}, {m['client'] for m in mappings}
        )
        disks = {disk['udid'] for disk in self.disks() + self.media()}
        self.assertEqual(disks, {m['udid'] for m in mappings})

    def image_disk(self):
        """Return a block device mapping of a root disk."""
        return {
            'source_type': 'image',
            'destination_type': 'local',
            'uuid': self.image,
            'boot_index': 0,
        }

    def ephemeral(self, size):
        """Return a block device mapping of an ephemeral disk."""
        return {
            'source_type': 'blank',
            'destination_type': 'local',
            'boot_index': -1,
            'volume_size': size,
        }

    def boot_with_ephemerals(self, *sizes, **options):
        """Boot a server that asks for ephemeral disks of its own sizes."""
        wanted = [self.image_disk(), *map(self.ephemeral, sizes)]
        return self.boot(
            {},
            disk=1,
            ephemeral=sum(sizes),
            request={'block_device_mapping_v2': wanted},
            **options,
        )


class BlankDiskTest(BlankDiskTestCase):
    """A server has the disks of its flavor, or those that it asks for."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_boots_and_rebuilds(self):
        self.tell_stories()

    def story_swap_disk_has_size_of_flavor(self):
        server = self.boot({}, disk=1, swap=512)

        self.assertEqual({'r': 1, 's': 0.5}, self.sizes())
        self.assert_mapped(server, 'r', 's')

    def story_ephemeral_disk_has_size_of_flavor(self):
        server = self.boot({}, disk=1, ephemeral=3)

        self.assertEqual({'r': 1, '0': 3}, self.sizes())
        self.assert_mapped(server, 'r', '0')

    def story_disks_are_mapped_in_order_before_config_drive(self):
        server = self.boot(
            {},
            disk=1,
            ephemeral=2,
            swap=1024,
            request={'config_drive': True},
        )

        self.assert_mapped(server, 'r', '0', 's', '.iso')
        self.assertEqual(self.image_data, self.contents(self.by_role()['r']))

    def story_ephemeral_disk_is_split_as_requested(self):
        server = self.boot_with_ephemerals(2, 2)

        self.assertEqual({'r': 1, '0': 2, '1': 2}, self.sizes())
        self.assert_mapped(server, 'r', '0', '1')
        self.assertEqual(5, self.disk_usage())

    def story_ten_ephemeral_disks_are_attached_in_requested_order(self):
        sizes = [3, *[1] * 8, 2]
        server = self.boot_with_ephemerals(*sizes)

        roles = [str(number) for number in range(10)]
        self.assertEqual(
            {'r': 1, **dict(zip(roles, sizes, strict=True))}, self.sizes()
        )
        self.assert_mapped(server, 'r', *roles)

    def story_root_disk_of_image_size_has_ephemeral_disk_beside_it(self):
        server = self.boot({}, disk=0, ephemeral=2)

        self.assertEqual({'x': 1, '0': 2}, self.sizes())
        self.assert_mapped(server, 'x', '0')
        self.assertEqual(2, self.disk_usage())

    def story_usage_is_sum_of_disks_with_swap_rounded_up(self):
        before = self.disk_inventory()['reserved']
        server = self.boot({}, disk=1, ephemeral=3, swap=1500)
        self._run_periodics()

        self.assertEqual(1 + 3 + 2, self.disk_usage())
        self.assertEqual(before, self.disk_inventory()['reserved'])
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual(0, self.disk_usage())
        self.assertEqual(before, self.disk_inventory()['reserved'])

    def story_delete_removes_disks_of_this_server_only(self):
        kept = self.boot({}, disk=1, ephemeral=1, swap=512)
        disks = self.by_role()
        gone = self.boot_with_ephemerals(1, 1)

        self._delete_server(gone)

        self.assertEqual(disks, self.by_role())
        self.assert_mapped(kept, 'r', '0', 's')
        self._delete_server(kept)
        self.assert_nothing_left(kept)

    def story_rebuild_recreates_disks_with_their_sizes(self):
        server = self.boot_with_ephemerals(2, 3)
        old = self.by_role()

        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertEqual({'r': 1, '0': 2, '1': 3}, self.sizes())
        self.assert_mapped(server, 'r', '0', '1')
        for role, disk in self.by_role().items():
            self.assertNotEqual(old[role]['udid'], disk['udid'])

    def story_restarted_service_keeps_disks(self):
        server = self.boot({}, disk=1, ephemeral=1, swap=512)
        disks = self.by_role()

        self.restart_host()

        self.assertEqual(disks, self.by_role())
        self.assert_mapped(server, 'r', '0', 's')


class FailedBlankDiskTest(BlankDiskTestCase):
    """A build ends with all disks, or with none."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_failures_leave_all_disks_or_none(self):
        self.tell_stories()

    def story_refused_blank_disk_leaves_nothing(self):
        wanted = [self.image_disk(), self.ephemeral(1), self.ephemeral(1)]
        # The root disk is the first.
        for nth in (2, 3, 4):
            self.control().add_fault(
                match='VolumeGroup.update',
                nth=nth,
                status=500,
                message='No more.',
            )
            with self.subTest('refused disk', nth=nth):
                message = self.fail_boot(
                    disk=1,
                    ephemeral=2,
                    swap=512,
                    request={'block_device_mapping_v2': wanted},
                )
                self.assertIn('No more.', message)

    def story_lost_answers_create_each_disk_once(self):
        for nth in (2, 3):
            self.control().add_fault(
                match='VolumeGroup.update', nth=nth, drop=True, phase='after'
            )

        server = self.boot({}, disk=1, ephemeral=2, swap=512)

        self.assertEqual({'r': 1, '0': 2, 's': 0.5}, self.sizes())
        self.assert_mapped(server, 'r', '0', 's')

    def story_leftover_ephemeral_disk_is_replaced(self):
        server = self.boot({}, disk=1, ephemeral=2)
        services = self.computes['host1'].manager.driver._services()
        services.removal.destroy(server['id'])
        # As a build that was interrupted before it had a root disk again.
        services.disks.make_blank(
            self.lpar_uuid(server), storage.Disk(storage.EPHEMERALS[0], 1)
        )
        (left,) = self.disks()

        self.spawn_again(server)

        self.assertEqual({'r': 1, '0': 2}, self.sizes())
        self.assertNotEqual(left['udid'], self.by_role()['0']['udid'])
        self.assert_mapped(server, 'r', '0')

    def story_disks_without_lpar_are_all_replaced(self):
        server = self.boot({}, disk=1, ephemeral=2, swap=512)
        self.delete_lpar(server)
        old = self.by_role()
        self.assertEqual({'r', '0', 's'}, set(old))

        self.spawn_again(server)

        self.assert_mapped(server, 'r', '0', 's')
        for role, disk in self.by_role().items():
            self.assertNotEqual(old[role]['udid'], disk['udid'])

    def story_start_removes_blank_disks_of_instance_elsewhere(self):
        server = self.boot({}, disk=1, ephemeral=1, swap=512)
        lpar = self.lpar(server).uuid
        self.delete_lpar(server)
        services = self.computes['host1'].manager.driver._services()
        services.disks.remove(lpar, delete=False)
        instance = self.instance(server)
        instance.host = 'elsewhere'
        instance.save()

        self.restart_host()

        self.assertEqual([], self.disks())
        instance.host = 'host1'
        instance.save()


class BlankDiskSpaceTest(BlankDiskTestCase):
    """Blank disks take space as root disks do."""

    def start_with(self, **group):
        self.start_host(world=test_disks.world_with(('image_pool', group)))

    def test_disks_of_large_units_are_reserved_with_their_rounding(self):
        self.start_with(unit=4, capacity=100, free=100)

        self.boot({}, disk=1, ephemeral=2, swap=512)
        self._run_periodics()

        self.assertEqual({'r': 4, '0': 4, 's': 4}, self.sizes())
        self.assertEqual(1 + 2 + 1, self.disk_usage())
        record = self.disk_inventory()
        self.assertEqual(3 * 3, record['reserved'])
        promised = record['total'] - record['reserved'] - self.disk_usage()
        self.assertLessEqual(promised, math.floor(self.volume_group()['free']))

    def test_server_is_not_scheduled_if_only_its_root_disk_fits(self):
        self.start_with(capacity=10, free=10)

        for sizes in ({'ephemeral': 10}, {'swap': 9 * 1024 + 1}):
            server = self.boot({}, expected='ERROR', disk=1, **sizes)

            self.assertIn('No valid host', server['fault']['message'])
        self.boot({}, disk=1, ephemeral=8, swap=1024)

    def test_rebuild_without_room_for_all_disks_is_refused(self):
        self.start_with(capacity=10, free=10)
        server = self.boot({}, disk=0, ephemeral=5, swap=1024)
        before = self.by_role()
        for size, refused in ((5, True), (4, False)):
            image = self.create_image(
                images.qcow2(size * images.GIB), disk_format='qcow2'
            )
            if refused:
                self.control().clear_journal()
                reason = self.refuse_rebuild(server, image)
                self.assertIn(
                    '10 GB free, but 11 GB are needed for root disk of 5 '
                    'GB, ephemeral 1 disk of 5 GB, swap disk of 1 GB',
                    reason,
                )
                self.assertEqual([], self.changes())
                self.assertEqual(before, self.by_role())
            else:
                self._rebuild_server(server, image)
                self.assertEqual({'x': 4, '0': 5, 's': 1}, self.sizes())

    def test_rebuild_that_preserves_ephemeral_disk_is_refused(self):
        self.start_host()
        server = self.boot({}, disk=1, ephemeral=1)
        before = self.by_role()
        self.control().clear_journal()

        reason = self.refuse_rebuild(
            server, self.image, preserve_ephemeral=True
        )

        self.assertIn('asks to preserve ephemeral disks', reason)
        self.assertEqual([], self.changes())
        self.assertEqual(before, self.by_role())
        self.assert_mapped(server, 'r', '0')

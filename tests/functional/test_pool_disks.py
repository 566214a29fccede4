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

"""Servers have their disks in a shared storage pool."""

from nova import context as nova_context

from tests.functional import base
from tests.functional import pools


class PoolDiskTest(pools.PoolTestCase):
    def setUp(self):
        super().setUp()
        self.start_pool_host()

    def test_disks_of_servers_in_pool(self):
        self.tell_stories()

    def story_root_disk_is_linked_clone_of_cached_image(self):
        first = self.boot({}, disk=2)
        second = self.boot({}, disk=3)
        self.assertEqual(1, len(self.images()))
        for server, size in ((first, 2), (second, 3)):
            (unit,) = self.disks_of(server).values()
            self.assertEqual(size, unit['capacity'])
            self.assert_is_clone(unit, base.IMAGE)
        self.assertEqual(1, len(self.uploads()))

    def story_deleted_server_leaves_image_only(self):
        server = self.boot({}, disk=1, ephemeral=2, swap=512)
        self.assertEqual({'root', 'eph0', 'swap'}, set(self.disks_of(server)))
        self._delete_server(server)
        self.assertEqual({}, self.disks_of(server))
        self.assertEqual(1, len(self.images()))
        self.assertEqual([], self.vios()['scsi_mappings'])

    def story_cached_image_is_not_written_again(self):
        data = b'\x02boot sector' + bytes(4096)
        image = self.create_image(data)
        driver = self.computes['host1'].manager.driver
        context = nova_context.get_admin_context()
        self.assertTrue(driver.cache_image(context, image))
        self.assertFalse(driver.cache_image(context, image))
        self.control().clear_journal()
        server = self.boot({}, disk=1, image=image)
        self.assert_is_clone(self.disks_of(server)['root'], data)
        self.assertEqual([], self.uploads())

    def uploads(self):
        """Return the requests that sent an image or medium."""
        return [
            record
            for record in self.control().journal()
            if record['label'] == 'File.upload'
        ]

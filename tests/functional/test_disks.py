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

"""Disks of servers: what Nova asks for, counts, and takes away."""

from oslo_utils import uuidutils

from powervm_emulator import worlds
from tests import proofs
from tests.functional import base
from tests.functional import images

#: GB of the volume group, and what others use of it.
CAPACITY, OTHERS = 100, 10


def world():
    """Return the default world with a small volume group."""
    made = worlds.default()
    (vios,) = made['systems'][0]['virtual_io_servers']
    for group in vios['volume_groups']:
        if group['name'] == 'image_pool':
            group.update(capacity=CAPACITY, free=CAPACITY - OTHERS)
    return made


class DiskTest(base.PowerVMTestCase):
    """Servers with disks in a volume group."""

    def setUp(self):
        super().setUp()
        self.downloads = images.Downloads(self.glance)
        self.flags(max_attempts=1, group='scheduler')
        # By default Nova's API accepts three.
        self.flags(max_local_block_devices=-1)
        self.start_host(world=world())

    def prepare(self):
        """Let the image be one that the driver has not looked at yet."""
        self.downloads.count = 0
        # Of no round size, and of more than one chunk.
        self.image_data = uuidutils.generate_uuid().encode() * 10000 + b'end'
        self.image = self.create_image(self.image_data)

    def test_disks_of_servers(self):
        self.tell_stories()

    @proofs.proves('operation.launch', 'storage.image')
    def story_server_boots_from_its_image_with_disks_of_its_flavor(self):
        server = self.boot(
            {},
            disk=1,
            ephemeral=3,
            swap=1500,
            request={'config_drive': True},
        )

        disks = self.by_role()
        self.assertEqual({'r': 1, '0': 3, 's': 1.5}, self.sizes(), disks)
        self.assert_mapped(server, 'r', '0', 's', '.iso')
        self.assertEqual(self.image_data, self.contents(disks['r']))
        self.assertEqual([], self.hosts['host1'].reader.files())
        self.assertEqual(1, self.downloads.count)
        # Nova rounds the swap disk up.
        self.assert_counted(1 + 3 + 2)
        self._delete_server(server)
        self.assert_counted(0)

    def story_server_larger_than_free_space_is_not_scheduled(self):
        free = CAPACITY - OTHERS
        with self.flagged(reserved_host_disk_mb=2048):
            self.assert_counted(0, reserved=OTHERS + 2)
            refused = [
                self.start_boot({}, **sizes)
                for sizes in (
                    {'disk': free - 1},
                    {'disk': 1, 'ephemeral': free - 2},
                    {'disk': 1, 'swap': (free - 3) * 1024 + 1},
                )
            ]
            for server in refused:
                found = self._wait_until_built(server['id'])
                self.assertIn('No valid host', found['fault']['message'])
        self.assert_counted(0)

        self.boot({}, disk=1, ephemeral=free - 2, swap=1024)

    @proofs.proves('operation.rebuild')
    def story_rebuild_makes_ten_ephemeral_disks_anew(self):
        sizes = [3, *[1] * 8, 2]
        server = self.boot_with_ephemerals(*sizes)
        roles = [str(number) for number in range(10)]
        wanted = {'r': 1, **dict(zip(roles, sizes, strict=True))}
        self.assertEqual(wanted, self.sizes())
        self.assert_mapped(server, 'r', *roles)
        old = self.by_role()
        data = uuidutils.generate_uuid().encode()

        self._rebuild_server(server, self.create_image(data))

        disks = self.by_role()
        self.assertEqual(wanted, self.sizes())
        self.assert_mapped(server, 'r', *roles)
        for role, disk in disks.items():
            self.assertNotEqual(old[role]['udid'], disk['udid'])
        self.assertEqual(data, self.contents(disks['r']))
        # One for the boot, one to check the rebuild, one for the disk.
        self.assertEqual(3, self.downloads.count)

    def story_host_without_volume_group_offers_no_disks(self):
        self.restart_host(volume_group_name=None)
        root = self._get_provider_uuid_by_host('host1')
        self.assertNotIn('DISK_GB', self._get_provider_inventory(root))
        self.assertIn('This host has no DISK_GB', self.logged())

        server = self.boot({}, expected='ERROR')

        message = server['fault']['message']
        self.assertIn('configuration of the host has to be corr', message)
        self.assertIn('set [powervm]volume_group_name', self.logged())
        self.restart_host()

    # What stories do

    def boot_with_ephemerals(self, *sizes):
        """Boot a server that asks for ephemeral disks of its own sizes."""
        root = {
            'source_type': 'image',
            'destination_type': 'local',
            'uuid': self.image,
            'boot_index': 0,
        }
        blanks = [
            {
                'source_type': 'blank',
                'destination_type': 'local',
                'boot_index': -1,
                'volume_size': size,
            }
            for size in sizes
        ]
        return self.boot(
            {},
            disk=1,
            ephemeral=sum(sizes),
            request={'block_device_mapping_v2': [root, *blanks]},
        )

    # What they see

    def by_role(self):
        """Return the disks in the volume group by the ends of their names."""
        return {disk['name'][14:]: disk for disk in self.disks()}

    def sizes(self):
        """Return the size of each disk in GB by its role."""
        return {
            role: disk['capacity'] for role, disk in self.by_role().items()
        }

    def assert_mapped(self, server, *roles):
        """Assert that an LPAR sees exactly its disks, in this order."""
        name = self.lpar(server).name
        mappings = sorted(
            (found for found in self.mappings() if found['client'] == name),
            key=lambda found: found['lua'],
        )
        self.assertEqual(list(roles), [m['name'][14:] for m in mappings])
        self.assertEqual(len(self.mappings()), len(mappings))
        disks = {disk['udid'] for disk in self.disks() + self.media()}
        self.assertEqual(disks, {m['udid'] for m in mappings})

    def assert_counted(self, used, reserved=OTHERS):
        """Assert what the next cycle tells Placement of the host's disks."""
        self._run_periodics()
        root = self._get_provider_uuid_by_host('host1')
        record = self._get_provider_inventory(root)['DISK_GB']
        self.assertEqual(
            (CAPACITY, reserved, used),
            (
                record['total'],
                record['reserved'],
                self._get_provider_usages(root)['DISK_GB'],
            ),
        )

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

import contextlib
import threading

import requests
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.virt import driver as virt_driver
from oslo_utils import uuidutils

from nova_powervm.lpar import storage
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
        self.downloads.forget()
        # Of no round size, and of more than one chunk.
        self.image_data = uuidutils.generate_uuid().encode() * 10000 + b'end'
        self.image = self.create_image(self.image_data)

    def test_disks_of_servers(self):
        self.tell_stories()

    # Boots

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

    def story_root_disk_of_image_size_is_reserved(self):
        server = self.boot({}, disk=0, ephemeral=2)

        self.assertEqual({'x': 1, '0': 2}, self.sizes())
        self.assert_mapped(server, 'x', '0')
        self.assert_counted(2, reserved=OTHERS + 1)
        self._delete_server(server)
        self.assert_counted(0)

    def story_ten_ephemeral_disks_are_attached_in_requested_order(self):
        sizes = [3, *[1] * 8, 2]
        server = self.boot_with_ephemerals(*sizes)

        roles = [str(number) for number in range(10)]
        self.assertEqual(
            {'r': 1, **dict(zip(roles, sizes, strict=True))}, self.sizes()
        )
        self.assert_mapped(server, 'r', *roles)

    def story_glance_fails_half_way_through_the_upload(self):
        def broken(data, _download):
            data.write(self.image_data[:300000])
            raise requests.exceptions.ChunkedEncodingError('Glance went away')

        for nth in range(1, 10):
            self.downloads.meddle(nth, broken)

        server = self.boot({}, expected='ERROR')

        message = server['fault']['message']
        self.assertIn('could not be read from Glance', message)
        self.assertNotIn('Glance went away', message)
        self.assertIn('Glance went away', self.logged())
        self.wait_until_unallocated(server)
        self.assert_nothing_left(server)

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

    # Deletions and rebuilds

    @proofs.proves('operation.terminate')
    def story_delete_removes_disks_of_this_server_only(self):
        kept = self.boot({}, disk=1, swap=512, request={'config_drive': True})
        disks, media = self.by_role(), self.media()
        gone = self.boot_with_ephemerals(1, 1, config_drive=True)
        self.assertEqual(2, len(self.media()))

        self._delete_server(gone)

        self.assertIsNone(self.lpar(gone))
        self.assertEqual((disks, media), (self.by_role(), self.media()))
        self.assert_mapped(kept, 'r', 's', '.iso')

    @proofs.proves('operation.rebuild')
    def story_rebuild_makes_disks_anew_with_their_sizes(self):
        server = self.boot_with_ephemerals(2, 3)
        old = self.by_role()
        data = uuidutils.generate_uuid().encode()

        self._rebuild_server(server, self.create_image(data))

        disks = self.by_role()
        self.assertEqual({'r': 1, '0': 2, '1': 3}, self.sizes())
        self.assert_mapped(server, 'r', '0', '1')
        for role, disk in disks.items():
            self.assertNotEqual(old[role]['udid'], disk['udid'])
        self.assertEqual(data, self.contents(disks['r']))
        # One for the boot, one to check the rebuild, one for the disk.
        self.assertEqual(3, self.downloads.count)

    # Starts of the service, and its cycles

    def story_start_refuses_unusable_disk_settings(self):
        for options, words in (
            (
                {'volume_group_name': 'vios7/image_pool'},
                "'vios7/image_pool': no Virtual I/O",
            ),
            ({'disk_driver': 'nowhere'}, "disk_driver = 'nowhere'"),
        ):
            error = self.assertRaises(
                nova_exception.InvalidConfiguration,
                self.restart_host,
                **options,
            )
            self.assertIn(words, str(error))
        self.restart_host()

    def story_host_without_volume_group_offers_no_disks(self):
        self.restart_host(volume_group_name=None)
        root = self._get_provider_uuid_by_host('host1')
        self.assertNotIn('DISK_GB', self._get_provider_inventory(root))

        server = self.boot({}, expected='ERROR')

        message = server['fault']['message']
        self.assertIn('configuration of the host has to be corr', message)
        self.assertIn('set [powervm]volume_group_name', self.logged())
        self.restart_host()

    def story_start_removes_disks_of_instance_on_another_host(self):
        gone = self.boot({}, disk=1, ephemeral=1, swap=512)
        lpar = self.lpar(gone).uuid
        self.delete_lpar(gone)
        self.services().disks.remove(lpar, delete=False)
        self.restart_host()
        self.assertEqual(3, len(self.disks()))
        kept = self.boot({}, disk=1, ephemeral=1, swap=512)
        self.assertEqual(6, len(self.disks()))

        with self.recorded_elsewhere(gone):
            self.restart_host()

        self.assertEqual(3, len(self.disks()))
        self.assert_mapped(kept, 'r', '0', 's')
        self.assertIn(
            f'Removing the disks and media {storage.stem(lpar)}*',
            self.logged(),
        )

    def story_leftovers_on_a_silent_host_go_in_a_later_cycle(self):
        server = self.boot({}, disk=1)
        self.services().removal.destroy(server['id'])
        for match in ('LogicalPartition.create', 'VolumeGroup.feed'):
            self.control().add_fault(match=match, status=500, every=True)
        self.assertRaises(
            nova_exception.InstanceDeployFailure, self.spawn_again, server
        )
        self._run_periodics()
        self.assertEqual(1, len(self.disks()))
        self.control().clear_faults()

        self._run_periodics()
        self.assertEqual(1, len(self.disks()))
        # Nova has built it on another host by now.
        with self.recorded_elsewhere(server):
            self._run_periodics()

        self.assertEqual([], self.disks())

    # What stories do

    def services(self):
        """Return the operations of the host's driver."""
        return self.computes['host1'].manager.driver.services.host

    def boot_with_ephemerals(self, *sizes, **request):
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
            request={'block_device_mapping_v2': [root, *blanks], **request},
        )

    @contextlib.contextmanager
    def recorded_elsewhere(self, server):
        """Let Nova record a server on another host within a context."""
        instance = self.instance(server)
        instance.host = 'elsewhere'
        instance.save()
        try:
            yield
        finally:
            instance.host = 'host1'
            instance.save()

    def delete_lpar(self, server):
        """Delete an LPAR past Nova, which leaves its disks."""
        lpar = self.lpar(server)
        self.control().set_partition(lpar.uuid, state='not activated')
        self.services().partitions.delete(lpar.uuid)

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

    def assert_nothing_left(self, server):
        """Assert that a server has left nothing on the host, nor a thread."""
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.disks() + self.media() + self.mappings())
        self.assertEqual([], self.hosts['host1'].reader.files())
        reading = [
            thread
            for thread in threading.enumerate()
            if thread.name == 'powervm-image'
        ]
        for thread in reading:
            thread.join(10)
            self.assertFalse(thread.is_alive())

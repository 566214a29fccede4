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

"""Disks of servers: in a volume group, in a pool, and from signed images.

What the host does for them is tested in ``tests/ops``.
"""

import hashlib

from nova import context as nova_context
from oslo_utils import uuidutils
from pypowervm.wrappers import storage as pvm_storage

from powervm_emulator import worlds
from tests import proofs
from tests.functional import base
from tests.functional import images
from tests.functional import one_time_use
from tests.functional import pool_sites
from tests.functional import pools
from tests.functional import signed_images

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


class PoolDiskTest(pool_sites.SiteTestCase):
    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.flags(disk_allocation_ratio=4.0)
        self.start_both()

    def test_disks_of_servers_in_pool(self):
        self.tell_stories()

    def forget(self):
        """Delete servers, and then the images that they had."""
        super().forget()
        for _ in range(2):
            self.clean_cache('host1')
        self.assert_pool_empty()

    @proofs.proves('storage.image')
    def story_parallel_boots_clone_one_image_and_leave_nothing_else(self):
        sizes = dict(zip(pool_sites.HOSTS, (1, 2), strict=True))
        started = [
            self.start_boot(
                {}, disk=size, ephemeral=1, swap=512, request={'host': host}
            )
            for host, size in sizes.items()
        ]

        built = [self._wait_until_built(server['id']) for server in started]

        self.assertEqual(1, self.uploads())
        for size, server in zip(sizes.values(), built, strict=True):
            self.assertEqual('ACTIVE', server['status'], server.get('fault'))
            units = self.disks_of(server)
            self.assertEqual({'root', 'eph0', 'swap'}, set(units))
            self.assertEqual(size, units['root']['capacity'])
            self.assert_is_clone(units['root'], base.IMAGE)
        self.delete_all(built)
        self.assertEqual(1, len(self.units()))
        self.assertEqual(1, len(self.images()))
        self.assert_absent(*pool_sites.HOSTS)
        self.assert_no_files(*pool_sites.HOSTS)

    def delete_all(self, servers):
        """Delete servers in parallel and wait until they are gone."""
        for server in servers:
            self.api.delete_server(server['id'])
        for server in servers:
            self._wait_until_deleted(server)

    @proofs.proves('operation.cache-images')
    def story_image_is_cached_before_servers_need_it(self):
        self.admin_api.microversion = '2.81'
        aggregate = self.admin_api.post_aggregate(
            {'aggregate': {'name': 'pool'}}
        )
        for host in pool_sites.HOSTS:
            self.admin_api.add_host_to_aggregate(aggregate['id'], host)

        self.admin_api.api_post(
            f'/os-aggregates/{aggregate["id"]}/images',
            {'cache': [{'id': self.image}]},
            check_response_status=[202],
        )

        self.notifier.wait_for_versioned_notifications(
            'aggregate.cache_images.end'
        )
        self.admin_api.microversion = 'latest'
        self.assertIn('1 cached, 1 existing, 0 errors', self.logged())
        self.assertEqual(1, self.uploads())
        self.assertFalse(self.cache('host1', self.image))
        server = self.boot({}, disk=1, request={'host': 'host1'})
        self.assert_is_clone(self.disks_of(server)['root'], base.IMAGE)
        self.assertEqual(1, self.uploads())

    def story_qcow2_image_is_not_cached(self):
        found = self.create_image(
            images.qcow2(images.GIB), disk_format='qcow2'
        )

        with self.assertRaisesRegex(Exception, 'disk format is qcow2'):
            self.cache('host2', found)

        self.assertEqual({}, self.units())

    def story_disk_allocation_ratio_is_heeded(self):
        units = self.driver('host2').services.host.disks._units
        thick = pvm_storage.LUEnt.bld(
            units._adapter, 'filler', pools.POOL_GB - 5, thin=False
        ).create(parent=units.tier)

        server = self.boot({}, disk=12, request={'host': 'host1'})
        refused = self.boot(
            {}, expected='ERROR', disk=24, request={'host': 'host1'}
        )

        self.assert_is_clone(self.disks_of(server)['root'], base.IMAGE)
        self.assertIn(
            '6 GB are needed for root disk of 24 GB',
            refused['fault']['message'],
        )
        self.assertEqual({}, self.disks_of(refused))
        units.delete(thick)

    def cache(self, host, image_id):
        """Write an image to the cache as nova-compute does."""
        return self.driver(host).cache_image(
            nova_context.get_admin_context(), image_id
        )

    def uploads(self):
        """Count the uploads to both hosts."""
        return sum(
            record['label'] == 'File.upload'
            for host in pool_sites.HOSTS
            for record in self.control(host).journal()
        )


DATA = b'\x01boot sector' + bytes(300_000)
GROUP = one_time_use.gpu_group()


class TrustedCertificatesTest(one_time_use.OneTimeUseTestCase):
    """One host, and one certificate that servers trust."""

    def setUp(self):
        super().setUp()
        self.ours, self.theirs = signed_images.Signer(), signed_images.Signer()
        self.verifying = self.useFixture(
            signed_images.VerifyingGlance(self.glance, self.ours, self.theirs)
        )
        self.start_host()

    def test_servers_get_verified_images(self):
        self.tell_stories()

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        self.release_all()
        self._run_periodics()

    def image_of(self, signer, signed=DATA):
        """Create an image, with the signature of these bytes."""
        return self.create_image(DATA, properties=signer.sign(signed))

    def boot_trusting(self, image, expected='ACTIVE'):
        """Boot a server that trusts our certificate."""
        return self.boot(
            GROUP,
            expected,
            image,
            disk=1,
            request={'trusted_image_certificates': [self.ours.uuid]},
        )

    def assert_disk(self):
        """Assert that the only disk has the image's bytes."""
        (disk,) = self.disks()
        self.assertEqual(hashlib.sha256(DATA).hexdigest(), disk['sha256'])

    @proofs.proves('operation.trusted-certs')
    def story_images_with_bad_signatures_build_and_burn_nothing(self):
        for image, words in (
            (
                self.image_of(self.theirs),
                'Image signature certificate validation failed for',
            ),
            (
                self.image_of(self.ours, b'other bytes'),
                'Image signature verification failed',
            ),
            (self.image, 'Signature verification for the image failed'),
        ):
            server = self.boot_trusting(image, 'ERROR')

            self.assertIn(words, server['fault']['message'])
            self.assertIsNone(self.lpar(server))
            self.assertEqual([], self.disks())
            self.assert_burned()
            self.wait_until_unallocated(server)

    @proofs.proves('operation.trusted-certs')
    def story_rebuild_with_bad_signature_changes_nothing(self):
        image = self.image_of(self.ours)
        server = self.boot_trusting(image)
        self.assert_disk()
        self.assertEqual([self.ours.uuid], self.verifying.trusted[-1])

        for certificate, refused, words in (
            (
                self.ours,
                self.image_of(self.ours, b''),
                'signature verification failed',
            ),
            # Even for an image that this service has just read.
            (self.theirs, image, 'certificate validation failed for'),
        ):
            reason = self.refuse_rebuild(
                server,
                refused,
                trusted_image_certificates=[certificate.uuid],
            )

            self.assertIn(words, reason)
            self.assertEqual('running', self.lpar(server).state)
            self.assert_disk()

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

"""Servers of two hosts have their disks in a shared storage pool."""

import time

from nova import context as nova_context
from pypowervm.wrappers import storage as pvm_storage

from tests import proofs
from tests.functional import base
from tests.functional import images
from tests.functional import pool_sites
from tests.functional import pools

_LIMIT = 120


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
        end = time.monotonic() + _LIMIT
        while self.api.get_servers():
            self.assertLess(time.monotonic(), end, 'servers are left')
            time.sleep(0.1)

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

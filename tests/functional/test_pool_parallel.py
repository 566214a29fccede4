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


"""Hosts use the cache of a shared pool at the same time."""

import threading
import time
import uuid

from nova import context as nova_context
from oslo_log import log as logging
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import pool_images
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import pools as powervm_pools
from nova_powervm.virt import images as nova_images
from tests.functional import base
from tests.functional import images
from tests.functional import pool_sites

LOG = logging.getLogger(__name__)

_SERVERS = 10
_LIMIT = 120
_ROUNDS = 15
_OTHER_WRITER = '0badc0de'


class PoolCacheTestCase(pool_sites.SiteTestCase):
    """Looks into the cache of a site's pool."""

    def uploads(self):
        """Count the uploads to both hosts."""
        return sum(
            record['label'] == 'File.upload'
            for host in pool_sites.HOSTS
            for record in self.control(host).journal()
        )

    def described(self, image_id):
        """Return an image as the driver sees it in Glance."""
        context = nova_context.get_admin_context()
        return nova_images.GlanceImage(context, image_id).describe()

    def cache(self, host, image_id):
        """Write an image to the cache as nova-compute does."""
        return self.driver(host).cache_image(
            nova_context.get_admin_context(), image_id
        )

    def pool_of(self, host):
        """Return the driver's access to the pool by one host."""
        return self.driver(host)._services().disks._units

    def fill(self, size_gb):
        """Make a thick logical unit that is not of the driver's making."""
        pool = self.pool_of('host2')
        pvm_storage.LUEnt.bld(
            pool._adapter, 'filler', size_gb, thin=False
        ).create(parent=pool.tier)

    def boot_on(self, host, **options):
        """Boot a server on a host, without any second try."""
        return self.boot({}, request={'host': host}, **options)


class ParallelServersTest(PoolCacheTestCase):
    """Ten servers of two hosts."""

    def test_parallel_boots_write_image_once_and_deletes_leave_nothing(self):
        self.start_both()
        started = [
            self.start_boot({}, disk=1, ephemeral=1, request={'host': host})
            for _ in range(_SERVERS // 2)
            for host in pool_sites.HOSTS
        ]

        built = [self._wait_until_built(server['id']) for server in started]

        self.assertEqual(1, self.uploads())
        for server in built:
            self.assertEqual('ACTIVE', server['status'], server.get('fault'))
            units = self.disks_of(server)
            self.assertEqual({'root', 'eph0'}, set(units))
            self.assert_is_clone(units['root'], base.IMAGE)
        self.assertEqual(1, len(self.images()))
        self.delete_all(built)
        self.assertEqual(1, len(self.units()))
        for _ in range(2):
            self.clean_cache('host1')
        self.assert_absent(*pool_sites.HOSTS)
        self.assert_no_files(*pool_sites.HOSTS)
        self.assert_pool_empty()

    def delete_all(self, servers):
        """Delete servers in parallel and wait until they are gone."""
        for server in servers:
            self.api.delete_server(server['id'])
        end = time.monotonic() + _LIMIT
        while self.api.get_servers():
            self.assertLess(time.monotonic(), end, 'servers are left')
            time.sleep(0.1)


class Cleaner(threading.Thread):
    """Removes unused images without pause.

    :param clean: Does this once.
    """

    def __init__(self, clean):
        super().__init__(daemon=True)
        self._clean = clean
        self._stopping = threading.Event()
        self.rounds = 0
        self.error = None

    def run(self):
        """Clean until stopped."""
        try:
            while not self._stopping.is_set():
                self._clean()
                self.rounds += 1
        except Exception as error:
            self.error = error

    def stop(self):
        """Finish the current round, and raise any error."""
        self._stopping.set()
        self.join(_LIMIT)
        if self.error is not None:
            raise self.error


class Maker(threading.Thread):
    """Makes disks from an image and deletes them again, but for the last.

    :param disks: The disk driver of a host.
    :param described: The image.
    :param data: Its bytes.
    """

    def __init__(self, disks, described, data):
        super().__init__(daemon=True)
        self._disks = disks
        self._described = described
        self._data = data
        self.refused = 0
        self.made = 0
        self.errors = []

    def run(self):
        """Make the disks."""
        try:
            while self.made < _ROUNDS:
                self._make()
        except Exception as error:
            self.errors.append(error)

    def _await_cleaning(self):
        """Wait until the image is found unused, unless it is in use."""
        for _ in range(20):
            units = self._disks._units.units()
            known = [pool_images.parse(unit.name) for unit in units]
            ready = pool_images.PoolImage(self._described.fingerprint)
            if ready not in known:
                break
            time.sleep(0.01)

    def _make(self):
        self._await_cleaning()
        lpar = str(uuid.uuid4()).upper()
        size = len(self._data)
        try:
            self._disks.make_root(
                lpar,
                storage.Disk(storage.ROOT, 1),
                self._described,
                image.Contents(size, image.RAW, size),
                lambda: (chunk for chunk in [self._data]),
            )
        except exception.RestBusy:
            self.refused += 1
            if self.refused > 10 * _ROUNDS:
                raise
            return
        self.made += 1
        if self.made < _ROUNDS:
            self._disks.pool.delete(self._disks.pool.disks(lpar))


class CleaningTest(PoolCacheTestCase):
    """Unused images are deleted while disks are made from them."""

    def test_cleaning_on_both_hosts_spares_images_with_clones(self):
        self.start_both()
        described = self.described(self.image)
        cleaners = [
            Cleaner(lambda host=host: self.clean_cache(host))
            for host in pool_sites.HOSTS
        ]
        makers = [
            Maker(self.driver(host)._services().disks, described, base.IMAGE)
            for host in pool_sites.HOSTS
        ]
        for thread in (*cleaners, *makers):
            thread.start()
        for maker in makers:
            maker.join(_LIMIT)
            self.assertEqual([], maker.errors)
            self.assertFalse(maker.is_alive())
        for cleaner in cleaners:
            cleaner.stop()

        LOG.info(
            'Cleanings: %s. Refused: %s. Uploads: %d.',
            [cleaner.rounds for cleaner in cleaners],
            [maker.refused for maker in makers],
            self.uploads(),
        )
        # The test is void unless images were deleted in between.
        self.assertGreater(self.uploads(), 2)
        disks = [
            unit
            for unit in self.units().values()
            if unit['type'] == 'VirtualIO_Disk'
        ]
        self.assertEqual(2, len(disks))
        for unit in disks:
            self.assert_is_clone(unit, base.IMAGE)
        pool = self.driver('host2')._services().disks.pool
        pool.delete(pool.disks())
        # An image that was not deleted because somebody had just cloned it.
        self.stub_out(f'{pool_images.__name__}.DELETING_SECONDS', -1)
        for _ in range(2):
            self.clean_cache('host1')
        self.assert_pool_empty()

    def test_image_is_cached_before_servers_need_it(self):
        self.start_both()
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
        self.assertIn('1 cached, 1 existing, 0 errors', self.logged())
        self.assertEqual(1, self.uploads())
        self.assertFalse(self.cache('host1', self.image))
        server = self.boot_on('host1', disk=1)
        self.assert_is_clone(self.disks_of(server)['root'], base.IMAGE)
        self.assertEqual(1, self.uploads())


class LostUploadTest(PoolCacheTestCase):
    """Another host was lost while it wrote an image."""

    def partial(self, since):
        """Return the name of an upload by another host."""
        return str(
            pool_images.PoolImage(
                self.described(self.image).fingerprint,
                pool_images.State.PARTIAL,
                int(since),
                _OTHER_WRITER,
            )
        )

    def test_boot_waits_until_upload_of_other_host_is_lost(self):
        self.start_both()
        pool = self.pool_of('host2')
        name = self.partial(time.time())
        unit = pool.create(name, 1, powervm_pools.IMAGE)
        limit = pool_images.lost_after(unit.capacity)
        server = self.start_boot({}, disk=1, request={'host': 'host1'})
        while 'Waiting until another host' not in self.logged():
            time.sleep(0.05)
        self.assertEqual(0, self.uploads())

        unit = pool.rename(unit, self.partial(time.time() - limit))

        server = self._wait_until_built(server['id'])
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        self.assert_is_clone(self.disks_of(server)['root'], base.IMAGE)
        self.assertEqual(1, self.uploads())
        self._delete_server(server)
        self._assert_is_removed_after_a_day(unit)

    def _assert_is_removed_after_a_day(self, unit):
        for _ in range(2):
            self.clean_cache('host1')
        self.assertEqual([unit.name], list(self.units()))
        long_ago = time.time() - pool_images.ABANDONED_SECONDS - 1
        self.pool_of('host2').rename(unit, self.partial(long_ago))
        self.clean_cache('host1')
        self.assert_pool_empty()


class RefusedBuildTestCase(PoolCacheTestCase):
    """Provides builds that are refused by the only host that is asked."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')

    def refuse(self, **options):
        """Boot a server that is refused; return the reason."""
        server = self.boot_on('host1', expected='ERROR', **options)
        self.assertEqual({}, self.disks_of(server))
        self.assertNotIn(
            server['OS-EXT-SRV-ATTR:instance_name'],
            self.lpars_of_servers('host1'),
        )
        self.assert_no_files('host1')
        return server['fault']['message']


class SmallPoolTest(RefusedBuildTestCase):
    """Half of the pool is used by others."""

    def test_builds_are_refused_in_words(self):
        self.start_both(capacity=3)
        self.fill(1.5)
        self.tell_stories()

    def story_disk_does_not_fit(self):
        message = self.refuse(disk=2)

        self.assertIn('has 1.5 GB free, but 2 GB are needed', message)
        self.assertIn('root disk of 2 GB', message)
        self.assertEqual(['filler'], list(self.units()))

    def story_image_is_qcow2(self):
        found = self.create_image(
            images.qcow2(images.GIB), disk_format='qcow2'
        )

        message = self.refuse(image=found, disk=1)

        self.assertIn('its disk format is qcow2. Convert it to raw', message)
        with self.assertRaisesRegex(Exception, 'disk format is qcow2'):
            self.cache('host2', found)
        self.assertEqual(['filler'], list(self.units()))

    def story_blank_disk_does_not_fit(self):
        message = self.refuse(disk=1, ephemeral=2)

        self.assertIn('ephemeral 1 disk of 2 GB', message)
        self.assertEqual(1, len(self.images()))
        self.assertEqual(2, len(self.units()))


class OvercommittedPoolTest(RefusedBuildTestCase):
    """Placement promises more than there is."""

    def test_disk_allocation_ratio_is_heeded(self):
        self.flags(disk_allocation_ratio=4.0)
        self.start_both(capacity=3)
        self.fill(1.5)
        server = self.boot_on('host1', disk=3)
        self.assert_is_clone(self.disks_of(server)['root'], base.IMAGE)
        self.fill(1)

        message = self.refuse(disk=3)

        self.assertIn('0.75 GB are needed for root disk of 3 GB', message)

    def test_image_that_does_not_fit_is_refused_in_words(self):
        self.flags(disk_allocation_ratio=100.0)
        self.start_both(capacity=2)
        self.fill(2)
        found = self.create_image(bytes(40 * 1024**2))
        words = '0 GB free, but 0.04 GB are needed for the image'

        message = self.refuse(image=found, disk=1)

        self.assertIn(words, message)
        with self.assertRaisesRegex(Exception, words):
            self.cache('host2', found)
        self.assertEqual(['filler'], list(self.units()))

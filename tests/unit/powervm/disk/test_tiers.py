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

"""Disks and images in a pool with two tiers."""

from nova_powervm.lpar import image as lpar_image
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import pools
from tests.unit.powervm.disk import pool_host

LPAR, ROOT, SWAP = pool_host.LPAR, pool_host.ROOT, pool_host.SWAP
OTHER = '4B1C2D3E-0F00-4000-8000-000000000002'
READY = f'nvi{pool_host.IMAGE.fingerprint}'


class TierTestCase(pool_host.PoolTestCase):
    """Has a host with the default tier, and one with the other.

    Both are the same host, as if its option was changed.
    """

    cluster = {  # noqa: RUF012 - not changed
        'name': 'cloud',
        'nodes': ['vios1', 'vios2'],
        'pool': {
            'name': 'pool1',
            'capacity': 20,
            'tiers': [
                {'name': 'SYSTEM', 'capacity': 10, 'default': True},
                {'name': 'fast', 'capacity': 10},
            ],
        },
    }

    def setUp(self):
        super().setUp()
        self.slow = self.load()
        self.fast = self.load(tier_name='fast')

    def make_root(self, disks, lpar_uuid=LPAR):
        """Make a root disk of the image."""
        return disks.make_root(
            lpar_uuid,
            ROOT,
            pool_host.IMAGE,
            pool_host.CONTENTS,
            pool_host.source,
        )

    def in_tiers(self):
        """Return tier and name of all logical units."""
        (found,) = self.control.state()['clusters']
        return sorted(
            (unit['tier'], unit['name'])
            for unit in found['pool']['logical_units']
        )

    def uploads(self):
        """Return how many images were sent."""
        return self.labels().count('File.upload')


class MakeTest(TierTestCase):
    def test_root_disk_is_clone_of_image_in_its_own_tier(self):
        root = storage.unit_name(LPAR, storage.ROOT)
        other = storage.unit_name(OTHER, storage.ROOT)
        self.make_root(self.slow)
        self.make_root(self.fast, OTHER)
        self.assertEqual(
            [
                ('SYSTEM', root),
                ('SYSTEM', READY),
                ('fast', other),
                ('fast', READY),
            ],
            self.in_tiers(),
        )
        (found,) = self.control.state()['clusters']
        units = found['pool']['logical_units']
        tiers = {unit['udid'][2:]: unit['tier'] for unit in units}
        for unit in units:
            if unit['cloned_from']:
                self.assertEqual(unit['tier'], tiers[unit['cloned_from'][2:]])

    def test_image_is_sent_once_for_each_tier(self):
        for disks in (self.slow, self.fast):
            self.make_root(disks)
            self.make_root(disks, OTHER)
        self.assertEqual(2, self.uploads())

    def test_image_in_other_tier_is_not_cached(self):
        self.make_root(self.slow)
        self.assertIsNone(self.fast.pool.cached_image(pool_host.IMAGE))
        self.assertIsNotNone(self.slow.pool.cached_image(pool_host.IMAGE))
        self.fast.pool.cache_image(
            pool_host.IMAGE, pool_host.CONTENTS, pool_host.source
        )
        self.assertIsNotNone(self.fast.pool.cached_image(pool_host.IMAGE))

    def test_disk_is_made_again_if_image_is_retired_before_check(self):
        self.make_root(self.slow)
        self.make_root(self.fast, OTHER)
        image = self.image_in(self.fast)
        self.act_before('unit', lambda: self.retire(image))
        self.make_root(self.fast)
        self.assert_made_again(READY, f'{READY}.x65000000')

    def test_disk_is_made_again_if_image_is_gone_before_clone(self):
        self.make_root(self.slow)
        self.fast.pool.cache_image(
            pool_host.IMAGE, pool_host.CONTENTS, pool_host.source
        )
        image = self.image_in(self.fast)
        self.act_before('create', lambda: self.pool.delete(image))
        self.make_root(self.fast)
        self.assert_made_again(READY)

    def assert_made_again(self, *images):
        """Verify that a root disk and images are in the tier."""
        found = self.fast._units.units()
        root = storage.unit_name(LPAR, storage.ROOT)
        (clone,) = (unit for unit in found if unit.name == root)
        (image,) = (unit for unit in found if unit.name == READY)
        self.assertTrue(pools.is_clone_of(clone, image))
        self.assertEqual(
            {*images},
            {unit.name for unit in found if lpar_image.parse(unit.name)},
        )

    def act_before(self, method, action):
        """Act once before the pool's next call of a method."""
        pool = self.fast._units
        original = getattr(pool, method)

        def act_and_go_on(*args, **options):
            setattr(pool, method, original)
            action()
            return original(*args, **options)

        setattr(pool, method, act_and_go_on)

    def image_in(self, disks):
        """Return the image in the tier of a host."""
        (image,) = (u for u in disks._units.units() if u.name == READY)
        return image

    def retire(self, image):
        """Begin to delete an image, as another host would."""
        self.pool.rename(image, f'{READY}.x65000000')

    def test_disks_in_other_tier_are_deleted(self):
        self.make_root(self.slow)
        self.slow.make_blank(LPAR, SWAP)
        self.fast.remove(LPAR)
        self.assertEqual([('SYSTEM', READY)], self.in_tiers())

    def test_leftover_disk_in_other_tier_is_replaced(self):
        self.make_root(self.slow)
        self.make_root(self.fast)
        root = storage.unit_name(LPAR, storage.ROOT)
        self.assertEqual(
            [('SYSTEM', READY), ('fast', root), ('fast', READY)],
            self.in_tiers(),
        )


class CleanTest(TierTestCase):
    def test_unused_images_of_all_tiers_are_deleted(self):
        for disks in (self.slow, self.fast):
            self.make_root(disks)
            disks.remove(LPAR)
        for _ in range(2):
            self.slow.pool.clean_cache(0)
        self.assertEqual([], self.in_tiers())

    def test_images_with_clones_stay_in_all_tiers(self):
        self.make_root(self.slow)
        self.make_root(self.fast, OTHER)
        before = self.in_tiers()
        for _ in range(3):
            self.slow.pool.clean_cache(0)
            self.fast.pool.clean_cache(0)
        self.assertEqual(before, self.in_tiers())

    def test_image_stays_if_its_clone_was_moved_to_other_tier(self):
        self.make_root(self.fast)
        (image,) = (u for u in self.fast._units.units() if u.name == READY)
        self.slow._units.create('moved', 1, pools.DISK, image)
        self.fast.remove(LPAR)
        before = self.in_tiers()
        for _ in range(3):
            self.fast.pool.clean_cache(0)
        self.assertEqual(before, self.in_tiers())

    def test_start_deletes_interrupted_upload_in_former_tier(self):
        partial = lpar_image.PoolImage(
            pool_host.IMAGE.fingerprint,
            lpar_image.State.PARTIAL,
            0x65000000,
            '5b2c8a01',
        )
        self.slow._units.create(str(partial), 1, pools.IMAGE)
        self.fast.pool.delete_interrupted()
        self.assertEqual([], self.in_tiers())


class NewTierTest(pool_host.DiskTestCase):
    def test_tier_that_was_added_is_found_in_next_cycle(self):
        self.disks.capacity()
        self.disks.make_blank(LPAR, SWAP)
        world = self.world()
        world['clusters'][0]['pool'] = {
            'name': 'pool1',
            'capacity': 30,
            'tiers': [
                {'name': 'SYSTEM', 'capacity': 20, 'default': True},
                {'name': 'fast', 'capacity': 10},
            ],
        }
        self.control.load_world(world)
        self.load(tier_name='fast').make_blank(LPAR, SWAP)
        self.assertEqual([], self.disks.pool.disks(LPAR))
        self.assertEqual(20, self.disks.capacity().total_gb)
        self.assertEqual(1, len(self.disks.pool.disks(LPAR)))

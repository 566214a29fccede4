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

"""Hosts share the images in a pool without knowing of each other."""

from unittest import mock

from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import pools
from tests.unit.powervm.disk import pool_host

FINGERPRINT = pool_host.IMAGE.fingerprint
READY = f'nvi{FINGERPRINT}'
DAY = 24 * 3600


class InterruptedPool(pools.StoragePool):
    """A pool in which another host acts at a chosen moment, once each.

    :param before: Name of a method to what to do before it is called.
    """

    def __init__(self, adapter, **before):
        super().__init__(adapter)
        self._before = before

    def __getattribute__(self, name):
        if name in ('units', 'create', 'delete', 'rename', 'unit'):
            action = super().__getattribute__('_before').pop(name, None)
            if action is not None:
                action()
        return super().__getattribute__(name)


class ImageCacheTestCase(pool_host.PoolTestCase):
    def setUp(self):
        super().setUp()
        self.enterContext(
            mock.patch.object(image_cache, 'POLL_SECONDS', (0, 0))
        )
        self.clock = pool_host.Clock()
        self.ours = self.cache('0000aaaa', clock=self.clock)
        self.theirs = self.cache('0000bbbb', clock=self.clock)

    def provide(self, cache, source=pool_host.source):
        return cache.provide(pool_host.IMAGE, pool_host.CONTENTS, source)

    def clone(self, name='a clone'):
        image_unit = self.unit(READY)
        return self.pool.create(name, 1, pools.DISK, image_unit)

    def unit(self, name):
        return next(u for u in self.pool.units() if u.name == name)

    def make_partial(self, writer, age=0):
        name = image.PoolImage(
            FINGERPRINT,
            image.State.PARTIAL,
            int(self.clock.now - age),
            writer,
        )
        self.pool.create(str(name), 1, pools.IMAGE)
        return str(name)

    def uploads(self):
        return [label for label in self.labels() if label == 'File.upload']


class ProvideTest(ImageCacheTestCase):
    def test_first_host_writes_image_and_second_finds_it(self):
        found, is_new = self.provide(self.ours)
        self.assertTrue(is_new)
        again, is_new = self.provide(self.theirs)
        self.assertFalse(is_new)
        self.assertEqual(found.udid, again.udid)
        hashes = {name: unit['sha256'] for name, unit in self.units().items()}
        self.assertEqual({READY: pool_host.SHA256}, hashes)
        self.assertEqual(['File.upload'], self.uploads())

    def test_image_has_no_final_name_while_it_is_written(self):
        def look():
            (name,) = self.units()
            self.assertEqual(image.State.PARTIAL, image.parse(name).state)
            yield pool_host.DATA

        self.provide(self.ours, look)
        self.assertEqual([READY], [*self.units()])

    def test_damaged_image_leaves_nothing(self):
        def damaged():
            yield pool_host.DATA[:5]
            raise exception.ImageDamaged(image='it', reason='its hash')

        with self.assertRaises(exception.ImageDamaged):
            self.provide(self.ours, damaged)
        self.assertEqual({}, self.units())

    def test_host_gives_way_to_upload_that_began_before_its_own(self):
        other = []

        def begin():
            other.append(self.make_partial('0000bbbb'))

        def end():
            self.pool.rename(self.unit(other[0]), READY)

        pool = InterruptedPool(self.adapter, create=begin)
        ours = self.cache('0000aaaa', pool, self.clock)
        with mock.patch('time.sleep', side_effect=lambda _: end()):
            found, is_new = self.provide(ours)
        self.assertFalse(is_new)
        self.assertEqual(READY, found.name)
        self.assertEqual([READY], [*self.units()])

    def test_hosts_that_begin_together_upload_image_only_once(self):
        second = []

        def begin_too():
            # Sees the first host's announcement, and gives way.
            with mock.patch('time.sleep', side_effect=InterruptedError):
                try:
                    self.provide(self.theirs)
                except InterruptedError:
                    second.append('waits')

        pool = InterruptedPool(self.adapter)
        pool._before['rename'] = begin_too
        found, is_new = self.provide(self.cache('0000aaaa', pool, self.clock))
        self.assertTrue(is_new)
        self.assertEqual(['waits'], second)
        self.assertEqual(['File.upload'], self.uploads())
        self.assertEqual([READY], [*self.units()])
        self.assertEqual(READY, found.name)

    def test_host_waits_for_upload_of_another_one(self):
        name = self.make_partial('0000bbbb', age=60)
        waits = []

        def wait(seconds):
            waits.append(seconds)
            self.pool.rename(self.unit(name), READY)

        with mock.patch('time.sleep', wait):
            _, is_new = self.provide(self.ours)
        self.assertFalse(is_new)
        self.assertEqual(1, len(waits))

    def test_host_does_not_wait_for_upload_that_was_lost(self):
        age = int(image.lost_after(1)) + 1
        lost = self.make_partial('0000bbbb', age=age)
        _, is_new = self.provide(self.ours)
        self.assertTrue(is_new)
        self.assertEqual({READY, lost}, set(self.units()))

    def test_only_own_incomplete_images_are_replaced_or_deleted(self):
        other = self.make_partial('0000bbbb', age=2 * DAY)
        self.make_partial('0000aaaa')
        self.ours.delete_interrupted()
        self.assertEqual([other], [*self.units()])
        self.make_partial('0000aaaa')
        self.provide(self.ours)
        self.assertEqual({other, READY}, set(self.units()))

    def test_incomplete_image_that_stays_does_not_stop_service(self):
        name = self.make_partial('0000aaaa')
        self.pool.create('a clone', 1, pools.DISK, self.unit(name))
        self.ours.delete_interrupted()
        self.provide(self.ours)
        self.assertEqual({name, READY, 'a clone'}, set(self.units()))

    def test_lost_answers_make_no_second_image(self):
        for label in ('LogicalUnit.create', 'LogicalUnit.update'):
            self.control.add_fault(match=label, phase='after', drop=True)
        _, is_new = self.provide(self.ours)
        self.assertTrue(is_new)
        self.assertEqual([READY], [*self.units()])
        applied = [fault['applied'] for fault in self.control.faults()]
        self.assertEqual([1, 1], applied)

    def test_image_that_does_not_fit_is_refused_before_upload(self):
        large = image.Contents(30 << 30, 'raw', 30 << 30)
        with self.assertRaises(exception.InsufficientSpace) as caught:
            self.ours.provide(pool_host.IMAGE, large, pool_host.source)
        self.assertIn('30 GB are needed for the image', str(caught.exception))
        self.assertEqual({}, self.units())

    def test_same_one_of_two_images_is_found_by_each_host(self):
        for _ in range(2):
            self.pool.create(READY, 1, pools.IMAGE)
        units = self.pool.units()
        found = self.ours.find(FINGERPRINT, units)
        self.assertEqual(
            found.udid, self.theirs.find(FINGERPRINT, units[::-1]).udid
        )


class CleanTest(ImageCacheTestCase):
    def setUp(self):
        super().setUp()
        self.provide(self.ours)

    def state(self):
        (name,) = [n for n in self.units() if image.parse(n)]
        return image.parse(name).state

    def test_unused_image_is_marked_and_deleted_after_minimum_age(self):
        self.ours.clean(DAY)
        self.assertEqual(image.State.UNUSED, self.state())
        self.clock.now += DAY - 1
        self.theirs.clean(DAY)
        self.assertEqual(1, len(self.units()))
        self.clock.now += 1
        self.theirs.clean(DAY)
        self.assertEqual({}, self.units())

    def test_image_with_clone_stays(self):
        self.clone()
        for _ in range(3):
            self.ours.clean(0)
        self.assertEqual(image.State.READY, self.state())

    def test_marked_image_is_used_and_loses_its_mark(self):
        self.ours.clean(DAY)
        found, is_new = self.provide(self.theirs)
        self.assertFalse(is_new)
        self.pool.create('a clone', 1, pools.DISK, found)
        self.clock.now += 2 * DAY
        self.ours.clean(DAY)
        self.assertEqual(image.State.READY, self.state())

    def test_image_cloned_while_it_is_deleted_stays(self):
        self.ours.clean(0)
        unit = self.pool.units()[0]
        pool = InterruptedPool(self.adapter)
        cleaner = self.cache('0000aaaa', pool, self.clock)
        made = []
        pool._before['rename'] = lambda: made.append(
            self.pool.create('a clone', 1, pools.DISK, unit)
        )
        cleaner.clean(0)
        self.assertEqual(1, len(made))
        self.assertEqual(image.State.READY, self.state())
        self.assertTrue(self.theirs.is_usable(unit))

    def test_retired_image_is_unusable_for_clones(self):
        self.ours.clean(0)
        unit = self.pool.units()[0]
        seen = []

        def clone_too_late():
            seen.append(self.theirs.is_usable(unit))

        pool = InterruptedPool(self.adapter)
        pool._before['delete'] = clone_too_late
        self.cache('0000aaaa', pool, self.clock).clean(0)
        self.assertEqual([False], seen)
        self.assertEqual({}, self.units())

    def test_interrupted_deletion_is_completed_by_another_host(self):
        self.ours.clean(0)
        unit = self.pool.units()[0]
        known = image.parse(unit.name)
        retired = known.to(image.State.RETIRED, self.clock.now)
        self.pool.rename(unit, str(retired))
        self.theirs.clean(0)
        self.assertEqual([str(retired)], [*self.units()])
        self.clock.now += image.DELETING_SECONDS + 1
        self.theirs.clean(0)
        self.assertEqual({}, self.units())

    def test_interrupted_deletion_of_used_image_is_undone(self):
        self.clone()
        unit = self.unit(READY)
        retired = image.PoolImage(
            FINGERPRINT, image.State.RETIRED, int(self.clock.now)
        )
        self.pool.rename(unit, str(retired))
        self.clock.now += image.DELETING_SECONDS + 1
        self.ours.clean(0)
        self.assertEqual(image.State.READY, self.state())

    def test_upload_abandoned_for_a_day_is_deleted(self):
        self.make_partial('0000bbbb', age=DAY - 60)
        self.ours.clean(DAY)
        self.assertEqual(2, len(self.units()))
        self.clock.now += 120
        self.ours.clean(DAY)
        self.assertEqual(1, len(self.units()))

    def test_error_of_one_image_does_not_stop_cleaning(self):
        other = image.PoolImage('0' * 40)
        self.pool.create(str(other), 1, pools.IMAGE)
        self.control.add_fault(match='LogicalUnit.update', status=500)
        self.ours.clean(DAY)
        states = sorted(image.parse(name).state for name in self.units())
        self.assertEqual([image.State.READY, image.State.UNUSED], states)

    def test_units_of_others_are_left_alone(self):
        self.pool.create('somebodys', 1, pools.DISK)
        self.pool.create('an image of somebody', 1, pools.IMAGE)
        for _ in range(3):
            self.clock.now += 2 * DAY
            self.ours.clean(0)
        self.assertEqual(
            {'somebodys', 'an image of somebody'}, set(self.units())
        )

    def test_clones_are_recognized_by_udid_without_type(self):
        clone = self.clone()
        self.assertIsInstance(clone, pvm_storage.LUEnt)
        self.assertTrue(pools.is_clone_of(clone, self.unit(READY)))
        self.assertFalse(pools.is_clone_of(self.unit(READY), clone))

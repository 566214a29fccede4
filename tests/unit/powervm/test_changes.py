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

"""What makes a reading of the host out of date, without a host."""

import unittest

from nova_powervm.powervm import changes
from nova_powervm.powervm import events

SYSTEM = (changes.Topic.SYSTEM,)
STORAGE = (changes.Topic.STORAGE,)
UOM = 'http://localhost:12080/rest/api/uom'
ONE = '/5487ce1e-af19-422a-99b8-a714e61a441c'


class Clock:
    """Seconds that a test lets pass."""

    now = 100.0

    def __call__(self):
        return self.now


class ChangesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.changes = changes.Changes(self.clock)

    def watch(self, topics=SYSTEM, full_read_seconds=600):
        return changes.Watch(
            self.changes, topics, full_read_seconds, self.clock
        )

    def read(self, watch):
        with watch.reading():
            pass

    def test_nothing_is_believed_before_the_first_answer(self):
        watch = self.watch()
        self.read(watch)
        self.assertFalse(watch.unchanged)
        self.changes.answered()
        self.assertFalse(watch.unchanged)
        self.read(watch)
        self.assertTrue(watch.unchanged)

    def test_a_topic_does_not_touch_another(self):
        self.changes.answered()
        system, storage = self.watch(SYSTEM), self.watch(STORAGE)
        self.read(system)
        self.read(storage)
        self.changes.touch(STORAGE)
        self.assertTrue(system.unchanged)
        self.assertFalse(storage.unchanged)

    def test_a_change_while_it_is_read(self):
        self.changes.answered()
        watch = self.watch()
        with watch.reading():
            self.changes.touch(SYSTEM)
        self.assertFalse(watch.unchanged)

    def test_a_reading_that_failed(self):
        self.changes.answered()
        watch = self.watch()
        self.read(watch)
        with self.assertRaises(ValueError), watch.reading():
            raise ValueError()
        self.assertFalse(watch.unchanged)

    def test_a_stream_that_was_broken_meanwhile(self):
        self.changes.answered()
        watch = self.watch()
        self.read(watch)
        self.changes.interrupted()
        self.assertFalse(watch.unchanged)
        self.changes.answered()
        self.assertFalse(watch.unchanged)

    def test_a_stream_that_hangs(self):
        self.changes.answered()
        watch = self.watch()
        self.read(watch)
        self.clock.now += changes.SILENCE_SECONDS
        self.assertFalse(watch.unchanged)
        # It was slow, but nothing was lost.
        self.changes.answered()
        self.assertTrue(watch.unchanged)

    def test_a_full_reading_is_due(self):
        watch = self.watch(full_read_seconds=60)
        self.assertTrue(watch.overdue)
        self.read(watch)
        self.clock.now += 59
        self.changes.answered()
        # This one is not full, so it does not count.
        self.read(watch)
        self.assertTrue(watch.unchanged)
        self.clock.now += 1
        self.assertTrue(watch.overdue)
        self.assertFalse(watch.unchanged)

    def test_always_full(self):
        self.changes.answered()
        watch = self.watch(full_read_seconds=0)
        self.read(watch)
        self.assertTrue(watch.overdue)
        self.assertFalse(watch.unchanged)

    def test_forgotten(self):
        self.changes.answered()
        watch = self.watch()
        self.read(watch)
        watch.forget()
        self.assertTrue(watch.overdue)
        self.assertFalse(watch.unchanged)


class TouchedTest(unittest.TestCase):
    def test_uris(self):
        system = f'{UOM}/ManagedSystem{ONE}'
        vios = f'{UOM}/VirtualIOServer{ONE}'
        for uri, expected in (
            (system, SYSTEM),
            (f'{UOM}/LogicalPartition{ONE}', SYSTEM),
            (f'{system}/LogicalPartition{ONE}?group=None', SYSTEM),
            (f'{system}/LogicalPartition', SYSTEM),
            (vios, changes.ALL),
            (f'{system}/VirtualIOServer{ONE}', changes.ALL),
            (f'{vios}/VolumeGroup{ONE}', STORAGE),
            (f'{system}/VirtualIOServer{ONE}/VolumeGroup{ONE}', STORAGE),
            (f'{UOM}/LogicalPartition{ONE}/ClientNetworkAdapter{ONE}', ()),
            (f'{UOM}/SomethingNew{ONE}', changes.ALL),
            ('', changes.ALL),
            (None, changes.ALL),
            ('what is this', changes.ALL),
        ):
            for type_ in ('ADD_URI', 'MODIFY_URI', 'DELETE_URI'):
                with self.subTest(uri=uri, type=type_):
                    self.assertEqual(
                        frozenset(expected), events.touched(type_, uri)
                    )

    def test_types(self):
        for type_, expected in (
            ('NEW_CLIENT', changes.ALL),
            ('CACHE_CLEARED', changes.ALL),
            ('MISSING_EVENTS', changes.ALL),
            ('SOMETHING_NEW', changes.ALL),
            (None, changes.ALL),
            ('CUSTOM_CLIENT_EVENT', ()),
        ):
            with self.subTest(type=type_):
                self.assertEqual(
                    frozenset(expected), events.touched(type_, '')
                )

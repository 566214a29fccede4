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

"""What is read of an emulated host that tells of its changes, or does not."""

import logging
import threading
import time
import unittest
import unittest.mock
import warnings

from nova_powervm.conf import powervm as options
from nova_powervm.emulator import fixture
from nova_powervm.emulator import worlds
from nova_powervm.powervm import changes
from nova_powervm.powervm import events
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.disk import localdisk

# Longer than any test: only an event ends a poll.
LONG = 60
LPAR = '4B1C2D3E-0F00-4000-8000-000000000001'


class EventsTestCase(unittest.TestCase):
    full_read_seconds = 600

    def setUp(self):
        super().setUp()
        warnings.simplefilter('ignore')
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        # What ends the belief in a stream is never its silence here.
        self.enterContext(
            unittest.mock.patch.object(changes, 'SILENCE_SECONDS', 10 * LONG)
        )
        self.start()

    def start(self, world=None):
        self.emulator = fixture.Emulator(world, event_wait=LONG)
        self.emulator.start()
        self.addCleanup(self.emulator.stop)
        self.control = self.emulator.control
        server = options.Server(
            url=self.emulator.url,
            username=self.emulator.username,
            password=self.emulator.password,
            connect_timeout=0,
        )
        self.adapter = session.connect(server)
        self.addCleanup(self.adapter.session.close)
        self.changes = self.adapter.session.changes
        self.system = system.RestSystem(
            self.adapter, server, self.full_read_seconds
        )
        self.disks = localdisk.LocalDisk(
            self.adapter,
            options.Settings(
                server,
                volume_group='image_pool',
                full_read_interval=self.full_read_seconds,
            ),
        )

    def listen(self):
        listener = events.Listener(self.adapter)
        # Let a broken stream come back at once.
        self.enterContext(
            unittest.mock.patch.multiple(
                events, _PAUSE=0.01, _RETRY_FIRST=0.05
            )
        )
        listener.start()
        self.addCleanup(listener.stop)
        self.wait(lambda: self.changes.believed)
        return listener

    def wait(self, condition):
        deadline = time.monotonic() + LONG
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def position(self):
        return self.changes.position(changes.ALL)

    def come_back(self):
        """Wait for the stream; a poll under way ends with any event."""

        def is_back():
            self.control.emit_event('CUSTOM_CLIENT_EVENT')
            return self.changes.believed

        self.wait(is_back)

    def heard_of(self, act, *args, **kwargs):
        """Change the host behind the driver's back; wait for its event."""
        before = self.position()
        act(*args, **kwargs)
        self.wait(lambda: self.position() not in (None, before))

    def cycle(self):
        """Read what a cycle reads; give the requests that this took."""
        self.control.clear_journal()
        self.view = self.system.read()
        self.disk = self.disks.capacity()
        return [
            (record['label'], record['status'])
            for record in self.control.journal()
            if record['label'] != 'Event.feed'
        ]

    def owner(self, index):
        return self.view.slot(index).owner


UNCHANGED = [
    ('ManagedSystem.read', 304),
    ('VolumeGroup.read', 304),
]


class HealthyTest(EventsTestCase):
    def setUp(self):
        super().setUp()
        self.listen()
        self.cycle()

    def test_nothing_is_asked_and_the_same_objects_come_back(self):
        view, disk = self.view, self.disk
        self.assertEqual([], self.cycle())
        self.assertIs(view, self.view)
        self.assertIs(disk, self.disk)

    def test_a_slot_gets_another_owner(self):
        self.heard_of(self.control.set_owner, '21010020', 'archive')
        self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)
        self.assertEqual([], self.cycle())

    def test_a_card_is_plugged_and_pulled(self):
        card = {'description': 'GPU', 'vendor_id': '10DE', 'class': '0302'}
        self.heard_of(self.control.plug, '21010040', card)
        self.cycle()
        self.assertFalse(self.view.slot(0x21010040).is_empty)
        self.heard_of(self.control.pull, '21010040')
        self.cycle()
        self.assertTrue(self.view.slot(0x21010040).is_empty)

    def test_a_partition_is_stopped(self):
        self.heard_of(
            self.control.set_partition, 'archive', state='not activated'
        )
        self.assertIn('ManagedSystem.read', [r[0] for r in self.cycle()])

    def test_another_client_makes_a_disk(self):
        server = self.adapter.session
        other = session.connect(
            options.Server(
                url=self.emulator.url,
                username=self.emulator.username,
                password=self.emulator.password,
            )
        )
        self.addCleanup(other.session.close)
        self.assertIsNot(server, other.session)
        theirs = localdisk.LocalDisk(
            other, options.Settings(volume_group='image_pool')
        )
        before = self.disk
        self.heard_of(theirs._disk, LPAR, 'theirs', 2, 'raw')
        self.assertEqual([('VolumeGroup.read', 200)], self.cycle())
        self.assertEqual(before.used_gb + 2, self.disk.used_gb)

    def test_what_we_write_ourselves_is_seen_at_once(self):
        before = self.disk
        # The event of it may come whenever it likes.
        with unittest.mock.patch.object(
            events, 'touched', return_value=frozenset()
        ):
            self.disks._disk(LPAR, 'ours', 3, 'raw')
            self.cycle()
        self.assertEqual(before.used_gb + 3, self.disk.used_gb)

    def test_another_thread_reads_meanwhile(self):
        reads = iter([self.system.read])

        def overtaken(_):
            for read in reads:
                self.heard_of(self.control.set_owner, '21010020', 'archive')
                read(fresh=True)
            return True

        with unittest.mock.patch.object(
            changes.Watch, 'unchanged', property(overtaken)
        ):
            self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)

    def test_a_spawn_asks_the_host_all_the_same(self):
        self.control.clear_journal()
        self.assertIs(self.view, self.system.read(fresh=True))
        self.assertEqual(
            [UNCHANGED[0]],
            [
                (record['label'], record['status'])
                for record in self.control.journal()
                if record['label'] != 'Event.feed'
            ],
        )

    def test_events_that_say_that_others_were_lost(self):
        for type_ in ('CACHE_CLEARED', 'MISSING_EVENTS', 'UNHEARD_OF'):
            with self.subTest(type_):
                self.heard_of(self.control.emit_event, type_)
                self.assertEqual(UNCHANGED, self.cycle())
                self.assertEqual([], self.cycle())

    def test_a_session_that_expires(self):
        self.control.expire_sessions()
        self.control.set_owner('21010020', 'archive')
        self.wait(lambda: not self.changes.believed)
        self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)
        self.come_back()
        self.cycle()
        self.assertEqual([], self.cycle())

    def test_nobody_waits_for_a_poll_that_logs_on_again(self):
        self.control.expire_sessions()
        # The poll under way ends, and the next one is refused.
        self.control.emit_event('CACHE_CLEARED')
        self.wait(lambda: not self.changes.believed)
        started = time.monotonic()
        self.assertIn(('Logon.create', 200), self.cycle())
        self.assertLess(time.monotonic() - started, LONG / 4)


class LostEventTest(EventsTestCase):
    full_read_seconds = 0.5

    def test_the_next_full_reading_makes_up_for_it(self):
        self.listen()
        self.cycle()
        # The event feed of this host says nothing of it.
        feed = self.emulator._application._emulation.host.events
        with unittest.mock.patch.object(feed, 'emit'):
            self.control.set_owner('21010020', 'archive')
        self.wait(lambda: ('ManagedSystem.read', 200) in self.cycle())
        self.assertEqual('archive', self.owner(0x21010020).name)

    def test_a_full_reading_of_an_unchanged_host_gives_the_same_object(self):
        self.listen()
        self.cycle()
        view, disk = self.view, self.disk
        self.wait(lambda: ('ManagedSystem.read', 200) in self.cycle())
        self.assertIs(view, self.view)
        self.assertEqual(disk, self.disk)


class BrokenTest(EventsTestCase):
    def test_without_events_etags_do(self):
        self.cycle()
        view = self.view
        self.assertEqual(UNCHANGED, self.cycle())
        self.assertIs(view, self.view)

    def test_a_stream_that_breaks_and_comes_back(self):
        self.listen()
        self.cycle()
        self.control.add_fault(match='Event.feed', every=True, status=500)
        self.control.emit_event('CACHE_CLEARED')
        self.wait(lambda: not self.changes.believed)
        self.cycle()
        self.assertEqual(UNCHANGED, self.cycle())
        # Nobody hears of this.
        self.control.set_owner('21010020', 'archive')
        self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)
        self.control.clear_faults()
        self.come_back()
        self.cycle()
        self.assertEqual([], self.cycle())

    def test_an_event_that_nobody_foresaw(self):
        self.listen()
        self.cycle()
        with unittest.mock.patch.object(
            events, 'touched', side_effect=LookupError('what is this?')
        ):
            self.control.set_owner('21010020', 'archive')
            self.wait(lambda: not self.changes.believed)
        self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)
        self.come_back()


class ProfilesTest(EventsTestCase):
    """A host that does not report who owns its slots."""

    def start(self):
        world = worlds.default()
        world['systems'][0]['reports_slot_owners'] = False
        super().start(world)

    def test_each_feed_is_asked_once_and_answers_304(self):
        self.cycle()
        view = self.view
        self.assertEqual(
            {
                ('ManagedSystem.read', 304),
                ('VirtualIOServer.feed', 304),
                ('LogicalPartition.feed', 304),
                ('VolumeGroup.read', 304),
            },
            set(self.cycle()),
        )
        self.assertIs(view, self.view)

    def test_events(self):
        self.listen()
        self.cycle()
        self.assertEqual([], self.cycle())
        self.heard_of(self.control.set_owner, '21010020', 'archive')
        self.cycle()
        self.assertEqual('archive', self.owner(0x21010020).name)


class ThreadTest(EventsTestCase):
    def threads(self):
        return [
            thread
            for thread in threading.enumerate()
            if thread.name == 'powervm-events'
        ]

    def test_it_ends_although_its_poll_would_wait(self):
        before = self.threads()
        listener = self.listen()
        self.assertEqual(len(before) + 1, len(self.threads()))
        started = time.monotonic()
        listener.stop()
        self.assertEqual(before, self.threads())
        self.assertLess(time.monotonic() - started, 10)

    def test_it_ends_when_the_host_is_gone(self):
        before = self.threads()
        listener = self.listen()
        self.emulator.stop()
        listener.stop()
        self.assertEqual(before, self.threads())

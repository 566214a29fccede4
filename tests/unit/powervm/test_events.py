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

"""The event stream of an emulated host."""

import logging
import threading
import time
import unittest
import unittest.mock
import warnings

from nova_powervm.powervm import events
from tests.unit.powervm import hosts

# Longer than any test: only an event ends a poll.
LONG = 60
STATE = {'state': 'not activated'}


class Watcher:
    """Notes what it is told to look at."""

    def __init__(self):
        self.told = []
        self.error = None

    def check(self, lpar_uuids, wait):
        self.told.append(lpar_uuids)
        if self.error:
            error, self.error = self.error, None
            raise error


class EventsTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        warnings.simplefilter('ignore')
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.emulator = hosts.start(self, event_wait=LONG)
        self.control = self.emulator.control
        self.adapter = hosts.connect(self, self.emulator)
        self.watcher = Watcher()
        # Let a broken stream come back at once.
        self.enterContext(
            unittest.mock.patch.multiple(
                events, _PAUSE=0.01, _RETRY_FIRST=0.05
            )
        )
        self.listener = events.Listener(self.adapter, self.watcher)

    def listen(self):
        self.listener.start()
        self.addCleanup(self.listener.stop)
        # A new client looks at all LPARs once.
        self.wait(lambda: self.watcher.told == [None])
        self.watcher.told.clear()

    def wait(self, condition):
        deadline = time.monotonic() + LONG
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def uuid(self, name):
        (system,) = self.control.state()['systems']
        (found,) = (
            lpar['uuid']
            for lpar in system['partitions']
            if lpar['name'] == name
        )
        return found.upper()


class ListenerTest(EventsTestCase):
    def setUp(self):
        super().setUp()
        self.listen()

    def heard(self):
        """Give what the watcher was told, without what came of this test."""
        # Whatever is in the queue before it was polled together with it.
        self.control.emit_event('CACHE_CLEARED')
        self.wait(lambda: None in self.watcher.told)
        told, self.watcher.told = self.watcher.told, []
        return [lpars for lpars in told if lpars]

    def test_changed_state_is_told_with_its_lpar(self):
        self.control.set_partition('archive', **STATE)
        self.wait(lambda: self.watcher.told)
        self.assertEqual({self.uuid('archive')}, self.watcher.told[0])

    def test_changed_owner_of_a_slot_is_not_told(self):
        self.control.set_owner('21010020', 'archive')
        self.assertEqual([], self.heard())

    def test_lost_events_have_all_lpars_looked_at(self):
        for type_ in ('CACHE_CLEARED', 'MISSING_EVENTS', 'UNHEARD_OF'):
            with self.subTest(type_):
                self.control.emit_event(type_)
                self.wait(lambda: self.watcher.told)
                self.assertEqual([None], self.watcher.told)
                self.watcher.told.clear()

    def test_broken_stream_has_all_lpars_looked_at_once_it_is_back(self):
        self.control.add_fault(match='Event.feed', every=True, status=500)
        self.control.emit_event('CUSTOM_CLIENT_EVENT')
        self.wait(self.faults_met)
        # Nobody hears of this.
        self.control.set_partition('archive', **STATE)
        self.control.clear_faults()
        self.wait(lambda: self.watcher.told)
        self.assertIsNone(self.watcher.told[0])

    def faults_met(self):
        return any(
            record['label'] == 'Event.feed' and record['status'] == 500
            for record in self.control.journal()
        )

    def test_watcher_that_fails_looks_at_all_lpars_again(self):
        self.watcher.error = LookupError('what is this?')
        self.control.set_partition('archive', **STATE)
        self.wait(lambda: len(self.watcher.told) == 1)
        self.control.emit_event('CUSTOM_CLIENT_EVENT')
        self.wait(lambda: len(self.watcher.told) > 1)
        self.assertIsNone(self.watcher.told[1])

    def test_poll_does_not_log_on_again(self):
        self.control.expire_sessions()
        self.control.clear_journal()
        # The poll under way ends, and the next one is refused.
        self.control.emit_event('CUSTOM_CLIENT_EVENT')
        self.wait(
            lambda: any(
                record['status'] == 401 for record in self.control.journal()
            )
        )
        self.assertNotIn('PUT Logon.create', self.control.journal_counts())


class ThreadTest(EventsTestCase):
    def threads(self):
        name = 'powervm-events'
        return [one for one in threading.enumerate() if one.name == name]

    def test_stop_ends_a_poll_under_way_and_does_not_need_the_host(self):
        for stops_host in (False, True):
            with self.subTest(stops_host=stops_host):
                before = self.threads()
                self.watcher.told.clear()
                listener = events.Listener(self.adapter, self.watcher)
                listener.start()
                self.addCleanup(listener.stop)
                self.wait(lambda: self.watcher.told == [None])
                self.assertEqual(len(before) + 1, len(self.threads()))
                started = time.monotonic()
                if stops_host:
                    self.emulator.stop()
                listener.stop()
                self.assertEqual(before, self.threads())
                self.assertLess(time.monotonic() - started, 10)


class Event:
    """An event as pypowervm wraps it."""

    def __init__(self, etype, data=None, detail=None):
        self.etype, self.data, self.detail = etype, data, detail


ROOT = 'https://host:12443/rest/api/uom/'
LPAR = '4b1c2d3e-0f00-4000-8000-000000000001'


class ChangedLparsTest(unittest.TestCase):
    def changed(self, *event):
        return events.changed_lpars([Event(*event)])

    def test_lpar_uri_is_understood_in_both_forms(self):
        for path in (
            f'LogicalPartition/{LPAR}',
            f'ManagedSystem/{LPAR}/LogicalPartition/{LPAR}?group=None',
        ):
            self.assertEqual(
                {LPAR.upper()}, self.changed('MODIFY_URI', ROOT + path)
            )

    def test_detail_decides_if_there_is_one(self):
        uri = f'{ROOT}LogicalPartition/{LPAR}'
        self.assertTrue(
            self.changed('MODIFY_URI', uri, 'PartitionState,Other')
        )
        self.assertFalse(
            self.changed('MODIFY_URI', uri, 'ReferenceCode,Other')
        )

    def test_events_of_other_resources_and_deletions_are_skipped(self):
        for event in (
            ('MODIFY_URI', f'{ROOT}VirtualIOServer/{LPAR}'),
            ('MODIFY_URI', f'{ROOT}LogicalPartition/{LPAR}/VirtualNetwork/x'),
            ('MODIFY_URI', None),
            ('ADD_URI', f'{ROOT}LogicalPartition/{LPAR}'),
            ('DELETE_URI', f'{ROOT}LogicalPartition/{LPAR}'),
            ('CUSTOM_CLIENT_EVENT', 'whatever'),
        ):
            self.assertEqual(frozenset(), self.changed(*event))

    def test_unknown_event_means_any_lpar(self):
        for etype in ('NEW_CLIENT', 'CACHE_CLEARED', 'MISSING_EVENTS', None):
            self.assertIsNone(self.changed(etype))

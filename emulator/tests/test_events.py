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

"""The event feed, through pypowervm's event listener and wrappers."""

import queue
import threading

from pypowervm import adapter as pvm_adapter
from pypowervm.tasks import power
from pypowervm.wrappers import event

from powervm_emulator.core import events as events_state

from . import base

# Longer than any test, so that only an event ends a wait.
LONG = 60


class QueueingHandler(pvm_adapter.RawEventHandler):
    """Puts each event into a queue."""

    def __init__(self):
        self.events = queue.Queue()

    def process(self, events):
        for item in events:
            self.events.put(item)

    def next(self, type_):
        """Return the data and detail of the next event of a type."""
        while True:
            item = self.events.get(timeout=LONG)
            if item['EventType'] == type_:
                data = base.without_host(item['EventData'] or '')
                return data, item['EventDetail']


class EventFeedTest(base.EmulatorTestCase):
    """Polls that return immediately."""

    def setUp(self):
        super().setUp()
        self.emulator._application._emulation.event_wait = 0

    def poll(self, client='client'):
        return [
            (item.etype, base.without_host(item.data or ''), item.detail or '')
            for item in event.Event.get(self.adapter, client)
        ]

    def test_first_poll_announces_new_client(self):
        self.assertEqual([('NEW_CLIENT', '', '')], self.poll())
        self.assertEqual([], self.poll())

    def test_clients_have_event_queues_of_their_own(self):
        self.poll('a')
        self.poll('b')
        self.create()
        self.assertEqual(self.poll('a'), self.poll('b'))

    def test_create_with_slots_emits_add_and_system_change(self):
        self.poll()
        created = self.create(slots=base.GPUS[:1])
        system = f'/rest/api/uom/ManagedSystem/{self.system().uuid}'
        self.assertEqual(
            [
                ('ADD_URI', f'{system}/LogicalPartition/{created.uuid}', ''),
                ('MODIFY_URI', system, 'Other'),
            ],
            self.poll(),
        )

    def test_rename_emits_modified_partition_name(self):
        created = self.create()
        self.poll()
        created.name = 'other'
        created.update()
        ((type_, data, detail),) = self.poll()
        self.assertEqual('MODIFY_URI', type_)
        self.assertTrue(data.endswith(created.uuid))
        self.assertEqual('PartitionName,Other', detail)

    def test_delete_with_slots_emits_delete_and_system_change(self):
        created = self.create(slots=base.GPUS[:1])
        self.poll()
        created.delete()
        self.assertEqual(
            ['DELETE_URI', 'MODIFY_URI'], [item[0] for item in self.poll()]
        )

    def test_refused_request_emits_no_event(self):
        self.poll()
        self.assert_refused(
            500, '.', self.build(slots=[base.VIOS_SLOT]).create
        )
        self.assertEqual([], self.poll())

    def test_set_owner_emits_changes_of_partition_and_system(self):
        self.poll()
        self.control.set_owner('21010020', 'archive')
        changed = [data.rsplit('/', 2)[1] for _, data, _ in self.poll()]
        self.assertEqual(['LogicalPartition', 'ManagedSystem'], changed)

    def test_event_numbers_increase(self):
        event.Event.get(self.adapter, 'client')
        self.create()
        self.control.emit_event('INVALID_URI')
        numbers = [
            int(item.eid) for item in event.Event.get(self.adapter, 'client')
        ]
        self.assertEqual(sorted(set(numbers)), numbers)

    def test_client_can_emit_custom_event(self):
        self.poll()
        event.Event.bld(self.adapter, 'some data', 'some detail').create()
        self.assertEqual(
            [('CUSTOM_CLIENT_EVENT', 'some data', 'some detail')], self.poll()
        )

    def test_reset_emits_cache_cleared(self):
        self.poll()
        self.create()
        self.control.reset()
        self.assertEqual('CACHE_CLEARED', self.poll()[-1][0])

    def test_full_event_queue_is_replaced_by_missing_events(self):
        self.poll()
        for _ in range(events_state.QUEUE_LIMIT + 1):
            self.control.emit_event('INVALID_URI')
        self.control.emit_event('CACHE_CLEARED')
        self.assertEqual(
            ['MISSING_EVENTS', 'CACHE_CLEARED'],
            [item[0] for item in self.poll()],
        )


class EventListenerTest(base.EmulatorTestCase):
    """Polls that wait, made by pypowervm's listener thread."""

    def setUp(self):
        super().setUp()
        self.emulator._application._emulation.event_wait = LONG
        self.handler = QueueingHandler()
        self.listener = self.adapter.session.get_event_listener()
        self.listener.subscribe(self.handler)
        self.addCleanup(self.release, self.listener._pthread)

    def release(self, thread):
        self.listener.unsubscribe(self.handler)
        # The last poll of the thread ends with the emulator.
        self.emulator._application.close()
        thread.join(LONG)

    def test_listener_receives_lifecycle_events(self):
        created = self.create()
        data, _ = self.handler.next('ADD_URI')
        self.assertTrue(data.endswith(created.uuid))
        power.power_on(created, None)
        data, detail = self.handler.next('MODIFY_URI')
        self.assertTrue(data.endswith(created.uuid))
        self.assertIn('PartitionState', detail.split(','))
        created = self.read(created.uuid)
        power.power_off(created, None, force_immediate=True)
        self.read(created.uuid).delete()
        data, _ = self.handler.next('DELETE_URI')
        self.assertTrue(data.endswith(created.uuid))


class EmulatorStopTest(base.EmulatorTestCase):
    def test_stopping_emulator_ends_waiting_poll(self):
        self.emulator._application._emulation.event_wait = LONG
        event.Event.get(self.adapter, 'client')
        answers = queue.Queue()
        adapter = self.adapter

        def poll():
            answers.put(event.Event.get(adapter, 'client'))

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        self.emulator._application.close()
        self.assertEqual([], answers.get(timeout=LONG))
        thread.join(LONG)

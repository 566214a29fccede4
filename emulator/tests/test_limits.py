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

"""Long requests, many requests and many events stay within limits."""

import sys
import threading

from lxml import etree
from pypowervm.wrappers import event
from werkzeug import test

from . import base
from . import wire

WAIT = 60
# Of the journal.
RECORDS = 2000


class Steps:
    """Counts the calls of functions in threads that start from now on.

    :ivar count: the calls so far, of all these threads.
    :ivar hold: the number of the call that waits, or None.
    """

    def __init__(self, test):
        self.count = 0
        self.hold = None
        self.held = threading.Event()
        self.released = threading.Event()
        self._active = False
        threading.setprofile(self._step)
        test.addCleanup(threading.setprofile, None)
        test.addCleanup(self.released.set)

    def start(self, hold=None):
        """Count from 0."""
        self.count, self.hold, self._active = 0, hold, True

    def stop(self):
        """Return the number of calls since the start."""
        self._active = False
        return self.count

    def _step(self, _frame, kind, _argument):
        if not self._active or kind not in ('call', 'c_call'):
            return
        self.count += 1
        if self.count == self.hold:
            self._active = False
            self.held.set()
            self.released.wait(WAIT)


class LongRequestTest(wire.WireTestCase):
    world = {  # noqa: RUF012 - as in the other tests
        'systems': [
            {
                'name': 'any',
                'memory': {'configurable': 65536},
                'virtual_io_servers': [
                    {
                        'name': 'vios1',
                        'state': 'running',
                        'rmc_state': 'active',
                        'memory': 4096,
                        'processors': 1,
                        'volume_groups': [
                            {'name': 'pool', 'capacity': 100000}
                        ],
                    }
                ],
            }
        ]
    }

    def setUp(self):
        # Before the emulator starts its threads.
        self.steps = Steps(self)
        super().setUp()

    def document(self, count):
        """Return path and document of the group with new disks."""
        vios = self.path_of('vios1')
        (group,) = self.get(f'{vios}/VolumeGroup?group=None').contents
        uuid = wire.child(group, 'Metadata/Atom/AtomID').text
        disks = wire.child(group, 'VirtualDisks')
        self.assertIsNotNone(disks)
        for number in range(count):
            disk = etree.SubElement(disks, f'{{{wire.UOM}}}VirtualDisk')
            disk.set('schemaVersion', 'V1_0')
            for name, text in (
                ('DiskCapacity', '1'),
                ('DiskName', f'disk{number}'),
            ):
                etree.SubElement(disk, f'{{{wire.UOM}}}{name}').text = text
        return f'{vios}/VolumeGroup/{uuid}', group

    def post(self, count, hold=None):
        """Create disks; return the steps that it took."""
        self.control.reset()
        path, document = self.document(count)
        self.steps.start(hold)
        answer = self.ask('POST', path, document)
        steps = self.steps.stop()
        self.assertEqual(200, answer.status, answer.text[:2000])
        self.assertEqual(count, answer.text.count('<DiskName'))
        return steps

    def test_steps_grow_as_number_of_new_disks(self):
        few, many = self.post(100), self.post(400)
        self.assertGreater(few, 100)
        # Four times as many disks; 16 times the steps would be quadratic.
        self.assertLess(many / few, 6)

    def test_reads_are_answered_during_long_write(self):
        half = self.post(400) // 2
        self.control.reset()
        path, document = self.document(400)
        answers = []

        def write():
            sys.setprofile(None)
            answers.append(self.ask('POST', path, document))

        writer = threading.Thread(target=write, daemon=True)
        self.steps.start(half)
        writer.start()
        self.assertTrue(self.steps.held.wait(WAIT))
        reader = threading.Thread(
            target=lambda: answers.append(self.get('uom/ManagedSystem')),
            daemon=True,
        )
        reader.start()
        reader.join(5)
        answered = list(answers)
        self.steps.released.set()
        writer.join(WAIT)
        reader.join(WAIT)
        self.assertEqual(1, len(answered), 'The read waits for the write.')
        self.assertEqual([200, 200], [answer.status for answer in answers])
        group = self.get(path).content
        disks = wire.child(group, 'VirtualDisks')
        self.assertEqual(400, wire.names(disks).count('VirtualDisk'))


class JournalTest(wire.WireTestCase):
    def test_journal_keeps_latest_requests_only(self):
        self.control.clear_journal()
        # Without sockets, which would take most of the time.
        direct = test.Client(self.emulator._application)
        first = None
        for _ in range(RECORDS + 50):
            direct.delete('/rest/api/uom/Event')
            first = first or self.control.journal()[0]['number']
        records = self.control.journal()
        self.assertLessEqual(len(records), RECORDS)
        self.assertGreaterEqual(len(records), 1000)
        numbers = [record['number'] for record in records]
        self.assertEqual(first + RECORDS + 49, numbers[-1])
        self.assertEqual(list(range(numbers[0], numbers[-1] + 1)), numbers)
        # Those that are no longer kept are counted.
        self.assertEqual(
            RECORDS + 50, sum(self.control.journal_counts().values())
        )
        self.control.clear_journal()
        self.assertEqual({}, self.control.journal_counts())


class EventQueueTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.emulator = base.start(self, event_wait=0)
        self.control = self.emulator.control
        self.adapter = self.new_adapter()

    def new_adapter(self):
        adapter = base.adapter_for(self.emulator)
        self.addCleanup(base.forget, adapter.session)
        return adapter

    def types(self, adapter, client='client'):
        return [item.etype for item in event.Event.get(adapter, client)]

    def log_off(self):
        answer = self.ask('DELETE', 'web/Logon')
        self.assertEqual(204, answer.status)

    def test_event_queue_ends_with_its_session(self):
        self.assertEqual(['NEW_CLIENT'], self.types(self.adapter))
        self.control.emit_event('INVALID_URI')
        other = self.new_adapter()
        self.log_off()
        self.assertEqual(['NEW_CLIENT'], self.types(other))

    def test_event_queue_of_another_session_stays(self):
        other = self.new_adapter()
        self.types(other, 'other')
        self.types(self.adapter)
        self.log_off()
        self.control.emit_event('INVALID_URI')
        self.assertEqual(['INVALID_URI'], self.types(other, 'other'))

    def test_event_queue_survives_expiry_of_sessions(self):
        self.types(self.adapter)
        self.control.expire_sessions()
        self.control.emit_event('INVALID_URI')
        self.assertEqual(['INVALID_URI'], self.types(self.adapter))

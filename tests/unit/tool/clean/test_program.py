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

"""The program that cleans a device, its sample, and what starts it."""

import hmac
import http.client
import os
import runpy
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from nova_powervm.tool.clean import deletions
from nova_powervm.tool.clean import program as programs
from tests import proofs
from tests.unit.docs import pages


class ProgramTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.lines = []
        self.told = threading.Event()

    def tell(self, line):
        self.lines.append(line)
        self.told.set()

    def program(self, script, time_limit=60.0, grace=30.0, inherited=()):
        return programs.Program(
            ['/bin/sh', '-c', script], time_limit, inherited, grace
        )

    def run_script(self, script, **options):
        return self.program(script, **options).run({'GIVEN': '1'}, self.tell)

    def test_output_of_both_streams_is_told_line_by_line(self):
        outcome = self.run_script(
            r'echo "$GIVEN $HOME"; echo two >&2; printf "\n \377\33last"'
        )
        self.assertEqual(programs.Outcome(), outcome)
        self.assertEqual(
            [f'1 {os.environ.get("HOME", "")}', 'two', r'\xff?last'],
            self.lines,
        )

    def test_long_line_is_divided(self):
        self.run_script('printf %06000d 1')
        self.assertEqual(2, len(self.lines))

    def test_standard_input_is_empty(self):
        self.assertEqual('', self.run_script('! read line').failure)

    def test_exit_code_is_named(self):
        outcome = self.run_script('exit 7')
        self.assertEqual('the program ended with exit code 7', outcome.failure)
        self.assertFalse(outcome.interrupted)

    def test_signal_is_named(self):
        outcome = self.run_script('kill -SEGV $$')
        self.assertEqual('the program was ended by SIGSEGV', outcome.failure)

    def test_program_that_cannot_be_run_is_named(self):
        for path, reason in (
            ('/nowhere', 'No such file or directory'),
            (tempfile.gettempdir(), 'Permission denied'),
        ):
            outcome = programs.Program([path], 60).run({}, self.tell)
            self.assertEqual(
                f'{path} cannot be run: {reason}', outcome.failure
            )

    def test_time_limit_lets_program_tidy_up_but_not_succeed(self):
        outcome = self.run_script(
            'trap "echo tidy; exit 0" TERM; echo go; sleep 600 & wait',
            time_limit=2,
        )
        self.assertEqual(
            'the program did not end within 2 seconds', outcome.failure
        )
        self.assertIn('tidy', self.lines)

    def test_program_that_ignores_the_request_is_killed(self):
        outcome = self.run_script(
            'trap "" TERM; sleep 600', time_limit=0.5, grace=0.2
        )
        self.assertIn('did not end', outcome.failure)

    def test_process_that_program_leaves_is_killed(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        outcome = self.run_script('sleep 600 & exit 0', inherited=[writer])
        os.close(writer)
        self.assertEqual('', outcome.failure)
        # Nobody has the other end any more.
        self.assertEqual(b'', os.read(reader, 1))

    def test_stop_ends_the_program_and_starts_no_more(self):
        program = self.program('echo go; sleep 600')
        stopper = threading.Thread(
            target=lambda: (self.told.wait(30), program.stop())
        )
        stopper.start()
        outcome = program.run({}, self.tell)
        stopper.join()
        self.assertEqual(
            programs.Outcome('the program was stopped', interrupted=True),
            outcome,
        )
        self.assertTrue(program.run({}, self.tell).interrupted)
        self.assertEqual(['go'], self.lines)


class DeletionsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], project='nova')
        self.topic = uuidutils.generate_uuid()
        self.transport = oslo_messaging.get_notification_transport(
            self.conf, url='fake://'
        )
        self.told = []
        self.asked = threading.Event()

    def tell(self):
        self.told.append(True)
        self.asked.set()

    def notify(self, event=deletions.EVENT, host='host1'):
        oslo_messaging.Notifier(
            self.transport,
            publisher_id=f'nova-compute:{host}',
            driver='messagingv2',
            topics=[self.topic],
        ).info({}, event, {'nova_object.data': {'uuid': 'instance-1'}})

    @proofs.proves('O13', 'O40')
    def test_deletion_on_this_node_is_told(self):
        server = deletions.listen(
            self.transport, self.topic, 'host1', self.tell
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        self.notify(host='host10')
        self.notify(event='instance.delete.start')
        self.notify(event='instance.create.end')
        self.notify()
        self.assertTrue(self.asked.wait(30))
        self.assertEqual([True], self.told)


LOCATION = 'U78D2.001.EMU0001-P1-C3'
IDS = '10DE:1DB6:10DE:124A'

SAMPLE = pages.ROOT / 'etc' / 'nova' / 'clean-slot.sample'


class SampleTestCase(unittest.TestCase):
    """Has the functions and classes of the sample."""

    def setUp(self):
        super().setUp()
        # Leaves no compiled file beside the sample.
        self.sample = runpy.run_path(str(SAMPLE))


class CheckTest(SampleTestCase):
    """The wiped device is compared with what the host reports of it.

    A device was refused, and at last in quarantine, if the host did not
    report all four ids. That is so for most: few have a subsystem.
    """

    def check(self, wiped, location, ids):
        variables = {'POWERVM_LOCATION': location, 'POWERVM_IDS': ids}
        with mock.patch.dict(os.environ, variables):
            self.sample['check'](wiped)

    def test_values_that_host_does_not_report_are_not_compared(self):
        for location in (LOCATION, ''):
            for ids in (IDS, '10DE:1DB6::', '::10DE:124A', ':::'):
                for more in ('', ' serial 0325', ' '):
                    with self.subTest(location=location, ids=ids, more=more):
                        self.check(f'{LOCATION} {IDS}{more}', location, ids)

    def test_location_that_nobody_knows_is_empty(self):
        self.check(f' {IDS}', '', '10DE:1DB6::')

    def test_device_other_than_the_reported_one_is_refused(self):
        other_place = 'U78D2.001.EMU0001-P1-C4'
        for ids, wiped in (
            ('10DE:1DB6::', f'{LOCATION} 10DF:1DB6:10DE:124A'),
            ('10DE:1DB6::', f'{LOCATION} 10DE:1EB8:10DE:124A'),
            ('::10DE:124A', f'{LOCATION} 10DE:1DB6:10DE:124B'),
            (IDS, f'{LOCATION} 10DE:1DB6:10DF:124A'),
            (':::', f'{other_place} {IDS}'),
            ('10DE:1DB6::', f'{other_place} {IDS}'),
            # Nothing is taken for an id that was not sent.
            (':::', LOCATION),
            (':::', ''),
            ('10DE:1DB6::', f'{LOCATION} 10DE:1DB6'),
            ('10DE:1DB6::', f'{LOCATION} :::'),
            (IDS, f'{LOCATION} {IDS}:0000'),
        ):
            with self.subTest(ids=ids, wiped=wiped):
                with self.assertRaises(SystemExit) as caught:
                    self.check(wiped, LOCATION, ids)
                self.assertEqual(
                    f'unknown: {wiped} was wiped, and not {LOCATION} {ids}',
                    caught.exception.code,
                )


class ReportsTest(SampleTestCase):
    """What anybody in the network can send."""

    def setUp(self):
        super().setUp()
        self.reports = self.sample['Reports'](('127.0.0.1', 0), b'k' * 64)
        thread = threading.Thread(target=self.reports.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.reports.server_close)
        self.addCleanup(self.reports.shutdown)

    def connect(self):
        """Return a connection, on which nothing was sent."""
        connection = socket.create_connection(
            self.reports.server_address, timeout=5
        )
        self.addCleanup(connection.close)
        return connection

    def post(self, length):
        """Send a header, and nothing after it; return the status."""
        connection = self.connect()
        connection.sendall(b'POST / HTTP/1.1\r\n' + length + b'\r\n\r\n')
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status

    def report(self, nonce, key=b'k' * 64):
        """Report that something was wiped; return the status."""
        text = nonce + b' wiped'
        proof = hmac.new(key, text, 'sha256').hexdigest().encode()
        line = text + b' ' + proof
        connection = http.client.HTTPConnection(*self.reports.server_address)
        self.addCleanup(connection.close)
        connection.request('POST', '/', line)
        return connection.getresponse().status

    def test_only_report_of_this_attempt_with_the_key_is_taken(self):
        nonce = self.reports.nonce
        earlier = self.sample['Reports'](('127.0.0.1', 0), b'k' * 64)
        earlier.server_close()
        for words in ((earlier.nonce,), (nonce, b''), (b'\xff' * 5000,)):
            self.assertEqual(403, self.report(*words))
        self.assertIsNone(self.reports.wiped)
        self.assertTrue(self.reports.refused)

        self.assertEqual(200, self.report(nonce))
        self.assertEqual('wiped', self.reports.wiped)

    def test_key_that_others_can_read_is_refused(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b'k' * 64)
            file.flush()
            self.assertEqual(b'k' * 64, self.sample['read_key'](file.name))
            os.chmod(file.name, 0o640)
            with self.assertRaisesRegex(SystemExit, 'needs mode 0600'):
                self.sample['read_key'](file.name)

    def test_negative_length_reads_nothing(self):
        """Before, memory was filled with whatever was sent, without end."""
        for value in (b'-1', b'-4096', b'0'):
            with self.subTest(value=value):
                status = self.post(b'Content-Length: ' + value)
                self.assertEqual(403, status)

    def test_malformed_or_missing_length_is_refused(self):
        for value in (b'', b'x', b'1.5', b'0x10', b'\xb2', b'9' * 5000):
            with self.subTest(value=value[:9]):
                status = self.post(b'Content-Length: ' + value)
                self.assertEqual(400, status)
        self.assertEqual(400, self.post(b'Host: cleaner'))
        self.assertFalse(self.reports.refused)

    def test_connections_over_the_limit_are_closed(self):
        """Before, each connection took a thread, however many there were."""
        most = self.sample['MOST_THREADS']
        before = threading.active_count()
        waiting = [self.connect() for _ in range(most)]
        self.assertEqual(b'', self.connect().recv(1))
        self.assertLessEqual(threading.active_count(), max(before, most))
        for connection in waiting:
            connection.close()
        while threading.active_count() > before:
            time.sleep(0.01)
        self.assertEqual(403, self.post(b'Content-Length: 0'))

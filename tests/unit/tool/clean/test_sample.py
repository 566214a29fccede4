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

"""Parts of the sample program that need neither a host nor a partition."""

import http.client
import os
import runpy
import socket
import threading
import time
import unittest
from unittest import mock

from tests.unit.docs import pages

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

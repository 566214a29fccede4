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

"""What a person sees while a host hangs."""

import contextlib
import io
import time
import unittest.mock

from nova_powervm.tool.inventory import host_reader
from tests.unit.tool.inventory import base


class WaitNoticeTest(base.HostTestCase):
    def moment(self, seconds):
        """Set when a person begins to wonder."""
        self.enterContext(
            unittest.mock.patch.object(host_reader, 'NOTICE_DELAY', seconds)
        )

    def hang(self, match):
        """Let the host not answer before it stops."""
        self.emulator.control.add_fault(match=match, every=True, delay=600)

    def test_hanging_host_is_announced_and_given_up(self):
        self.moment(0.1)
        self.hang('ManagedSystem')
        started = time.monotonic()

        result = self.run_tool('show', '--no-placement', '--timeout', '1')

        self.assertLess(time.monotonic() - started, 15)
        self.assertEqual(1, result.status)
        waited, failed = result.err.splitlines()
        self.assertIn('waiting for the PowerVM REST server at http', waited)
        self.assertIn('for 1 seconds (--timeout, or', waited)
        self.assertIn('cannot be read', failed)

    def test_answering_host_is_not_announced(self):
        self.moment(60)
        result = self.run_tool('show', '--no-placement')

        self.assertEqual('', result.err)

    def test_invalid_timeout_is_refused(self):
        for limit in ('0', '-1', 'soon', '1.5', ''):
            with self.subTest(limit):
                with contextlib.redirect_stderr(io.StringIO()):
                    result = self.run_tool('show', f'--timeout={limit}')
                self.assertEqual(2, result.status)

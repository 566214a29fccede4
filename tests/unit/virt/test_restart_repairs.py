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

"""How often a host that hangs is waited for."""

import unittest

from nova_powervm import exception
from nova_powervm.virt import restart_repairs

READ = 30


class StartupTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 0
        self.asked = 0
        self.answers = False
        self.startup = restart_repairs.Startup(lambda: self.now)

    def ask(self, times=1):
        """Ask; give how often there was no answer."""
        failed = 0
        for _ in range(times):
            try:
                with self.startup.limit_waits():
                    self.asked += 1
                    if not self.answers:
                        self.now += READ
                        raise exception.RestSilent(
                            server='it', reason='no answer'
                        )
            except exception.RestSilent as error:
                self.assertIn('no answer', str(error))
                failed += 1
        return failed

    def test_silent_host_is_asked_twice_for_200_instances(self):
        self.assertEqual(200, self.ask(200))
        self.assertEqual(2, self.asked)
        self.assertEqual(2 * READ, self.now)

    def test_single_silence_does_not_stop_further_requests(self):
        for _ in range(2):
            self.answers = False
            self.assertEqual(1, self.ask())
            self.answers = True
            self.assertEqual(0, self.ask(5))

    def test_silent_host_is_asked_again_after_pause(self):
        self.ask(3)
        self.now += restart_repairs.PAUSE_SECONDS
        self.ask(3)
        self.assertEqual(3, self.asked)
        self.now += restart_repairs.PAUSE_SECONDS
        self.answers = True
        self.assertEqual(0, self.ask(3))

    def test_silent_host_is_always_asked_after_startup(self):
        self.assertTrue(self.startup.end())
        self.ask(5)
        self.assertEqual(5, self.asked)
        self.assertFalse(self.startup.end())

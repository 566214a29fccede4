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

"""Asking the conductor by way of a queue that can't be reached."""

import threading
import time
import unittest

from nova_powervm.tool import nova_service_versions


class TimeLimitTest(unittest.TestCase):
    def test_hanging_call_is_given_up(self):
        # As oslo.messaging does while RabbitMQ refuses connections
        for_ever = threading.Event()
        self.addCleanup(for_ever.set)
        started = time.monotonic()

        with self.assertRaisesRegex(TimeoutError, 'within 0.05 seconds'):
            nova_service_versions._within(0.05, for_ever.wait)

        self.assertLess(time.monotonic() - started, 5)

    def test_result_and_exception_are_passed_on(self):
        self.assertEqual(74, nova_service_versions._within(60, lambda: 74))
        with self.assertRaises(ZeroDivisionError):
            nova_service_versions._within(60, lambda: 1 // 0)

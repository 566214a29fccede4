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

"""When the host tells enough for nova-compute to start."""

import unittest
import unittest.mock

from nova_powervm import exception
from nova_powervm.ops import readiness

DOWN = exception.RestUnreachable(server='it', reason='no answer')
FAILED = exception.RestError(action='it', reason='HTTP 500')


class Host:
    """Tells states; all LPARs but the foreign one are instances."""

    def __init__(self, **lpars):
        self.lpars = lpars
        self.asked = []

    def names(self):
        return {uuid: f'vm-{uuid}' for uuid in self.lpars}

    def instances_of(self, uuids):
        return {uuid: 'instance' for uuid in uuids if uuid != 'foreign'}

    def state(self, uuid):
        self.asked.append(uuid)
        told = self.lpars[uuid]
        if isinstance(told, Exception):
            raise told
        return told


class ReadinessTest(unittest.TestCase):
    def refusal(self, host):
        with self.assertRaises(exception.StatesUnknown) as caught:
            readiness.Readiness(host, host).check()
        self.assertTrue(caught.exception.retryable)
        return str(caught.exception)

    def test_states_that_are_known(self):
        host = Host(a='running', b='not activated', c='error')
        readiness.Readiness(host, host).check()
        self.assertEqual(['a', 'b', 'c'], host.asked)

    def test_host_without_instances_is_ready_unasked(self):
        host = Host(foreign='not available')
        readiness.Readiness(host, host).check()
        self.assertEqual([], host.asked)

    def test_refusal_names_unavailable_instances(self):
        message = self.refusal(
            Host(a='not available', b='running', c='unknown')
        )
        self.assertIn('vm-a, vm-c is unknown', message)
        self.assertIn('not available', message)

    def test_failed_state_request_counts_as_unknown_state(self):
        message = self.refusal(Host(a='running', b=FAILED))
        self.assertIn('vm-b', message)
        self.assertIn('HTTP 500', message)

    def test_silent_host_is_asked_once(self):
        host = Host(a=DOWN, b=DOWN, c=DOWN)
        self.assertIn('vm-a', self.refusal(host))
        self.assertEqual(['a'], host.asked)

    def test_missing_lpar_is_not_waited_for(self):
        host = Host(a=exception.PartitionNotFound(uuid='a'))
        readiness.Readiness(host, host).check()

    def test_lpars_that_can_not_be_listed(self):
        host = Host()
        for error, expected in (
            (FAILED, exception.StatesUnknown),
            (DOWN, exception.RestUnreachable),
        ):
            with self.subTest(error):
                host.names = unittest.mock.Mock(side_effect=error)
                with self.assertRaises(expected):
                    readiness.Readiness(host, host).check()

    def test_single_unknown_lpar_is_waited_for_briefly(self):
        now = 0
        host = Host(a='not available', b='not available')
        ready = readiness.Readiness(host, host, lambda: now)
        for seconds, state, expected in (
            (0, 'not available', exception.StatesUnknown),
            # For as long as a host may need to come up
            (1000, 'not available', exception.StatesUnknown),
            (1000, 'running', exception.StatesUnknown),
            (1059, 'running', exception.StatesUnknown),
            # It fails as a whole, and comes up again.
            (1059, 'not available', exception.StatesUnknown),
            (1100, 'running', exception.StatesUnknown),
            (1159, DOWN, exception.StatesUnknown),
            (1160, 'running', exception.StatesStayUnknown),
        ):
            now = seconds
            host.lpars['b'] = state
            with (
                self.subTest(seconds=seconds, state=state),
                self.assertRaises(exception.StatesUnknown) as caught,
            ):
                ready.check()
            self.assertIs(expected, type(caught.exception))
        self.assertFalse(caught.exception.retryable)

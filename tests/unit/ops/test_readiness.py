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
from nova_powervm.ops import watch

DOWN = exception.RestUnreachable(server='it', reason='no answer')
FAILED = exception.RestError(action='it', reason='HTTP 500')


class Host:
    """Tells states; all LPARs but the foreign one are instances."""

    def __init__(self, **lpars):
        self.lpars = lpars
        self.reads = []

    def names(self):
        return {uuid: f'vm-{uuid}' for uuid in self.lpars}

    def instances_of(self, uuids):
        return {uuid: 'instance' for uuid in uuids if uuid != 'foreign'}

    def state(self, uuid):
        self.reads.append(uuid)
        told = self.lpars[uuid]
        if isinstance(told, Exception):
            raise told
        return told


class ReadinessTest(unittest.TestCase):
    def test_host_is_ready_when_states_of_instances_are_known(self):
        missing = exception.PartitionNotFound(uuid='a')
        for reads, lpars in (
            ('abc', {'a': 'running', 'b': 'not activated', 'c': 'error'}),
            ('', {'foreign': 'not available'}),
            ('a', {'a': missing}),
        ):
            host = Host(**lpars)
            watch.Readiness(host, host).check()
            self.assertEqual([*reads], host.reads)

    def test_refusal_names_instances_of_unknown_state(self):
        for words, reads, lpars in (
            (
                'vm-a, vm-c is unknown.*not available',
                'abc',
                {'a': 'not available', 'b': 'running', 'c': 'unknown'},
            ),
            ('vm-b.*HTTP 500', 'ab', {'a': 'running', 'b': FAILED}),
            # A silent host is asked once.
            ('vm-a', 'a', {'a': DOWN, 'b': DOWN, 'c': DOWN}),
        ):
            with self.subTest(words):
                host = Host(**lpars)
                with self.assertRaises(exception.StatesUnknown) as caught:
                    watch.Readiness(host, host).check()
                self.assertTrue(caught.exception.retryable)
                self.assertRegex(str(caught.exception), f'(?s){words}')
                self.assertEqual([*reads], host.reads)

    def test_lpars_that_can_not_be_listed(self):
        host = Host()
        for error, expected in (
            (FAILED, exception.StatesUnknown),
            (DOWN, exception.RestUnreachable),
        ):
            with self.subTest(error):
                host.names = unittest.mock.Mock(side_effect=error)
                with self.assertRaises(expected):
                    watch.Readiness(host, host).check()

    def test_single_unknown_lpar_is_waited_for_briefly(self):
        now = 0
        host = Host(a='not available', b='not available')
        ready = watch.Readiness(host, host, lambda: now)
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

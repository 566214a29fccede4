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

import unittest
import unittest.mock

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.powervm import partitions
from nova_powervm.powervm import rest_errors

BUSY = exception.RestBusy(action='it', reason='busy')
RACE = exception.RestConflict(action='it', reason='HTTP 412')
DOWN = exception.RestUnreachable(server='it', reason='no answer')
FINAL = exception.RestError(action='it', reason='HTTP 400')


class Server:
    """Answers with what it was told to, then with its calls' number."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = 0

    def ask(self):
        self.calls += 1
        if self.answers:
            raise self.answers.pop(0)
        return self.calls


class TriesTest(unittest.TestCase):
    """Somebody who is faster got on, and is no failure; an error is one."""

    def test_passing_errors_are_tried_again_until_third_failure(self):
        plain = rest_errors.retried
        contended = rest_errors.retried_on_conflict
        for retried, answers, calls, error in (
            (plain, [DOWN, BUSY], 3, None),
            (plain, [DOWN] * 3, 3, exception.RestUnreachable),
            (plain, [FINAL], 1, exception.RestError),
            (contended, [RACE] * 5, 6, None),
            (contended, [RACE, DOWN, RACE, BUSY, RACE], 6, None),
            (contended, [RACE, DOWN] * 3, 6, exception.RestUnreachable),
            (contended, [RACE, FINAL], 2, exception.RestError),
        ):
            with self.subTest(retried.__name__, answers=answers):
                server = Server(*answers)
                if error:
                    self.assertRaises(error, retried(server.ask))
                else:
                    self.assertEqual(calls, retried(server.ask)())
                self.assertEqual(calls, server.calls)

    def test_tries_are_counted_per_call(self):
        server = Server(DOWN, DOWN)
        ask = rest_errors.retried_on_conflict(server.ask)
        self.assertEqual(3, ask())
        server.answers += [DOWN, DOWN]
        self.assertEqual(6, ask())


class RefusalTest(base.EmulatorTestCase):
    """What a host refuses it often answers with 500, as live ones do."""

    def read(self, status, message):
        """Read the LPARs; return the error and how often they were read."""
        self.control.add_fault(status=status, message=message, every=True)
        self.control.clear_journal()
        found = partitions.RestPartitions(self.adapter, None)
        with (
            unittest.mock.patch('tenacity.nap.time.sleep'),
            self.assertRaises(exception.RestError) as caught,
        ):
            found.names()
        self.control.clear_faults()
        return caught.exception, len(self.control.journal())

    def test_code_of_a_refusal_decides_beside_the_status(self):
        for status, message, kind, tries in (
            (500, 'REST0126 HSCL05DE A name is used.', 'RestRefused', 1),
            (500, ' REST0140 Invalid type', 'RestRefused', 1),
            (400, 'REST029B No such partition', 'RestRefused', 1),
            (500, 'Data cannot be retrieved from VIOS.', 'RestError', 1),
            (500, 'REST0126 HSCL3205 The VIOS is busy', 'ViosBusy', 3),
            (503, 'HSCL0001 It is starting', 'RestBusy', 3),
        ):
            with self.subTest(message):
                error, asked = self.read(status, message)

                self.assertEqual(kind, type(error).__name__)
                self.assertEqual(tries, asked)
                refuses = 'the host refuses it, ' in str(error)
                self.assertEqual(kind == 'RestRefused', refuses)
                self.assertIn(f'HTTP {status}: ', str(error))

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

from nova_powervm import exception
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


class RetriedTest(unittest.TestCase):
    def test_passing_errors_are_tried_again(self):
        server = Server(DOWN, BUSY)
        self.assertEqual(3, rest_errors.retried(server.ask)())

    def test_retried_call_gives_up_after_three_tries(self):
        server = Server(DOWN, DOWN, DOWN)
        with self.assertRaises(exception.RestUnreachable):
            rest_errors.retried(server.ask)()
        self.assertEqual(3, server.calls)

    def test_permanent_error_is_not_tried_again(self):
        server = Server(FINAL)
        with self.assertRaises(exception.RestError):
            rest_errors.retried(server.ask)()
        self.assertEqual(1, server.calls)


class ContendedTest(unittest.TestCase):
    """Somebody who is faster got on; an error did not."""

    def test_contended_call_is_repeated_after_every_conflict(self):
        server = Server(*[RACE] * 5)
        self.assertEqual(6, rest_errors.retried_on_conflict(server.ask)())

    def test_races_do_not_count_as_failures(self):
        server = Server(RACE, DOWN, RACE, BUSY, RACE)
        self.assertEqual(6, rest_errors.retried_on_conflict(server.ask)())

    def test_failures_end_it(self):
        server = Server(RACE, DOWN, RACE, DOWN, RACE, DOWN)
        with self.assertRaises(exception.RestUnreachable):
            rest_errors.retried_on_conflict(server.ask)()
        self.assertEqual(6, server.calls)

    def test_permanent_error_is_not_tried_again(self):
        server = Server(RACE, FINAL)
        with self.assertRaises(exception.RestError):
            rest_errors.retried_on_conflict(server.ask)()
        self.assertEqual(2, server.calls)

    def test_tries_are_counted_per_call(self):
        server = Server(DOWN, DOWN)
        ask = rest_errors.retried_on_conflict(server.ask)
        self.assertEqual(3, ask())
        server.answers += [DOWN, DOWN]
        self.assertEqual(6, ask())

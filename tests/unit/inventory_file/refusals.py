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

"""What the tests of refused files have in common."""

import unittest

from nova_powervm import exception
from nova_powervm import inventory_file

GOOD = '  identification: {class: ABCD}\n'


def problems_of(text):
    """Give the problems of a text that is refused."""
    try:
        policy = inventory_file.parse(text, 'inv')
    except exception.PolicyInvalid as error:
        return error.fields['problems']
    raise AssertionError(f'{text!r} was accepted as {policy}')


class RefusalTestCase(unittest.TestCase):
    def refused(self, text, place, *words):
        """Check that a text has one problem, at (line, column)."""
        problems = problems_of(text)
        self.assertEqual(1, len(problems), str(problems))
        problem = problems[0]
        self.assertEqual(place, (problem.line, problem.column), problem)
        for word in words:
            self.assertIn(word, str(problem))
        self.assertTrue(problem.hint, problem)
        self.assertNotIn('mean None', problem.hint)

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

"""The table of requests' states on the page about Cyborg."""

import csv
import itertools
import re
import unittest

from tests.functional import request_states
from tests.unit.docs import pages

_TITLE = 'Request states\n'
_TABLE = re.compile(r'\.\. csv-table::\n(?:   :.*\n)+\n((?:   .+\n)+)')
#: Columns of the page that stand for several operations.
_COLUMNS = {
    'Create': ('Create', 'Create, on the second host'),
    'Reboot, start': ('Soft reboot', 'Hard reboot', 'Start'),
}


class RequestStatesPageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.text = pages.documents()['admin/cyborg'].partition(_TITLE)[2]

    def test_page_has_cells_of_tested_table(self):
        (table,) = _TABLE.findall(self.text)
        head, *rows = csv.reader(table.splitlines(), skipinitialspace=True)
        cells = {
            (operation, state): cell
            for states, *row in rows
            for title, cell in zip(head[1:], row, strict=True)
            for operation in _COLUMNS.get(title, (title,))
            for state in states.split(', ')
        }
        wanted = {
            (operation, state): str(result)
            for operation, row in request_states.TABLE.items()
            for state, result in row.items()
        }
        self.assertEqual(wanted, cells)

    def test_page_explains_each_result(self):
        for result in request_states.Result:
            with self.subTest(result=result):
                self.assertRegex(self.text, rf'(?m)^{result}\n   \S')


class ToldStatesTest(unittest.TestCase):
    """What real services tell of the table."""

    def test_real_services_tell_each_result_of_operation(self):
        for operation, row in request_states.TABLE.items():
            told = {row[state] for state in request_states.TOLD[operation]}
            self.assertEqual(set(row.values()), told, operation)

    def test_real_services_tell_each_state(self):
        told = itertools.chain(*request_states.TOLD.values())
        self.assertEqual({*request_states.STATES}, {*told})

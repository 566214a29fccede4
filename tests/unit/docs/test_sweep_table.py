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

"""The page with tasks on a host shows the table of the sweep."""

import unittest

from nova_powervm.ops import sweep
from tests.unit.docs import pages


class SweepTableTest(unittest.TestCase):
    def test_page_has_table_and_page_on_logs_leads_to_it(self):
        documents = pages.documents()
        self.assertIn('\n.. sweep-table::\n', documents['admin/hosts'])
        self.assertIn('what-the-driver-removes', documents['admin/watching'])

    def test_cells_have_whole_sentences(self):
        for row in sweep.TABLE:
            for cell in (row.ours, row.unwanted, row.done, row.why):
                with self.subTest(row.kind, cell=cell):
                    self.assertTrue(cell.endswith('.'))

    def test_kinds_are_unique_and_moments_have_rows(self):
        kinds = [row.kind for row in sweep.TABLE]
        self.assertCountEqual(set(kinds), kinds)
        moments = {moment for row in sweep.TABLE for moment in row.when}
        self.assertEqual(set(sweep.When), moments)

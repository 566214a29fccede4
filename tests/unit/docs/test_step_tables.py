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

"""The page on the architecture shows the steps of plans in their order."""

import sys
import unittest

from nova_powervm.lpar import steps
from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import tables_page


class StepTableTest(unittest.TestCase):
    def test_page_has_both_tables(self):
        text = pages.documents()['contributor/architecture']
        self.assertIn('\n.. making-steps::\n', text)
        self.assertIn('\n.. changing-steps::\n', text)

    def test_tables_have_each_step_in_its_order(self):
        for rows, order in (
            (tables_page.list_making(), steps.MAKING),
            (tables_page.list_changing(), steps.CHANGING),
        ):
            names = [name for name, *_ in rows]
            self.assertEqual(
                ['Step', *(f'``{step.__name__}``' for step in order)], names
            )

    def test_row_says_what_a_step_does_and_whether_the_lpar_is_off(self):
        rows = [*tables_page.list_changing()]
        self.assertIn(
            ('``GrowRoot``', steps.GrowRoot.__doc__, 'yes'),
            rows,
        )
        self.assertIn(
            (
                '``Document``',
                "Burn devices, then create or change the LPAR's document.",
                'yes',
            ),
            rows,
        )
        self.assertEqual('no', dict(r[::2] for r in rows)['``FindVolumes``'])

    def test_steps_before_the_stop_let_the_guest_run(self):
        before = steps.CHANGING[: steps.CHANGING.index(steps.Stop)]
        self.assertEqual([], [step for step in before if step.needs_off])

    def test_orders_have_every_step(self):
        self.assertEqual(
            {step.__name__ for step in steps.Step.__subclasses__()},
            {step.__name__ for step in (*steps.MAKING, *steps.CHANGING)},
        )

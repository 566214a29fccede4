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

"""The page of the support matrix tells the states of support apart."""

import dataclasses
import sys
import unittest

from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import support_matrix_text


@dataclasses.dataclass(frozen=True)
class Support:
    status: str
    notes: str | None = None


@dataclasses.dataclass(frozen=True)
class Feature:
    key: str
    title: str
    notes: str
    support: Support
    cli: str | None = None
    status: str = 'optional'

    @property
    def implementations(self):
        return {'driver.powervm': self.support}


FEATURES = [
    Feature(
        key='device.whole',
        title='Whole',
        notes='Do all.',
        support=Support('complete', 'Done.\nAll.'),
    ),
    Feature(
        key='console.none',
        title='None',
        notes='Do nothing.',
        support=Support('missing'),
    ),
    Feature(
        key='device.half',
        title='Half',
        notes='Do some.',
        support=Support('partial', '``Mostly``.'),
        cli='openstack one;openstack two',
    ),
]


class PageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.lines = list(support_matrix_text.page(FEATURES))

    def test_states_have_distinct_signs_and_roles(self):
        self.assertEqual(3, len(set(support_matrix_text.SYMBOLS.values())))
        for state, sign in support_matrix_text.SYMBOLS.items():
            self.assertIn(f'     - :support-{state}:`{sign}`', self.lines)

    def test_details_follow_their_group(self):
        titles = ['Devices', 'Whole', 'Half', 'Consoles', 'None']
        self.assertEqual(
            titles, [line for line in self.lines if line in titles]
        )

    def test_heading_tells_whose_classification_it_is(self):
        self.assertEqual(
            ['We say', 'Nova says'],
            [
                line[7:]
                for line in self.lines
                if line.endswith(' say') or line.endswith(' says')
            ],
        )

    def test_note_is_taken_as_markup_and_commands_are_listed(self):
        self.assertIn('Done. All.', self.lines)
        self.assertIn('``Mostly``.', self.lines)
        self.assertIn('* ``openstack one``', self.lines)
        self.assertIn('* ``openstack two``', self.lines)

    def test_groups_without_features_are_left_out(self):
        self.assertNotIn('Storage', self.lines)

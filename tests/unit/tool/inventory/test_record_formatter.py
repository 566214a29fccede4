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

"""Rows as records of lines."""

import unittest

from nova_powervm.tool.inventory import record_formatter


class RecordFormatTest(unittest.TestCase):
    COLUMNS = ('Slot', 'Traits', 'Owner')

    def lines(self, *row, width=60):
        return list(record_formatter.format_record(self.COLUMNS, row, width))

    def test_further_lines_of_a_value_are_aligned(self):
        self.assertEqual(
            [
                'Slot    21010020',
                'Traits  CUSTOM_A',
                '        CUSTOM_B',
                'Owner   -',
            ],
            self.lines('21010020', 'CUSTOM_A\nCUSTOM_B', ''),
        )

    def test_long_text_is_wrapped_at_words_within_the_width(self):
        reason = 'it is owned by ' + 'partition ' * 20
        lines = self.lines('21010020', reason, '')
        self.assertLessEqual(max(map(len, lines)), 60)
        joined = ' '.join(line[8:] for line in lines[1:-1])
        self.assertEqual(reason.strip(), joined)

    def test_long_word_stays_whole(self):
        trait = 'CUSTOM_' + 'X' * 200
        self.assertIn(f'Traits  {trait}', self.lines('1', trait, ''))

    def test_width_zero_wraps_no_line(self):
        text = 'word ' * 100
        lines = self.lines('1', text.strip(), '', width=0)
        self.assertEqual(3, len(lines))

    def test_commands_are_not_wrapped(self):
        command = 'openstack ' + 'word ' * 40 + 'end'
        for column in ('Commands', 'Remedy'):
            lines = record_formatter.format_record((column,), (command,), 60)
            self.assertEqual([f'{column}  {command}'], [*lines])

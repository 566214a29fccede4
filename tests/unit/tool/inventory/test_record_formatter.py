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

import io
import unittest

from nova_powervm.tool.inventory import base


class RecordFormatTest(unittest.TestCase):
    def test_further_lines_of_a_value_are_aligned(self):
        command = 'openstack ' + 'word ' * 40 + 'end'
        out = io.StringIO()
        base.RecordFormatter().emit_list(
            ('Slot', 'Traits', 'Owner'),
            [('21010020', f'CUSTOM_A\n{command}', ''), ('21010021', 'X', 1)],
            out,
            None,
        )
        self.assertEqual(
            [
                'Slot    21010020',
                'Traits  CUSTOM_A',
                f'        {command}',
                'Owner   -',
                '',
                'Slot    21010021',
                'Traits  X',
                'Owner   1',
            ],
            out.getvalue().splitlines(),
        )

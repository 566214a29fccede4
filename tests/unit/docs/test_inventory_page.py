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

"""The reference of the inventory file follows its schema."""

import sys
import unittest

import yaml

from nova_powervm.devices import policy
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file.structure import SCHEMA
from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import inventory_reference

PAGE = 'configuration/inventory'


class InventoryReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = pages.documents()[PAGE]

    def terms(self, part):
        return [
            line.split('``')[1] for line in part() if line.startswith('``')
        ]

    def test_reference_describes_every_key(self):
        self.assertEqual(
            list(SCHEMA['additionalProperties']['properties']),
            self.terms(inventory_reference.list_paragraph_keys),
        )
        self.assertEqual(
            list(policy.PROPERTIES),
            self.terms(inventory_reference.list_identification_keys),
        )

    def test_page_lists_every_code_in_alphabetical_order(self):
        table = self.page[self.page.index('   * - Code\n') :]
        self.assertEqual(
            [code.value for code in problems.Code],
            [
                line.split('``')[1]
                for line in table.split('\n\nSchema\n')[0].splitlines()
                if line.startswith('   * - ``')
            ],
        )
        self.assertEqual(sorted(problems.Code), list(problems.Code))

    def test_page_includes_all_parts_of_reference(self):
        for part in ('paragraph', 'identification'):
            self.assertIn(f'.. inventory-reference:: {part}\n', self.page)

    def test_page_states_limits_of_loader(self):
        text = pages.words(self.page)
        self.assertIn(
            f'more than {yaml_document.MAX_NODES} keys and values', text
        )
        self.assertEqual(10, yaml_document.MAX_DEPTH)
        self.assertIn('more than ten levels', text)

    def test_values_listed_as_needing_quotes_need_them(self):
        table = self.page[self.page.index('Written') :].split('\n\n')[0]
        values = [
            value
            for line in table.splitlines()
            if line.startswith('   * - ``')
            for value in line.split('``')[1::2]
        ]
        self.assertGreater(len(values), 7)
        for value in values:
            if not set('*?') & set(value):
                self.assertNotEqual(value, yaml.safe_load(value))

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


"""The page on the elements of the emulator's documents is true."""

import difflib
import unittest

from . import base
from . import element_documents
from . import elements


class ElementsPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls('setUpClass')
        base.quieten(case)
        cls.addClassCleanup(case.doCleanups)
        cls.nouns = elements.nouns()

    def test_page_shows_elements_of_emulator(self):
        changes = difflib.unified_diff(
            elements.PAGE.read_text().splitlines(),
            elements.page(self.nouns).splitlines(),
            'the page',
            'the emulator',
            lineterm='',
        )
        text = '\n'.join(changes)
        if text:
            self.fail(
                f'{elements.PAGE.name} is out of date. Run '
                f'{elements.COMMAND}\n{text}'
            )

    def test_nouns_all_have_captures_and_documents(self):
        for noun in self.nouns:
            with self.subTest(noun.name):
                self.assertTrue(noun.comparison.captured.paths)
                self.assertTrue(noun.comparison.served.paths)

    def test_known_elements_are_served(self):
        for name, path in (
            ('LogicalPartition', 'PartitionIOConfiguration/ProfileIOSlots'),
            ('LogicalPartition', 'ClientNetworkAdapters/link'),
            ('VirtualIOServer', 'VirtualSCSIMappings/VirtualSCSIMapping'),
            ('VolumeGroup', 'MediaRepositories/VirtualMediaRepository'),
            ('NetworkBridge', 'LoadGroups/LoadGroup/TrunkAdapters'),
            ('JobResponse', 'Results/JobParameter/ParameterValue'),
        ):
            (noun,) = (noun for noun in self.nouns if noun.name == name)
            self.assertIn(path, noun.comparison.served.paths)

    def test_reasons_for_absence_are_all_used(self):
        absent = {
            (noun.name, path)
            for noun in self.nouns
            for path in noun.comparison.absent()
        }
        unused = [
            (name, prefix)
            for name, prefix in elements.ABSENT
            if not any(
                name == other and f'{path}/'.startswith(f'{prefix}/')
                for other, path in absent
            )
        ]
        self.assertEqual([], unused)

    def test_reasons_for_order_are_all_used(self):
        swapped = {
            (noun.name, swap.parent, name)
            for noun in self.nouns
            for swap in noun.comparison.swaps()
            for name in (swap.first, swap.second)
        }
        self.assertEqual(set(), set(elements.OUT_OF_ORDER) - swapped)

    def test_list_names_every_difference(self):
        differences = [
            difference
            for noun in self.nouns
            for difference in (
                *noun.comparison.absent(),
                *noun.comparison.swaps(),
            )
        ]
        self.assertEqual(len(differences), len(elements.listing(self.nouns)))


class CapturedTest(unittest.TestCase):
    def test_captured_tells_novalink_from_hmc(self):
        found = {
            (capture.noun, capture.is_novalink)
            for capture in element_documents.captured()
        }
        for noun in ('ManagedSystem', 'VirtualIOServer', 'VirtualSwitch'):
            self.assertLessEqual({(noun, True), (noun, False)}, found)
        self.assertNotIn(('LogicalPartition', True), found)

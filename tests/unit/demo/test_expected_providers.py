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

from demo import expected_providers
from tests.unit.demo import samples

GPU = samples.a_slot(
    '21010020',
    subsys_vendor_id='1014',
    subsys_device_id='04F7',
    revision_id='A1',
    drc_name='U78CB.001.WZS0JZB-P1-C3',
    **{'class': '0302'},
)


class ParagraphsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.gpus, self.other = expected_providers.read_paragraphs(
            samples.INVENTORY
        )

    def test_paragraph_matches_if_all_values_match(self):
        self.assertTrue(self.gpus.matches(GPU))
        self.assertFalse(
            self.gpus.matches(samples.a_slot('21010021', device_id='1DB1'))
        )


class ExpectedProvidersTest(unittest.TestCase):
    def test_provider_of_cyborg_has_its_own_name_owner_and_mark(self):
        paragraphs = expected_providers.read_paragraphs(samples.INVENTORY)
        novas, cyborgs = (
            expected_providers.providers(
                paragraphs, [GPU], 'node', 'uuid', owner
            )
            for owner in (expected_providers.NOVA, expected_providers.CYBORG)
        )

        name = 'PowerVM Cyborg IOSlot node 21010020'
        self.assertEqual([name], list(cyborgs))
        (of_nova,) = novas.values()
        self.assertEqual(
            {'OWNER_NOVA', 'OWNER_CYBORG', 'CUSTOM_POWERVM_CYBORG'},
            {*of_nova['traits']} ^ {*cyborgs[name]['traits']},
        )
        self.assertEqual(of_nova['inventories'], cyborgs[name]['inventories'])

    def test_unreported_property_generates_no_trait(self):
        (paragraph, _other) = expected_providers.read_paragraphs(
            samples.INVENTORY
        )

        traits = expected_providers.traits(
            samples.a_slot('21010021'), paragraph
        )

        self.assertEqual(5, len(traits))

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
from demo import launcher
from demo import server_steps
from demo import step_context
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

    def test_paragraph_has_default_resource_class(self):
        self.assertEqual('CUSTOM_GPU', self.gpus.resource_class)
        self.assertEqual('CUSTOM_IOSLOT', self.other.resource_class)

    def test_paragraph_matches_if_all_values_match(self):
        self.assertTrue(self.gpus.matches(GPU))
        self.assertFalse(
            self.gpus.matches(samples.a_slot('21010021', device_id='1DB1'))
        )

    def test_owned_slot_is_not_offered(self):
        slots = [GPU, samples.a_slot('21010021', owner='vios1')]

        offers = expected_providers.offered([self.gpus, self.other], slots)

        self.assertEqual(
            {'gpus': ['21010020'], 'anything else here': []}, offers
        )

    def test_default_inventory_has_gpus(self):
        names = [
            paragraph.name
            for paragraph in expected_providers.read_paragraphs(
                launcher.default_inventory()
            )
        ]

        self.assertIn('gpus', names)


class ExpectedProvidersTest(unittest.TestCase):
    def test_provider_has_a_trait_per_property(self):
        providers = expected_providers.providers(
            expected_providers.read_paragraphs(samples.INVENTORY),
            [GPU],
            'node',
            'uuid',
        )

        name = 'PowerVM IOSlot node 21010020'
        self.assertEqual([name], list(providers))
        self.assertEqual('uuid', providers[name]['parent'])
        self.assertEqual('uuid', providers[name]['root'])
        self.assertEqual(
            {'CUSTOM_GPU': expected_providers.INVENTORY},
            providers[name]['inventories'],
        )
        self.assertEqual(
            [
                'CUSTOM_POWERVM_IOSLOT_CLASS_0302',
                'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6',
                'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020',
                'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C3',
                'CUSTOM_POWERVM_IOSLOT_REVISION_ID_A1',
                'CUSTOM_POWERVM_IOSLOT_SUBSYS_DEVICE_ID_04F7',
                'CUSTOM_POWERVM_IOSLOT_SUBSYS_VENDOR_ID_1014',
                'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE',
                'CUSTOM_TESLA_V100',
                'OWNER_NOVA',
            ],
            providers[name]['traits'],
        )

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


class ExpectedNamesTest(unittest.TestCase):
    def test_partition_uuid_has_first_bit_cleared(self):
        tail = '1dc2d3-0000-4000-8000-00000000ABCD'
        for first, expected in (('f0', '70'), ('70', '70'), ('80', '00')):
            self.assertEqual(
                expected + tail.lower(),
                step_context.partition_uuid(first + tail),
            )

    def test_gpu_group_has_number_in_keys(self):
        self.assertEqual(
            {
                'resources2:CUSTOM_GPU': '1',
                'trait2:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
            },
            server_steps.gpu_group(
                2, expected_providers.drc_index_trait('21010020')
            ),
        )

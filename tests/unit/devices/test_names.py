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

"""Names of providers and traits."""

import unittest

import ddt
import os_traits

from nova_powervm.devices import names
from tests import proofs
from tests.unit.devices.values import slot


@ddt.ddt
class ProviderNameTest(unittest.TestCase):
    @proofs.proves('D51')
    def test_provider_name_contains_nodename_and_index(self):
        for arguments, expected in (
            (('host1.example.org', 0x1C0FFEE1), 'host1.example.org 1C0FFEE1'),
            (('host1', 0x1C0FFEE1, 'spec'), '1C0FFEE1'),
            (('n' * 176, 1), f'{"n" * 176} 00000001'),
        ):
            name = names.provider_name(*arguments)
            self.assertEqual(f'PowerVM IOSlot {expected}', name)

    def test_longer_nodenames_are_shortened_but_unique(self):
        first, second = (
            names.provider_name('n' * 177 + end, 1) for end in ('a', 'b')
        )
        self.assertEqual({200}, {len(first), len(second)})
        self.assertNotEqual(first, second)
        self.assertEqual(1, names.slot_of_provider(first))

    @proofs.proves('D55')
    @ddt.named_data(
        ['ours', 'PowerVM IOSlot host1 21010020', 0x21010020],
        ["the specification's", 'PowerVM IOSlot 1C0FFEE1', 0x1C0FFEE1],
        ['nodename with spaces', 'PowerVM IOSlot a b 00000001', 1],
        ['nodename like an index', 'PowerVM IOSlot 12345678 00000001', 1],
        ['nodename with a line break', 'PowerVM IOSlot a\nb 00000001', 1],
        ['no space', 'PowerVM IOSlot host121010020', None],
        ['lower case', 'PowerVM IOSlot 1c0ffee1', None],
        ['nine digits', 'PowerVM IOSlot 121010020', None],
        ['seven digits', 'PowerVM IOSlot 1010020', None],
        ['text behind', 'PowerVM IOSlot 21010020 ', None],
        ['text before', 'x PowerVM IOSlot 21010020', None],
        ['something smaller', 'PowerVM PF 21010020', None],
        ['only the prefix', 'PowerVM IOSlot ', None],
        ['PCI device', 'host1_0000:81:00.0', None],
        ['compute node', 'host1', None],
    )
    def test_slot_of_provider_reads_index_from_valid_name_only(
        self, name, expected
    ):
        self.assertEqual(expected, names.slot_of_provider(name))


@ddt.ddt
class GeneratedTraitsTest(unittest.TestCase):
    @proofs.proves('D60', 'D61', 'D62', 'V20')
    def test_slot_with_all_properties_has_eight_traits(self):
        self.assertEqual(
            {
                'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_000A',
                'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_00B1',
                'CUSTOM_POWERVM_IOSLOT_SUBSYS_VENDOR_ID_0C12',
                'CUSTOM_POWERVM_IOSLOT_SUBSYS_DEVICE_ID_000D',
                'CUSTOM_POWERVM_IOSLOT_CLASS_0302',
                'CUSTOM_POWERVM_IOSLOT_REVISION_ID_0E',
                'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_0101002F',
                'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C2',
            },
            # Each has another value, and most begin with a zero.
            names.generated_traits(
                slot(
                    vendor_id=0xA,
                    device_id=0xB1,
                    subsys_vendor_id=0xC12,
                    subsys_device_id=0xD,
                    pci_class=0x302,
                    revision_id=0xE,
                    drc_index=0x101002F,
                )
            ),
        )

    @ddt.named_data(
        ['vendor_id', 'vendor_id', 'VENDOR_ID'],
        ['device_id', 'device_id', 'DEVICE_ID'],
        ['subsys_vendor_id', 'subsys_vendor_id', 'SUBSYS_VENDOR_ID'],
        ['subsys_device_id', 'subsys_device_id', 'SUBSYS_DEVICE_ID'],
        ['pci_class', 'pci_class', 'CLASS'],
        ['revision_id', 'revision_id', 'REVISION_ID'],
        ['drc_name', 'drc_name', 'DRC_NAME'],
    )
    def test_unreported_property_has_no_trait(self, attribute, word):
        prefix = f'CUSTOM_POWERVM_IOSLOT_{word}_'
        gone = names.generated_traits(slot()) - names.generated_traits(
            slot(**{attribute: None})
        )
        self.assertEqual([prefix], [trait[: len(prefix)] for trait in gone])

    def test_long_location_code_is_cut_to_255_characters(self):
        longest = max(
            names.generated_traits(slot(drc_name='U' * 300)), key=len
        )
        self.assertEqual(255, len(longest))

    @ddt.data(
        'CUSTOM_POWERVM_WITHDRAWN',
        'CUSTOM_POWERVM_CYBORG',
        'CUSTOM_POWERVM_QUARANTINED_FAILED',
        'CUSTOM_POWERVM_IOSLOT_',
        'CUSTOM_POWERVM_IOSLOT_FAST',
        'CUSTOM_POWERVM_IOSLOT_PRODUCT_ID_1DB6',
        'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_NVIDIA',
        'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10D',
        'CUSTOM_POWERVMXIOSLOT_VENDOR_ID_10DE',
        'CUSTOM_FAST',
        'OWNER_NOVA',
    )
    def test_trait_of_another_form_is_not_generated(self, trait):
        self.assertFalse(names.is_generated_trait(trait))

    @proofs.proves('V18')
    def test_owner_and_withdrawn_traits_are_valid(self):
        self.assertIn(names.OWNER_TRAIT, os_traits.get_traits())
        self.assertTrue(names.WITHDRAWN_TRAIT.startswith('CUSTOM_POWERVM_'))

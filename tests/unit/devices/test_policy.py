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

"""Identification by paragraphs, and the rules for values."""

import dataclasses
import unittest

import ddt

from nova_powervm.devices import accelerators
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy
from tests import proofs
from tests.unit.devices import values
from tests.unit.devices.values import slot

# In the order of the specification's table.
VALUES = {
    'vendor_id': '10DE',
    'device_id': '1EB8',
    'subsys_vendor_id': '10DF',
    'subsys_device_id': '12A2',
    'class': '0302',
    'revision_id': '0A',
    'drc_index': '01010020',
    'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
}
SLOT = slot(subsys_vendor_id=0x10DF, revision_id=0x0A, drc_index=0x01010020)
LEAST = slot(
    drc_name=None,
    vendor_id=None,
    device_id=None,
    subsys_vendor_id=None,
    subsys_device_id=None,
    pci_class=None,
    revision_id=None,
)


def identifies(slot, **identification):
    """Ask a paragraph, which has to be what the index of a file finds."""
    paragraph = policy.Paragraph('p', identification)
    identified = paragraph.identifies(slot)
    matches = matching.ParagraphIndex([paragraph]).identifying(slot)
    assert matches == ((paragraph,) if identified else ()), matches
    return identified


@ddt.ddt
class IdentificationTest(unittest.TestCase):
    def test_properties_read_slot_in_order_of_specification(self):
        self.assertEqual(
            list(VALUES.items()),
            [(key, p.value_in(SLOT)) for key, p in policy.PROPERTIES.items()],
        )

    @proofs.proves(
        'D30', 'D32', 'device.identify.location', 'device.identify.vendor'
    )
    def test_identification_requires_all_its_properties_to_match(self):
        self.assertTrue(identifies(SLOT, **VALUES))
        for key, value in VALUES.items():
            other = value[:-1] + '7'
            self.assertTrue(identifies(SLOT, **{key: value}), key)
            self.assertFalse(identifies(SLOT, **{key: other}), key)
            self.assertFalse(identifies(SLOT, **{**VALUES, key: other}), key)

    @proofs.proves('D33')
    def test_unreported_property_never_matches(self):
        for key, value in VALUES.items():
            self.assertFalse(identifies(LEAST, **{key: value}), key)
        self.assertFalse(identifies(LEAST, vendor_id='*'))
        self.assertFalse(identifies(LEAST, vendor_id='????'))
        self.assertFalse(identifies(LEAST, drc_name='None'))
        self.assertFalse(identifies(LEAST, drc_index='21010020', **{
            'class': '0302',
        }))  # fmt: skip

    @proofs.proves('D33', 'device.identify.wildcard')
    @ddt.named_data(
        ['star at the end', 'drc_name', 'U78-P1*', True],
        ['star for nothing', 'drc_name', 'U78-P1-C2*', True],
        ['star within', 'drc_name', 'U78*-C2', True],
        ['star alone', 'drc_name', '*', True],
        ['question mark', 'drc_name', 'U78-P?-C2', True],
        ['digits', 'vendor_id', '1?D*', True],
        ['end of the value', 'drc_name', '78-P1*', False],
        ['beginning of the value', 'drc_name', 'U78-P?', False],
        ['too short for its marks', 'drc_name', 'U78-P1-C2?', False],
        ['another value', 'drc_name', '*-C1', False],
        ['dot', 'drc_name', 'U78.P1*', False],
    )
    def test_wildcards_stand_for_characters_of_whole_value(
        self, key, pattern, expected
    ):
        reported = slot(drc_name='U78-P1-C2', vendor_id=0x10DE)
        self.assertEqual(expected, identifies(reported, **{key: pattern}))

    def test_zero_id_matches_0000_and_nothing_matches_nothing(self):
        zero = slot(subsys_device_id=0)
        self.assertTrue(identifies(zero, subsys_device_id='0000'))
        self.assertFalse(identifies(SLOT))

    def test_paragraph_text_has_name_and_line(self):
        self.assertEqual(
            "paragraph 'gpus' (line 3)",
            str(policy.Paragraph('gpus', {}, line=3)),
        )


@ddt.ddt
class ValueTest(unittest.TestCase):
    @proofs.proves('D29')
    @ddt.named_data(
        ['hex', 'vendor_id', '10de', '10DE'],
        ['location code', 'drc_name', 'u78-p1', 'u78-p1'],
    )
    def test_normal_value_is_upper_case_for_hex_only(
        self, key, value, expected
    ):
        self.assertEqual(expected, policy.normal_value(key, value))

    def test_valid_values_have_no_problem(self):
        for key, value in VALUES.items():
            self.assertIsNone(policy.problem_with_value(key, value), key)
            if key != 'drc_name':
                lower = value.lower()
                self.assertIsNone(policy.problem_with_value(key, lower))

    @proofs.proves('D25', 'D26', 'D27')
    @ddt.named_data(
        ['short', 'vendor_id', '10D'],
        ['long', 'vendor_id', '10DE0'],
        ['prefix', 'vendor_id', '0x10'],
        ['sign', 'vendor_id', '-10D'],
        ['line break', 'vendor_id', '10DE\n'],
        ['underscore', 'vendor_id', '1_DE'],
        ['other digits', 'vendor_id', '\uff11\uff10\uff11\uff14'],
        ['revision', 'revision_id', '0A1'],
        ['index', 'drc_index', '1010020'],
        ['empty', 'class', ''],
    )
    def test_invalid_hex_value_has_problem(self, key, value):
        digits = policy.PROPERTIES[key].digits
        self.assertEqual(
            f"{key} '{value}' is not {digits} hexadecimal digits",
            policy.problem_with_value(key, value),
        )

    @proofs.proves('D28')
    @ddt.named_data(
        ['empty', ''],
        ['spaces', '  '],
        ['space in front', ' U78'],
        ['line break behind', 'U78\n'],
        ['null character', 'U\x0078'],
    )
    def test_invalid_location_code_has_problem(self, value):
        self.assertIn('drc_name', policy.problem_with_value('drc_name', value))


@ddt.ddt
class NameTest(unittest.TestCase):
    @proofs.proves('D41', 'C56')
    @ddt.named_data(
        ['custom', 'CUSTOM_GPU', None],
        ['default', policy.DEFAULT_RESOURCE_CLASS, None],
        ['one character', 'CUSTOM_1', None],
        ['longest', 'CUSTOM_' + 'A' * 248, None],
        ['physical GPU', 'PGPU', None],
        ['FPGA', 'FPGA', None],
        ['too long', 'CUSTOM_' + 'A' * 249, 'not a resource class'],
        ['prefix only', 'CUSTOM_', 'not a resource class'],
        ['lower case', 'CUSTOM_gpu', 'not a resource class'],
        ['hyphen', 'CUSTOM_A-B', 'not a resource class'],
        ['line break', 'CUSTOM_A\n', 'not a resource class'],
        ['unknown', 'GPU', 'not a resource class'],
        ['empty', '', 'not a resource class'],
        ['processors', 'VCPU', 'satisfy requests for VCPU'],
        ['memory', 'MEMORY_MB', 'satisfy requests for MEMORY_MB'],
        ['disk', 'DISK_GB', 'satisfy requests for DISK_GB'],
        ['virtual GPU', 'VGPU', 'satisfy requests for VGPU'],
    )
    def test_invalid_resource_class_has_problem(self, name, words):
        problem = policy.problem_with_resource_class(name)
        if words is None:
            self.assertIsNone(problem)
        else:
            self.assertIn(words, problem)
            self.assertIn('CUSTOM_', problem)

    @proofs.proves('D46', 'D86')
    @ddt.named_data(
        ['custom', 'CUSTOM_FAST', None],
        ['standard', 'HW_GPU_API_VULKAN', None],
        ['almost the prefix', 'CUSTOM_POWERVMX', None],
        ['longest', 'CUSTOM_' + 'A' * 248, None],
        ['too long', 'CUSTOM_' + 'A' * 249, 'neither'],
        ['prefix only', 'CUSTOM_', 'neither'],
        ['lower case', 'custom_fast', 'neither'],
        ['unknown', 'HW_GPU_API_VULCAN', 'neither'],
        ['empty', '', 'neither'],
        ['generated', 'CUSTOM_POWERVM_IOSLOT_CLASS_0302', 'to the driver'],
        ['withdrawn', 'CUSTOM_POWERVM_WITHDRAWN', 'to the driver'],
        ['generated prefix', 'CUSTOM_POWERVM_', 'to the driver'],
        ['owner', 'OWNER_NOVA', 'who owns'],
        ['other owner', 'OWNER_CYBORG', 'who owns'],
        ['one time use', 'HW_PCI_ONE_TIME_USE', 'where it applies'],
        ['PCI tracker', 'COMPUTE_MANAGED_PCI_DEVICE', 'PCI tracker'],
    )
    def test_invalid_trait_has_problem(self, name, words):
        problem = policy.problem_with_trait(name)
        if words is None:
            self.assertIsNone(problem)
        else:
            self.assertIn(words, problem)


GIVES = values.paragraph()
DENIES = dataclasses.replace(GIVES, name='not', allow=False)
ONCE = dataclasses.replace(GIVES, one_time_use=True)
CYBORG_SLOT = values.slot()


def find_shared(ours, novas):
    """Return the slots that two lists of paragraphs give away."""
    shared_slots = accelerators.find_shared_slots(
        policy.Policy(tuple(ours)), policy.Policy(tuple(novas)), [CYBORG_SLOT]
    )
    return [shared.slot for shared in shared_slots]


class AcceleratorPolicyTest(unittest.TestCase):
    def test_slot_that_both_files_give_away_is_shared(self):
        self.assertEqual([CYBORG_SLOT], find_shared([GIVES], [GIVES]))

    def test_slot_that_a_file_denies_or_leaves_out_is_not_shared(self):
        for ours, novas in (
            ([GIVES, DENIES], [GIVES]),
            ([GIVES], [GIVES, DENIES]),
            ([], [GIVES]),
            ([GIVES], []),
        ):
            with self.subTest(ours=ours, novas=novas):
                self.assertEqual([], find_shared(ours, novas))

    def test_denying_paragraph_may_say_one_time_use(self):
        denies = dataclasses.replace(ONCE, allow=False)
        paragraphs = accelerators.one_time_use_paragraphs(
            policy.Policy((GIVES, ONCE, denies))
        )

        self.assertEqual((ONCE,), paragraphs)


class CyborgNameTest(unittest.TestCase):
    def test_slot_is_found_in_name_of_its_own_node_alone(self):
        name = names.cyborg_provider_name('host1', values.INDEX)

        for node, expected in (
            ('', values.INDEX),
            ('host1', values.INDEX),
            ('host2', None),
        ):
            with self.subTest(node=node):
                self.assertEqual(
                    expected, names.slot_of_cyborg_provider(name, node)
                )

    def test_name_without_space_before_index_is_no_slot(self):
        self.assertIsNone(
            names.slot_of_cyborg_provider(
                'PowerVM Cyborg IOSlot host121010020'
            )
        )

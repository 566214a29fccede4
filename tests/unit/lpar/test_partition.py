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

"""The state of an LPAR; an instance's size and identity as those of it."""

import dataclasses
import unittest

import ddt

from nova_powervm.lpar import partition
from tests import proofs
from tests.unit.devices.values import SIZES
from tests.unit.devices.values import lpar
from tests.unit.devices.values import spec


@ddt.ddt
class PowerStateTest(unittest.TestCase):
    @proofs.proves('operation.get-guest-info')
    @ddt.named_data(
        ['running', 'running', partition.Power.RUNNING],
        ['off', 'not activated', partition.Power.OFF],
        ['suspended', 'suspended', partition.Power.SUSPENDED],
        ['error', 'error', partition.Power.FAILED],
        ['not available', 'not available', partition.Power.UNKNOWN],
        ['other letters', ' Open Firmware ', partition.Power.RUNNING],
        ['a word of tomorrow', 'levitating', partition.Power.UNKNOWN],
        ['nothing', '', partition.Power.UNKNOWN],
    )
    def test_power_translates_state_of_lpar(self, word, expected):
        self.assertIs(expected, partition.power(word))


@ddt.ddt
class LparIdentityTest(unittest.TestCase):
    @ddt.named_data(
        ['digit below 8', '7', '7'],
        ['8', '8', '0'],
        ['9', '9', '1'],
        ['letter', 'f', '7'],
        ['capital', 'A', '2'],
        ['zero', '0', '0'],
    )
    def test_lpar_uuid_clears_first_bit(self, first, expected):
        rest = 'b1c2d3e-0000-4000-8000-00000000abcd'
        self.assertEqual(
            expected + rest.upper(), partition.lpar_uuid(first + rest)
        )

    @ddt.named_data(
        ['short', 'instance-00000001', 'instance-00000001'],
        ['longest', 'n' * 31, 'n' * 31],
        ['too long', 'n' * 31 + 'x', 'n' * 22 + '-4330a103'],
        ['refused characters', 'a*b|c', 'a_b_c'],
    )
    def test_lpar_name_is_valid_and_at_most_31_characters(
        self, name, expected
    ):
        self.assertEqual(expected, partition.lpar_name(name))

    def test_lpar_names_with_same_beginning_differ(self):
        names = {
            partition.lpar_name(f'production-frankfurt-zone-1-{number:08x}')
            for number in range(100)
        }
        self.assertEqual(100, len(names))
        self.assertEqual({31}, set(map(len, names)))


@ddt.ddt
class DifferencesTest(unittest.TestCase):
    def test_lpar_as_specified_has_no_differences(self):
        self.assertEqual([], lpar().differences(spec()))

    @ddt.named_data(
        ['memory', {'memory_mb': 1024}, 'memory 1024 instead of 2048'],
        ['processors', {'vcpus': 1}, 'virtual processors 1 instead of 2'],
        ['units', {'proc_units': 0.5}, 'processing units 0.5 instead of 1.0'],
        ['weight', {'shared_weight': 7}, 'shared weight 7 instead of 64'],
    )
    def test_different_setting_is_described(self, changes, expected):
        present = lpar(settings=dataclasses.replace(SIZES, **changes))

        self.assertEqual([expected], present.differences(spec()))

    @ddt.named_data(
        ['missing', {0x21010020: True}, 'slot 21010021 is missing'],
        [
            'not asked for',
            {0x21010020: True, 0x21010021: True, 0xA: True},
            'slot 0000000A was not asked for',
        ],
        [
            'not required',
            {0x21010020: False, 0x21010021: True},
            'slot 21010020 is not required',
        ],
    )
    def test_different_slot_is_described(self, slots, expected):
        self.assertEqual([expected], lpar(slots=slots).differences(spec()))

    def test_name_of_lpar_is_no_difference(self):
        self.assertEqual([], lpar(name='renamed').differences(spec()))

    def test_slot_differences_are_listed_in_order(self):
        self.assertEqual(
            [
                'slot 21010021 is missing',
                'slot 00000001 was not asked for',
                'slot 00000002 was not asked for',
                'slot 21010020 is not required',
            ],
            partition.slot_differences(
                {2: True, 1: False, 0x21010020: False}, spec().drc_indexes
            ),
        )

    def test_state_of_lpar_is_no_difference(self):
        self.assertEqual([], lpar(state='running').differences(spec()))

    def test_bus_group_is_required_only_as_host_reports(self):
        self.assertEqual(
            [False, True], [slot.bus_group_required for slot in spec().slots]
        )

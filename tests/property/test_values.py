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

"""Properties of names, identities and sizes."""

import re
import unittest
import uuid

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.lpar import partition
from nova_powervm.lpar import setting_checks
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec
from tests import proofs
from tests.property import strategies

NODES = strategies.TEXT | st.text('n.', min_size=170, max_size=300)
INDEXES = st.integers(0, 0xFFFFFFFF)
HUNDREDTHS = st.integers(5, 200).map(lambda number: number / 100)


class ProviderNameTest(unittest.TestCase):
    @proofs.proves('D77')
    @given(NODES, INDEXES, st.sampled_from(('node', 'spec')))
    def test_slot_of_provider_inverts_provider_name(self, node, index, style):
        name = names.provider_name(node, index, style)
        self.assertLessEqual(len(name), 200)
        self.assertEqual(index, names.slot_of_provider(name))

    @proofs.proves('D53')
    @given(NODES, INDEXES)
    def test_provider_name_keeps_prefix_and_suffix_of_specification(
        self, node, index
    ):
        name = names.provider_name(node, index)
        self.assertTrue(name.startswith('PowerVM IOSlot '))
        self.assertEqual(index, int(name[-8:], 16))

    @given(st.lists(st.tuples(NODES, INDEXES), unique=True))
    def test_provider_names_are_unique(self, places):
        made = {names.provider_name(*place) for place in places}
        self.assertEqual(len(places), len(made))

    @given(st.text())
    def test_slot_of_provider_accepts_any_text(self, name):
        index = names.slot_of_provider(name)
        if index is not None:
            self.assertTrue(name.startswith('PowerVM IOSlot '))


class GeneratedTraitsTest(unittest.TestCase):
    @proofs.proves('D94')
    @given(strategies.any_slots)
    def test_generated_traits_are_valid_in_placement(self, slot):
        for trait in names.generated_traits(slot):
            self.assertRegex(trait, r'\ACUSTOM_[A-Z0-9_]{1,248}\Z')

    @proofs.proves('D48')
    @given(strategies.any_slots)
    def test_generated_traits_are_refused_in_inventory_file(self, slot):
        for trait in names.generated_traits(slot):
            self.assertIsNotNone(policy.problem_with_trait(trait))

    @given(strategies.any_slots)
    def test_generated_traits_are_known_as_such(self, slot):
        for trait in names.generated_traits(slot):
            self.assertTrue(names.is_generated_trait(trait), trait)

    @given(strategies.any_slots)
    def test_generated_traits_are_one_per_reported_property(self, slot):
        reported = [p for p in policy.PROPERTIES.values() if p.value_in(slot)]
        self.assertEqual(len(reported), len(names.generated_traits(slot)))


class LparIdentityTest(unittest.TestCase):
    @given(st.uuids())
    def test_instance_is_candidate_of_its_lpar_uuid(self, instance):
        lpar = partition.lpar_uuid(str(instance))
        self.assertIn(str(instance), partition.instance_uuids(lpar))
        self.assertEqual(lpar, partition.lpar_uuid(str(instance).upper()))

    @given(st.uuids())
    def test_lpar_uuid_clears_first_bit_only(self, instance):
        lpar = uuid.UUID(partition.lpar_uuid(str(instance)))
        self.assertEqual(instance.int & ~(1 << 127), lpar.int)

    @given(st.uuids())
    def test_candidates_map_to_same_lpar_uuid(self, instance):
        lpar = partition.lpar_uuid(str(instance))
        for candidate in partition.instance_uuids(lpar):
            self.assertEqual(lpar, partition.lpar_uuid(candidate))


def settle(vcpus=1, factor=0.5, minimum=0.05, memory_mb=1024, region_mb=0):
    """Return the settings of a flavor on a host with these rules."""
    return setting_checks.choose_settings(
        spec.Wanted(
            '', settings=settings.FlavorSettings(memory_mb, vcpus, factor)
        ),
        host_values.ManagedSystem(
            's', 'u', 'm', 1, 1, region_mb, 1, 1, minimum
        ),
    )


class LparSizeTest(unittest.TestCase):
    @given(st.integers(1, 10**6), st.sampled_from((16, 64, 128, 256)))
    def test_suggested_memory_sizes_are_accepted(self, memory_mb, region_mb):
        try:
            settle(memory_mb=memory_mb, region_mb=region_mb)
        except exception.MemorySizeRefused as error:
            self.assertNotEqual(0, memory_mb % region_mb)
            for choice in error.fields['choices'].split(' or '):
                settle(memory_mb=int(choice), region_mb=region_mb)
                self.assertLess(abs(int(choice) - memory_mb), region_mb)
        else:
            self.assertEqual(0, memory_mb % region_mb)

    @given(st.integers(1, 64), HUNDREDTHS, st.sampled_from((0.05, 0.1)))
    def test_processing_units_are_proportional_or_refused(
        self, vcpus, factor, minimum
    ):
        try:
            units = settle(vcpus, factor, minimum).proc_units
        except exception.ProcessorsRefused:
            self.assertLess(factor, minimum)
        else:
            self.assertGreaterEqual(factor, minimum)
            self.assertAlmostEqual(vcpus * factor, units, 7)
            self.assertEqual(units, round(units, 2))

    @given(
        st.integers(1, 10000).map(lambda number: number / 100),
        HUNDREDTHS,
        st.integers(1, 1600).map(lambda number: number / 100),
    )
    def test_suggested_allocation_ratio_is_accepted(
        self, units, factor, ratio
    ):
        managed = host_values.ManagedSystem(
            's', 'u', 'm', 1, 1, 1, units, units, 0.05
        )
        text = host_values.overcommitment(managed, factor, ratio)
        if text:
            advised = float(re.search(r'_ratio to ([0-9.]+)', text).group(1))
            self.assertLess(advised, ratio)
            self.assertIsNone(
                host_values.overcommitment(managed, factor, advised)
            )


class RequestedAmountsTest(unittest.TestCase):
    @given(st.dictionaries(st.text(), st.text() | st.integers()))
    def test_requested_amounts_accepts_any_extra_specs(self, extra_specs):
        claims.requested_amounts(extra_specs)

    @given(
        st.dictionaries(
            st.from_regex(r'\Aresources[a-zA-Z0-9_-]{0,4}:(A|B)\Z'),
            st.characters() | st.integers(0, 9).map(str),
        )
    )
    def test_requested_amounts_sums_groups_of_class(self, extra_specs):
        amounts = claims.requested_amounts(extra_specs)
        for name in 'AB':
            expected = sum(
                int(value)
                for key, value in extra_specs.items()
                if key.endswith(f':{name}') and value.isdecimal()
            )
            self.assertEqual(expected, amounts.get(name, 0))

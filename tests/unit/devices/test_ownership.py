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

"""Who owns slots, and what the host reports of them."""

import unittest

import ddt

from nova_powervm.devices import host_values
from nova_powervm.devices import matching
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from tests import proofs
from tests.unit.devices import values
from tests.unit.devices.values import managed_system
from tests.unit.devices.values import slot

TRAIT = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020'
PARAGRAPH = values.paragraph()
POLICY = policy.Policy((PARAGRAPH,), source='/etc/nova/inventory.yaml')


@ddt.ddt
class SlotsNamedByTest(unittest.TestCase):
    @ddt.named_data(
        ['trait', 'a card', {TRAIT, 'OWNER_CYBORG'}, {0x21010020}],
        ['our form', 'PowerVM IOSlot 21010020', (), {0x21010020}],
        ['our form with a node', values.NAME, (), {0x21010020}],
        ['both', 'PowerVM IOSlot 21010021', {TRAIT},
         {0x21010020, 0x21010021}],
        ['neither', 'host1_0000:81:00.0', {'OWNER_CYBORG'}, set()],
        ['digits alone', 'card 21010020', (), set()],
        ['another trait', 'a', {TRAIT + '0', 'X' + TRAIT}, set()],
    )  # fmt: skip
    def test_slots_named_by_reads_traits_and_provider_names(
        self, name, traits, expected
    ):
        self.assertEqual(expected, slot_providers.slots_named_by(name, traits))

    def test_cyborg_slots_map_drc_index_to_provider_name(self):
        card = slot_providers.Provider('rp', 'card', traits={TRAIT})

        self.assertEqual(
            {0x21010020: 'card'}, slot_providers.cyborg_slots([card])
        )


class WithholdTest(unittest.TestCase):
    def judge(self, slot=None, cyborgs=(), unallocated=()):
        verdicts = matching.judge(
            POLICY, [slot or values.slot()], [values.LPAR]
        )
        (verdict,) = slot_providers.withhold(
            verdicts, dict(cyborgs), dict(unallocated), POLICY.source
        )
        return verdict

    def test_withheld_slot_has_its_reason(self):
        self.assertTrue(self.judge(cyborgs={1: 'x'}).offered)
        cyborgs = {'cyborgs': {values.INDEX: 'card'}}
        empty = {'slot': values.slot(vendor_id=0xFFFF)}
        for code, changes, words in (
            (
                'cyborg',
                cyborgs,
                (str(PARAGRAPH), POLICY.source, "'card'", 'Cyborg'),
            ),
            (
                'held',
                {'unallocated': {values.INDEX: 'partition vm'}},
                ['partition vm'],
            ),
            # An earlier reason stays.
            ('empty', {**cyborgs, **empty}, ()),
        ):
            with self.subTest(code):
                reason = self.judge(**changes).reason
                self.assertEqual(code, reason.code)
                for word in words:
                    self.assertIn(word, reason.text)

    def test_plan_reports_devices_in_use_by_both(self):
        provider = values.provider()
        verdict = self.judge(cyborgs={values.INDEX: 'card'})

        def plan(consumers):
            return values.make_plan(
                (),
                [provider],
                slot_providers.Allocations({provider.uuid: consumers}),
                (verdict,),
            )

        (entry,) = plan(['instance']).in_use_by_both
        self.assertEqual(values.INDEX, entry.drc_index)
        self.assertEqual((), plan([]).in_use_by_both)


class UnallocatedTest(unittest.TestCase):
    PROVIDER = values.provider()

    def find(self, holdings, stale=(), **changes):
        """Return the reason of the slot, or None if it is allocated."""
        reasons = slot_providers.find_unallocated(
            [values.slot(owner=values.client(**changes))],
            [self.PROVIDER, values.provider('a stranger')],
            holdings,
            dict(stale),
        )
        self.assertLessEqual(reasons.keys(), {values.INDEX})
        return reasons.get(values.INDEX)

    def test_slot_of_lpar_without_allocation_here_is_unallocated(self):
        own, other = {self.PROVIDER.uuid}, {'on another host'}
        lower = {'uuid': values.LPAR.lower()}
        for holdings, changes, words in (
            ({values.LPAR: own}, {}, None),
            ({values.OTHER_LPAR: ()}, {}, None),
            (
                {values.LPAR: other},
                {},
                f'partition {values.LPAR} owns it.*has no allocation',
            ),
            ({values.LPAR: frozenset()}, {}, 'has no allocation'),
            # The uuid of the owner is compared without case.
            ({values.LPAR: ()}, lower, 'has no allocation'),
        ):
            with self.subTest(holdings, **changes):
                reason = self.find(holdings, **changes)
                if words is None:
                    self.assertIsNone(reason)
                else:
                    self.assertRegex(reason, words)

    def test_slot_of_lpar_on_wrong_side_says_where_the_instance_is(self):
        stale = {values.LPAR: slot_providers.StaleLpar('its uuid', 'host2')}
        reason = self.find({values.LPAR: ()}, stale)
        self.assertIn('its instance its uuid is on host host2', reason)


@ddt.ddt
class HostViewTest(unittest.TestCase):
    @ddt.named_data(
        ['some used', 16.0, 12.5, 16, 4],
        ['nothing used', 16.0, 16.0, 16, 0],
        ['a hundredth used', 16.0, 15.99, 16, 1],
        ['part of a processor', 7.75, 7.75, 7, 0],
        ['noise of floats', 0.3, 0.1 + 0.2 - 1e-15, 0, 0],
    )
    def test_vcpus_and_vcpus_used_count_processors(
        self, units, free, vcpus, used
    ):
        seen = managed_system(proc_units=units, proc_units_free=free)
        self.assertEqual((vcpus, used), (seen.vcpus, seen.vcpus_used))

    def test_memory_used_excludes_free_memory(self):
        self.assertEqual(16384, managed_system().memory_used_mb)

    def test_slot_finds_slot_by_drc_index(self):
        first, second = slot(drc_index=1), slot(drc_index=2)
        seen = managed_system(io_slots=(first, second))
        self.assertEqual(second, seen.slot(2))
        self.assertIsNone(seen.slot(3))

    @proofs.proves('operation.report-cpu-traits')
    @ddt.named_data(
        ['nothing reported', '', ''],
        ['no mode of a generation', 'default', ''],
        ['big endian only', 'default POWER6 POWER6_Plus POWER7', 'ARCH_PPC64'],
        [
            'older than POWER9',
            'default POWER7 POWER8',
            'ARCH_PPC64 ARCH_PPC64LE CPU_PPC64LE_POWER8',
        ],
        [
            'POWER9',
            'default POWER8 POWER9_Base POWER9',
            'ARCH_PPC64 ARCH_PPC64LE CPU_PPC64LE_POWER8 CPU_PPC64LE_POWER9',
        ],
        ['newer than os-traits', 'POWER10 POWER11', 'ARCH_PPC64 ARCH_PPC64LE'],
    )
    def test_cpu_traits_follow_compatibility_modes(self, modes, traits):
        seen = managed_system(compatibility_modes=tuple(modes.split()))
        self.assertEqual(
            {f'HW_{trait}' for trait in traits.split()},
            seen.traits - {'CUSTOM_POWERVM_AIX'},
        )

    def test_trait_tells_who_runs_aix(self):
        for capable in (True, False):
            seen = managed_system(has_aix=capable)
            self.assertEqual(
                capable, 'CUSTOM_POWERVM_AIX' in seen.traits, capable
            )


@ddt.ddt
class OvercommitmentTest(unittest.TestCase):
    @ddt.named_data(
        ['exactly full', 16.0, 0.5, 2.0],
        ['whole processors', 16.0, 1.0, 1.0],
        ['no processors', 0.5, 1.0, 16.0],
        ['rest of a processor', 16.8, 0.1, 10.5],
    )
    def test_overcommitment_is_none_if_units_suffice(
        self, units, factor, ratio
    ):
        self.assertIsNone(
            host_values.overcommitment(
                managed_system(proc_units=units), factor, ratio
            )
        )

    @ddt.named_data(
        ["nova's default", 16.0, 0.5, 4.0, '32.0', '2.0'],
        ['just too much', 16.0, 1.0, 1.01, '16.16', '1.0'],
        ['small units', 10.0, 0.3, 4.0, '12.0', '3.33'],
    )
    def test_overcommitment_suggests_allocation_ratio(
        self, units, factor, ratio, promised, fitting
    ):
        text = host_values.overcommitment(
            managed_system(proc_units=units), factor, ratio
        )
        self.assertIn(f'promise {promised} processing units', text)
        self.assertIn(f'has {units}', text)
        self.assertIn(f'cpu_allocation_ratio to {fitting} or', text)

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

"""Slots that Cyborg has, too, or that instances hold without allocation."""

import unittest

import ddt

from nova_powervm.devices import matching
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from tests.unit.devices import values

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

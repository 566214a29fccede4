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

"""What does not agree, for each kind of difference."""

import dataclasses
import unittest

from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values

INSTANCE = '4b1c2d3e-0000-4000-8000-000000000001'
OTHER = '5b1c2d3e-0000-4000-8000-000000000002'
ROOT = placement_tree.Provider('root', 'host1', None, 3)
POLICY = policies.Policy((values.paragraph(),), 'inventory.yaml')


def offered(index=values.INDEX, **changes):
    """Make the provider of a slot as the service leaves it."""
    slot = values.slot(drc_index=index)
    return placement_tree.Provider(
        **{
            'uuid': f'uuid of {index:08X}',
            'name': names.provider_name('host1', index),
            'parent_uuid': 'root',
            'generation': 2,
            'inventory': {'CUSTOM_GPU': values.record()},
            'traits': names.generated_traits(slot)
            | {'OWNER_NOVA', 'CUSTOM_FAST'},
            **changes,
        }
    )


def held(consumer=INSTANCE):
    return {consumer: {'CUSTOM_GPU': 1}}


def plan_for(tree, slots, policy=POLICY):
    """Plan as the command does."""
    facts = plan.Facts(policy, tuple(slots), tree.holdings, tree.providers)
    return plan.make_plan(plan.assess(facts), tree.allocations, values.name_of)


def compare(
    below=(),
    slots=None,
    lpar_uuids=(values.LPAR,),
    policy=POLICY,
    slot_moves=None,
):
    """Compare as the command does, on a host with one GPU."""
    slots = (values.slot(),) if slots is None else slots
    tree = placement_tree.Tree('host1', ROOT, tuple(below))
    plan = plan_for(tree, slots, policy)
    return differences.compare(plan, tree, slots, lpar_uuids, slot_moves)


class DifferencesTest(unittest.TestCase):
    def assert_one(self, kind, words, found):
        (difference,) = found
        self.assertEqual(kind, str(difference.kind))
        self.assertIn(words, difference.words)
        self.assertTrue(difference.cure)
        return difference

    def test_expected_state_has_no_difference(self):
        owned = [values.slot(owner=values.client())]
        withdrawn = offered(
            consumers=held(),
            inventory={'CUSTOM_GPU': values.record(1)},
            traits=offered().traits | {names.WITHDRAWN_TRAIT},
        )
        by_operator = offered(inventory={'CUSTOM_GPU': values.record(1)})
        for what, provider, changes in (
            ('offered', offered(), {}),
            ('allocated', offered(consumers=held()), {'slots': owned}),
            (
                'withdrawn',
                withdrawn,
                {'slots': owned, 'policy': policies.Policy()},
            ),
            ('reserved by the operator', by_operator, {}),
            (
                'allocated while LPARs are unknown',
                offered(consumers=held()),
                {'slots': owned, 'lpar_uuids': None},
            ),
        ):
            with self.subTest(what):
                self.assertEqual((), compare([provider], **changes))

    def test_offered_slot_without_provider_is_missing(self):
        found = self.assert_one(
            'missing', 'offered as CUSTOM_GPU, but Placement', compare()
        )
        self.assertEqual(values.INDEX, found.drc_index)

    def test_provider_of_slot_that_is_not_offered_is_stale(self):
        empty = [values.slot(vendor_id=0xFFFF)]
        owned = [values.slot(owner=values.client())]
        found = compare([offered()], empty)
        found = self.assert_one('stale', 'the slot is empty', found)
        self.assertIn('nova-compute', found.cure)
        found = self.assert_one(
            'stale',
            'no paragraph of none.yaml identifies it: lacks '
            'CUSTOM_POWERVM_WITHDRAWN',
            compare(
                [offered(consumers=held())],
                owned,
                policy=policies.Policy(source='none.yaml'),
            ),
        )
        self.assertIn(INSTANCE, found.cure)

    def test_card_of_other_ids_is_replaced_even_if_nothing_changes(self):
        kept = offered(
            consumers=held(),
            inventory={'CUSTOM_GPU': values.record(1)},
            traits=offered().traits | names.REPLACED_TRAITS,
        )
        found = self.assert_one(
            'replaced',
            'device_id was 1EB8, and is 20B5',
            compare(
                [kept],
                [values.slot(device_id=0x20B5, owner=values.client())],
                policy=policies.Policy(),
            ),
        )
        self.assertIn('restore 21010020 --new-card`', found.cure)
        # ... and until nova-compute has put it into quarantine.
        other = [values.slot(device_id=0x20B5)]
        self.assertEqual(
            ['changed', 'replaced'],
            [str(found.kind) for found in compare([offered()], other)],
        )

    def test_provider_with_wrong_contents_is_changed(self):
        own = offered().traits
        class_trait = 'CUSTOM_POWERVM_IOSLOT_CLASS_0200'
        for words, changes in (
            (
                f'lacks OWNER_NOVA; has {class_trait}',
                {'traits': own - {'OWNER_NOVA'} | {class_trait}},
            ),
            (
                'has inventory of PGPU; lacks inventory of CUSTOM_GPU',
                {'inventory': {'PGPU': values.record()}},
            ),
            (
                'CUSTOM_GPU reserved is 1, should be 0',
                {
                    'inventory': {'CUSTOM_GPU': values.record(1)},
                    'traits': own | {names.WITHDRAWN_TRAIT},
                },
            ),
        ):
            with self.subTest(words):
                found = compare([offered(**changes)])
                self.assert_one('changed', words, found)

    def test_cyborg_provider_of_same_slot_is_foreign(self):
        index_trait = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020'
        # nova-compute withdraws its own provider if a trait names the slot.
        for withdrawn, name, traits in (
            ([], 'host1_21010020', {'OWNER_CYBORG'}),
            (['stale'], 'gpu', {'OWNER_CYBORG', index_trait}),
        ):
            other = offered(uuid='other', name=name, traits=frozenset(traits))
            with self.subTest(name):
                *others, foreign = compare([offered(), other])
                self.assertEqual(withdrawn, [str(d.kind) for d in others])
                found = self.assert_one(
                    'foreign', 'of Cyborg, for the same slot', [foreign]
                )
                self.assertEqual(values.INDEX, found.drc_index)

    def test_provider_of_others_is_foreign_with_class_of_slots(self):
        fpga = offered(uuid='other', name='fpga', traits=frozenset())
        found = compare([offered(), fpga])
        found = self.assert_one('foreign', 'with the class CUSTOM_GPU', found)
        self.assertIn('traitN:OWNER_NOVA=required', found.cure)
        unrelated = dataclasses.replace(
            fpga, inventory={'NET_BW_EGR_KILOBIT_PER_SEC': values.record()}
        )
        self.assertEqual((), compare([offered(), unrelated]))
        found = compare([offered(parent_uuid='elsewhere')])
        self.assert_one('foreign', 'no direct child', found)

    def test_allocation_without_lpar_or_its_slot_is_leaked(self):
        allocated = [offered(consumers=held())]
        found = self.assert_one(
            'leaked',
            f'allocated to {INSTANCE}, which has no LPAR',
            compare(allocated, lpar_uuids=()),
        )
        self.assertIn(f'allocation delete {INSTANCE}', found.cure)
        found = compare(allocated)
        self.assert_one('leaked', 'but the slot is free', found)

    def test_allocated_slot_that_another_partition_owns_is_leaked(self):
        owner = values.client(values.OTHER_LPAR, name='db')
        found = compare(
            [offered(consumers=held())], [values.slot(owner=owner)]
        )
        self.assertEqual(['stale', 'leaked'], [str(d.kind) for d in found])
        words = f'allocated to {INSTANCE}, but the slot is owned by'
        self.assert_one('leaked', f'{words} partition db', found[1:])

    def test_move_tells_whether_its_slots_are_leaked(self):
        for steps, cures in (
            # The user of a resize in place has to decide.
            ((), []),
            (('keep it', 'ask'), ['left over: keep it; ask']),
        ):
            left = {values.INDEX: left_moves.SlotMove('left over', steps)}
            found = compare(
                [offered(consumers=held())], lpar_uuids=(), slot_moves=left
            )
            self.assertEqual(cures, [each.cure for each in found])

    def test_slot_of_lpar_without_allocation_is_leaked(self):
        here = dataclasses.replace(ROOT, consumers={INSTANCE: {'VCPU': 1}})
        slots = [values.slot(owner=values.client(name='vm1'))]
        tree = placement_tree.Tree('host1', here, (offered(),))
        for steps, words in (
            (None, ''),
            ((), 'server show'),
            (('reboot',), 'reboot'),
        ):
            left = {values.INDEX: left_moves.SlotMove('moves', steps)}
            found = differences.compare(
                *(plan_for(tree, slots), tree, slots, (values.LPAR,)),
                None if steps is None else left,
            )
            # nova-compute takes the provider away, for nobody holds it.
            self.assertEqual(['stale', 'leaked'], [str(d.kind) for d in found])
            self.assertIn(words, found[1].cure)
            if steps is None:
                held_by = f'held by partition vm1 of instance {INSTANCE}, '
                self.assert_one('leaked', f'{held_by}which was not', found[1:])

    def test_leaked_is_not_a_slot_that_an_instance_has_by_cyborg(self):
        other = offered(
            uuid='other',
            name='gpu 21010020',
            traits=frozenset({'OWNER_CYBORG'}),
            consumers=held(),
        )
        slots = [values.slot(owner=values.client())]
        found = compare([other], slots, policy=policies.Policy())
        self.assert_one('foreign', 'of Cyborg', found)

    def test_differences_are_sorted_by_kind_and_slot(self):
        slots = [
            values.slot(drc_index=index)
            for index in (0x21010023, values.INDEX, 0x21010022)
        ]
        found = compare([offered(0x21010022, consumers=held(OTHER))], slots)
        self.assertEqual(
            [
                ('missing', 0x21010020),
                ('missing', 0x21010023),
                ('leaked', 0x21010022),
            ],
            [(str(d.kind), d.drc_index) for d in found],
        )

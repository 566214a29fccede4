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

from nova_powervm.devices import assessment
from nova_powervm.devices import names
from nova_powervm.devices import plan as plans
from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values

INSTANCE = '4b1c2d3e-0000-4000-8000-000000000001'
OTHER = '5b1c2d3e-0000-4000-8000-000000000002'
ROOT = placement_tree.PlacementProvider('root', 'host1', None, 3)
POLICY = policies.Policy((values.paragraph(),), 'inventory.yaml')


def offered(index=values.INDEX, **changes):
    """Make the provider of a slot as the service leaves it."""
    slot = values.slot(drc_index=index)
    return placement_tree.PlacementProvider(
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
    return plans.make_plan(
        assessment.assess(
            assessment.Facts(
                policy, tuple(slots), tree.holdings, tree.providers
            )
        ),
        tree.allocations,
        values.name_of,
    )


def compare(
    below=(),
    slots=None,
    lpar_uuids=(values.LPAR,),
    policy=POLICY,
    leftovers=None,
):
    """Compare as the command does, on a host with one GPU."""
    slots = (values.slot(),) if slots is None else slots
    tree = placement_tree.Tree('host1', ROOT, tuple(below))
    plan = plan_for(tree, slots, policy)
    return differences.compare(plan, tree, slots, lpar_uuids, leftovers)


class DifferencesTest(unittest.TestCase):
    def assert_one(self, kind, words, found):
        (difference,) = found
        self.assertEqual(kind, str(difference.kind))
        self.assertIn(words, difference.what)
        self.assertTrue(difference.cure)
        return difference

    def test_matching_state_has_no_difference(self):
        self.assertEqual((), compare([offered()]))

    def test_instance_with_its_device_has_no_difference(self):
        self.assertEqual(
            (),
            compare(
                [offered(consumers=held())],
                [values.slot(owner=values.client())],
            ),
        )

    def test_offered_slot_without_provider_is_missing(self):
        found = self.assert_one(
            'missing', 'offered as CUSTOM_GPU, but Placement', compare()
        )
        self.assertEqual(values.INDEX, found.drc_index)
        self.assertIsNone(found.uuid)

    def test_free_provider_of_empty_slot_is_stale(self):
        found = self.assert_one(
            'stale',
            'the slot is empty',
            compare([offered()], [values.slot(vendor_id=0xFFFF)]),
        )
        self.assertIn('nova-compute', found.cure)

    def test_allocated_provider_without_paragraph_is_stale(self):
        found = self.assert_one(
            'stale',
            'no paragraph of none.yaml identifies it: lacks '
            'CUSTOM_POWERVM_WITHDRAWN',
            compare(
                [offered(consumers=held())],
                [values.slot(owner=values.client())],
                policy=policies.Policy(source='none.yaml'),
            ),
        )
        self.assertIn(INSTANCE, found.cure)

    def test_card_of_other_ids_is_replaced_even_if_nothing_changes(self):
        kept = offered(
            consumers=held(),
            inventory={'CUSTOM_GPU': values.record(1)},
            traits=offered().traits | {names.WITHDRAWN_TRAIT},
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
        self.assertIn('Replace a card', found.cure)
        self.assertTrue(found.counts)

    def test_withdrawn_provider_is_no_difference(self):
        withdrawn = offered(
            consumers=held(),
            inventory={'CUSTOM_GPU': values.record(1)},
            traits=offered().traits | {names.WITHDRAWN_TRAIT},
        )
        self.assertEqual(
            (),
            compare(
                [withdrawn],
                [values.slot(owner=values.client())],
                policy=policies.Policy(),
            ),
        )

    def test_provider_with_wrong_traits_is_changed(self):
        traits = offered().traits - {'OWNER_NOVA'} | {
            'CUSTOM_POWERVM_IOSLOT_CLASS_0200'
        }
        self.assert_one(
            'changed',
            'lacks OWNER_NOVA; has CUSTOM_POWERVM_IOSLOT_CLASS_0200',
            compare([offered(traits=traits)]),
        )

    def test_provider_with_wrong_resource_class_is_changed(self):
        self.assert_one(
            'changed',
            'has inventory of PGPU; lacks inventory of CUSTOM_GPU',
            compare([offered(inventory={'PGPU': values.record()})]),
        )

    def test_provider_with_wrong_reserved_is_changed(self):
        marked = offered().traits | {names.WITHDRAWN_TRAIT}
        self.assert_one(
            'changed',
            'CUSTOM_GPU reserved is 1, should be 0',
            compare(
                [
                    offered(
                        inventory={'CUSTOM_GPU': values.record(1)},
                        traits=marked,
                    )
                ]
            ),
        )

    def test_unit_reserved_by_operator_is_no_difference(self):
        self.assertEqual(
            (),
            compare(
                [
                    offered(
                        inventory={'CUSTOM_GPU': values.record(1)},
                    )
                ]
            ),
        )

    def test_cyborg_provider_of_same_slot_is_foreign(self):
        # nova-compute withdraws its own provider if a trait names the slot.
        for withdrawn, changes in (
            ([], {'name': 'host1_21010020'}),
            (
                ['stale'],
                {
                    'name': 'gpu',
                    'traits': {
                        'OWNER_CYBORG',
                        'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020',
                    },
                },
            ),
        ):
            other = offered(
                uuid='other',
                **{'traits': frozenset({'OWNER_CYBORG'}), **changes},
            )
            with self.subTest(changes):
                *others, foreign = compare([offered(), other])
                self.assertEqual(withdrawn, [str(d.kind) for d in others])
                found = self.assert_one(
                    'foreign', 'of Cyborg, for the same slot', [foreign]
                )
                self.assertEqual(values.INDEX, found.drc_index)
                self.assertTrue(found.counts)

    def test_provider_with_class_of_slots_is_foreign(self):
        other = offered(uuid='other', name='fpga', traits=frozenset())
        found = self.assert_one(
            'foreign', 'with the class CUSTOM_GPU', compare([offered(), other])
        )
        self.assertIn('traitN:OWNER_NOVA=required', found.cure)

    def test_unrelated_foreign_provider_does_not_count(self):
        other = offered(
            uuid='other',
            name='bandwidth',
            inventory={'NET_BW_EGR_KILOBIT_PER_SEC': values.record()},
            traits=frozenset(),
        )
        found = self.assert_one(
            'foreign', 'offers nothing', compare([offered(), other])
        )
        self.assertFalse(found.counts)

    def test_foreign_that_has_a_slots_name_in_the_wrong_place(self):
        self.assert_one(
            'foreign',
            'no direct child',
            compare([offered(parent_uuid='elsewhere')]),
        )

    def test_allocation_without_lpar_is_leaked(self):
        found = self.assert_one(
            'leaked',
            f'allocated to {INSTANCE}, which has no LPAR',
            compare([offered(consumers=held())], lpar_uuids=()),
        )
        self.assertIn(f'allocation delete {INSTANCE}', found.cure)

    def test_move_tells_whether_its_slots_are_leaked(self):
        for steps, cures in (
            # The user of a resize in place has to decide.
            ((), []),
            (('keep it', 'ask'), ['left over: keep it; ask']),
        ):
            left = {values.INDEX: left_moves.Finding('left over', steps)}
            found = compare(
                [offered(consumers=held())], lpar_uuids=(), leftovers=left
            )
            self.assertEqual(cures, [each.cure for each in found])
        # A slot without an allocation is never fine.
        here = dataclasses.replace(ROOT, consumers={INSTANCE: {'VCPU': 1}})
        slots = [values.slot(owner=values.client(name='vm1'))]
        tree = placement_tree.Tree('host1', here, (offered(),))
        for steps, words in (((), 'server show'), (('reboot',), 'reboot')):
            left = {values.INDEX: left_moves.Finding('moves', steps)}
            *_, leaked = differences.compare(
                plan_for(tree, slots), tree, slots, (values.LPAR,), left
            )
            self.assertEqual('leaked', str(leaked.kind))
            self.assertIn(words, leaked.cure)

    def test_allocation_of_slot_that_lpar_lacks_is_leaked(self):
        self.assert_one(
            'leaked',
            'but the slot is free',
            compare([offered(consumers=held())]),
        )

    def test_allocation_is_not_leaked_if_lpars_are_unknown(self):
        found = compare(
            [offered(consumers=held())],
            [values.slot(owner=values.client())],
            lpar_uuids=None,
        )
        self.assertEqual((), found)

    def test_slot_of_lpar_without_allocation_is_leaked(self):
        here = dataclasses.replace(ROOT, consumers={INSTANCE: {'VCPU': 1}})
        slots = [values.slot(owner=values.client(name='vm1'))]
        tree = placement_tree.Tree('host1', here, (offered(),))
        found = differences.compare(
            plan_for(tree, slots), tree, slots, (values.LPAR,)
        )
        # nova-compute takes the provider away, for nobody holds it.
        self.assertEqual(['stale', 'leaked'], [str(d.kind) for d in found])
        self.assert_one(
            'leaked',
            f'held by partition vm1 of instance {INSTANCE}, which was not',
            found[1:],
        )

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
        found = compare(
            [offered(0x21010022, consumers=held(OTHER))],
            [
                values.slot(drc_index=0x21010023),
                values.slot(),
                values.slot(drc_index=0x21010022),
            ],
        )
        self.assertEqual(
            [
                ('missing', 0x21010020),
                ('missing', 0x21010023),
                ('leaked', 0x21010022),
            ],
            [(str(d.kind), d.drc_index) for d in found],
        )

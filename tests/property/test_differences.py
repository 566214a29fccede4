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

"""Properties of the differences between plan and Placement."""

import unittest

from hypothesis import given

from nova_powervm.devices import plan
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules.differences import Kind
from tests.property import strategies
from tests.property import test_plan
from tests.unit.devices import values

ROOT = placement_tree.Provider('root', 'host1', None, 0)
OF_THE_PLAN = (Kind.MISSING, Kind.STALE, Kind.CHANGED)


def tree_of(providers):
    """Return a tree with providers below the node and no allocations."""
    return placement_tree.Tree(
        'host1',
        ROOT,
        tuple(
            placement_tree.Provider(
                p.uuid, p.name, 'root', 0, p.inventory, p.traits
            )
            for p in providers
        ),
    )


def plan_for(tree, policy, slots):
    return plan.make_plan(
        plan.assess(
            plan.Facts(policy, tuple(slots), tree.holdings, tree.providers)
        ),
        tree.allocations,
        values.name_of,
    )


class DifferencesTest(unittest.TestCase):
    @given(
        strategies.policies,
        strategies.st.lists(strategies.host_slots, max_size=6),
        strategies.providers,
    )
    def test_applied_plan_leaves_no_difference(self, policy, slots, providers):
        before = tree_of(providers)
        plan = plan_for(before, policy, slots)
        found = differences.compare(plan, before, slots, None)

        after = tree_of(test_plan.apply(plan, before.children))
        again = plan_for(after, policy, slots)
        left = differences.compare(again, after, slots, None)

        self.assertEqual([], [d for d in left if d.kind in OF_THE_PLAN])
        # A plan without changes has no differences.
        changed = after.children != before.children
        self.assertEqual(changed, any(d.kind in OF_THE_PLAN for d in found))

    @given(
        strategies.policies,
        strategies.st.lists(strategies.host_slots, max_size=6),
        strategies.providers,
    )
    def test_difference_has_description_and_cure(
        self, policy, slots, providers
    ):
        tree = tree_of(providers)
        plan = plan_for(tree, policy, slots)
        for difference in differences.compare(plan, tree, slots, ()):
            self.assertTrue(difference.words)
            self.assertTrue(difference.cure)

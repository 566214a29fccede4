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

"""Which of Nova's trees need no planning."""

import copy
import uuid

from nova import objects
from nova import test
from nova.compute import provider_tree

from nova_powervm.devices import claims
from nova_powervm.devices import planned
from nova_powervm.virt import settled
from nova_powervm.virt.provider_tree import tree as trees

ROOT = str(uuid.uuid4())
BASIS = (object(), object())
RECORD = {
    'total': 1,
    'reserved': 0,
    'min_unit': 1,
    'max_unit': 1,
    'step_size': 1,
    'allocation_ratio': 1.0,
}


class SettledTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        objects.register_all()
        self.now = 0.0
        self.tree = provider_tree.ProviderTree()
        self.tree.new_root('host1', ROOT)
        self.tree.update_inventory(ROOT, {'VCPU': RECORD})
        self.stranger = self.tree.new_child('host1_other', ROOT)
        self.settled = settled.SettledTree(600, lambda: self.now)
        self.apply()

    def apply(self, action=planned.Action.CREATE):
        name = 'PowerVM IOSlot host1 21010020'
        known = self.tree.exists(name)
        entry = planned.Entry(
            action,
            0x21010020,
            name,
            self.tree.data(name).uuid if known else None,
            {'CUSTOM_GPU': dict(RECORD)},
            frozenset({'OWNER_NOVA'}),
        )
        plan = planned.Plan((entry,))
        providers = trees.apply(self.tree, 'host1', plan)
        (self.ours,) = providers
        self.settled.remember(self.tree, 'host1', BASIS, plan, providers)

    def copied(self):
        """Give the tree as Nova hands it over: without resources."""
        tree = copy.deepcopy(self.tree)
        tree.update_resources(self.ours, {})
        return tree

    def restore(self, tree, basis=BASIS):
        return self.settled.restore(tree, 'host1', basis)

    def test_an_unchanged_tree_gets_its_resources(self):
        for _ in range(2):
            tree = self.copied()
            self.assertTrue(self.restore(tree))
            resources = tree.data(self.ours).resources
            self.assertEqual(self.tree.data(self.ours).resources, resources)
            (resource,) = resources['CUSTOM_GPU']
            self.assertEqual('21010020', resource.identifier)
            # What Nova takes out is not taken from the next cycle.
            resources['CUSTOM_GPU'].clear()

    def test_what_changes_has_to_be_planned(self):
        for what, change in (
            ('reserved', self.reserve),
            ('trait', lambda t: t.update_traits(self.ours, ['CUSTOM_X'])),
            ('class', lambda t: t.update_inventory(self.ours, {})),
            ('gone', lambda t: t.remove(self.ours)),
            ('new', lambda t: t.new_child('another', ROOT)),
            ('below', lambda t: t.new_child('another', self.ours)),
            (
                'stranger',
                lambda t: t.update_traits(self.stranger, ['OWNER_CYBORG']),
            ),
            ('root', lambda t: t.update_inventory(ROOT, {})),
        ):
            with self.subTest(what):
                self.apply(planned.Action.PUBLISH)
                tree = self.copied()
                change(tree)
                self.assertFalse(self.restore(tree))
                # Not even as it was before: something has happened.
                self.assertFalse(self.restore(self.copied()))

    def reserve(self, tree):
        record = RECORD | {'reserved': 1}
        tree.update_inventory(self.ours, {'CUSTOM_GPU': record})

    def test_another_host_or_file(self):
        self.assertFalse(self.restore(self.copied(), (BASIS[0], object())))

    def test_it_is_planned_again_from_time_to_time(self):
        self.now = 599
        self.assertTrue(self.restore(self.copied()))
        self.now = 600
        self.assertFalse(self.restore(self.copied()))

    def test_what_is_withdrawn_is_planned_each_time(self):
        for action in (
            planned.Action.WITHDRAW,
            planned.Action.KEEP_CLASS,
        ):
            self.apply(action)
            self.assertFalse(self.restore(self.copied()))

    def test_a_provider_that_could_not_be_made(self):
        plan = planned.Plan(
            tuple(
                planned.Entry(planned.Action.CREATE, index, 'x', None)
                for index in (1, 2)
            )
        )
        provider = claims.SlotProvider(self.ours, 1, frozenset())
        self.settled.remember(
            self.tree, 'host1', BASIS, plan, {self.ours: provider}
        )
        self.assertFalse(self.restore(self.copied()))

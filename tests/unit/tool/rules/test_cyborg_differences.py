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

import unittest

import os_traits

from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import cyborg_differences
from tests.unit.devices import values
from tests.unit.tool.rules import test_differences as novas

CYBORGS = policies.Policy((values.paragraph('cards'),), 'cyborg.yaml')
NOTHING = policies.Policy((), 'nova.yaml')


def reported(mark=names.CYBORG_TRAIT, **changes):
    """Make Cyborg's provider of a slot as the agent leaves it."""
    return novas.offered(
        **{
            'name': names.cyborg_provider_name('host1', values.INDEX),
            'traits': names.generated_traits(values.slot())
            | {os_traits.OWNER_CYBORG, 'CUSTOM_FAST', mark},
            **changes,
        }
    )


def compare(
    below=(), slots=None, policy=CYBORGS, nova_policy=NOTHING, **options
):
    """Compare as the command does, on a host with one GPU."""
    slots = (values.slot(),) if slots is None else slots
    tree = novas.placement_tree.Tree('host1', novas.ROOT, tuple(below))
    plan = novas.plan_for(tree, slots, nova_policy)
    found = novas.differences.compare(plan, tree, slots, None)
    cyborgs = cyborg_differences.compare(
        policy, nova_policy, slots, tree, **options
    )
    return novas.differences.sort_differences([*found, *cyborgs])


class CyborgDifferencesTest(unittest.TestCase):
    def assert_found(self, found, *expected):
        self.assertEqual(
            [kind for kind, _ in expected], [str(d.kind) for d in found], found
        )
        for (_, words), difference in zip(expected, found, strict=True):
            self.assertIn(words, difference.words)
            self.assertTrue(difference.cure)
            self.assertEqual(values.INDEX, difference.drc_index)

    def test_provider_as_reported_is_no_difference(self):
        self.assert_found(compare([reported()]))

    def test_location_that_option_leaves_out_is_changed(self):
        self.assert_found(
            compare([reported()], publishes_locations=False),
            ('changed', 'has CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB'),
        )

    def test_slot_without_provider_is_missing(self):
        self.assert_found(
            compare(), ('missing', 'cyborg.yaml gives it to Cyborg as CUSTOM')
        )

    def test_different_class_or_traits_are_changed(self):
        for provider, words in (
            (
                reported(inventory={'CUSTOM_OTHER': values.record()}),
                'has inventory of CUSTOM_OTHER, should have CUSTOM_GPU',
            ),
            (reported(traits=frozenset()), 'lacks CUSTOM_FAST'),
            (
                reported(mark=names.WITHDRAWN_TRAIT),
                f'has {names.WITHDRAWN_TRAIT}',
            ),
        ):
            with self.subTest(words):
                self.assert_found(compare([provider]), ('changed', words))

    def test_traits_of_others_are_not_left_to_the_agent(self):
        mark = reported(names.CYBORG_TRAIT).traits
        withheld = mark | {names.WITHDRAWN_TRAIT}
        (found,) = compare([reported(traits=withheld)])
        self.assertTrue(found.cure.startswith('cyborg-agent corrects it'))
        (found,) = compare([reported(traits=withheld | {'CUSTOM_OTHER'})])
        self.assertIn(f'CUSTOM_OTHER, {names.WITHDRAWN_TRAIT}', found.words)
        self.assertIn(
            'if CUSTOM_OTHER stays, somebody else has set it', found.cure
        )

    def test_free_provider_that_the_file_does_not_identify_is_stale(self):
        self.assert_found(
            compare([reported()], policy=policies.Policy()),
            ('stale', 'no paragraph of'),
        )

    def test_slot_in_both_files_is_shared_and_its_mark_changes(self):
        found = compare([reported()], nova_policy=novas.POLICY)
        self.assertEqual(
            ['changed', 'foreign', 'shared'], [str(d.kind) for d in found]
        )
        self.assertIn(
            "paragraph 'gpus' (line 1) of inventory.yaml and paragraph "
            "'cards' (line 1) of cyborg.yaml both identify it",
            found[-1].words,
        )

    def test_slot_that_only_cyborg_has_is_no_difference_without_its_file(self):
        tree = novas.placement_tree.Tree('host1', novas.ROOT, (reported(),))
        slots = (values.slot(),)
        found = novas.differences.compare(
            novas.plan_for(tree, slots, NOTHING), tree, slots, None
        )
        self.assertEqual((), found)

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

"""Flavors, differences between file and host, and metrics."""

import pathlib
import tempfile
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from nova import objects
from nova.api.validation.extra_specs import validators
from nova.scheduler import utils

from nova_powervm import inventory_file
from nova_powervm.devices import plan
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import file_reader
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules.differences import Kind
from tests import proofs
from tests.property import strategies
from tests.property import test_plan
from tests.unit.devices import values

objects.register_all()

WISHES = st.lists(
    st.builds(
        flavors.DeviceRequest,
        st.sampled_from(('CUSTOM_GPU', 'PGPU', 'CUSTOM_IOSLOT')),
        st.frozensets(
            st.sampled_from(
                (
                    'CUSTOM_FAST',
                    'HW_GPU_API_VULKAN',
                    'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE',
                )
            )
        ),
    ),
    min_size=1,
    # The lint warns of three equal groups.
    max_size=2,
)


def nova_groups(specs):
    """Return the suffixed groups that Nova's scheduler requests."""
    spec = objects.RequestSpec(
        flavor=objects.Flavor(
            vcpus=1,
            memory_mb=512,
            root_gb=0,
            ephemeral_gb=0,
            swap=0,
            extra_specs=specs,
        )
    )
    request = utils.ResourceRequest.from_request_spec(spec)
    return request, {
        suffix: group for suffix, group in request._rg_by_id.items() if suffix
    }


class ExtraSpecsTest(unittest.TestCase):
    @given(WISHES)
    def test_nova_reads_generated_extra_specs_as_meant(self, wishes):
        specs = flavors.make_extra_specs(wishes)

        request, groups = nova_groups(specs)

        self.assertEqual(
            [
                ({w.resource_class: 1}, w.traits | {'OWNER_NOVA'})
                for w in wishes
            ],
            [
                (group.resources, group.required_traits_flat)
                for group in map(_FlatGroup, groups.values())
            ],
        )
        self.assertEqual(
            'none' if len(wishes) > 1 else None, request.group_policy
        )

    @given(WISHES)
    def test_lint_accepts_generated_extra_specs(self, wishes):
        offers = flavor_lint.DeviceOffers(
            frozenset(w.resource_class for w in wishes)
        )
        found = flavor_lint.lint_flavor(
            flavors.make_extra_specs(wishes), offers
        )
        self.assertEqual((), found)

    @given(
        st.dictionaries(
            st.from_regex(
                r'\A(resources?|traits?)[a-zA-Z0-9_-]{0,3}:CUSTOM_[AB]\Z'
            ),
            st.just('1'),
            max_size=5,
        )
    )
    def test_groups_match_those_nova_reads(self, specs):
        # Nova refuses other values of traits itself.
        specs = {
            k: v if k.startswith('resource') else 'required'
            for k, v in specs.items()
        }
        _, theirs = nova_groups(specs)
        ours = {g.suffix: g for g in flavors.read_groups(specs) if g.suffix}
        self.assertEqual(set(theirs), set(ours))
        for suffix, group in theirs.items():
            self.assertEqual(set(group.resources), set(ours[suffix].resources))

    def test_device_classes_pass_nova_validation(self):
        for name in policies.DEVICE_CLASSES:
            validators.validate(f'resources1:{name}', '1')

    def test_generated_extra_specs_pass_nova_validation(self):
        # Once: the API compiles hundreds of patterns for each key.
        wish = flavors.DeviceRequest('CUSTOM_GPU', frozenset({'CUSTOM_FAST'}))
        for key, value in flavors.make_extra_specs([wish, wish]).items():
            validators.validate(key, value)


class _FlatGroup:
    """A group of Nova with its required traits as one set."""

    def __init__(self, group):
        self.resources = group.resources
        self.required_traits_flat = group.required_traits


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


GOOD = {
    name: f'{name}: {{identification: {{class: ABCD}}}}\n' for name in 'abc'
}
BAD = 'a: {identification: {class: 0302}}\n'
#: None is no file.
contents = st.sampled_from((*GOOD.values(), BAD, '# nothing\n', None))


class WatchTest(unittest.TestCase):
    """A file that changes before some looks at it."""

    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory, 'inventory.yaml')
        self.log = self.enterContext(mock.patch.object(file_reader, 'LOG'))

    def write(self, content):
        self.path.unlink(missing_ok=True)
        if content is not None:
            self.path.write_text(content)

    def names(self):
        """Return the names of the paragraphs in force."""
        return [p.name for p in self.watch.policy.paragraphs]

    def begin(self, first):
        self.write(first)
        self.watch = inventory_file.InventoryFile(str(self.path))
        self.log.reset_mock()

    def look(self, content):
        """Change the file, and look; return what is in force."""
        self.write(content)
        self.watch.refresh()
        return self.names()

    @proofs.proves('device.config-reload')
    @given(st.sampled_from((*GOOD.values(), None)), st.lists(contents))
    def test_policy_is_the_last_good_one_of_two_equal_looks(self, first, seen):
        self.begin(first)
        expected = self.names()
        for before, content in zip([first, *seen], seen, strict=False):
            if content == before and content in GOOD.values():
                expected = [content[0]]
            self.assertEqual(expected, self.look(content))

    @given(st.sampled_from([*GOOD.values()]), st.lists(contents), contents)
    def test_settled_file_is_told_of_once(self, first, seen, last):
        self.begin(first)
        for content in seen:
            self.look(content)
        self.look(last)
        self.look(last)
        self.log.reset_mock()
        for _ in range(3):
            self.look(last)
        self.assertEqual([], self.log.mock_calls)

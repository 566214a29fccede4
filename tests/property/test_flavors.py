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

"""Nova's reading of extra specs that are generated for flavors."""

import unittest

from hypothesis import given
from hypothesis import strategies as st
from nova import objects
from nova.api.validation.extra_specs import validators
from nova.scheduler import utils

from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors

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

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

"""What is found in flavors, rule by rule."""

import unittest

from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors

VENDOR = 'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE'
GPU = flavors.DeviceRequest('CUSTOM_GPU', frozenset({VENDOR, 'OWNER_NOVA'}))
FILE = flavor_lint.DeviceOffers(frozenset({'CUSTOM_GPU', 'PGPU'}))
CLOUD = flavor_lint.DeviceOffers(
    frozenset({'CUSTOM_GPU'}),
    traits=frozenset({VENDOR, 'OWNER_NOVA'}),
    devices=(GPU,) * 4,
    foreign=frozenset({'CUSTOM_BAREMETAL'}),
    used_up=frozenset({'CUSTOM_RARE'}),
    whole=True,
    source='the cloud',
)
GOOD = {
    'resources1:CUSTOM_GPU': '1',
    f'trait1:{VENDOR}': 'required',
    'trait1:OWNER_NOVA': 'required',
}


def many(number):
    """Make a flavor of many equal groups."""
    return flavors.make_extra_specs([GPU] * number)


class FlavorLintTest(unittest.TestCase):
    def assert_found(self, severity, key, words, specs, offers=FILE):
        (finding,) = flavor_lint.lint_flavor(specs, offers)
        self.assertEqual((severity, key), (str(finding.severity), finding.key))
        self.assertIn(words, finding.what)
        return finding

    def test_valid_flavor_has_no_finding(self):
        self.assertEqual((), flavor_lint.lint_flavor(GOOD, FILE))
        self.assertEqual((), flavor_lint.lint_flavor(GOOD, CLOUD))
        self.assertEqual((), flavor_lint.lint_flavor(many(2), CLOUD))

    def test_flavor_without_devices_has_no_finding(self):
        for specs in (
            {},
            {
                'hw:cpu_policy': 'shared',
                'trait:HW_CPU_X86_AVX2': 'required',
            },
            {'resources:VCPU': '0', 'resources:CUSTOM_BAREMETAL': '1'},
            {'resources_NIC:NET_BW_EGR_KILOBIT_PER_SEC': '2000'},
        ):
            with self.subTest(specs):
                self.assertEqual((), flavor_lint.lint_flavor(specs, CLOUD))

    def test_misspelled_traits_key_is_an_error(self):
        finding = self.assert_found(
            'error',
            f'traits1:{VENDOR}',
            "group named 's1'",
            {**GOOD, f'traits1:{VENDOR}': 'required'},
        )
        self.assertEqual(f'write trait1:{VENDOR}', finding.hint)

    def test_misspelled_resource_key_is_an_error(self):
        finding = self.assert_found(
            'error',
            'resource1:CUSTOM_GPU',
            'nothing at all',
            {'resource1:CUSTOM_GPU': '1'},
        )
        self.assertEqual('write resources1:CUSTOM_GPU', finding.hint)

    def test_product_id_trait_is_an_error(self):
        key = 'trait1:CUSTOM_POWERVM_IOSLOT_PRODUCT_ID_1DB6'
        finding = self.assert_found(
            'error', key, 'DEVICE_ID', {**GOOD, key: 'required'}, CLOUD
        )
        self.assertIn(
            'trait1:CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6=required',
            finding.hint,
        )

    def test_extra_spec_refused_by_the_driver_is_reported(self):
        specs = {'hw:cpu_policy': 'dedicated'}
        for others, severity in (({}, 'warning'), (GOOD, 'error')):
            finding = self.assert_found(
                severity,
                'hw:cpu_policy',
                "'dedicated' is refused: LPARs share the host's",
                {**others, **specs},
            )
            self.assertIn('remove it', finding.hint)

    def test_misspelled_device_profile_is_an_error(self):
        right = {'accel:device_profile': 'gpu'}
        self.assertEqual((), flavor_lint.lint_flavor(right, FILE))
        for key in ('accel:device-profile', 'accel:device_profile_name'):
            finding = self.assert_found(
                'error', key, 'no accelerator is attached', {key: 'gpu'}
            )
            self.assertEqual('write accel:device_profile=gpu', finding.hint)

    def test_missing_group_policy_is_an_error(self):
        specs = many(2)
        del specs['group_policy']
        self.assert_found('error', 'group_policy', 'missing', specs)

    def test_wrong_group_policy_is_an_error(self):
        self.assert_found(
            'error',
            'group_policy',
            "'isolated' is not a policy",
            {**many(2), 'group_policy': 'isolated'},
        )

    def test_amount_above_one_is_an_error(self):
        finding = self.assert_found(
            'error',
            'resources1:CUSTOM_GPU',
            'each slot is a provider with one unit',
            {**GOOD, 'resources1:CUSTOM_GPU': '2'},
        )
        self.assertIn('write 2 groups', finding.hint)

    def test_missing_owner_trait_is_a_warning(self):
        specs = {k: v for k, v in GOOD.items() if 'OWNER' not in k}
        finding = self.assert_found(
            'warning', 'trait1:OWNER_NOVA', 'missing', specs
        )
        self.assertEqual('add trait1:OWNER_NOVA=required', finding.hint)

    def test_class_without_offer_is_reported(self):
        specs = {
            'resources1:CUSTOM_GPUS': '1',
            'trait1:OWNER_NOVA': 'required',
        }
        for offers, severity in ((FILE, 'warning'), (CLOUD, 'error')):
            finding = self.assert_found(
                severity,
                'resources1:CUSTOM_GPUS',
                'offers no device of class CUSTOM_GPUS',
                specs,
                offers,
            )
            self.assertIn('CUSTOM_GPU', finding.hint)

    def test_class_without_free_device_is_a_warning(self):
        self.assert_found(
            'warning',
            'resources1:CUSTOM_RARE',
            'no free device',
            {'resources1:CUSTOM_RARE': '1', 'trait1:OWNER_NOVA': 'required'},
            CLOUD,
        )

    def test_trait_without_offer_is_reported(self):
        self.assert_found(
            'error',
            'trait1:CUSTOM_NOWHERE',
            'no device with this trait',
            {**GOOD, 'trait1:CUSTOM_NOWHERE': 'required'},
            CLOUD,
        )

    def test_unknown_trait_value_is_an_error(self):
        self.assert_found(
            'error',
            f'trait1:{VENDOR}',
            "'require' is not a value",
            {**GOOD, f'trait1:{VENDOR}': 'require'},
        )

    def test_traits_without_common_device_are_a_warning(self):
        offers = flavor_lint.DeviceOffers(
            frozenset({'CUSTOM_GPU', 'CUSTOM_NVME'}),
            traits=frozenset({VENDOR}),
            devices=(GPU,),
        )
        self.assert_found(
            'warning',
            'resources1:CUSTOM_NVME',
            'no device of this host',
            {
                'resources1:CUSTOM_NVME': '1',
                f'trait1:{VENDOR}': 'required',
                'trait1:OWNER_NOVA': 'required',
            },
            offers,
        )

    def test_device_in_unnumbered_group_is_a_warning(self):
        finding = self.assert_found(
            'warning',
            'resources:CUSTOM_GPU',
            'the group has no number',
            {'resources:CUSTOM_GPU': '1'},
        )
        self.assertIn('resources1:CUSTOM_GPU=1', finding.hint)

    def test_flavor_with_4_equal_groups_for_32_devices_is_warned_of(self):
        offers = flavor_lint.DeviceOffers(
            frozenset({'CUSTOM_GPU'}), devices=(GPU,) * 32
        )
        finding = self.assert_found(
            'warning',
            'resources*:CUSTOM_GPU',
            '4 equal groups and 32 devices that fit on one host take '
            'Placement about 93 s',
            many(4),
            offers,
        )
        for option in (
            'max_allocation_candidates',
            'breadth-first',
            'optimize_for_wide_provider_trees',
        ):
            self.assertIn(option, finding.hint)

    def test_flavor_with_few_groups_or_devices_has_no_finding(self):
        offers = flavor_lint.DeviceOffers(
            frozenset({'CUSTOM_GPU'}), devices=(GPU,) * 32
        )
        self.assertEqual((), flavor_lint.lint_flavor(many(2), offers))
        self.assertEqual((), flavor_lint.lint_flavor(many(4), CLOUD))

    def test_flavor_with_3_equal_groups_for_unknown_devices_is_warned_of(self):
        self.assertEqual((), flavor_lint.lint_flavor(many(2), FILE))
        self.assert_found(
            'warning',
            'resources*:CUSTOM_GPU',
            '3 equal groups take Placement about 29 minutes for each server, '
            'if a host has 256 such devices',
            many(3),
        )

    def test_flavor_with_3_equal_groups_for_256_devices_is_warned_of(self):
        offers = flavor_lint.DeviceOffers(
            frozenset({'CUSTOM_GPU'}), devices=(GPU,) * 256
        )
        self.assert_found(
            'warning',
            'resources*:CUSTOM_GPU',
            '256 devices that fit on one host take Placement about 29 min',
            many(3),
            offers,
        )

    def test_errors_come_before_warnings(self):
        found = flavor_lint.lint_flavor(
            {
                'resources1:CUSTOM_GPU': '1',
                'traits1:CUSTOM_X': 'required',
                'resources2:CUSTOM_GPU': '3',
            },
            FILE,
        )
        severities = [str(f.severity) for f in found]
        self.assertEqual(sorted(severities), severities)
        self.assertEqual({'error', 'warning'}, set(severities))


class PlacementCostTest(unittest.TestCase):
    def test_estimate_agrees_with_measured_times(self):
        # Measured with real Placement: 93 s and 26 s.
        self.assertEqual(93, flavor_lint.estimate_seconds(4, 32))
        self.assertEqual(27, flavor_lint.estimate_seconds(3, 64))
        self.assertEqual(0, flavor_lint.estimate_seconds(4, 3))

    def test_groups_of_different_kinds_are_counted_apart(self):
        specs = {
            **many(2),
            'resources9:PGPU': '1',
            'trait9:OWNER_NOVA': 'required',
        }
        self.assertEqual((), flavor_lint.lint_flavor(specs, FILE))

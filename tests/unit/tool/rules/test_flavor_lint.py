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

import dataclasses
import unittest

from nova_powervm.devices import policy as policies
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
    def assert_none(self, specs, offers=FILE):
        self.assertEqual((), flavor_lint.lint_flavor(specs, offers))

    def assert_found(self, severity, key, words, specs, offers=FILE):
        (finding,) = flavor_lint.lint_flavor(specs, offers)
        self.assertEqual((severity, key), (str(finding.severity), finding.key))
        self.assertIn(words, finding.problem)
        return finding

    def test_valid_flavor_has_no_finding(self):
        for specs, offers in (
            (GOOD, FILE),
            (GOOD, CLOUD),
            (many(2), CLOUD),
            ({'accel:device_profile': 'gpu'}, FILE),
            # Without devices
            ({}, CLOUD),
            ({'hw:cpu_policy': 'shared'}, CLOUD),
            ({'trait:HW_CPU_X86_AVX2': 'required'}, CLOUD),
            (
                {'resources:VCPU': '0', 'resources:CUSTOM_BAREMETAL': '1'},
                CLOUD,
            ),
            ({'resources_NIC:NET_BW_EGR_KILOBIT_PER_SEC': '2000'}, CLOUD),
        ):
            with self.subTest(specs):
                self.assert_none(specs, offers)

    def test_class_of_one_time_use_devices_is_noted(self):
        policy = policies.Policy(
            (
                policies.Paragraph(
                    'gpu',
                    {'vendor_id': '10DE'},
                    'CUSTOM_GPU',
                    one_time_use=True,
                ),
            )
        )
        self.assert_found(
            'note',
            'resources1:CUSTOM_GPU',
            'each build, move and unshelve',
            GOOD,
            flavor_lint.offers_of_file(policy),
        )

    def test_location_that_is_not_published_is_named(self):
        place = 'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C2'
        key = f'trait1:{place}'
        there = dataclasses.replace(
            CLOUD,
            traits=CLOUD.traits | {place},
            devices=(dataclasses.replace(GPU, traits=GPU.traits | {place}),),
        )
        hidden = {'publishes_locations': False}
        specs = {**GOOD, key: 'required'}
        self.assert_none(specs, there)
        for severity, value, offers, words in (
            ('error', 'required', CLOUD, 'no device with this trait'),
            ('warning', 'required', there, 'does not publish locations'),
            ('warning', 'required', FILE, 'does not publish locations'),
            ('warning', 'forbidden', CLOUD, 'does not publish locations'),
        ):
            found = self.assert_found(
                *(severity, key, words, {**GOOD, key: value}),
                dataclasses.replace(offers, **hidden),
            )
            self.assertIn('DRC_INDEX_', found.hint)
        # Another host may have switched it off.
        found = self.assert_found(
            'error', key, 'no device with this trait', specs, CLOUD
        )
        self.assertIn('publish_location_traits', found.hint)

    def test_misspelled_key_is_an_error(self):
        right = f'trait1:{VENDOR}'
        product = 'trait1:CUSTOM_POWERVM_IOSLOT_PRODUCT_ID_1DB6'
        profile = {'accel:device_profile_name': 'gpu'}
        for key, words, specs, hint in (
            (
                f'traits1:{VENDOR}',
                "group named 's1'",
                {**GOOD, f'traits1:{VENDOR}': 'required'},
                f'write {right}',
            ),
            (
                'resource1:CUSTOM_GPU',
                'nothing at all',
                {'resource1:CUSTOM_GPU': '1'},
                'write resources1:CUSTOM_GPU',
            ),
            (
                product,
                'DEVICE_ID',
                {**GOOD, product: 'required'},
                'trait1:CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6=required',
            ),
            (
                'accel:device-profile',
                'no accelerator is attached',
                {'accel:device-profile': 'gpu'},
                'write accel:device_profile=gpu',
            ),
            (
                'accel:device_profile_name',
                'no accelerator is attached',
                profile,
                'write accel:device_profile=gpu',
            ),
        ):
            with self.subTest(key):
                offers = CLOUD if key == product else FILE
                found = self.assert_found('error', key, words, specs, offers)
                self.assertIn(hint, found.hint)

    def test_wrong_value_is_an_error(self):
        without_policy = many(2)
        del without_policy['group_policy']
        vendor, gpu = f'trait1:{VENDOR}', 'resources1:CUSTOM_GPU'
        nowhere = 'trait1:CUSTOM_NOWHERE'
        for key, words, specs, offers, hint in (
            ('group_policy', 'missing', without_policy, FILE, ''),
            (
                'group_policy',
                "'isolated' is not a policy",
                {**many(2), 'group_policy': 'isolated'},
                FILE,
                '',
            ),
            (
                gpu,
                'each slot is a provider with one unit',
                {**GOOD, gpu: '2'},
                FILE,
                'write 2 groups',
            ),
            (
                vendor,
                "'require' is not a value",
                {**GOOD, vendor: 'require'},
                FILE,
                '',
            ),
            (
                nowhere,
                'no device with this trait',
                {**GOOD, nowhere: 'required'},
                CLOUD,
                '',
            ),
        ):
            with self.subTest(words):
                found = self.assert_found('error', key, words, specs, offers)
                self.assertIn(hint, found.hint)

    def test_extra_spec_refused_by_the_driver_is_reported(self):
        specs = {'hw:cpu_policy': 'dedicated'}
        words = "'dedicated' is refused: LPARs share the host's"
        for others, severity in (({}, 'warning'), (GOOD, 'error')):
            finding = self.assert_found(
                severity, 'hw:cpu_policy', words, {**others, **specs}
            )
            self.assertIn('remove it', finding.hint)

    def test_missing_owner_trait_or_group_number_is_a_warning(self):
        specs = {k: v for k, v in GOOD.items() if 'OWNER' not in k}
        owner = 'trait1:OWNER_NOVA'
        finding = self.assert_found('warning', owner, 'missing', specs)
        self.assertEqual(f'add {owner}=required', finding.hint)
        finding = self.assert_found(
            'warning',
            'resources:CUSTOM_GPU',
            'the group has no number',
            {'resources:CUSTOM_GPU': '1'},
        )
        self.assertIn('resources1:CUSTOM_GPU=1', finding.hint)

    def test_class_without_offer_is_reported(self):
        owner = {'trait1:OWNER_NOVA': 'required'}
        nvme = flavor_lint.DeviceOffers(
            frozenset({'CUSTOM_GPU', 'CUSTOM_NVME'}),
            traits=frozenset({VENDOR}),
            devices=(GPU,),
        )
        nowhere = 'offers no device of class CUSTOM_GPUS'
        for name, severity, words, more, offers, hint in (
            ('GPUS', 'warning', nowhere, {}, FILE, 'CUSTOM_GPU'),
            ('GPUS', 'error', nowhere, {}, CLOUD, 'CUSTOM_GPU'),
            ('RARE', 'warning', 'no free device', {}, CLOUD, ''),
            # No device has the class and the trait.
            (
                'NVME',
                'warning',
                'no device of this host',
                {f'trait1:{VENDOR}': 'required'},
                nvme,
                '',
            ),
        ):
            with self.subTest(name, severity=severity):
                key = f'resources1:CUSTOM_{name}'
                finding = self.assert_found(
                    severity, key, words, {key: '1', **owner, **more}, offers
                )
                self.assertIn(hint, finding.hint)

    def test_flavor_with_many_equal_groups_is_warned_of(self):
        begin = 'devices that fit on'
        for groups, devices, hosts, words in (
            (2, 0, 0, None),
            (2, 32, 0, None),
            (4, 4, 0, None),
            (3, 16, 1, None),
            (2, 8, 100, None),
            (
                4,
                32,
                0,
                f'4 equal groups and 32 {begin} one host take Placement '
                'about 58 s and 1.6 GB for each server',
            ),
            (3, 256, 0, f'256 {begin} one host take Placement about 9 min'),
            # Measured: 11 s and 610 MB
            (
                3,
                16,
                100,
                f'3 equal groups and 16 {begin} each of 100 hosts take '
                'Placement about 11 s and 605 MB for each server',
            ),
            # This host has none.
            (3, 0, 100, f'99 {begin} each of 100 hosts'),
            (8, 256, 0, 'Placement many hours and all memory for each'),
            (
                3,
                0,
                0,
                '3 equal groups take Placement about 9 minutes and 30 GB for '
                'each server and each host with 256 such devices; --cloud',
            ),
        ):
            with self.subTest(groups=groups, devices=devices, hosts=hosts):
                most = devices or 100
                offers = flavor_lint.DeviceOffers(
                    frozenset({'CUSTOM_GPU'}),
                    devices=(GPU,) * devices or None,
                    # Some of them are in use, but will be free again.
                    free={GPU: (most - 1, *(1,) * (hosts - 1))}
                    if hosts
                    else {},
                )
                if words is None:
                    self.assert_none(many(groups), offers)
                    continue
                key = 'resources*:CUSTOM_GPU'
                found = self.assert_found(
                    'warning', key, words, many(groups), offers
                )
                for option in (
                    f'max_allocation_candidates = {"1000" if hosts else "8"}',
                    'breadth-first',
                    'optimize_for_wide_provider_trees',
                ):
                    self.assertIn(option, found.hint)

    def test_placement_options_grow_with_hosts(self):
        for hosts, most in ((1, 1000), (125, 1000), (1000, 8000)):
            self.assertEqual(most, flavor_lint.max_candidates(hosts))
        self.assertIn(
            '[scheduler]max_placement_results = 8000',
            flavor_lint.describe_options(1000),
        )

    def test_errors_come_before_warnings(self):
        specs = {
            'resources1:CUSTOM_GPU': '1',
            'traits1:CUSTOM_X': 'required',
            'resources2:CUSTOM_GPU': '3',
        }
        found = flavor_lint.lint_flavor(specs, FILE)
        severities = [str(f.severity) for f in found]
        self.assertEqual(sorted(severities), severities)
        self.assertEqual({'error', 'warning'}, set(severities))


class PlacementCostTest(unittest.TestCase):
    def test_estimate_has_order_of_measured_costs(self):
        # Measured with real Placement by "tests.benchmark scale": hosts,
        # equal devices, groups, seconds of the processor, MB
        for hosts, devices, groups, seconds, megabytes in (
            (1, 32, 4, 76, 1519),
            (1, 64, 3, 10, 366),
            (100, 16, 3, 11, 610),
            (1000, 16, 2, 7, 495),
            (1, 3, 4, 0, 0),
        ):
            cost = flavor_lint.Explosion(groups, devices, hosts)
            for found, measured in (
                (cost.seconds, seconds),
                (cost.megabytes, megabytes),
            ):
                self.assertLessEqual(found, 2 * measured)
                self.assertLessEqual(measured, 2 * found)

    def test_groups_of_different_kinds_are_counted_apart(self):
        specs = {
            **many(2),
            'resources9:PGPU': '1',
            'trait9:OWNER_NOVA': 'required',
        }
        self.assertEqual((), flavor_lint.lint_flavor(specs, FILE))

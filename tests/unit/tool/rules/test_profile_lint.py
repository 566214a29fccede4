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

from nova_powervm.devices import names
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import profile_lint

MODEL = 'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_0634'
MARK = f'trait:{names.CYBORG_TRAIT}'
NOVA = flavor_lint.DeviceOffers(
    frozenset({'CUSTOM_GPU'}), foreign=frozenset({'CUSTOM_CRYPTO'})
)
GOOD = {
    'resources:CUSTOM_CRYPTO': '1',
    MARK: 'required',
    f'trait:{MODEL}': 'required',
}
SLOT = cyborg_slots.Deployable(
    names.cyborg_provider_name('host1', 0x21010038),
    'uuid',
    'CUSTOM_CRYPTO',
    frozenset({MODEL, names.CYBORG_TRAIT}),
)
OTHER = cyborg_slots.Deployable('fake', 'uuid', 'FPGA')


def make_profile(*groups):
    return cyborg_slots.Profile('crypto', groups)


def make_offers(*groups):
    return profile_lint.make_offers(
        [make_profile(*(groups or (GOOD,)))], [SLOT, OTHER]
    )


class ProfileTest(unittest.TestCase):
    def lint(self, *groups):
        return profile_lint.lint_profile(
            make_profile(*groups), NOVA, make_offers()
        )

    def assert_found(self, severity, words, *groups):
        finding = self.lint(*groups)[0]
        self.assertEqual(severity, str(finding.severity))
        self.assertIn(words, finding.problem)
        self.assertTrue(finding.hint)
        return finding

    def test_good_profile_and_that_of_another_driver_have_no_finding(self):
        self.assertEqual((), self.lint(GOOD, GOOD))
        self.assertEqual((), self.lint({'resources:FPGA': '2'}))

    def test_profile_without_mark_is_reported_by_owner_of_class(self):
        words = 'Nova has devices of class CUSTOM_GPU'
        group = {'resources:CUSTOM_GPU': '1'}
        finding = self.assert_found('error', words, GOOD, group)
        self.assertEqual(f'groups[1]: {MARK}', finding.key)
        for value in (None, 'forbidden'):
            group = {'resources:CUSTOM_CRYPTO': '1', MARK: value}
            self.assert_found('warning', 'slot that is withheld', group)

    def test_group_for_more_than_one_slot_is_an_error(self):
        for amount in ('2', '0', 2):
            group = {**GOOD, 'resources:CUSTOM_CRYPTO': amount}
            finding = self.assert_found(
                'error', f'{amount} instead of 1', group
            )
            self.assertIn('several groups', finding.hint)
        group = {**GOOD, 'resources:CUSTOM_X': '1'}
        self.assert_found('error', 'of one provider', group)

    def test_request_that_no_slot_meets_is_a_warning(self):
        words = 'has this class and all of these traits'
        for change in (
            {'resources:CUSTOM_CRYPTO': '1', 'trait:CUSTOM_X': 'required'},
            {'resources:CUSTOM_RARE': '1'},
        ):
            group = {MARK: 'required', **change}
            finding = self.assert_found('warning', words, group)
            self.assertIn('CUSTOM_CRYPTO', finding.hint)


class FlavorTest(unittest.TestCase):
    def lint(self, specs, *groups):
        return profile_lint.lint_flavor(specs, NOVA, make_offers(*groups))

    def assert_found(self, key, words, specs, *groups):
        (finding,) = self.lint(specs, *groups)
        self.assertEqual('error', str(finding.severity))
        self.assertEqual(key, finding.key)
        self.assertIn(words, finding.problem)
        return finding

    def test_good_flavor_has_no_finding(self):
        named = {'accel:device_profile': 'crypto'}
        gpu = {'resources1:CUSTOM_GPU': '1', 'group_policy': 'none'}
        for specs in ({}, named, {**named, **gpu}):
            self.assertEqual((), self.lint(specs))

    def test_unknown_profile_or_misspelled_key_is_an_error(self):
        right = 'accel:device_profile'
        words = "no device profile 'crypt'"
        finding = self.assert_found(right, words, {right: 'crypt'})
        self.assertEqual('there are: crypto', finding.hint)
        for key in (
            'device_profile',
            'device-profile',
            'accel_device_profile',
            'accelerator:device_profile',
            'device_profile_name',
        ):
            finding = self.assert_found(key, 'ignores it', {key: 'crypto'})
            self.assertEqual(f'write {right}=crypto', finding.hint)

    def test_groups_of_flavor_and_profile_together_need_a_policy(self):
        named = {'accel:device_profile': 'crypto'}
        for specs, groups in (
            ({**named, 'resources1:CUSTOM_GPU': '1'}, [GOOD]),
            (named, [GOOD, GOOD]),
        ):
            self.assert_found('group_policy', 'profile', specs, *groups)
        both = {'resources1:CUSTOM_GPU': '1', 'resources2:CUSTOM_GPU': '1'}
        # flavor_lint reports it already.
        self.assertEqual((), self.lint({**named, **both}))

    def test_slot_of_cyborgs_without_profile_is_an_error(self):
        mark = f'trait1:{names.CYBORG_TRAIT}'
        for specs, key in (
            ({'resources1:CUSTOM_X': '1', mark: 'required'}, mark),
            ({'resources1:CUSTOM_CRYPTO': '1'}, 'resources1:CUSTOM_CRYPTO'),
        ):
            self.assert_found(key, 'without a device profile', specs)

    def test_missing_owner_is_an_error_for_a_class_of_cyborgs(self):
        specs = {'resources1:CUSTOM_GPU': '1'}
        for cyborgs, severity in ((set(), 'warning'), (specs, 'error')):
            (finding,) = flavor_lint.lint_flavor(
                specs,
                flavor_lint.DeviceOffers(
                    NOVA.classes,
                    cyborgs=frozenset({'CUSTOM_GPU'} if cyborgs else ()),
                ),
            )
            self.assertEqual(severity, str(finding.severity))
            self.assertEqual('trait1:OWNER_NOVA', finding.key)

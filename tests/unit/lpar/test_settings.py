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

"""Which settings an LPAR gets."""

import dataclasses
import unittest

import ddt

from nova_powervm.lpar import settings

FLAVOR = settings.FlavorSettings(1024, 2, 0.5)
PLAIN = settings.decide_settings(FLAVOR, {})
DEDICATED = settings.decide_settings(FLAVOR, {'dedicated_proc': True})


def decide(named=(), present=None, others=(), **changes):
    """Decide the settings of an LPAR."""
    return settings.decide_settings(
        dataclasses.replace(FLAVOR, **changes), dict(named), present, others
    )


@ddt.ddt
class DecisionTest(unittest.TestCase):
    def assert_settings(self, decided, **expected):
        """Assert some settings; the others are those of the flavor alone."""
        self.assertEqual(dataclasses.replace(PLAIN, **expected), decided)

    def test_flavor_alone_gives_shared_uncapped_processors(self):
        self.assertEqual(
            settings.Settings(
                memory_mb=1024,
                min_mem=1024,
                max_mem=1024,
                vcpus=2,
                min_vcpu=2,
                max_vcpu=2,
                proc_units=1.0,
                min_proc_units=1.0,
                max_proc_units=1.0,
                uncapped=True,
                shared_weight=64,
            ),
            PLAIN,
        )

    @ddt.named_data(
        ['memory', {'min_mem': 512, 'max_mem': 4096}, {}],
        ['weight', {'shared_weight': 7}, {}],
        ['other', {'secure_boot': 2, 'srr_capability': True}, {}],
        ['mode', {'processor_compatibility': 'POWER8'}, {}],
        [
            'units',
            {'proc_units': 0.3},
            {'min_proc_units': 0.3, 'max_proc_units': 0.3},
        ],
        [
            'number',
            {'min_vcpu': 1, 'max_vcpu': 8},
            {'min_proc_units': 0.5, 'max_proc_units': 4.0},
        ],
        ['least', {'min_proc_units': 1.5}, {'proc_units': 1.5}],
        ['most', {'max_proc_units': 0.4}, {'proc_units': 0.4}],
        ['capped', {'uncapped': False}, {'shared_weight': None}],
    )
    def test_named_setting_and_what_follows_from_it_are_taken(
        self, named, following
    ):
        decided = decide(named)

        if 'min_proc_units' in named:
            following['max_proc_units'] = 1.5
        elif 'max_proc_units' in named:
            following['min_proc_units'] = 0.4
        self.assert_settings(decided, **named, **following)

    def test_dedicated_processors_have_no_units(self):
        self.assert_settings(
            DEDICATED,
            dedicated_proc=True,
            proc_units=None,
            min_proc_units=None,
            max_proc_units=None,
            uncapped=None,
            shared_weight=None,
            dedicated_sharing_mode='sre idle proces',
        )
        self.assertEqual(2.0, DEDICATED.processors)

    @ddt.named_data(
        ['weight', {'shared_weight': 7}],
        ['capped', {'uncapped': False, 'shared_weight': None}],
        ['limits', {'min_mem': 512, 'max_mem': 4096, 'max_vcpu': 9}],
        ['units', {'max_proc_units': 1.75}],
        ['others', {'secure_boot': 1, 'srr_capability': True}],
        ['mode', {'processor_compatibility': 'POWER8'}],
    )
    def test_setting_that_somebody_changed_stays(self, changed):
        present = dataclasses.replace(PLAIN, **changed)

        self.assertEqual(present, decide(present=present))

    def test_dedicated_processors_that_somebody_gave_stay(self):
        self.assertEqual(DEDICATED, decide(present=DEDICATED))

    @ddt.data({'proc_units': 0.5}, {'dedicated_proc': False}, {'uncapped': 1})
    def test_flavor_that_means_shared_processors_gets_them(self, named):
        decided = decide(named, DEDICATED)

        self.assertFalse(decided.dedicated_proc)
        self.assertEqual(64, decided.shared_weight)

    def test_setting_that_the_flavor_names_is_changed_back(self):
        present = dataclasses.replace(PLAIN, shared_weight=7)

        self.assert_settings(
            decide({'shared_weight': 9}, present), shared_weight=9
        )

    def test_setting_of_the_former_flavor_goes(self):
        former = decide(
            {'shared_weight': 7, 'max_mem': 4096, 'min_proc_units': 1.5}
        )

        self.assert_settings(decide(present=former, others=[former]))

    def test_setting_that_differs_from_both_flavors_stays(self):
        former = decide({'shared_weight': 7})
        present = dataclasses.replace(former, shared_weight=8)

        self.assertEqual(present, decide(present=present, others=[former]))

    def test_processing_units_stay_with_the_number_of_processors(self):
        present = dataclasses.replace(
            PLAIN, proc_units=1.5, min_proc_units=1.5, max_proc_units=1.5
        )

        self.assertEqual(1.5, decide(present=present).proc_units)
        self.assertEqual(2.0, decide(present=present, vcpus=4).proc_units)

    def test_weight_does_not_uncap_what_somebody_has_capped(self):
        present = dataclasses.replace(
            PLAIN, uncapped=False, shared_weight=None
        )

        self.assertEqual(present, decide({'shared_weight': 7}, present))

    @ddt.named_data(
        ['none', {}, 2048, {'min_mem': 2048, 'max_mem': 2048}],
        ['wide', {'min_mem': 512, 'max_mem': 4096}, 2048, {}],
        ['exceeded', {'max_mem': 1536}, 2048, {'max_mem': 2048}],
        ['undercut', {'min_mem': 512}, 256, {'min_mem': 256}],
    )
    def test_limit_of_somebody_encloses_another_size(
        self, changed, memory_mb, limits
    ):
        present = dataclasses.replace(PLAIN, **changed)

        decided = decide(present=present, others=[PLAIN], memory_mb=memory_mb)

        expected = {'min_mem': memory_mb, 'max_mem': memory_mb}
        expected |= changed | limits
        self.assert_settings(decided, memory_mb=memory_mb, **expected)

    def test_differences_leave_out_what_only_the_other_kind_has(self):
        self.assertEqual(
            ['dedicated processors False instead of True'],
            PLAIN.differences(DEDICATED, PLAIN.changes(DEDICATED)),
        )

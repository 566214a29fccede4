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

"""The table of extra specs, and the checks of their values."""

import contextlib
import dataclasses
import unittest

import ddt
from oslo_utils import strutils
from pypowervm.wrappers import base_partition

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import operations
from nova_powervm.lpar import setting_checks
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec
from tests.unit.lpar import plan_values

HOST = host_values.ManagedSystem(
    's',
    'u',
    'm',
    memory_mb=65536,
    memory_free_mb=8192,
    memory_region_mb=256,
    proc_units=16.0,
    proc_units_free=4.0,
    min_units_per_vcpu=0.05,
    virtual=host_values.ProcessorLimits(64, 256),
    dedicated=host_values.ProcessorLimits(8, 16),
    compatibility_modes=('default', 'POWER7', 'POWER8'),
    has_remote_restart=True,
    has_secure_boot=True,
)


def keyed(named):
    """Return extra specs with the prefix of their keys."""
    return {f'powervm:{name}': value for name, value in named.items()}


def wanted(slots=(), memory_mb=1024, vcpus=2, factor=0.5, **named):
    """Describe an LPAR whose flavor has some extra specs."""
    return spec.Wanted(
        '',
        settings=settings.FlavorSettings(
            memory_mb, vcpus, factor, keyed(named)
        ),
        slots=tuple(map(plan_values.slot, slots)),
    )


def settle(host=HOST, present=None, **fields):
    """Decide and check settings."""
    return setting_checks.choose_settings(wanted(**fields), host, present)


@ddt.ddt
class TableTest(unittest.TestCase):
    def test_rows_are_the_settings(self):
        names = [row.name for row in extra_specs.SETTINGS]

        self.assertEqual({*settings.NAMES} - {'memory_mb', 'vcpus'}, {*names})
        self.assertEqual(len({*names}), len(names))

    def test_modes_are_those_of_pypowervm(self):
        self.assertEqual(
            base_partition.LPARCompat.ALL_VALUES, settings.COMPATIBILITY_MODES
        )

    def test_words_for_truth_are_those_of_nova(self):
        truth = extra_specs.Truth()
        for words, value in (
            (strutils.TRUE_STRINGS, True),
            (strutils.FALSE_STRINGS, False),
        ):
            for word in words:
                self.assertIs(value, truth.parse(word), word)

    @ddt.named_data(
        ['memory', 'min_mem', '512', 512],
        ['units', 'proc_units', '1', 1.0],
        ['hundredths', 'max_proc_units', '12.25', 12.25],
        ['truth', 'uncapped', 'No', False],
        ['mode', 'processor_compatibility', 'POWER6+', 'POWER6_Plus'],
        ['sharing', 'dedicated_sharing_mode', 'keep_idle_procs', None],
        ['weight', 'shared_weight', '0', 0],
    )
    def test_value_is_read(self, name, text, expected):
        named, objections = extra_specs.parse(keyed({name: text}))

        self.assertEqual({name: expected or named[name]}, named)
        self.assertEqual((), objections)

    @ddt.named_data(
        ['memory', 'max_mem', 'much', 'a whole number from 128 to 33554432'],
        ['units', 'proc_units', '0.001', 'at most two digits'],
        ['small', 'proc_units', '0.01', 'a number from 0.05 to 999.99'],
        ['truth', 'dedicated_proc', 'maybe', 'true or false'],
        ['weight', 'shared_weight', '256', 'a whole number from 0 to 255'],
        ['mode', 'processor_compatibility', 'POWER11', 'POWER9, POWER9_Enh'],
        ['misspelt', 'shared_wait', '7', 'did you mean powervm:shared_weight'],
        ['unknown', 'lmb', '7', 'there is no such extra spec'],
    )
    def test_wrong_value_or_key_is_refused_by_name(self, name, text, words):
        _, (objection,) = extra_specs.parse(keyed({name: text}))

        self.assertIn(words, objection.reason)
        with self.assertRaises(exception.ExtraSpecRefused) as caught:
            settle(**{name: text})
        self.assertIn(f'powervm:{name}={text}: ', str(caught.exception))

    def test_keys_of_others_are_no_business_of_the_table(self):
        self.assertEqual(({}, ()), extra_specs.parse({'hw:numa_nodes': '2'}))


@ddt.ddt
class ChecksTest(unittest.TestCase):
    @ddt.named_data(
        ['least memory', {'min_mem': '2048'}, 'not be above the memory, 1024'],
        ['most memory', {'max_mem': '512'}, 'not be below the memory, 1024'],
        ['least number', {'min_vcpu': '3'}, 'above the virtual processors, 2'],
        ['most', {'max_vcpu': '1'}, 'below the virtual processors, 2'],
        ['units', {'proc_units': '3'}, 'above the virtual processors, 2'],
        [
            'least units',
            {'proc_units': '1', 'min_proc_units': '1.5'},
            'above the processing units, 1',
        ],
        [
            'most units',
            {'proc_units': '1', 'max_proc_units': '0.5'},
            'below the processing units, 1',
        ],
        [
            'fewer',
            {'min_proc_units': '1.5', 'min_vcpu': '1'},
            'the minimum virtual',
        ],
        ['more', {'max_proc_units': '3'}, 'above the maximum virtual proc'],
        [
            'both',
            {'dedicated_proc': 'true', 'proc_units': '1'},
            'it is for shared processors',
        ],
        [
            'weight of dedicated',
            {'dedicated_proc': 'true', 'shared_weight': '1'},
            'it is for shared processors',
        ],
        [
            'capped weight',
            {'uncapped': 'false', 'shared_weight': '1'},
            'only uncapped processors',
        ],
        [
            'sharing of shared',
            {'dedicated_sharing_mode': 'keep_idle_procs'},
            'add powervm:dedicated_proc=true',
        ],
        [
            'restart with devices',
            {'srr_capability': 'true', 'slots': (plan_values.GPU,)},
            'with its devices',
        ],
    )
    def test_flavor_that_contradicts_itself_is_refused(self, fields, words):
        with self.assertRaises(exception.ExtraSpecRefused) as caught:
            settle(**fields)

        self.assertIn(words, str(caught.exception))
        self.assertFalse(caught.exception.elsewhere)

    @ddt.named_data(
        ['memory', {'max_mem': '1100'}, {}, 'region size, 256'],
        ['least', {'min_mem': '300'}, {}, 'region size, 256'],
        [
            'units',
            {'vcpus': 10, 'proc_units': '0.4'},
            {},
            '0.05 processing units for each of 10',
        ],
        [
            'least units',
            {'vcpus': 10, 'min_proc_units': '0.4'},
            {},
            '0.05 processing units for each of 10',
        ],
        [
            'most units',
            {'vcpus': 10, 'max_vcpu': '20', 'max_proc_units': '0.9'},
            {},
            '0.05 processing units for each of 20',
        ],
        [
            'mode',
            {'processor_compatibility': 'POWER10'},
            {},
            'only default, POWER7, POWER8',
        ],
        [
            'restart',
            {'srr_capability': '1'},
            {'has_remote_restart': False},
            'remote restart',
        ],
        [
            'secure',
            {'secure_boot': '2'},
            {'has_secure_boot': False},
            'not capable of secure boot',
        ],
        [
            'dedicated',
            {'dedicated_proc': '1'},
            {'has_dedicated_processors': False},
            'not capable of dedicated processors',
        ],
    )
    def test_host_without_support_refuses_extra_spec(
        self, fields, host, words
    ):
        with self.assertRaises(exception.ExtraSpecUnsupported) as caught:
            settle(dataclasses.replace(HOST, **host), **fields)

        self.assertIn(words, str(caught.exception))
        self.assertTrue(caught.exception.elsewhere)

    @ddt.named_data(
        ['nothing', {'srr_capability': '0', 'secure_boot': '0'}],
        ['shared', {'dedicated_proc': 'false'}],
    )
    def test_host_need_not_support_what_is_switched_off(self, fields):
        host = dataclasses.replace(
            HOST,
            has_remote_restart=False,
            has_secure_boot=False,
            has_dedicated_processors=False,
        )

        self.assertIsNotNone(settle(host, **fields))

    @ddt.named_data(
        ['between', 1000, '768 or 1024'],
        ['below the first', 100, '256'],
        ['one too many', 257, '256 or 512'],
    )
    def test_odd_memory_is_refused_with_suggestions(self, memory_mb, choices):
        with self.assertRaises(exception.MemorySizeRefused) as caught:
            settle(memory_mb=memory_mb)

        self.assertIn(
            f'nearest valid sizes are {choices} MiB', str(caught.exception)
        )

    def test_too_small_factor_is_refused(self):
        with self.assertRaises(exception.ProcessorsRefused) as caught:
            settle(vcpus=4, factor=0.04)

        self.assertEqual(
            {'vcpus': 4, 'factor': 0.04, 'units': 0.16, 'minimum': 0.05},
            caught.exception.fields,
        )

    @ddt.named_data(
        ['virtual', {'vcpus': 65}, 'up to 65 virtual processors'],
        ['growing', {'max_vcpu': '257'}, 'the host allows 256'],
        [
            'dedicated',
            {'vcpus': 9, 'dedicated_proc': 'true'},
            'up to 9 dedicated processors, but the host allows 8',
        ],
    )
    def test_more_processors_than_an_lpar_can_have_are_refused(
        self, fields, words
    ):
        with self.assertRaises(exception.TooManyProcessors) as caught:
            settle(**fields)

        self.assertIn(words, str(caught.exception))

    def test_only_what_changes_is_checked(self):
        named = {'shared_weight': '7', 'processor_compatibility': 'POWER8'}
        present = settle(max_vcpu='100', **named)
        strict = dataclasses.replace(
            HOST,
            memory_region_mb=512 * 3,
            virtual=host_values.ProcessorLimits(1, 1),
            compatibility_modes=('default',),
        )

        self.assertEqual(
            dataclasses.replace(present, shared_weight=9),
            settle(strict, present, **named | {'shared_weight': '9'}),
        )

    @ddt.named_data(
        ['AIX', 'aix', False, True],
        ['AIX where it runs', 'aix', True, False],
        ['Linux', 'rhel', False, False],
        ['not said', '', False, False],
    )
    def test_host_without_aix_refuses_it(self, os_distro, has_aix, refused):
        host = dataclasses.replace(HOST, has_aix=has_aix)
        described = dataclasses.replace(wanted(), os_distro=os_distro)
        context = contextlib.nullcontext()
        if refused:
            context = self.assertRaises(exception.AixUnsupported)

        with context:
            setting_checks.choose_settings(described, host)

        if refused:
            self.assertTrue(context.exception.elsewhere)

    def test_lpar_that_is_there_may_run_aix(self):
        host = dataclasses.replace(HOST, has_aix=False)
        described = dataclasses.replace(wanted(), os_distro='aix')

        self.assertIsNotNone(
            setting_checks.choose_settings(described, host, settle())
        )

    def test_unknown_flavor_gives_no_settings(self):
        self.assertIsNone(
            setting_checks.choose_settings(spec.Wanted(''), HOST)
        )


@ddt.ddt
class RoomTest(unittest.TestCase):
    """Whether a host has what an LPAR takes; the hypervisor needs 512 MiB."""

    def check(self, held=None, free_mb=8192, free_units=4.0, **fields):
        """Check whether there is room; return what the host was asked."""
        host = dataclasses.replace(HOST, proc_units_free=free_units)
        parts = []

        def read(part):
            if isinstance(part, spec.Part):
                return host
            parts.append(part)
            return host_values.HypervisorMemory(512, free_mb)

        setting_checks.check_room(
            settle(**fields), held, spec.Actual(read, virtual_slots=64)
        )
        return parts

    def test_host_with_plenty_is_not_asked(self):
        self.assertEqual([], self.check(memory_mb=4096))

    def test_memory_of_hypervisor_counts(self):
        self.assertEqual(
            [spec.MemoryQuestion(7680, 7680)], self.check(memory_mb=7680)
        )
        with self.assertRaises(exception.InsufficientCapacity) as caught:
            self.check(memory_mb=7936)
        self.assertIn(
            'needs 8448 more MiB of memory, but the host has 8192 free',
            str(caught.exception),
        )

    @ddt.named_data(
        ['dedicated', {'vcpus': 5, 'dedicated_proc': 'true'}, '5'],
        ['shared', {'vcpus': 9, 'proc_units': '4.5'}, '4.5'],
    )
    def test_processors_must_be_free(self, fields, number):
        with self.assertRaises(exception.InsufficientCapacity) as caught:
            self.check(**fields)

        self.assertIn(
            f'{number} more processing units, but the host has 4 free',
            str(caught.exception),
        )

    def test_only_growth_of_an_lpar_needs_room(self):
        large = {'memory_mb': 16384, 'vcpus': 8, 'dedicated_proc': 'true'}
        held = settle(**large | {'memory_mb': 8192, 'vcpus': 4})

        self.assertEqual(2, len(self.check(held, **large)))
        self.assertEqual([], self.check(settle(**large), **large))
        with self.assertRaises(exception.InsufficientCapacity):
            self.check(**large)

    def test_lpar_starts_with_its_minimum(self):
        self.check(memory_mb=16384, min_mem='4096')
        self.check(vcpus=8, proc_units='8', min_proc_units='1')

    def test_hundredths_fit_exactly(self):
        # As floating point numbers, 1.1 - 1 is more than 0.1.
        held = settle(proc_units='1')

        self.check(held, free_units=0.1, proc_units='1.1')

    def test_rebuild_needs_what_a_stopped_lpar_does_not_hold(self):
        host = dataclasses.replace(HOST, proc_units_free=0.0)
        for state, error in (
            (plan_values.RUNNING, type(None)),
            (plan_values.OFF, exception.InsufficientCapacity),
        ):
            with self.subTest(state=state):
                made, _ = plan_values.survey(
                    operations.SPAWN.as_check(),
                    plan_values.wanted(slots=()),
                    plan_values.parts(
                        plan_values.lpar(state), rules=host, slots=host
                    ),
                )

                self.assertIsInstance(made.refusal, error)

    def test_host_that_does_not_tell_its_memory_decides_itself(self):
        self.assertEqual(1, len(self.check(free_mb=None, memory_mb=65536)))

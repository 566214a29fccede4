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

"""Capacity of a managed system."""

import unittest

import ddt

from nova_powervm.devices import host_values
from tests import proofs
from tests.unit.devices.values import managed_system
from tests.unit.devices.values import slot


@ddt.ddt
class HostViewTest(unittest.TestCase):
    @ddt.named_data(
        ['some used', 16.0, 12.5, 16, 4],
        ['nothing used', 16.0, 16.0, 16, 0],
        ['a hundredth used', 16.0, 15.99, 16, 1],
        ['part of a processor', 7.75, 7.75, 7, 0],
        ['noise of floats', 0.3, 0.1 + 0.2 - 1e-15, 0, 0],
    )
    def test_vcpus_and_vcpus_used_count_processors(
        self, units, free, vcpus, used
    ):
        seen = managed_system(proc_units=units, proc_units_free=free)
        self.assertEqual((vcpus, used), (seen.vcpus, seen.vcpus_used))

    def test_memory_used_excludes_free_memory(self):
        self.assertEqual(16384, managed_system().memory_used_mb)

    def test_slot_finds_slot_by_drc_index(self):
        first, second = slot(drc_index=1), slot(drc_index=2)
        seen = managed_system(io_slots=(first, second))
        self.assertEqual(second, seen.slot(2))
        self.assertIsNone(seen.slot(3))

    @proofs.proves('operation.report-cpu-traits')
    @ddt.named_data(
        ['nothing reported', '', ''],
        ['no mode of a generation', 'default', ''],
        ['big endian only', 'default POWER6 POWER6_Plus POWER7', 'ARCH_PPC64'],
        [
            'older than POWER9',
            'default POWER7 POWER8',
            'ARCH_PPC64 ARCH_PPC64LE CPU_PPC64LE_POWER8',
        ],
        [
            'POWER9',
            'default POWER8 POWER9_Base POWER9',
            'ARCH_PPC64 ARCH_PPC64LE CPU_PPC64LE_POWER8 CPU_PPC64LE_POWER9',
        ],
        ['newer than os-traits', 'POWER10 POWER11', 'ARCH_PPC64 ARCH_PPC64LE'],
    )
    def test_cpu_traits_follow_compatibility_modes(self, modes, traits):
        seen = managed_system(compatibility_modes=tuple(modes.split()))
        self.assertEqual(
            {f'HW_{trait}' for trait in traits.split()}, seen.cpu_traits
        )


@ddt.ddt
class OvercommitmentTest(unittest.TestCase):
    @ddt.named_data(
        ['exactly full', 16.0, 0.5, 2.0],
        ['whole processors', 16.0, 1.0, 1.0],
        ['no processors', 0.5, 1.0, 16.0],
        ['rest of a processor', 16.8, 0.1, 10.5],
    )
    def test_overcommitment_is_none_if_units_suffice(
        self, units, factor, ratio
    ):
        self.assertIsNone(
            host_values.overcommitment(
                managed_system(proc_units=units), factor, ratio
            )
        )

    @ddt.named_data(
        ["nova's default", 16.0, 0.5, 4.0, '32.0', '2.0'],
        ['just too much', 16.0, 1.0, 1.01, '16.16', '1.0'],
        ['small units', 10.0, 0.3, 4.0, '12.0', '3.33'],
    )
    def test_overcommitment_suggests_allocation_ratio(
        self, units, factor, ratio, promised, fitting
    ):
        text = host_values.overcommitment(
            managed_system(proc_units=units), factor, ratio
        )
        self.assertIn(f'promise {promised} processing units', text)
        self.assertIn(f'has {units}', text)
        self.assertIn(f'cpu_allocation_ratio to {fitting} or', text)

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

"""Burns: just before the write of the LPAR, and only if all can be told."""

import dataclasses
import unittest

from emulator.tests import base as emulator_base
from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import claiming
from tests import proofs
from tests.ops import base

SPAWN = operations.SPAWN


class BurnOrderTest(base.HostTestCase):
    """The place of the burn among the requests of an operation."""

    def setUp(self):
        super().setUp()
        self.slots = tuple(
            base.slot(index, one_time_use=True)
            for index in (base.GPU, base.GPU2)
        )

    def last_before(self, number, name):
        """Return what comes before something in the trail."""
        trail = self.trail()
        place = trail.index(name)
        return trail[place - number : place + 1]

    @proofs.proves('O16', 'O17', 'O18', 'O19', 'O39')
    def test_spawn_looks_and_burns_directly_before_it_creates(self):
        self.spawn(slots=self.slots[:1])

        self.assertEqual(
            [
                'GET ManagedSystem.read',
                'burn 21010020',
                'PUT LogicalPartition.create',
            ],
            self.last_before(2, 'PUT LogicalPartition.create'),
        )

    def test_devices_are_all_asked_for_before_the_first_is_burned(self):
        self.spawn(slots=self.slots)

        self.assertEqual(
            [
                f'GET {base.provider(base.GPU)}',
                f'GET {base.provider(base.GPU2)}',
                'burn 21010020',
                'burn 21010021',
                'PUT LogicalPartition.create',
            ],
            self.last_before(4, 'PUT LogicalPartition.create'),
        )
        self.assertEqual(1, self.trail().count('GET allocations'))

    @proofs.proves('device.one-time-use')
    def test_change_looks_and_burns_directly_before_it_writes(self):
        wanted = self.spawn(slots=self.slots[:1])
        self.set_state(base.OFF)
        self.give(base.GPU, None)

        self.run_plan(operations.START, wanted)

        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET ManagedSystem.read',
                'burn 21010020',
                'POST LogicalPartition.update',
            ],
            self.last_before(3, 'POST LogicalPartition.update'),
        )

    def test_reusable_device_is_neither_looked_at_again_nor_burned(self):
        self.spawn(slots=(base.slot(base.GPU),))

        self.assertEqual([], [n for n in self.trail() if 'burn' in n])
        self.assertNotIn('GET allocations', self.trail())
        self.assertEqual(set(), self.burned())

    def test_duplicates_of_one_device_are_burned_together(self):
        duplicate = dataclasses.replace(
            base.claim(base.GPU), provider_uuid=base.provider(base.GPU2)
        )
        both = spec.WantedSlot(
            base.claim(base.GPU), burns=(base.claim(base.GPU), duplicate)
        )

        self.spawn(slots=(both,))

        self.assertEqual({base.GPU, base.GPU2}, self.burned())

    def test_burn_that_fails_leaves_nothing_but_the_burn(self):
        self.placement.silent = {base.provider(base.GPU)}

        self.failed(
            exception.ClaimFailed,
            SPAWN,
            self.describe(slots=self.slots[:1]),
            '503',
        )

        self.assert_nothing_left()
        self.assertNotIn('PUT LogicalPartition.create', self.trail())

    def test_second_device_that_is_unknown_keeps_the_first_unburned(self):
        self.placement.silent = {base.provider(base.GPU2)}

        self.failed(
            exception.ClaimFailed, SPAWN, self.describe(slots=self.slots)
        )

        self.assertEqual(set(), self.burned())
        self.assert_nothing_left()

    def test_second_burn_that_fails_names_the_first_and_its_cure(self):
        plain = self.placement.burn

        def fail_second(uuid, classes):
            if uuid == base.provider(base.GPU2):
                self.placement.silent = {uuid}
            return plain(uuid, classes)

        self.placement.burn = fail_second

        self.failed(
            exception.ClaimFailed,
            SPAWN,
            self.describe(slots=self.slots),
            'The devices in the slots 21010020 are reserved by now',
            '`nova-powervm-inventory release 21010020`',
            '503',
        )

        self.assertEqual({base.GPU}, self.burned())
        self.assertNotIn('PUT LogicalPartition.create', self.trail())
        self.assert_nothing_left()

    def test_slot_taken_before_the_last_look_burns_nothing(self):
        wanted = self.describe(slots=self.slots)

        def image():
            self.give(base.GPU2, 'archive')
            self._others = self._state_of_others()
            yield base.DATA

        self.failed(exception.ClaimFailed, SPAWN, wanted, image=image)

        self.assertEqual(set(), self.burned())


class BurnTest(unittest.TestCase):
    """What is written to Placement, and what is said."""

    def setUp(self):
        super().setUp()
        self.calls = []
        self.placement = base.Placement(self.calls.append)
        self.ops = claiming.BurnOps(self.placement)
        self.claims = [base.claim(i) for i in emulator_base.GPUS]

    @proofs.proves('device.one-time-use')
    def test_burn_reserves_and_logs_device(self):
        with self.assertLogs(claiming.LOG.logger, 'INFO') as logs:
            self.ops.burn('i', self.claims[:1])

        self.assertIn(
            'Burned the one-time-use device in slot 21010020', logs.output[0]
        )
        self.assertEqual({base.provider(base.GPU)}, self.placement.burned)

    def test_burn_accepts_burned_device_silently(self):
        self.placement.burned = {base.provider(base.GPU)}

        with self.assertNoLogs(claiming.LOG.logger, 'INFO'):
            self.ops.burn('i', self.claims[:1])

        self.assertEqual(['burn 21010020'], self.calls)

    def test_single_device_costs_one_request(self):
        self.ops.burn('i', self.claims[:1])

        self.assertEqual(['burn 21010020'], self.calls)

    def test_devices_that_are_burned_are_asked_about_once(self):
        self.placement.burned = set(map(base.provider, emulator_base.GPUS))

        self.ops.burn('i', self.claims)

        self.assertEqual(
            [f'GET {base.provider(i)}' for i in emulator_base.GPUS], self.calls
        )

    def test_burn_fails_if_placement_does_not_answer(self):
        self.placement.silent = {base.provider(base.GPU)}

        with self.assertRaisesRegex(exception.ClaimFailed, '503') as caught:
            self.ops.burn('i', self.claims[:1])

        self.assertNotIn('by now', str(caught.exception))

    def test_fault_names_each_device_that_is_burned_by_now(self):
        last = claims.Claim('silent', 0x21FFFFFF)
        self.placement.is_burned = lambda *_: False
        self.placement.silent = {'silent'}

        with self.assertRaises(exception.ClaimFailed) as caught:
            self.ops.burn('i', [*self.claims[:2], last])

        self.assertIn('release 21010020 21010021`', str(caught.exception))

    def test_burn_of_nothing_asks_nothing(self):
        self.ops.burn('i', [])

        self.assertEqual([], self.calls)

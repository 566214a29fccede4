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

"""Kills the service at each change of an operation.

A kill at a reading leaves what the one after the change before it leaves.
Nothing is undone: the thread sends no further request, and another service
starts, which remembers nothing. What it finds hurts nobody, and one hard
reboot, or the build of the instance again, makes it right.
"""

import dataclasses
import re
import unittest.mock

from pypowervm import adapter as pvm_adapter

from nova_powervm.lpar import operations
from tests import proofs
from tests.ops import base
from tests.ops import test_faults


class Killed(BaseException):
    """The service ended here; no handler of an error sees this."""


class KillSweepTestCase(base.HostTestCase):
    """Runs an operation again and again, and kills it one change later."""

    operation = operations.SPAWN
    #: Whether :meth:`recover` leaves what :meth:`prepare` begins with.
    is_left_as_before = False
    #: The same of :meth:`tidy_up`.
    is_tidied_as_before = False

    def setUp(self):
        super().setUp()
        self.wanted = self.describe(
            slots=(
                base.slot(base.GPU, one_time_use=True),
                base.slot(base.GPU2),
            ),
            config_drive=True,
        )

    def prepare(self):
        """Have the host as it is before the operation."""

    def tidy_up(self):
        """Do what Nova does at once."""

    def recover(self):
        """Do what Nova or an operator does afterwards."""
        self.run_plan(operations.HARD_REBOOT, self.wanted)

    def sweep(self):
        """Kill the service before the first change, and after each.

        What is between two changes finds the host the same; return how many
        there are.
        """
        with self.subTest('before the first'):
            self.assertTrue(self.kill_at(0, after=False))
        number = 0
        is_killed = True
        while is_killed:
            is_killed = False
            with self.subTest(number=number):
                is_killed = self.kill_at(number, after=True)
            number += is_killed
        return number

    def kill_at(self, number, *, after):
        """Kill the service at a change; return whether it came that far."""
        if not self.is_left_as_before:
            self.begin()
        self.prepare()
        send = pvm_adapter.Session.request
        sent = 0

        def die(session, method, *args, **options):
            nonlocal sent
            sent += _leaves_something(method, args[0])
            if sent > number + 1 or (sent == number + 1 and not after):
                raise Killed
            answer = send(session, method, *args, **options)
            if sent == number + 1:
                raise Killed
            return answer

        is_done = True
        with unittest.mock.patch.object(
            pvm_adapter.Session, 'request', new=die
        ):
            try:
                self.run_plan(self.operation, self.wanted)
            except Killed:
                is_done = False
        self.start_service()
        self.assert_harmless()
        self.tidy_up()
        has_to_recover = (
            self.is_left_as_before and not self.is_tidied_as_before
        )
        if test_faults.ALL or has_to_recover or self.is_new():
            self.recover()
            self.assert_lpar(slots=[base.GPU, base.GPU2], disks='ri')
            self.assertIn(base.GPU, self.burned())
        return not is_done

    def assert_harmless(self):
        """Assert that a guest runs with all its slots only, and burned."""
        if self.lpar() is None:
            return
        if base.GPU in self.slots():
            self.assertIn(base.GPU, self.burned())
        if self.lpar()['state'] == base.RUNNING:
            self.assertEqual({base.GPU: True, base.GPU2: True}, self.slots())


class ArrivalKillTest(KillSweepTestCase):
    """An evacuation, whose disks another host has left in the pool."""

    disk_driver = 'ssp'
    operation = operations.ARRIVAL
    is_left_as_before = is_tidied_as_before = True

    def prepare(self):
        if 'r' not in self.stored():
            self.run_plan(operations.SPAWN, self.wanted)
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        self.placement.burned.clear()

    def tidy_up(self):
        """Nova has the LPAR removed."""
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        self.assertIsNone(self.lpar())

    def recover(self):
        """Nova evacuates the instance again."""
        self.run_plan(operations.ARRIVAL, self.wanted)

    def test_disks_survive_killed_arrival(self):
        self.assertGreater(self.sweep(), 6)


class HardRebootKillTest(KillSweepTestCase):
    """A hard reboot that gives back slots and adapters."""

    operation = operations.HARD_REBOOT
    is_left_as_before = True

    def prepare(self):
        if self.lpar() is None:
            self.run_plan(operations.SPAWN, self.wanted)
        self.set_state(base.OFF)
        for index in (base.GPU, base.GPU2):
            self.give(index, None)

    def test_hard_reboot_ends_killed_hard_reboot(self):
        self.assertGreater(self.sweep(), 1)


def _leaves_something(method, path):
    """Return whether a request leaves something that a later start finds.

    A kill after one that tidies up a job or an upload leaves less than the one
    after the change before it.
    """
    return method != 'GET' and not (
        method == 'DELETE' and re.search('/jobs/|/File/', path)
    )


if test_faults.ALL:
    # They differ from the others in what they may do, not in how.

    class StartKillTest(HardRebootKillTest):
        operation = operations.START

    class SoftRebootKillTest(HardRebootKillTest):
        operation = operations.SOFT_REBOOT

    class LostReturnKillTest(KillSweepTestCase):
        """A revert whose source has lost the LPAR."""

        disk_driver = 'ssp'
        operation = operations.RETURN

        def prepare(self):
            self.run_plan(operations.SPAWN, self.wanted)
            self.removals.destroy(base.INSTANCE, delete_disks=False)

        def test_hard_reboot_ends_killed_return(self):
            self.assertGreater(self.sweep(), 6)

    class AttachKillTest(KillSweepTestCase):
        operation = operations.ATTACH_PORT

        def prepare(self):
            self.run_plan(operations.SPAWN, self.wanted)
            self.set_state(base.OFF)
            self.networks.detach(self.wanted.lpar_uuid, base.PORT)

        def test_hard_reboot_ends_killed_attachment(self):
            self.assertGreater(self.sweep(), 0)

    class DestroyKillTest(KillSweepTestCase):
        def prepare(self):
            super().run_plan(operations.SPAWN, self.wanted)

        def run_plan(self, operation, wanted, **asked):
            self.removals.destroy(base.INSTANCE)

        def recover(self):
            """Nova deletes the server again; then it is built anew."""
            self.removals.destroy(base.INSTANCE)
            self.assert_nothing_left()
            super().run_plan(operations.SPAWN, self.wanted)

        def test_next_deletion_ends_killed_one(self):
            self.assertGreater(self.sweep(), 1)


class ResizeKillTest(KillSweepTestCase):
    """A resize within the host, to a flavor with one more device."""

    operation = operations.RESIZE

    def prepare(self):
        kept = self.wanted.slots[1:]
        self.run_plan(
            operations.SPAWN, dataclasses.replace(self.wanted, slots=kept)
        )
        self.set_state(base.OFF)

    def test_hard_reboot_ends_killed_resize(self):
        self.assertGreater(self.sweep(), 1)


class RescueKillTest(KillSweepTestCase):
    operation = operations.RESCUE
    is_left_as_before = True

    def prepare(self):
        if self.lpar() is None:
            self.run_plan(operations.SPAWN, self.wanted)

    def assert_harmless(self):
        super().assert_harmless()
        self.assertLessEqual({*'ri'}, set(self.stored()))

    def recover(self):
        super().recover()
        self.assertEqual([*'ir'], sorted(self.stored()))

    @proofs.proves('operation.rescue')
    def test_hard_reboot_ends_killed_rescue(self):
        self.assertGreater(self.sweep(), 5)


if test_faults.ALL:

    class UnrescueKillTest(RescueKillTest):
        operation = operations.UNRESCUE

        def prepare(self):
            super().prepare()
            self.run_plan(operations.RESCUE, self.wanted)

        def test_hard_reboot_ends_killed_rescue(self):
            self.assertGreater(self.sweep(), 3)

    class PoolRescueKillTest(RescueKillTest):
        disk_driver = 'ssp'

    class PoolUnrescueKillTest(UnrescueKillTest):
        disk_driver = 'ssp'

    class RescueStartKillTest(RescueKillTest):
        """The host boots, and Nova starts what was killed in a rescue."""

        def recover(self):
            self.set_state(base.OFF)
            self.run_plan(operations.START, self.wanted)
            self.assertEqual([*'ir'], sorted(self.stored()))


class DepartureKillTest(KillSweepTestCase):
    operation = operations.DEPARTURE

    def prepare(self):
        self.run_plan(operations.SPAWN, self.wanted)

    def test_hard_reboot_ends_killed_departure(self):
        self.assertGreater(self.sweep(), 0)

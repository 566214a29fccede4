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

"""What is done to an LPAR in each of its states."""

import contextlib
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import shared_ethernet
from nova_powervm.ops import instance_spec
from nova_powervm.ops import network
from nova_powervm.ops import power

INSTANCE = instance_spec.InstanceSpec('f0000000-0000-4000-8000-000000000001')
CHANGES = network.Changes(
    surplus=(shared_ethernet.Adapter('fa:16:3e:00:00:01', 100, 'ETHERNET0'),)
)
SLOT = partition.SlotAssignment(0x21010020)


class Host:
    """One LPAR, and what is done to it; its disks are in no pool."""

    pool = None

    def __init__(self, state, missing=()):
        self.state = state
        self.slots = missing
        self.done = []
        self.soft_ends_in = None
        self.changes = network.Changes()
        self.fails_at = None

    def find(self, uuid):
        return partition.Partition(uuid, 'vm1', self.state, 512, 1, 0.1, {})

    def find_missing(self, instance, lpar):
        return self.slots

    def assign_missing(self, instance, slots):
        self.done.append('give')
        return self.find(instance.lpar)

    @contextlib.contextmanager
    def compare_adapters(self, lpar, ports):
        yield self.changes

    def prepare_host(self, changes):
        self.do('prepare', changes)

    def apply_changes(self, lpar, changes):
        self.do('change', changes)

    def do(self, step, changes):
        """Note a step, if there is something to change, or fail at it."""
        if changes:
            self.done.append(step)
        if step == self.fails_at:
            raise exception.RestError(action=step, reason='a VIOS is busy')

    def power_on(self, lpar):
        self.done.append('on')

    def power_off(self, lpar, *, hard, timeout=0):
        self.done.append(f'off {"hard" if hard else f"soft {timeout}"}')
        if not hard and self.soft_ends_in:
            raise exception.RestError(action='it', reason='the time was up')

    def restart(self, lpar, *, hard, timeout=0):
        self.done.append(f'restart {"hard" if hard else f"soft {timeout}"}')
        if not hard and self.soft_ends_in:
            self.state = self.soft_ends_in
            raise exception.RestError(action='it', reason='the time was up')


def run(host, operation, **arguments):
    """Run an operation on a host; give what was done."""
    operations = power.PowerOps(host, host, host, host)
    getattr(operations, operation)(INSTANCE, **arguments)
    return host.done


@ddt.ddt
class StatesTest(unittest.TestCase):
    @ddt.named_data(
        ['off', 'not activated', ['on']],
        ['running', 'running', []],
        ['starting', 'starting', []],
        ['failed', 'error', ['off hard', 'on']],
    )
    def test_power_on_depends_on_state(self, state, expected):
        self.assertEqual(expected, run(Host(state), 'power_on'))

    @ddt.data('suspended', 'not available', 'Unknown', 'of tomorrow')
    def test_start_is_refused(self, state):
        host = Host(state)

        with self.assertRaises(exception.PartitionNotStartable) as caught:
            run(host, 'power_on')

        self.assertEqual([], host.done)
        self.assertIn(f'is in the state "{state}"', str(caught.exception))

    @ddt.named_data(
        ['off', 'not activated', ['on']],
        ['running', 'running', ['restart hard']],
        ['failed', 'error', ['off hard', 'on']],
        ['suspended', 'suspended', ['off hard', 'on']],
    )
    def test_hard_reboot_depends_on_state(self, state, expected):
        self.assertEqual(
            expected, run(Host(state), 'reboot', hard=True, timeout=60)
        )

    @ddt.named_data(
        ['off', 'not activated', ['on']],
        ['running', 'running', ['restart soft 60']],
        ['failed', 'error', ['off hard', 'on']],
        ['suspended', 'suspended', ['off hard', 'on']],
    )
    def test_soft_reboot_depends_on_state(self, state, expected):
        self.assertEqual(
            expected, run(Host(state), 'reboot', hard=False, timeout=60)
        )

    @ddt.data(True, False)
    def test_reboot_of_unavailable_lpar_is_refused(self, hard):
        host = Host('not available')
        with self.assertRaises(exception.PartitionNotStartable):
            run(host, 'reboot', hard=hard, timeout=60)
        self.assertEqual([], host.done)

    @ddt.named_data(
        ['running', 'running', ['off soft 60']],
        ['failed', 'error', ['off hard']],
        ['suspended', 'suspended', ['off hard']],
        ['not available', 'not available', ['off soft 60']],
        ['off', 'not activated', []],
    )
    def test_power_off_depends_on_state(self, state, expected):
        host = Host(state)
        power.PowerOps(host, host, host, host).power_off(INSTANCE.lpar, 60)
        self.assertEqual(expected, host.done)

    def test_reboot_gives_missing_slots_back_while_lpar_is_off(self):
        for state, hard, expected in (
            ('running', False, ['off soft 60', 'give', 'on']),
            ('error', False, ['off hard', 'give', 'on']),
            ('running', True, ['off hard', 'give', 'on']),
            ('error', True, ['off hard', 'give', 'on']),
            ('not activated', True, ['give', 'on']),
        ):
            with self.subTest(state, hard=hard):
                host = Host(state, missing=(SLOT,))
                self.assertEqual(
                    expected, run(host, 'reboot', hard=hard, timeout=60)
                )


class SoftRebootTest(unittest.TestCase):
    """A guest gets its time, and no more."""

    def reboot(self, ends_in, timeout=60, changes=None):
        host = Host('running')
        host.changes = changes or network.Changes()
        host.soft_ends_in = ends_in
        return run(host, 'reboot', hard=False, timeout=timeout)

    def test_reboot_restarts_hard_if_guest_keeps_running(self):
        self.assertEqual(
            ['restart soft 60', 'restart hard'], self.reboot('running')
        )

    def test_reboot_starts_guest_that_shut_down_late(self):
        self.assertEqual(
            ['restart soft 60', 'on'], self.reboot('not activated')
        )

    def test_reboot_changes_adapters_after_shutdown(self):
        self.assertEqual(
            ['prepare', 'off soft 60', 'change', 'on'],
            self.reboot(None, changes=CHANGES),
        )

    def test_reboot_with_changes_stops_hard_if_guest_keeps_running(self):
        self.assertEqual(
            ['prepare', 'off soft 60', 'off hard', 'change', 'on'],
            self.reboot('running', changes=CHANGES),
        )

    def test_reboot_with_zero_timeout_restarts_hard(self):
        self.assertEqual(['restart hard'], self.reboot('running', timeout=0))


@ddt.ddt
class FailingAdaptersTest(unittest.TestCase):
    """What runs does not end up off because adapters can't be changed."""

    @ddt.named_data(
        ['before the stop', 'running', 'prepare', ['prepare']],
        [
            'after the stop',
            'running',
            'change',
            ['prepare', 'off hard', 'change', 'on'],
        ],
        ['of what is off', 'not activated', 'change', ['prepare', 'change']],
    )
    def test_reboot_with_failing_change_leaves_lpar_in_its_state(
        self, state, step, expected
    ):
        host = Host(state)
        host.changes = CHANGES
        host.fails_at = step

        with self.assertRaises(exception.RestError) as caught:
            run(host, 'reboot', hard=True, timeout=60)

        self.assertIn('a VIOS is busy', str(caught.exception))
        self.assertEqual(expected, host.done)

    def test_failed_start_does_not_hide_first_error(self):
        host = Host('running')
        host.changes = CHANGES
        host.fails_at = 'change'

        def power_on(lpar):
            raise exception.RestError(action='on', reason='it is locked')

        host.power_on = power_on
        with (
            self.assertLogs(power.LOG.logger, 'ERROR') as logged,
            self.assertRaises(exception.RestError) as caught,
        ):
            run(host, 'reboot', hard=True, timeout=60)

        self.assertIn('a VIOS is busy', str(caught.exception))
        self.assertIn('stays off', logged.output[-1])

    def test_lpar_that_lacks_slot_stays_off(self):
        host = Host('running', [SLOT])
        host.changes = CHANGES
        host.fails_at = 'change'

        with self.assertRaises(exception.RestError):
            run(host, 'reboot', hard=True, timeout=60)

        self.assertEqual(['prepare', 'off hard', 'change'], host.done)

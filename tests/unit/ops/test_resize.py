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

"""What a resize and its revert do with an LPAR, and in which order."""

import unittest
from unittest import mock

import ddt

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import instance_spec
from nova_powervm.ops import resize

LPAR = '4B1C2D3E-0000-4000-8000-000000000001'
OLD = 0x21010020
NEW = 0x21010021
SWAP = storage.Disk(storage.SWAP, 0.5)
INSTANCE = instance_spec.InstanceSpec(
    LPAR.lower(), name='vm1', memory_mb=1024, vcpus=1, blanks=(SWAP,)
)
SILENT = exception.RestSilent(server='it', reason='no answer')
REFUSED = exception.RestError(action='it', reason='HTTP 500')


class Host:
    """One LPAR with a slot and a swap disk, and what is done to it."""

    def __init__(self, state='not activated'):
        self.done = []
        self.lpar = self.made(512, OLD, state=state)
        self.swap = SWAP
        # What the change of the LPAR raises, before it or after it.
        self.before = self.after = None
        # What the host makes of the change.
        self.result = None
        self.fails_at = None

    @staticmethod
    def made(memory_mb, *slots, state='not activated'):
        return partition.Partition(
            LPAR, 'vm1', state, memory_mb, 1, 0.5, dict.fromkeys(slots, True)
        )

    def do(self, step):
        self.done.append(step)
        if step == self.fails_at:
            raise REFUSED

    # Partitions

    def find(self, uuid):
        return self.lpar

    def power_off(self, lpar, *, hard, timeout=0):
        self.do('off hard' if hard else f'off soft {timeout}')
        self.lpar = self.made(lpar.memory_mb, *lpar.slots)

    def reshape(self, spec, before_change):
        before_change()
        self.do('change')
        if self.before:
            raise self.before
        self.lpar = self.result or self.made(spec.memory_mb, *spec.drc_indexes)
        if self.after:
            raise self.after
        return self.lpar

    # Claims

    def claim(self, *arguments):
        return (claims.Claim('new', NEW),)

    def stored_claims(self, *arguments):
        return (claims.Claim('new', NEW),)

    def check_allocated(self, instance, wanted):
        self.do(f'verify {[hex(claim.drc_index) for claim in wanted]}')

    def burn(self, instance, wanted):
        self.do('burn')

    # The host, slots and specifications

    def view(self):
        return None

    def refuse_additional(self, instance, lpar, wanted):
        if self.fails_at == 'slots':
            raise REFUSED

    def make(self, instance, claimed, view):
        return partition.PartitionSpec(
            LPAR,
            'vm1',
            instance.memory_mb,
            1,
            0.5,
            tuple(partition.SlotAssignment(c.drc_index) for c in claimed),
        )

    # Disks

    def swap_fits(self, lpar, swap):
        return self.swap == swap

    def fit_swap(self, lpar, swap):
        self.do(f'swap {swap and swap.size_gb}')
        self.swap = swap


class Powers:
    """Starts and stops the LPAR of a host."""

    def __init__(self, host):
        self._host = host

    def power_on(self, instance):
        self._host.do('on')

    def power_off(self, lpar, timeout):
        self._host.do(f'off {timeout}')


def operations(host):
    return resize.ResizeOps(host, host, host, host, host, host, Powers(host))


CHANGE = [f'verify {[hex(NEW)]}', 'burn', 'change']


@ddt.ddt
class FinishTest(unittest.TestCase):
    def test_devices_are_burned_between_checks_and_change(self):
        host = Host()

        operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual([*CHANGE, 'on'], host.done)

    def test_swap_disk_is_fitted_before_start(self):
        host = Host()

        operations(host).finish(INSTANCE, keeps_swap=False)

        self.assertEqual([*CHANGE, 'swap 0.5', 'on'], host.done)

    def test_missing_swap_disk_is_fitted_to_none(self):
        host = Host()

        operations(host).finish(
            instance_spec.InstanceSpec(LPAR, memory_mb=1024),
            keeps_swap=False,
        )

        self.assertIn('swap None', host.done)

    def test_stopped_instance_is_not_started(self):
        host = Host()

        operations(host).finish(
            instance_spec.InstanceSpec(LPAR, memory_mb=1024, power_on=False),
            keeps_swap=True,
        )

        self.assertEqual(CHANGE, host.done)

    def test_slot_that_the_lpar_has_is_not_checked_again(self):
        host = Host()
        host.lpar = host.made(512, NEW)

        operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual('verify []', host.done[0])

    def test_slot_of_somebody_else_stops_before_burn(self):
        host = Host()
        host.fails_at = 'slots'

        with self.assertRaises(exception.RestError):
            operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual([], host.done)

    @ddt.data('burn', CHANGE[0])
    def test_failed_check_or_burn_changes_nothing(self, step):
        host = Host()
        host.fails_at = step

        with self.assertRaises(exception.RestError):
            operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual(step, host.done[-1])
        self.assertEqual({OLD: True}, host.lpar.slots)

    def test_lost_answer_of_completed_change_is_no_error(self):
        host = Host()
        host.after = SILENT

        operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual('on', host.done[-1])

    def test_lost_answer_without_change_is_an_error(self):
        host = Host()
        host.before = SILENT

        with self.assertRaises(exception.RestUnreachable):
            operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertEqual('change', host.done[-1])

    def test_lost_answer_of_vanished_lpar_is_an_error(self):
        host = Host()
        host.before = SILENT
        found = iter((host.lpar, None))

        with (
            mock.patch.object(host, 'find', lambda uuid: next(found)),
            self.assertRaises(exception.RestUnreachable),
        ):
            operations(host).finish(INSTANCE, keeps_swap=True)

    def test_refused_change_is_an_error(self):
        host = Host()
        host.after = REFUSED

        with self.assertRaises(exception.RestError):
            operations(host).finish(INSTANCE, keeps_swap=True)

    def test_unspecified_result_is_refused(self):
        host = Host()
        host.result = host.made(1024, OLD)

        with self.assertRaises(exception.DevicesDiffer) as caught:
            operations(host).finish(INSTANCE, keeps_swap=True)

        self.assertIn('21010021 is missing', str(caught.exception))
        self.assertNotIn('on', host.done)


class PutBackTest(unittest.TestCase):
    def test_running_lpar_that_fits_is_not_stopped(self):
        host = Host()
        host.lpar = host.made(1024, NEW, state='running')

        operations(host).put_back(INSTANCE, keeps_swap=False)

        self.assertEqual(['on'], host.done)

    def test_running_lpar_is_stopped_before_change(self):
        host = Host('running')

        operations(host).put_back(INSTANCE, keeps_swap=True)

        self.assertEqual(
            [CHANGE[0], 'off hard', 'burn', 'change', 'on'], host.done
        )

    def test_running_lpar_is_stopped_for_its_swap_disk(self):
        host = Host()
        host.lpar = host.made(1024, NEW, state='running')
        host.swap = None

        operations(host).put_back(INSTANCE, keeps_swap=False)

        self.assertEqual(['off hard', 'swap 0.5', 'on'], host.done)

    def test_swap_disk_that_is_known_to_fit_is_not_read(self):
        host = Host()
        host.swap = None

        operations(host).put_back(INSTANCE, keeps_swap=True)

        self.assertEqual([*CHANGE, 'on'], host.done)

    def test_missing_lpar_is_not_found(self):
        host = Host()
        host.lpar = None

        with self.assertRaises(exception.PartitionNotFound):
            operations(host).put_back(INSTANCE, keeps_swap=True)

    def test_lpar_in_unknown_state_is_left_alone(self):
        host = Host('not available')

        with self.assertRaises(exception.PartitionNotStartable):
            operations(host).put_back(INSTANCE, keeps_swap=True)

        self.assertEqual([], host.done)


@ddt.ddt
class StopTest(unittest.TestCase):
    def test_swap_disk_goes_after_stop(self):
        host = Host('running')

        operations(host).stop(INSTANCE, 60, drops_swap=True)

        self.assertEqual(['off 60', 'swap None'], host.done)

    def test_swap_disk_of_same_size_stays(self):
        host = Host('running')

        operations(host).stop(INSTANCE, 60, drops_swap=False)

        self.assertEqual(['off 60'], host.done)

    def test_undone_stop_makes_swap_disk_and_starts(self):
        host = Host()

        operations(host).undo_stop(INSTANCE, drops_swap=True)

        self.assertEqual(['swap 0.5', 'on'], host.done)

    def test_guest_starts_without_its_swap_disk(self):
        host = Host()
        host.fails_at = 'swap 0.5'

        with self.assertRaises(exception.RestError):
            operations(host).undo_stop(INSTANCE, drops_swap=True)

        self.assertEqual(['swap 0.5', 'on'], host.done)

    def test_source_without_lpar_is_refused(self):
        host = Host()
        host.lpar = None

        with self.assertRaises(exception.PartitionNotFound):
            operations(host).check_source(INSTANCE)

    def test_source_with_slot_of_somebody_else_is_refused(self):
        host = Host()
        host.fails_at = 'slots'

        with self.assertRaises(exception.RestError):
            operations(host).check_source(INSTANCE)

    def test_source_in_unknown_state_is_refused(self):
        with self.assertRaises(exception.PartitionNotStartable):
            operations(Host('Unknown')).check_source(INSTANCE)

    @ddt.named_data(
        ['running', 'running', True],
        ['suspended', 'suspended', True],
        ['off', 'not activated', False],
    )
    def test_lpar_in_the_way_is_refused_unless_off(self, state, is_refused):
        host = Host(state)
        check = operations(host).check_absent

        if not is_refused:
            check(INSTANCE)
            return
        with self.assertRaises(exception.PartitionConflict) as caught:
            check(INSTANCE)

        self.assertIn(f'is {state}', str(caught.exception))

    def test_missing_lpar_is_not_in_the_way(self):
        host = Host()
        host.lpar = None

        operations(host).check_absent(INSTANCE)

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

"""Moves: a resize within a host, departure and return."""

import dataclasses

import ddt

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import storage
from nova_powervm.powervm import partitions
from tests import proofs
from tests.ops import base

RESIZE, DEPART = operations.RESIZE, operations.DEPARTURE
RETURN = operations.RETURN
BIG = lpar_settings.FlavorSettings(2048, 2, 0.5)
BIG_SWAP = storage.Disk(storage.SWAP, 1)


class MoveTestCase(base.HostTestCase):
    """Has an LPAR with one of two GPUs, one-time-use both, and a swap disk."""

    def setUp(self):
        super().setUp()
        self.old = self.spawn(
            slots=(base.slot(base.GPU, one_time_use=True),),
            blanks=(base.SWAP,),
        )
        self.new = dataclasses.replace(
            self.old,
            settings=BIG,
            slots=(base.slot(base.GPU2, one_time_use=True),),
            moved_slots=dict.fromkeys([base.GPU, base.GPU2], 'move'),
        )

    def change(self, **changes):
        """Change what is wanted."""
        self.new = dataclasses.replace(self.new, **changes)

    def assert_new(self, state=base.RUNNING, disks='rs'):
        """Assert that the LPAR is as it should be after the resize."""
        self.assert_lpar(state, slots=[base.GPU2], disks=disks)
        self.assertEqual(2048, self.lpar()['memory'])
        self.assertEqual(1.0, self.lpar()['processor_units'])

    def assert_old(self, state=base.RUNNING, disks='rs'):
        """Assert that the LPAR is as it was before the resize."""
        self.assert_lpar(state, slots=[base.GPU], disks=disks)
        self.assertEqual(1024, self.lpar()['memory'])
        self.assertNotIn('burn 21010021', self.trail())


@ddt.ddt
class ResizeTest(MoveTestCase):
    """The end of a resize, or of its revert, on an LPAR that is off."""

    def setUp(self):
        super().setUp()
        self.set_state(base.OFF)

    def resize(self, **changes):
        """Finish the resize."""
        self.change(**changes)
        self.run_plan(RESIZE, self.new)

    def fail_to_resize(self, error, *words):
        """Have the resize fail."""
        self.failed(error, RESIZE, self.new, *words)

    @proofs.proves('device.one-time-use')
    def test_sizes_and_slots_change_in_one_write(self):
        self.resize()

        self.assert_new()
        self.assertEqual(
            [
                'burn 21010021',
                base.DOCUMENT[1],
                'PowerOn',
                'DELETE Job.delete',
            ],
            self.changes(),
        )
        self.assertEqual({base.GPU, base.GPU2}, self.burned())

    def test_slots_of_a_move_are_given_and_freed(self):
        self.change(slots=(*self.old.slots, *self.new.slots))
        self.resize()
        self.assertEqual({base.GPU, base.GPU2}, set(self.slots()))

        self.set_state(base.OFF)
        self.resize(slots=())

        self.assertEqual({}, self.slots())

    def test_stopped_instance_is_not_started(self):
        self.resize(power_on=False)

        self.assert_new(base.OFF)
        self.assertEqual([], self.jobs)

    def test_running_lpar_that_fits_is_not_stopped(self):
        self.resize()
        self.resize(checks_swap=True)

        self.assertEqual([], self.changes())

    def test_running_lpar_is_stopped_before_the_change(self):
        self.set_state(base.RUNNING)

        self.resize()

        self.assertEqual(['off hard', 'on'], self.jobs)
        self.assert_new()

    def test_adapters_are_fitted(self):
        self.resize(ports=(base.PORT2,))

        self.assert_lpar(slots=[base.GPU2], ports=[base.PORT2], disks='rs')

    def test_swap_disk_of_another_size_is_made_anew_before_the_start(self):
        self.resize(blanks=(BIG_SWAP,), checks_swap=True)

        self.assert_new()
        self.assertEqual(1, self.stored()['s']['capacity'])
        self.assertEqual('PowerOn', self.changes()[-2])

    def test_swap_disk_goes_for_flavor_without_one(self):
        self.resize(blanks=(), checks_swap=True)

        self.assert_new(disks='r')
        self.assertNotIn('s', self.stored())

    def test_swap_disk_that_is_known_to_fit_is_not_read(self):
        self.resize()

        # The start alone reads mappings, in localdisk.
        self.assertEqual(
            self.disk_driver == 'localdisk',
            self.trail().count('GET VirtualIOServer.read'),
        )
        self.assertNotIn('GET VolumeGroup.read', self.trail())

    def test_running_lpar_is_stopped_for_its_swap_disk(self):
        self.resize()
        self.disks.fit_swap(self.old.lpar_uuid, None)

        self.resize(checks_swap=True)

        self.assertEqual(['off hard', 'on'], self.jobs)
        self.assert_new()

    def test_root_disk_and_its_bytes_stay(self):
        before = self.stored()['r']

        self.resize()

        self.assertEqual(before, self.stored()['r'])

    def test_root_disk_without_room_to_grow_is_refused(self):
        self.disks.check_growth(self.old.lpar_uuid, 3)
        with self.assertRaises(exception.PowerVMError) as caught:
            self.disks.check_growth(self.old.lpar_uuid, 10**5)

        self.assertIn('to 100000 GB', str(caught.exception))

    def test_missing_lpar_is_not_found(self):
        self.removals.destroy(base.INSTANCE)

        self.refused(exception.PartitionNotFound, RESIZE, self.new)

    @ddt.data('not available', 'suspended')
    def test_lpar_in_doubtful_state_is_left_alone(self, state):
        self.set_state(state)

        self.refused(exception.PartitionNotStartable, RESIZE, self.new, state)

    def test_slot_of_somebody_else_is_refused_before_the_burn(self):
        self.give(base.GPU2, 'archive')
        self._others = self._state_of_others()

        self.refused(exception.ClaimFailed, RESIZE, self.new, 'archive')
        self.assert_old(base.OFF)

    def test_surplus_slot_that_no_move_gave_is_refused(self):
        self.give(base.NVME)

        self.refused(
            exception.SlotsDiffer, RESIZE, self.new, '21010030 was not asked'
        )

    def test_slot_that_is_not_allocated_is_refused(self):
        self.placement.allocated = [base.provider(base.GPU)]

        self.refused(
            exception.ClaimFailed, RESIZE, self.new, 'does not allocate'
        )

    def test_slot_that_the_lpar_has_need_not_be_free(self):
        self.resize(slots=(*self.old.slots, *self.new.slots))

        self.assertNotIn('burn 21010020', self.trail())
        self.assertEqual({base.GPU, base.GPU2}, set(self.slots()))

    def test_burn_that_fails_changes_nothing(self):
        self.placement.silent = {base.provider(base.GPU2)}

        self.fail_to_resize(exception.ClaimFailed, '503')

        self.assertNotIn(base.DOCUMENT[1], self.trail())
        self.assertEqual({base.GPU: True}, self.slots())

    def test_lost_answer_to_the_change_is_no_error(self):
        self.control.add_fault(
            match='LogicalPartition.update', phase='after', drop=True
        )

        self.resize()

        self.assert_new()

    def test_change_that_never_arrives_is_an_error(self):
        self.control.add_fault(
            match='LogicalPartition.update', drop=True, every=True
        )

        self.fail_to_resize(exception.RestUnreachable)

        self.assert_lpar(base.OFF, slots=[base.GPU], disks='rs')

    def test_lpar_that_vanishes_meanwhile_is_an_error(self):
        def vanish(*_):
            self.partitions.delete(self.old.lpar_uuid)
            return True

        self.placement.burn = vanish

        self.fail_to_resize(exception.PowerVMError)

    def test_refused_change_is_an_error(self):
        self.control.add_fault(match='LogicalPartition.update', status=500)

        self.fail_to_resize(exception.RestError)

        self.assert_lpar(base.OFF, slots=[base.GPU], disks='rs')

    def test_change_is_repeated_after_conflict(self):
        self.control.add_fault(match='LogicalPartition.update', status=412)

        self.resize()

        self.assert_new()
        # The last look and the burn lie inside the retried change.
        self.assertEqual(2, self.trail().count('burn 21010021'))

    def test_host_that_keeps_the_old_slots_is_noticed(self):
        with base.unittest.mock.patch.object(
            partitions.RestPartitions,
            'write',
            lambda found, wanted, burn, **_: found.find(wanted.uuid),
        ):
            self.fail_to_resize(
                exception.DocumentDiffers, 'slot 21010021 is missing'
            )

        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_weight_that_somebody_set_stays(self):
        found = self.partitions.find(self.old.lpar_uuid).handle
        found.proc_config.shared_proc_cfg.uncapped_weight = 77
        found.update()

        self.resize()

        after = self.partitions.find(self.old.lpar_uuid).handle
        self.assertEqual(77, after.proc_config.shared_proc_cfg.uncapped_weight)
        self.assert_new()


class DepartureTest(MoveTestCase):
    """The stop of the guest on the host that it moves away from."""

    def depart(self, **changes):
        """Stop the LPAR, which keeps what it has."""
        changed = {'timeout': 60, 'ports': None, **changes}
        self.old = dataclasses.replace(self.old, **changed)
        self.run_plan(DEPART, self.old)

    def test_guest_has_its_time_to_stop(self):
        self.depart()

        self.assertEqual(['off soft 60'], self.jobs)
        self.assert_old(base.OFF)

    def test_swap_disk_goes_after_the_stop(self):
        self.depart(checks_swap=True)

        self.assert_old(base.OFF, disks='r')
        self.assertEqual('PowerOff', self.changes()[0])

    def test_lpar_that_is_off_is_left_alone(self):
        self.set_state(base.OFF)

        self.depart()

        self.assertEqual([], self.changes())

    def test_failure_makes_swap_disk_and_starts_guest_again(self):
        self.control.add_fault(match='VolumeGroup.update', status=500)
        self.old = dataclasses.replace(self.old, checks_swap=True)

        self.failed(exception.RestError, DEPART, self.old)

        self.assertEqual(['off hard', 'on'], self.jobs)
        self.assert_old()

    def test_guest_starts_without_its_swap_disk(self):
        # The disk is unmapped, but neither deleted nor mapped again.
        self.control.add_fault(
            match='VolumeGroup.update', status=500, every=True
        )
        self.control.add_fault(
            match='VirtualIOServer.update', status=500, nth=2, every=True
        )
        self.old = dataclasses.replace(self.old, checks_swap=True)

        self.failed(exception.RestError, DEPART, self.old)

        self.assert_old(disks='r')

    def test_guest_that_cannot_be_stopped_keeps_its_swap_disk(self):
        for _ in range(2):
            self.control.plan_job('PowerOff', 'it is locked')
        # Nova's flavor has another size than the disk, as after a move.
        other = dataclasses.replace(
            self.old, blanks=(storage.Disk(storage.SWAP, 1),), checks_swap=True
        )

        self.failed(exception.PowerVMError, DEPART, other, 'it is locked')

        self.assertNotIn('POST VirtualIOServer.update', self.changes())
        self.assert_old()

    def test_guest_that_cannot_be_started_again_is_named(self):
        self.control.add_fault(match='VolumeGroup.update', status=500)
        self.control.plan_job('PowerOn', 'it is locked')
        self.old = dataclasses.replace(self.old, checks_swap=True)

        self.failed(exception.GuestStaysOff, DEPART, self.old, 'it is locked')

    def test_missing_lpar_is_refused(self):
        self.removals.destroy(base.INSTANCE)

        self.refused(exception.PartitionNotFound, DEPART, self.old)

    def test_surplus_slot_is_refused_while_the_guest_runs_on(self):
        self.give(base.NVME)

        self.refused(exception.SlotsDiffer, DEPART, self.old)

    def test_unknown_state_is_refused(self):
        self.set_state('Unknown')

        self.refused(exception.PartitionNotStartable, DEPART, self.old)


class ReturnTest(MoveTestCase):
    """The end of a revert, on the host that gets the instance back."""

    def test_stopped_lpar_gets_missing_slots_and_starts(self):
        self.set_state(base.OFF)
        self.give(base.GPU, None)

        self.run_plan(RETURN, self.old)

        self.assert_lpar(slots=[base.GPU], disks='rs')
        self.assertEqual(['on'], self.jobs)

    def test_running_lpar_is_never_stopped(self):
        self.give(base.GPU, None)

        self.run_plan(RETURN, self.old)

        self.assertEqual([], self.changes())
        self.assertEqual(base.RUNNING, self.lpar()['state'])

    def test_suspended_lpar_keeps_the_memory_of_its_guest(self):
        self.set_state('suspended')

        self.run_plan(RETURN, self.old)

        self.assertEqual([], self.changes())

    def test_swap_disk_is_made_again_as_before(self):
        self.set_state(base.OFF)
        self.disks.fit_swap(self.old.lpar_uuid, None)

        self.run_plan(RETURN, dataclasses.replace(self.old, checks_swap=True))

        self.assert_old()

    def test_sizes_are_no_business_of_a_return(self):
        self.set_state(base.OFF)

        self.run_plan(RETURN, dataclasses.replace(self.old, settings=BIG))

        self.assert_old()

    def test_slot_that_is_too_much_is_refused(self):
        self.set_state(base.OFF)
        self.give(base.NVME)

        self.refused(exception.SlotsDiffer, RETURN, self.old)

    def test_lpar_that_is_lost_with_local_disks_is_not_found(self):
        self.removals.destroy(base.INSTANCE)

        self.refused(exception.PartitionNotFound, RETURN, self.old)

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

"""Reboots: the guest stops only for what can be done, and starts again."""

import dataclasses

import ddt

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.ops import power
from tests import proofs
from tests.ops import base

HARD, SOFT = operations.HARD_REBOOT, operations.SOFT_REBOOT
ON, OFF_HARD, OFF_SOFT = 'on', 'off hard', 'off soft 60'
RESTART, RESTART_SOFT = 'restart hard', 'restart soft 60'


class RebootTestCase(base.HostTestCase):
    """Has a running LPAR with two slots and a port."""

    def setUp(self):
        super().setUp()
        self.wanted = self.spawn(
            slots=(
                base.slot(base.GPU, one_time_use=True),
                base.slot(base.NVME),
            )
        )

    def reboot(self, operation=HARD, **changes):
        """Reboot the LPAR; soft reboots have 60 seconds."""
        self.change(**changes)
        if operation is SOFT:
            self.change(timeout=self.wanted.timeout or 60)
        self.run_plan(operation, self.wanted)

    def change(self, **changes):
        """Change what is wanted."""
        self.wanted = dataclasses.replace(self.wanted, **changes)

    def refuse(self, error, *words, operation=HARD):
        """Have a reboot refused; the guest runs on."""
        state = self.lpar()['state']
        self.refused(error, operation, self.wanted, *words)
        self.assertEqual(state, self.lpar()['state'])

    def assert_right(self, **differences):
        """Assert that the LPAR has all that it should have, and runs."""
        self.assert_lpar(slots=[base.GPU, base.NVME], **differences)


class SwapTest(base.HostTestCase):
    def test_guest_that_cannot_be_stopped_keeps_its_swap_disk(self):
        wanted = self.spawn(blanks=(base.SWAP,))
        for _ in range(2):
            self.control.plan_job('PowerOff', 'it is locked')
        # As after a move to a flavor that has none.
        wanted = dataclasses.replace(wanted, blanks=(), checks_swap=True)

        self.failed(exception.PowerVMError, HARD, wanted, 'it is locked')

        self.assertNotIn('POST VirtualIOServer.update', self.changes())
        self.assert_lpar(disks='rs')


class StateTest(RebootTestCase):
    @proofs.proves('operation.reboot')
    def test_reboot_depends_on_state(self):
        for operation, state, expected in (
            (HARD, base.OFF, [ON]),
            (HARD, base.RUNNING, [RESTART]),
            (HARD, base.FAILED, [OFF_HARD, ON]),
            (HARD, 'suspended', [OFF_HARD, ON]),
            (SOFT, base.OFF, [ON]),
            (SOFT, base.RUNNING, [RESTART_SOFT]),
            (SOFT, base.FAILED, [OFF_HARD, ON]),
            (SOFT, 'suspended', [OFF_HARD, ON]),
        ):
            with self.subTest(operation=operation, state=state):
                self.set_state(state)

                self.reboot(operation)

                self.assertEqual(expected, self.jobs)
                self.assert_right()

    def test_reboot_of_unavailable_lpar_is_refused(self):
        self.set_state('not available')
        for operation in (HARD, SOFT):
            self.refuse(exception.PartitionNotStartable, operation=operation)

        # Nor is one found that is gone from its disks.
        self.removals.destroy(base.INSTANCE)
        for operation in (HARD, SOFT):
            self.refused(exception.PartitionNotFound, operation, self.wanted)

    def test_hard_reboot_with_devices_reads_lpar_adapters_and_disks_only(self):
        self.reboot()
        self.reboot()

        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET ClientNetworkAdapter.feed',
                # There may be a rescue disk.
                'GET VolumeGroup.read',
                'PowerOff',
                'DELETE Job.delete',
                'GET LogicalPartition.quick',
            ],
            self.trail(),
        )


@ddt.ddt
class CrashDumpTest(RebootTestCase):
    def dump(self):
        """Request a dump; return whether the guest was told to write one."""
        self.forget()
        return power.crash_dump(self.partitions, self.wanted.lpar_uuid)

    @ddt.data(base.RUNNING, base.FAILED)
    def test_guest_restarts_with_its_slots(self, state):
        self.set_state(state)

        self.assertTrue(self.dump())

        self.assertEqual(['dump hard'], self.jobs)
        self.assert_right()

    def test_guest_that_is_off_writes_no_dump(self):
        self.set_state(base.OFF)

        self.assertFalse(self.dump())

        self.assertEqual([], self.changes())

    def test_failed_dump_is_not_repeated(self):
        self.control.plan_job('PowerOff', 'the guest has no dump device')

        with self.assertRaisesRegex(exception.RestError, 'no dump device'):
            self.dump()

        self.assertEqual(['dump hard'], self.jobs)
        self.assert_right()


class SoftRebootTest(RebootTestCase):
    """A guest gets its time, and no more."""

    def test_port_without_host_is_bound_if_neutron_answers(self):
        asked = []

        def answer():
            asked.append(self)
            if len(asked) == 1:
                return (base.PORT,)
            raise exception.PortsUnknown(
                instance_uuid=base.INSTANCE, reason='503'
            )

        self.change(
            ports=(dataclasses.replace(base.PORT, vif_type='unbound'),)
        )
        for _ in range(2):
            self.run_plan(SOFT, self.wanted, ports=answer)

        self.assertEqual(2, len(asked))
        self.assert_right(ports=[base.PORT])

    @proofs.proves('operation.reboot')
    def test_guest_that_does_not_listen_is_restarted_hard(self):
        self.control.plan_job('PowerOff', 'the guest does not listen')

        self.reboot(SOFT)

        self.assertEqual([RESTART_SOFT, RESTART], self.jobs)
        self.assert_right()

    def test_soft_restart_that_ends_in_error_is_followed_by_hard_one(self):
        self.control.plan_job('PowerOff', '', 'COMPLETED_OK', base.FAILED)

        self.reboot(SOFT)

        self.assertEqual([RESTART_SOFT, RESTART], self.jobs)
        self.assert_right()

    def test_guest_that_shut_down_late_is_started(self):
        self.control.plan_job('PowerOff', 'the time was up')
        run = self.partitions.restart

        def late(lpar, **options):
            try:
                run(lpar, **options)
            finally:
                self.set_state(base.OFF)

        self.partitions.restart = late

        self.reboot(SOFT)

        self.assertEqual([RESTART_SOFT, ON], self.jobs)
        self.assert_right()

    def test_guest_whose_rmc_fails_is_restarted_by_its_firmware(self):
        self.set_state(base.RUNNING, rmc_state='active')
        self.control.plan_job('PowerOff', 'HSCL0DB4')
        self.forget()

        self.reboot(SOFT)

        self.assertEqual(['restart by RMC 60', RESTART_SOFT], self.jobs)
        self.assert_right()

    def test_reboot_without_time_restarts_hard(self):
        self.run_plan(SOFT, self.wanted)

        self.assertEqual([RESTART], self.jobs)

    @proofs.proves('operation.reboot')
    def test_adapters_are_changed_after_the_guest_shut_down(self):
        self.reboot(SOFT, ports=(base.PORT, base.PORT2))

        self.assertEqual([OFF_SOFT, ON], self.jobs)
        self.assert_right(ports=[base.PORT, base.PORT2])

    def test_guest_that_does_not_listen_is_stopped_hard_for_changes(self):
        self.control.plan_job('PowerOff', 'the guest does not listen')

        self.reboot(SOFT, ports=(base.PORT, base.PORT2))

        self.assertEqual([OFF_SOFT, OFF_HARD, ON], self.jobs)
        self.assert_right(ports=[base.PORT, base.PORT2])

    def test_missing_slot_comes_back_after_the_guest_shut_down(self):
        self.give(base.GPU, None)

        self.reboot(SOFT)

        self.assertEqual([OFF_SOFT, ON], self.jobs)
        self.assert_right()

    def test_sizes_of_flavor_are_not_those_of_a_soft_reboot(self):
        self.reboot(SOFT, settings=lpar_settings.FlavorSettings(2048, 2, 0.5))

        self.assertEqual([RESTART_SOFT], self.jobs)
        self.assertEqual(1024, self.lpar()['memory'])

    def test_slot_of_a_move_is_not_freed_by_a_soft_reboot(self):
        self.change(
            slots=self.wanted.slots[:1], moved_slots={base.NVME: 'move'}
        )

        self.refuse(exception.SlotsDiffer, operation=SOFT)


class HardRebootTest(RebootTestCase):
    def test_missing_slot_comes_back_while_lpar_is_off(self):
        for state in (base.RUNNING, base.FAILED, base.OFF):
            with self.subTest(state=state):
                self.give(base.GPU, None)
                self.set_state(state)

                self.reboot()

                self.assert_right()
                done = [n for n in self.changes() if n != 'DELETE Job.delete']
                stop = [] if state == base.OFF else ['PowerOff']
                self.assertEqual(
                    [*stop, 'burn 21010020', base.DOCUMENT[1], 'PowerOn'], done
                )

    def test_slot_that_is_added_meanwhile_is_not_lost(self):
        self.give(base.GPU, None)
        stop = self.partitions.power_off

        def stop_and_add(lpar, **options):
            stop(lpar, **options)
            self.give(base.GPU2)

        self.partitions.power_off = stop_and_add

        self.failed(
            exception.PowerVMError,
            HARD,
            self.wanted,
            'meanwhile, so nothing was changed',
        )

        self.assertEqual(base.OFF, self.lpar()['state'])
        self.assertEqual({base.NVME, base.GPU2}, set(self.slots()))

    def test_slot_that_a_move_left_is_freed(self):
        self.reboot(
            slots=self.wanted.slots[:1], moved_slots={base.NVME: 'move'}
        )

        self.assert_lpar(slots=[base.GPU])

    def test_lpar_gets_sizes_of_flavor(self):
        self.reboot(settings=lpar_settings.FlavorSettings(2048, 2, 0.5))

        self.assertEqual(2048, self.lpar()['memory'])
        self.assertEqual([OFF_HARD, ON], self.jobs)
        self.assert_right()

    def test_sizes_that_the_host_does_not_support_are_refused(self):
        self.change(settings=lpar_settings.FlavorSettings(1000, 1, 0.5))

        self.refuse(exception.MemorySizeRefused)

    def test_surplus_slot_is_refused_while_the_guest_runs_on(self):
        self.give(base.GPU2)

        self.refuse(exception.SlotsDiffer, '21010021 was not asked for')

    def test_slot_of_another_is_refused_while_the_guest_runs_on(self):
        self.give(base.NVME, 'archive')
        self._others = self._state_of_others()

        self.refuse(exception.ClaimFailed, 'owned by partition archive')

    def test_device_that_is_not_allocated_is_refused(self):
        self.give(base.GPU, None)
        self.placement.allocated = [base.provider(base.NVME)]

        self.refuse(exception.ClaimFailed, 'Restore all its allocations')

    def test_adapters_are_fitted_while_lpar_is_off(self):
        self.reboot(ports=(base.PORT2,))

        self.assertEqual([OFF_HARD, ON], self.jobs)
        self.assert_right(ports=[base.PORT2])

    def test_port_without_driver_is_refused_while_the_guest_runs_on(self):
        port = dataclasses.replace(base.PORT2, vif_type='ovs')
        self.change(ports=(base.PORT, port))

        self.refuse(exception.PortRefused, "its VIF type is 'ovs'")

    def test_neutron_that_does_not_answer_refuses(self):
        def ports():
            raise exception.PortsUnknown(
                instance_uuid=base.INSTANCE, reason='503'
            )

        self.change(ports=())

        self.refused(
            exception.PortsUnknown, HARD, self.wanted, '503', ports=ports
        )
        self.assert_right()

    def test_root_disk_is_grown_that_a_confirm_left_small(self):
        self.reboot(grow_root_gb=2)

        self.assertEqual(2, self.stored()['r']['capacity'])
        self.assert_right()

    def test_root_disk_that_cannot_grow_keeps_nobody_off(self):
        self.reboot(grow_root_gb=10**5)

        self.assertEqual(1, self.stored()['r']['capacity'])
        self.assert_right()

    def test_mapping_that_is_lost_of_a_local_disk_is_no_business(self):
        self.disks.remove(self.wanted.lpar_uuid, delete=False)

        self.reboot()

        self.assert_right(disks='')


class FailedChangeTest(RebootTestCase):
    """A guest that was stopped is started again, where that is safe."""

    def setUp(self):
        super().setUp()
        self.change(ports=(base.PORT, base.PORT2))

    def fail_at(self, label, **fault):
        self.control.add_fault(match=label, status=500, every=True, **fault)

    def test_failure_before_the_stop_leaves_guest_running(self):
        self.control.clear_faults()
        self.change(
            ports=(
                base.PORT,
                dataclasses.replace(base.PORT2, vlan=9),
            )
        )
        self.fail_at('NetworkBridge.update')

        self.failed(exception.RestError, HARD, self.wanted)

        self.assertEqual([], self.jobs)
        self.assert_right()

    def test_failure_after_the_stop_starts_guest_again(self):
        self.fail_at('ClientNetworkAdapter.create')

        self.failed(exception.RestError, HARD, self.wanted)

        self.assertEqual([OFF_HARD, ON], self.jobs)
        self.assert_right()

    def test_next_reboot_finishes_change_of_adapters(self):
        port = dataclasses.replace(base.PORT2, vlan=9)
        self.change(ports=(port,))
        for label in (
            'NetworkBridge.update',
            'ClientNetworkAdapter.delete',
            'ClientNetworkAdapter.create',
        ):
            # From here on the host answers nothing, as after a kill.
            self.fail_at(label)
            self.failed(exception.RestError, HARD, self.wanted, 'Injected')
            self.assertEqual(base.RUNNING, self.lpar()['state'])
            self.control.clear_faults()

        self.reboot()

        self.assert_right(ports=[port])

    def test_lpar_that_is_off_stays_off(self):
        self.set_state(base.OFF)
        self.fail_at('ClientNetworkAdapter.create')

        self.failed(exception.RestError, HARD, self.wanted)

        self.assertEqual([], self.jobs)

    def test_lpar_that_lacks_a_slot_stays_off(self):
        self.give(base.GPU, None)
        self.fail_at('ClientNetworkAdapter.create')

        self.failed(exception.RestError, HARD, self.wanted)

        self.assertEqual([OFF_HARD], self.jobs)
        self.assert_lpar(base.OFF, slots=[base.NVME])

    def test_lpar_that_has_a_slot_of_a_move_stays_off(self):
        self.change(
            slots=self.wanted.slots[:1], moved_slots={base.NVME: 'move'}
        )
        self.fail_at('ClientNetworkAdapter.create')

        self.failed(exception.RestError, HARD, self.wanted)

        self.assert_right(state=base.OFF)

    def test_start_that_fails_too_does_not_hide_first_error(self):
        self.fail_at('ClientNetworkAdapter.create')
        self.control.plan_job('PowerOn', 'it is locked')

        self.failed(
            exception.GuestStaysOff,
            HARD,
            self.wanted,
            'Injected by a test',
            'it is locked',
        )

        self.assert_right(state=base.OFF)

    def test_burn_that_placement_does_not_confirm_leaves_slot_free(self):
        self.change(ports=(base.PORT,))
        self.give(base.GPU, None)
        self.placement.silent = {base.provider(base.GPU)}

        self.failed(exception.ClaimFailed, HARD, self.wanted)

        self.assert_lpar(base.OFF, slots=[base.NVME])
        self.assertNotIn(base.DOCUMENT[1], self.trail())

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

"""Starting, and starting at a host's boot: what is missing is made good."""

import dataclasses
import io
import itertools
import logging

import ddt

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.ops import power
from nova_powervm.powervm import partitions
from tests.ops import base

START = operations.START
OFF = 'off hard'


class StartTestCase(base.HostTestCase):
    """Has an LPAR with a slot and a port, in some state."""

    def setUp(self):
        super().setUp()
        self.wanted = self.spawn(
            slots=(base.slot(base.GPU, one_time_use=True),)
        )

    def start(self, state=base.OFF, **asked):
        """Start the LPAR from a state."""
        self.set_state(state)
        self.run_plan(START, self.wanted, **asked)

    def refuse_start(self, error, *words, state=base.OFF, **asked):
        """Have the start refused; the LPAR stays as it is."""
        self.set_state(state)
        self.refused(error, START, self.wanted, *words, **asked)
        self.assertEqual(state, self.lpar()['state'])


class StateTest(StartTestCase):
    def test_start_depends_on_state(self):
        for state, expected in (
            (base.OFF, ['on']),
            (base.RUNNING, []),
            (base.FAILED, [OFF, 'on']),
            ('starting', []),
        ):
            with self.subTest(state=state):
                self.start(state)

                self.assertEqual(expected, self.jobs)
                if state != 'starting':
                    self.assert_lpar(slots=[base.GPU])

    def test_start_is_refused(self):
        for state in ('suspended', 'not available', 'Unknown'):
            with self.subTest(state=state):
                self.refuse_start(
                    exception.PartitionNotStartable,
                    f'is in the state "{state}"',
                    state=state,
                )

        with self.subTest('LPAR is missing'):
            self.removals.destroy(base.INSTANCE)
            self.refused(exception.PartitionNotFound, START, self.wanted)

    def test_instance_that_is_to_stay_off_is_not_started(self):
        self.wanted = dataclasses.replace(self.wanted, power_on=False)

        self.start()

        self.assertEqual([], self.changes())

    def test_start_changes_no_size_and_frees_no_slot(self):
        self.wanted = dataclasses.replace(
            self.wanted,
            settings=lpar_settings.FlavorSettings(2048, 2, 0.5),
            slots=(),
            moved_slots={base.GPU: 'move'},
        )

        self.refuse_start(exception.SlotsDiffer)
        self.assertEqual(1024, self.lpar()['memory'])

    def test_start_leaves_sizes_that_somebody_set(self):
        self.wanted = dataclasses.replace(
            self.wanted, settings=lpar_settings.FlavorSettings(2048, 2, 0.5)
        )

        self.start()

        self.assertEqual(1024, self.lpar()['memory'])
        self.assertNotIn('POST LogicalPartition.update', self.changes())


class ReferenceCodeTest(StartTestCase):
    """What the panel of an LPAR shows explains why it does not run."""

    CODE = 'BA210000'

    def fail_start(self, *words):
        """Have the start of an LPAR with a reference code fail."""
        self.set_state(base.OFF, reference_code=self.CODE)
        self.control.add_fault(match='LogicalPartition.job', status=400)
        return self.failed(exception.RestError, START, self.wanted, *words)

    def test_error_of_failed_start_has_it_before_the_reason(self):
        error = self.fail_start(f'{base.NAME} failed: reference code BA210000')

        self.assertIs(exception.RestError, type(error))
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_job_that_ends_well_is_not_believed(self):
        """A host can say COMPLETED_OK, and then leave it in ``error``."""
        for state in (base.FAILED, base.OFF):
            with self.subTest(state):
                self.set_state(base.OFF)
                self.control.plan_job('PowerOn', '', 'COMPLETED_OK', state)

                error = self.failed(exception.NotStarted, START, self.wanted)

                self.assertIn(f'its state is "{state}"', error.summary)
                self.assertEqual(
                    state == base.FAILED, 'code B2001230' in error.summary
                )

    def test_state_that_cannot_be_read_believes_no_start(self):
        self.set_state(base.OFF)
        self.control.add_fault(match='/quick/PartitionState', status=400)

        self.failed(exception.RestError, START, self.wanted, 'the state of')

    def test_code_that_cannot_be_read_leaves_error_as_it_is(self):
        self.control.add_fault(
            match='LogicalPartition.read', status=500, nth=2
        )

        error = self.fail_start('failed: Failed to power on')

        self.assertNotIn('reference code', str(error))

    def test_log_has_that_of_failed_lpar(self):
        self.set_state(base.FAILED, reference_code=self.CODE)

        with self.logged('WARNING') as log:
            self.run_plan(START, self.wanted)

        self.assertIn('has failed (reference code BA210000)', log.output[0])

    def test_line_break_in_it_begins_no_line_of_the_log(self):
        """Before, a panel could write records into nova-compute's log."""
        forged = '2026-11-27 10:00:00 1 CRITICAL nova_powervm the end'
        self.set_state(base.FAILED, reference_code=f'BA\n{forged}')
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        self.addCleanup(logging.getLogger().removeHandler, handler)
        logging.getLogger().addHandler(handler)
        logging.disable(logging.NOTSET)

        self.run_plan(START, self.wanted)

        log = stream.getvalue()
        self.assertIn(rf'(reference code BA\n{forged})', log)
        self.assertNotIn(forged, log.splitlines())

    def test_hard_restart_that_fails_has_it(self):
        self.set_state(base.RUNNING, reference_code=self.CODE)
        self.control.plan_job('PowerOff', 'no')

        self.failed(
            exception.RestError,
            operations.HARD_REBOOT,
            self.wanted,
            'reference code',
        )

    def test_restart_that_ends_in_error_is_not_believed(self):
        self.control.plan_job('PowerOff', '', 'COMPLETED_OK', base.FAILED)

        self.failed(
            exception.NotStarted,
            operations.HARD_REBOOT,
            self.wanted,
            'reference code B2001230',
        )


@ddt.ddt
class StopTest(StartTestCase):
    def timed(self, seconds):
        """Return LPARs whose first job to stop one takes some seconds."""
        return partitions.RestPartitions(
            self.adapter,
            self.managed,
            clock=itertools.count(0, seconds).__next__,
        )

    @ddt.named_data(
        ['running', base.RUNNING, ['off soft 60']],
        ['failed', base.FAILED, [OFF]],
        ['suspended', 'suspended', [OFF]],
        ['off', base.OFF, []],
    )
    def test_power_off_depends_on_state(self, state, expected):
        self.set_state(state)
        self.forget()

        power.power_off(self.partitions, self.wanted.lpar_uuid, 60)

        self.assertEqual(expected, self.jobs)

    def test_guest_that_ignores_the_request_is_stopped_hard(self):
        self.control.plan_job('PowerOff', 'the guest does not listen')
        self.forget()

        power.power_off(self.partitions, self.wanted.lpar_uuid, 60)

        self.assertEqual(['off soft 60', OFF], self.jobs)
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_guest_with_rmc_is_shut_down_by_it(self):
        self.set_state(base.RUNNING, rmc_state='active')
        self.forget()

        power.power_off(self.partitions, self.wanted.lpar_uuid, 60)

        self.assertEqual(['off by RMC 60'], self.jobs)

    @ddt.named_data(
        ['listens to its firmware', 1, []],
        ['listens to nobody', 2, [OFF]],
    )
    def test_guest_whose_rmc_fails(self, failures, hard):
        """It has the rest of its time before it is stopped hard."""
        self.set_state(base.RUNNING, rmc_state='active')
        for _ in range(failures):
            self.control.plan_job('PowerOff', 'HSCL0DB4')
        self.forget()

        with self.logged('WARNING') as log:
            power.power_off(self.timed(17.5), self.wanted.lpar_uuid, 60)

        self.assertEqual(['off by RMC 60', 'off soft 43', *hard], self.jobs)
        self.assertIn('could not be shut down by RMC', log.output[0])
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_guest_whose_rmc_fails_late_is_stopped_hard(self):
        self.set_state(base.RUNNING, rmc_state='active')
        self.control.plan_job('PowerOff', 'the connection is lost')
        self.forget()

        power.power_off(self.timed(60), self.wanted.lpar_uuid, 60)

        self.assertEqual(['off by RMC 60', OFF], self.jobs)

    def test_removal_stops_running_lpar_only(self):
        for state, jobs in ((base.RUNNING, [OFF]), (base.OFF, [])):
            self.set_state(state)
            self.forget()

            self.removals.destroy(base.INSTANCE)

            self.assertEqual(jobs, self.jobs)
            self.assert_nothing_left()
            self.run_plan(operations.SPAWN, self.wanted)


class SlotTest(StartTestCase):
    """What is missing comes back; what is too much is left, and refused."""

    def test_missing_slot_is_assigned_and_burned_again(self):
        self.give(base.GPU, None)

        self.start()

        self.assert_lpar(slots=[base.GPU])
        self.assertEqual(
            ['burn 21010020', base.DOCUMENT[1]], self.changes()[:2]
        )

    def test_slot_that_is_not_required_becomes_required(self):
        self.give(base.GPU, None)
        self.give(base.GPU, base.NAME)
        self.assertEqual({base.GPU: False}, self.slots())

        self.start()

        self.assert_lpar(slots=[base.GPU])
        # The LPAR had it before.
        self.assertNotIn('burn 21010020', self.trail())

    def test_failed_lpar_gets_its_slot_while_it_is_off(self):
        self.give(base.GPU, None)

        self.start(base.FAILED)

        self.assert_lpar(slots=[base.GPU])
        self.assertEqual(
            ['PowerOff', 'burn 21010020', base.DOCUMENT[1], 'PowerOn'],
            [n for n in self.changes() if n != 'DELETE Job.delete'],
        )

    def test_running_lpar_without_its_slot_is_left_running(self):
        self.give(base.GPU, None)

        self.refuse_start(
            exception.SlotsMissing, '21010020', state=base.RUNNING
        )

    def test_slot_of_another_partition_is_refused(self):
        self.give(base.GPU, 'archive')
        self._others = self._state_of_others()

        self.refuse_start(
            exception.ClaimFailed,
            'slot 21010020 was allocated to it but it cannot be used: it is '
            'owned by partition archive',
        )

    def test_pulled_card_is_refused(self):
        self.give(base.GPU, None)
        self.control.pull(f'{base.GPU:08X}')

        self.refuse_start(exception.ClaimFailed, 'the slot is empty')

    def test_surplus_slot_is_refused_and_kept(self):
        self.give(base.NVME)

        self.refuse_start(
            exception.SlotsDiffer, 'slot 21010030 was not asked for'
        )
        self.assertEqual({base.GPU, base.NVME}, set(self.slots()))

    def test_host_that_does_not_assign_the_slot_is_noticed(self):
        self.give(base.GPU, None)
        self.set_state(base.OFF)

        with base.unittest.mock.patch.object(
            partitions.RestPartitions,
            'write',
            lambda found, wanted, burn, **_: found.find(wanted.uuid),
        ):
            self.failed(
                exception.DocumentDiffers,
                START,
                self.wanted,
                'slot 21010020 is missing',
            )

        self.assertEqual(base.OFF, self.lpar()['state'])


class AdapterTest(StartTestCase):
    """Adapters are fitted to the ports before the guest starts."""

    def test_missing_adapter_is_created(self):
        self.wanted = dataclasses.replace(
            self.wanted, ports=(base.PORT, base.PORT2)
        )

        self.start()

        self.assert_lpar(slots=[base.GPU], ports=[base.PORT, base.PORT2])

    def test_surplus_adapter_is_removed(self):
        self.wanted = dataclasses.replace(self.wanted, ports=())

        self.start()

        self.assert_lpar(slots=[base.GPU], ports=())

    def test_adapter_of_another_vlan_is_replaced(self):
        port = dataclasses.replace(base.PORT, vlan=200)
        self.wanted = dataclasses.replace(self.wanted, ports=(port,))

        self.start()

        self.assertEqual([(port.mac, 200)], self.adapters())

    def test_ports_that_nova_has_forgotten_are_asked_for(self):
        ports = self.wanted.ports
        self.wanted = dataclasses.replace(self.wanted, ports=())

        self.start(ports=lambda: ports)

        self.assert_lpar(slots=[base.GPU])

    def test_unknown_ports_leave_adapters_alone(self):
        self.wanted = dataclasses.replace(self.wanted, ports=None)

        self.start(ports=self.fail)

        self.assert_lpar(slots=[base.GPU])
        self.assertEqual(['PowerOn', 'DELETE Job.delete'], self.changes())

    def test_neutron_that_does_not_answer_refuses(self):
        def ports():
            raise UNKNOWN

        self.wanted = dataclasses.replace(self.wanted, ports=())

        self.refuse_start(exception.PortsUnknown, ports=ports)

    def test_running_lpar_with_rmc_gets_missing_adapter(self):
        self.wanted = dataclasses.replace(
            self.wanted, ports=(base.PORT, base.PORT2)
        )
        self.set_state(base.RUNNING, rmc_state='active')

        self.run_plan(START, self.wanted)

        self.assert_lpar(slots=[base.GPU], ports=[base.PORT, base.PORT2])
        self.assertEqual([], self.jobs)

    def test_running_lpar_without_rmc_runs_on(self):
        self.wanted = dataclasses.replace(
            self.wanted, ports=(base.PORT, base.PORT2)
        )

        self.failed(exception.RestError, START, self.wanted, 'RMC')

        self.assert_lpar(slots=[base.GPU])

    def test_failed_change_of_adapters_leaves_lpar_off(self):
        self.wanted = dataclasses.replace(
            self.wanted, ports=(base.PORT, base.PORT2)
        )
        self.set_state(base.OFF)
        self.control.add_fault(match='ClientNetworkAdapter.create', status=500)

        self.failed(exception.RestError, START, self.wanted)

        self.assert_lpar(base.OFF, slots=[base.GPU])


class RequestTest(StartTestCase):
    def test_start_with_device_sends_seven_requests(self):
        self.start()

        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET ClientNetworkAdapter.feed',
                # There may be a rescue disk.
                'GET VolumeGroup.read',
                # An interrupted reading may have taken its disk away.
                'GET VirtualIOServer.read',
                'PowerOn',
                'DELETE Job.delete',
                # A job can end well, and the LPAR fail.
                'GET LogicalPartition.quick',
            ],
            self.trail(),
        )


UNKNOWN = exception.PortsUnknown(instance_uuid=base.INSTANCE, reason='503')

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

"""PowerOn and PowerOff, through pypowervm's power tasks and jobs."""

from pypowervm import exceptions
from pypowervm.tasks import memory
from pypowervm.tasks import power
from pypowervm.tasks import power_opts
from pypowervm.wrappers import job
from pypowervm.wrappers import virtual_io_server as vios

from powervm_emulator.nouns.partition import operating_system

from . import base
from . import storage


def hard_off():
    """Return new options for an immediate power-off."""
    return power_opts.PowerOffOpts().vsp_hard()


class PowerTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.create(slots=base.GPUS[:1])

    def refresh(self):
        self.lpar = self.read(self.lpar.uuid)
        return self.lpar

    def test_power_on_and_off_change_state_and_free_memory(self):
        before = self.system().memory_free
        power.power_on(self.lpar, None)
        self.assertEqual('running', self.refresh().state)
        self.assertEqual('inactive', self.lpar.rmc_state)
        self.assertEqual(before - 2048 - 256, self.system().memory_free)
        power.power_off(self.lpar, None, force_immediate=True)
        self.assertEqual('not activated', self.refresh().state)
        self.assertEqual(before, self.system().memory_free)

    def test_progressive_power_off_without_rmc_skips_os_shutdown(self):
        power.power_on(self.lpar, None)
        power.power_off_progressive(self.refresh())
        self.assertEqual('not activated', self.refresh().state)
        self.assertNotIn('osshutdown', self.operations())

    def test_progressive_power_off_with_rmc_succeeds(self):
        power.power_on(self.lpar, None)
        self.control.set_partition('vm1', rmc_state='active')
        self.assertTrue(self.refresh().capabilities.io_dlpar)
        power.power_off_progressive(self.lpar)
        self.assertEqual('not activated', self.refresh().state)

    def operations(self):
        return [
            item['parameters'].get('operation') for item in self.control.jobs()
        ]

    def test_os_shutdown_fails_without_rmc(self):
        power.power_on(self.lpar, None)
        self.control.set_partition('vm1', rmc_state='active')
        seen = self.refresh()
        self.control.set_partition('vm1', rmc_state='inactive')
        with self.assertRaisesRegex(exceptions.VMPowerOffFailure, 'HSCL0DB4'):
            power.PowerOp.stop(
                seen, opts=power_opts.PowerOffOpts().os_normal()
            )

    def test_restart_keeps_lpar_running(self):
        power.power_on(self.lpar, None)
        free = self.system().memory_free
        dump = power_opts.PowerOffOpts().operation('dumprestart')
        for opts in (hard_off().restart(), dump):
            power.PowerOp.stop(self.refresh(), opts=opts)
            self.assertEqual('running', self.refresh().state)
            self.assertEqual(free, self.system().memory_free)

    def run_job(self, name, **parameters):
        template = self.adapter.read(
            'LogicalPartition',
            self.lpar.uuid,
            suffix_type='do',
            suffix_parm=name,
        )
        wrapper = job.Job.wrap(template)
        wrapper.run_job(
            self.lpar.uuid,
            job_parms=[
                wrapper.create_job_parameter(*item)
                for item in parameters.items()
            ],
        )

    def test_power_on_of_running_lpar_fails(self):
        self.run_job('PowerOn')
        with self.assertRaisesRegex(exceptions.JobRequestFailed, 'HSCL3681'):
            self.run_job('PowerOn')
        power.power_on(self.refresh(), None)

    def test_power_off_of_stopped_lpar_fails(self):
        with self.assertRaisesRegex(exceptions.JobRequestFailed, 'HSCL1558'):
            self.run_job('PowerOff', operation='shutdown')
        power.PowerOp.stop(self.lpar, opts=hard_off())
        with self.assertRaises(exceptions.VMPowerOffFailure):
            power.PowerOp.stop(self.lpar, opts=hard_off().restart())

    def test_os_shutdown_of_ibm_i_needs_no_rmc(self):
        created = self.create('ibmi', env='OS400')
        with self.assertRaisesRegex(
            exceptions.VMPowerOnFailure, 'no load source'
        ):
            power.power_on(created, None)
        created = self.read(created.uuid)
        created.io_config.tagged_io.load_src = 2
        created = created.update()
        power.power_on(created, None)
        seen = self.read(created.uuid)
        self.assertTrue(seen.can_modify_io()[0])
        power.PowerOp.stop(seen, opts=power_opts.PowerOffOpts().os_normal())
        self.assertEqual('not activated', self.read(created.uuid).state)

    def test_partition_stops_where_boot_mode_says(self):
        for mode in ('sms', 'of', 'norm'):
            with self.subTest(mode):
                power.power_on(self.lpar, None, add_parms={'bootmode': mode})
                state = 'running' if mode == 'norm' else 'open firmware'
                self.assertEqual(state, self.refresh().state)
                power.power_off(self.lpar, None, force_immediate=True)

    def test_management_partition_is_not_shut_down(self):
        partitions = self.control.state()['systems'][0]['partitions']
        (uuid,) = (p['uuid'] for p in partitions if p['name'] == 'novalink')
        found = self.read(uuid)
        for options in (hard_off(), hard_off().restart()):
            with self.assertRaisesRegex(
                exceptions.VMPowerOffFailure, 'manages the host'
            ):
                power.PowerOp.stop(found, opts=options)
        self.assertEqual('running', self.read(found.uuid).state)

    def test_unknown_operation_and_job_are_refused(self):
        with self.assertRaisesRegex(exceptions.JobRequestFailed, 'explode'):
            self.run_job('PowerOff', operation='explode')
        with self.assertRaises(exceptions.HttpNotFound):
            self.run_job('Explode')

    def assert_not_started(self, words):
        with self.assertRaisesRegex(exceptions.VMPowerOnFailure, words):
            power.power_on(self.lpar, None)
        self.assertEqual('not activated', self.refresh().state)

    def test_power_on_fails_without_required_slot(self):
        self.control.pull('21010020')
        self.assert_not_started('21010020, which is empty')
        self.control.plug('21010020', {'description': 'another'})
        self.control.set_owner('21010020', 'database', profiles=False)
        self.assert_not_started('21010020, which belongs to database')
        self.control.set_owner('21010020', 'vm1', profiles=False)
        power.power_on(self.lpar, None)
        power.power_off(self.lpar, None, force_immediate=True)
        self.control.pull('21010020', remove=True)
        self.assert_not_started('21010020, which is not there')

    def test_power_on_succeeds_without_optional_slot(self):
        other = self.create('vm2', slots=[base.NVME], required=False)
        self.control.pull('21010030', remove=True)
        power.power_on(other, None)
        self.assertEqual('running', self.read(other.uuid).state)
        # An update keeps the profile's values of a removed slot.
        self.control.set_partition('vm2', state='not activated')
        other = self.read(other.uuid)
        other.name = 'vm3'
        (slot,) = other.update().io_config.io_slots
        self.assertIn('NVMe', slot.description)

    def test_restarted_vios_has_active_rmc(self):
        (found,) = vios.VIOS.get(self.adapter)
        power.PowerOp.stop(found, opts=hard_off())
        power.PowerOp.start(found)
        self.assertEqual('active', vios.VIOS.get(self.adapter)[0].rmc_state)

    def test_finished_jobs_are_deleted_by_pypowervm(self):
        power.power_on(self.lpar, None)
        self.assertEqual([], self.control.jobs())

    def test_memory_overhead_is_computed(self):
        overhead, free = memory.calculate_memory_overhead_on_host(
            self.adapter,
            self.system().uuid,
            reserved_mem_data={'desired_mem': 1024, 'max_mem': 32768},
        )
        self.assertEqual(768, overhead)
        self.assertEqual(self.system().memory_free, free)


class ManualJobTest(base.EmulatorTestCase):
    """Jobs that are advanced by the control plane and read one at a time."""

    def setUp(self):
        super().setUp()
        self.lpar = self.create()
        self.control.set_job_mode('manual')

    def submit(self, operation):
        path = {'root_type': 'LogicalPartition', 'root_id': self.lpar.uuid}
        template = self.adapter.read(
            **path, suffix_type='do', suffix_parm=operation
        )
        request = template.entry.element
        return job.Job.wrap(self.adapter.create_job(request, **path))

    def cancel(self, started):
        path = {'root_type': 'jobs', 'root_id': started.job_id}
        self.adapter.update(None, None, **path, suffix_type='cancel')

    def status(self, job_id):
        wrapper = job.Job.wrap(self.adapter.read_job(job_id))
        return wrapper.job_status, wrapper.get_job_message()

    def state(self):
        return self.read(self.lpar.uuid).state

    def test_power_on_job_moves_step_by_step(self):
        started = self.submit('PowerOn')
        self.assertEqual('NOT_STARTED', started.job_status)
        self.assertEqual('not activated', self.state())
        (moved,) = self.control.advance_jobs()
        self.assertEqual('RUNNING', moved['status'])
        self.assertEqual('starting', self.state())
        self.control.advance_jobs(started.job_id)
        self.assertEqual(('COMPLETED_OK', ''), self.status(started.job_id))
        self.assertEqual('running', self.state())
        self.assertEqual([], self.control.advance_jobs())
        self.adapter.delete('jobs', started.job_id)
        with self.assertRaises(exceptions.HttpNotFound):
            self.status(started.job_id)

    def test_power_off_job_moves_step_by_step(self):
        self.control.set_partition('vm1', state='running')
        started = self.submit('PowerOff')
        self.control.advance_jobs()
        self.assertEqual('shutting down', self.state())
        self.control.advance_jobs(to_end=True)
        self.assertEqual('not activated', self.state())
        self.assertEqual('COMPLETED_OK', self.status(started.job_id)[0])

    def test_cancelled_power_on_leaves_lpar_off_and_its_memory_free(self):
        free = self.system().memory_free
        started = self.submit('PowerOn')
        self.control.advance_jobs()
        self.cancel(started)
        status, _ = self.status(started.job_id)
        self.assertEqual('CANCELED_WHILE_RUNNING', status)
        self.assertEqual('not activated', self.state())
        self.assertEqual(free, self.system().memory_free)
        # Also if the partition is deleted.
        started = self.submit('PowerOn')
        self.control.advance_jobs()
        self.control.set_partition('vm1', state='not activated')
        self.read(self.lpar.uuid).delete()
        self.cancel(started)
        self.assertEqual(free, self.system().memory_free)

    def advance(self):
        """Finish all jobs; return the status of the last one."""
        return self.control.advance_jobs(to_end=True)[-1]['status']

    def test_job_fails_if_partition_is_deleted_before_it_starts(self):
        free = self.system().memory_free
        started = self.submit('PowerOn')
        self.lpar.delete()
        self.assertEqual('FAILED_BEFORE_COMPLETION', self.advance())
        self.assertEqual(free, self.system().memory_free)
        self.assertIn('gone', self.status(started.job_id)[1])

    def test_job_fails_if_partition_is_replaced_while_it_runs(self):
        free = self.system().memory_free
        self.submit('PowerOn')
        self.control.advance_jobs()
        self.control.set_job_mode('immediate')
        power.PowerOp.stop(self.read(self.lpar.uuid), opts=hard_off())
        self.read(self.lpar.uuid).delete()
        # The job is about the first partition with this uuid.
        self.create('vm2', uuid=self.lpar.uuid)
        self.assertEqual('FAILED_BEFORE_COMPLETION', self.advance())
        self.assertEqual('not activated', self.state())
        self.assertEqual(free, self.system().memory_free)

    def test_job_fails_if_state_changed_meanwhile(self):
        for operation, begin, state in (
            ('PowerOn', 'not activated', 'not activated'),
            ('PowerOff', 'running', 'error'),
        ):
            with self.subTest(operation):
                self.control.set_partition('vm1', state=begin)
                self.submit(operation)
                self.control.advance_jobs()
                self.control.set_partition('vm1', state=state)
                self.assertEqual('COMPLETED_WITH_ERROR', self.advance())
                self.assertEqual(state, self.state())

    def test_delete_refuses_running_job(self):
        started = self.submit('PowerOn')
        self.control.advance_jobs()
        self.assert_refused(
            500, 'is running', self.adapter.delete, 'jobs', started.job_id
        )

    def test_planned_job_failure_is_reported_once(self):
        self.control.plan_job('PowerOn', 'the firmware says no')
        started = self.submit('PowerOn')
        self.control.advance_jobs(to_end=True)
        self.assertEqual(
            ('COMPLETED_WITH_ERROR', 'the firmware says no'),
            self.status(started.job_id),
        )
        self.assertEqual('not activated', self.state())
        self.control.set_job_mode('immediate')
        power.power_on(self.lpar, None)
        self.assertEqual('running', self.state())

    def test_job_that_ends_well_can_leave_partition_in_error(self):
        """An HMC answered so where the memory was not to be had."""
        self.control.plan_job('PowerOn', '', 'COMPLETED_OK', 'error')
        self.control.set_job_mode('immediate')

        power.power_on(self.lpar, None)

        lpar = self.read(self.lpar.uuid)
        self.assertEqual('error', lpar.state)
        self.assertEqual(f'B2001230 LP={lpar.id:05d}', lpar.ref_code)


class OperatingSystemTest(storage.StorageTestCase):
    def booted(self, *contents):
        """Start an LPAR with disks; return it without and with RMC."""
        lpar = self.create()
        for number, data in enumerate(contents):
            disk = self.disk(f'disk{number}')
            if data:
                self.upload(self.file(disk.udid), data)
            self.map(lpar, disk)
        power.power_on(lpar, None)
        before = self.read(lpar.uuid)
        self.control.set_partition(lpar.uuid, rmc_state='active')
        return before, self.read(lpar.uuid)

    def test_disk_of_aix_boots_aix(self):
        aix = operating_system.AIX_RECORD + b' and the rest'
        for first in ((), (b'',)):
            with self.subTest(first=first):
                self.control.reset()

                before, after = self.booted(*first, aix, b'Linux')

                self.assertFalse(before.ref_code)
                self.assertEqual('Unknown', before.operating_system)
                self.assertTrue(after.operating_system.startswith('AIX 7.'))

                power.power_off(after, None, force_immediate=True)
                off = self.read(after.uuid)
                self.assertEqual(after.operating_system, off.operating_system)
                self.assertEqual('00000000', off.ref_code)

    def test_any_other_disk_boots_linux(self):
        for contents in ((), (b'Linux', operating_system.AIX_RECORD)):
            with self.subTest(contents=contents):
                self.control.reset()

                before, after = self.booted(*contents)

                self.assertEqual('Linux ppc64le', before.ref_code)
                self.assertEqual('Unknown', before.operating_system)
                self.assertTrue(after.operating_system.startswith('Linux/'))

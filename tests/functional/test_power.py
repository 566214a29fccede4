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

"""Power operations, and what the driver reports about instances."""

import time

from nova import context as nova_context
from nova import utils

from nova_powervm.ops import stopped_lpars
from tests.functional import base


class PowerTest(base.PowerVMTestCase):
    """Stop, start, reboot and delete through Nova's API."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def prepare(self):
        """Boot a server with a device."""
        self.server = self.boot(base.gpu_groups(1))
        self.control().clear_journal()

    def test_power_actions_reach_expected_state(self):
        self.tell_stories()

    def story_stop_and_start_keep_slots(self):
        slots = self.lpar(self.server).slots

        self._stop_server(self.server)
        self.assertEqual('not activated', self.lpar(self.server).state)
        self.assertEqual(slots, self.lpar(self.server).slots)

        self._start_server(self.server)
        self.assertEqual('running', self.lpar(self.server).state)
        self.assertEqual(slots, self.lpar(self.server).slots)

    def story_guest_that_shuts_down_is_shown_as_stopped(self):
        self.stub_out(f'{stopped_lpars.__name__}.SETTLE_SECONDS', 0.3)
        name = self.lpar(self.server).name

        self.control().set_partition(name, state='not activated')

        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.assertEqual('not activated', self.lpar(self.server).state)

    def story_guest_that_restarts_keeps_running(self):
        self.stub_out(f'{stopped_lpars.__name__}.SETTLE_SECONDS', 1.0)
        name = self.lpar(self.server).name

        self.control().set_partition(name, state='not activated')
        self.wait_until_read('LogicalPartition.feed')
        self.control().set_partition(name, state='running')

        time.sleep(1.5)
        self.assertEqual('running', self.lpar(self.server).state)
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])

    def wait_until_read(self, label):
        for _ in range(500):
            if any(r['label'] == label for r in self.control().journal()):
                return
            time.sleep(0.02)
        self.fail(f'{label} was not read')

    def story_soft_reboot_is_one_job(self):
        self._reboot_server(self.server)

        self.assertEqual('running', self.lpar(self.server).state)
        self.assertEqual(['PowerOff'], self.jobs())

    def story_failed_soft_reboot_becomes_hard_reboot(self):
        self.control().plan_job('PowerOff', 'the guest does not listen')

        self._reboot_server(self.server)

        self.assertEqual('running', self.lpar(self.server).state)
        self.assertEqual(['PowerOff', 'PowerOff'], self.jobs())

    def story_hard_reboot_of_running_server_is_one_job(self):
        self._reboot_server(self.server, hard=True)

        self.assertEqual('running', self.lpar(self.server).state)
        self.assertEqual(['PowerOff'], self.jobs())

    def story_hard_reboot_of_stopped_server_starts_it(self):
        self._stop_server(self.server)
        self.control().clear_journal()

        self._reboot_server(self.server, hard=True)

        self.assertEqual('running', self.lpar(self.server).state)
        self.assertEqual(['PowerOn'], self.jobs())

    def story_delete_of_stopped_server_runs_no_job(self):
        self._stop_server(self.server)
        self.control().clear_journal()

        self._delete_server(self.server)

        self.assertIsNone(self.lpar(self.server))
        self.assertEqual([], self.jobs())

    def story_soft_deleted_server_is_off_until_restored(self):
        with self.flagged(reclaim_instance_interval=3600):
            self.api.delete_server(self.server['id'])
            self._wait_for_state_change(self.server, 'SOFT_DELETED')
            self.assertEqual('not activated', self.lpar(self.server).state)

            self.api.post_server_action(self.server['id'], {'restore': {}})

            self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual('running', self.lpar(self.server).state)

    def story_cleanup_stops_lpar_of_deleted_record(self):
        # Nova deletes the record while the host can't be reached.
        self.instance(self.server).destroy()
        context = nova_context.get_admin_context()
        manager = self.computes['host1'].manager

        with self.flagged(
            running_deleted_instance_action='shutdown',
            running_deleted_instance_timeout=0,
        ):
            manager._cleanup_running_deleted_instances(context)

        self.assertEqual('not activated', self.lpar(self.server).state)
        self.assertNotIn('Failed to power off instance', self.logged())

    def story_power_sync_stops_lpar_recorded_as_stopped(self):
        instance = self.instance(self.server)
        instance.vm_state = 'stopped'
        instance.save()
        context = nova_context.get_admin_context()

        self.computes['host1'].manager._sync_power_states(context)

        self.wait_until_off()

    def wait_until_off(self):
        for _ in range(300):
            if self.lpar(self.server).state == 'not activated':
                return
            time.sleep(0.05)
        self.assertEqual('not activated', self.lpar(self.server).state)


class InstanceRecordsTest(base.PowerVMTestCase):
    """Instances and host details that the driver reports."""

    def setUp(self):
        super().setUp()
        self.compute = self.start_host()
        self.driver = self.compute.manager.driver

    def test_driver_lists_instances_of_nova_records(self):
        servers = [self.boot({}) for _ in range(3)]

        self.assertEqual(
            sorted(server['id'] for server in servers),
            self.driver.list_instance_uuids(),
        )
        self.assertEqual(3, self.driver.get_num_instances())
        self.assertEqual(
            {server['OS-EXT-SRV-ATTR:instance_name'] for server in servers},
            set(self.driver.list_instances()),
        )

    def test_lpar_of_deleted_record_stays_known(self):
        server = self.boot({})
        # Nova deletes the record while the host can't be reached.
        self.instance(server).destroy()

        self.assertEqual([server['id']], self.driver.list_instance_uuids())

    def test_instance_exists_while_its_lpar_does(self):
        server = self.boot({})
        instance = self.instance(server)
        self.assertTrue(self.driver.instance_exists(instance))

        self.driver.destroy(None, instance, [])

        self.assertFalse(self.driver.instance_exists(instance))

    def test_hypervisor_details_show_host_capacity(self):
        self.boot({}, memory_mb=1024)
        self._run_periodics()

        with self.microversion_of_details():
            (hypervisor,) = self.api.api_get('/os-hypervisors/detail').body[
                'hypervisors'
            ]

        self.assertEqual('host1', hypervisor['hypervisor_hostname'])
        self.assertEqual('phyp', hypervisor['hypervisor_type'])
        self.assertEqual(32, hypervisor['vcpus'])
        self.assertEqual(262144, hypervisor['memory_mb'])

    def test_uptime_is_that_of_management_partition(self):
        self.assertRegex(
            self.driver.get_host_uptime(),
            # The openstack client parses this form.
            r'^(.+)\sup\s+12 days,  3:06,\s+(.+)\susers?,'
            r'\s+load average:\s(.+),\s(.+),\s(.+)$',
        )

    def microversion_of_details(self):
        # Later microversions omit the numbers.
        return utils.temporary_mutation(self.api, microversion='2.87')

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

from nova import context as nova_context
from nova import utils

from nova_powervm.ops import watch
from tests import proofs
from tests.functional import base


class PowerTest(base.PowerVMTestCase):
    """One server with a device for all stories, and what Nova knows of it."""

    def setUp(self):
        super().setUp()
        self.driver = self.start_host().manager.driver
        self.server = self.boot(base.gpu_groups(1))
        # Keep the server for all stories.
        self._booted.clear()

    def prepare(self):
        """Have the server run."""
        if self.lpar(self.server).state != 'running':
            self._start_server(self.server)
        self.control().clear_journal()

    def test_power_actions_reach_expected_state(self):
        self.tell_stories()

    def assert_state(self, state, server=None):
        """Assert the state of a server's LPAR."""
        self.assertEqual(state, self.lpar(server or self.server).state)

    @proofs.proves('operation.get-guest-info')
    def story_stop_and_start_keep_slots(self):
        slots = self.lpar(self.server).slots

        self._stop_server(self.server)
        self.assert_state('not activated')
        self.assertEqual(slots, self.lpar(self.server).slots)

        self._start_server(self.server)
        self.assert_state('running')
        self.assertEqual(slots, self.lpar(self.server).slots)

    @proofs.proves('operation.reboot')
    def story_soft_reboot_is_one_job(self):
        self._reboot_server(self.server)

        self.assert_state('running')
        self.assertEqual(['PowerOff'], self.jobs())

    def dump(self):
        """Request a crash dump; return the event of it once it has ended."""
        self.api.post_server_action(
            self.server['id'], {'trigger_crash_dump': None}
        )
        action = self.api.get_instance_actions(self.server['id'])[0]
        self.assertEqual('trigger_crash_dump', action['action'])

        def find_event():
            events = self.api.get_instance_action_details(
                self.server['id'], action['request_id']
            )['events']
            return next((e for e in events if e['finish_time']), None)

        return self.await_found(find_event, 'the crash dump has no end')

    @proofs.proves('operation.trigger-crash-dump')
    def story_crash_dump_restarts_guest_with_its_slots(self):
        slots = self.lpar(self.server).slots

        event = self.dump()

        self.assertEqual('Success', event['result'], event)
        self.assertEqual(['PowerOff'], self.jobs())
        self.assert_state('running')
        self.assertEqual(slots, self.lpar(self.server).slots)

    @proofs.proves('operation.trigger-crash-dump')
    def story_crash_dump_of_stopped_guest_fails(self):
        name = self.lpar(self.server).name
        self.control().set_partition(name, state='not activated')

        event = self.dump()

        self.assertEqual('Error', event['result'])
        self.assertIn('is not running', event['details'])
        self.assertEqual([], self.jobs())
        self._stop_server(self.server)

    def story_diagnostics_until_2_47_describe_lpar(self):
        lpar = self.lpar(self.server)
        with utils.temporary_mutation(self.api, microversion='2.47'):
            found = self.api.api_get(
                f'/servers/{self.server["id"]}/diagnostics'
            ).body

        expected = {
            'io_slots': [f'{slot:08X}' for slot in lpar.slots],
            'max_mem': 512,
            'memory_mb': 512,
            'proc_units': 0.1,
            'reference_code': 'Linux ppc64le',
            'state': 'running',
            'vcpus': 1,
        }
        self.assertEqual(expected, {key: found[key] for key in expected})

    def story_failed_start_and_failed_lpar_show_reference_code(self):
        self._stop_server(self.server)
        name = self.lpar(self.server).name
        code = {'reference_code': 'BA210000'}
        self.control().set_partition(name, 'not activated', **code)
        self.control().add_fault(match='LogicalPartition.job', status=400)

        self.api.post_server_action(self.server['id'], {'os-start': None})

        event = self._wait_for_instance_action_event(
            self.server, 'start', 'compute_start_instance', 'error'
        )
        self.assertIn('reference code BA210000', event['details'])
        self.control().set_partition(name, 'error', **code)
        self.driver.get_info(self.instance(self.server))
        self.assertIn('has failed (reference code BA210000)', self.logged())
        self._start_server(self.server)

    def story_guest_that_shuts_down_is_shown_as_stopped(self):
        self.stub_out(f'{watch.__name__}.SETTLE_SECONDS', 0.3)
        name = self.lpar(self.server).name

        self.control().set_partition(name, state='not activated')

        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.assert_state('not activated')

    def story_soft_deleted_server_is_off_until_restored(self):
        with self.flagged(reclaim_instance_interval=3600):
            self.api.delete_server(self.server['id'])
            self._wait_for_state_change(self.server, 'SOFT_DELETED')
            self.assert_state('not activated')

            self.api.post_server_action(self.server['id'], {'restore': {}})

            self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_state('running')

    def story_lpar_of_deleted_record_stays_known_until_it_is_removed(self):
        server = self.boot({})
        instance = self.instance(server)
        servers = [self.server, server]
        # Nova deletes the record while the host can't be reached.
        self.instance(server).destroy()

        self.assertEqual(
            sorted(each['id'] for each in servers),
            self.driver.list_instance_uuids(),
        )
        self.assertEqual(2, self.driver.get_num_instances())
        self.assertEqual(
            {each['OS-EXT-SRV-ATTR:instance_name'] for each in servers},
            set(self.driver.list_instances()),
        )
        with self.flagged(
            running_deleted_instance_action='shutdown',
            running_deleted_instance_timeout=0,
        ):
            self.computes['host1'].manager._cleanup_running_deleted_instances(
                nova_context.get_admin_context()
            )
        self.assert_state('not activated', server)
        self.assertNotIn('Failed to power off instance', self.logged())

        self.assertTrue(self.driver.instance_exists(instance))
        self.driver.destroy(None, instance, [])
        self.assertFalse(self.driver.instance_exists(instance))

    @proofs.proves('operation.get-host-uptime')
    def story_hypervisor_details_show_capacity_and_uptime_of_host(self):
        self._run_periodics()

        # Later microversions omit the numbers.
        with utils.temporary_mutation(self.api, microversion='2.87'):
            (hypervisor,) = self.api.api_get('/os-hypervisors/detail').body[
                'hypervisors'
            ]

        self.assertEqual('host1', hypervisor['hypervisor_hostname'])
        self.assertEqual('phyp', hypervisor['hypervisor_type'])
        self.assertEqual(32, hypervisor['vcpus'])
        self.assertEqual(262144, hypervisor['memory_mb'])
        self.assertRegex(
            self.driver.get_host_uptime(),
            # The openstack client parses this form.
            r'^(.+)\sup\s+12 days,  3:06,\s+(.+)\susers?,'
            r'\s+load average:\s(.+),\s(.+),\s(.+)$',
        )

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

"""Failures and outages as users of Nova's API see them.

What the host is left with after a failure at each request is tested in
``tests/ops/test_faults.py`` and ``tests/ops/test_kills.py``.
"""

import threading
import time

import os_traits
from nova import context as nova_context
from nova.compute import power_state
from nova.compute import task_states
from nova.compute import vm_states

from nova_powervm.ops import watch
from nova_powervm.powervm import events
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from tests import proofs
from tests.functional import base
from tests.functional import complete_servers


class FailureTest(complete_servers.CompleteServerTestCase):
    """A host that fails, and that others have resources on."""

    def setUp(self):
        super().setUp()
        # Nova takes the server for running while the tests stop and start it.
        self.stub_out(f'{watch.__name__}.StoppedLpars.check', lambda *_: None)
        self.flags(max_attempts=1, group='scheduler')
        self.start_shared_host()

    def test_failures_leave_nothing(self):
        self.tell_stories()

    def assert_no_trace(self, server):
        """Assert that a server has neither resources nor allocations."""
        self.assert_nothing_left()
        self.wait_until_unallocated(server)

    def story_tenant_reads_nothing_of_the_host_of_a_failed_build(self):
        """Before, the fault quoted the host, and named others' LPARs."""
        words = 'HSCL12F0 The slot is used by partition payroll.'
        self.control().add_fault(
            match='VirtualIOServer.update', status=500, message=words
        )

        server, _ = self.boot_complete_server()

        self.assertEqual('ERROR', server['status'])
        fault = self.fault(server)
        self.assertRegex(
            fault, r'The host refuses this\. \(log: req-[0-9a-f-]{36}\)'
        )
        for private in ('payroll', 'http', 'vios1', 'HSCL', 'LPAR'):
            self.assertNotIn(private, fault)
        (line,) = [
            line
            for line in self.logged().splitlines()
            if 'Users read' in line and fault[-42:] in line
        ]
        self.assertIn(words, line)
        self.assert_no_trace(server)

    def story_killed_build_ends_in_error_after_restart(self):
        server = self.kill_build()
        self.assertEqual('not activated', self.lpar(server).state)

        self.restart_host()

        server = self.api.get_server(server['id'])
        self.assertEqual('ERROR', server['status'])
        self._delete_server(server)
        self.assert_no_trace(server)

    def kill_build(self):
        """Leave a server as a nova-compute leaves it that is killed."""
        # Neither are the disks attached nor is the LPAR removed.
        for label in ('VirtualIOServer.read', 'LogicalPartition.delete'):
            self.control().add_fault(match=label, every=True, drop=True)
        server, _ = self.boot_complete_server()
        self.control().clear_faults()
        # Undo what a killed nova-compute would not have written.
        instance = self.instance(server)
        instance.vm_state = vm_states.BUILDING
        instance.task_state = task_states.SPAWNING
        node = self.computes['host1'].manager.rt.compute_nodes['host1']
        instance.host = instance.node = 'host1'
        instance.compute_id = node.id
        instance.save()
        return server

    def story_build_moves_to_other_host_after_failure(self):
        self.flags(max_attempts=2, group='scheduler')
        self.start_host('host2')
        self.control('host1').add_fault(
            match='LogicalPartition.create', status=500, every=True
        )

        # One of them at least is built on the first host at first.
        for _ in range(2):
            server = self.boot(base.gpu_groups(1))
            self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
            self.assertIsNone(self.lpar(server, 'host1'))
        (fault,) = self.control('host1').faults()
        self.assertGreater(fault['applied'], 0)
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(service['id'], {'status': 'disabled'})


#: The emulator lets a request go when it stops, at the latest.
FOR_EVER = 600
#: In the seconds that the host may be silent; a person would wait for it.
SECONDS = 15


class OutageTest(base.PowerVMTestCase):
    """Instances and devices keep their state during an outage."""

    def setUp(self):
        super().setUp()
        self.compute = self.start_host()
        self.context = nova_context.get_admin_context()
        self.server = self.boot(base.gpu_groups(1))
        self.name = self.server['OS-EXT-SRV-ATTR:instance_name']
        # All stories have it.
        self._booted.clear()

    def test_instances_and_devices_survive_outages(self):
        self.tell_stories()
        self.lose_all_slots()

    def sync(self):
        """Run Nova's periodic comparison of power states."""
        instance = self.instance(self.server)
        self.compute.manager._query_driver_power_state_and_sync(
            self.context, instance
        )
        return self.instance(self.server).power_state

    def become(self, state):
        self.control().set_partition(self.name, state)

    @proofs.proves('operation.get-guest-info')
    def story_unknown_power_state_stays_as_recorded(self):
        for fault in ({'status': 500}, {'drop': True}):
            with self.subTest('fault', **fault):
                self.control().add_fault(
                    match='LogicalPartition.quick', every=True, **fault
                )
                self.assertEqual(power_state.RUNNING, self.sync())
                self.control().clear_faults()
        for state in ('not available', 'Unknown'):
            with self.subTest(state):
                self.become(state)
                self.assertEqual(power_state.RUNNING, self.sync())
        self.become('running')

    def words(self):
        return ' '.join(self.logged().split())

    def story_silent_host_does_not_block_periodic_tasks_or_stop(self):
        self.compute = self.restart_host(rest_read_timeout=1)
        before = self.threads()
        self.control().add_fault(match='.', every=True, delay=FOR_EVER)
        started = time.monotonic()

        for _ in range(2):
            self.assertEqual(power_state.RUNNING, self.sync())
            self.compute.manager.periodic_tasks(self.context)

        # At most as many as Nova's pools for these tasks have.
        self.assertLess(len(self.threads() - before), 10)
        self.stub_out(f'{session.__name__}.PARTING_SECONDS', 1)
        self.stub_out(f'{events.__name__}._STOP_SECONDS', 1)
        self.compute.manager.driver.cleanup_host('host1')
        self.assertLess(time.monotonic() - started, 2 * SECONDS)
        self.control().clear_faults()
        self.compute = self.restart_host(rest_read_timeout=30)

    def lose_all_slots(self):
        """Let the host report no slots; one that is in use is withdrawn."""
        (used,) = self.allocated_slots(self.server)
        before = self.slot_providers()
        (found,) = self.control().state()['systems']
        for slot in found['slots']:
            self.control().pull(slot['drc_index'], remove=True)

        self._run_periodics()

        self.assertIn('reports any of its 14 I/O slots', self.words())
        self.assertEqual(before.keys(), self.slot_providers().keys())
        refused = self.boot(base.gpu_groups(1), expected='ERROR')
        self.assertIsNone(self.lpar(refused))
        self._delete_server(refused)

        # Some cycles later
        self.stub_out(f'{system.__name__}.DOUBT_SECONDS', 0)
        self._run_periodics()
        self._run_periodics()
        self.assertIn('are treated as removed', self.words())
        self.assertEqual({used}, self.slot_providers().keys())
        traits = self._get_provider_traits(before[used]['uuid'])
        self.assertIn('CUSTOM_POWERVM_WITHDRAWN', traits)
        self.assertIn(os_traits.OWNER_NOVA, traits)

        # The slots come back without any action.
        self._delete_server(self.server)
        self.control().reset()
        self._run_periodics()
        self._run_periodics()
        self.assertEqual(before.keys(), self.slot_providers().keys())

    @staticmethod
    def threads():
        """Return the threads that are not the emulator's."""
        return {
            thread
            for thread in threading.enumerate()
            if 'process_request' not in thread.name
        }

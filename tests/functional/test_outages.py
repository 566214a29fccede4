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

"""Hosts that don't answer, hang or do not know the state of an LPAR."""

import threading
import time

import os_traits
from nova import context as nova_context
from nova.compute import power_state

from nova_powervm.powervm import events
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from tests import proofs
from tests.functional import base

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

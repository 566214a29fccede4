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

"""An LPAR has exactly its instance's slots when it is started."""

import re
import shlex
import time

import fixtures
from nova.compute import task_states
from osc_placement.resources import allocation

from nova_powervm.powervm import partitions
from tests.functional import base
from tests.functional import images


class AttachedSlotsTestCase(base.PowerVMTestCase):
    """Provides one host and a server with one GPU."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.server = self.boot(base.gpu_groups(1))
        (self.index,) = self.allocated_slots(self.server)

    def change_owner(self, index=None, owner=None):
        """Change the owner of a slot outside Nova."""
        self.control().set_owner(f'{index or self.index:08X}', owner)

    def assert_exact(self, state='running'):
        """Assert that the server's LPAR has exactly its slot."""
        lpar = self.lpar(self.server)
        self.assertEqual(state, lpar.state)
        self.assertEqual({self.index: True}, lpar.slots)

    def unused_slot(self):
        """Return a slot that has no owner."""
        return min(set(self.slot_providers()) - {self.index})

    def request_action(self, **action):
        """Request a server action."""
        self.api.post_server_action(self.server['id'], action)

    def wait_for_failed_action(self, action, event, *words):
        """Wait until an action has failed, and its words are in the log."""
        self._wait_for_action_fail_completion(
            self.server, action, f'compute_{event}_instance'
        )
        # Nova logs the error after it has recorded the action's end.
        for _ in range(100):
            if all(word in self.stdlog.logger.output for word in words):
                return
            time.sleep(0.05)
        for word in words:
            self.assertIn(word, self.stdlog.logger.output)

    def after_host_boot(self):
        """Stop the LPARs as a host boot does, and restart nova-compute."""
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()


class MissingSlotTest(AttachedSlotsTestCase):
    """A lost slot that is free is assigned to its LPAR again."""

    def test_reboot_start_and_rebuild_reassign_lost_slot(self):
        self.change_owner()
        self._reboot_server(self.server, hard=True)
        self.assert_exact()
        self.assertIn('lacks', self.stdlog.logger.output)

        self.change_owner()
        self._reboot_server(self.server)
        self.assert_exact()

        self._stop_server(self.server)
        self.change_owner()
        self._start_server(self.server)
        self.assert_exact()

        self._rebuild_server(self.server, self.image)
        self.assert_exact()

    def test_host_boot_reassigns_lost_slot(self):
        self.change_owner()

        # Nova calls before the provider tree was updated once.
        self.after_host_boot()

        self.assert_exact()
        self.assertIn(f'{self.index:08X}', self.stdlog.logger.output)

    def test_restart_of_nova_compute_logs_lost_slot(self):
        self.restart_host()
        self.assertNotIn('does not have them', self.stdlog.logger.output)
        self.change_owner()

        self.restart_host()

        self.assertRegex(
            self.stdlog.logger.output,
            rf'ERROR.*{self.server["id"]} was allocated the slots '
            rf'{self.index:08X}',
        )

    def test_restart_of_nova_compute_finishes_interrupted_delete(self):
        # Nova calls destroy before the provider tree was updated once.
        instance = self.instance(self.server)
        instance.task_state = task_states.DELETING
        instance.save()

        self.restart_host()

        self.assertIsNone(self.lpar(self.server))
        self.assertIsNone(self.slot_owner(self.index))

    def test_start_fails_if_other_partition_owns_slot(self):
        self.change_owner(owner=self.lpar_named('archive').uuid)
        self.request_action(reboot={'type': 'HARD'})
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertIn(
            f'slot {self.index:08X} was allocated to it but it cannot be '
            'used: it is owned by partition archive',
            self.stdlog.logger.output,
        )
        lpar = self.lpar(self.server)
        # It was not stopped, since it could not be started again.
        self.assertEqual('running', lpar.state)

        self._stop_server(self.server)
        self.request_action(**{'os-start': None})

        self.wait_for_failed_action('start', 'start', f'{self.index:08X}')
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({}, lpar.slots)


class SurplusSlotTest(AttachedSlotsTestCase):
    """A slot that was added outside Nova is an error and is not offered."""

    def test_start_fails_with_surplus_slot_that_is_withheld(self):
        self._stop_server(self.server)
        spare = self.unused_slot()
        self.change_owner(spare, self.lpar(self.server).uuid)

        self.request_action(**{'os-start': None})

        self.wait_for_failed_action(
            'start', 'start', f'slot {spare:08X} was not asked for'
        )
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({self.index, spare}, set(lpar.slots))

        # A boot of the host does not start it either.
        self.after_host_boot()
        self.assertEqual('not activated', self.lpar(self.server).state)

        # A slot held without allocation is not offered.
        self._run_periodics()
        self.assertNotIn(spare, self.slot_providers())
        self.change_owner(spare)
        self._run_periodics()
        self.assertIn(spare, self.slot_providers())

    def test_slot_that_is_added_during_reboot_is_not_lost(self):
        spare = self.unused_slot()
        self.change_owner()
        real = partitions.RestPartitions.power_off

        def stop_and_add(lpars, lpar, **options):
            real(lpars, lpar, **options)
            self.change_owner(spare, lpar.uuid)

        self.stub_out(
            f'{partitions.__name__}.RestPartitions.power_off', stop_and_add
        )

        self._reboot_server(self.server, hard=True, expected_state='ERROR')

        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({spare}, set(lpar.slots))
        self.assertIn(
            'meanwhile, so nothing was changed', self.stdlog.logger.output
        )


class LostAllocationTest(AttachedSlotsTestCase):
    """A slot that an LPAR holds without allocation is not offered."""

    def setUp(self):
        super().setUp()
        # Without a reason no new plan is made after this cycle.
        self._run_periodics()
        self.held = self._get_allocations_by_server_uuid(self.server['id'])

    def test_slot_is_withheld_after_allocation_cannot_be_restored(self):
        client = self.computes['host1'].manager.reportclient
        image = self.create_image(images.qcow2(1024), disk_format='raw')
        with fixtures.MockPatchObject(
            client, 'put_allocations', lambda *args: False
        ):
            self.refuse_rebuild(self.server, image)
        self.wait_until_unallocated(self.server)
        command = re.search(
            'recreated. Run `(.*)`', self.stdlog.logger.output
        )[1]
        self._run_periodics()
        self._run_periodics()

        self.assertNotIn(self.index, self.slot_providers())
        self.assert_exact()
        self.assertIn(
            'its instance has no allocation', self.stdlog.logger.output
        )
        self._run_periodics()
        self.restart_host()
        self._run_periodics()
        self.assertNotIn(self.index, self.slot_providers())
        self.assert_the_command_names_what_was_allocated(command)

        self._delete_server(self.server)
        self._run_periodics()
        self.assertIn(self.index, self.slot_providers())

    def assert_the_command_names_what_was_allocated(self, command):
        """Parse the command as its client does."""
        words = shlex.split(command)
        found = allocation.parse_allocations(
            words[number + 1]
            for number, word in enumerate(words)
            if word == '--allocation'
        )
        self.assertEqual(self.server['id'], words[-1])
        self.assertEqual(
            {uuid: held['resources'] for uuid, held in self.held.items()},
            found,
        )

    def test_failed_stop_in_rebuild_keeps_allocation(self):
        self.control().add_fault(
            match='LogicalPartition.job', status=500, every=True
        )
        reason = self.refuse_rebuild(
            self.server, self.create_image(b'another image')
        )
        self.control().clear_faults()
        self.assertIn('stopping LPAR', reason)
        self._run_periodics()

        self.assertEqual(
            'ACTIVE', self.api.get_server(self.server['id'])['status']
        )
        self.assertEqual([self.index], self.allocated_slots(self.server))
        self.assertIn(self.index, self.slot_providers())
        self.assert_exact()

    def test_slot_is_withheld_after_operator_deletes_allocation(self):
        self.placement.delete(f'/allocations/{self.server["id"]}')
        self._run_periodics()
        self._run_periodics()

        self.assertNotIn(self.index, self.slot_providers())
        self.assert_exact()

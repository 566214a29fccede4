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

"""What the page admin/hosts says, beside its commands."""

import textwrap

from nova import context as nova_context

from nova_powervm.devices import names
from tests.functional import base
from tests.functional import test_commands
from tests.unit.docs import pages

_NVME = {
    'description': 'NVMe',
    'vendor_id': '144D',
    'device_id': 'A821',
    'class': '0108',
}


class HostTaskTest(test_commands.CommandTestCase):
    """One host, and a server with a device."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_operators_of_hosts_get_what_the_page_promises(self):
        self.tell_stories()

    def prepare(self):
        """Boot a server with a GPU."""
        self.server = self.boot(base.gpu_groups(1))
        (self.slot,) = self.allocated_slots(self.server)
        self.index = f'{self.slot:08X}'

    def assert_runs_with_slot(self):
        """Assert that the server's LPAR is running with its slot."""
        lpar = self.lpar(self.server)
        self.assertEqual(
            ('running', {self.slot: True}), (lpar.state, lpar.slots)
        )

    def story_server_starts_with_new_card_in_its_slot(self):
        self._stop_server(self.server)
        self.control().pull(self.index)
        self._run_periodics()
        self.assertIn('CUSTOM_POWERVM_WITHDRAWN', self.traits())
        self.plug_gpu(self.index)

        self._start_server(self.server)

        self.assert_runs_with_slot()
        self._run_periodics()
        self.assertNotIn('CUSTOM_POWERVM_WITHDRAWN', self.traits())

        # The card need not be of the same kind.
        self._stop_server(self.server)
        self.control().pull(self.index)
        self.control().plug(self.index, _NVME)
        self._run_periodics()

        self._start_server(self.server)

        self.assert_runs_with_slot()
        self.assertLessEqual(names.REPLACED_TRAITS, set(self.traits()))
        self._delete_server(self.server)
        self._run_periodics()
        self.assertLessEqual(names.REPLACED_TRAITS, set(self.traits()))
        code, _, err = self.run_command('restore', self.index, '--new-card')
        self.assertEqual(0, code, err)
        # No paragraph has the new card.
        for _ in range(2):
            self._run_periodics()
        self.assertNotIn(self.slot, self.slot_providers())
        self.control().pull(self.index)
        self.plug_gpu(self.index)
        self._run_periodics()
        self.assertIn(self.slot, self.slot_providers())

    def story_servers_are_stopped_after_boot_of_host(self):
        self.turn_off_and_on()
        self.restart_host()
        self.assert_stopped_by_nova()

        # While nova-compute runs, the option makes no difference.
        self.flags(resume_guests_state_on_host_boot=True)
        self.turn_off_and_on()
        self.assert_stopped_by_nova()
        self.exclude_slot_until_its_server_is_deleted()

    def exclude_slot_until_its_server_is_deleted(self):
        """Exclude the slot of a server, which keeps it."""
        (paragraph,) = [
            text
            for name, text in pages.blocks('yaml')
            if name == 'admin/hosts'
        ]
        self.restart_host(
            inventory=textwrap.dedent(base.GPUS)
            + paragraph.replace('21010022', self.index)
        )
        self._run_periodics()

        self.assertIn('CUSTOM_POWERVM_WITHDRAWN', self.traits())
        self.assert_runs_with_slot()
        self._delete_server(self.server)
        self._run_periodics()
        self.assertNotIn(self.slot, self.slot_providers())
        other = self.lpar_named('archive').uuid
        self.control().set_owner(self.index, other)
        self._run_periodics()
        self.assertNotIn(self.slot, self.slot_providers())
        self.control().set_owner(self.index, None)
        self.restart_host(inventory=base.GPUS)

    def traits(self):
        """Return the traits of the provider of the server's slot."""
        provider = self.slot_providers()[self.slot]['uuid']
        return sorted(self._get_provider_traits(provider))

    def turn_off_and_on(self):
        """Leave the LPAR as it is after a boot of the host."""
        self.control().set_partition(
            self.lpar(self.server).uuid, state='not activated'
        )

    def assert_stopped_by_nova(self):
        """Assert that Nova stops the server, which can be started."""
        self.computes['host1'].manager._sync_power_states(
            nova_context.get_admin_context()
        )
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self._start_server(self.server)
        self.assert_runs_with_slot()

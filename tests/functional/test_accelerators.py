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

"""Accelerator requests of Cyborg, beside devices that Nova manages."""

import re

import os_traits
from nova import context as nova_context
from nova import exception as nova_exception
from nova import service_auth

from nova_powervm.virt import system_metadata
from tests import proofs
from tests.functional import accelerated_servers
from tests.functional import base
from tests.functional import cyborg_child
from tests.functional import real_cyborg
from tests.functional.accelerated_servers import CRYPTO
from tests.functional.accelerated_servers import GPU
from tests.functional.accelerated_servers import NVME
from tests.functional.accelerated_servers import OTHER_MARK
from tests.functional.accelerated_servers import OURS
from tests.functional.accelerated_servers import add_device
from tests.processes.cyborg_services import tokens
from tests.unit.docs import pages

_GROUP_OF_NOVA = {
    'resources1:CUSTOM_GPU': '1',
    'trait1:OWNER_NOVA': 'required',
}


class AcceleratorSlotTest(accelerated_servers.AcceleratorTestCase):
    """An LPAR gets the slots of its instance's accelerator requests.

    One server with such a slot stands for all stories. The results of all
    operations while its request is not bound are in test_request_states.
    """

    TRAIT = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{:08X}'

    def setUp(self):
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=False)
        self.server = self.accelerated('FPGA')
        (self.arq,) = self.cyborg.requests(self.server)
        # It stays when a story ends.
        self._booted.clear()

    def forget(self):
        """Make Cyborg answer again, with the files that it had."""
        self.cyborg.call('plan')
        self.cyborg.call('come_back')
        super().forget()

    def new_requests(self):
        """Return the requests that the standing server does not have."""
        return [
            arq
            for arq in self.cyborg.requests()
            if arq['uuid'] != self.arq['uuid']
        ]

    def test_lpar_has_slots_of_accelerator_requests(self):
        self.tell_stories()

    @proofs.proves(
        'C7',
        'C8',
        'C9',
        'C23',
        'C31',
        'C34',
        'C46',
        'C58',
        'V7',
        'V8',
        'V11',
        'V12',
        'V13',
        'V24',
        'V25',
        'V30',
        'V31',
        'O32',
        'device.cyborg-arq',
    )
    def story_lpar_keeps_slots_of_nova_and_cyborg_until_delete(self):
        server = self.accelerated(
            'PGPU', 'CUSTOM_CRYPTO', extra=_GROUP_OF_NOVA
        )
        (own,) = self.allocated_slots(server)
        self.assertIn(own, OURS)
        self.assert_has(server, own, CRYPTO, GPU)
        log = self.logged()
        self.assertIn(f'{own:08X} (COMPUTE)', log)
        for other in (CRYPTO, GPU):
            self.assertIn(f'{other:08X} (ACCELERATOR)', log)

        for action, jobs in (
            (lambda: self._reboot_server(server), ['PowerOff']),
            (lambda: self._reboot_lost(server), ['PowerOff', 'PowerOn']),
            (lambda: self._stop_and_start(server), ['PowerOff', 'PowerOn']),
            (lambda: self._rebuild(server), ['PowerOff', 'PowerOn']),
        ):
            self.control().clear_journal()
            self.forget_record(server)
            action()
            self.assertEqual(jobs, self.jobs())
            self.assert_has(server, own, CRYPTO, GPU)
            self.assertEqual({CRYPTO, GPU}, self.recorded(server))

        self._delete_server(server)
        self.assertIsNone(self.slot_owner(GPU))
        self.assertEqual([], self.new_requests())
        handles = self.cyborg.call('tables')['attach_handles']
        self.assertEqual(
            [0, 0, 1], sorted(handle['in_use'] for handle in handles)
        )

    def _reboot_lost(self, server):
        """Reboot a server hard whose slot is lost."""
        self.control().set_owner(f'{GPU:08X}', None)
        self._reboot_server(server, hard=True)

    def forget_record(self, server):
        """Have a server be one of a driver that recorded no requests."""
        instance = self.instance(server)
        system_metadata.ACCELERATORS.remove(instance.system_metadata)
        instance.save()

    def recorded(self, server):
        """Return the slots of a server's requests that are recorded."""
        found = self.instance(server).system_metadata
        slots = system_metadata.ACCELERATORS.read(found) or ''
        return {int(slot, 16) for slot in slots.split()}

    def _stop_and_start(self, server):
        self._stop_server(server)
        self._start_server(server)

    def _rebuild(self, server):
        self._rebuild_server(server, self.create_image(b'new'))

    # While Cyborg is down, no slot is detached and no LPAR started.

    def story_host_boot_leaves_server_off_until_cyborg_is_back(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self.assertIn('Could not communicate with Cyborg', self.logged())
        self._assert_off_but_active()

        # A restart of the service forgets nothing, and Nova stops no server
        # that waits.
        self.restart_host()
        self._run_periodics()
        self.computes['host1'].manager._sync_power_states(
            nova_context.get_admin_context()
        )
        self._assert_off_but_active()

        self.forget_record(self.server)
        self.cyborg.call('come_back')
        self._run_periodics()
        self.assert_has(self.server, NVME)
        self.assertEqual({NVME}, self.recorded(self.server))

    @proofs.proves('C52', 'V15')
    def story_host_boot_needs_service_user_with_roles_of_the_page(self):
        (sentence,) = re.findall(
            r'The service user needs the roles ([^.]*)\.',
            pages.documents()['admin/cyborg'],
        )
        self.use_service_user(auth_type=None)
        self._after_host_boot()
        self.assertRegex(self.logged(), r'WARNING.*\[service_user\]')
        self._assert_off_but_active()

        self.use_roles('service')
        self._run_periodics()
        self._assert_off_but_active()
        self.assertIn('of nova.conf has the role admin', self.logged())

        self.use_roles(*re.findall(r'``(\w+)``', sentence))
        self._run_periodics()
        self.assert_has(self.server, NVME)

    def use_roles(self, *roles):
        """Give the service user roles."""
        token = tokens.make_token('nova', cyborg_child.SERVICE_PROJECT, *roles)
        self.use_service_user(auth_type='admin_token', token=token)

    def use_service_user(self, **options):
        """Set options of the group [service_user]."""
        self.flags(group='service_user', **options)
        service_auth.reset_globals()

    def _after_host_boot(self):
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()
        self._run_periodics()

    def _assert_off_but_active(self):
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({NVME: True}, lpar.slots)

    def story_statement_of_page_repairs_requests_without_profile(self):
        self.profile = self.arq['device_profile_name']
        # SQLite would give its number to the next profile.
        self.create_profile('PGPU')
        self.cyborg.call('delete_profile_unchecked', name=self.profile)
        self._after_host_boot()
        self._assert_off_but_active()
        self.assertIn(
            f"If device profile '{self.profile}', or that of another server, "
            'was deleted, create it again under its name',
            self.logged(),
        )

        self._repair()
        self._run_periodics()

        self.assert_has(self.server, NVME)
        self.assertEqual([self.arq], self.cyborg.requests(self.server))
        self._rebuild_server(self.server, self.image)
        self.assert_has(self.server, NVME)

    def _repair(self):
        """Do what the page says."""
        self.cyborg.create_profile(
            {
                'resources:FPGA': '1',
                f'trait:{real_cyborg.MARK}': 'required',
            },
            name=self.profile,
        )
        answer = self.cyborg.request('GET', '/accelerator_requests')
        found = re.search(
            r'Device Profile not found with id=(\d+)', answer.text
        )
        self.assertTrue(found, answer.text)
        (statement,) = (
            text
            for page, text in pages.blocks('sql')
            if page == 'admin/cyborg'
        )
        self.cyborg.call(
            'run_sql',
            statement=statement.replace('<profile>', self.profile).replace(
                '<id>', found[1]
            ),
        )

    # A slot that both Nova and Cyborg manage is withheld. The providers of
    # other drivers are made by hand: the driver looks at Placement only.

    def own_slots(self):
        """Return the slots that have a provider of this driver."""
        # One of Cyborg's may have the same DRC index in its name.
        return {
            int(provider['name'][-8:], 16)
            for provider in self._providers()
            if provider['name'].startswith('PowerVM IOSlot host1 ')
        }

    def _providers(self):
        root = self._get_provider_uuid_by_host('host1')
        return self._get_all_rps_in_a_tree(root)

    @proofs.proves(
        'C2', 'C15', 'C16', 'V19', 'V26', 'V27', 'device.owner-trait'
    )
    def story_slot_with_cyborg_provider_is_not_offered(self):
        self.assertEqual(OURS, self.own_slots())
        server = self.boot(base.gpu_groups(1))
        (used,) = self.allocated_slots(server)
        (free,) = OURS - {used}
        kept = self.slot_providers()[used]['uuid']
        uuid = add_device(
            self, 'host1_gpu', [self.TRAIT.format(free)], total=1
        )

        self.assertEqual({used}, self.own_slots())
        log = self.logged()
        self.assertRegex(log, f'ERROR.*{free:08X}.*inventory.yaml.*host1_gpu')
        traits = self._get_provider_traits(uuid)
        self.assertIn(os_traits.OWNER_CYBORG, traits)
        self.assertNotIn(os_traits.OWNER_NOVA, traits)
        # A free device does not stop the service.
        self.restart_host()
        self.assertEqual({used}, self.own_slots())

        # The name alone does not make it a provider of this driver. A running
        # service marks its own, and reserves it in the next cycle ...
        other = add_device(self, f'PowerVM IOSlot cyborg {used:08X}', total=1)
        self._run_periodics()
        self.assertEqual(
            1, self._get_provider_inventory(kept)['CUSTOM_GPU']['reserved']
        )
        self.assertEqual(
            {os_traits.OWNER_CYBORG, OTHER_MARK},
            set(self._get_provider_traits(other)),
        )
        self.assert_has(server, used)

        # ... but a starting service stops.
        error = self.assertRaises(
            nova_exception.InvalidConfiguration, self.restart_host
        )
        for words in (f'{used:08X}', 'PowerVM IOSlot cyborg', server['id']):
            self.assertIn(words, str(error))

        # All are offered again once Cyborg gives them up.
        for each in (uuid, other):
            answer = self.placement.delete(f'/resource_providers/{each}')
            self.assertEqual(204, answer.status)
        self.restart_host()
        self.forget_tree()
        self.assertEqual(OURS, self.own_slots())

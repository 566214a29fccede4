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
from nova.compute import task_states
from oslo_concurrency import lockutils

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

    THIRD = 'third:\n  identification: {drc_index: "21020024"}\n'
    FIRST = """\
first:
  identification: {drc_index: "21010020"}
  resource_class: PGPU
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

    def assert_nothing_made(self, server):
        """Assert that a failed build has left nothing and made no LPAR."""
        self.wait_until_unallocated(server)
        self.assertEqual([], self.new_requests())
        self.assertIsNone(self.lpar(server))
        self.assertNotIn(
            'PUT LogicalPartition.create', self.control().journal_counts()
        )

    def test_lpar_has_slots_of_accelerator_requests(self):
        self.tell_stories()

    @proofs.proves(
        'C7',
        'C8',
        'C23',
        'C34',
        'C46',
        'C58',
        'V8',
        'V11',
        'V12',
        'V13',
        'V30',
        'V31',
        'O32',
        'device.cyborg-arq',
    )
    def story_lpar_keeps_accelerator_slot_until_delete(self):
        server = self.accelerated('PGPU')
        self.assert_has(server, GPU)
        self.assertIn('21020024 (ACCELERATOR)', self.logged())

        for action, jobs in (
            (lambda: self._reboot_server(server), ['PowerOff']),
            (lambda: self._reboot_server(server, hard=True), ['PowerOff']),
            (lambda: self._stop_and_start(server), ['PowerOff', 'PowerOn']),
            (lambda: self._rebuild(server), ['PowerOff', 'PowerOn']),
        ):
            self.control().clear_journal()
            action()
            self.assertEqual(jobs, self.jobs())
            self.assert_has(server, GPU)

        self._delete_server(server)
        self.assertIsNone(self.slot_owner(GPU))
        self.assertEqual([], self.new_requests())
        handles = self.cyborg.call('tables')['attach_handles']
        self.assertEqual(
            [0, 0, 1], sorted(handle['in_use'] for handle in handles)
        )

    def _stop_and_start(self, server):
        self._stop_server(server)
        self._start_server(server)

    def _rebuild(self, server):
        self._rebuild_server(server, self.create_image(b'new'))

    @proofs.proves('C9', 'C31', 'V7', 'V24', 'V25', 'device.cyborg-arq')
    def story_lpar_gets_accelerator_slots_beside_slot_of_nova(self):
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
        self.assertEqual(2, len(self.cyborg.requests(server)))

        self.control().clear_journal()
        self._reboot_server(server, hard=True)
        self.assertEqual(['PowerOff'], self.jobs())
        self.assert_has(server, own, CRYPTO, GPU)

    @proofs.proves('V8', 'V25')
    def story_hard_reboot_reassigns_lost_accelerator_slot(self):
        self.control().set_owner('21010030', None)

        self._reboot_server(self.server, hard=True)

        self.assert_has(self.server, NVME)

    @proofs.proves('C33', 'C47')
    def story_failed_spawn_frees_bound_slot(self):
        self.control().plan_job('PowerOn', 'no power')

        server = self.accelerated('PGPU', expected='ERROR')

        self.wait_until_unallocated(server)
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.new_requests())
        self.assertIsNone(self.slot_owner(GPU))
        self.assert_has(self.accelerated('PGPU'), GPU)

    def story_group_of_two_units_finds_no_host(self):
        # Each slot is a provider of its own; Cyborg would bind both units to
        # one.
        self.control().clear_journal()
        server = self.accelerated(('PGPU', 2), expected='ERROR')

        self.assertIn('No valid host', server['fault']['message'])
        self.assertEqual([], self.new_requests())
        self.assertEqual({}, self.control().journal_counts())

    # Neutron's ports may have a device profile, too.

    def boot_with_port(self, vnic_type, expected):
        """Boot a server with such a port."""
        port = self.make_port(
            **{
                'device_profile': self.create_profile('PGPU'),
                'binding:vnic_type': vnic_type,
            }
        )
        self.control().clear_journal()
        return self.boot({}, expected, networks=[{'port': port['id']}])

    def story_spawn_refuses_port_with_device_profile(self):
        server = self.boot_with_port('accelerator-direct', 'ERROR')

        self.assertIn(
            'one of its ports has a device profile', server['fault']['message']
        )
        self.assert_nothing_made(server)

    def story_nova_ignores_device_profile_of_normal_port(self):
        server = self.boot_with_port('normal', 'ACTIVE')

        self.assertEqual([], self.new_requests())
        self.assert_has(server)

    @proofs.proves('C57', 'device.cyborg-arq')
    def story_spawn_ignores_test_pci_handle(self):
        self.drivers = ('powervm', 'fake_driver')
        self.report()

        server = self.accelerated('FPGA', mark='CUSTOM_FAKE_DEVICE')

        (arq,) = self.cyborg.requests(server)
        self.assertEqual('TEST_PCI', arq['attach_handle_type'])
        self.assert_has(server)
        self.assert_has(self.accelerated('PGPU'), GPU)
        self.drivers = type(self).drivers
        self._delete_server(server)
        self.report()

    def story_cyborg_does_not_bind_device_of_nova(self):
        """A device profile without a mark is allocated a device of Nova."""
        self.control().clear_journal()

        server = self.accelerated('CUSTOM_GPU', mark=None, expected='ERROR')

        self.assertIn(
            'Failed to bind accelerator requests', server['fault']['message']
        )
        self.assertEqual([], self.new_requests())
        self.assertIsNone(self.lpar(server))
        # Nova keeps the device of such a server until it is deleted.
        self.assertTrue(self._get_allocations_by_server_uuid(server['id']))
        self._delete_server(server)
        self.wait_until_unallocated(server)

    # While Cyborg is down, no slot is detached and no LPAR started.

    def set_state(self, state):
        """Set the state of the request."""
        self.cyborg.call('set_state', uuid=self.arq['uuid'], state=state)

    @proofs.proves('C49', 'V16', 'device.cyborg-arq')
    def story_power_on_waits_until_request_is_bound(self):
        self._stop_server(self.server)
        for action, reads in (
            (lambda: self._start_server(self.server), 2),
            # Nova's conductor reads, too.
            (lambda: self._rebuild_server(self.server, self.image), 2),
        ):
            self.set_state('BindStarted')
            self.cyborg.call(
                'plan_read',
                uuids=[self.arq['uuid']],
                state='Bound',
                skip=reads,
            )
            action()
            self.assert_has(self.server, NVME)
        self.assertIn('waiting up to 300 seconds', self.logged())

    def story_host_boot_leaves_server_off_until_cyborg_is_back(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self.assertIn('Could not communicate with Cyborg', self.logged())
        self._assert_off_but_active()

        # A restart of the service forgets nothing.
        self.restart_host()
        self._run_periodics()
        self._assert_off_but_active()

        self.cyborg.call('come_back')
        self._run_periodics()
        self.assert_has(self.server, NVME)

    def story_stopped_server_is_not_started_when_cyborg_is_back(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self._stop_server(self.server)

        self.cyborg.call('come_back')
        self._run_periodics()
        self.restart_host()
        self._run_periodics()

        self.assertEqual('not activated', self.lpar(self.server).state)
        self._start_server(self.server)
        self.assert_has(self.server, NVME)

    def story_error_of_late_start_is_logged(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self.control().plan_job('PowerOn', 'no power')

        self.cyborg.call('come_back')
        self._run_periodics()

        self.assertRegex(self.logged(), 'ERROR.*The instance cannot be start')
        self._assert_stopped_by_nova()

    def story_late_refusal_lets_nova_stop_server(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self.cyborg.call('come_back')
        self.set_state('BindFailed')

        self._run_periodics()

        self.assertIn("its state is 'BindFailed'", self.logged())
        self.set_state('Bound')
        self._assert_stopped_by_nova()
        self.assert_has(self.server, NVME)

    def story_deferred_start_waits_for_end_of_other_operation(self):
        self.cyborg.call('go_away')
        self._after_host_boot()
        self.cyborg.call('come_back')
        instance = self.instance(self.server)

        with lockutils.lock(instance.uuid):
            self._run_periodics()
            self._assert_off_but_active()

        instance.task_state = task_states.REBUILDING
        instance.save()
        self._run_periodics()
        self.assertEqual('not activated', self.lpar(self.server).state)
        instance.task_state = None
        instance.save()
        self._run_periodics()
        self.assert_has(self.server, NVME)

    def story_host_boot_names_role_that_service_user_lacks(self):
        self.use_roles('service')
        self._after_host_boot()
        self._assert_off_but_active()
        self.assertIn('of nova.conf has the role admin', self.logged())
        self.use_roles('admin', 'service')
        self._run_periodics()
        self.assert_has(self.server, NVME)

    def story_start_records_slots_of_server_without_record(self):
        for act in (
            self._after_host_boot,
            lambda: self._reboot_server(self.server, hard=True),
        ):
            instance = self.instance(self.server)
            system_metadata.ACCELERATORS.remove(instance.system_metadata)
            instance.save()
            act()
            found = self.instance(self.server).system_metadata
            self.assertEqual(
                f'{NVME:08X}', system_metadata.ACCELERATORS.read(found)
            )

    def use_roles(self, *roles):
        """Give the service user roles."""
        token = tokens.make_token('nova', cyborg_child.SERVICE_PROJECT, *roles)
        self.flags(group='service_user', token=token)
        service_auth.reset_globals()

    @proofs.proves('C52', 'V15')
    def story_host_boot_starts_server_with_service_user(self):
        (sentence,) = re.findall(
            r'The service user needs the roles ([^.]*)\.',
            pages.documents()['admin/cyborg'],
        )
        self.use_roles(*re.findall(r'``(\w+)``', sentence))
        self._after_host_boot()
        self.assert_has(self.server, NVME)

    def story_host_boot_leaves_server_off_without_service_user(self):
        self.flags(group='service_user', auth_type=None)
        service_auth.reset_globals()
        self._after_host_boot()
        self.assertRegex(self.logged(), r'WARNING.*\[service_user\]')
        self._assert_off_but_active()
        self.flags(group='service_user', auth_type='admin_token')
        service_auth.reset_globals()
        self._run_periodics()
        self.assert_has(self.server, NVME)

    def _after_host_boot(self):
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()
        self._run_periodics()

    def _assert_stopped_by_nova(self):
        """Assert that Nova records the server as stopped; start it."""
        self._assert_off_but_active()
        self.computes['host1'].manager._sync_power_states(
            nova_context.get_admin_context()
        )
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self._start_server(self.server)

    def _assert_off_but_active(self):
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({NVME: True}, lpar.slots)

    # A device profile is deleted while a server uses it.

    def story_database_keeps_profile_that_requests_refer_to(self):
        name = self.arq['device_profile_name']

        answer = self.cyborg.request(
            'DELETE', f'/device_profiles?value={name}'
        )

        self.assertEqual(500, answer.status_code)
        self.assertIn('FOREIGN KEY', answer.text)
        self._reboot_server(self.server, hard=True)
        self.assert_has(self.server, NVME)

    def story_statement_of_page_repairs_requests_without_profile(self):
        self.flags(resume_guests_state_on_host_boot=True)
        self.profile = self.arq['device_profile_name']
        # SQLite would give its number to the next profile.
        self.create_profile('PGPU')
        self.cyborg.call('delete_profile_unchecked', name=self.profile)
        for action in (
            {'reboot': {'type': 'HARD'}},
            {'rebuild': {'imageRef': self.image}},
        ):
            self._refused_by_nova(action)
            self.assert_has(self.server, NVME)
        self.assertEqual(
            'REBUILD', self.api.get_server(self.server['id'])['status']
        )
        self.api.post_server_action(
            self.server['id'], {'os-resetState': {'state': 'active'}}
        )

        # Nova would keep its device until it is deleted.
        self._delete_server(self.accelerated('PGPU', expected='ERROR'))
        self._turn_host_off_and_on()
        self._repair()
        self._run_periodics()

        self.assert_has(self.server, NVME)
        self.assertEqual([self.arq], self.cyborg.requests(self.server))
        self._rebuild_server(self.server, self.image)
        self.assert_has(self.server, NVME)

    def _refused_by_nova(self, action):
        """Assert that an action ends before nova-compute does anything."""
        (name,) = action
        self.api.post_server_action(self.server['id'], action)
        event = self._wait_for_action_fail_completion(
            self.server,
            name,
            {
                'reboot': 'compute_reboot_instance',
                'rebuild': 'rebuild_server',
            }[name],
        )
        self.assertIn(
            'Invalid response from Cyborg: <Response [404]>',
            event['details'],
        )

    def _turn_host_off_and_on(self):
        """Assert that the server stays off, and that the log says why."""
        self.control().set_partition(
            self.lpar(self.server).uuid, state='not activated'
        )
        self.restart_host()
        self._run_periodics()
        self.assertEqual('not activated', self.lpar(self.server).state)
        self.assertIn(
            f"If device profile '{self.profile}', or that of another server, "
            'was deleted, create it again under its name',
            self.logged(),
        )

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

    @proofs.proves('C2', 'C15', 'V19', 'V27', 'device.owner-trait')
    def story_slot_with_cyborg_provider_is_not_offered(self):
        self.assertEqual(OURS, self.own_slots())
        uuid = add_device(
            self, 'host1_gpu', [self.TRAIT.format(0x21010020)], total=1
        )

        self.assertEqual({0x21010021}, self.own_slots())
        log = self.logged()
        self.assertRegex(log, r'ERROR.*21010020.*inventory.yaml.*host1_gpu')
        traits = self._get_provider_traits(uuid)
        self.assertIn(os_traits.OWNER_CYBORG, traits)
        self.assertNotIn(os_traits.OWNER_NOVA, traits)

        # The name alone does not make it a provider of this driver.
        named = add_device(self, 'PowerVM IOSlot cyborg 21010021', total=1)
        self.assertEqual(set(), self.own_slots())
        self.assertEqual(
            {os_traits.OWNER_CYBORG, OTHER_MARK},
            set(self._get_provider_traits(named)),
        )
        self._delete_provider(named)
        self.forget_tree()

        # A free device does not stop the service ...
        self.restart_host()
        self.assertEqual({0x21010021}, self.own_slots())

        # ... and is offered again once Cyborg gives it up.
        self._delete_provider(uuid)
        self.forget_tree()
        self.assertEqual(OURS, self.own_slots())

    def _delete_provider(self, uuid):
        answer = self.placement.delete(f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status)

    @proofs.proves('C15', 'V26')
    def story_allocated_slot_with_cyborg_provider_stops_starting_service(self):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        uuid = add_device(
            self, 'host1_gpu', [self.TRAIT.format(slot)], total=1
        )

        # A running service marks it, and reserves it in the next cycle ...
        self._run_periodics()
        kept = self.slot_providers()[slot]['uuid']
        self.assertEqual(
            1, self._get_provider_inventory(kept)['CUSTOM_GPU']['reserved']
        )
        self.assert_has(server, slot)

        # ... but a starting service stops.
        error = self.assertRaises(
            nova_exception.InvalidConfiguration, self.restart_host
        )
        self.assertIn(f'{slot:08X}', str(error))
        self.assertIn('host1_gpu', str(error))
        self.assertIn(server['id'], str(error))
        self._delete_provider(uuid)
        self.restart_host()
        self.forget_tree()
        self.assertEqual(OURS, self.own_slots())

    # A slot that both files identify stays with the server that has it.

    def offered(self, trait=os_traits.OWNER_NOVA):
        """Return the slots whose provider has a trait."""
        return {
            int(provider['name'][-8:], 16)
            for provider in self._providers()
            if provider['name'] != 'host1'
            and trait in self._get_provider_traits(provider['uuid'])
        }

    @proofs.proves('C16')
    def story_slot_of_bound_request_is_not_offered(self):
        third = self.THIRD.replace(f'{GPU:08X}', f'{NVME:08X}')
        self.restart_host(inventory=self.inventory + third)
        self.assertEqual(OURS, self.offered())
        self.assertRegex(
            self.logged(),
            'ERROR.*21010030.*inventory.yaml.*PowerVM Cyborg IOSlot host1',
        )

        for _ in range(2):
            self._reboot_server(self.server, hard=True)
            self.forget_tree()
            self.assertEqual(OURS, self.offered())
            self.assert_has(self.server, NVME)

        # Cyborg withholds it, too, but keeps it for the server.
        self.report()
        self.assertNotIn(NVME, self.offered(real_cyborg.MARK))
        self._rebuild_server(self.server, self.image)
        self.assert_has(self.server, NVME)
        self.restart_host(inventory=self.inventory)
        self.report()
        self.assertIn(NVME, self.offered(real_cyborg.MARK))

    def story_slot_of_server_of_nova_stays_with_it(self):
        holder = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(holder)
        other = f'first:\n  identification: {{drc_index: "{slot:08X}"}}\n'

        self.report(other)

        self.assertEqual(set(), self.offered(real_cyborg.MARK))
        self._reboot_server(holder, hard=True)
        self.assert_has(holder, slot)
        self.report()
        self.assertEqual({CRYPTO, GPU, NVME}, self.offered(real_cyborg.MARK))

    @proofs.proves('C2')
    def story_free_slot_is_withheld_by_both_until_a_file_is_corrected(self):
        self.report(accelerated_servers.FILE + self.FIRST)
        self.report(accelerated_servers.FILE + self.FIRST)

        self.assertEqual({CRYPTO, GPU, NVME}, self.offered(real_cyborg.MARK))
        self.restart_host(inventory=self.inventory + self.THIRD)
        self.forget_tree()
        self.report()
        self.forget_tree()
        self.assertNotIn(GPU, self.offered())
        self.assertEqual({CRYPTO, NVME}, self.offered(real_cyborg.MARK))

        self.restart_host(inventory=self.inventory)
        self.forget_tree()
        self.report()
        self.assertEqual({CRYPTO, GPU, NVME}, self.offered(real_cyborg.MARK))
        self.assert_has(self.accelerated('PGPU'), GPU)
        for _ in range(3):
            self.cyborg.report()
        self.forget_tree()
        self.assertEqual(OURS, self.own_slots())

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

"""Servers of a failed host are evacuated to another one."""

import contextlib

import fixtures
from nova import exception as nova_exception

from nova_powervm.virt import driver
from tests import proofs
from tests.functional import one_time_use

INDEX = one_time_use.INDEX


class EvacuateTest(one_time_use.OneTimeUseTestCase):
    """Two hosts with the same machine, file and DRC indexes."""

    def setUp(self):
        super().setUp()
        for host in ('host1', 'host2'):
            self.start_host(host)

    def boot_on(self, host, groups, **options):
        """Boot a server on a host."""
        return self.boot(groups, request={'host': host}, **options)

    def test_servers_of_failed_host_are_evacuated(self):
        self.tell_stories()

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        for host in self.hosts:
            for index in self.burned(host):
                self.release(index, host)
        self._run_periodics()

    @proofs.proves(
        'D83',
        'O21',
        'O23',
        'device.evacuate',
        'device.one-time-use',
        'operation.evacuate',
    )
    def story_evacuate_burns_new_device_and_keeps_old_one_burned(self):
        port = self.make_port()
        server = self.boot_on(
            'host1',
            one_time_use.gpu_group(),
            disk=1,
            networks=[{'port': port['id']}],
        )
        self.assert_burned(INDEX, host='host1')
        self.assertEqual(set(), self.burned('host2'))
        self.fail_host('host1')
        logged = len(self.logged())

        server = self._evacuate_server(server, expected_host='host2')

        # The LPAR does not get the new device before it is burned.
        self.assertRegex(
            self.logged()[logged:],
            f'(?s)Burned .* in slot {INDEX:08X}.*Created LPAR',
        )
        # Nova keeps the allocations on both hosts for now.
        providers = {
            self.slot_providers(host)[INDEX]['uuid']
            for host in ('host1', 'host2')
        }
        allocations = self._get_allocations_by_server_uuid(server['id'])
        self.assertLess(providers, set(allocations))
        lpar = self.lpar(server, 'host2')
        self.assertEqual({INDEX: True}, lpar.slots)
        self.assertEqual(1, len(self.disks('host2')))
        self.assertEqual(1, len(self.adapters(server, 'host2')))
        self.assert_burned(INDEX, host='host2')
        self.assert_burned(INDEX, host='host1')
        self._start_server(server)
        self.assertEqual('running', self.lpar(server, 'host2').state)

        # The leftovers on the old host are removed when it is back.
        self.assertIsNotNone(self.lpar(server, 'host1'))
        self.recover_host('host1')

        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual([], self.disks('host1'))
        self.assertIsNone(self.slot_owner(INDEX, 'host1'))
        self._run_periodics()
        allocations = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual(
            {self.slot_providers('host2')[INDEX]['uuid']},
            providers & set(allocations),
        )
        self.assert_burned(INDEX, host='host1')
        self.assert_burned(INDEX, host='host2')
        self.assertEqual({INDEX: True}, self.lpar(server, 'host2').slots)

        self._delete_server(server)
        self._run_periodics()
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assert_burned(INDEX, host='host2')

    @proofs.proves('O30', 'device.evacuate', 'device.one-time-use')
    def story_evacuate_to_burned_device_changes_nothing(self):
        # As a deleted server leaves it.
        there = self.slot_providers('host2')[INDEX]['uuid']
        self.reserve(there, 'CUSTOM_GPU', 1)
        server = self.boot_on('host1', one_time_use.gpu_group())
        self.fail_host('host1')
        before = self.host_state('host2')

        # Through the scheduler, which finds no host with such a device.
        self._evacuate_server(
            server, expected_state='ERROR', expected_migration_status='error'
        )
        self.api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        # Past the scheduler, which old microversions still allow.
        with self.microversion_used('2.67'):
            self._evacuate_server(
                server,
                extra_post_args={'host': 'host2', 'force': True},
                expected_state='ACTIVE',
                expected_migration_status='error',
            )

        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual(before, self.host_state('host2'))
        self.assert_burned(INDEX, host='host2')
        self.release(INDEX, 'host2')
        # Nova frees what a failed evacuation has claimed in its next cycle.
        self._run_periodics()
        self.remove_evacuated_lpar_before_the_service_starts(server)

    def remove_evacuated_lpar_before_the_service_starts(self, server):
        """Evacuate a server, whose old host fails once it is back."""
        self._evacuate_server(server, expected_host='host2')
        held = {
            self.slot_providers(host)[INDEX]['uuid']
            for host in ('host1', 'host2')
        }
        self.control('host1').add_fault(
            match='LogicalPartition.delete', status=500, every=True
        )

        # Nova keeps the record of what could not be destroyed.
        started = []
        init_host = driver.PowerVMDriver.init_host

        def init_and_remember(virt, host):
            started.append(virt)
            init_host(virt, host)

        with fixtures.MockPatchObject(
            driver.PowerVMDriver, 'init_host', init_and_remember
        ):
            error = self.assertRaises(
                nova_exception.NovaException, self.recover_host, 'host1'
            )
        # A real process would have ended.
        started[0].cleanup_host('host1')

        # The log has this one, too.
        self.assertIn(self.lpar(server, 'host1').uuid, str(error.__cause__))
        self.assertLess(
            held, set(self._get_allocations_by_server_uuid(server['id']))
        )
        self.control('host1').clear_faults()
        self.recover_host('host1')
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assert_burned(INDEX, host='host1')
        self.assertEqual({INDEX: True}, self.lpar(server, 'host2').slots)

    @contextlib.contextmanager
    def microversion_used(self, version):
        """Return a context in which requests are of an earlier API."""
        apis = self.api, self.admin_api
        before = [api.microversion for api in apis]
        for api in apis:
            api.microversion = version
        try:
            yield
        finally:
            for api, latest in zip(apis, before, strict=True):
                api.microversion = latest

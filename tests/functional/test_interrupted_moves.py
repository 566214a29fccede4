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


"""Moves in which nova-compute is killed, or a message is lost.

The driver's own part of each step does nothing here: the steps, the claims and
the allocations are Nova's.
"""

import contextlib
import functools
import threading
from concurrent import futures

import fixtures
from nova import baserpc
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi
from nova.scheduler.client import report
from nova.tests.functional.api import client

from nova_powervm.virt import driver
from nova_powervm.virt import interrupted_moves
from tests.functional import killed_threads
from tests.functional import one_time_use
from tests.functional import test_commands

INDEX = one_time_use.INDEX


class InterruptedMovesTest(test_commands.CommandTestCase):
    #: On the first host; a story that leaves it there hands it on.
    server = None

    def setUp(self):
        super().setUp()
        for host in ('host1', 'host2'):
            self.start_host(host)
        for step in (
            'migrate_disk_and_power_off',
            'finish_migration',
            'confirm_migration',
            'finish_revert_migration',
        ):
            self.replace(driver.PowerVMDriver, step, lambda *_, **__: None)
        self.threads = killed_threads.Threads()
        self.useFixture(self.threads)

    def replace(self, owner, name, function):
        """Replace a function for the rest of the test."""
        self.useFixture(fixtures.MockPatchObject(owner, name, new=function))

    def test_interrupted_moves_end(self):
        self.tell_stories()

    # What interrupts a move

    @contextlib.contextmanager
    def killed(self, owner, name, after=None, when=lambda: True):
        """Kill nova-compute in a function.

        :param when: Tells whether it is to be killed yet.
        :param after: Tells by the function's first argument, once the
            function has returned, whether to kill it; None to kill it before.
        """
        died = threading.Event()
        original = getattr(owner, name)

        def die(*args, **options):
            if after or not when():
                result = original(*args, **options)
                if not (after and after(args[0])):
                    return result
            died.set()
            return self.threads.kill()

        with fixtures.MockPatchObject(owner, name, new=die):
            yield
            self.assertTrue(died.wait(60))
            self.threads.revive()

    @contextlib.contextmanager
    def lost(self, message):
        """Lose a message between two hosts."""
        senders = []
        sent = threading.Event()

        def lose(*_, **__):
            senders.append(threading.get_ident())
            sent.set()

        with fixtures.MockPatchObject(rpcapi.ComputeAPI, message, new=lose):
            yield
            self.assertTrue(sent.wait(60))
            killed_threads.wait_for_step(senders[0])

    @contextlib.contextmanager
    def late(self, message):
        """Hold a message between two hosts back until the context ends."""
        original = getattr(rpcapi.ComputeAPI, message)
        held = futures.Future()

        def hold(*args, **options):
            held.set_result(functools.partial(original, *args, **options))

        with fixtures.MockPatchObject(rpcapi.ComputeAPI, message, new=hold):
            yield held
            send = held.result(60)
        send()

    # The server and its move

    def prepare(self):
        """Boot a server, unless the story before has left it as it was."""
        if self.server is None:
            self.server = self.boot(
                one_time_use.gpu_group(), request={'host': 'host1'}
            )

    def forget(self):
        """Hand the server on, or let Nova free what it has held."""
        kept = []
        for found in self.api.get_servers():
            if (found['status'], found['OS-EXT-SRV-ATTR:host']) == (
                'ACTIVE',
                'host1',
            ):
                kept.append(found['id'])
        self._booted[:] = {*self._booted} - {*kept}
        super().forget()
        self._booted += kept
        if not kept:
            self.server = None
        self._run_periodics()

    def standing(self):
        """Leave out what the server has, which stories hand on."""
        return {
            host: {each for each in found if each.startswith('slot')}
            - {each for each in found if f'{INDEX:08X}' in each}
            for host, found in super().standing().items()
        }

    def migrate(self, server):
        """Request a move to the second host."""
        self.api.post_server_action(
            server['id'], {'migrate': {'host': 'host2'}}
        )

    def migrated(self):
        """Let the server wait for its user on the second host."""
        self.migrate(self.server)
        return self._wait_for_state_change(self.server, 'VERIFY_RESIZE')

    def confirm(self, server):
        self.api.post_server_action(server['id'], {'confirmResize': None})

    def revert(self, server):
        self.api.post_server_action(server['id'], {'revertResize': None})

    def refuse_deletion(self, server):
        """Ask for a deletion; Nova waits for the source in vain."""
        self.flags(rpc_response_timeout=1)
        self.assertRaises(
            client.OpenStackApiException, self.api.delete_server, server['id']
        )
        self.flags(rpc_response_timeout=60)

    def migration(self, server):
        found = objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(), {'instance_uuid': server['id']}
        )
        return max(found, key=lambda migration: migration.id)

    def cycle(self, host):
        """Let a host take every awaited message for lost.

        In the first cycle it finds out that it takes up messages.
        """
        with fixtures.MockPatchObject(interrupted_moves, 'LOST_SECONDS', 0):
            for _ in range(2):
                self.computes[host].manager.update_available_resource(
                    nova_context.get_admin_context()
                )

    def assert_state(self, server, status, host, migration):
        """Assert what Nova and Placement say after a move."""
        record = self.instance(server)
        self.assertIsNone(record.task_state)
        self.assertEqual(host, record.host)
        moved = self.migration(server)
        self.assertEqual(migration, moved.status)
        shown = self.api.get_server(server['id'])
        self.assertEqual(status, shown['status'])
        self.assertEqual({host}, self.hosts_of(server['id']))
        self.assertEqual(
            {'host1'} if migration == 'finished' else set(),
            self.hosts_of(moved.uuid),
        )
        self.assertEqual(
            [self.slot_providers(host)[INDEX]['uuid']],
            [each.provider_uuid for each in record.resources],
        )

    def hosts_of(self, consumer):
        """Return the hosts that a consumer has allocations of."""
        allocations = self._get_allocations_by_server_uuid(consumer)
        return {
            host
            for host in ('host1', 'host2')
            if self._get_provider_uuid_by_host(host) in allocations
        }

    def assert_waits_for_user(self, server):
        self.assert_state(server, 'VERIFY_RESIZE', 'host2', 'finished')

    def assert_confirmed(self, server):
        """Assert that a confirmation goes on."""
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_state(server, 'ACTIVE', 'host2', 'confirmed')

    def assert_reverts(self, server):
        """Assert that a revert goes on."""
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_state(server, 'ACTIVE', 'host1', 'reverted')

    def assert_error(self, server, host):
        self.assert_state(server, 'ERROR', host, 'error')
        self.assertIn('Reboot the server hard', self.fault(server))

    # Killed

    def story_source_killed_while_it_stops_the_guest(self):
        server = self.server
        with self.killed(driver.PowerVMDriver, 'migrate_disk_and_power_off'):
            self.migrate(server)
        self.assertEqual({'host1'}, self.hosts_of(self.migration(server).uuid))
        self.restart_host('host1')
        self.assert_state(server, 'ACTIVE', 'host1', 'failed')

    def story_source_killed_once_the_guest_is_off(self):
        server = self.server
        with self.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'post-migrating',
        ):
            self.migrate(server)
        self.restart_host('host1')
        self.assert_state(server, 'ACTIVE', 'host1', 'failed')

    def story_destination_and_source_killed_in_a_move_and_its_end(self):
        server = self.server
        with self.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'finished',
        ):
            self.migrate(server)
        self.restart_host('host2')
        self.assert_waits_for_user(server)
        with self.killed(driver.PowerVMDriver, 'confirm_migration'):
            self.confirm(server)
        self.restart_host('host1')
        self.assertEqual('confirming', self.migration(server).status)
        self.cycle('host1')
        self.assert_confirmed(server)

    def story_source_killed_once_the_claim_was_dropped(self):
        server = self.migrated()
        for host in ('host1', 'host2'):
            self.restart_host(host)
        self.assert_source_is_not_on_the_wrong_side(server)
        with self.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'confirmed',
        ):
            self.confirm(server)
        self.restart_host('host1')
        self.assert_state(server, 'ACTIVE', 'host2', 'confirmed')

    def assert_source_is_not_on_the_wrong_side(self, server):
        """Assert that no command and no warning complains of a move."""
        self._run_periodics()
        self.assert_waits_for_user(server)
        self.assertNotIn('wrong side', self.logged())
        self.assertNotIn('Withdrawing', self.logged())
        self.compute_api()
        shown = self.shown()
        self.assertTrue(shown['Offered'])
        self.assertEqual(
            f'allocated to {server["OS-EXT-SRV-ATTR:instance_name"]}, which '
            'moves',
            shown['State'],
        )
        self.assertEqual(
            (0, '[]\n'), self.run_command('diff', '-f', 'json')[:2]
        )

    def story_source_killed_while_it_confirms_for_a_deletion(self):
        server = self.migrated()
        with self.killed(driver.PowerVMDriver, 'confirm_migration'):
            self.refuse_deletion(server)
        self.restart_host('host1')
        self.assertEqual('deleting', self.instance(server).task_state)
        self.cycle('host1')
        self.assert_confirmed(server)

    def story_source_killed_once_a_deletion_has_dropped_the_claim(self):
        server = self.migrated()
        with self.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'confirmed',
        ):
            self.refuse_deletion(server)
        self.restart_host('host1')
        self.assert_state(server, 'ACTIVE', 'host2', 'confirmed')

    def story_destination_killed_while_it_reverts(self):
        server = self.migrated()
        with self.killed(driver.PowerVMDriver, 'destroy'):
            self.revert(server)
        self.restart_host('host2')
        self.cycle('host2')
        self.assert_reverts(server)

    def story_source_killed_while_it_reverts(self):
        server = self.migrated()
        with self.killed(driver.PowerVMDriver, 'finish_revert_migration'):
            self.revert(server)
        self.restart_host('host1')
        self.assert_error(server, 'host1')

    def story_source_killed_before_it_has_its_allocations_back(self):
        server = self.migrated()
        with self.killed(report.SchedulerReportClient, 'move_allocations'):
            self.revert(server)
        self.restart_host('host1')
        self.assert_error(server, 'host1')

    def story_source_killed_before_it_gives_the_allocations_back(self):
        server = self.server
        failed = threading.Event()

        def fail(*_, **__):
            failed.set()
            raise ValueError('the guest cannot be stopped')

        with (
            fixtures.MockPatchObject(
                driver.PowerVMDriver, 'migrate_disk_and_power_off', new=fail
            ),
            self.killed(
                report.SchedulerReportClient,
                'move_allocations',
                when=failed.is_set,
            ),
        ):
            self.migrate(server)
        self.restart_host('host1')
        self.assert_state(server, 'ERROR', 'host1', 'error')

    def story_server_is_deleted_while_it_reverts(self):
        server = self.migrated()
        uuid = self.migration(server).uuid
        with self.killed(driver.PowerVMDriver, 'destroy'):
            self.revert(server)
        self._delete_server(server)
        self.assertEqual({'host1'}, self.hosts_of(uuid))
        # Not by a restart: after a search for a deleted server, Nova's fixture
        # lets a starting nova-compute read another cell.
        interrupted_moves.InterruptedMoves(
            self.computes['host1'].manager.virtapi, 'host1'
        ).end(at_start=True)
        self.assertEqual(set(), self.hosts_of(uuid))

    # Lost

    def story_message_to_source_is_lost(self):
        server = self.server
        with self.lost('resize_instance'):
            self.migrate(server)
        self.cycle('host2')
        self.assertEqual('pre-migrating', self.migration(server).status)
        self.cycle('host1')
        self.assert_state(server, 'ACTIVE', 'host1', 'failed')

    def story_message_to_restarted_source_is_late(self):
        server = self.server
        with self.late('resize_instance') as held:
            self.migrate(server)
            held.result(60)
            self.restart_host('host1')
        server = self._wait_for_server_parameter(server, {'status': 'ERROR'})
        # Nova has ended the move, but not the task.
        self._wait_for_migration_status(server, ['error'])
        for host in ('host2', 'host1'):
            self.assertEqual(
                'resize_migrating', self.instance(server).task_state
            )
            self.cycle(host)
        self.assert_state(server, 'ERROR', 'host1', 'failed')
        self.assertIn('it stays on its host', self.fault(server))
        self.assertEqual('running', self.lpar(server).state)
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_state_change(server, 'ACTIVE')

    def story_message_to_destination_is_lost(self):
        server = self.server
        with self.lost('finish_resize'):
            self.migrate(server)
        # Nobody takes it for lost at once.
        for host in ('host1', 'host2'):
            self.restart_host(host)
        self._run_periodics()
        self.cycle('host1')
        self.assertEqual('post-migrating', self.migration(server).status)
        self.cycle('host2')
        self.assert_error(server, 'host2')

    def story_message_of_revert_is_lost(self):
        server = self.migrated()
        with self.lost('revert_resize'):
            self.revert(server)
        self.cycle('host1')
        self.assertEqual('reverting', self.migration(server).status)
        self.cycle('host2')
        self.assert_reverts(server)

    def story_message_back_to_source_is_lost(self):
        server = self.migrated()
        with self.lost('finish_revert_resize'):
            self.revert(server)
        self.cycle('host2')
        self.assertEqual('reverted', self.migration(server).status)
        self.cycle('host1')
        self.assert_reverts(server)

    def story_message_of_confirmation_is_lost_unless_its_host_is_silent(self):
        server = self.migrated()
        with self.lost('confirm_resize'):
            self.confirm(server)
        self.cycle('host2')
        self.assertEqual('confirming', self.migration(server).status)
        self.flags(rpc_response_timeout=1)
        sent = []
        with (
            fixtures.MockPatchObject(
                baserpc.BaseRPCAPI,
                'get_backdoor_port',
                new=lambda *_: self.threads.kill(),
            ),
            fixtures.MockPatchObject(
                rpcapi.ComputeAPI,
                'confirm_resize',
                new=lambda *_, **__: sent.append(server),
            ),
        ):
            self.cycle('host1')
        self.assertEqual([], sent)
        self.threads.revive()
        self.flags(rpc_response_timeout=60)
        self.cycle('host1')
        self.assert_confirmed(server)

    # What remains

    def story_destination_killed_while_it_finishes_reports_wrong_side(self):
        server = self.server
        with self.killed(driver.PowerVMDriver, 'finish_migration'):
            self.migrate(server)
        self.restart_host('host2')
        self.assert_error(server, 'host2')
        for _ in range(2):
            self._run_periodics()
        words = f'({self.lpar_uuid(server)}, running) is on the wrong side'
        self.assertEqual(1, self.logged().count(words))
        self.assertIn('is on host host2. Its slots (21010020)', self.logged())
        self.assertNotIn(INDEX, self.slot_providers('host1'))
        self.assertIn(INDEX, self.slot_providers('host2'))
        shown = self.shown()
        self.assertFalse(shown['Offered'])
        self.assertIn(f'{server["id"]} is on host host2', shown['Reason'])
        (leaked,) = self.rows('diff')[1]
        self.assertIn(f'{server["id"]} is on host2', leaked['Difference'])

    def shown(self):
        """Return what the command says of the slot on the first host."""
        _, (row,) = self.rows('show', '--slot', f'{INDEX:08X}')
        return row

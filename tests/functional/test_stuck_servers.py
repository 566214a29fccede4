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

"""The rows of the page on stuck servers, on two real nova-computes.

A story brings a row about, looks that nobody has lost or doubled anything,
runs the commands of the page, and looks whether all is whole.
"""

import contextlib
import functools
import itertools
import os
import threading
import time
from concurrent import futures

import fixtures
import oslo_messaging
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi
from nova.scheduler.client import report
from nova.tests.functional.api import client

from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import ssp
from nova_powervm.virt import driver
from tests.functional import accesses
from tests.functional import killed_threads
from tests.functional import move_sites

_DRIVER = driver.PowerVMDriver
_DEVICES = 'go'


class StuckServersTestCase(move_sites.MoveSiteTestCase):
    """Boots a server on the first host, and ends what interrupts it."""

    def setUp(self):
        super().setUp()
        self.threads = self.useFixture(killed_threads.Threads())
        # Other consoles than that of the test are not asked.
        self.flags(rpc_response_timeout=10)
        self.server = None

    def prepare(self):
        self.server = self.boot_server(self.flavor(_DEVICES, swap=512))
        self.root = self.write_to_root(self.server)

    def forget(self):
        super().forget()
        self.release_all()
        self.givings.forget()
        self._run_periodics()

    # What interrupts a move

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

    def migrated(self):
        """Let the server wait for its user on the second host."""
        self.ask(self.server, 'migrate')
        return self._wait_for_state_change(self.server, 'VERIFY_RESIZE')

    def refuse_deletion(self):
        """Ask for a deletion; Nova waits for the source in vain."""
        self.flags(rpc_response_timeout=1)
        self.assertRaises(
            client.OpenStackApiException,
            self.api.delete_server,
            self.server['id'],
        )
        self.flags(rpc_response_timeout=10)

    # The page

    def end(self, host, devices=_DEVICES):
        """Run the commands of the page, and verify that all is whole.

        :param host: The one that the server is on in the end.
        :param devices: The devices that it has there, as in a flavor.
        """
        self._run_periodics()
        self.assert_safe(self.server)
        self.set_state(self.server, 'active')
        self.server = self.reboot_hard(self.server)
        self.assertEqual(host, self.server['OS-EXT-SRV-ATTR:host'])
        self._run_periodics()
        self.clean_up(self.server)
        self.assert_whole(host, devices)

    # Checks

    def assert_whole(self, host, devices=_DEVICES):
        """Verify that the server runs on a host, and that nothing is left."""
        uuid = self.server['id']
        self.assertEqual({host}, {*self.lpars_of(self.server)})
        lpar = self.lpar(self.server, host)
        self.assertEqual('running', lpar.state)
        slots = {(host, index): {uuid} for index in lpar.slots}
        self.assertEqual({host: {uuid}} | slots, self.consumers())
        self.assertEqual(
            sorted(move_sites.CLASSES[letter] for letter in devices),
            sorted(self.kinds[key] for key in slots),
        )
        self.assertEqual(slots.keys(), self.tracked())
        self.assertEqual(self.root, self.root_of(self.server)[1])
        self.assertEqual(
            {host},
            {one for one in self.host_names if self.mappings(one)},
        )
        # The root disk, the swap disk and the config drive.
        self.assertEqual(3, len(self.mappings(host)))
        self.assertEqual(1, len(self.adapters(self.server, host)))
        self.assertEqual(
            {one: [100] if one == host else [] for one in self.host_names},
            {one: self.vlans(one) for one in self.host_names},
        )
        port = self.show_port()
        self.assertEqual(
            (host, 'pvm_sea'),
            (port['binding:host_id'], port['binding:vif_type']),
        )
        self.assert_burns()
        self.assertNotIn(
            'finished', [move.status for move in self.moves(uuid)]
        )

    def assert_burns(self):
        """Verify that exactly those devices are burned that LPARs got."""
        given = {
            key
            for key in self.given_slots()
            if self.kinds[key] == move_sites.SCRATCH
        }
        self.assertEqual(given, self.burned_devices())


class StuckOnOneHostTest(StuckServersTestCase):
    """Resizes within a host and rebuilds that nova-compute was killed in."""

    host_names = ('host1',)

    def test_stuck_servers_of_one_host_end_with_the_commands_of_the_page(self):
        self.tell_stories()

    def resize(self):
        self.ask(
            self.server,
            'resize',
            flavorRef=self.flavor('gg', swap=1024, disk=2, memory_mb=1024),
        )

    def fail_to_resize(self):
        """Ask for more devices than the host has."""
        self.ask(self.server, 'resize', flavorRef=self.flavor('g' * 9))
        self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        self.assert_last_move('error', None)

    def assert_last_move(self, *expected):
        """Compare status and destination of the last migration."""
        last = self.moves(self.server['id'])[-1]
        self.assertEqual(expected, (last.status, last.dest_compute))

    def resized(self):
        self.resize()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')

    def story_killed_while_it_stops_the_guest(self):
        with self.threads.killed(_DRIVER, 'migrate_disk_and_power_off'):
            self.resize()
        self.restart_host('host1')
        self.end('host1')

    def story_killed_once_the_guest_is_off(self):
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'post-migrating',
        ):
            self.resize()
        self.restart_host('host1')
        self.assertEqual('running', self.lpar(self.server, 'host1').state)
        self.end('host1')

    def story_killed_before_it_begins_to_finish(self):
        with self.lost('finish_resize'):
            self.resize()
        self.restart_host('host1')
        self.end('host1')

    def story_killed_while_it_finishes(self):
        with self.threads.killed(_DRIVER, 'finish_migration'):
            self.resize()
        self.restart_host('host1')
        self.end('host1', 'gg')

    def story_killed_while_it_confirms(self):
        self.resized()
        with self.threads.killed(_DRIVER, 'confirm_migration'):
            self.ask(self.server, 'confirmResize')
        self.restart_host('host1')
        self.end('host1', 'gg')

    def story_killed_while_it_removes_the_destination(self):
        self.resized()
        with self.threads.killed(_DRIVER, 'destroy'):
            self.ask(self.server, 'revertResize')
        self.restart_host('host1')
        self.end('host1', 'gg')

    def story_killed_before_it_has_its_allocations_back(self):
        self.resized()
        with self.threads.killed(
            report.SchedulerReportClient, 'move_allocations'
        ):
            self.ask(self.server, 'revertResize')
        self.restart_host('host1')
        self.end('host1')

    def story_killed_while_it_takes_the_server_back(self):
        self.resized()
        with self.threads.killed(_DRIVER, 'finish_revert_migration'):
            self.ask(self.server, 'revertResize')
        self.restart_host('host1')
        self.end('host1')

    def story_state_set_before_the_decision(self):
        self.resized()
        self.end('host1', 'gg')

    def story_later_resizes_that_fail_change_nothing(self):
        with self.threads.killed(_DRIVER, 'migrate_disk_and_power_off'):
            self.resize()
        self.restart_host('host1')
        self.set_state(self.server, 'active')
        self.fail_to_resize()
        self.ask(self.server, 'resize', flavorRef=self.flavor(''))
        # Nova gives the allocations back after it has ended the task.
        self.await_end(self.server, 'ACTIVE')
        self.assert_last_move('error', 'host1')
        self.end('host1')

    def story_slot_assigned_by_hand_stays_after_a_failed_resize(self):
        self.fail_to_resize()
        free = next(
            index
            for (_, index), kind in sorted(self.kinds.items())
            if kind == move_sites.CLASSES['g']
            and index not in self.lpar(self.server, 'host1').slots
        )
        lpar = self.lpar(self.server, 'host1')
        self.control('host1').set_owner(f'{free:08X}', lpar.uuid)

        # It is refused, so the server stays as it was.
        self.reboot_hard(self.server)

        self.assertIn(free, self.lpar(self.server, 'host1').slots)
        self.control('host1').set_owner(f'{free:08X}', None)
        self._run_periodics()
        self.end('host1')

    def story_slots_of_a_failed_move_go_without_its_record(self):
        self.resized()
        record = self._record(self.server['id'])
        record.flavor = record.old_flavor
        record.instance_type_id = record.flavor.id
        record.drop_migration_context()
        record.save()
        for move in objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(), {'instance_uuid': record.uuid}
        ):
            move.status = 'error'
            move.save()
        self.end('host1')

    def story_killed_while_it_rescues(self):
        with self.threads.killed(scsi_mappings.ScsiMappings, 'attach'):
            self.ask(self.server, 'rescue')
        self.restart_host('host1')
        self.end('host1')

    def story_killed_while_it_unrescues(self):
        for owner, name in (
            (scsi_mappings.ScsiMappings, 'attach'),
            (ssp.SharedStoragePool, 'delete_rescue'),
        ):
            self.ask(self.server, 'rescue')
            self._wait_for_state_change(self.server, 'RESCUE')
            with self.threads.killed(owner, name):
                self.ask(self.server, 'unrescue')
            self.restart_host('host1')
            self.end('host1')

    def story_killed_while_it_refuses_a_rebuild(self):
        with self.threads.killed(_DRIVER, 'rebuild'):
            self.ask(self.server, 'rebuild', imageRef=self.image)
        self.restart_host('host1')
        self.end('host1')


class StuckMovesTest(StuckServersTestCase):
    """Cold migrations that nova-compute was killed in, or a message lost."""

    has_neutron = True

    def test_stuck_moves_end_with_the_commands_of_the_page(self):
        self.tell_stories()

    # Before the source has handed the server over

    def story_source_killed_while_it_stops_the_guest(self):
        with self.threads.killed(_DRIVER, 'migrate_disk_and_power_off'):
            self.ask(self.server, 'migrate')
        self.restart_host('host1')
        self.end('host1')

    def story_next_migration_after_a_killed_one_gives_no_devices(self):
        with self.threads.killed(_DRIVER, 'migrate_disk_and_power_off'):
            self.ask(self.server, 'migrate')
        self.restart_host('host1')
        self.set_state(self.server, 'active')
        slots = self.lpar(self.server, 'host1').slots
        self.ask(self.server, 'migrate')
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )
        self.assertEqual({'host1'}, {*self.lpars_of(self.server)})
        self.assertEqual(slots, self.lpar(self.server, 'host1').slots)
        self.assert_burns()
        self.end('host1')

    def story_source_killed_once_the_guest_is_off(self):
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'post-migrating',
        ):
            self.ask(self.server, 'migrate')
        self.restart_host('host1')
        # Nova's start has it continued.
        self.assertEqual('running', self.lpar(self.server, 'host1').state)
        self.end('host1')

    def story_source_killed_before_it_gives_the_allocations_back(self):
        failed = threading.Event()

        def fail(*_, **__):
            failed.set()
            raise ValueError('the guest cannot be stopped')

        with (
            fixtures.MockPatchObject(
                _DRIVER, 'migrate_disk_and_power_off', new=fail
            ),
            self.threads.killed(
                report.SchedulerReportClient,
                'move_allocations',
                when=failed.is_set,
            ),
        ):
            self.ask(self.server, 'migrate')
        self.restart_host('host1')
        self.end('host1')

    def story_message_to_source_is_lost(self):
        with self.lost('resize_instance'):
            self.ask(self.server, 'migrate')
        self.end('host1')

    def story_message_to_restarted_source_is_late(self):
        with self.late('resize_instance') as held:
            self.ask(self.server, 'migrate')
            held.result(60)
            self.restart_host('host1')
        self._wait_for_server_parameter(self.server, {'status': 'ERROR'})
        self._wait_for_migration_status(self.server, ['error'])
        self.end('host1')

    # While the destination takes it over

    def story_message_to_destination_is_lost(self):
        with self.lost('finish_resize'):
            self.ask(self.server, 'migrate')
        self.end('host2')

    def story_destination_killed_while_it_builds(self):
        with self.threads.killed(_DRIVER, 'finish_migration'):
            self.ask(self.server, 'migrate')
        self.restart_host('host2')
        self.end('host2')

    def story_destination_killed_once_it_was_done(self):
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'finished',
        ):
            self.ask(self.server, 'migrate')
        self.restart_host('host2')
        self.end('host2')

    def story_message_to_destination_cannot_be_sent(self):
        self.fail_between_hosts()
        self.end_on_source()

    def story_state_set_while_the_source_stops_the_guest(self):
        self.fail_between_hosts()
        # The hard reboot on the source ends after Nova has given up the move.
        self._record(self.server['id']).drop_migration_context()
        self.end_on_source()

    def story_state_set_while_it_reverts(self):
        self.ask(
            self.server,
            'resize',
            flavorRef=self.flavor(_DEVICES, swap=1024),
        )
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.set_state(self.server, 'active')
        # It drops the migration context, and makes the LPAR whole there.
        self.server = self.reboot_hard(self.server)
        self.record_source()
        self._run_periodics()
        self.server = self.api.get_server(self.server['id'])
        self.remove_stale_lpars(self.server)
        self.end('host1')

    def record_source(self):
        """Record what Nova saves when it gives up a revert that has begun."""
        record = self._record(self.server['id'])
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), 'host1'
        )
        record.host, record.node = node.host, node.hypervisor_hostname
        record.compute_id = node.id
        record.save()
        (move,) = self.moves(record.uuid)
        move.status = 'error'
        move.save()

    def fail_between_hosts(self):
        """Let a move fail that is recorded on the destination already."""

        def fail(*_, **__):
            raise oslo_messaging.MessageDeliveryFailure('no broker')

        with fixtures.MockPatchObject(
            rpcapi.ComputeAPI, 'finish_resize', new=fail
        ):
            self.ask(self.server, 'migrate')
            self._wait_for_server_parameter(self.server, {'status': 'ERROR'})
            self.server = self.await_end(self.server)
        self.assertEqual('host2', self.server['OS-EXT-SRV-ATTR:host'])

    def end_on_source(self):
        """End a move that is recorded on the wrong host."""
        refused = self.reboot_hard(self.server, 'ERROR')
        self.assertIn('recorded on the wrong host', self.fault(refused))
        self.restart_host('host1')
        self.end('host1')

    # In a confirmation

    def story_source_killed_while_it_confirms(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'confirm_migration'):
            self.ask(self.server, 'confirmResize')
        self.restart_host('host1')
        self.end('host2')

    def story_source_killed_once_the_claim_was_dropped(self):
        self.migrated()
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'confirmed',
        ):
            self.ask(self.server, 'confirmResize')
        self.restart_host('host1')
        self.end('host2')

    def story_message_of_confirmation_is_lost(self):
        self.migrated()
        with self.lost('confirm_resize'):
            self.ask(self.server, 'confirmResize')
        self.end('host2')

    def story_source_killed_while_it_confirms_for_a_deletion(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'confirm_migration'):
            self.refuse_deletion()
        self.restart_host('host1')
        self.end('host2')

    def story_source_killed_once_a_deletion_has_dropped_the_claim(self):
        self.migrated()
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'confirmed',
        ):
            self.refuse_deletion()
        self.restart_host('host1')
        self.end('host2')

    # In a revert

    def story_message_of_revert_is_lost(self):
        self.migrated()
        with self.lost('revert_resize'):
            self.ask(self.server, 'revertResize')
        self.end('host2')

    def story_destination_killed_while_it_reverts(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'destroy'):
            self.ask(self.server, 'revertResize')
        self.restart_host('host2')
        self.end('host2')

    def story_message_back_to_source_is_lost(self):
        self.migrated()
        with self.lost('finish_revert_resize'):
            self.ask(self.server, 'revertResize')
        self.end('host2')

    def story_source_killed_before_it_has_its_allocations_back(self):
        self.migrated()
        with self.threads.killed(
            report.SchedulerReportClient, 'move_allocations'
        ):
            self.ask(self.server, 'revertResize')
        self.restart_host('host1')
        self.end('host1')

    def story_source_killed_while_it_takes_the_server_back(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'finish_revert_migration'):
            self.ask(self.server, 'revertResize')
        self.restart_host('host1')
        self.end('host1')

    def story_server_is_deleted_while_it_reverts(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'destroy'):
            self.ask(self.server, 'revertResize')
        self._delete_server(self.server)
        self.computes['host1'].manager._cleanup_running_deleted_instances(
            nova_context.get_admin_context()
        )
        for move in self.moves(self.server['id']):
            self.placement.delete(f'/allocations/{move.uuid}')
        self.assertEqual({}, self.lpars_of(self.server))
        self.assertEqual({}, self.consumers())
        self.assertEqual({}, self.units_of_servers())

    # States that are set by hand

    def story_state_set_before_the_decision(self):
        self.migrated()
        self.set_state(self.server, 'active')
        # Nova counts whole seconds.
        time.sleep(1.1)
        other = self.boot({}, request={'host': 'host1'})
        self.ask(other, 'migrate')
        self._wait_for_state_change(other, 'VERIFY_RESIZE')
        self.end_finished_moves(self.server)
        self.assertEqual(
            ['error'], [move.status for move in self.moves(self.server['id'])]
        )
        # It has waited less long.
        self.assertEqual(
            'VERIFY_RESIZE', self.api.get_server(other['id'])['status']
        )
        self._delete_server(other)
        self.end('host2')
        self.ask(self.server, 'migrate')
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.ask(self.server, 'confirmResize')
        self.server = self.await_end(self.server, 'ACTIVE')
        self._run_periodics()
        self.assert_whole('host1')


class StuckEvacuationsTestCase(StuckServersTestCase):
    """Kills the destination of an evacuation once it has built the LPAR."""

    def lose(self, host):
        """Lose the power of a host, and tell Nova that it is down."""
        self.control(host).power_off_system()
        self.force_down(host)

    def force_down(self, host):
        self.computes[host].stop()
        self.admin_api.put_service_force_down(self.service(host), True)

    def regain(self, host):
        """Start a host again. Nova keeps it down until it has cleaned up."""
        self.control(host).power_on_system()
        self.restart_host(host)
        self.admin_api.put_service_force_down(self.service(host), False)

    def service(self, host):
        (found,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        return found['id']

    def interrupt(self):
        """Kill the destination once the LPAR runs there."""
        self.lose('host1')
        with self.threads.killed(_DRIVER, 'spawn', after=lambda _: True):
            self.ask(self.server, 'evacuate', host='host2')
        self.computes['host2'].stop()
        self.assertEqual('running', self.lpar(self.server, 'host2').state)

    def evacuate(self):
        self.ask(self.server, 'evacuate', host='host2')
        self.server = self._wait_for_server_parameter(
            self.server,
            {'OS-EXT-SRV-ATTR:host': 'host2', 'OS-EXT-STS:task_state': None},
        )

    def evacuate_again(self):
        """Run the commands for a server that has lost its allocations."""
        self._run_periodics()
        self.set_state(self.server, 'active')
        refused = self.reboot_hard(self.server, 'ERROR')
        self.assertIn('0 of its allocations', self.fault(refused))
        self.force_down('host1')
        self.evacuate()
        self.regain('host1')
        self.server = self.reboot_hard(self.server)
        self._run_periodics()
        self.clean_up(self.server)
        self.assert_whole('host2')


class StuckEvacuationsTest(StuckEvacuationsTestCase):
    """One host starts after the other."""

    has_neutron = True

    def test_stuck_evacuations_end_with_the_commands_of_the_page(self):
        self.tell_stories()

    def story_destination_starts_first(self):
        self.interrupt()
        self.restart_host('host2')
        self.assertEqual({'host1'}, {*self.lpars_of(self.server)})
        self.assertIn('Evacuate the server again', self.fault(self.server))
        self.regain('host1')
        self.end('host1')

    def story_source_starts_first(self):
        self.interrupt()
        self.regain('host1')
        self.assertEqual(
            'not activated', self.lpar(self.server, 'host1').state
        )
        self.assert_safe(self.server)
        self.restart_host('host2')
        self.assertEqual({'host1'}, {*self.lpars_of(self.server)})
        self.evacuate_again()

    def story_server_deleted_meanwhile_is_removed_from_both(self):
        self.interrupt()
        self.api.delete_server(self.server['id'])
        self._wait_until_deleted(self.server)
        self.regain('host1')
        self.assertEqual({'host2'}, {*self.lpars_of(self.server)})
        self.restart_host('host2')
        # As Nova does after half an hour.
        self.computes['host2'].manager._cleanup_running_deleted_instances(
            nova_context.get_admin_context()
        )
        self.assertEqual({}, self.lpars_of(self.server))
        self.assertEqual({}, self.consumers())
        self._run_periodics()
        self.assertEqual({}, self.units_of_servers())


class EvacuationBothStartTest(StuckEvacuationsTestCase):
    """One host starts while the other does, before a write of its start.

    That is every second write; tools/soak.sh has it start before each one,
    and before each read and request, too. By default the commands of the page
    are run once for each end that it describes.
    """

    counts_all = 'NOVA_POWERVM_TEST_ALL_REQUESTS' in os.environ

    def setUp(self):
        # Each start waits for a thread of its own.
        self.flags(update_resources_max_workers=2, group='compute')
        super().setUp()
        self.access = None
        self.ended = set()

    def test_destination_starts_within_start_of_source(self):
        self.start_at_each_access('host1', 'host2')

    def test_source_starts_within_start_of_destination(self):
        self.start_at_each_access('host2', 'host1')

    def start_at_each_access(self, outer, inner):
        """Tell of a start of one host before each access of the other's."""
        for number in itertools.count(1, 1 if self.counts_all else 2):
            self.access = None
            with self.subTest(f'{inner} starts at access {number} of {outer}'):
                self._tell(
                    functools.partial(self.start_both, outer, inner, number)
                )
            if not self.access:
                break
        # Otherwise nothing was told of but a start after the other.
        self.assertGreater(number, 1)

    def start_both(self, outer, inner, number):
        """Start a host within the start of the other, and use the page."""
        self.interrupt()
        self.flags(rpc_response_timeout=1)
        self.control('host1').power_on_system()
        counted = accesses.StartAccesses(
            number,
            functools.partial(self.start_within, inner),
            counts_all=self.counts_all,
        )
        with counted:
            self.restart_host(outer)
        self.access = counted.access
        if not self.access:
            self.restart_host(inner)
        self.admin_api.put_service_force_down(self.service('host1'), False)
        self.flags(rpc_response_timeout=10)
        self.assert_kept()
        has_claims = bool(
            self._get_allocations_by_server_uuid(self.server['id'])
        )
        if not self.access or has_claims in self.ended:
            # As in the stories of the other test, or in an earlier case.
            return
        if not self.counts_all:
            self.ended.add(has_claims)
        if has_claims:
            self.end('host1')
        else:
            self.evacuate_again()

    def assert_kept(self):
        """Verify that the source has the LPAR, with all claims or without."""
        self.await_stillness()
        self.assert_safe(self.server)
        self.assertEqual({'host1'}, {*self.lpars_of(self.server)})
        lpar = self.lpar(self.server, 'host1')
        self.assertEqual(len(_DEVICES), len(lpar.slots))
        record = self._record(self.server['id'])
        self.assertEqual(('host1', None), (record.host, record.task_state))
        uuid = self.server['id']
        slots = {('host1', index): {uuid} for index in lpar.slots}
        (move,) = self.moves(uuid)
        self.assertIn(move.status, ('failed', 'completed'))
        self.assertIn(self.consumers(), ({'host1': {uuid}} | slots, {}))

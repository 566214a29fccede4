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
import threading
import time

import fixtures
import oslo_messaging
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi

from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.virt import driver
from tests.functional import killed_threads
from tests.functional import move_sites

_DRIVER = driver.PowerVMDriver
#: The devices of the server, as in a flavor.
DEVICES = 'go'


class StuckServersTestCase(move_sites.MoveSiteTestCase):
    """Boots a server on the first host, and ends what interrupts it."""

    def setUp(self):
        super().setUp()
        self.threads = self.useFixture(killed_threads.Threads())
        # Other consoles than that of the test are not asked.
        self.flags(rpc_response_timeout=10)
        self.server = None

    def prepare(self):
        self.server = self.boot_server(self.flavor(DEVICES, swap=512))
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

    def migrated(self):
        """Let the server wait for its user on the second host."""
        self.ask(self.server, 'migrate')
        return self._wait_for_state_change(self.server, 'VERIFY_RESIZE')

    # The page

    def end(self, host, devices=DEVICES):
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

    def assert_whole(self, host, devices=DEVICES):
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

    def story_killed_while_server_stays_as_it_is(self):
        self.kill_once_the_guest_is_off()
        self.kill_while_it_unrescues()
        self.kill_while_it_refuses_a_rebuild()

    def kill_once_the_guest_is_off(self):
        with self.threads.killed(
            objects.Migration,
            'save',
            lambda migration: migration.status == 'post-migrating',
        ):
            self.resize()
        self.restart_host('host1')
        self.assertEqual('running', self.lpar(self.server, 'host1').state)
        self.end('host1')

    def story_killed_while_it_finishes(self):
        with self.threads.killed(_DRIVER, 'finish_migration'):
            self.resize()
        self.restart_host('host1')
        self.end('host1', 'gg')

    def kill_while_it_unrescues(self):
        self.ask(self.server, 'rescue')
        self._wait_for_state_change(self.server, 'RESCUE')
        with self.threads.killed(scsi_mappings.ScsiMappings, 'attach'):
            self.ask(self.server, 'unrescue')
        self.restart_host('host1')
        self.end('host1')

    def kill_while_it_refuses_a_rebuild(self):
        with self.threads.killed(_DRIVER, 'rebuild'):
            self.ask(self.server, 'rebuild', imageRef=self.image)
        self.restart_host('host1')
        self.end('host1')


class StuckMovesTest(StuckServersTestCase):
    """Cold migrations that nova-compute was killed in, or a message lost.

    Each stands for an end that the page tells of; tests.soak.move_sweep has
    kills at every request.
    """

    def test_stuck_moves_end_with_the_commands_of_the_page(self):
        self.tell_stories()

    # Before the source has handed the server over

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

    # While the destination takes it over

    def story_message_to_destination_is_lost(self):
        with self.lost('finish_resize'):
            self.ask(self.server, 'migrate')
        self.end('host2')

    def story_message_to_destination_cannot_be_sent(self):
        self.fail_between_hosts()
        self.end_on_source()

    def story_state_set_while_it_reverts(self):
        self.ask(
            self.server,
            'resize',
            flavorRef=self.flavor(DEVICES, swap=1024),
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

    # In a revert

    def story_destination_killed_while_it_reverts(self):
        self.migrated()
        with self.threads.killed(_DRIVER, 'destroy'):
            self.ask(self.server, 'revertResize')
        self.restart_host('host2')
        self.end('host2')

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
        there = self.reboot_hard(self.server)
        self.assertEqual('host2', there['OS-EXT-SRV-ATTR:host'])
        # Nova would confirm the first move in place of the next one.
        back = self.migrated()
        self.assertEqual('host1', back['OS-EXT-SRV-ATTR:host'])
        self.ask(self.server, 'confirmResize')
        self.server = self.await_end(self.server, 'ACTIVE')
        self.assert_statuses('confirmed', 'finished')
        lpar = self.lpar_uuid(self.server)
        self.assertIn(f'LPAR {lpar} is not removed', self.logged())

        # Nova counts whole seconds.
        time.sleep(1.1)
        other = self.boot({}, request={'host': 'host1'})
        self.ask(other, 'migrate')
        self._wait_for_state_change(other, 'VERIFY_RESIZE')
        self.end_finished_moves(self.server)
        self.assert_statuses('confirmed', 'error')
        # It has waited less long.
        self.assertEqual(
            'VERIFY_RESIZE', self.api.get_server(other['id'])['status']
        )
        self._delete_server(other)
        self.end('host1')

    def assert_statuses(self, *expected):
        """Compare the statuses of the server's migrations."""
        moves = self.moves(self.server['id'])
        self.assertEqual(expected, tuple(move.status for move in moves))


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

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

"""Servers with volumes that are resized and migrated."""

import contextlib

import fixtures
from cinderclient import exceptions as cinder_exception
from nova import context as nova_context
from nova import objects
from nova import utils
from nova.compute import manager
from nova.network import neutron
from oslo_utils import uuidutils

from emulator.tests import san
from powervm_emulator import worlds
from tests import proofs
from tests.functional import killed_threads
from tests.functional import moving
from tests.functional import one_time_use
from tests.functional import pools
from tests.functional import refreshes
from tests.functional import volumes


def world(number, made=None):
    """Return the world of a host with ports of its own to one array."""
    made = san.add_to(made or pools.numbered_world(number))
    (system,) = made['systems']
    system |= {
        'name': f'emulated-9009-22A-EMU000{number}',
        'serial': f'EMU000{number}',
    }
    for slot in system['slots']:
        for port in slot.get('fibre_channel_ports', ()):
            port['wwpn'] = port['wwpn'].replace('90FA', f'90F{number}')
    return made


class VolumeMoveTestCase(
    moving.MovingTestCase, volumes.VolumesTestCase, pools.PoolTestCase
):
    """Follows the volumes of servers."""

    def assert_on(self, host, other, server, connected):
        """Verify that a server has its volumes on one host, and no other.

        :param connected: As of :meth:`connected`.
        """
        self.assertEqual(connected, self.connected(server, host))
        if other:
            self.assertEqual([], self.slots(server, other))
            self.assertEqual([], self.array_disks(other))
        self.assertEqual('running', self.lpar(server, host).state)


class VolumeMovesTest(VolumeMoveTestCase):
    """Two hosts with one pool, and one array."""

    def setUp(self):
        super().setUp()
        self.start_site(described=[world(1), world(2)])
        self.threads = self.useFixture(killed_threads.Threads())

    def test_servers_move_with_their_volumes(self):
        self.tell_stories()

    def boot_with_volume(self, extra_specs=()):
        """Boot a server on the first host, and attach a volume."""
        server = self.boot_on_first(dict(extra_specs))
        volume = uuidutils.generate_uuid()
        self.attach(server, volume)
        return server, volume

    @proofs.proves('storage.block')
    def story_server_migrates_with_volume_and_is_confirmed(self):
        server, volume = self.boot_with_volume()
        before = self.connected(server)
        self.migrate(server)
        self.assert_on('host2', 'host1', server, before)
        second = uuidutils.generate_uuid()
        # A server that awaits its confirmation gets another one.
        self.attach(server, second)
        self.confirm(server)
        self.assertEqual(4, len(self.slots(server, 'host2')))
        self.assertEqual(sorted([volume, second]), self.cinder.mapped())
        self.detach(server, volume)
        self.detach(server, second)
        self.assertEqual([], self.array_disks('host2'))

    def story_server_comes_back_with_volumes_of_both_hosts(self):
        server, _ = self.boot_with_volume()
        before = self.connected(server)
        self.migrate(server)
        second = uuidutils.generate_uuid()
        self.attach(server, second)
        both = self.connected(server, 'host2')
        self.revert(server)
        self.assert_on('host1', 'host2', server, both)
        for vios, slots in before.items():
            self.assertLessEqual(slots.items(), both[vios].items())

    @proofs.proves('operation.evacuate')
    def story_evacuated_server_keeps_its_disk_in_the_pool_and_its_volume(self):
        server, _ = self.boot_with_volume()
        before = self.connected(server)
        service = self.computes['host1'].service_ref.uuid
        self.computes['host1'].stop()
        self.admin_api.put_service_force_down(service, True)
        self.control('host1').power_off_system()
        server = self._evacuate_server(server, expected_host='host2')
        self._start_server(server)
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.control('host1').power_on_system()
        self.restart_host('host1')
        self.admin_api.put_service_force_down(service, False)
        self.assert_on('host2', 'host1', server, before)
        self.assertIsNone(self.lpar(server))

    def story_volume_of_another_uid_at_its_place_is_refused(self):
        server, volume = self.boot_with_volume()
        self.migrate(server)
        self.cinder.exchange(volume)
        self.revert(server, expected='ERROR')
        self.assertIn('leads to another disk now', self.fault(server))
        self.assertEqual([], self.slots(server))
        self.cinder.exchange()
        self.reboot_hard(server)
        self.assertEqual(2, len(self.slots(server)))

    @contextlib.contextmanager
    def killed(self, owner, name):
        """Kill the services before a method of Nova's; start them again."""
        with self.threads.killed(owner, name):
            yield
        for host in ('host1', 'host2'):
            self.restart_host(host)

    def assert_whole(self, server, before):
        """Verify that a server is whole on its host, and in Cinder."""
        host, other = self.here_and_there(server)
        self.assert_on(host, other, server, before)
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        attachments = {disk.attachment_id for disk in disks if disk.is_volume}
        self.assertEqual(2, len(attachments))
        self.assertLessEqual(attachments, self.cinder.complete)

    def here_and_there(self, server):
        """Return the host that Nova records, and the other one."""
        server = self.admin_api.get_server(server['id'])
        here = server['OS-EXT-SRV-ATTR:host']
        return here, {'host1': 'host2', 'host2': 'host1'}[here]

    def story_start_takes_back_a_move_that_lost_the_attachments(self):
        server, _ = self.boot_with_volume()
        self.attach(server, uuidutils.generate_uuid())
        before = self.connected(server)
        for owner, name in (
            (neutron.API, 'migrate_instance_start'),
            # Nova has not recorded what replaces a deleted attachment.
            (objects.BlockDeviceMapping, 'save'),
        ):
            with self.killed(owner, name):
                self.admin_api.post_server_action(
                    server['id'], {'migrate': None}
                )
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': None}
            )
            self.assertEqual('host1', self.here_and_there(server)[0])
            self.assert_whole(server, before)

    def story_hard_reboot_ends_a_move_that_lost_the_attachments(self):
        compute = manager.ComputeManager
        for action, name, expected in (
            # Before the array maps volumes to the host, and after it.
            ('migrate', '_update_volume_attachments', 'host2'),
            ('revertResize', '_update_volume_attachments', 'host1'),
            ('revertResize', '_complete_volume_attachments', 'host1'),
        ):
            server, _ = self.boot_with_volume()
            self.attach(server, uuidutils.generate_uuid())
            before = self.connected(server)
            if action == 'revertResize':
                self.migrate(server)
            with self.killed(compute, name):
                self.admin_api.post_server_action(server['id'], {action: None})
            self.admin_api.post_server_action(
                server['id'], {'os-resetState': {'state': 'error'}}
            )
            self.reboot_hard(server)
            self.assertEqual(expected, self.here_and_there(server)[0])
            self.assert_whole(server, before)
            self._delete_server(self.api.get_server(server['id']))

    def story_volume_that_is_just_attached_keeps_server_where_it_is(self):
        server, _ = self.boot_with_volume()
        waiting = objects.BlockDeviceMapping(
            nova_context.get_admin_context(),
            instance_uuid=server['id'],
            volume_id=uuidutils.generate_uuid(),
            source_type='volume',
            destination_type='volume',
        )
        waiting.create()
        before = self.connected(server)
        reason = self.refuse_move(server, 'migrate')
        self.assertIn(waiting.volume_id, reason)
        self.assert_on('host1', 'host2', server, before)
        waiting.destroy()


class LocalDisksTestCase(VolumeMoveTestCase, one_time_use.OneTimeUseTestCase):
    """Starts two hosts whose local disks are in volume groups."""

    def setUp(self):
        super().setUp()
        for number in (1, 2):
            self.start_host(
                f'host{number}', world=world(number, worlds.default())
            )

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        for host in self.hosts:
            for index in self.burned(host):
                self.release(index, host)
        self._run_periodics()


class WithoutPoolTest(LocalDisksTestCase, refreshes.RefreshTestCase):
    """Servers without a pool, and commands that refresh their volumes."""

    def test_server_moves_that_has_no_disks_but_volumes(self):
        self.tell_stories()

    @proofs.proves(
        'O21',
        'O24',
        'O25',
        'storage.block',
        'device.cold-migrate',
        'device.one-time-use',
    )
    def story_server_with_device_boots_from_volume_and_migrates(self):
        data = uuidutils.generate_uuid()
        server = self.boot_from_volume(
            data, request={'host': 'host1', 'config_drive': True}
        )
        before = self.connected(server)
        (first,) = self.owned(server)
        self.assert_burned(first)
        self.migrate(server)
        self.assert_on('host2', 'host1', server, before)
        (other,) = self.owned(server, 'host2')
        self.assert_burned(other, host='host2')
        self.revert(server)
        self.assert_on('host1', 'host2', server, before)
        self.assertEqual({first}, self.owned(server))
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.media('host2'))
        self.migrate(server)
        self.confirm(server)
        self.assert_on('host2', 'host1', server, before)
        (another,) = self.owned(server, 'host2')
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.media('host1'))
        self.reboot_hard(server)
        self.assert_on('host2', 'host1', server, before)
        # Nobody but an operator takes a burn back.
        self.assert_burned(first)
        self.assert_burned(other, another, host='host2')
        self.arrive_after_failover(server, data)
        self.assert_burned(first, *self.owned(server))

    def arrive_after_failover(self, server, data):
        """Migrate a server whose volumes have other UDIDs on the next host."""
        burned, before = self.burned(), self.connected(server, 'host2')
        recorded = volumes.recorded_udids(server)
        self.cinder.exchange(volumes.BOOT_VOLUME, data)
        self.migrate(server, expected='ERROR')
        self.assertIn('Refresh it if it is a copy', self.fault(server))
        # What the last step would have burned waits for a hard reboot.
        self.assert_burned(*burned)
        self.assertEqual([], self.array_disks())
        self.assertIsNone(self.lpar(server))
        self.reboot_hard(server, 'ERROR')
        self.assertEqual(recorded, volumes.recorded_udids(server))

        server = self.refresh(server, volumes.BOOT_VOLUME, data)
        found = self.connected(server)
        self.assert_on('host1', 'host2', server, found)
        for vios, slots in before.items():
            self.assertEqual(slots.keys(), found[vios].keys())
            self.assertEqual(
                {*volumes.recorded_udids(server).values()},
                {*found[vios].values()},
            )
        self.cinder.exchange()

    @proofs.proves('storage.block')
    def story_server_is_unshelved_elsewhere_with_its_own_volumes(self):
        self.flags(shelved_offload_time=0)
        data = uuidutils.generate_uuid()
        server = self.boot_from_volume(
            data, extra_specs={}, request={'host': 'host1'}
        )
        before = self.connected(server)
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.assert_no_volumes()
        for wrong in (volumes.BOOT_VOLUME, data):
            self.cinder.exchange(wrong)
            event = self.unshelve(server, 'error')
            self.assertIn('leads to another disk now', event['details'])
            server = self.api.get_server(server['id'])
            self.assertEqual('SHELVED_OFFLOADED', server['status'])
            self.assertIsNone(self.lpar(server, 'host2'))
            self.assert_no_volumes('host2')
            self.wait_until_unallocated(server)
        self.cinder.exchange()
        self.unshelve(server)
        self.assert_on('host2', 'host1', server, before)
        self.assertEqual(2, len(volumes.recorded_udids(server)))
        self.assertTrue(all(volumes.recorded_udids(server).values()))

    def unshelve(self, server, expected='success'):
        """Unshelve a server on the second host; return its event."""
        with (
            self.ended(
                server, 'unshelve', expected, 'unshelve_instance'
            ) as event,
            utils.temporary_mutation(self.admin_api, microversion='2.91'),
        ):
            self.admin_api.post_server_action(
                server['id'], {'unshelve': {'host': 'host2'}}
            )
        return event

    def story_server_with_ephemeral_disk_stays_at_home(self):
        server = self.boot_from_volume(
            extra_specs={}, request={'host': 'host1'}, ephemeral=1
        )
        before = self.connected(server)
        reason = self.refuse_move(server, 'migrate')
        self.assertIn('disks but the root disk are not in a shared', reason)
        self.assert_on('host1', 'host2', server, before)


class EvacuationTest(LocalDisksTestCase):
    """Servers of a lost host, and hosts that come back."""

    def setUp(self):
        super().setUp()
        self.other, self.third = (uuidutils.generate_uuid() for _ in range(2))

    def test_servers_are_evacuated_with_their_volumes(self):
        self.tell_stories()

    def boot_on_first_host(self, *more, extra_specs=None, **options):
        """Boot a server from a volume on the first host, with a device."""
        return self.boot_from_volume(
            *more,
            extra_specs=one_time_use.gpu_group()
            if extra_specs is None
            else extra_specs,
            request={'host': 'host1', 'config_drive': True},
            **options,
        )

    def evacuate(self, server, **expected):
        """Evacuate a server to the second host."""
        return self._evacuate_server(
            server,
            extra_post_args={'host': 'host2'},
            **{'expected_host': 'host2'} | expected,
        )

    def refuse_evacuation(self, server):
        """Evacuate a server, which fails; return the message of its fault."""
        self.evacuate(
            server,
            expected_host='host1',
            expected_state='ERROR',
            expected_migration_status='failed',
        )
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.array_disks('host2'))
        self.assert_burned(host='host2')
        return self.fault(server)

    @proofs.proves('storage.block', 'operation.evacuate', 'device.evacuate')
    def story_evacuated_server_has_its_volumes_and_another_device(self):
        server = self.boot_on_first_host(self.other, ephemeral=1)
        before = self.connected(server)
        self.fail_host('host1')
        server = self.evacuate(server)
        self.assertIn('does not see the disks of the ins', self.logged())
        self.assert_burned(one_time_use.INDEX, host='host2')
        self._start_server(server)
        self.assertEqual(before, self.connected(server, 'host2'))
        self.assertEqual(
            {one_time_use.INDEX: True}, self.lpar(server, 'host2').slots
        )
        # What leads nowhere by now is found by the LPAR that has it.
        self.assertEqual(4, len(self.slots(server, 'host1')))
        self.recover_host('host1')
        self.assert_on('host2', 'host1', server, before)
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual(2, len(self.cinder.mapped()))

    def story_volume_of_another_uid_is_refused_and_comes_home(self):
        server = self.boot_on_first_host(self.other)
        before = self.connected(server)
        truth = self.cinder.uid

        def other(volume_id):
            uid = truth(volume_id)
            return uid[:-1] + ('1' if uid[-1] == '0' else '0')

        self.fail_host('host1')
        self.cinder.uid = other
        fault = self.refuse_evacuation(server)
        self.assertIn('leads to another disk now', fault)
        self.cinder.uid = truth
        self.recover_host('host1')
        # Cinder maps the volumes to the other host, and nothing to this one.
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        self._stop_server(server)
        self.api.post_server_action(server['id'], {'os-start': None})
        event = self._wait_for_action('start', server, 'Error')
        self.assertIn('has taken', event['details'])
        self.assertIn('Reboot it hard', event['details'])
        self.assertEqual('not activated', self.lpar(server).state)
        self.reboot_hard(server)
        self.assert_on('host1', 'host2', server, before)

    def story_volume_that_cinder_does_not_unmap_ends_an_evacuation(self):
        server = self.boot_on_first_host(self.other)
        before = self.connected(server)
        self.fail_host('host1')
        with fixtures.MockPatch(
            'nova.volume.cinder.API.attachment_delete',
            autospec=False,
            side_effect=cinder_exception.ClientException(500),
        ):
            self.refuse_evacuation(server)
        self.assertEqual(before, self.connected(server))
        # Nova frees the device of the failed evacuation in its next cycle.
        self._run_periodics()
        self.evacuate(server, expected_state='ACTIVE')
        self.assertEqual(before, self.connected(server, 'host2'))
        self.recover_host('host1')

    def story_host_that_has_not_noticed_gets_no_volumes(self):
        server = self.boot_on_first_host(extra_specs={})
        before = self.connected(server)
        neighbour = self.boot({}, request={'host': 'host1'})
        self.admin_api.put_service_force_down(
            self.computes['host1'].service_ref.uuid, True
        )
        with fixtures.MockPatch(
            'nova.volume.cinder.API.attachment_update',
            autospec=False,
            side_effect=cinder_exception.ClientException(500),
        ):
            self.refuse_evacuation(server)
        # Cinder has unmapped the volume from under the guest.
        self.assertEqual([], self.cinder.mapped())
        event = self.attach(neighbour, self.other, expected='error')
        self.assertIn('evacuation has not succeeded', event['details'])
        self.reboot_hard(server)
        self.assert_on('host1', 'host2', server, before)
        # What led to its former place is not left.
        connected = f'Connected boot volume {volumes.BOOT_VOLUME}'
        self.assertEqual(2, self.logged().count(connected))
        self.attach(neighbour, self.other)
        self.evacuate(server)
        event = self.attach(neighbour, self.third, expected='error')
        self.assertIn('still has a server that was evacua', event['details'])
        # Nova would ask for the connector after it has removed the LPAR.
        reason = self.refuse_rebuild(neighbour, self.image)
        self.assertIn('still has a server that was evacua', reason)
        self.assertEqual('running', self.lpar(neighbour).state)
        self.recover_host('host1')
        self.attach(neighbour, self.third)
        self.assertEqual(4, len(self.slots(neighbour)))

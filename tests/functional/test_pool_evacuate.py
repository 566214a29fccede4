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

"""Servers with disks in a shared storage pool are evacuated.

What could cost a server its disks, or run it twice, does not.
"""

import base64
import contextlib
from unittest import mock

from nova import context as nova_context
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states

from nova_powervm.lpar import storage
from nova_powervm.ops import removal
from nova_powervm.powervm import partitions
from tests import proofs
from tests.functional import base
from tests.functional import one_time_use
from tests.functional import pools

INDEX = one_time_use.INDEX


class PoolEvacuateTest(one_time_use.OneTimeUseTestCase, pools.PoolTestCase):
    """Two hosts with one pool and the same DRC indexes, and one without."""

    def setUp(self):
        super().setUp()
        self._lost = set()
        self.start_site()
        self.start_host('host3')

    def test_servers_are_evacuated_with_their_disks(self):
        self.tell_stories()

    # Evacuations that succeed

    @proofs.proves('D83', 'operation.evacuate')
    def story_evacuated_server_keeps_disks_and_gets_other_device(self):
        ports = [self.make_port() for _ in range(4)]
        server = self.boot_on_first(
            one_time_use.gpu_group(),
            ephemeral=1,
            swap=512,
            networks=[{'port': port['id']} for port in ports],
            request={'config_drive': True},
        )
        before = self.disks_of(server)
        self.assertEqual({'root', 'eph0', 'swap'}, set(before))
        mapped = self.mapped_to(server, 'host1')
        self.assertEqual(4, len(mapped))
        self.exchange_port(server, ports[1])
        adapters = self.ports_of(server, 'host1')
        self.assertEqual([2, 4, 5, 16], [slot for _, slot, _ in adapters])
        self.forget_virtual_slots(server)
        # As each start of nova-compute does.
        driver = self.computes['host1'].manager.driver
        instance = self.instance(server)
        driver.plug_vifs(instance, instance.get_network_info())
        self.lose_host()

        server = self.evacuate(server)

        self.assertEqual('SHUTOFF', server['status'])
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.assertEqual(
            {name: unit['udid'] for name, unit in before.items()},
            {
                name: unit['udid']
                for name, unit in self.disks_of(server, 'host2').items()
            },
        )
        self.assertEqual(mapped, self.mapped_to(server, 'host2'))
        self.assertEqual(adapters, self.ports_of(server, 'host2'))
        self.assertEqual({INDEX: True}, self.lpar(server, 'host2').slots)
        self.assert_burned(INDEX, host='host2')
        self._start_server(server)
        self.assertEqual('running', self.lpar(server, 'host2').state)

        self.regain_host()

        self.assert_absent(server, 'host1')
        self.assert_burned(INDEX, host='host1')
        self.assertIsNone(self.slot_owner(INDEX, 'host1'))
        self.assertEqual(mapped, self.mapped_to(server, 'host2'))
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))

        self.notifier.reset()
        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertTrue(self.bytes_of(server).startswith(b'another image'))
        self._delete_server(server)
        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.assert_absent(server, 'host2')
        for host in ('host1', 'host2'):
            self.release(INDEX, host)

    def story_source_keeps_disks_if_destination_does_not_answer(self):
        server = self._stop_server(self.boot_on_first())
        # It was off, so its host need not be.
        self.fail_host('host1')
        self.evacuate(server)
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.computes['host2'].stop()
        self.flags(rpc_response_timeout=2)

        self.recover_host('host1')

        self.assert_absent(server, 'host1')
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.restart_host('host2')

    def story_server_deleted_elsewhere_is_removed_from_returning_host(self):
        server = self.boot_on_first()
        self.lose_host()
        self.control('host2').add_fault(
            match='LogicalPartition.job', nth=2, status=500
        )
        self.evacuate(server)
        self.assertIn('could not be stopped afterwards', self.logged())
        self.assertEqual('running', self.lpar(server, 'host2').state)
        # A periodic task of Nova stops it.
        self.computes['host2'].manager._sync_power_states(
            nova_context.get_admin_context()
        )
        self.wait_until_off(server, 'host2')

        self._delete_server(server)

        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.regain_host()
        self.assert_absent(server, 'host1')

    # Evacuations that fail

    def story_server_that_runs_on_its_old_host_is_refused(self):
        port = self.make_port()
        server = self.boot_on_first(
            one_time_use.gpu_group(), networks=[{'port': port['id']}]
        )
        binding = self.binding(port)
        self.fail_host('host1')
        before = self.host_state('host2')

        fault = self.refuse(server)

        name = storage.unit_name(self.lpar(server, 'host1').uuid, storage.ROOT)
        self.assertIn('A disk of the server is in use by a running', fault)
        self.assertIn(f'Disk {name} is in use by a running', self.logged())
        self.assertEqual(before, self.host_state('host2'))
        self.assertEqual('running', self.lpar(server, 'host1').state)
        self.assertEqual(set(), self.burned('host2'))
        self.assertEqual(binding, self.binding(port))
        self.control('host1').power_off_system()
        # Nova frees the device of the failed evacuation in its next cycle.
        self._run_periodics()
        self.evacuate(server, expected_state='ACTIVE')
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        for host in ('host1', 'host2'):
            self.release(INDEX, host)

    def story_server_whose_disks_are_lost_is_built_from_image(self):
        server = self.boot_on_first(request={'config_drive': True})
        self.lose_host()
        self.control('host2').plan_job('PowerOn', 'HSCL0000 No.')
        self.refuse(server)
        self.assert_absent(server, 'host2')
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        pool = self.services('host2').disks.pool
        pool.delete(pool.disks(self.lpar_uuid(server)))

        self.evacuate(server, expected_state='ACTIVE')

        unit = self.disks_of(server, 'host2')['root']
        self.assert_is_clone(unit, base.IMAGE, 'host2')

    def story_server_is_not_started_while_another_lpar_has_its_disks(self):
        server = self.boot_on_first(request={'config_drive': True})
        self._stop_server(server)
        self.fail_host('host1')
        with self.killed_after_start():
            self.refuse(server)
        self.assertEqual('running', self.lpar(server, 'host2').state)
        self.assertEqual(1, len(self.media('host2')))
        self.recover_host('host1')
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )

        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})

        self._wait_for_server_parameter(
            server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )
        self.assertEqual('not activated', self.lpar(server, 'host1').state)
        self.assertIn('is in use by a running LPAR', self.fault(server))
        # An evacuation that is repeated finds what the first one left.
        self.fail_host('host1')
        self.restart_host('host2')
        self.assert_absent(server, 'host2')
        self.evacuate(server, expected_state='ACTIVE')
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))

    @contextlib.contextmanager
    def killed_after_start(self):
        """Let builds fail after their LPARs were started, which remain."""
        real = partitions.RestPartitions.power_on

        def start_and_fail(lpars, lpar):
            real(lpars, lpar)
            raise RuntimeError('the process was killed')

        with (
            mock.patch.object(
                partitions.RestPartitions, 'power_on', start_and_fail
            ),
            mock.patch.object(removal.RemovalOps, 'remove_failed_build'),
        ):
            yield

    def story_killed_destination_gives_evacuations_up_at_start(self):
        options = {'request': {'config_drive': True}}
        repeated = self.boot_on_first(one_time_use.gpu_group(), **options)
        newer, deleted = (self.boot_on_first(**options) for _ in range(2))
        before = self.allocated(repeated)
        self.lose_host()
        for server in (repeated, newer, deleted):
            self.interrupt_evacuation(server)
            self.assertIsNotNone(self.lpar(server, 'host2'))
        self.assertNotEqual(before, self.allocated(repeated))
        migration = self.evacuate_elsewhere(newer)
        self.api.delete_server(deleted['id'])
        self._wait_until_deleted(deleted)

        self.restart_host('host2')

        for server in (repeated, newer, deleted):
            self.assert_absent(server, 'host2')
        self.assertEqual(set(), self.media('host2'))
        self.assertIn('ended during the evacuation', self.fault(repeated))
        self.assertIsNone(self.instance(repeated).migration_context)
        self.assertEqual(before, self.allocated(repeated))
        self.release(INDEX, 'host2')
        self.evacuate(repeated, expected_state='ACTIVE')
        self.assertEqual(pools.WRITTEN, self.bytes_of(repeated))
        # The newer evacuation to another host goes on.
        migration = objects.Migration.get_by_id(
            nova_context.get_admin_context(), migration.id
        )
        self.assertEqual('pre-migrating', migration.status)
        instance = self.instance(newer)
        self.assertEqual(task_states.REBUILD_SPAWNING, instance.task_state)
        migration.status = 'failed'
        migration.save()
        for host in ('host1', 'host2'):
            self.release(INDEX, host)

    def evacuate_elsewhere(self, server):
        """Record that a server is evacuated to another host meanwhile."""
        migration = objects.Migration(
            nova_context.get_admin_context(),
            instance_uuid=server['id'],
            source_compute='host1',
            dest_compute='host3',
            migration_type='evacuation',
            status='pre-migrating',
        )
        migration.create()
        return migration

    def allocated(self, server):
        """Return the resources of a server, by provider."""
        found = self._get_allocations_by_server_uuid(server['id'])
        return {uuid: entry['resources'] for uuid, entry in found.items()}

    def interrupt_evacuation(self, server):
        """Leave a server as a nova-compute leaves it that is killed."""
        self.evacuate(server)
        instance = self.instance(server)
        (migration,) = objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(),
            {'instance_uuid': server['id'], 'migration_type': 'evacuation'},
        )
        # Undo what a killed nova-compute would not have written.
        node = self.computes['host2'].manager.rt.compute_nodes['host2']
        self.assertEqual(node.id, instance.compute_id)
        source = objects.ComputeNode.get_by_host_and_nodename(
            nova_context.get_admin_context(), 'host1', 'host1'
        )
        instance.host = instance.node = 'host1'
        instance.compute_id = source.id
        instance.vm_state = vm_states.ACTIVE
        instance.task_state = task_states.REBUILD_SPAWNING
        instance.migration_context = objects.MigrationContext(
            instance_uuid=instance.uuid,
            migration_id=migration.id,
            old_resources=None,
            new_resources=instance.resources,
        )
        instance.save()
        migration.status = 'pre-migrating'
        migration.save()

    # Deleted servers, and other storage

    def story_disks_of_servers_deleted_while_host_is_off_are_removed(self):
        servers = [
            self.boot_on_first(request={'config_drive': True})
            for _ in range(2)
        ]
        self.lose_host()
        first, second = servers
        self.delete_lost(first)
        self.assertIn('root', self.disks_of(first, 'host2'))

        # Nova-compute cleans the cache of images now and then.
        self.computes['host2'].manager.driver.manage_image_cache(
            nova_context.get_admin_context(), objects.InstanceList()
        )

        self.assertEqual({}, self.disks_of(first, 'host2'))
        self.assertEqual({'root'}, set(self.disks_of(second, 'host2')))
        self.delete_lost(second)
        self.restart_host('host2')
        self.assertEqual({}, self.disks_of(second, 'host2'))
        self.regain_host()
        # A periodic task of Nova removes the LPARs.
        self.computes['host1'].manager._cleanup_running_deleted_instances(
            nova_context.get_admin_context()
        )
        for server in servers:
            self.assert_absent(server, 'host1')
        self.assertEqual(set(), self.media('host1'))

    def delete_lost(self, server):
        """Delete a server whose host is off."""
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)

    def story_evacuation_to_other_storage_builds_from_image(self):
        server = self.boot_on_first()
        self.lose_host()
        self.assert_sees_no_disks('host3', server)

        server = self.evacuate(server, 'host3')

        self.assertEqual(1, len(self.disks('host3')))
        self.assertIn(
            'This host does not see the disks of the instance',
            self.logged(),
        )
        # The disk in the pool is of no more use.
        self.regain_host()
        self.assertEqual({}, self.disks_of(server, 'host2'))

    def assert_sees_no_disks(self, host, server):
        """Assert that a host refuses to take a server's disks for shared."""
        context, instance = (
            nova_context.get_admin_context(),
            self.instance(server),
        )
        drivers = {
            name: compute.manager.driver
            for name, compute in self.computes.items()
        }
        self.assertFalse(drivers[host].instance_on_disk(instance))
        self.assertRaises(
            NotImplementedError,
            drivers[host].check_instance_shared_storage_local,
            context,
            instance,
        )
        data = drivers['host2'].check_instance_shared_storage_local(
            context, instance
        )
        self.assertEqual(
            {'host2': True, host: False},
            {
                name: drivers[name].check_instance_shared_storage_remote(
                    context, data
                )
                for name in ('host2', host)
            },
        )

    def story_returning_host_keeps_disks_that_server_has_again(self):
        self.flags(rpc_response_timeout=2)
        server = self.boot_on_first()
        self.lose_host('host1')
        server = self.evacuate(server, 'host3')
        self.lose_host('host3')
        server = self.evacuate(server, 'host2')
        # Not the old disk, which was still in the pool.
        self.assertEqual(base.IMAGE[:4], self.bytes_of(server)[:4])
        before = self.disks_of(server, 'host2')
        # Asked by the first host, it says that it shares nothing with it.
        self.regain_host('host3')
        self.lose_host('host2')

        self.regain_host('host1')

        self.assertIsNone(self.lpar(server, 'host1'))
        after = self.disks_of(server, 'host1')
        self.assertEqual(before['root']['udid'], after['root']['udid'])

    def story_server_that_has_come_back_is_no_longer_evacuated(self):
        server = self.boot_on_first()
        self.lose_host('host1')
        self.evacuate(server, 'host2')
        self.regain_host('host1')
        self.api.post_server_action(server['id'], {'os-start': None})
        self._wait_for_state_change(server, 'ACTIVE')
        self.api.post_server_action(
            server['id'], {'migrate': {'host': 'host1'}}
        )
        self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self.api.post_server_action(server['id'], {'confirmResize': None})
        self._wait_for_state_change(server, 'ACTIVE')
        # A rebuild has such a task, too.
        record = self._record(server['id'])
        record.task_state = task_states.REBUILDING
        record.save()
        self.restart_host('host2')
        record.refresh()
        self.assertEqual(
            (vm_states.ACTIVE, task_states.REBUILDING),
            (record.vm_state, record.task_state),
        )
        # As if nova-compute had not ended when the host was given up.
        (evacuation,) = objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(),
            {'instance_uuid': server['id'], 'migration_type': 'evacuation'},
        )
        self.assertEqual('completed', evacuation.status)
        evacuation.status = 'done'
        evacuation.save()
        record.task_state = None
        record.save()
        held = self._get_allocations_by_server_uuid(server['id'])
        self.restart_host('host1')
        self.assertEqual('running', self.lpar(server, 'host1').state)
        self.assertEqual(
            held, self._get_allocations_by_server_uuid(server['id'])
        )
        evacuation = objects.Migration.get_by_id(
            nova_context.get_admin_context(), evacuation.id
        )
        self.assertEqual('completed', evacuation.status)

    def story_old_host_starts_while_the_server_reverts_elsewhere(self):
        server = self.boot_on_first()
        self.lose_host('host1')
        self.evacuate(server, 'host2')
        record = self._record(server['id'])
        record.task_state = task_states.RESIZE_REVERTING
        record.save()
        self.regain_host('host1')
        self.assertIsNone(self.lpar(server, 'host1'))
        record.refresh()
        record.task_state = None
        record.save()

    # What stories do

    def boot_on_first(self, groups=None, **options):
        """Boot a server on the first host, whose guest writes to its disk."""
        options = {'disk': 1} | options
        server = self.boot(
            groups or {},
            request={'host': 'host1', **options.pop('request', {})},
            **options,
        )
        self.control().write_disk(
            self.disks_of(server)['root']['udid'],
            base64.b64encode(pools.WRITTEN).decode(),
        )
        return server

    def lose_host(self, name='host1'):
        """Power a host off, with its nova-compute."""
        self.fail_host(name)
        self.control(name).power_off_system()

    def regain_host(self, name='host1'):
        """Power a host on and start its nova-compute."""
        self.control(name).power_on_system()
        self.recover_host(name)

    def evacuate(self, server, host='host2', **expected):
        """Evacuate a server to a host."""
        return self._evacuate_server(
            server,
            extra_post_args={'host': host},
            **{'expected_host': host} | expected,
        )

    def refuse(self, server):
        """Evacuate a server, which fails; return the message of its fault."""
        self.evacuate(
            server,
            expected_host='host1',
            expected_state='ERROR',
            expected_migration_status='failed',
        )
        return self.fault(server)

    def forget(self):
        """Let both hosts run, then delete the servers of a story."""
        for name in sorted(self._lost):
            self.regain_host(name)
        super().forget()
        self._run_periodics()

    def fail_host(self, host):
        """Stop a host's nova-compute; see the base class."""
        self._lost.add(host)
        super().fail_host(host)

    def recover_host(self, host):
        """Start a host's nova-compute; see the base class."""
        super().recover_host(host)
        self._lost.discard(host)

    def services(self, host):
        """Return the operations of a host's driver."""
        return self.computes[host].manager.driver.services.host

    def wait_until_off(self, server, host):
        """Wait until a server's LPAR is off."""
        self.await_found(
            lambda: self.lpar(server, host).state == 'not activated',
            'the LPAR still runs',
        )

    # What they see

    def media(self, host):
        """Return the names of the media of a host."""
        return {
            medium['name']
            for group in self.vios(host)['volume_groups']
            for medium in (group['media_repository'] or {'media': ()})['media']
        }

    def binding(self, port):
        """Return the host that a port is bound to."""
        found = self.neutron.show_port(port['id'])['port']
        return found['binding:host_id']

    def assert_absent(self, server, host):
        """Assert that a host has neither LPAR nor storage of a server."""
        self.assertIsNone(self.lpar(server, host))
        stem = storage.stem(self.lpar_uuid(server))
        self.assertEqual([], self.vios(host)['scsi_mappings'])
        self.assertEqual(
            [], [name for name in self.media(host) if name.startswith(stem)]
        )

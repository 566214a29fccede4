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

"""Servers with disks in a shared storage pool are evacuated."""

import base64

from nova import context as nova_context
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states

from nova_powervm.instance import storage
from tests.functional import base
from tests.functional import one_time_use
from tests.functional import pools

INDEX = one_time_use.INDEX
OTHER = 0x21010021
WRITTEN = b'written by the guest'


class PoolEvacuateTestCase(
    one_time_use.OneTimeUseTestCase, pools.PoolTestCase
):
    """Two hosts with one pool and the same DRC indexes."""

    def setUp(self):
        super().setUp()
        self._lost = set()
        self.start_site()

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
            base64.b64encode(WRITTEN).decode(),
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

    def evacuate(self, server, **expected):
        """Evacuate a server to the second host."""
        return self._evacuate_server(
            server, **{'expected_host': 'host2'} | expected
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

    def bytes_of(self, server, host='host2'):
        """Return the first bytes of a server's root disk."""
        udid = self.disks_of(server, host)['root']['udid']
        return self.control(host).contents(udid)[: len(WRITTEN)]

    def mapped(self, server, host):
        """Return name, client slot and address of the disks of an LPAR."""
        name = self.instance(server).name
        return {
            (mapping['name'], mapping['client_slot'], mapping['lua'])
            for mapping in self.vios(host)['scsi_mappings']
            if mapping['client'] == name
        }

    def media(self, host):
        """Return the names of the media of a host."""
        return {
            medium['name']
            for group in self.vios(host)['volume_groups']
            for medium in (group['media_repository'] or {'media': ()})['media']
        }

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


class PoolEvacuateTest(PoolEvacuateTestCase):
    def test_evacuated_server_keeps_disks_and_gets_other_device(self):
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
        mapped = self.mapped(server, 'host1')
        self.assertEqual(4, len(mapped))
        adapters = self.ports_of(server, 'host1')
        self.lose_host()

        server = self.evacuate(server)

        self.assertEqual('SHUTOFF', server['status'])
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.assertEqual(
            {name: unit['udid'] for name, unit in before.items()},
            {
                name: unit['udid']
                for name, unit in self.disks_of(server, 'host2').items()
            },
        )
        self.assertEqual(mapped, self.mapped(server, 'host2'))
        self.assertEqual(adapters, self.ports_of(server, 'host2'))
        self.assertEqual({INDEX: True}, self.lpar(server, 'host2').slots)
        self.assert_burned(INDEX, host='host2')
        self._start_server(server)
        self.assertEqual('running', self.lpar(server, 'host2').state)

        self.regain_host()

        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual([], self.vios('host1')['scsi_mappings'])
        self.assertEqual(set(), self.media('host1'))
        self.assert_burned(INDEX, host='host1')
        self.assertIsNone(self.slot_owner(INDEX, 'host1'))
        self.assertEqual(mapped, self.mapped(server, 'host2'))
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self._delete_server(server)
        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.assertEqual(1, len(self.images('host2')))
        self.assertEqual(set(), self.media('host2'))

    def ports_of(self, server, host):
        """Return MAC address, virtual slot and VLAN of each adapter."""
        return [
            (adapter['mac'], adapter['slot'], adapter['vlan'])
            for adapter in self.adapters(server, host)
        ]

    def test_server_that_runs_on_its_old_host_is_refused(self):
        server = self.boot_on_first(one_time_use.gpu_group())
        self.fail_host('host1')
        before = self.host_state('host2')

        fault = self.refuse(server)

        name = storage.unit_name(self.lpar(server, 'host1').uuid, storage.ROOT)
        self.assertIn(f'Disk {name} is in use by a running LPAR', fault)
        self.assertEqual(before, self.host_state('host2'))
        self.assertEqual('running', self.lpar(server, 'host1').state)
        self.assertEqual(set(), self.burned('host2'))
        self.control('host1').power_off_system()
        # Nova frees the device of the failed evacuation in its next cycle.
        self._run_periodics()
        self.api.post_server_action(server['id'], {'evacuate': {}})
        self._wait_for_server_parameter(
            server, {'OS-EXT-SRV-ATTR:host': 'host2', 'status': 'ACTIVE'}
        )
        self.assertEqual(WRITTEN, self.bytes_of(server))


class RepeatedEvacuationTest(PoolEvacuateTestCase):
    def test_servers_are_evacuated_with_their_disks(self):
        self.tell_stories()

    def story_stopped_server_of_running_host_is_evacuated(self):
        server = self.boot_on_first()
        self._stop_server(server)
        self.fail_host('host1')
        self.evacuate(server)
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.recover_host('host1')
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def story_missing_disk_is_refused_before_anything_is_made(self):
        server = self.boot_on_first(ephemeral=1)
        self.lose_host()
        ephemeral = self.disks_of(server, 'host2')['eph0']['udid']
        disks = self.computes['host2'].manager.driver._services().disks
        disks.pool.delete(
            [
                known
                for known in disks.pool.disks()
                if known.stored.handle.unit.udid == ephemeral
            ]
        )
        before = self.host_state('host2')
        fault = self.refuse(server)
        self.assertIn('The ephemeral 1 disk of instance', fault)
        self.assertEqual(before, self.host_state('host2'))
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def story_failed_evacuation_keeps_disks(self):
        server = self.boot_on_first(
            one_time_use.gpu_group(), request={'config_drive': True}
        )
        self.lose_host()
        self.control('host2').plan_job('PowerOn', 'HSCL0000 No.')
        self.refuse(server)
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.vios('host2')['scsi_mappings'])
        self.assertEqual(set(), self.media('host2'))
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def story_evacuation_succeeds_even_if_final_stop_fails(self):
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
        for _ in range(200):
            if self.lpar(server, 'host2').state == 'not activated':
                return
            base.time.sleep(0.05)
        self.fail('the LPAR still runs')

    def story_deleted_server_is_removed_from_returning_host(self):
        server = self.boot_on_first()
        self.lose_host()
        self.evacuate(server)
        self._delete_server(server)
        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.regain_host()
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual([], self.vios('host1')['scsi_mappings'])

    def story_disks_of_server_deleted_while_host_is_off_are_removed(self):
        server = self.boot_on_first()
        kept = self.boot_on_first()
        self.lose_host()
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)
        self.assertIn('root', self.disks_of(server, 'host2'))
        self.clean('host2')
        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.assertEqual({'root'}, set(self.disks_of(kept, 'host2')))

    def story_disks_of_deleted_server_are_removed_at_start(self):
        server = self.boot_on_first(request={'config_drive': True})
        self.lose_host()
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)
        self.restart_host('host2')
        self.assertEqual({}, self.disks_of(server, 'host2'))
        self.regain_host()
        # A periodic task of Nova removes the LPAR.
        self.computes['host1'].manager._cleanup_running_deleted_instances(
            nova_context.get_admin_context()
        )
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual([], self.vios('host1')['scsi_mappings'])
        self.assertEqual(set(), self.media('host1'))

    def story_rebuild_after_evacuation_makes_new_disk(self):
        server = self.boot_on_first()
        self.lose_host()
        self._start_server(self.evacuate(server))
        self.notifier.reset()
        self._rebuild_server(server, self.create_image(b'another image'))
        data = self.bytes_of(server)
        self.assertTrue(data.startswith(b'another image'), data)

    def story_server_whose_disks_are_lost_is_built_from_image(self):
        server = self.boot_on_first()
        self.lose_host()
        pool = self.computes['host2'].manager.driver._services().disks.pool
        pool.delete(pool.disks(self.lpar_uuid(server)))
        self.evacuate(server)
        unit = self.disks_of(server, 'host2')['root']
        self.assert_is_clone(unit, base.IMAGE, 'host2')

    def clean(self, host):
        """Let a driver clean its cache of images, as nova-compute does."""
        self.computes[host].manager.driver.manage_image_cache(
            nova_context.get_admin_context(), objects.InstanceList()
        )

    def story_taken_device_is_refused_before_disks_are_touched(self):
        server = self.boot_on_first(one_time_use.gpu_group(OTHER))
        self.lose_host()
        self.control('host2').set_owner(f'{OTHER:08X}', 'database')
        before = self.host_state('host2')
        self.api.microversion = '2.67'
        self.admin_api.microversion = '2.67'
        self._evacuate_server(
            server,
            extra_post_args={'host': 'host2', 'force': True},
            expected_state='ACTIVE',
            expected_host='host1',
            expected_migration_status='error',
        )
        self.api.microversion = self.admin_api.microversion = 'latest'
        self.assertEqual(before, self.host_state('host2'))
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.control('host2').set_owner(f'{OTHER:08X}', None)

    def story_source_keeps_disks_if_destination_does_not_answer(self):
        server = self.boot_on_first()
        self.lose_host()
        self.evacuate(server)
        self.computes['host2'].stop()
        self.flags(rpc_response_timeout=2)
        self.regain_host()
        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.restart_host('host2')


class OtherStorageTest(PoolEvacuateTestCase):
    def setUp(self):
        super().setUp()
        self.start_host('host3')

    def test_hosts_with_other_storage_share_nothing(self):
        self.tell_stories()

    def story_evacuation_to_other_storage_builds_from_image(self):
        server = self.boot_on_first()
        self.lose_host()
        server = self.evacuate(
            server,
            extra_post_args={'host': 'host3'},
            expected_host='host3',
        )
        self.assertEqual(1, len(self.disks('host3')))
        self.assertIn(
            'This host does not see the disks of the instance',
            self.logged(),
        )
        # The disk in the pool is of no more use.
        self.regain_host()
        self.assertEqual({}, self.disks_of(server, 'host2'))

    def story_wrong_claim_of_shared_storage_is_refused(self):
        server = self.boot_on_first()
        self.lose_host()
        driver = self.computes['host3'].manager.driver
        instance = self.instance(server)
        self.assertFalse(driver.instance_on_disk(instance))
        self.assertRaises(
            NotImplementedError,
            driver.check_instance_shared_storage_local,
            nova_context.get_admin_context(),
            instance,
        )
        second = self.computes['host2'].manager.driver
        data = second.check_instance_shared_storage_local(
            nova_context.get_admin_context(), instance
        )
        for host, is_shared in (('host2', True), ('host3', False)):
            self.assertEqual(
                is_shared,
                self.computes[
                    host
                ].manager.driver.check_instance_shared_storage_remote(
                    nova_context.get_admin_context(), data
                ),
            )


class KilledDestinationTest(PoolEvacuateTestCase):
    def test_evacuation_with_killed_destination_can_be_repeated(self):
        server = self.boot_on_first(
            one_time_use.gpu_group(), request={'config_drive': True}
        )
        before = self.allocated(server)
        self.lose_host()
        self.interrupt_evacuation(server)
        self.assertIsNotNone(self.lpar(server, 'host2'))

        self.restart_host('host2')

        self.assertIn('ended during the evacuation', self.fault(server))
        self.assertIsNone(self.instance(server).migration_context)
        self.assertEqual(before, self.allocated(server))
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.vios('host2')['scsi_mappings'])
        self.assertEqual(set(), self.media('host2'))
        self.release(INDEX, 'host2')
        self.evacuate(server, expected_state='ACTIVE')
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def test_newer_evacuation_to_other_host_goes_on(self):
        server = self.boot_on_first()
        self.lose_host()
        self.interrupt_evacuation(server)
        newer = objects.Migration(
            nova_context.get_admin_context(),
            instance_uuid=server['id'],
            source_compute='host1',
            dest_compute='host3',
            migration_type='evacuation',
            status='pre-migrating',
        )
        newer.create()

        self.restart_host('host2')

        newer = objects.Migration.get_by_id(
            nova_context.get_admin_context(), newer.id
        )
        self.assertEqual('pre-migrating', newer.status)
        instance = self.instance(server)
        self.assertEqual(task_states.REBUILD_SPAWNING, instance.task_state)
        self.assertIsNone(self.lpar(server, 'host2'))

    def test_server_deleted_after_killed_evacuation_leaves_nothing(self):
        server = self.boot_on_first(request={'config_drive': True})
        self.lose_host()
        self.interrupt_evacuation(server)
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)

        self.restart_host('host2')

        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.vios('host2')['scsi_mappings'])
        self.assertEqual(set(), self.media('host2'))

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

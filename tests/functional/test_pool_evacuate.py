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

from nova import context as nova_context
from nova import objects

from nova_powervm.lpar import storage
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

    # Deleted servers, and other storage

    def story_disks_of_servers_deleted_while_host_is_off_are_removed(self):
        servers = [
            self.boot_on_first({}, request={'config_drive': True})
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

    def story_evacuation_to_other_storage_builds_from_image_and_back(self):
        self.flags(rpc_response_timeout=2)
        server = self.boot_on_first({})
        self.lose_host()
        self.assert_sees_no_disks('host3', server)

        server = self.evacuate(server, 'host3')

        self.assertEqual(1, len(self.disks('host3')))
        self.assertIn(
            'This host does not see the disks of the instance',
            self.logged(),
        )
        self.lose_host('host3')
        server = self.evacuate(server, 'host2')
        # Not the old disk, which was still in the pool.
        self.assertEqual(base.IMAGE[:4], self.bytes_of(server)[:4])
        before = self.disks_of(server, 'host2')
        # Asked by the first host, it says that it shares nothing with it.
        self.regain_host('host3')
        self.lose_host('host2')

        self.regain_host('host1')

        self.assert_absent(server, 'host1')
        after = self.disks_of(server, 'host1')
        self.assertEqual(before['root']['udid'], after['root']['udid'])

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

    # What stories do

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

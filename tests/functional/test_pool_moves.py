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
"""Servers move between hosts that share a storage pool."""

import base64
import contextlib
from unittest import mock

import fixtures
from nova import context as nova_context
from pypowervm import const
from pypowervm.wrappers import logical_partition

from emulator.tests import base as rest_clients
from nova_powervm.ops import removal
from tests import proofs
from tests.functional import base
from tests.functional import moving
from tests.functional import one_time_use
from tests.functional import pools

HOSTS = ('host1', 'host2')
#: What a guest has written to the NVRAM of its LPAR.
NVRAM = 'Ym9vdC1kZXZpY2U9L3ZkZXZpY2U='


class PoolMoveTestCase(
    one_time_use.OneTimeUseTestCase, moving.MovingTestCase, pools.PoolTestCase
):
    """Two hosts with one pool and the same DRC indexes."""

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=False)
        self.start_site()

    def prepare(self):
        for host in HOSTS:
            self.release_all(host)
        self._run_periodics()


class PoolMoveTest(PoolMoveTestCase):
    @proofs.proves('D81', 'operation.resize')
    def test_server_moves_between_hosts(self):
        self.tell_stories()

    @proofs.proves('O24')
    def story_resized_server_changes_hosts_with_device_disks_and_ports(self):
        ports = [self.make_port() for _ in range(2)]
        server = self.boot_on_first(
            base.gpu_groups(1),
            ephemeral=1,
            swap=512,
            networks=[{'port': port['id']} for port in ports],
            request={'config_drive': True},
        )
        mapped = self.mapped_to(server, 'host1')
        self.exchange_port(server, ports[0])
        adapters = self.ports_of(server, 'host1')
        self.assertEqual([3, 16], [slot for _, slot, _ in adapters])
        self.forget_virtual_slots(server)
        (old,) = self.owned(server)
        self.refuse_fewer_virtual_slots(server)
        self.write_nvram(server)

        server = self.resize(
            server,
            base.gpu_groups(1),
            memory_mb=1024,
            disk=3,
            ephemeral=1,
            swap=1024,
        )

        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(1024, self.lpar(server, 'host2').memory_mb)
        self.assertEqual(1.0, self.disks_of(server)['swap']['capacity'])
        (new,) = self.owned(server, 'host2')
        self.assertEqual('not activated', self.lpar(server, 'host1').state)
        self.assertEqual('running', self.lpar(server, 'host2').state)
        self.assertEqual({old}, self.owned(server, 'host1'))
        self.assertEqual({new}, self.slots_of(server['id'], 'host2'))
        self.assertEqual({old}, self.slots_of(self.migration_uuid(server)))
        self.assertEqual(mapped, self.mapped_to(server, 'host2'))
        self.assertEqual(adapters, self.ports_of(server, 'host2'))
        self.assertEqual(NVRAM, self.nvram(server, 'host2'))
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.assert_burned(old, host='host1')
        self.assert_burned(new, host='host2')

        with self.cycles_within('host1', removal.RemovalOps, 'destroy'):
            server = self.confirm(server)

        self.assertIsNone(self.lpar(server, 'host1'))
        self.assertEqual([], self.vios('host1')['scsi_mappings'])
        self.assertEqual([], self.media('host1'))
        self.assertEqual(3.0, self.disks_of(server)['root']['capacity'])
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.assertEqual({new}, self.owned(server, 'host2'))
        self.assertEqual('running', self.lpar(server, 'host2').state)
        self._run_periodics()
        self.assert_burned(old, host='host1')
        self.assert_burned(new, host='host2')

    def refuse_fewer_virtual_slots(self, server):
        """Assert that a host refuses a server with a slot beyond its last."""
        driver = self.computes['host2'].manager.driver
        lpars = driver.services.host.partitions
        with mock.patch.object(lpars, 'virtual_slots', 16):
            reason = self.refuse_move(server, 'migrate')
        self.assertIn('the other host cannot run it: Port', reason)
        self.assertIn('attach it again', reason)
        self.assertEqual('running', self.lpar(server).state)
        self._run_periodics()

    @proofs.proves('device.cold-migrate')
    def story_resize_between_hosts_is_reverted(self):
        server = self.boot_on_first(
            base.gpu_groups(1), swap=512, request={'config_drive': True}
        )
        document = self.document(server)
        mapped = self.mapped_to(server, 'host1')
        (old,) = self.owned(server)
        self.write_nvram(server)
        server = self.resize(
            server, base.gpu_groups(1), memory_mb=1024, disk=3
        )
        (new,) = self.owned(server, 'host2')
        self.assertNotIn('swap', self.disks_of(server))

        with self.cycles_within('host2', removal.RemovalOps, 'destroy'):
            server = self.revert(server)

        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual([], self.vios('host2')['scsi_mappings'])
        self.assertEqual([], self.media('host2'))
        self.assertEqual(document, self.document(server))
        self.assertEqual(NVRAM, self.nvram(server, 'host1'))
        self.assertEqual(mapped, self.mapped_to(server, 'host1'))
        self.assertEqual(
            {'root': 1.0, 'swap': 0.5},
            {
                role: unit['capacity']
                for role, unit in self.disks_of(server).items()
            },
        )
        self.assertEqual(pools.WRITTEN, self.bytes_of(server))
        self.assertEqual({old}, self.slots_of(server['id']))
        self._run_periodics()
        self.assert_burned(old, host='host1')
        self.assert_burned(new, host='host2')
        self.refuse_revert_to_source_without_slot(server)

    def refuse_revert_to_source_without_slot(self, server):
        """Migrate a server, and lose the slot that it has had."""
        (old,) = self.owned(server)
        server = self.migrate(server)
        (new,) = self.owned(server, 'host2')
        self.control('host1').set_owner(f'{old:08X}', 'archive')
        before = self.document(server, 'host2')
        self.control('host2').clear_journal()

        self.api.post_server_action(server['id'], {'revertResize': None})
        event = self._wait_for_action('revertResize', server, 'Error')

        self.assertIn('the other host cannot run it', event['details'])
        self.assertIn('is not reverted', event['details'])
        server = self._wait_for_server_parameter(
            server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(before, self.document(server, 'host2'))
        self.assertNotIn('PowerOff', str(self.control('host2').journal()))
        server = self.reboot_hard(server)
        self.assertEqual({new}, self.owned(server, 'host2'))
        self.assertIsNone(self.instance(server).migration_context)
        self.control('host1').set_owner(f'{old:08X}', None)
        self.leave_nothing_on_source(server)

    def leave_nothing_on_source(self, server):
        """Do what the page on stuck servers says of the other host."""
        source = self.computes['host1'].manager.driver.services.host
        source.removal.destroy(server['id'], delete_disks=False)
        self.placement.delete(f'/allocations/{self.migration_uuid(server)}')

    def story_servers_exchange_hosts_and_one_goes_back(self):
        going, returning = servers = [self.boot_own(host) for host in HOSTS]
        before = [
            self.owned(server, host)
            for server, host in zip(servers, HOSTS, strict=True)
        ]

        self.act_on_all(
            {server['id']: 'migrate' for server in servers}, 'VERIFY_RESIZE'
        )

        for server, source, slots in zip(servers, HOSTS, before, strict=True):
            (target,) = {*HOSTS} - {source}
            self.assert_runs_on(server, target)
            held = self.slots_of(self.migration_uuid(server), source)
            self.assertEqual(slots, held)
            self.assertEqual(slots, self.owned(server, source))
            self.assertEqual('not activated', self.lpar(server, source).state)

        self.act_on_all(
            {going['id']: 'confirmResize', returning['id']: 'revertResize'},
            'ACTIVE',
        )

        for server in servers:
            self.assert_runs_on(server, 'host2')
            self.assertIsNone(self.lpar(server, 'host1'))
            self.assertEqual(set(), self.mapped_to(server, 'host1'))
        self.assertEqual(before[1], self.owned(returning, 'host2'))

    def boot_own(self, host):
        """Boot a server with a GPU, whose guest writes its own id."""
        server = self.boot(base.gpu_groups(1), disk=1, request={'host': host})
        self.control(host).write_disk(
            self.disks_of(server)['root']['udid'],
            base64.b64encode(server['id'].encode()).decode(),
        )
        return server

    def act_on_all(self, actions, status):
        """Request an action on each server, and then wait for all of them.

        :param actions: Id of a server to the name of the action.
        :param status: The status that all servers get.
        """
        for uuid, action in actions.items():
            self.admin_api.post_server_action(uuid, {action: None})
        for uuid in actions:
            self._wait_for_server_parameter(
                {'id': uuid},
                {'status': status, 'OS-EXT-STS:task_state': None},
            )

    def assert_runs_on(self, server, host):
        """Verify a server's LPAR on a host: its slots, disks and contents."""
        found = self.api.get_server(server['id'])
        self.assertEqual(host, found['OS-EXT-SRV-ATTR:host'])
        self.assertEqual('running', self.lpar(server, host).state)
        allocated = self.slots_of(server['id'], host)
        self.assertEqual(allocated, self.owned(server, host))
        unit = self.disks_of(server)['root']
        self.assertEqual(
            {unit['name']}, {name for name, *_ in self.mapped_to(server, host)}
        )
        contents = self.control(host).contents(unit['udid'])
        self.assertEqual(server['id'].encode(), contents[: len(server['id'])])

    @contextlib.contextmanager
    def cycles_within(self, host, owner, name):
        """Run cycles of a host during calls of a function.

        They do not disturb the slow end of a move.
        """
        function = getattr(owner, name)
        called = []

        def cycle_and_go_on(*args, **options):
            called.append(name)
            for _ in range(2):
                self.computes[host].manager.update_available_resource(
                    nova_context.get_admin_context()
                )
            return function(*args, **options)

        with fixtures.MockPatchObject(owner, name, new=cycle_and_go_on):
            yield
        self.assertTrue(called)

    def write_nvram(self, server):
        """Write to the NVRAM of a server on the first host, as its guest."""
        adapter = rest_clients.adapter_for(self.hosts['host1'].emulator)
        self.addCleanup(rest_clients.forget, adapter.session)
        found = logical_partition.LPAR.get(
            adapter, uuid=self.lpar_uuid(server), xag=[const.XAG.NVRAM]
        )
        found.nvram = NVRAM
        found.update()

    def nvram(self, server, host):
        """Return the NVRAM of a server's LPAR on a host."""
        services = self.computes[host].manager.driver.services
        return services.host.partitions.nvram(self.lpar_uuid(server))

    def document(self, server, host='host1'):
        """Return what a host reports of a server's LPAR."""
        return self._partition(server['OS-EXT-SRV-ATTR:instance_name'], host)

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
"""The cells of the table of moves: each operation with each kind of device.

The table is in the page on moves. Each story stands for a row. Its server has
a device of each kind; where a server without devices takes another way through
Nova or the driver, there is one of those, too.
"""

from nova.tests.functional.api import client as api_client

from tests.functional import accelerated_servers
from tests.functional import base
from tests.functional import moving
from tests.functional import pools

ONCE = 'CUSTOM_ONCE'
#: Slots of one-time-use devices.
_SLOTS = ('21010038', '21010039')
_CARD = {
    'description': 'Flash controller',
    'vendor_id': '1C58',
    'device_id': '0003',
    'class': '0108',
}
_FILE = (
    base.GPUS
    + """once:
  identification: {vendor_id: "1C58"}
  resource_class: CUSTOM_ONCE
  one_time_use: true
"""
)

#: Extra specs of the flavor of each kind of server.
KINDS = {
    'no device': {},
    'devices': base.gpu_groups(1)
    | {
        'resources2:CUSTOM_ONCE': '1',
        'trait2:OWNER_NOVA': 'required',
        'group_policy': 'none',
    },
}


class MoveTableTest(moving.MovingTestCase, pools.PoolTestCase):
    """Two hosts with one pool, reusable and one-time-use devices."""

    inventory = _FILE

    def setUp(self):
        super().setUp()
        self.start_site()
        for host in self.hosts:
            for index in _SLOTS:
                self.control(host).plug(index, _CARD)
        self._run_periodics()

    def test_operations_move_each_kind_of_device(self):
        self.tell_stories()

    # Rows

    def story_resize_within_host_is_confirmed(self):
        self.boot_each(*KINDS, within_host=True)
        self.each(self.enlarge)
        self.assert_moved('host1', memory_mb=1024)
        self.each(self.confirm)
        self.assert_settled('host1')
        self.finish(burns=2)

    def story_resize_within_host_is_reverted(self):
        self.boot_each(*KINDS, within_host=True)
        self.each(self.enlarge)
        self.each(self.revert)
        for kind, server in self.servers.items():
            self.assertEqual(self.old[kind], self.owned(server))
            self.assertEqual(512, self.lpar(server).memory_mb)
        self.assert_settled('host1')
        self.finish(burns=2)

    def story_resize_to_other_host_is_confirmed(self):
        self.boot_each('devices')
        self.each(self.enlarge)
        self.assert_moved('host2', memory_mb=1024)
        self.each(self.confirm)
        self.assert_settled('host2')
        self.finish(burns=2)

    def story_cold_migration_is_confirmed(self):
        self.boot_each(*KINDS)
        self.each(self.migrate)
        self.assert_moved('host2')
        self.each(self.confirm)
        self.assert_settled('host2')
        self.finish(burns=2)

    def story_move_to_other_host_is_reverted(self):
        self.boot_each(*KINDS)
        self.each(self.migrate)
        self.each(self.revert)
        for kind, server in self.servers.items():
            self.assertEqual(self.old[kind], self.owned(server))
        self.assert_settled('host1')
        self.finish(burns=2)

    def story_stopped_server_moves_and_stays_stopped(self):
        self.boot_each('devices')
        self.each(self._stop_server)
        self.each(self.migrate)
        self.assert_moved('host2', state='not activated')
        self.each(lambda server: self.confirm(server, 'SHUTOFF'))
        self.assert_settled('host2', state='not activated')
        self.finish(burns=2)

    def story_deletion_before_confirmation_leaves_nothing(self):
        self.boot_each('devices')
        self.each(self.migrate)
        self.finish(burns=2)

    def story_move_that_the_destination_refuses_changes_nothing(self):
        self.boot_each('devices')
        before = self.host_state('host1'), self.host_state('host2')
        for kind, server in self.servers.items():
            reason = self.refuse_move(
                server,
                'resize',
                flavorRef=self.make_flavor(KINDS[kind], memory_mb=777),
            )
            self.assertIn('host host2 cannot run it: ', reason)
            self.assertIn('768 or ', reason)
            self.assertEqual(
                before, (self.host_state('host1'), self.host_state('host2'))
            )
        self.assert_settled('host1')
        self.finish(burns=1)

    def story_failed_move_is_repaired_by_hard_reboot(self):
        self.boot_each('devices')
        self.each(self.fail_to_migrate)
        self.each(self.reboot_hard)
        self.assert_settled('host2')
        # What remains on the source is the operator's to remove.
        for server in self.servers.values():
            lpar = self.lpar(server, 'host1')
            self.assertEqual('not activated', lpar.state)
            self.delete_lpar(server, 'host1')
        self.restart_host('host1')
        self.finish(burns=2)

    # Steps

    def boot_each(self, *kinds, within_host=False):
        """Boot a server of each of some kinds on the first host.

        :param within_host: Whether they are to be moved within this host.
        """
        self.flags(allow_resize_to_same_host=within_host)
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(
            service['id'],
            {'status': 'disabled' if within_host else 'enabled'},
        )
        requested = {
            kind: self.start_boot(
                KINDS[kind], disk=1, request={'host': 'host1'}
            )
            for kind in kinds
        }
        self.servers = {
            kind: self._wait_until_built(server['id'])
            for kind, server in requested.items()
        }
        self.old = {
            kind: self.owned(server) for kind, server in self.servers.items()
        }

    def each(self, step):
        """Take a step with the server of each kind, which it returns."""
        for kind, server in self.servers.items():
            self.kind = kind
            try:
                self.servers[kind] = step(server)
            except Exception as error:
                raise AssertionError(f'server with {kind}') from error

    def enlarge(self, server):
        """Resize a server to a flavor with more memory."""
        return self.resize(server, KINDS[self.kind], memory_mb=1024)

    def fail_to_migrate(self, server):
        """Migrate a server that does not start on the second host."""
        self.control('host2').plan_job('PowerOn', 'HSCL0000 No.')
        return self.migrate(server, expected='ERROR')

    def assert_moved(self, host, **expected):
        """Verify both sides of servers that wait for their confirmation."""
        self._run_periodics()
        expected = {'memory_mb': 512, 'state': 'running'} | expected
        for kind, server in self.servers.items():
            old = self.old[kind]
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
            lpar = self.lpar(server, host)
            self.assertEqual(
                expected, {name: getattr(lpar, name) for name in expected}
            )
            self.assertEqual(2 if KINDS[kind] else 0, len(lpar.slots))
            slots = set(lpar.slots)
            self.assertEqual(slots, self.slots_of(server['id'], host))
            self.assertEqual(old, self.slots_of(self.migration_uuid(server)))
            if host != 'host1':
                source = self.lpar(server, 'host1')
                self.assertEqual('not activated', source.state)
                self.assertEqual(old, set(source.slots))
            else:
                self.assertFalse(old & slots)

    def assert_settled(self, host, state='running'):
        """Verify that servers are on a host, and hold nothing elsewhere."""
        self._run_periodics()
        for kind, server in self.servers.items():
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
            lpar = self.lpar(server, host)
            self.assertEqual(state, lpar.state)
            self.assertEqual(2 if KINDS[kind] else 0, len(lpar.slots))
            for name in self.hosts:
                owned = set(lpar.slots) if name == host else set()
                self.assertEqual(owned, self.slots_of(server['id'], name))
            self.assertIn('root', self.disks_of(server))

    def finish(self, burns):
        """Delete the servers, and verify that nothing is left of them.

        :param burns: How many one-time-use devices one has had for itself.
        """
        consumers = []
        for server in self.servers.values():
            migrations = self.admin_api.api_get(
                f'/os-migrations?instance_uuid={server["id"]}'
            ).body['migrations']
            consumers += [server['id'], *(each['uuid'] for each in migrations)]
            self._delete_server(server)
        self._run_periodics()
        for consumer in consumers:
            self.assertEqual(
                {}, self._get_allocations_by_server_uuid(consumer)
            )
        burned = 0
        for host in self.hosts:
            self.assertEqual([], self.vios(host)['scsi_mappings'])
            for server in self.servers.values():
                self.assertIsNone(self.lpar(server, host))
                self.assertEqual({}, self.disks_of(server, host))
            burned += self.release_all(host)
        self.assertEqual(burns, burned)

    def release_all(self, host):
        """Release all burned devices of a host; return how many."""
        count = 0
        for provider in self.slot_providers(host).values():
            ((name, record),) = self._get_provider_inventory(
                provider['uuid']
            ).items()
            if record['reserved']:
                self.assertEqual(ONCE, name)
                self.reserve(provider['uuid'], ONCE, 0)
                count += 1
        return count

    def delete_lpar(self, server, host):
        """Delete an LPAR, as an operator does."""
        partitions = self.driver(host).partitions
        partitions.delete(self.lpar(server, host).uuid)

    def driver(self, host):
        """Return the operations of a host's driver."""
        return self.computes[host].manager.driver.services.operations


class CyborgMoveTest(
    accelerated_servers.AcceleratorTestCase, moving.MovingTestCase
):
    """Servers with accelerator requests, which Nova's API does not move."""

    def test_moves_with_accelerators_are_refused_by_the_api(self):
        server = self.accelerated('CUSTOM_CRYPTO')
        plain = self.boot({}, disk=0)
        profile = self.create_profile('CUSTOM_CRYPTO')
        before = self.host_state()
        live = {'host': None, 'block_migration': 'auto'}
        to_profile = self.make_flavor({'accel:device_profile': profile})
        for uuid, action, options in (
            (server['id'], 'resize', {'flavorRef': self.make_flavor()}),
            (server['id'], 'migrate', None),
            (server['id'], 'os-migrateLive', live),
            (plain['id'], 'resize', {'flavorRef': to_profile}),
        ):
            with self.subTest(action):
                error = self.assertRaises(
                    api_client.OpenStackApiException,
                    self.admin_api.post_server_action,
                    uuid,
                    {action: options},
                )
                self.assertIn(
                    'Feature not supported with instances that have '
                    'accelerators',
                    str(error),
                )
        self.assertEqual(before, self.host_state())

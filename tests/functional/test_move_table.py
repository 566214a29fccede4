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

The table is in the page on moves. Each story stands for a row.
"""

import random

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
    'device': base.gpu_groups(1),
    'one-time-use device': {
        'resources1:CUSTOM_ONCE': '1',
        'trait1:OWNER_NOVA': 'required',
    },
}


class MoveTableTest(moving.MovingTestCase, pools.PoolTestCase):
    """Two hosts with one pool, reusable and one-time-use devices."""

    inventory = _FILE

    def setUp(self):
        super().setUp()
        self.chance = random.Random(base.SEED)  # noqa: S311
        self.start_site()
        for host in self.hosts:
            for index in _SLOTS:
                self.control(host).plug(index, _CARD)
        self._run_periodics()

    def test_operations_move_each_kind_of_device(self):
        self.tell_stories(sample=2)

    # Rows

    def story_resize_within_host_is_confirmed(self):
        for kind in self.kinds(within_host=True):
            server = self.boot_on_first(kind)
            old = self.owned(server)
            server = self.resize(server, KINDS[kind], memory_mb=1024)
            self.assert_moved(server, 'host1', kind, old, memory_mb=1024)
            server = self.confirm(server)
            self.assert_settled(server, 'host1', kind)
            self.finish(server, kind, burns=2)

    def story_resize_within_host_is_reverted(self):
        for kind in self.kinds(within_host=True):
            server = self.boot_on_first(kind)
            old = self.owned(server)
            server = self.resize(server, KINDS[kind], memory_mb=1024)
            server = self.revert(server)
            self.assertEqual(old, self.owned(server))
            self.assertEqual(512, self.lpar(server).memory_mb)
            self.assert_settled(server, 'host1', kind)
            self.finish(server, kind, burns=2)

    def story_resize_to_other_host_is_confirmed(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            old = self.owned(server)
            server = self.resize(server, KINDS[kind], memory_mb=1024)
            self.assert_moved(server, 'host2', kind, old, memory_mb=1024)
            server = self.confirm(server)
            self.assert_settled(server, 'host2', kind)
            self.finish(server, kind, burns=2)

    def story_cold_migration_is_confirmed(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            old = self.owned(server)
            server = self.migrate(server)
            self.assert_moved(server, 'host2', kind, old)
            server = self.confirm(server)
            self.assert_settled(server, 'host2', kind)
            self.finish(server, kind, burns=2)

    def story_move_to_other_host_is_reverted(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            old = self.owned(server)
            server = self.migrate(server)
            server = self.revert(server)
            self.assertEqual(old, self.owned(server))
            self.assert_settled(server, 'host1', kind)
            self.finish(server, kind, burns=2)

    def story_stopped_server_moves_and_stays_stopped(self):
        for kind in self.kinds():
            server = self._stop_server(self.boot_on_first(kind))
            old = self.owned(server)
            server = self.migrate(server)
            self.assert_moved(
                server, 'host2', kind, old, state='not activated'
            )
            server = self.confirm(server, 'SHUTOFF')
            self.assert_settled(server, 'host2', kind, state='not activated')
            self.finish(server, kind, burns=2)

    def story_deletion_before_confirmation_leaves_nothing(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            server = self.migrate(server)
            self.finish(server, kind, burns=2)

    def story_move_that_the_destination_refuses_changes_nothing(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            before = self.host_state('host1'), self.host_state('host2')
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
            self.assert_settled(server, 'host1', kind)
            self.finish(server, kind, burns=1)

    def story_failed_move_is_repaired_by_hard_reboot(self):
        for kind in self.kinds():
            server = self.boot_on_first(kind)
            self.control('host2').plan_job('PowerOn', 'HSCL0000 No.')
            server = self.migrate(server, expected='ERROR')
            server = self.reboot_hard(server)
            self.assert_settled(server, 'host2', kind)
            # What remains on the source is the operator's to remove.
            lpar = self.lpar(server, 'host1')
            self.assertEqual('not activated', lpar.state)
            self.delete_lpar(server, 'host1')
            self.restart_host('host1')
            self.finish(server, kind, burns=2)

    # Steps

    def kinds(self, *, within_host=False):
        """Yield the kinds of devices; a failure does not end the others."""
        self.flags(allow_resize_to_same_host=within_host)
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(
            service['id'],
            {'status': 'disabled' if within_host else 'enabled'},
        )
        kinds = list(KINDS)
        if not base.ALL_STORIES:
            kinds = [self.chance.choice(kinds)]
        for kind in kinds:
            with self.subTest(f'{kind} (seed {base.SEED})'):
                yield kind

    def boot_on_first(self, kind):
        """Boot a server on the first host, with a kind of device."""
        return self.boot(KINDS[kind], disk=1, request={'host': 'host1'})

    def assert_moved(self, server, host, kind, old, **expected):
        """Verify both sides of a server that waits for its confirmation."""
        self._run_periodics()
        expected = {'memory_mb': 512, 'state': 'running'} | expected
        self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
        lpar = self.lpar(server, host)
        self.assertEqual(
            expected, {name: getattr(lpar, name) for name in expected}
        )
        count = 1 if KINDS[kind] else 0
        self.assertEqual(count, len(lpar.slots))
        self.assertEqual(set(lpar.slots), self.slots_of(server['id'], host))
        self.assertEqual(old, self.slots_of(self.migration_uuid(server)))
        if host != 'host1':
            source = self.lpar(server, 'host1')
            self.assertEqual('not activated', source.state)
            self.assertEqual(old, set(source.slots))
        else:
            self.assertFalse(old & set(lpar.slots))

    def assert_settled(self, server, host, kind, state='running'):
        """Verify that a server is on a host, and holds nothing elsewhere."""
        self._run_periodics()
        self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
        lpar = self.lpar(server, host)
        self.assertEqual(state, lpar.state)
        self.assertEqual(1 if KINDS[kind] else 0, len(lpar.slots))
        for name in self.hosts:
            owned = set(lpar.slots) if name == host else set()
            self.assertEqual(owned, self.slots_of(server['id'], name))
        self.assertIn('root', self.disks_of(server))

    def finish(self, server, kind, burns):
        """Delete a server, and verify that nothing is left of it.

        :param burns: How many devices it has had for itself.
        """
        migrations = self.admin_api.api_get(
            f'/os-migrations?instance_uuid={server["id"]}'
        ).body['migrations']
        self._delete_server(server)
        self._run_periodics()
        consumers = [server['id'], *(found['uuid'] for found in migrations)]
        burned = 0
        for host in self.hosts:
            self.assertIsNone(self.lpar(server, host))
            self.assertEqual([], self.vios(host)['scsi_mappings'])
            for consumer in consumers:
                self.assertEqual(set(), self.slots_of(consumer, host))
            burned += self.release_all(host)
        self.assertEqual({}, self.disks_of(server))
        self.assertEqual(burns if kind.startswith('one-time') else 0, burned)

    def release_all(self, host):
        """Release all burned devices of a host; return how many."""
        count = 0
        for provider in self.slot_providers(host).values():
            record = self._get_provider_inventory(provider['uuid'])
            if ONCE in record and record[ONCE]['reserved']:
                self.reserve(provider['uuid'], ONCE, 0)
                count += 1
        return count

    def delete_lpar(self, server, host):
        """Delete an LPAR, as an operator does."""
        partitions = self.driver(host).partitions
        partitions.delete(self.lpar(server, host).uuid)

    def driver(self, host):
        """Return the operations of a host's driver."""
        return self.computes[host].manager.driver._services()


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

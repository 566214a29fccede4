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

"""The state of a moved server is set by hand, and Nova keeps its migration."""

from nova import context as nova_context
from nova import objects

from tests.functional import base
from tests.functional import pools
from tests.functional import test_pool_moves


class EarlierMoveTest(test_pool_moves.PoolMoveTestCase):
    def setUp(self):
        super().setUp()
        self.prepare()

    def test_confirmation_of_earlier_move_spares_server_and_frees_source(self):
        server, earlier, later = self.move_there_and_back()
        before = self.host_state('host1')

        server = self.confirm(server)

        self.assertEqual(
            {earlier: 'confirmed', later: 'finished'}, self.statuses(server)
        )
        self.assertEqual(before, self.host_state('host1'))
        lpar = self.lpar_uuid(server)
        self.assertIn(f'LPAR {lpar} is not removed', self.logged())
        self._run_periodics()
        self.assertEqual(set(), self.slots_of(earlier))
        self.assertEqual(self.owned(server), self.slots_of(server['id']))
        self.assertEqual(
            base.CONF.reserved_host_memory_mb + 512, self.memory_used('host1')
        )
        self.free_source_as_guide_says(server, later)
        server = self.reboot_hard(server)
        self.assertEqual('running', self.lpar(server).state)
        self.assertEqual(pools.WRITTEN, self.bytes_of(server, 'host1'))

    def test_revert_of_earlier_move_is_refused(self):
        server, earlier, later = self.move_there_and_back()
        before = [self.host_state(host) for host in ('host1', 'host2')]
        held = self.slots_of(server['id'])

        self.admin_api.post_server_action(server['id'], {'revertResize': None})
        server = self._wait_for_state_change(server, 'ACTIVE')

        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(
            {earlier: 'error', later: 'finished'}, self.statuses(server)
        )
        self.assertEqual(
            before, [self.host_state(host) for host in ('host1', 'host2')]
        )
        self.assertEqual(held, self.slots_of(server['id']))
        self.assertIn('Nova reverts another migration than', self.logged())
        server = self.reboot_hard(server)
        self.assertEqual(held, self.owned(server))

    def free_source_as_guide_says(self, server, later):
        """Free what a later move holds on the host that it left."""
        left = self.owned(server, 'host2')
        self.assertEqual(left, self.slots_of(later, 'host2'))

        self.flags(resize_confirm_window=1)
        base.time.sleep(1.1)
        self.computes['host1'].manager._poll_unconfirmed_resizes(
            nova_context.get_admin_context()
        )
        self.flags(resize_confirm_window=0)
        self.assertEqual('error', self.statuses(server)[later])
        self.restart_host('host2')
        self.placement.delete(f'/allocations/{later}')

        self.assertIn(
            f'({self.lpar_uuid(server)}, not activated) is on the wrong side',
            self.logged(),
        )
        self.assertEqual(left, self.owned(server, 'host2'))
        self.assertEqual('running', self.lpar(server).state)

    def move_there_and_back(self):
        """Move a server and then back, with its state set to active between.

        :returns: The server and the uuids of both migrations.
        """
        port = self.make_port()
        server = self.boot_on_first(
            base.gpu_groups(1),
            swap=512,
            networks=[{'port': port['id']}],
            request={'config_drive': True},
        )
        server = self.migrate(server)
        earlier = self.migration_uuid(server)
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        server = self.migrate(self.reboot_hard(server))
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        return server, earlier, self.migration_uuid(server)

    def statuses(self, server):
        """Return the statuses of a server's migrations."""
        path = f'/os-migrations?instance_uuid={server["id"]}'
        found = self.admin_api.api_get(path).body['migrations']
        return {move['uuid']: move['status'] for move in found}

    def memory_used(self, host):
        """Return the MB of memory that Nova counts as used on a host."""
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            nova_context.get_admin_context(), host
        )
        return node.memory_mb_used

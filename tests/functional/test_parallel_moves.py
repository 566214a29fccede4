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

"""Moves of several servers, in both directions at once."""

import base64

from tests.functional import base
from tests.functional import test_pool_moves

_HOSTS = ('host1', 'host2')


class ParallelMovesTest(test_pool_moves.PoolMoveTestCase):
    """Two hosts, each with a server that has a GPU and one that has none."""

    def test_servers_change_hosts_and_half_of_them_go_back(self):
        going, returning = (self.boot_pair(host) for host in _HOSTS)
        before = {
            server['id']: self.owned(server, host)
            for pair, host in zip((going, returning), _HOSTS, strict=True)
            for server in pair
        }

        self.act_on_all(dict.fromkeys(before, 'migrate'), 'VERIFY_RESIZE')

        for pair, source in zip((going, returning), _HOSTS, strict=True):
            (target,) = {*_HOSTS} - {source}
            for server in pair:
                self.assert_runs_on(server, target)
                held = self.slots_of(self.migration_uuid(server), source)
                self.assertEqual(before[server['id']], held)
                self.assertEqual(held, self.owned(server, source))
                self.assertEqual(
                    'not activated', self.lpar(server, source).state
                )

        self.act_on_all(
            {server['id']: 'confirmResize' for server in going}
            | {server['id']: 'revertResize' for server in returning},
            'ACTIVE',
        )

        for server in (*going, *returning):
            self.assert_runs_on(server, 'host2')
            self.assertIsNone(self.lpar(server, 'host1'))
            self.assertEqual(set(), self.mapped_to(server, 'host1'))
        for server in returning:
            self.assertEqual(before[server['id']], self.owned(server, 'host2'))

    def boot_pair(self, host):
        """Boot a server with a GPU and one without, whose guests write."""
        requested = [
            self.start_boot(groups, disk=1, request={'host': host})
            for groups in (base.gpu_groups(1), {})
        ]
        pair = [self._wait_until_built(each['id']) for each in requested]
        for server in pair:
            self.control(host).write_disk(
                self.disks_of(server)['root']['udid'],
                base64.b64encode(server['id'].encode()).decode(),
            )
        return pair

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

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

"""Live migration is refused and leaves the server unchanged."""

from tests import proofs
from tests.functional import base


class RefusedLiveMigrationTest(base.PowerVMTestCase):
    """Two hosts with free devices."""

    def setUp(self):
        super().setUp()
        self.start_host('host1')
        self.start_host('host2')

    def migrate(self, server, host=None):
        """Request a live migration and wait until it is refused."""
        self.api.post_server_action(
            server['id'],
            {'os-migrateLive': {'host': host, 'block_migration': 'auto'}},
        )
        after = self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        self._wait_for_migration_status(server, ['error', 'failed'])
        return after

    def assert_stayed(self, server, allocations, after):
        self.assertEqual('ACTIVE', after['status'])
        host = server['OS-EXT-SRV-ATTR:host']
        self.assertEqual(host, after['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(allocations, self.allocations(server))
        self.assertEqual('running', self.lpar(server, host).state)

    def allocations(self, server):
        """Return the resources allocated to a server, by provider."""
        found = self._get_allocations_by_server_uuid(server['id'])
        return {uuid: held['resources'] for uuid, held in found.items()}

    @proofs.proves('D80', 'O27')
    def test_live_migration_leaves_server_with_and_without_device_unchanged(
        self,
    ):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        before = self.allocations(server)

        after = self.migrate(server)

        self.assert_stayed(server, before, after)
        log = self.stdlog.logger.output
        self.assertIn(f'the physical I/O slot(s) {slot:08X}', log)

        # To a host that the operator names, too.
        other = {'host1': 'host2', 'host2': 'host1'}
        target = other[server['OS-EXT-SRV-ATTR:host']]
        self.assert_stayed(server, before, self.migrate(server, target))
        for host in other:
            lpars = self.hosts[host].reader.lpars().values()
            self.assertEqual(
                host != target,
                any(lpar.name.startswith('instance-') for lpar in lpars),
            )

        plain = self.boot({})
        before = self.allocations(plain)
        self.assert_stayed(plain, before, self.migrate(plain))
        self.assertIn(
            'live migration is not supported', self.stdlog.logger.output
        )

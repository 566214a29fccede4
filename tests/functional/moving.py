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
"""Servers that are resized or migrated, and what has to hold for them."""

from tests.functional import base


class MovingTestCase(base.PowerVMTestCase):
    """Resizes and migrates servers, and waits for the end of each step."""

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.flags(max_attempts=1, group='scheduler')

    def resize(self, server, extra_specs=(), **sizes):
        """Resize a server to a new flavor; return it to be verified."""
        flavor = self.make_flavor(extra_specs, **sizes)
        self.api.post_server_action(
            server['id'], {'resize': {'flavorRef': flavor}}
        )
        return self._wait_for_state_change(server, 'VERIFY_RESIZE')

    def migrate(self, server, host=None, expected='VERIFY_RESIZE'):
        """Migrate a server to another host."""
        return self._migrate_server(server, host, expected, api=self.admin_api)

    def confirm(self, server, expected='ACTIVE', result='Success'):
        """Confirm a move."""
        self.api.post_server_action(server['id'], {'confirmResize': None})
        server = self._wait_for_server_parameter(
            server,
            {'status': expected, 'OS-EXT-STS:task_state': None},
        )
        self._wait_for_action('confirmResize', server, result)
        return server

    def revert(self, server, expected='ACTIVE'):
        """Revert a move."""
        self.api.post_server_action(server['id'], {'revertResize': None})
        server = self._wait_for_server_parameter(
            server,
            {'status': expected, 'OS-EXT-STS:task_state': None},
        )
        self._wait_for_migration_status(
            server, ['reverted' if expected != 'ERROR' else 'error']
        )
        return server

    def refuse_move(self, server, action, *args, **options):
        """Ask for a move that is refused; return the reason.

        :param action: Name of the action in Nova's API.
        """
        before = self.api.get_server(server['id'])
        self.admin_api.post_server_action(
            server['id'], {action: options or None}
        )
        event = self._wait_for_action(action, server, 'Error')
        self.assertEqual('compute_resize_instance', event['event'])
        server = self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        self.assertEqual(before['status'], server['status'])
        return event['details']

    def _wait_for_action(self, action, server, result='Success'):
        """Wait until an action has ended; return its event."""

        def find_event():
            events = self.events(server, action)
            for event in events:
                if event['action'] != events[0]['action']:
                    return None
                if event['result'] == result:
                    return event
            return None

        return self.await_found(
            find_event,
            f'{action} of {server["id"]} does not end in {result}',
        )

    def migration_uuid(self, server):
        """Return the consumer of what a move in progress holds."""
        migrations = self.admin_api.api_get(
            f'/os-migrations?instance_uuid={server["id"]}'
        ).body['migrations']
        return max(migrations, key=lambda found: found['id'])['uuid']

    def slots_of(self, consumer, host='host1'):
        """Return the DRC indexes that a consumer is allocated on a host."""
        allocated = self._get_allocations_by_server_uuid(consumer)
        return {
            index
            for index, provider in self.slot_providers(host).items()
            if provider['uuid'] in allocated
        }

    def owned(self, server, host='host1'):
        """Return the DRC indexes of the slots that a server's LPAR owns."""
        lpar = self.lpar(server, host)
        return set(lpar.slots) if lpar else set()

    def reboot_hard(self, server, expected='ACTIVE'):
        """Reboot a server hard."""
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        return self._wait_for_server_parameter(
            server,
            {'status': expected, 'OS-EXT-STS:task_state': None},
        )

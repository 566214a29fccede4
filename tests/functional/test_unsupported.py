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

"""Unsupported operations leave the server unchanged.

Each story is a row of the table in admin/operations: what the user sees, the
state of the server afterwards, and how to recover.
"""

import contextlib
import pathlib
import shutil

import fixtures
import yaml
from nova import policy
from nova import utils
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client
from oslo_config import cfg

from tests import proofs
from tests.functional import base

CONF = cfg.CONF
POLICY = (
    pathlib.Path(__file__).parents[2] / 'etc/nova/powervm-policy.yaml.sample'
)
VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


class UnsupportedTestCase(base.PowerVMTestCase):
    """Provides one server with a device that no story may change."""

    def setUp(self):
        super().setUp()
        self.compute = self.start_host()
        self.server = self.boot(base.gpu_groups(1))
        # Keep the server for all stories.
        self._booted.clear()
        self.before = self.server_state()

    def prepare(self):
        self.control().clear_journal()

    def server_state(self):
        """Return everything that an operation must not change."""
        server = self.api.get_server(self.server['id'])
        lpar = self.lpar(server)
        return {
            'status': server['status'],
            'task': server['OS-EXT-STS:task_state'],
            'power': server['OS-EXT-STS:power_state'],
            'host': server['OS-EXT-SRV-ATTR:host'],
            'lpar': (lpar.state, lpar.slots),
            'allocations': {
                provider: held['resources']
                for provider, held in self._get_allocations_by_server_uuid(
                    server['id']
                ).items()
            },
        }

    def assert_unchanged(self, **changes):
        """Assert that the server is unchanged and the host was not changed.

        :param changes: Changes that Nova itself makes to the server.
        """
        self.assertEqual(self.before | changes, self.server_state())
        self.assertEqual([], self.changing_requests())

    def changing_requests(self):
        return [
            record['path']
            for record in self.control().journal()
            if record['method'] != 'GET'
            and not record['label'].startswith('Logon.')
        ]

    def request_action(self, action, argument=None):
        """Request a server action."""
        return self.api.post_server_action(
            self.server['id'], {action: argument}
        )

    def refused(self, action, event, operation):
        """Assert that an action failed with the reason in one of its events.

        :returns: Results of its events by name.
        """
        found = self.wait_for_failed_action(action, event)
        details = found[event]['details']
        reason = f'PowerVM: {operation} is not supported yet'
        self.assertIn(reason, details)
        self.assert_logged_once(reason)
        return {name: event['result'] for name, event in found.items()}

    def wait_for_failed_action(self, action, event):
        """Wait until the newest action has failed; return its events."""

        def find_events():
            newest = self.api.get_instance_actions(self.server['id'])[0]
            if newest['action'] != action or newest['message'] != 'Error':
                return None
            found = self.events(newest)
            has_ended = found.get(event, {}).get('result') == 'Error'
            return has_ended and not self._states(uuid).task_state and found

        uuid = self.server['id']
        return self.await_found(find_events, f'{action} has no end')

    def events(self, action):
        """Return the events of an action by name."""
        details = self.api.get_instance_action_details(
            self.server['id'], action['request_id']
        )
        return {event['event']: event for event in details['events']}

    def assert_logged_once(self, reason):
        lines = [
            line
            for line in self.logged().splitlines()
            if f'Refused: {reason}' in line
        ]
        self.assertEqual(1, len(lines), lines)

    def api_refusal(self, ask, *arguments):
        """Return status and message of the API's refusal."""
        error = self.assertRaises(
            client.OpenStackApiException, ask, *arguments
        )
        (body,) = error.response.json().values()
        return error.response.status_code, body['message']


class UnsupportedOperationsTest(UnsupportedTestCase):
    """Unsupported operations of Nova's API."""

    def test_unsupported_operations_change_nothing(self):
        self.tell_stories()

    def story_pause_is_refused(self):
        self.request_action('pause')

        self.refused('pause', 'compute_pause_instance', 'pausing a server')
        self.assert_unchanged()

    def story_suspend_is_refused(self):
        self.request_action('suspend')

        self.refused(
            'suspend', 'compute_suspend_instance', 'suspending a server'
        )
        self.assert_unchanged()

    def reboot_as_user(self):
        """Reboot the server hard with a user's default rights."""
        user = self.api_fixture.api
        user.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')

    def story_console_log_is_refused(self):
        self.assertEqual(
            (501, 'The requested functionality is not supported.'),
            self.api_refusal(self.request_action, 'os-getConsoleOutput', {}),
        )
        self.assert_logged_once('PowerVM: the console log is not supported')
        self.assert_unchanged()

    def story_diagnostics_are_refused_from_2_48_on(self):
        path = f'/servers/{self.server["id"]}/diagnostics'
        with utils.temporary_mutation(self.api, microversion='2.48'):
            answer = self.api_refusal(self.api.api_get, path)

        self.assertEqual(
            (501, 'The requested functionality is not supported.'), answer
        )
        self.assert_logged_once('PowerVM: reading diagnostics from')
        self.assert_unchanged()

    def story_setting_administrator_password_is_refused(self):
        self.assertEqual(
            (
                409,
                'PowerVM: setting the administrator password is not '
                'supported yet',
            ),
            self.api_refusal(
                self.request_action, 'changePassword', {'adminPass': 'x'}
            ),
        )
        self.assertNotIn('adminPass', self.logged())
        self.assert_unchanged()

    def story_attaching_volume_without_fibre_channel_is_refused(self):
        with utils.temporary_mutation(self.api, microversion='2.100'):
            self.api.post_server_volume(
                self.server['id'], {'volumeAttachment': {'volumeId': VOLUME}}
            )

        event = 'compute_attach_volume'
        found = self.wait_for_failed_action('attach_volume', event)
        self.assertIn(
            'no Virtual I/O Server has a Fibre Channel port',
            found[event]['details'],
        )
        self.assertEqual([], self.api.get_server_volumes(self.server['id']))
        self.assert_unchanged()

    @proofs.proves('operation.attach-interface')
    def story_attaching_port_without_rmc_is_refused(self):
        port = self.make_port()
        attach = {'interfaceAttachment': {'port_id': port['id']}}

        status, words = self.api_refusal(
            self.api.attach_interface, self.server['id'], attach
        )

        self.assertEqual(400, status)
        reason = 'attaching a port to this running server is not supported'
        self.assertIn(f'PowerVM: {reason}', words)
        self.assertIn('active RMC connection. Stop it first', words)
        self.assert_logged_once(f'PowerVM: {reason}')
        found = self.neutron.show_port(port['id'])['port']
        self.assertFalse(found.get('binding:host_id'))
        self.assertFalse(found['device_id'])
        self.assert_unchanged()

    def forbidden(self):
        """Return the calls that the sample policy forbids, by rule."""
        here = {'host': 'host1'}
        live = {'host': None, 'block_migration': 'auto'}
        return {
            'os-migrate-server:migrate_live': (
                self.request_action,
                'os-migrateLive',
                live,
            ),
            'os-migrate-server:migrate_live:host': (
                self.request_action,
                'os-migrateLive',
                live | here,
            ),
            'os-pause-server:pause': (self.request_action, 'pause'),
            'os-suspend-server:suspend': (self.request_action, 'suspend'),
        }

    @contextlib.contextmanager
    def sample_policy(self):
        """Install the sample policy for nova-api as its comments say."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        shutil.copy(POLICY, directory / 'powervm.yaml')
        before = CONF.oslo_policy.policy_dirs
        self.flags(policy_dirs=[str(directory)], group='oslo_policy')
        policy.reset()
        yield
        self.flags(policy_dirs=before, group='oslo_policy')
        policy.reset()

    def rules(self):
        """Return the rules that the sample policy forbids."""
        prefix = 'os_compute_api:'
        return {
            rule.removeprefix(prefix)
            for rule, check in yaml.safe_load(POLICY.read_text()).items()
            if check == '!'
        }

    def story_sample_policy_forbids_unsupported_operations(self):
        forbidden = self.forbidden()
        self.assertEqual(set(forbidden), self.rules())

        with self.sample_policy():
            for rule, (ask, *arguments) in forbidden.items():
                self.assertEqual(
                    (
                        403,
                        f"Policy doesn't allow os_compute_api:{rule} to be "
                        'performed.',
                    ),
                    self.api_refusal(ask, *arguments),
                )
            # Other operations are still allowed.
            self.reboot_as_user()

        self.assertEqual(self.before, self.server_state())

    def story_sample_policy_shows_reasons_to_users(self):
        self.request_action('pause')
        event = 'compute_pause_instance'
        reason = self.wait_for_failed_action('pause', event)[event]['details']

        self.assertNotIn('details', self.shown_to_the_user())
        with self.sample_policy():
            shown = self.shown_to_the_user()

        self.assertIn('PowerVM: pausing a server', reason)
        self.assertEqual(reason, shown['details'])

    def shown_to_the_user(self):
        """Return the newest action's event as a user sees it."""
        user = self.api_fixture.api
        with utils.temporary_mutation(user, microversion='2.84'):
            newest = user.get_instance_actions(self.server['id'])[0]
            (event,) = user.get_instance_action_details(
                self.server['id'], newest['request_id']
            )['events']
        return event


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
            'neither in a shared storage pool', self.stdlog.logger.output
        )

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


"""Operations that can't be done yet leave the server as it was.

Each story is a row of the table in admin/operations: what the user sees, the
state of the server afterwards, and how to get out of it.
"""

import contextlib
import pathlib
import shutil
import time

import fixtures
import yaml
from nova import policy
from nova import utils
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client
from oslo_config import cfg

from tests.functional import base
from tests.functional import once

CONF = cfg.CONF
POLICY = (
    pathlib.Path(__file__).parents[2] / 'etc/nova/powervm-policy.yaml.sample'
)
VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


class Unhurt(base.PowerVMTestCase):
    """One server with a device, which every story leaves as it was."""

    def setUp(self):
        super().setUp()
        self.compute = self.start_host()
        self.server = self.boot(base.gpu_groups(1))
        # Nothing may have to be made anew for the next story.
        self._booted.clear()
        self.before = self.seen()

    def prepare(self):
        self.control().clear_journal()

    def seen(self):
        """Give all that an operation must not change."""
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

    def assert_unhurt(self, **changes):
        """Compare with the beginning, and see that no job was done.

        :param changes: What Nova itself makes of the server.
        """
        self.assertEqual(self.before | changes, self.seen())
        self.assertEqual([], self.changing_requests())

    def changing_requests(self):
        return [
            record['path']
            for record in self.control().journal()
            if record['method'] != 'GET'
            and not record['label'].startswith('Logon.')
        ]

    def act(self, action, argument=None):
        """Ask for an action of the server."""
        return self.api.post_server_action(
            self.server['id'], {action: argument}
        )

    def refused(self, action, event, operation):
        """See that an action ended with the reason in one of its events.

        :returns: Result of each of its events.
        """
        found = self.ended(action, event)
        details = found[event]['details']
        reason = f'PowerVM: {operation} is not supported yet'
        self.assertIn(reason, details)
        self.assert_logged_once(reason)
        return {name: event['result'] for name, event in found.items()}

    def ended(self, action, event):
        """Give the events of the newest action when one of them failed."""
        found = {}
        for _ in range(300):
            newest = self.api.get_instance_actions(self.server['id'])[0]
            if newest['action'] == action and newest['message'] == 'Error':
                found = self.events(newest)
                if (
                    found.get(event, {}).get('result') == 'Error'
                    and not self.instance(self.server).task_state
                ):
                    return found
            time.sleep(0.05)
        self.fail(f'{action} has no end: {newest} {found}')

    def events(self, action):
        """Give the events of an action by their names."""
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

    def answer(self, ask, *arguments):
        """Give status and words of the API's refusal."""
        error = self.assertRaises(
            client.OpenStackApiException, ask, *arguments
        )
        (body,) = error.response.json().values()
        return error.response.status_code, body['message']


class Operations(Unhurt):
    """What a user asks for, by Nova's API."""

    def test_what_can_not_be_done_changes_nothing(self):
        self.tell_stories()

    def story_pause(self):
        self.act('pause')

        self.refused('pause', 'compute_pause_instance', 'pausing a server')
        self.assert_unhurt()

    def story_suspend(self):
        self.act('suspend')

        self.refused(
            'suspend', 'compute_suspend_instance', 'suspending a server'
        )
        self.assert_unhurt()

    def story_crash_dump(self):
        self.act('trigger_crash_dump')

        self.refused(
            'trigger_crash_dump', 'compute_trigger_crash_dump', 'a crash dump'
        )
        self.assert_unhurt()
        self.assertNotIn('Exception during message handling', self.logged())

    def images(self):
        """Give the names of the images."""
        return sorted(image['name'] for image in self.glance.detail(None))

    def story_snapshot(self):
        before = self.images()

        self.act('createImage', {'name': 'copy'})

        results = self.refused('createImage', 'powervm_snapshot', 'a snapshot')
        # What Nova tells of it is that it was begun.
        self.assertEqual('Success', results['compute_snapshot_instance'])
        self.wait_for_images(before)
        self.assert_unhurt()

    def wait_for_images(self, names):
        for _ in range(100):
            if self.images() == names:
                return
            time.sleep(0.05)
        self.assertEqual(names, self.images())

    def story_backup(self):
        before = self.images()

        self.act(
            'createBackup',
            {'name': 'copy', 'backup_type': 'daily', 'rotation': 1},
        )

        results = self.refused(
            'createBackup', 'compute_backup_instance', 'a snapshot'
        )
        self.assertNotIn('powervm_snapshot', results)
        self.wait_for_images(before)
        self.assert_unhurt()

    def story_shelve_leaves_an_image_without_content(self):
        before = self.images()

        self.act('shelve')

        self.refused('shelve', 'compute_shelve_instance', 'shelving a server')
        self.assert_unhurt()
        (left,) = set(self.images()) - set(before)
        self.assertEqual(f'{self.server["name"]}-shelved', left)

    def rescue(self):
        """Rescue the server in vain: Nova itself sets it to ERROR."""
        self.act('rescue', {'rescue_image_ref': self.image})
        self.refused('rescue', 'compute_rescue_instance', 'rescuing a server')
        self.assert_unhurt(status='ERROR')
        fault = self.fault(self.server)
        self.assertIn('PowerVM: rescuing a server is not supported', fault)
        self.assertIn('a hard reboot clears the ERROR state', fault)

    def story_rescue_and_a_hard_reboot_by_the_user(self):
        self.rescue()

        self.reboot_as_user()

        self.assertEqual(self.before, self.seen())

    def reboot_as_user(self):
        """Reboot hard, with the rights that a user has by default."""
        user = self.api_fixture.api
        user.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')

    def story_rescue_and_a_reset_by_an_administrator(self):
        self.rescue()

        self.act('os-resetState', {'state': 'active'})

        self._wait_for_state_change(self.server, 'ACTIVE')
        # The guest has not even been restarted.
        self.assert_unhurt()

    def story_console_log_and_consoles(self):
        self.assertEqual(
            (501, 'The requested functionality is not supported.'),
            self.answer(self.act, 'os-getConsoleOutput', {}),
        )
        self.assert_logged_once('PowerVM: the console log is not supported')
        console = {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}
        status, _ = self.answer(
            self.api.api_post,
            f'/servers/{self.server["id"]}/remote-consoles',
            console,
        )
        self.assertEqual(501, status)
        self.assert_logged_once('PowerVM: a VNC console is not supported')
        self.assert_unhurt()

    def story_diagnostics(self):
        status, _ = self.answer(
            self.api.api_get, f'/servers/{self.server["id"]}/diagnostics'
        )

        self.assertEqual(501, status)
        self.assert_unhurt()

    def story_administrator_password(self):
        self.assertEqual(
            (
                409,
                'PowerVM: setting the administrator password is not '
                'supported yet',
            ),
            self.answer(self.act, 'changePassword', {'adminPass': 'x'}),
        )
        self.assertNotIn('adminPass', self.logged())
        self.assert_unhurt()

    def story_a_volume(self):
        with utils.temporary_mutation(self.api, microversion='2.100'):
            self.api.post_server_volume(
                self.server['id'], {'volumeAttachment': {'volumeId': VOLUME}}
            )

        self.refused(
            'attach_volume', 'compute_attach_volume', 'attaching a volume'
        )
        self.assertEqual([], self.api.get_server_volumes(self.server['id']))
        self.assert_unhurt()

    def story_a_port_of_a_guest_without_rmc(self):
        port = self.make_port()
        attach = {'interfaceAttachment': {'port_id': port['id']}}

        status, words = self.answer(
            self.api.attach_interface, self.server['id'], attach
        )

        self.assertEqual(400, status)
        reason = 'attaching a port to this running server is not supported'
        self.assertIn(f'PowerVM: {reason}', words)
        self.assertIn('active RMC connection. Stop it first', words)
        self.assert_logged_once(f'PowerVM: {reason}')
        found = self.neutron.show_port(port['id'])['port']
        self.assertFalse(found['device_id'])
        self.assert_unhurt()

    def story_two_servers_with_a_device_each_at_once(self):
        # Of Nova's scheduler alone: the host has devices for both.
        flavor = self.api.get_server(self.server['id'])['flavor']
        body = self._build_server(image_uuid=self.image, networks='none')
        body['flavorRef'] = self.flavor_id(flavor['original_name'])
        body |= {'min_count': 2, 'max_count': 2}

        server = self.api.post_server({'server': body})

        ended = self._wait_for_state_change(server, 'ERROR')
        self.assertIn('No valid host', ended['fault']['message'])
        self.assert_unhurt()

    def flavor_id(self, name):
        (found,) = [f for f in self.api.get_flavors() if f['name'] == name]
        return found['id']

    def forbidden(self):
        """Give, by its rule, what the sample policy forbids."""
        post = self.api.post_server_volume
        volume = {'volumeAttachment': {'volumeId': VOLUME}}
        backup = {'name': 'copy', 'backup_type': 'daily', 'rotation': 1}
        here = {'host': 'host1'}
        live = {'host': None, 'block_migration': 'auto'}
        return {
            'os-create-backup': (self.act, 'createBackup', backup),
            'os-migrate-server:migrate': (self.act, 'migrate'),
            'os-migrate-server:migrate:host': (self.act, 'migrate', here),
            'os-migrate-server:migrate_live': (
                self.act,
                'os-migrateLive',
                live,
            ),
            'os-migrate-server:migrate_live:host': (
                self.act,
                'os-migrateLive',
                live | here,
            ),
            'os-pause-server:pause': (self.act, 'pause'),
            'os-rescue': (self.act, 'rescue'),
            'os-shelve:shelve': (self.act, 'shelve'),
            'os-suspend-server:suspend': (self.act, 'suspend'),
            'os-volumes-attachments:create': (
                post,
                self.server['id'],
                volume,
            ),
            'servers:create_image': (
                self.act,
                'createImage',
                {'name': 'copy'},
            ),
            'servers:resize': (self.act, 'resize', {'flavorRef': '1'}),
            'servers:trigger_crash_dump': (self.act, 'trigger_crash_dump'),
        }

    @contextlib.contextmanager
    def sample_policy(self):
        """Put the sample where its own words say, for nova-api."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        shutil.copy(POLICY, directory / 'powervm.yaml')
        before = CONF.oslo_policy.policy_dirs
        self.flags(policy_dirs=[str(directory)], group='oslo_policy')
        policy.reset()
        yield
        self.flags(policy_dirs=before, group='oslo_policy')
        policy.reset()

    def rules(self):
        """Give the rules of the sample that forbid something."""
        prefix = 'os_compute_api:'
        return {
            rule.removeprefix(prefix)
            for rule, check in yaml.safe_load(POLICY.read_text()).items()
            if check == '!'
        }

    def story_the_sample_policy_forbids_it_to_everybody(self):
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
                    self.answer(ask, *arguments),
                )
            # What it says nothing about goes on.
            self.reboot_as_user()

        self.assertEqual(self.before, self.seen())

    def story_the_sample_policy_shows_reasons_to_users(self):
        self.act('pause')
        event = 'compute_pause_instance'
        reason = self.ended('pause', event)[event]['details']

        self.assertNotIn('details', self.shown_to_the_user())
        with self.sample_policy():
            shown = self.shown_to_the_user()

        self.assertIn('PowerVM: pausing a server', reason)
        self.assertEqual(reason, shown['details'])

    def shown_to_the_user(self):
        """Give what a user sees of the newest action's event."""
        user = self.api_fixture.api
        with utils.temporary_mutation(user, microversion='2.84'):
            newest = user.get_instance_actions(self.server['id'])[0]
            (event,) = user.get_instance_action_details(
                self.server['id'], newest['request_id']
            )['events']
        return event


class Moves(Unhurt):
    """Resize and cold migration, which Nova claims resources for.

    The devices are for one use, and none is used up.
    """

    inventory = once.ONCE

    def forget(self):
        super().forget()
        burned = {
            (host, index)
            for host in self.hosts
            for index, provider in self.slot_providers(host).items()
            for record in self._get_provider_inventory(
                provider['uuid']
            ).values()
            if record['reserved']
        }
        self.assertEqual(
            {('host1', i) for i in self.allocated_slots(self.server)}, burned
        )

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.flags(max_attempts=1, group='scheduler')

    def resize(self, **extra_specs):
        """Ask for a flavor of its own."""
        self.flavors += 1
        flavor = self._create_flavor(
            id=2000 + self.flavors,
            name=f'flavor{self.flavors}',
            memory_mb=1024,
            vcpu=1,
            disk=0,
            ephemeral=0,
            extra_spec={**base.gpu_groups(1), **extra_specs},
        )
        self.act('resize', {'flavorRef': flavor})

    def one_slot(self):
        """Give extra specs that only one slot fits, which is free."""
        slot = next(
            index
            for index in self.slot_providers()
            if index not in self.allocated_slots(self.server)
        )
        return {
            f'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{slot:08X}': 'required'
        }

    def test_a_move_that_can_not_be_done_changes_nothing(self):
        self.tell_stories()

    def story_resize(self):
        self.resize()

        self.refused(
            'resize', 'compute_resize_instance', 'a resize or cold migration'
        )
        self.assert_unhurt()
        # Until then Nova keeps what it has claimed on the target.
        self._run_periodics()

    def story_resize_of_a_stopped_server(self):
        self._stop_server(self.server)
        self.control().clear_journal()
        before = self.seen()

        self.resize()

        self.refused(
            'resize', 'compute_resize_instance', 'a resize or cold migration'
        )
        self.assertEqual(before, self.seen())
        self.assertEqual('SHUTOFF', before['status'])
        self._run_periodics()
        self._start_server(self.server)

    def story_a_second_resize_in_the_same_minute_sets_it_to_error(self):
        specs = self.one_slot()
        self.resize(**specs)
        self.refused(
            'resize', 'compute_resize_instance', 'a resize or cold migration'
        )

        self.resize(**specs)

        self._wait_for_state_change(self.server, 'ERROR')
        self.assertIn('0 are available', self.fault(self.server))
        self.assert_unhurt(status='ERROR')
        # How to get out of it.
        self.api_fixture.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual(self.before, self.seen())
        # A cycle later it is as if nothing had been asked for.
        self._run_periodics()
        self.resize(**specs)
        self.ended('resize', 'compute_resize_instance')
        self.assertEqual(self.before, self.seen())
        self._run_periodics()

    def story_cold_migration(self):
        self.start_host('host2')

        self.act('migrate')

        self.refused(
            'migrate', 'compute_resize_instance', 'a resize or cold migration'
        )
        self.assert_unhurt()

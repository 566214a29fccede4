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

"""The operator's commands that ask Cyborg, against real services."""

import contextlib
import json
import shlex
import subprocess

import fixtures
import nova.conf
import requests

from nova_powervm.devices import names
from nova_powervm.tool.inventory import clouds
from tests import proofs
from tests.functional import real_cyborg
from tests.functional import test_commands
from tests.processes.cyborg_services import tokens

CONF = nova.conf.CONF
CRYPTO = 'CUSTOM_CRYPTO'
#: Slots of the two cryptographic adapters of the emulated host.
FIRST, SECOND = 0x21010038, 0x21030039
CRYPTO_FILE = f"""\
crypto:
  identification:
    vendor_id: "1014"
    device_id: "0634"
  resource_class: {CRYPTO}
"""
FIRST_ALONE = f"""\
first:
  identification: {{drc_index: "{FIRST:08X}"}}
  resource_class: {CRYPTO}
"""
GROUP = {
    f'resources:{CRYPTO}': '1',
    f'trait:{names.CYBORG_TRAIT}': 'required',
}


class CyborgTestCase(test_commands.CommandTestCase):
    """A host with slots of Nova's and of Cyborg's."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.cyborg = self.useFixture(real_cyborg.RealCyborg(self))
        self.connection = self.cyborg.connect()
        self.useFixture(
            fixtures.MockPatchObject(
                clouds, 'connect', lambda *_: self.connection
            )
        )

    def provider(self, index=FIRST):
        """Return the uuid of Cyborg's provider of a slot, or None."""
        name = names.cyborg_provider_name('host1', index)
        (found,) = self.placement.get(f'/resource_providers?name={name}').body[
            'resource_providers'
        ] or [{'uuid': None}]
        return found['uuid']

    def set_device(self, verb):
        """Disable or enable the one device in Cyborg."""
        (device,) = self.cyborg.request('GET', '/devices').json()['devices']
        answer = self.cyborg.request(
            'POST', f'/devices/{device["uuid"]}/{verb}'
        )
        self.assertEqual(204, answer.status_code, answer.text)

    def delete_without_cyborg(self, server):
        """Delete a server; return the request that Nova leaves to Cyborg."""
        (request,) = self.cyborg.requests(server)
        self.cyborg.call('go_away')
        self._delete_server(server)
        self.cyborg.call('come_back')
        return request['uuid']


class CommandsTest(CyborgTestCase):
    def test_commands_tell_truth_about_cyborg(self):
        self.tell_stories()

    def forget(self):
        """Leave nothing in Cyborg, and nothing of it in Placement."""
        super().forget()
        self.connection = self.cyborg.connect()
        self.cyborg.call('clear')
        for index in (FIRST, SECOND):
            if provider := self.provider(index):
                self.placement.delete(f'/resource_providers/{provider}')

    def report(self, accelerators=FIRST_ALONE):
        """Make the agent report a slot, and create a device profile."""
        path = self.cyborg.configure('host1', accelerators)
        self.cyborg.report()
        self.cyborg.create_profile(GROUP, name='crypto')
        return path

    def show(self, index, *arguments):
        """Return the row of a slot."""
        code, rows = self.rows('show', *arguments)
        self.assertEqual(0, code)
        (row,) = [each for each in rows if each['Slot'] == f'{index:08X}']
        return row

    def assert_shown(self, state, remedy=''):
        """Assert what Cyborg's state and the remedy say."""
        row = self.show(FIRST, '--cyborg')
        self.assertIn(state, row['Cyborg State'])
        self.assertIn(remedy, ' '.join(row['Remedy']))
        self.assertIs(bool(remedy), bool(row['Remedy']), row)
        return row

    # The first story is told on a host that Cyborg has not touched.

    def story_diff_compares_cyborgs_file_with_its_providers(self):
        path = self.cyborg.configure('host1', CRYPTO_FILE)
        code, rows = self.rows('diff', '--accelerators', path)
        self.assertEqual(3, code)
        self.assertEqual(
            {('missing', f'{FIRST:08X}'), ('missing', f'{SECOND:08X}')},
            {(row['Kind'], row['Slot']) for row in rows},
        )
        self.cyborg.report()
        self.assertEqual((0, []), self.rows('diff', '--accelerators', path))
        provider = self.provider()
        traits = set(self._get_provider_traits(provider))
        self.set_traits(
            provider, traits - {'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_1014'}
        )
        _, (changed,) = self.rows('diff', '--accelerators', path)
        self.assertEqual(f'{FIRST:08X}', changed['Slot'])
        self.assertEqual('changed', changed['Kind'])
        self.assertIn('VENDOR_ID_1014', changed['Difference'])
        # Without Cyborg's file, nothing is expected of Cyborg's slots.
        self.assertEqual(0, self.run_command('diff')[0])

    def story_show_has_what_placement_tells_if_cyborg_is_away(self):
        self.report()
        with self.cyborg_away():
            row = self.show(FIRST)
            code, out, err = self.run_command('show', '--cyborg', '-f', 'json')
        self.assertEqual('Cyborg: free', row['State'])
        self.assertEqual(
            f'PowerVM Cyborg IOSlot host1 {FIRST:08X}', row['Cyborg Provider']
        )
        self.assertEqual([], row['Remedy'])
        self.assertEqual(1, code)
        self.assertIn("Cyborg's API: reading device profiles", err)
        self.assertEqual(1, err.count('\n'), err)
        (row,) = [r for r in json.loads(out) if r['Slot'] == f'{FIRST:08X}']
        self.assertEqual('Cyborg: free', row['State'])
        self.assertNotIn('Cyborg State', row)

    @contextlib.contextmanager
    def cyborg_away(self):
        self.cyborg.call('go_away')
        try:
            yield
        finally:
            self.cyborg.call('come_back')

    def story_show_asks_cyborg_for_state_of_device(self):
        self.report()
        provider = self.provider()
        self.assert_shown('free')
        self.set_device('disable')
        self.assert_shown('disabled')
        self.reserve(provider, CRYPTO, 0)
        self.assert_shown('does not reserve it', 'device disable')
        self.set_device('enable')
        self.reserve(provider, CRYPTO, 1)
        self.assert_shown('although the device is en', 'device enable')
        self.reserve(provider, CRYPTO, 0)
        self.cyborg.call('clear')
        self.assert_shown('no device in Cyborg', 'cyborg-agent')

    def story_show_asks_cyborg_for_state_of_request(self):
        self.report()
        server = self.boot({'accel:device_profile': 'crypto'})
        (bound,) = self.cyborg.requests(server)
        row = self.assert_shown(f'in use by {server["id"]}')
        self.assertEqual([bound['uuid']], row['Requests'])
        self.withdraw(server)
        self.assert_shown('Placement has not alloc', 'server show')
        self.cyborg.call('set_state', uuid=bound['uuid'], state='BindFailed')
        self.assert_shown('in state BindFailed', 'arq show')
        self.cyborg.call('set_state', uuid=bound['uuid'], state='Bound')
        self.assertEqual(bound['uuid'], self.delete_without_cyborg(server))
        row = self.assert_shown(
            f'server {server["id"]}, which does', bound['uuid']
        )
        self.remove_request(*row['Remedy'])

        # A request that never had a server is noted.
        answer = self.cyborg.request(
            'POST',
            '/accelerator_requests',
            json={'device_profile_name': 'crypto'},
        )
        (idle,) = answer.json()['arqs']
        code, _, err = self.run_command('show', '--cyborg')
        self.assertEqual(0, code)
        self.assertIn(f'openstack accelerator arq delete {idle["uuid"]}', err)

    def withdraw(self, server):
        """Take the slot of Cyborg's from the allocations of a server."""
        path = f'/allocations/{server["id"]}'
        allocations = self.placement.get(path, version='1.28').body
        del allocations['allocations'][self.provider()]
        answer = self.placement.put(path, allocations, version='1.28')
        self.assertEqual(204, answer.status, answer.body)

    def remove_request(self, remedy):
        """Carry out the remedy for a request whose server is gone."""
        self.assertIn('X-Service-Token', remedy)
        url = remedy.rpartition(' ')[2].strip("'")
        self.assertEqual(403, self.delete(url, 'member'))
        self.assertEqual(204, self.delete(url, 'service'))
        self.assert_shown('free')

    def delete(self, url, role_of_service):
        """Send what curl sends; return the status of the answer."""
        project = self.api_fixture.project_id
        return requests.delete(
            url,
            headers={
                'X-Auth-Token': tokens.make_token(
                    'admin', project, 'admin', 'service'
                ),
                'X-Service-Token': tokens.make_token(
                    'nova', project, role_of_service
                ),
            },
            timeout=60,
        ).status_code

    # Flavors

    def lint(self, *arguments):
        """Return exit code, and name, severity and key of the findings."""
        code, rows = self.rows('flavor', 'lint', '--cyborg', *arguments)
        return code, {
            (
                row['Flavor'] or row['Device Profile'],
                row['Severity'],
                row['Extra spec'],
            )
            for row in rows
            # A flavor of nova's fixture
            if row['Flavor'] != 'm1.tiny.specs'
        }

    def make_named(self, name, extra_specs):
        flavor = self._create_flavor(name=name, extra_spec=extra_specs)
        self.addCleanup(self.api.delete_flavor, flavor)

    def story_lint_checks_profiles_with_the_flavors(self):
        self.report()
        for name, group in {
            'greedy': {**GROUP, f'resources:{CRYPTO}': '2'},
            'gpu': {'resources:CUSTOM_GPU': '1'},
            'fake': {'resources:FPGA': '1'},
        }.items():
            self.cyborg.create_profile(group, name=name)
        self.make_named('good', {'accel:device_profile': 'crypto'})
        self.make_named('gone', {'accel:device_profile': 'away'})
        self.make_named('plain', {f'resources1:{CRYPTO}': '1'})
        expected = {
            ('gone', 'error', 'accel:device_profile'),
            ('greedy', 'error', f'groups[0]: resources:{CRYPTO}'),
            ('gpu', 'error', f'groups[0]: trait:{names.CYBORG_TRAIT}'),
            ('gpu', 'warning', 'groups[0]'),
        }
        code, found = self.lint('--cloud')
        self.assertEqual(2, code)
        self.assertEqual(
            expected | {('plain', 'error', f'resources1:{CRYPTO}')}, found
        )
        self.assertEqual((0, set()), self.lint('good'))

        # Profiles require our mark, because Cyborg refuses other traits.
        group = {'resources:FPGA': '1', 'trait:OWNER_CYBORG': 'required'}
        answer = self.cyborg.request(
            'POST', '/device_profiles', json=[{'name': 'o', 'groups': [group]}]
        )
        self.assertEqual(400, answer.status_code)
        self.assertIn('should start with CUSTOM_', answer.text)


class HandoverTest(CyborgTestCase):
    """Hands a device over between Nova and Cyborg by the printed steps.

    The commands that change files run in a shell, word for word. Those of the
    openstack client are carried out through the APIs that it would call.
    """

    inventory = CRYPTO_FILE

    def setUp(self):
        super().setUp()
        self.path = self.cyborg.configure('host1', '')
        self.conf = self.nova_conf(
            powervm={
                name: CONF.powervm[name]
                for name in (
                    'inventory_file',
                    'rest_url',
                    'rest_username',
                    'rest_password',
                )
            }
        )

    @proofs.proves('V28')
    def test_handover_tells_steps_that_lead_to_its_end(self):
        self.report_whole_commands()
        self.to_cyborg()
        self.to_nova()

    def hand_over(self, to, states):
        """Judge the steps, compare their states, and return the open one.

        :param states: First letters of the states.
        """
        arguments = ('handover', f'{FIRST:08X}', '--to', to)
        code, rows = self.rows(
            *arguments, '--accelerators', self.path, conf=self.conf
        )
        self.assertEqual(
            states, ''.join(row['State'][0] for row in rows), rows
        )
        self.assertEqual(int(set(states) != {'d'}), code)
        for row in rows:
            self.assertTrue(row['State'] == 'done' or row['Why'], row)
        return next((r for r in rows if r['State'] != 'done'), None)

    def run_commands(self, step):
        """Run the commands of a step in a shell."""
        self.assertTrue(step['Commands'], step)
        for command in step['Commands']:
            subprocess.run(['/bin/sh', '-c', command], check=True)

    def cycles(self):
        """Let nova-compute see a change, and apply it."""
        for _ in range(2):
            self._run_periodics()

    def boot_on_slot(self):
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{FIRST:08X}'
        return self.boot(
            {
                f'resources1:{CRYPTO}': '1',
                f'trait1:{trait}': 'required',
                'trait1:OWNER_NOVA': 'required',
            }
        )

    def report_whole_commands(self):
        code, out, err = self.run_command(
            *('handover', 'C10', '--to', 'cyborg'),
            *('--accelerators', self.path),
            conf=self.conf,
        )
        self.assertEqual(1, code)
        self.assertIn(f'--resource-class {CRYPTO}', err)
        self.assertRegex(
            out, r'Goal +No server or partition has the device.*\n'
        )
        self.assertRegex(
            out, r"(?m)^Commands +printf '%s\\n' '' not-\S+ .* >> \S+$"
        )

    def to_cyborg(self):
        server = self.boot_on_slot()
        step = self.hand_over('cyborg', 'bbbbbb')
        self.assertIn(f'first free it: {server["id"]}', step['Why'])
        self._delete_server(server)
        self.run_commands(self.hand_over('cyborg', 'dtbbbb'))
        step = self.hand_over('cyborg', 'ddtbbb')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertNotIn(FIRST, self.slot_providers())
        self.run_commands(self.hand_over('cyborg', 'dddtbb'))
        step = self.hand_over('cyborg', 'ddddtb')
        self.assertIn('wait for cyborg-agent', step['Why'])
        self.cyborg.report()
        profile, flavor = self.hand_over('cyborg', 'dddddt')['Commands']
        *_, group = shlex.split(profile)
        pairs = dict(pair.split('=') for pair in group.split(','))
        self.cyborg.create_profile(pairs, name='crypto')
        *_, setting = shlex.split(flavor)
        key, _, _ = setting.partition('=')
        self.user = self.boot({key: 'crypto'})
        self.assertEqual({FIRST: True}, self.lpar(self.user).slots)
        self.assertIsNone(self.hand_over('cyborg', 'd' * 6))

    def to_nova(self):
        step = self.hand_over('nova', 'tbbbbd')
        self.assertIn('accelerator device disable', step['Commands'][0])
        self.set_device('disable')
        step = self.hand_over('nova', 'bbbbbd')
        self.assertIn(f'first free it: {self.user["id"]}', step['Why'])

        # Nova deletes the request only if Cyborg answers it.
        left = self.delete_without_cyborg(self.user)
        step = self.hand_over('nova', 'bbbbbd')
        self.assertIn(f'accelerator request {left} has it', step['Why'])
        self.cyborg.delete(self.cyborg.requests())
        self.run_commands(self.hand_over('nova', 'dtbbbd'))
        step = self.hand_over('nova', 'ddtbbd')
        self.assertIn('wait for cyborg-agent', step['Why'])
        # The agent uses a change that two reports find.
        for _ in range(2):
            self.cyborg.report()
        self.assertIn(
            names.WITHDRAWN_TRAIT, self._get_provider_traits(self.provider())
        )
        step = self.hand_over('nova', 'ddtbbd')
        self.assertIn('accelerator device enable', step['Commands'][0])
        self.set_device('enable')
        step = self.hand_over('nova', 'ddtbbd')
        self.assertIn('wait for cyborg-agent', step['Why'])
        for _ in range(3):
            self.cyborg.report()
        self.assertIsNone(self.provider())
        step = self.hand_over('nova', 'dddtbd')
        self.assertIn(f"paragraph 'not-{FIRST:08X}'", step['Why'])
        path = CONF.powervm.inventory_file
        with open(path) as file:
            text, _, _ = file.read().partition('not-')
        with open(path, 'w') as file:
            file.write(text)
        step = self.hand_over('nova', 'ddddtd')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertIn(FIRST, self.slot_providers())
        self.assertIsNone(self.hand_over('nova', 'd' * 6))
        self.boot_on_slot()

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

"""Hand-overs of a device between Nova and Cyborg by the printed steps.

The commands that change files run in a shell, word for word. Those of the
openstack client are carried out through the APIs that it would call.
"""

import json
import shlex
import subprocess

import nova.conf

from nova_powervm.devices import names
from tests.functional import cyborg_process
from tests.functional import test_cyborg_commands as commands

CONF = nova.conf.CONF
CRYPTO = commands.CRYPTO
SLOT = commands.FIRST
MODEL = {
    'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_1014',
    'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_0634',
}


class HandoverTest(commands.CyborgTestCase):
    """Steps that are done one after the other, and the states in between."""

    inventory = commands.CRYPTO_FILE

    def setUp(self):
        super().setUp()
        self.path = self.write_accelerators('')
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

    def hand_over(self, to, states):
        """Judge the steps, compare their states, and return the open one.

        :param states: First letters of the states.
        """
        arguments = ('handover', f'{SLOT:08X}', '--to', to)
        code, rows = self.rows(
            *arguments, '--accelerators', self.path, conf=self.conf
        )
        self.assertEqual(
            states, ''.join(row['State'][0] for row in rows), rows
        )
        self.assertEqual(int(set(states) != {'d'}), code)
        for row in rows:
            self.assertTrue(row['State'] == 'done' or row['Why'], row)
        return next((r for r in rows if r['State'] == 'to do'), None)

    def run_commands(self, step):
        """Run the commands of a step in a shell."""
        self.assertTrue(step['Commands'], step)
        for command in step['Commands']:
            subprocess.run(['/bin/sh', '-c', command], check=True)

    def cycles(self):
        """Let nova-compute see a change, and apply it."""
        for _ in range(2):
            self._run_periodics()

    def report(self, provider=None, requests=(), **device):
        """Let Cyborg have one profile, and the device if it has a provider."""
        self.cyborg.replace(
            profiles=self.profiles,
            devices=[cyborg_process.device(SLOT, provider, **device)]
            if provider
            else [],
            requests=requests,
        )

    def boot_on_slot(self):
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{SLOT:08X}'
        return self.boot(
            {
                f'resources1:{CRYPTO}': '1',
                f'trait1:{trait}': 'required',
                'trait1:OWNER_NOVA': 'required',
            }
        )

    def test_device_goes_to_cyborg_and_back_by_the_printed_steps(self):
        self.profiles = []
        self.to_cyborg()
        self.to_nova()

    def to_cyborg(self):
        server = self.boot_on_slot()
        step = self.hand_over('cyborg', 'tdbbbbttb')
        self.assertEqual(
            [f'openstack server delete --wait {server["id"]}'],
            step['Commands'],
        )
        self._delete_server(server)
        self.run_commands(self.hand_over('cyborg', 'ddtbbbttb'))
        step = self.hand_over('cyborg', 'dddtbbttb')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertNotIn(SLOT, self.slot_providers())
        self.run_commands(self.hand_over('cyborg', 'ddddtbttb'))
        step = self.hand_over('cyborg', 'dddddtttb')
        self.assertIn('wait for cyborg-agent', step['Why'])
        provider = self.add_provider(SLOT, traits={names.CYBORG_TRAIT, *MODEL})
        self.report(provider)
        step = self.hand_over('cyborg', 'ddddddttb')
        *_, name, groups = shlex.split(step['Commands'][0])
        self.profiles = [{'name': name, 'groups': json.loads(groups)}]
        status, answer = self.create_profile(**self.profiles[0])
        self.assertEqual(201, status, answer)
        self.create_flavor(self.hand_over('cyborg', 'dddddddtb'))
        step = self.hand_over('cyborg', 'ddddddddt')
        self.assertIn('create a server from its image', step['Why'])
        user = self.boot({})
        self.allocate(user['id'], provider)
        self.report(provider, [self.use(provider, user)])
        self.assertIsNone(self.hand_over('cyborg', 'd' * 9))

    def use(self, provider, server):
        return self.request(
            provider, server['id'], profile=self.profiles[0]['name']
        )

    def create_flavor(self, step):
        """Create the flavor that a step proposes."""
        words = shlex.split(step['Commands'][0])
        name = words[words.index('create') + 1]
        specs = dict(
            word.split('=', 1)
            for word in shlex.split(step['Commands'][1])
            if '=' in word
        )
        self._create_flavor(name=name, extra_spec=specs)

    def to_nova(self):
        (provider,) = [
            p['uuid']
            for p in self._get_all_providers()
            if p['name'] == names.cyborg_provider_name('host1', SLOT)
        ]
        (consumer,) = self._get_allocations_by_provider_uuid(provider)
        server = {'id': consumer}
        used = self.use(provider, server)
        step = self.hand_over('nova', 'tbbbbbbd')
        self.assertIn('accelerator device disable', step['Commands'][0])
        self.reserve(provider, CRYPTO, 1)
        self.report(provider, [used], status='maintaining')
        step = self.hand_over('nova', 'dtbbbbbd')
        self.assertIn(consumer, step['Commands'][0])
        self._delete_server({'id': consumer, 'status': 'ACTIVE'})

        # Nova deletes the request only if Cyborg answers it: here as if
        # Cyborg had been away.
        step = self.hand_over('nova', 'dtbbbbbd')
        self.assertIn(used['uuid'], step['Commands'][0])
        self.report(provider, status='maintaining')
        self.run_commands(self.hand_over('nova', 'ddtbbbbd'))
        step = self.hand_over('nova', 'dddtbbbd')
        self.assertIn('wait for cyborg-agent', step['Why'])
        self.placement.put(
            f'/traits/{names.WITHDRAWN_TRAIT}', None, version='1.6'
        )
        traits = set(self._get_provider_traits(provider))
        self.set_traits(
            provider, traits - {names.CYBORG_TRAIT} | {names.WITHDRAWN_TRAIT}
        )
        step = self.hand_over('nova', 'dddtbbbd')
        self.assertIn('accelerator device enable', step['Commands'][0])
        self.reserve(provider, CRYPTO, 0)
        step = self.hand_over('nova', 'ddddtbbd')
        self.assertIn('wait for cyborg-agent', step['Why'])
        self._delete_provider(provider)
        self.report()
        self.run_commands(self.hand_over('nova', 'dddddtbd'))
        step = self.hand_over('nova', 'ddddddtd')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertIn(SLOT, self.slot_providers())
        self.assertIsNone(self.hand_over('nova', 'd' * 8))
        self.boot_on_slot()

    def _delete_provider(self, uuid):
        fixture = self.placement.fixture
        answer = fixture._fake_delete(None, f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status_code, answer.text)

    def test_report_has_marks_and_whole_commands(self):
        self.profiles = []
        code, out, err = self.run_command(
            *('handover', 'C10', '--to', 'cyborg'),
            *('--accelerators', self.path),
            conf=self.conf,
        )
        self.assertEqual((1, ''), (code, err))
        self.assertIn('[done]    1. No server has the device', out)
        self.assertIn("[to do]   3. Nova's inventory file", out)
        self.assertIn('[blocked] 4.', out)
        self.assertRegex(
            out, r"(?m)^ +\$ printf '%s\\n' '' not-\S+ .* >> \S+$"
        )

    def test_unknown_or_ambiguous_device_is_refused(self):
        for device, words in (('C99', 'no slot C99'), ('C*', 'several')):
            code, out, err = self.run_command(
                'handover', device, '--to', 'nova', conf=self.conf
            )
            self.assertEqual((4, ''), (code, out))
            self.assertIn(words, err)

    def test_silent_cyborg_blocks_only_what_it_would_know(self):
        self.cyborg.stop()
        step = self.hand_over('cyborg', 'ddtbbbbtb')
        self.assertIn("Nova's inventory file", step['Goal'])
        _, rows = self.rows(
            *('handover', 'C10', '--to', 'cyborg'), conf=self.conf
        )
        self.assertIn("Cyborg's API: reading", rows[6]['Why'])

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

import shlex
import subprocess

import nova.conf

from nova_powervm.devices import names
from tests import proofs
from tests.functional import test_cyborg_commands as commands

CONF = nova.conf.CONF
CRYPTO = commands.CRYPTO
SLOT = commands.FIRST


class HandoverTest(commands.CyborgTestCase):
    """Steps that are done one after the other, and the states in between."""

    inventory = commands.CRYPTO_FILE

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
        self.tell_stories()

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
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{SLOT:08X}'
        return self.boot(
            {
                f'resources1:{CRYPTO}': '1',
                f'trait1:{trait}': 'required',
                'trait1:OWNER_NOVA': 'required',
            }
        )

    def story_report_has_whole_commands(self):
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

    def story_unknown_or_ambiguous_device_is_refused(self):
        for device, words in (('C99', 'no slot C99'), ('C*', 'several')):
            code, out, err = self.run_command(
                'handover', device, '--to', 'nova', conf=self.conf
            )
            self.assertEqual((4, ''), (code, out))
            self.assertIn(words, err)

    def story_silent_cyborg_blocks_only_what_it_would_know(self):
        self.cyborg.call('go_away')
        step = self.hand_over('cyborg', 'dtbbbb')
        self.assertIn('leaves the slot out', step['Goal'])
        self.cyborg.call('come_back')

    def story_device_goes_to_cyborg_and_back_by_the_printed_steps(self):
        self.to_cyborg()
        self.to_nova()

    def to_cyborg(self):
        server = self.boot_on_slot()
        step = self.hand_over('cyborg', 'bbbbbb')
        self.assertIn(f'first free it: {server["id"]}', step['Why'])
        self._delete_server(server)
        self.run_commands(self.hand_over('cyborg', 'dtbbbb'))
        step = self.hand_over('cyborg', 'ddtbbb')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertNotIn(SLOT, self.slot_providers())
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
        self.assertEqual({SLOT: True}, self.lpar(self.user).slots)
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
        self.assertIn(f"paragraph 'not-{SLOT:08X}'", step['Why'])
        path = CONF.powervm.inventory_file
        with open(path) as file:
            text, _, _ = file.read().partition('not-')
        with open(path, 'w') as file:
            file.write(text)
        step = self.hand_over('nova', 'ddddtd')
        self.assertIn('wait for nova-compute', step['Why'])
        self.cycles()
        self.assertIn(SLOT, self.slot_providers())
        self.assertIsNone(self.hand_over('nova', 'd' * 6))
        self.boot_on_slot()

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

import os
import pathlib
import shlex
import unittest
from unittest import mock

from demo import command_guide
from demo import launcher
from demo import operator_commands

_STATE_DIR = pathlib.Path('/a state')


def _guide(
    flavor='gpu.one', paragraphs=(), classes=(), large_flavor='', **choices
):
    return command_guide.Guide(
        _STATE_DIR,
        pathlib.Path('/prefix'),
        launcher.Choices(**choices),
        flavor=flavor,
        large_flavor=large_flavor,
        paragraphs=paragraphs,
        accelerator_classes=classes,
    )


def _commands(text):
    """Return the indented lines as a shell would split them."""
    lines = [line for line in text.splitlines() if line.startswith('  ')]
    joined = '\n'.join(lines).replace('\\\n', '')
    commands = (shlex.split(c, comments=True) for c in joined.splitlines())
    return [command for command in commands if command]


class CommandGuideTest(unittest.TestCase):
    def test_operator_commands_use_the_configuration_of_the_cloud(self):
        text = _guide().for_running_cloud()
        commands = _commands(text)
        self.assertEqual(['.', '/a state/openrc'], commands[0])
        found = {
            ' '.join((os.path.basename(command[0]), *command[3:]))
            for command in commands
            if command[1:3] == ['--config-file', '/a state/etc/nova.conf']
        }
        for wanted in (
            'nova-powervm-inventory validate',
            'nova-powervm-inventory show',
            'nova-powervm-inventory diff',
            'nova-powervm-inventory flavor lint --cloud',
            'nova-powervm-status upgrade check',
        ):
            self.assertIn(wanted, found)
        self.assertIn('server create --flavor gpu.one ', text)
        self.assertNotIn('flavor create', text)

    def test_flavor_is_created_from_first_paragraph_of_the_user(self):
        guide = _guide(None, ['my gpus', 'other'])
        commands = _commands(guide.for_running_cloud())
        created = [c for c in commands if c[-1] == '--apply']
        self.assertEqual(
            ['--paragraph', 'my gpus', '--apply'], created[0][-3:]
        )
        text = _guide(None, []).for_running_cloud()
        self.assertIn('flavor create --ram', text)
        self.assertNotIn('--apply', text)

    def test_next_run_is_kept_and_has_the_choices_of_this_one(self):
        commands = _commands(_guide().for_next_run())
        self.assertEqual(
            ['--keep', '--state-dir', '/a state'], commands[0][-3:]
        )
        self.assertEqual(['.', '/a state/openrc'], commands[1])
        url = 'rabbit://me:a b@h/'
        guide = _guide(has_cyborg=True, transport_url=url)
        command = _commands(guide.for_next_run())[0]
        self.assertEqual(['--cyborg', '--transport-url', url], command[-3:])

    def test_volumes_are_attached_in_a_cloud_that_has_them(self):
        text = _guide(has_cinder=True).for_next_run()
        commands = [' '.join(command) for command in _commands(text)]
        self.assertTrue(commands[0].endswith('--cinder'))
        self.assert_in_order(
            commands,
            'volume create --size 1 my-volume',
            'server add volume my-server my-volume',
            '/a state/volumes/array.json',
            'server remove volume my-server my-volume',
            '--boot-from-volume 1 --wait my-booted',
        )
        self.assertNotIn('volume', _guide().for_next_run())

    def test_operator_of_each_of_two_hosts_has_commands(self):
        text = _guide('gpu.v100', hosts=2).for_next_run()

        commands = _commands(text)
        self.assertEqual(['--hosts', '2'], commands[0][-2:])
        for number in (1, 2):
            file = f'/a state/etc/nova-compute-{number}.conf'
            self.assertLessEqual(
                5, sum(file in command for command in commands), file
            )
        self.assertNotIn('nova.conf', text)
        self.assertNotIn('no conductor answers', text)

    def assert_in_order(self, commands, *parts):
        """Assert that commands have these parts, one after another."""
        positions = [
            next(n for n, line in enumerate(commands) if part in line)
            for part in parts
        ]
        self.assertEqual(sorted(positions), positions)
        return commands[positions[0]]

    def test_server_moves_and_is_shelved_before_first_host_fails(self):
        guide = _guide('gpu.v100', hosts=2, large_flavor='gpu.two')
        text = guide.for_running_cloud()
        commands = [' '.join(command) for command in _commands(text)]
        self.assert_in_order(
            commands,
            'server migrate --wait my-server',
            'server migration confirm my-server',
            'server resize --flavor gpu.two --wait my-server',
            'server resize revert my-server',
            'server image create --name my-image --wait my-server',
            'server rescue my-server',
            'server unrescue my-server',
            'server shelve --wait my-server',
            '2.91 server unshelve --host powervm-demo-2 --wait my-server',
            'server evacuate my-evacuated',
        )
        first = self.assert_in_order(
            commands,
            '2.74 server create --flavor gpu.v100 ',
            'url=$(sed',
            'pkill -9 -f /a state/etc/nova-compute-1.conf',
            'power_off_system',
            'set --down powervm-demo-1',
            'server evacuate my-evacuated',
            'server start my-evacuated',
            'power_on_system',
            'bin/nova-compute --config-file',
            'set --up powervm-demo-1',
        )
        self.assertIn('--host powervm-demo-1', first)
        alone = _guide(large_flavor='gpu.two').for_running_cloud()
        self.assertNotIn('migrat', alone)

    def test_cyborg_has_commands_only_for_what_is_there(self):
        text = _guide(classes=['CUSTOM_CRYPTO']).for_running_cloud()
        self.assertNotIn('accelerator', text)
        self.assertIn('no conductor answers', text)
        text = _guide(has_cyborg=True).for_running_cloud()
        self.assertIn('accelerator device list', text)
        self.assertNotIn('profile create', text)

    def test_cloud_with_cyborg_gets_profile_flavor_and_server(self):
        guide = _guide(classes=['CUSTOM_CRYPTO'], has_cyborg=True)
        text = guide.for_running_cloud()
        create = ['accelerator', 'device', 'profile', 'create']
        (created,) = (c for c in _commands(text) if c[1:5] == create)
        group = (
            'resources:CUSTOM_CRYPTO=1,trait:CUSTOM_POWERVM_CYBORG=required'
        )
        self.assertEqual(['--group', group], created[6:])
        self.assertIn(f'--property accel:device_profile={created[5]} ', text)
        self.assertNotIn('no conductor answers', text)
        self.assertIn(' '.join(operator_commands.REPORTS), text)

    def test_operator_commands_read_cyborgs_file_and_ask_cyborg(self):
        for given, path in (
            (None, '/a state/etc/accelerators.yaml'),
            (pathlib.Path('/mine.yaml'), '/mine.yaml'),
        ):
            guide = _guide(has_cyborg=True, accelerators=given)
            found = [c[3:] for c in _commands(guide.for_running_cloud())]
            for wanted in (
                ['validate', '--accelerators', path],
                ['show', '--cyborg'],
                ['diff', '--accelerators', path],
                ['flavor', 'lint', '--cloud', '--cyborg'],
            ):
                self.assertIn(wanted, found)

    def test_script_that_started_the_demonstration_is_named(self):
        with mock.patch.dict(
            os.environ, NOVA_POWERVM_DEMO_SCRIPT='tools/demo.sh'
        ):
            self.assertEqual('tools/demo.sh', command_guide.demo_command())

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

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from demo import launcher
from demo import main
from tests.unit.demo import samples


class UsageTest(unittest.TestCase):
    """Command lines that are refused before anything starts."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def assert_refused(self, *arguments, reason):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            status = main.main([str(argument) for argument in arguments])
        self.assertEqual(2, status)
        self.assertIn(reason, err.getvalue())

    def test_nonempty_state_directory_is_a_usage_error(self):
        (self.directory / 'mine').touch()

        self.assert_refused(
            '--state-dir', self.directory, reason='is not empty'
        )

    def test_unusable_inventory_is_a_usage_error(self):
        path = self.directory / 'inventory.yaml'

        self.assert_refused(
            *('--inventory', path, '--state-dir', self.directory / 'new'),
            reason=f'{path}: No such file',
        )
        self.assertFalse((self.directory / 'new').exists())

    def test_unusable_accelerators_are_a_usage_error(self):
        path = self.directory / 'accelerators.yaml'
        path.write_text('cards: {identification: {vendor: "1014"}}')

        self.assert_refused('--accelerators', path, reason=str(path))

    def test_unusable_world_is_a_usage_error(self):
        path = self.directory / 'world.yaml'
        path.write_text('[]')

        self.assert_refused('--world', path, reason=f'{path}: the document: ')

    def test_json_with_files_of_the_user_is_a_usage_error(self):
        with (
            contextlib.redirect_stderr(io.StringIO()) as err,
            self.assertRaises(SystemExit),
        ):
            main._parse(['--json', 'x', '--inventory', 'y'])

        self.assertIn('--json', err.getvalue())

    def test_hosts_option_with_other_parts_is_a_usage_error(self):
        for other in (
            ['--world', 'x'],
            ['--inventory', 'x'],
            ['--accelerators', 'x'],
            ['--cyborg'],
        ):
            with (
                self.subTest(other[0]),
                contextlib.redirect_stderr(io.StringIO()) as err,
                self.assertRaises(SystemExit),
            ):
                main._parse(['--hosts', '2', *other])

            self.assertIn('--hosts 2', err.getvalue())


class ParseArgumentsTest(unittest.TestCase):
    def test_pair_of_hosts_keeps_the_steps_and_their_results(self):
        arguments = main._parse(['--hosts', '2', '--json', 'x'])

        self.assertEqual(launcher.Choices(hosts=2), arguments.choices)
        self.assertFalse(arguments.keep)

    def test_defaults_run_the_steps_and_stop(self):
        arguments = main._parse([])

        self.assertEqual(launcher.Choices(), arguments.choices)
        self.assertTrue(arguments.choices.has_default_files)
        self.assertFalse(arguments.keep)

    def test_files_of_the_user_imply_keep(self):
        path = pathlib.Path('a')
        for option, choices in (
            ('--inventory', launcher.Choices(inventory=path)),
            ('--world', launcher.Choices(world=path)),
            (
                '--accelerators',
                launcher.Choices(accelerators=path, has_cyborg=True),
            ),
        ):
            with self.subTest(option):
                arguments = main._parse([option, 'a'])
                self.assertEqual(choices, arguments.choices)
                self.assertTrue(arguments.keep)

    def test_cyborg_and_broker_keep_the_steps(self):
        arguments = main._parse(['--cyborg', '--transport-url', 'rabbit://h/'])

        self.assertEqual(
            launcher.Choices(has_cyborg=True, transport_url='rabbit://h/'),
            arguments.choices,
        )
        self.assertTrue(arguments.choices.has_default_files)
        self.assertFalse(arguments.keep)


class EndNoticeTest(unittest.TestCase):
    def test_ctrl_c_is_announced_to_delete_temporary_directory(self):
        text = main._what_ends(samples.a_stack(), is_temporary=True)

        self.assertIn('deletes everything', text)
        self.assertIn('/state', text)

    def test_ctrl_c_is_announced_to_keep_named_directory(self):
        text = main._what_ends(samples.a_stack(), is_temporary=False)

        self.assertNotIn('delete', text)
        self.assertIn('stay in /state', text)

    def test_next_state_directory_does_not_exist(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'state'
            self.assertEqual(path, main._next_state_dir(path))
            path.mkdir()
            self.assertEqual(
                path.with_name('state-2'), main._next_state_dir(path)
            )

    def test_keep_prints_commands_and_effect_of_ctrl_c(self):
        with tempfile.TemporaryDirectory() as directory:
            stack = dataclasses.replace(
                samples.a_stack(), state_dir=pathlib.Path(directory)
            )
            with (
                contextlib.redirect_stdout(io.StringIO()) as out,
                mock.patch.object(
                    main.signal, 'pause', side_effect=KeyboardInterrupt
                ),
            ):
                main._keep(stack, launcher.Choices(), is_temporary=True)
            self.assertTrue((stack.state_dir / 'openrc').exists())

        self.assertIn('server create --flavor gpu.one', out.getvalue())
        self.assertIn('deletes everything', out.getvalue())

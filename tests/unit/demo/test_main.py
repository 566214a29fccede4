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

    def test_unusable_files_and_directory_are_usage_errors(self):
        new = self.directory / 'new'
        inventory, accelerators, world = (
            self.directory / name for name in ('i.yaml', 'a.yaml', 'w.yaml')
        )
        accelerators.write_text('cards: {identification: {vendor: "1014"}}')
        world.write_text('[]')
        for arguments, reason in (
            (('--state-dir', self.directory), 'is not empty'),
            (
                ('--inventory', inventory, '--state-dir', new),
                f'{inventory}: No such file',
            ),
            (('--accelerators', accelerators), str(accelerators)),
            (('--world', world), f'{world}: the document: '),
        ):
            with self.subTest(arguments[0]):
                self.assert_refused(*arguments, reason=reason)
        self.assertFalse(new.exists())

    def test_options_that_exclude_each_other_are_usage_errors(self):
        for named, *arguments in (
            ('--json', '--json', 'x', '--inventory', 'y'),
            ('--hosts 2', '--hosts', '2', '--world', 'x'),
            ('--hosts 2', '--hosts', '2', '--inventory', 'x'),
            ('--hosts 2', '--hosts', '2', '--accelerators', 'x'),
            ('--hosts 2', '--hosts', '2', '--cyborg'),
            ('--cinder is', '--cinder', '--cyborg'),
            ('add --no-steps', '--cinder', '--hosts', '2'),
        ):
            with (
                self.subTest(arguments),
                contextlib.redirect_stderr(io.StringIO()) as err,
                self.assertRaises(SystemExit),
            ):
                main._parse(arguments)
            self.assertIn(named, err.getvalue())


class ParseArgumentsTest(unittest.TestCase):
    def test_files_of_the_user_imply_keep(self):
        """Other choices keep the steps and their results."""
        path, url = pathlib.Path('a'), 'rabbit://h/'
        for arguments, choices, is_kept in (
            ([], {}, False),
            (['--hosts', '2', '--json', 'x'], {'hosts': 2}, False),
            (
                ['--cyborg', '--transport-url', url],
                {'has_cyborg': True, 'transport_url': url},
                False,
            ),
            (['--cinder'], {'has_cinder': True}, False),
            (['--no-steps'], {'has_steps': False}, True),
            (['--inventory', 'a'], {'inventory': path}, True),
            (['--world', 'a'], {'world': path}, True),
            (
                ['--accelerators', 'a'],
                {'accelerators': path, 'has_cyborg': True},
                True,
            ),
        ):
            with self.subTest(arguments):
                found = main._parse(arguments)
                self.assertEqual(launcher.Choices(**choices), found.choices)
                self.assertEqual(is_kept, found.keep)
                self.assertEqual(not is_kept, found.choices.runs_steps)


class EndNoticeTest(unittest.TestCase):
    def test_ctrl_c_is_announced_to_delete_temporary_directory_only(self):
        text = main._what_ends(samples.a_stack(), is_temporary=True)
        self.assertRegex(text, '(?s)(?=.*deletes everything).*/state')
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

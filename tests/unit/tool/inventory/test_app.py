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

"""The tool as a whole: configuration, output, errors, help."""

import configparser
import importlib
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import unittest
from unittest import mock

from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.tool import status
from nova_powervm.tool.clean import app as clean_app
from nova_powervm.tool.inventory import app
from nova_powervm.tool.inventory import config
from tests.unit.docs import pages
from tests.unit.tool.inventory import base

#: The commands whose examples need no more than a host.
COMMANDS = ('validate', 'show', 'generate')


def entry_points():
    """Give name and target of each command, as setup.cfg has them."""
    setup = configparser.ConfigParser()
    setup.read(pages.ROOT / 'setup.cfg')
    for line in setup['entry_points'][app.NAMESPACE].strip().splitlines():
        name, target = line.split(' = ')
        yield name.replace('_', ' '), target


class HelpTest(base.ToolTestCase):
    def test_command_is_found_by_its_entry_point(self):
        found = dict(entry_points())
        self.assertLessEqual(set(COMMANDS), set(found))
        for name in COMMANDS:
            module, attribute = found[name].split(':')
            command = getattr(importlib.import_module(module), attribute)
            tool = app.InventoryApp()
            self.assertIs(
                command, tool.command_manager.find_command([name])[0]
            )

    def test_help_of_each_command_has_an_example(self):
        for name, _ in entry_points():
            with self.subTest(command=name):
                result = base.run(*name.split(), '--help')
                self.assertEqual(0, result.status)
                _, _, examples = result.out.partition('\nExamples:\n')
                self.assertIn(f'  {app.NAME} {name}', examples)
                self.assertIn('\n  # ', examples)

    def test_help_is_printed_without_a_command(self):
        for arguments in ((), ('--help',)):
            result = base.run(*arguments)
            self.assertEqual(0, result.status)
            for name in COMMANDS:
                self.assertIn(f'  {name} ', result.out)

    def test_version_is_that_of_the_installed_package(self):
        installed = importlib.metadata.version('nova-powervm')
        for program, module in ((app.NAME, app), (status.NAME, status)):
            with self.subTest(program):
                code = f'from {module.__name__} import main; main()'
                done = subprocess.run(
                    [sys.executable, '-c', code, '--version'],
                    capture_output=True,
                    text=True,
                    check=True,
                    cwd=pages.ROOT,
                )
                self.assertEqual(f'{program} {installed}\n', done.stdout)
                self.assertEqual('', done.stderr)

    def test_bash_completes_commands_and_options(self):
        result = base.run('complete')
        self.assertEqual(0, result.status)
        # The function of the package bash-completion that cliff needs.
        for typed, expected in (
            (f'({app.NAME} val)', 'validate'),
            (f'({app.NAME} show --sys)', '--system-xml'),
        ):
            words = '_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); }'
            program = (
                f'{words}\n{result.out}\nCOMP_WORDS={typed}\n'
                'cur=${COMP_WORDS[-1]}\n'
                '_nova_powervm_inventory\necho ${COMPREPLY[@]}'
            )
            done = subprocess.run(
                ['/bin/bash', '-c', program.replace('local cur ', 'local ')],
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertIn(expected, done.stdout.split())

    def test_unknown_command_suggests_similar_ones(self):
        result = base.run('validatee')
        self.assertEqual(2, result.status)
        self.assertIn('validate', result.out)


class StartTest(unittest.TestCase):
    def test_programs_load_nova_only_when_a_command_needs_it(self):
        modules = {target.partition(':')[0] for _, target in entry_points()}
        modules |= {clean_app.__name__, status.__name__}
        self.assertGreater(len(modules), 10)
        code = (
            f'import sys, {", ".join(sorted(modules))}\n'
            "print(*(m for m in sys.modules if m.split('.')[0] == 'nova'))"
        )
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            check=True,
            cwd=pages.ROOT,
        )
        self.assertEqual('', done.stdout.strip())


#: Options that ask Placement, Nova or Cyborg.
_OF_THE_CLOUD = ('--cyborg', '--servers', '--unconfirmed')


class ExamplesTest(base.HostTestCase):
    """Every example of the help and the documents is run."""

    def test_examples_of_help_and_documents_run(self):
        examples = self.examples()
        self.assertGreaterEqual(len(examples), 12)
        system = base.capture('sys_with_sriov.txt')
        accelerators = self.write(
            'accelerators.yaml',
            'crypto:\n  identification: {vendor_id: "1014", '
            'device_id: "0634"}\n',
        )
        for example in examples:
            with self.subTest(example=example):
                output = self.directory / 'new'
                output.unlink(missing_ok=True)
                arguments = [
                    {
                        'inventory.yaml': self.inventory,
                        'new.yaml': self.inventory,
                        'system.xml': system,
                        '/etc/nova/inventory.yaml': output,
                        '/etc/cyborg/inventory.yaml': accelerators,
                    }.get(word, word)
                    for word in shlex.split(example)[1:]
                ]
                result = self.run_tool(*arguments)
                # Of the stored host no slot has a GPU, which is a warning.
                expected = 1 if '--system-xml' in arguments else 0
                if arguments[0] != 'validate':
                    expected = 0
                self.assertEqual(expected, result.status, result)
                self.assertTrue(result.out)

    def examples(self):
        """Give the command lines of help and documents."""
        texts = [base.run(name, '--help').out for name in COMMANDS]
        texts = [text.partition('Examples:')[2] for text in texts]
        texts += [
            text
            for name, text in pages.blocks('console')
            if name.startswith('cli/')
        ]
        found = []
        for text in texts:
            whole = re.sub(r'\\\n\s*', '', text)
            for line in re.findall(rf'{app.NAME} [^\n|>)]*', whole):
                # There is no cloud here to ask.
                if {*_OF_THE_CLOUD} & {*line.split()}:
                    continue
                if line.split()[1] in (*COMMANDS, 'complete'):
                    found.append(line)
        return sorted(set(found))


class ErrorTest(base.ToolTestCase):
    def test_error_is_one_line_with_the_cure(self):
        missing = ('show', '--system-xml', 'missing.xml')
        error = self.error_of(*missing)
        self.assert_one_line(error, 'missing.xml', 'Give the path')
        self.assertIn('Traceback', self.error_of('--debug', *missing))
        # pypowervm logs the whole body of what it can't read.
        bad = self.write('bad.xml', '<feed/>')
        error = self.error_of('show', '--system-xml', bad)
        self.assert_one_line(error, 'no REST answer')

    def test_named_inventory_file_has_to_exist(self):
        for *command, code in (
            ('show', 'typo.yaml', 1),
            ('diff', 'typo.yaml', 4),
            (
                *('flavor', 'create', '--print', '--file', 'typo.yaml'),
                *('--paragraph', 'gpus', 1),
            ),
            (
                *('flavor', 'lint', '--extra-spec', 'a=b'),
                *('--file', 'typo.yaml', 4),
            ),
        ):
            with self.subTest(command):
                result = self.run_tool(*command)
                self.assertEqual(code, result.status)
                self.assert_one_line(result.err, "no file 'typo.yaml'")

    def test_unexpected_error_asks_for_a_report(self):
        tool = app.InventoryApp()
        tool.options = tool.parser.parse_args([])
        command = tool.command_manager.find_command(['show'])[0]

        class Broken(command):
            def take_action(self, parsed_args):
                raise KeyError('oops')

        broken = Broken(tool, tool.options)
        complaints = []
        broken.complain = complaints.append
        parsed = broken.get_parser('show').parse_args([])
        self.assertEqual(1, broken.run(parsed))
        (complaint,) = complaints
        self.assertIn('bug in the program', complaint)
        self.assertIn('--debug', complaint)


class ConfigTest(base.ToolTestCase):
    def test_named_configuration_file_has_to_exist_unless_unused(self):
        missing = ('--config-file', '/nonexistent/nova.conf')
        result = base.run(*missing, 'validate', self.inventory, '--offline')
        self.assertEqual((0, ''), (result.status, result.err))
        result = base.run(*missing, 'show')
        self.assertEqual(1, result.status)
        self.assert_one_line(result.err, '/nonexistent/nova.conf')

    def test_options_may_follow_the_command(self):
        result = base.run('validate', '--offline', '--config-file', self.conf)
        self.assertEqual(0, result.status)
        self.assertIn(self.inventory, result.out)

    def test_invalid_configuration_file_is_reported(self):
        self.write('nova.conf', '[powervm]\nrest_url = ftp://host\n')
        error = self.error_of('show')
        self.assert_one_line(error, '[powervm]rest_url', 'looks like')
        self.write('nova.conf', 'nonsense\n')
        error = self.error_of('show')
        self.assertNotIn('Traceback', error)
        self.assertIn('nova.conf', error)

    def test_error_names_the_configuration_file_that_cannot_be_read(self):
        drop = self.directory / 'conf.d'
        drop.mkdir()
        bad = drop / 'bad.conf'
        bad.write_bytes(b'# \xe9\n')
        not_utf8 = 'cannot be read: byte 0xE9 is not UTF-8'
        both = ('--config-file', self.conf, '--config-file', bad)
        for arguments, words in (
            (('--config-dir', drop), [f'{drop} {not_utf8}']),
            (both, [f'{self.conf} or {bad} {not_utf8}']),
            (('--config-file', drop), [f'{drop} cannot be read']),
        ):
            with self.subTest(arguments):
                result = base.run(*arguments, 'show')
                self.assertEqual(1, result.status)
                self.assert_one_line(result.err, *words)

    def test_error_names_the_folder_of_provider_file_that_is_not_utf8(self):
        location = self.directory / 'provider_config'
        location.mkdir()
        (location / 'provider.yaml').write_bytes(b'# \xe9\n')
        self.write(
            'nova.conf', f'[compute]\nprovider_config_location = {location}\n'
        )
        with self.assertRaisesRegex(
            exception.ConfigurationError, f'{location} .* byte 0xE9 is not'
        ):
            _ = config.read_config([self.conf]).additions

    def test_config_dir_overrides_options(self):
        base_inventory = self.write('other.yaml', base.GPUS)
        drop = self.directory / 'conf.d'
        drop.mkdir()
        (drop / 'own.conf').write_text(
            f'[powervm]\ninventory_file = {base_inventory}\n'
        )
        result = self.run_tool('--config-dir', drop, 'validate', '--offline')
        self.assertIn(base_inventory, result.out)


class PermissionTest(base.ToolTestCase):
    """Who is not root can do what the files permit."""

    def setUp(self):
        super().setUp()
        # All modules are loaded before this user may not read them.
        with self.assertNoLogs():
            self.run_tool('validate', '--offline')
        self.directory.chmod(0o755)
        if os.geteuid() == 0:
            self.addCleanup(os.seteuid, 0)
            os.seteuid(65534)

    def forbid(self, path):
        """Let nobody read a file."""
        user = os.geteuid()
        os.seteuid(os.getuid())
        os.chmod(path, 0)
        os.seteuid(user)

    def test_readable_inventory_file_is_validated_by_any_user(self):
        self.forbid(self.conf)
        result = base.run('validate', self.inventory, '--offline')
        self.assertEqual((0, ''), (result.status, result.err))

    def test_unreadable_inventory_file_is_an_error(self):
        self.forbid(self.inventory)
        result = self.run_tool('validate', '--offline')
        self.assertEqual(2, result.status)
        self.assertIn('cannot be read', result.out)
        self.assertIn('chgrp GROUP', result.out)
        # Another user, who runs nova-compute, may be able to read it.
        self.assertIn('The file was not checked.', result.out)
        self.assertNotIn('nova-compute does not start', result.out)

    def test_unreadable_nova_conf_is_an_error_only_if_it_is_named(self):
        self.forbid(self.conf)
        self.assert_one_line(self.error_of('show'), self.conf)
        with (
            mock.patch.object(
                cfg, 'find_config_files', return_value=[self.conf]
            ),
            self.assertLogs('nova_powervm.tool') as logs,
        ):
            found = config.read_config()
            self.assertEqual([self.conf], config.unreadable_defaults())
        self.assertEqual((), found.files)
        self.assertEqual('/etc/nova/inventory.yaml', found.inventory_file)
        self.assertIn('cannot be read by this user', logs.output[0])


class UnreachableHostTest(base.ToolTestCase):
    def test_unreachable_host_is_one_line_with_the_cure(self):
        url = 'http://127.0.0.1:1'
        with open(self.conf, 'a') as conf:
            conf.write(
                f'rest_url = {url}\nrest_username = admin\n'
                'rest_password = secret\n'
            )
        words = (url, 'Connection refused', self.conf, '--system-xml')
        for command, code in (('show', 1), ('generate', 1), ('validate', 2)):
            with self.subTest(command=command):
                result = self.run_tool(command)
                self.assertEqual(code, result.status)
                self.assert_one_line(result.err, *words)
                self.assertNotIn('secret', result.err)
                is_offered = '--offline' in result.err
                self.assertEqual(command == 'validate', is_offered)


class WrongPasswordTest(base.HostTestCase):
    def test_refused_login_is_one_line_with_the_options(self):
        with open(self.conf, 'a') as conf:
            conf.write('rest_password = wrong\n')
        error = self.error_of('show')
        self.assert_one_line(error, 'refused the login', 'rest_password')


if __name__ == '__main__':
    unittest.main()

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

"""The command, several emulators in one process, and imports."""

import contextlib
import importlib.metadata
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms

from powervm_emulator import client
from powervm_emulator import fixture
from powervm_emulator import main
from powervm_emulator import options
from powervm_emulator import serving
from powervm_emulator.core import emulation

from . import base
from . import pools

COMMAND = [sys.executable, '-m', 'powervm_emulator']


def run(*arguments):
    """Run the command, which must not serve, in this process.

    :returns: exit status, standard output and standard error.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with (
        contextlib.redirect_stdout(io.StringIO()) as written,
        contextlib.redirect_stderr(io.StringIO()) as said,
        mock.patch.object(serving, '_run', side_effect=AssertionError),
    ):
        try:
            status = main.main(list(arguments))
        except SystemExit as error:
            status = error.code
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return status, written.getvalue(), said.getvalue()


class ImportTest(unittest.TestCase):
    def test_emulator_imports_neither_driver_nor_nova_nor_pypowervm(self):
        """Serve the default world while their code can't be imported."""
        program = textwrap.dedent(
            """
            import sys

            class Block:
                def find_spec(self, name, path=None, target=None):
                    # The emulator may look up pypowervm's directory, but
                    # must not import any of its modules.
                    root = name.partition('.')[0]
                    if root in ('nova', 'nova_powervm', 'oslo_config'):
                        raise ImportError(f'{name} is blocked')
                    return None

            sys.meta_path.insert(0, Block())
            from powervm_emulator import client, fixture, main
            with fixture.Emulator() as emulator:
                state = client.Client(emulator.url).state()
                assert len(state['systems'][0]['slots']) == 14, state
            loaded = {name.partition('.')[0] for name in sys.modules}
            assert not loaded & {'nova', 'pypowervm', 'oslo_log'}, loaded
            """
        )
        subprocess.run([sys.executable, '-c', program], check=True)


class TwoEmulatorsTest(unittest.TestCase):
    def test_emulators_with_equal_slots_share_no_state(self):
        base.quieten(self)
        first = base.start(self, seed=1)
        second = base.start(self, seed=2)
        adapters = [base.adapter_for(first), base.adapter_for(second)]
        systems = [ms.System.get(adapter)[0] for adapter in adapters]
        self.assertNotEqual(systems[0].uuid, systems[1].uuid)
        indexes = [
            [slot.drc_index for slot in system.asio_config.io_slots]
            for system in systems
        ]
        self.assertEqual(*indexes)
        first.control.set_owner('21010020', 'archive')
        owners = [
            {
                slot['drc_index']: slot['owner']
                for slot in emulator.control.state()['systems'][0]['slots']
            }['21010020']
            for emulator in (first, second)
        ]
        self.assertEqual(['archive', None], owners)
        first.control.expire_sessions()
        self.assertEqual(3, len(lpar.LPAR.get(adapters[1])))
        counts = second.control.journal_counts()
        self.assertEqual(1, counts['PUT Logon.create'])
        adapters.clear()


class FixtureTest(unittest.TestCase):
    def test_fixture_has_attributes_for_logon(self):
        with fixture.Emulator(username='me', password='secret') as emulator:
            self.assertEqual(f'http://127.0.0.1:{emulator.port}', emulator.url)
            self.assertEqual('me', emulator.username)
            self.assertEqual('secret', emulator.password)

    def test_stop_releases_port(self):
        emulator = fixture.Emulator().start()
        port = emulator.port
        emulator.stop()
        with self.assertRaises(OSError):
            client.Client(f'http://127.0.0.1:{port}', timeout=1).state()


class CommandTestCase(unittest.TestCase):
    def start(self, *arguments, stdin='', **options):
        """Start the command with a line of input, and end it after the test.

        :returns: the process, and the first line of its output.
        """
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        process.stdin.write(stdin)
        process.stdin.close()
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().strip()


class CommandTest(CommandTestCase):
    def test_command_prints_url_and_stops_at_sigterm(self):
        process, url = self.start('--port', '0', '--seed', '7')
        self.assertRegex(url, r'^http://127\.0\.0\.1:\d+$')
        state = client.Client(url).state()
        self.assertEqual(14, len(state['systems'][0]['slots']))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(30))

    def test_command_serves_world_of_file(self):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            json.dump({'systems': [{'name': 'machine'}]}, file)
            file.flush()
            _, url = self.start('--world', file.name)
            state = client.Client(url).state()
        self.assertEqual('machine', state['systems'][0]['name'])

    def test_command_serves_several_worlds_as_one_site(self):
        arguments = []
        for serial in ('EMU0001', 'EMU0002'):
            file = self.enterContext(
                tempfile.NamedTemporaryFile('w', suffix='.yaml')
            )
            text = json.dumps(pools.WORLD).replace('EMU0001', serial)
            file.write(text)
            file.flush()
            arguments += ['--world', file.name, '--port', '0']
        process, url = self.start(*arguments)
        states = [
            client.Client(one).state()
            for one in (url, process.stdout.readline().strip())
        ]
        self.assertEqual(*(state['clusters'][0]['pool'] for state in states))
        self.assertNotEqual(*(state['systems'][0]['uuid'] for state in states))

    def test_ports_are_as_many_as_worlds(self):
        done = subprocess.run(
            [*COMMAND, '--port', '0', '--port', '0'],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(1, done.returncode)
        self.assertIn('worlds: 1, ports: 2; each host needs one', done.stderr)

    def test_invalid_world_is_reported_with_its_file(self):
        status, _, said = run('--world', os.devnull)
        self.assertEqual(1, status)
        self.assertIn(f'{os.devnull}: the document: None is not of type', said)

    def test_world_with_unknown_capture_is_reported_with_its_file(self):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            json.dump({'systems': [{'capture': {'file': 'no.txt'}}]}, file)
            file.flush()
            status, _, said = run('--world', file.name)
        self.assertEqual(1, status)
        self.assertIn(f'{file.name}: no.txt is not a capture', said)

    def test_port_in_use_is_reported(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = str(taken.getsockname()[1])
            status, _, said = run('--port', port)
        self.assertEqual(1, status)
        self.assertRegex(said, f': cannot listen on .* port {port}: ')

    def test_invalid_port_is_refused(self):
        for text in ('65536', '-1', 'http'):
            status, _, said = run(f'--port={text}')
            self.assertEqual(2, status)
            self.assertIn(f'{text!r} is not a port number', said)

    def test_event_wait_that_is_no_time_is_refused(self):
        for text in ('nan', '-1', 'inf', 'soon', '3601'):
            status, _, said = run(f'--event-wait={text}')
            self.assertEqual(2, status)
            self.assertIn(f'{text!r} is not a time', said)

    def test_empty_password_is_refused(self):
        status, _, said = run('--password=')
        self.assertEqual(2, status)
        self.assertIn('the password is empty', said)

    def test_unknown_option_is_refused(self):
        self.assertEqual(2, run('--nonsense')[0])

    def test_version_is_that_of_the_distribution(self):
        version = importlib.metadata.version('powervm-emulator')
        shown = f'powervm-emulator {version}\n'
        self.assertEqual((0, shown, ''), run('--version'))

    def test_event_wait_default_is_that_of_the_emulation(self):
        self.assertEqual(emulation.EVENT_WAIT, options.parse([]).event_wait)


class MissingPackageTest(unittest.TestCase):
    """The command in an environment without the emulator's packages."""

    def run_without(self, module, *arguments):
        program = textwrap.dedent(
            f"""
            import sys
            sys.modules['{module}'] = None
            from powervm_emulator import main
            sys.exit(main.main({list(arguments)!r}))
            """
        )
        return subprocess.run(
            [sys.executable, '-c', program],
            capture_output=True,
            text=True,
            check=False,
        )

    def test_missing_package_is_one_line_with_the_remedy(self):
        for module in ('werkzeug', 'lxml', 'jsonschema'):
            with self.subTest(module):
                done = self.run_without(module)
                self.assertEqual(1, done.returncode)
                (line,) = done.stderr.splitlines()
                self.assertIn(f'module {module}', line)
                self.assertIn(
                    'pip install ./emulator in a checkout',
                    line,
                )
                self.assertEqual('', done.stdout)

    def test_version_needs_no_package(self):
        done = self.run_without('werkzeug', '--version')
        self.assertEqual('', done.stderr)
        self.assertEqual(0, done.returncode)

    def test_missing_own_module_is_a_defect(self):
        done = self.run_without('powervm_emulator.app')
        self.assertIn('Traceback', done.stderr)


class PasswordTest(CommandTestCase):
    """Passwords that are not on the command line."""

    def setUp(self):
        super().setUp()
        base.quieten(self)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / 'password'

    def log_on(self, url, password):
        session = pvm_adapter.Session(
            '127.0.0.1',
            'admin',
            password,
            protocol='http',
            port=int(url.rpartition(':')[2]),
        )
        self.addCleanup(base.forget, session)

    def test_first_line_of_password_file_is_the_password(self):
        self.path.write_text('from a file\nsomething else\n')
        _, url = self.start('--password-file', str(self.path))
        self.log_on(url, 'from a file')
        with self.assertRaises(exceptions.HttpError):
            self.log_on(url, 'abc123')

    def test_password_file_dash_reads_standard_input(self):
        _, url = self.start('--password-file', '-', stdin='from a pipe\n')
        self.log_on(url, 'from a pipe')

    def test_unusable_password_file_is_named(self):
        for content, reason in ((None, 'No such file'), ('\n', 'is empty')):
            with self.subTest(reason):
                if content is not None:
                    self.path.write_text(content)
                status, _, said = run('--password-file', str(self.path))
                self.assertEqual(1, status)
                self.assertIn(str(self.path), said)
                self.assertIn(reason, said)

    def test_password_and_password_file_exclude_each_other(self):
        status, _, said = run(
            '--password-file', str(self.path), '--password', 'x'
        )
        self.assertEqual(2, status)
        self.assertIn('not allowed with', said)

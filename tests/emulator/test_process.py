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
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms

from nova_powervm.emulator import client
from nova_powervm.emulator import fixture
from nova_powervm.emulator import main
from tests.emulator import base

COMMAND = [sys.executable, '-m', 'nova_powervm.emulator.main']


class EmulatorImportTest(unittest.TestCase):
    def test_emulator_runs_without_driver_nova_and_pypowervm(self):
        """Serve the default world while their modules can't be imported."""
        program = textwrap.dedent(
            """
            import sys

            class Block:
                def find_spec(self, name, path=None, target=None):
                    root, _, rest = name.partition('.')
                    inside = root == 'nova_powervm' and rest
                    foreign = inside and rest.split('.')[0] != 'emulator'
                    # The folder of pypowervm may be looked up, no module
                    # of it may be loaded.
                    if root in ('nova', 'oslo_config') or foreign:
                        raise ImportError(f'{name} is blocked')
                    return None

            sys.meta_path.insert(0, Block())
            from nova_powervm.emulator import client, fixture, main
            with fixture.Emulator() as emulator:
                state = client.Client(emulator.url).state()
                assert len(state['systems'][0]['slots']) == 14, state
            loaded = {name.partition('.')[0] for name in sys.modules}
            assert not loaded & {'nova', 'pypowervm', 'oslo_log'}, loaded
            """
        )
        subprocess.run([sys.executable, '-c', program], check=True)


class ParallelEmulatorsTest(unittest.TestCase):
    def test_emulators_share_no_state(self):
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


class EmulatorFixtureTest(unittest.TestCase):
    def test_fixture_has_url_and_credentials(self):
        with fixture.Emulator(username='me', password='secret') as emulator:
            self.assertEqual(f'http://127.0.0.1:{emulator.port}', emulator.url)
            self.assertEqual('me', emulator.username)
            self.assertEqual('secret', emulator.password)

    def test_stop_closes_port(self):
        emulator = fixture.Emulator().start()
        port = emulator.port
        emulator.stop()
        with self.assertRaises(OSError):
            client.Client(f'http://127.0.0.1:{port}', timeout=1).state()


class EmulatorCommandTest(unittest.TestCase):
    def start(self, *arguments):
        """Start the command; it is killed after the test at the latest."""
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().strip()

    def test_command_prints_url_and_ends_on_sigterm(self):
        process, url = self.start('--port', '0', '--seed', '7')
        self.assertRegex(url, r'^http://127\.0\.0\.1:\d+$')
        state = client.Client(url).state()
        self.assertEqual(14, len(state['systems'][0]['slots']))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(30))

    def test_command_serves_world_file(self):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            json.dump({'systems': [{'name': 'machine'}]}, file)
            file.flush()
            _, url = self.start('--world', file.name)
            state = client.Client(url).state()
        self.assertEqual('machine', state['systems'][0]['name'])

    def test_command_refuses_invalid_world_file(self):
        done = subprocess.run(
            [*COMMAND, '--world', os.devnull],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(1, done.returncode)
        self.assertIn('None is not of type', done.stderr)

    def test_command_refuses_port_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = str(taken.getsockname()[1])
            done = subprocess.run(
                [*COMMAND, '--port', port],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, f'^cannot listen on .* port {port}: ')

    def test_command_refuses_invalid_port(self):
        for text in ('65536', '-1', 'http'):
            stderr = io.StringIO()
            with (
                self.assertRaises(SystemExit),
                contextlib.redirect_stderr(stderr),
            ):
                main.main([f'--port={text}'])
            self.assertIn(f'{text!r} is not a port', stderr.getvalue())

    def test_command_refuses_unknown_option(self):
        with (
            self.assertRaises(SystemExit),
            tempfile.TemporaryFile('w') as stderr,
            contextlib.redirect_stderr(stderr),
        ):
            main.main(['--nonsense'])

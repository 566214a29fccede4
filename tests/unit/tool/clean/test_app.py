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

"""The options of nova-powervm-clean, and when it makes passes."""

import configparser
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.conf import cleaning as options
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.clean import app
from nova_powervm.tool.clean import program as programs
from nova_powervm.tool.clean import state
from tests.unit.docs import pages


class SettingsTest(unittest.TestCase):
    def read(self, **changes):
        conf = cfg.ConfigOpts()
        conf([], project='nova', default_config_files=[])
        options.register_opts(conf)
        for name, value in changes.items():
            conf.set_override(name, value, group=options.GROUP.name)
        return options.read_settings(conf.powervm_clean)

    def test_program_is_split_into_words(self):
        self.assertEqual(
            ('/bin/wipe', '--all', 'a b'),
            self.read(program="/bin/wipe --all 'a b'").program,
        )

    def test_missing_or_odd_program_is_refused(self):
        for program in (None, ' ', "it's"):
            with (
                self.subTest(program),
                self.assertRaisesRegex(
                    exception.ConfigurationError, r'\[powervm_clean\]program'
                ),
            ):
                self.read(program=program)


class StandIn:
    """Stands in for a program and for the cleaner of devices."""

    def __init__(self, *outcomes):
        self.outcomes = [*outcomes]
        self.passed = threading.Semaphore(0)
        self.is_stopped = False

    def stop(self):
        self.is_stopped = True

    def clean_all(self):
        self.passed.release()
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class PassesTest(unittest.TestCase):
    def passes(self, *outcomes, interval=600):
        self.devices = StandIn(*outcomes)
        return app.Passes(self.devices, self.devices, interval, delay=0)

    def await_passes(self, number):
        for _ in range(number):
            self.assertTrue(self.devices.passed.acquire(timeout=30))

    @contextlib.contextmanager
    def running(self, passes):
        thread = threading.Thread(target=passes.run)
        thread.start()
        try:
            yield
        finally:
            passes.stop()
            thread.join(30)
        self.assertFalse(thread.is_alive())
        self.assertTrue(self.devices.is_stopped)

    def test_exit_code_tells_what_became_of_the_devices(self):
        trouble = errors.PlacementUnreachable(reason='silence')
        passes = self.passes(True, False, trouble, OSError(), KeyError('bug'))
        with self.assertLogs(app.LOG.logger, 'ERROR') as logs:
            codes = [passes.once() for _ in range(5)]
        self.assertEqual([0, 2, 4, 4, 4], codes)
        self.assertIn('does not answer: silence', logs.output[0])
        self.assertIn('KeyError', logs.output[-1])

    def test_passes_follow_at_the_interval_also_after_trouble(self):
        with (
            self.assertLogs(app.LOG.logger, 'ERROR'),
            self.running(self.passes(OSError(), interval=0.01)),
        ):
            self.await_passes(3)

    def test_deletion_of_a_server_starts_a_pass(self):
        passes = self.passes()
        with self.running(passes):
            self.await_passes(1)
            passes.ask()
            self.await_passes(1)


class UnitTest(unittest.TestCase):
    """The unit of systemd."""

    def setUp(self):
        super().setUp()
        parser = configparser.ConfigParser()
        parser.optionxform = str
        parser.read(pages.ROOT / 'etc' / 'nova' / f'{app.NAME}.service.sample')
        self.service = parser['Service']

    def test_unit_runs_the_command_with_its_state_directory(self):
        (default,) = [
            opt.default
            for opt in options.OPTIONS
            if opt.dest == 'state_directory'
        ]
        self.assertEqual(default, f'/var/lib/{self.service["StateDirectory"]}')
        program = self.service['ExecStart'].split()[0]
        self.assertEqual(app.NAME, os.path.basename(program))

    def test_unit_waits_for_the_program_and_not_for_a_second_process(self):
        self.assertEqual('mixed', self.service['KillMode'])
        self.assertGreater(
            int(self.service['TimeoutStopSec']), programs.GRACE_SECONDS
        )
        self.assertEqual(
            str(exit_codes.RUNS_ALREADY),
            self.service['RestartPreventExitStatus'],
        )


class MainTest(unittest.TestCase):
    """The command as a process."""

    def run_command(self, *argv):
        return subprocess.run(
            [
                sys.executable,
                '-c',
                'import sys; from nova_powervm.tool.clean import app; '
                'sys.exit(app.main())',
                *argv,
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    def test_wrong_configuration_is_trouble(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, 'nova.conf')
            with open(path, 'w') as file:
                file.write(
                    '[powervm_clean]\nprogram = /bin/true\n'
                    f'state_directory = {directory}/state\n'
                )
            for argv, words in (
                (['--config-file', '/dev/null'], 'program is not set'),
                (['--config-file', '/nowhere'], '/nowhere'),
                (['--config-file', path], 'how to log on to Placement'),
            ):
                with self.subTest(argv):
                    done = self.run_command(*argv, '--once')
                    self.assertEqual(4, done.returncode, done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertNotIn('Traceback', done.stderr)

    def test_second_process_of_same_node_ends_in_words(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, 'nova.conf')
            with open(path, 'w') as file:
                file.write(
                    '[DEFAULT]\nhost = host1\n[powervm_clean]\n'
                    f'program = /bin/true\nstate_directory = {directory}\n'
                )
            with state.lock(directory, 'host1'):
                done = self.run_command('--config-file', path, '--once')
        self.assertEqual(3, done.returncode, done.stderr)
        self.assertIn('cleans the devices of host1', done.stderr)

    def test_version_is_shown(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertRaises(SystemExit, app.main, ['--version'])
        self.assertRegex(out.getvalue(), r'^nova-powervm-clean \d')

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

"""What the user sees of what goes wrong, and what is recorded."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
from unittest import mock

import requests

from demo import console
from demo import cyborg_reports
from demo import emulated_hosts
from demo import host as host_lib
from demo import launcher
from demo import main
from demo import messaging
from demo import report
from demo import stack as stack_lib
from demo import step_context
from demo import steps
from demo import supervisor as supervisor_lib
from tests.unit.demo import samples

_GOOD = report.Step('Good', {'a': 1}, {'a': 1}, ['to', '', 'see'])
_BAD = report.Step('Bad', {'a': 1, 'b': {'c': [2]}}, {'b': {'c': [3]}, 'd': 4})


class StepTest(samples.DirectoryTestCase):
    def test_wrong_step_is_shown_recorded_and_the_status(self):
        state = self.directory / 'state'
        record = self.directory / 'steps.json'
        made = dataclasses.replace(self.make_stack(), state_dir=state)

        def launch(*_arguments):
            (made.log / 'nova.log').write_text('2026 1 9 ERROR nova a reason')
            return made

        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            mock.patch.object(launcher, 'launch', launch),
            mock.patch.object(main, '_make_context'),
            mock.patch.object(steps, 'run_steps', return_value=[_GOOD, _BAD]),
            mock.patch.object(main.signal, 'signal'),
        ):
            arguments = ['--state-dir', str(state), '--json', str(record)]
            self.assertEqual(1, main.main(arguments))
        self.assertIn(
            '\n1. Good\n-------\n  to\n\n  see\n  ok\n'
            '\n2. Bad\n------\n  WRONG\n'
            '    a: missing, expected 1\n'
            '    b.c: expected [2], is [3]\n'
            '    d: unexpected, is 4\n',
            out.getvalue(),
        )
        for text in ('wrong: Bad', 'ERROR nova a reason', str(made.log)):
            self.assertIn(text, out.getvalue())
        documents = json.loads(record.read_text())
        self.assertEqual([True, False], [item['ok'] for item in documents])
        fields = {'step', 'expected', 'observed', 'ok'}
        self.assertEqual(fields, {*documents[0]})

    def test_host_with_few_free_gpus_or_no_answer_ends_the_steps(self):
        host = mock.Mock()
        context = step_context.Context(self.make_stack(), None, host)
        ids = {'vendor_id': '10DE', 'device_id': '1DB6'}
        owned, free = (
            host_lib.Slot('a GPU', {**ids, 'drc_index': '21010020'}, owner)
            for owner in ('vios1', None)
        )
        for slots in ([free], [owned] * 4):
            host.slots.return_value = slots
            (step,) = steps.run_steps(context)
            self.assertFalse(step.ok)
            self.assertIn('21010020', step.shown[1])
        host.slots.side_effect = requests.ConnectionError('refused')
        (step,) = steps.run_steps(context)
        self.assertEqual('no error', step.expected)
        self.assertEqual('ConnectionError: refused', step.observed)


class ProcessTest(samples.DirectoryTestCase):
    """Processes that fail, and all that have to end."""

    def setUp(self):
        super().setUp()
        self.supervisor = supervisor_lib.Supervisor(self.directory)
        self.addCleanup(self.supervisor.stop)

    def start(self, *command):
        """Start a module; return its process when it has printed."""
        self.supervisor.start('child', *command)
        output = self.supervisor.output('child')
        list(self.supervisor.wait(['child'], lambda _: output.read_text(), 60))
        return self.supervisor._children['child']

    def script(self, text):
        path = self.directory / 'script'
        path.write_text(text)
        return 'demo.services.program', str(path)

    def test_service_that_ends_or_is_late_is_named_with_its_log(self):
        for module, seconds, text, last in (
            ('x', 60, 'child: ended with status 1', 'No module named x'),
            ('http.server', 0, 'child: not up within 0 s', ''),
        ):
            self.supervisor.start('child', module)
            with self.assertRaises(supervisor_lib.ServiceError) as caught:
                list(self.supervisor.wait(['child'], lambda _: 0, seconds))
            self.assertEqual(text, str(caught.exception))
            lines = supervisor_lib.last_errors(caught.exception.log) or ['']
            self.assertIn(last, lines[-1])
            self.supervisor.stop()

    def test_errors_of_a_log_are_shown_or_its_end(self):
        log = self.directory / 'nova.log'
        self.assertEqual([], supervisor_lib.last_errors(log))
        error, info = (
            f'2026-11-21 02:17:40.932 1 {level} nova an ERROR'
            for level in ('ERROR', 'INFO')
        )
        log.write_text(f'{info} a\n{info}\n')
        self.assertEqual([info], supervisor_lib.last_errors(log, count=1))
        log.write_text(f'{error}\n{info}\n')
        self.assertEqual([error], supervisor_lib.last_errors(log))
        self.assertEqual(log, self.supervisor.log('nova'))
        output = self.supervisor.output('nova')
        output.write_text('Traceback\n')
        self.assertEqual(output, self.supervisor.log('nova'))

    def test_killed_or_deaf_process_is_gone(self):
        deaf = self.script(
            'import signal, time\n'
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
            'print("deaf")\ntime.sleep(60)\n'
        )
        killed = self.start(*deaf)
        self.supervisor.kill('child')
        self.supervisor.check()
        stopped = self.start(*deaf)
        self.supervisor.stop(seconds=0.2)
        for child in (killed, stopped):
            self.assertEqual(-signal.SIGKILL, child.returncode)

    def test_command_of_another_project_ends_with_its_launcher(self):
        """But not if it was started by hand."""
        command = self.script(
            'import sys, time\nprint("up")\ntime.sleep(float(sys.argv[1]))'
        )
        child = self.start(*command, '60')
        # This is what a child sees when its launcher is killed.
        child.stdin.close()
        self.assertEqual(-signal.SIGTERM, child.wait(60))
        by_hand = [sys.executable, '-m', *command, '0.5']
        for given in ('</dev/null', '<&-'):
            shell = ['/bin/sh', '-c', f'exec "$@" {given}', 'sh', *by_hand]
            subprocess.run(shell, check=True, capture_output=True)

    def test_emulator_hides_its_password_and_names_a_wrong_world(self):
        (self.directory / 'etc').mkdir()
        world = self.directory / 'world.yaml'
        world.write_text('systems: [{name: mine}]')
        rests = emulated_hosts.start(self.supervisor, self.directory, [world])
        (child,) = self.supervisor._children.values()
        command = pathlib.Path(f'/proc/{child.pid}/cmdline').read_text()
        self.assertNotIn(rests[0].password, command)
        self.supervisor.stop()
        world.write_text('systems: [{capture: {file: none.txt}}]')
        with self.assertRaises(supervisor_lib.ServiceError) as caught:
            emulated_hosts.start(self.supervisor, self.directory, [world])
        last = supervisor_lib.last_errors(caught.exception.log)[-1]
        self.assertIn(f'{world}: none.txt is not a capture', last)


class OtherErrorsTest(samples.DirectoryTestCase):
    def test_novnc_with_other_bytes_is_refused(self):
        npm = self.directory / 'npm'
        npm.write_text(
            '#!/bin/sh\nmkdir package && echo evil > package/rfb.js\n'
            'tar czf novnc-novnc-1.7.0.tgz package\n'
        )
        npm.chmod(0o755)
        path = f'{self.directory}{os.pathsep}{os.environ["PATH"]}'
        with (
            mock.patch.dict(os.environ, PATH=path),
            self.assertRaisesRegex(console.NoVncError, 'has the SHA-512'),
        ):
            console.fetch(self.directory / 'novnc')
        self.assertFalse((self.directory / 'novnc').exists())

    def test_report_of_cyborg_says_why_it_failed(self):
        arguments = ['--state-dir', str(self.directory)]
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(1, cyborg_reports.main(arguments))
            url = messaging.url(stack_lib.free_ports(['x'])['x'])
            self.make_stack(transport_url=url).save()
            self.assertEqual(1, cyborg_reports.main(arguments))
        self.assertRegex(
            err.getvalue(),
            f'has not reported: .*{self.directory}.*\n'
            'cyborg-agent has not reported: the broker: .*refused',
        )

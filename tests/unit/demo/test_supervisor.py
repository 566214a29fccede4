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
import signal
import tempfile
import time
import unittest

from demo import supervisor


class SupervisorTest(unittest.TestCase):
    """The supervisor, with modules of the standard library as services."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log_dir = pathlib.Path(directory.name)
        self.supervisor = supervisor.Supervisor(self.log_dir)
        self.addCleanup(self.supervisor.stop)

    def _said(self, name):
        return bool(self.supervisor.output(name).read_text())

    def test_output_of_child_is_kept(self):
        self.supervisor.start('server', 'http.server', '0')

        up = list(self.supervisor.wait(['server'], self._said, 30))

        self.assertEqual(['server'], up)
        self.assertIn('HTTP', self.supervisor.output('server').read_text())

    def test_wait_raises_if_child_ends(self):
        self.supervisor.start('broken', 'no_such_module')

        with self.assertRaises(supervisor.ServiceError) as caught:
            list(self.supervisor.wait(['broken'], lambda _: False, 30))

        self.assertEqual('broken: ended with status 1', str(caught.exception))
        self.assertIn(
            'No module named no_such_module',
            supervisor.last_errors(caught.exception.log)[-1],
        )

    def test_wait_raises_after_timeout(self):
        self.supervisor.start('silent', 'http.server', '0')

        with self.assertRaisesRegex(
            supervisor.ServiceError, 'silent: not up within 0 s'
        ):
            list(self.supervisor.wait(['silent'], lambda _: False, 0))

    def test_exit_of_context_stops_children(self):
        with self.supervisor:
            self.supervisor.start('server', 'http.server', '0')
            list(self.supervisor.wait(['server'], self._said, 30))
            (child,) = self.supervisor._children.values()

        with self.assertRaises(ProcessLookupError):
            os.kill(child.pid, 0)

    def test_killed_child_can_be_started_again(self):
        self.supervisor.start('server', 'http.server', '0')
        (child,) = self.supervisor._children.values()

        self.supervisor.kill('server')

        self.assertEqual(-signal.SIGKILL, child.returncode)
        self.supervisor.check()
        self.supervisor.start('server', 'http.server', '0')
        self.assertEqual(
            ['server'], list(self.supervisor.wait(['server'], self._said, 30))
        )

    def test_child_that_ignores_sigterm_is_killed(self):
        (self.log_dir / 'deaf.py').write_text(
            'import signal, time\n'
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
            'print("deaf")\n'
            'time.sleep(60)\n'
        )
        self.supervisor.start(
            'deaf', 'deaf', environment={'PYTHONPATH': str(self.log_dir)}
        )
        list(self.supervisor.wait(['deaf'], self._said, 30))
        began = time.monotonic()

        self.supervisor.stop(seconds=0.2)

        self.assertLess(time.monotonic() - began, 10)

    def test_log_is_preferred_to_empty_output(self):
        output, log = (self.log_dir / f'nova.{end}' for end in ('out', 'log'))
        log.write_text('a line\n')

        self.assertEqual(log, self.supervisor.log('nova'))
        output.write_text('Traceback\n')
        self.assertEqual(output, self.supervisor.log('nova'))


class LastErrorsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = pathlib.Path(directory.name) / 'nova.log'

    def test_last_errors_prefers_error_lines(self):
        error = '2026-11-21 02:17:40.932 1 ERROR nova a'
        info = '2026-11-21 02:17:40.933 1 INFO nova to ERROR state'
        self.log.write_text(f'{error}\n{info}\n')

        self.assertEqual([error], supervisor.last_errors(self.log))

    def test_last_errors_without_errors_is_end_of_log(self):
        self.log.write_text('1 INFO nova a\n1 INFO nova b\n')

        self.assertEqual(
            ['1 INFO nova b'], supervisor.last_errors(self.log, count=1)
        )

    def test_last_errors_of_missing_log_is_empty(self):
        self.assertEqual([], supervisor.last_errors(self.log))

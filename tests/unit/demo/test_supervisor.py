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
import tempfile
import time
import unittest

from nova_powervm.demo import supervisor


class TestSupervisor(unittest.TestCase):
    """With modules of the standard library as the services."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log_dir = pathlib.Path(directory.name)
        self.supervisor = supervisor.Supervisor(self.log_dir)
        self.addCleanup(self.supervisor.stop)

    def _said(self, name):
        return bool(self.supervisor.output(name).read_text())

    def test_what_a_child_prints_is_kept(self):
        self.supervisor.start('server', 'http.server', '0')

        up = list(self.supervisor.wait(['server'], self._said, 30))

        self.assertEqual(['server'], up)
        self.assertIn('HTTP', self.supervisor.output('server').read_text())

    def test_a_child_that_ends_is_an_error(self):
        self.supervisor.start('broken', 'no_such_module')

        with self.assertRaises(supervisor.ServiceError) as caught:
            list(self.supervisor.wait(['broken'], lambda _: False, 30))

        self.assertEqual('broken: ended with status 1', str(caught.exception))
        self.assertIn(
            'No module named no_such_module',
            supervisor.telling_lines(caught.exception.log)[-1],
        )

    def test_patience_has_an_end(self):
        self.supervisor.start('silent', 'http.server', '0')

        with self.assertRaisesRegex(
            supervisor.ServiceError, 'silent: not up within 0 s'
        ):
            list(self.supervisor.wait(['silent'], lambda _: False, 0))

    def test_the_end_of_the_context_is_the_end_of_the_children(self):
        with self.supervisor:
            self.supervisor.start('server', 'http.server', '0')
            list(self.supervisor.wait(['server'], self._said, 30))
            (child,) = self.supervisor._children.values()

        with self.assertRaises(ProcessLookupError):
            os.kill(child.pid, 0)

    def test_a_child_that_does_not_listen_is_killed(self):
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

    def test_a_log_is_preferred_unless_something_was_printed(self):
        output, log = (self.log_dir / f'nova.{end}' for end in ('out', 'log'))
        log.write_text('a line\n')

        self.assertEqual(log, self.supervisor.log('nova'))
        output.write_text('Traceback\n')
        self.assertEqual(output, self.supervisor.log('nova'))


class TestTellingLines(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = pathlib.Path(directory.name) / 'nova.log'

    def test_errors_come_first(self):
        error = '2026-11-21 02:17:40.932 1 ERROR nova a'
        info = '2026-11-21 02:17:40.933 1 INFO nova to ERROR state'
        self.log.write_text(f'{error}\n{info}\n')

        self.assertEqual([error], supervisor.telling_lines(self.log))

    def test_else_the_end(self):
        self.log.write_text('1 INFO nova a\n1 INFO nova b\n')

        self.assertEqual(
            ['1 INFO nova b'], supervisor.telling_lines(self.log, count=1)
        )

    def test_no_log_no_lines(self):
        self.assertEqual([], supervisor.telling_lines(self.log))

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

import signal
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = 'demo.services.program'
# Longer than a process needs to notice the end of its standard input.
_GOES_ON = 'import time; time.sleep(0.5)'
_STAYS = 'import threading; threading.Event().wait(60)'


class ProgramTest(unittest.TestCase):
    """A program of the demonstration, started by the launcher or by hand."""

    def start(self, text, redirection=''):
        """Start a program by a shell, which redirects its standard input."""
        script = self.enterContext(tempfile.NamedTemporaryFile('w'))
        script.write(text)
        script.flush()
        return subprocess.Popen(
            [
                *('/bin/sh', '-c', f'exec "$0" "$@" {redirection}'),
                *(sys.executable, '-m', _PROGRAM, script.name),
            ],
            stdin=subprocess.PIPE,
        )

    def test_program_goes_on_without_standard_input(self):
        for redirection in ('< /dev/null', '<&-'):
            with self.subTest(redirection):
                program = self.start(_GOES_ON, redirection)
                self.addCleanup(program.stdin.close)
                self.assertEqual(0, program.wait(30))

    def test_program_ends_with_pipe_of_launcher(self):
        program = self.start(_STAYS)

        program.stdin.close()

        self.assertEqual(-signal.SIGTERM, program.wait(30))

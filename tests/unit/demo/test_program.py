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


import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

_SCRIPT = """\
import sys
if __name__ == '__main__':
    print(sys.argv, flush=True)
    if len(sys.argv) == 1:
        sys.exit(3)
    import threading
    threading.Event().wait()
"""


class ProgramTest(unittest.TestCase):
    """A command of another project as a child of the launcher."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.script = pathlib.Path(directory.name) / 'command'
        self.script.write_text(_SCRIPT)

    def start(self, *arguments):
        child = subprocess.Popen(
            [
                *(sys.executable, '-m', 'demo.services.program'),
                *(str(self.script), *arguments),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stdin.close)
        return child

    def test_command_gets_its_arguments_and_ends_with_its_launcher(self):
        child = self.start('--config-file', 'x')
        line = child.stdout.readline().strip()

        # This is what a child sees when its launcher is killed.
        child.stdin.close()

        self.assertEqual(str([str(self.script), '--config-file', 'x']), line)
        self.assertEqual(-signal.SIGTERM, child.wait(30))

    def test_command_goes_on_without_standard_input(self):
        self.script.write_text('import time; time.sleep(0.5)')
        for redirection in ('< /dev/null', '<&-'):
            with self.subTest(redirection):
                command = 'exec "$0" -m demo.services.program "$1" '
                status = subprocess.run(
                    [
                        *('/bin/sh', '-c', command + redirection),
                        *(sys.executable, str(self.script)),
                    ],
                    check=False,
                    timeout=30,
                )
                self.assertEqual(0, status.returncode)

    def test_status_of_the_command_is_returned(self):
        self.assertEqual(3, self.start().wait(30))

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


"""Contenders that are measured in one run take turns.

A machine is faster in one minute than in the next. So each of them does one
thing that is measured while the others wait, and then it is the next one's
turn: what slows one down slows down all.
"""

import os
import subprocess
import sys
import tempfile

_DONE = 'benchmark: your turn is mine'
_GO = 'go'


def take():
    """Wait, in the process of a contender, until it is its turn.

    The turn that it has, if any, ends with this.
    """
    print(_DONE, flush=True)
    if sys.stdin.readline().strip() != _GO:
        raise SystemExit('nobody gives turns any more')


class Contender:
    """A process that measures, as the one that gives the turns sees it.

    :param arguments: Those of :mod:`tests.benchmark.one`, but for the file.
    """

    def __init__(self, *arguments):
        self._directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._directory.name, 'outcome.json')
        self._errors = os.path.join(self._directory.name, 'errors')
        with open(self._errors, 'w') as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, '-m', 'tests.benchmark.one'),
                    *map(str, arguments),
                    self.path,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wait(self):
        """Wait until it gives its turn back.

        :returns: Whether it wants another one.
        """
        return any(line.strip() == _DONE for line in self._process.stdout)

    def go(self):
        """Give it a turn, and wait until it gives it back.

        :returns: Whether it wants another one.
        """
        self._process.stdin.write(_GO + '\n')
        self._process.stdin.flush()
        return self.wait()

    def close(self):
        """End it.

        :returns: What it complained about; None if all was measured.
        """
        self._process.stdin.close()
        failed = self._process.wait()
        self._process.stdout.close()
        if not failed:
            return None
        with open(self._errors) as errors:
            return errors.read()


def take_turns(contenders):
    """Let contenders measure, each one thing at a time, until all have."""
    waiting = [contender for contender in contenders if contender.wait()]
    while waiting:
        waiting = [contender for contender in waiting if contender.go()]

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

"""Shells for the commands of a page on the demonstration's cloud."""

import argparse
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from tests.unit.docs import pages

_PRELUDE = """
set -u
state={state}
. $state/openrc
export PATH={bin}:$PATH
cd {root}
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """A command and what it did."""

    command: str
    status: int
    output: str
    seconds: float


def parse_state_dir(description):
    """Return the state directory of the command line, or a temporary one."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument('--state-dir', type=pathlib.Path)
    given = parser.parse_args().state_dir
    return given or pathlib.Path(tempfile.mkdtemp()) / 'cloud'


class Shell:
    """Runs each command in a shell of its own, as an operator of the cloud.

    :param state: the demonstration's state directory.
    :param functions: what to define in each shell.
    """

    def __init__(self, state, functions):
        self._prelude = functions + _PRELUDE.format(
            state=shlex.quote(str(state)),
            bin=shlex.quote(str(pathlib.Path(sys.prefix) / 'bin')),
            root=shlex.quote(str(pages.ROOT)),
        )

    def run(self, command):
        """Run a command."""
        began = time.monotonic()
        done = subprocess.run(
            ['/bin/bash', '-c', self._prelude + command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
        )
        seconds = time.monotonic() - began
        return Result(command, done.returncode, done.stdout, seconds)

    def show(self, command):
        """Run a command, and print what it did."""
        result = self.run(command)
        print(
            f'[{result.status}] {result.seconds:.1f} s: {command}\n'
            f'{result.output}',
            flush=True,
        )
        return result

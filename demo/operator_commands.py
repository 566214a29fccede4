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

"""Running the commands of operators and users on the cloud."""

import dataclasses
import os
import shlex
import subprocess

from demo import client_files
from demo import config
from demo import stack as stack_lib

#: Python's arguments for the module that has Cyborg's agent report. What it
#: imports warns that eventlet is deprecated.
REPORTS = ('-W', 'ignore', '-m', 'demo.cyborg_reports')

_INVENTORY = 'nova-powervm-inventory'
_OPENSTACK = 'openstack'
_TIMEOUT = 120


@dataclasses.dataclass(frozen=True)
class Result:
    """A command line, its exit status and its output."""

    command: str
    status: int
    output: str

    def lines(self) -> list[str]:
        """Return the command line and the output as on a terminal."""
        return [f'$ {self.command}', *self.output.rstrip().splitlines()]


def run_inventory(stack: stack_lib.Stack, *arguments: str) -> Result:
    """Run ``nova-powervm-inventory`` with the configuration of the cloud.

    In a cloud with several hosts it is that of the first.

    :raises TimeoutError: the command does not end.
    """
    file = config.compute_file(stack, stack.computes[0])
    options = ['--config-file', str(file), *arguments]
    return _run(stack, _INVENTORY, options)


def run_openstack(stack: stack_lib.Stack, *arguments: str) -> Result:
    """Run ``openstack`` as the administrator of the cloud.

    :raises TimeoutError: the command does not end.
    """
    return _run(stack, _OPENSTACK, [*arguments])


def report_devices(stack: stack_lib.Stack) -> Result:
    """Have Cyborg's agent report its devices now.

    :raises TimeoutError: the command does not end.
    """
    options = [*REPORTS, '--state-dir', str(stack.state_dir)]
    return _run(stack, 'python', options)


def _run(stack: stack_lib.Stack, program: str, options: list[str]) -> Result:
    """Run a program of the environment as somebody who has read openrc."""
    try:
        done = subprocess.run(  # noqa: S603
            [str(stack.prefix / 'bin' / program), *options],
            env={**os.environ, **client_files.environment(stack)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(
            f'{program} did not end within {_TIMEOUT} s'
        ) from error
    # Its directory depends on the machine.
    shown = shlex.join([program, *options])
    return Result(shown, done.returncode, done.stdout)

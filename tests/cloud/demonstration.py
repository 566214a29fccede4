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

"""The demonstration's cloud as a child of a command that needs one."""

import contextlib
import os
import signal
import subprocess
import sys
import time

_RUNNING = 'running until Ctrl-C'
_START_SECONDS = 900
_STOP_SECONDS = 60
_POLL = 0.5


@contextlib.contextmanager
def running(state, *options, environment=None):
    """Run the demonstration with ``--keep`` in a context.

    Its output goes to a file beside the state directory.

    :param state: the state directory, new or empty.
    :param options: more options of the demonstration.
    :param environment: variables that its processes have beside this one's.
    :raises RuntimeError: the cloud does not come up; the message is the end
        of the output.
    """
    output = state.with_name(f'{state.name}.log')
    with open(output, 'w') as file:
        process = subprocess.Popen(
            [
                *(sys.executable, '-m', 'demo', '--keep'),
                *('--state-dir', str(state), *options),
            ],
            env={**os.environ, **(environment or {})},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_up(process, output)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_STOP_SECONDS)


def _wait_until_up(process, output):
    deadline = time.monotonic() + _START_SECONDS
    while _RUNNING not in (text := output.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(text[-2000:])
        time.sleep(_POLL)

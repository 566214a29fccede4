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

"""Runs the operator's program for one device."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

#: Seconds for a program that is stopped to give its slot back.
GRACE_SECONDS = 30.0
#: Seconds for a killed program to end, and for its last output.
_END_SECONDS = 5.0
#: Longer lines are divided.
_LINE_BYTES = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a program has ended.

    :param failure: Why the device is not clean, in words; empty if it is.
    :param interrupted: Whether it ended only because its caller stops.
    """

    failure: str = ''
    interrupted: bool = False


class Program:
    """The program, which runs for one device at a time.

    :param words: The program and its arguments.
    :param time_limit: Seconds that it has.
    :param inherited: File descriptors that it inherits.
    :param grace: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(
        self,
        words: Sequence[str],
        time_limit: float,
        inherited: Sequence[int] = (),
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._words = words
        self._time_limit = time_limit
        self._inherited = inherited
        self._grace = grace
        self._stopping = False
        self._wake = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped, and so starts no more."""
        return self._stopping

    def stop(self) -> None:
        """Stop the program that runs, and start no more."""
        self._stopping = True
        self._wake.set()

    def run(
        self, variables: Mapping[str, str], tell: Callable[[str], None]
    ) -> Outcome:
        """Run the program to its end, and end all that it leaves running.

        :param variables: Environment variables beside those of this process.
        :param tell: Gets each line of its output, in another thread.
        """
        self._wake.clear()
        if self._stopping:
            return self._stopped()
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's words
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                # A process group of its own, to be ended as a whole.
                start_new_session=True,
                pass_fds=self._inherited,
            )
        except OSError as error:
            return Outcome(f'{self._words[0]} cannot be run: {error.strerror}')
        reader = _start(_read, process.stdout, tell)
        waiter = _start(self._await, process)
        self._wake.wait(self._time_limit)
        in_time = process.returncode is not None
        self._end(process.pid, waiter)
        reader.join(_END_SECONDS)
        return self._judge(process.returncode, in_time)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._wake.set()

    def _end(self, group: int, waiter: threading.Thread) -> None:
        """End the program, and what it has started."""
        if waiter.is_alive():
            _send(group, signal.SIGTERM)
            waiter.join(self._grace)
        _send(group, signal.SIGKILL)
        waiter.join(_END_SECONDS)

    def _judge(self, code: int | None, in_time: bool) -> Outcome:
        if in_time and code == 0:
            return Outcome()
        if self._stopping:
            return self._stopped()
        if code is None:
            return Outcome('the program still runs and cannot be killed')
        if not in_time:
            return Outcome(
                f'the program did not end within {self._time_limit:g} seconds'
            )
        if code < 0:
            return Outcome(
                f'the program was ended by {signal.Signals(-code).name}'
            )
        return Outcome(f'the program ended with exit code {code}')

    def _stopped(self) -> Outcome:
        return Outcome('the program was stopped', interrupted=True)


def _start(target: Callable[..., None], *args: Any) -> threading.Thread:
    # A program that cannot be killed must not keep this process.
    thread = threading.Thread(
        target=target, args=args, name='powervm-program', daemon=True
    )
    thread.start()
    return thread


def _read(stream: Any, tell: Callable[[str], None]) -> None:
    """Tell each line that is not empty, without control characters.

    What a used device says of itself may be printed as it is.
    """
    with stream:
        while line := stream.readline(_LINE_BYTES):
            text = line.decode(errors='backslashreplace').strip()
            if text:
                tell(''.join(c if c.isprintable() else '?' for c in text))


def _send(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)

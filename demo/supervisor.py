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

"""Starting, watching and stopping the processes of the cloud."""

import collections.abc
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing

from demo import stack

# Nova's services, and all that run beside them, use native threads.
_ENVIRONMENT = {
    'OS_NOVA_DISABLE_EVENTLET_PATCHING': 'true',
    'PYTHONWARNINGS': 'ignore',
    'PYTHONUNBUFFERED': '1',
}

_LINES = 25

# oslo.log writes date, time and process before the level.
_ERROR = re.compile(r'\S+ \S+ \d+ (ERROR|CRITICAL) ')


class ServiceError(Exception):
    """A process did not start, or ended unexpectedly.

    ``log`` is the file that most likely has the reason.
    """

    def __init__(self, name: str, reason: str, log: pathlib.Path) -> None:
        super().__init__(f'{name}: {reason}')
        self.name = name
        self.log = log


class Supervisor:
    """The child processes of one run; a context that stops them on exit.

    The output of a child goes to ``NAME.out`` in ``log_dir``, where the
    projects themselves log to ``NAME.log``.
    """

    def __init__(self, log_dir: pathlib.Path) -> None:
        self._log_dir = log_dir
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(
        self,
        name: str,
        module: str,
        *arguments: str,
        environment: collections.abc.Mapping[str, str] | None = None,
    ) -> None:
        """Start ``python -m module arguments`` as the child ``name``."""
        with open(self.output(name), 'wb') as output:
            self._children[name] = subprocess.Popen(  # noqa: S603
                [sys.executable, '-m', module, *arguments],
                env=_environment(environment or {}),
                # A child that reads it notices the end of this process.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches only this process, which stops its children.
                start_new_session=True,
            )

    def wait(
        self,
        names: collections.abc.Iterable[str],
        is_up: collections.abc.Callable[[str], bool],
        seconds: float,
    ) -> collections.abc.Iterator[str]:
        """Yield each name as soon as ``is_up(name)`` is true.

        :raises ServiceError: a child ended, or is not up after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        missing = set(names)
        while missing:
            self.check()
            for name in sorted(filter(is_up, missing)):
                missing.remove(name)
                yield name
            if missing and time.monotonic() > deadline:
                name = min(missing)
                raise ServiceError(
                    name, f'not up within {seconds:.0f} s', self.log(name)
                )
            time.sleep(0.1)

    def check(self) -> None:
        """Verify that all children are running.

        :raises ServiceError: one of them ended.
        """
        for name, child in self._children.items():
            status = child.poll()
            if status is not None:
                raise ServiceError(
                    name, f'ended with status {status}', self.log(name)
                )

    def kill(self, name: str) -> None:
        """Kill a child and its descendants, which can't prepare for it."""
        child = self._children.pop(name)
        _signal_group(child, signal.SIGKILL)
        child.wait()
        if child.stdin:
            child.stdin.close()

    def output(self, name: str) -> pathlib.Path:
        """Return the file with the output of a child."""
        return self._log_dir / f'{name}.out'

    def log(self, name: str) -> pathlib.Path:
        """Return the file that most likely says why a child failed.

        The traceback of a process that ended is in its output.
        """
        output = self.output(name)
        log = self._log_dir / f'{name}.log'
        if log.exists() and not (output.exists() and output.stat().st_size):
            return log
        return output

    def stop(self, seconds: float = 10) -> None:
        """Stop all children and their descendants, newest child first."""
        children = list(reversed(self._children.values()))
        self._children.clear()
        for child in children:
            _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        for child in children:
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(child, signal.SIGKILL)
                child.wait()
            if child.stdin:
                child.stdin.close()


def last_errors(log: pathlib.Path, count: int = _LINES) -> list[str]:
    """Return the last errors in a log file, or its last lines without any.

    :returns: an empty list if the file does not exist.
    """
    if not log.exists():
        return []
    lines = log.read_text(errors='replace').splitlines()
    errors = list(filter(_ERROR.match, lines))
    return (errors or lines)[-count:]


def _environment(
    added: collections.abc.Mapping[str, str],
) -> dict[str, str]:
    """Return the variables of a child, which finds the demonstration."""
    found = {**os.environ, **_ENVIRONMENT, **added}
    path = [found.get('PYTHONPATH'), str(stack.CHECKOUT)]
    return {**found, 'PYTHONPATH': os.pathsep.join(filter(None, path))}


def _signal_group(child: subprocess.Popen[bytes], number: int) -> None:
    # Each child leads a process group, which includes its descendants.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)

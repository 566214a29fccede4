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

"""The command line: ``python -m nova_powervm.demo``."""

import argparse
import collections.abc
import os
import pathlib
import shutil
import signal
import sys
import time
import typing

from nova_powervm.demo import client_files
from nova_powervm.demo import cloud as cloud_lib
from nova_powervm.demo import host as host_lib
from nova_powervm.demo import launcher
from nova_powervm.demo import report
from nova_powervm.demo import stack as stack_lib
from nova_powervm.demo import steps as steps_lib
from nova_powervm.demo import supervisor as supervisor_lib

_WRONG = 1
_USAGE = 2
# What a shell reports of a program that Ctrl-C ended.
_INTERRUPTED = 130

#: What ends a run early. A shell starts its background jobs with SIGINT
#: ignored, so Python's own handling of it is not to be relied on.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run the demonstration; return the status for the shell.

    0: every step is as expected. 1: one is not, or a service failed.
    """
    arguments = _parser().parse_args(argv)
    try:
        if arguments.json:
            # Neither the steps of an earlier run nor, at the end, a path that
            # can't be written.
            report.write(arguments.json, [])
        state_dir = stack_lib.make_state_dir(arguments.state_dir)
    except OSError as error:
        print(f'demo: {error}', file=sys.stderr)
        return _USAGE
    _say(f'everything of this run is in {state_dir}')
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    # Wherever this machine's requests go by default, these stay on it. The
    # children inherit it.
    os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
    status = _WRONG
    try:
        status = _in_state_dir(state_dir, arguments)
    except KeyboardInterrupt:
        status = _INTERRUPTED
        _say('interrupted')
    except supervisor_lib.ServiceError as error:
        _say(str(error))
        _show_log(error.log)
    except (OSError, *steps_lib.REFUSALS) as error:
        _say(report.reason(error))
    if status == _WRONG:
        _say(f'all log files: {state_dir / "log"}')
    elif arguments.state_dir is None:
        shutil.rmtree(state_dir)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='tools/demo.sh',
        description='Start a small OpenStack with the PowerVM driver and an '
        'emulated PowerVM host, and demonstrate device passthrough on it.',
    )
    parser.add_argument(
        '--json',
        type=pathlib.Path,
        metavar='FILE',
        help='write the steps there: step, expected, observed, ok',
    )
    parser.add_argument(
        '--keep',
        action='store_true',
        help='leave the cloud running afterwards, until Ctrl-C',
    )
    parser.add_argument(
        '--state-dir',
        type=pathlib.Path,
        metavar='DIR',
        help='an empty or new directory for databases, configuration and '
        'logs; by default a temporary one, removed unless something failed',
    )
    return parser


def _in_state_dir(
    state_dir: pathlib.Path, arguments: argparse.Namespace
) -> int:
    with supervisor_lib.Supervisor(state_dir / 'log') as supervisor:
        try:
            return _with_children(state_dir, supervisor, arguments)
        finally:
            # Another Ctrl-C must not keep the children from being ended.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)


def _with_children(
    state_dir: pathlib.Path,
    supervisor: supervisor_lib.Supervisor,
    arguments: argparse.Namespace,
) -> int:
    began = time.monotonic()
    stack = launcher.launch(
        state_dir, supervisor, steps_lib.inventory_text(), _say
    )
    done = _walk(stack)
    if arguments.json:
        report.write(arguments.json, done)
    wrong = [step.step for step in done if not step.ok]
    seconds = time.monotonic() - began
    _say(f'{len(done) - len(wrong)} steps are ok, after {seconds:.0f} s')
    if wrong:
        _say(f'wrong: {wrong[0]}')
        supervisor.check()
        _show_log(supervisor.log('nova'))
    if arguments.keep:
        _keep(stack)
    return _WRONG if wrong else 0


def _walk(stack: stack_lib.Stack) -> list[report.Step]:
    """Run and print the steps."""
    host = host_lib.Host(stack.host)
    demonstration = steps_lib.Demonstration(
        stack, cloud_lib.Cloud(stack), host
    )
    done = []
    for number, step in enumerate(demonstration.run(), start=1):
        report.show(step, number)
        done.append(step)
    host.log_off()
    print()
    return done


def _keep(stack: stack_lib.Stack) -> None:
    """Say how to use the cloud, and let it run until Ctrl-C."""
    print(client_files.write(stack))
    _say('running until Ctrl-C')
    try:
        signal.pause()
    except KeyboardInterrupt:
        _say('stopping')


def _show_log(log: pathlib.Path) -> None:
    lines = supervisor_lib.telling_lines(log)
    if lines:
        print(f'From {log}:')
        print(*(f'  {line}' for line in lines), sep='\n')


def _say(line: str) -> None:
    print(f'[{time.strftime("%H:%M:%S")}] {line}', flush=True)


def run() -> typing.NoReturn:
    """Run the command and leave Python with its status."""
    sys.exit(main())

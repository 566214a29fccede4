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

"""The command ``powervm-emulator``.

The modules that serve requests are imported after the command line has been
parsed, so ``--help``, ``--version`` and the message about missing packages
need only the standard library.
"""

import argparse
import importlib.metadata
import json
import pathlib
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from powervm_emulator import app
    from powervm_emulator import server

_PROGRAM = 'powervm-emulator'
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_PORT = 65535
_DEFAULT_PASSWORD = 'abc123'  # noqa: S105 - a documented test credential
#: ``emulation.EVENT_WAIT``, which can't be imported yet.
_EVENT_WAIT = 10.0
_LONGEST_WAIT = 3600


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM arrives.

    Standard output has the URL of each emulated host, one a line.

    :param arguments: the command line without the program's name; by default
        that of the process.
    :returns: the exit status: 0, or 1 if a package is missing, the password
        file can't be read, the world is invalid or the port is unavailable.
        The reason is on standard error.
    """
    options = _parser().parse_args(arguments)
    if options.password_file:
        try:
            options.password = _read_password(options.password_file)
        except ValueError as error:
            return _fail(str(error))
    try:
        return _print_schema() if options.print_schema else _serve(options)
    except ModuleNotFoundError as error:
        if (error.name or '').startswith('powervm_emulator'):
            raise
        return _fail(
            f'the Python module {error.name} is missing; install the '
            "emulator's packages: pip install -c constraints.txt "
            './emulator in a checkout of nova-powervm'
        )


def _print_schema() -> int:
    from powervm_emulator import worlds  # noqa: PLC0415

    print(json.dumps(worlds.schema(), indent=2))
    return 0


def _serve(options: argparse.Namespace) -> int:
    from powervm_emulator import app  # noqa: PLC0415
    from powervm_emulator import server  # noqa: PLC0415
    from powervm_emulator import worlds  # noqa: PLC0415
    from powervm_emulator.core import errors  # noqa: PLC0415
    from powervm_emulator.core import host  # noqa: PLC0415

    files: list[str | None] = options.world or [None]
    ports: list[int] = options.port or [0] * len(files)
    if len(ports) != len(files):
        return _fail(
            f'worlds: {len(files)}, ports: {len(ports)}; each host needs one '
            'of each'
        )
    common = host.Site(options.seed)
    running: list[tuple[app.Application, server.Server]] = []
    for number, (file, port) in enumerate(zip(files, ports, strict=True)):
        try:
            application = app.make_app(
                worlds.load_file(file) if file else None,
                username=options.username,
                password=options.password,
                seed=options.seed + number,
                event_wait=options.event_wait,
                site=common,
            )
            serving = server.Server(application, options.host, port)
        except errors.WorldError as error:
            return _fail(_about_world(str(error), file))
        except OSError as error:
            return _fail(
                f'cannot listen on {options.host} port {port}: {error}'
            )
        running.append((application, serving))
    _wait(running)
    return 0


def _about_world(problem: str, file: str | None) -> str:
    """Return what is wrong with a world, after the name of its file."""
    name = file or 'the default world'
    return problem if problem.startswith(name) else f'{name}: {problem}'


def _wait(
    running: 'Sequence[tuple[app.Application, server.Server]]',
) -> None:
    """Serve until a signal arrives."""
    # Blocked in this thread and in all later ones, the signals stay pending
    # for sigwait; a handler could run just before this thread starts to wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    for _, serving in running:
        serving.start()
    for _, serving in running:
        print(serving.url, flush=True)
    signal.sigwait(_STOP_SIGNALS)
    for application, serving in running:
        application.close()
        serving.stop()


def _read_password(path: str) -> str:
    """Return the first line of a file, or of standard input for ``-``.

    :raises ValueError: the file can't be read, or its first line is empty.
    """
    try:
        text = (
            sys.stdin.readline()
            if path == '-'
            else pathlib.Path(path).read_text(encoding='utf-8')
        )
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f'cannot read the password file {path}: {error}'
        ) from error
    password = text.partition('\n')[0].rstrip('\r')
    if not password:
        raise ValueError(
            f'the password file {path} is empty; its first line has to be '
            'the password'
        )
    return password


def _fail(message: str) -> int:
    """Print why the emulator does not start; return the exit status."""
    print(f'{_PROGRAM}: {message}', file=sys.stderr)
    return 1


def _version() -> str:
    try:
        return importlib.metadata.version(_PROGRAM)
    except importlib.metadata.PackageNotFoundError:
        return '(not installed)'


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a port number from 0 to {_LAST_PORT}'
        )
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    # Not a number is never within limits.
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a time from 0 to {_LONGEST_WAIT} seconds'
        )
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description='Serve an emulation of the PowerVM (NovaLink) REST API. '
        'The first line of output is its URL. With several worlds there are '
        'several hosts, which share their storage pools. SIGINT (Ctrl-C) or '
        'SIGTERM stops the emulator and discards its state.',
    )
    parser.add_argument(
        '--version', action='version', version=f'{_PROGRAM} {_version()}'
    )
    parser.add_argument(
        '--print-schema',
        action='store_true',
        help='print the JSON schema of world files, and exit',
    )
    _add_host_options(parser)
    _add_logon_options(parser)
    return parser


def _add_host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--world',
        metavar='FILE',
        action='append',
        help='YAML file that describes an emulated host, once for each host '
        '(default: one POWER9 system with four GPUs)',
    )
    parser.add_argument(
        '--host',
        metavar='ADDRESS',
        default='127.0.0.1',
        help='address to listen on (default: %(default)s)',
    )
    parser.add_argument(
        '--port',
        type=_port,
        action='append',
        help='port to listen on, once for each host (default: 0, any free '
        'port)',
    )
    parser.add_argument(
        '--seed',
        metavar='NUMBER',
        type=int,
        default=0,
        help='seed of all random choices, such as UUIDs; give each host of '
        'a cloud a different one. Those of further worlds follow it '
        '(default: %(default)s)',
    )
    parser.add_argument(
        '--event-wait',
        type=_seconds,
        default=_EVENT_WAIT,
        metavar='SECONDS',
        help='time that a poll for events waits when there are none '
        '(default: %(default)g)',
    )


def _add_logon_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--username',
        metavar='NAME',
        default='admin',
        help='user who can log on with a password (default: %(default)s)',
    )
    password = parser.add_mutually_exclusive_group()
    password.add_argument(
        '--password-file',
        metavar='FILE',
        help="file whose first line is this user's password; - reads "
        'standard input',
    )
    password.add_argument(
        '--password',
        default=_DEFAULT_PASSWORD,
        help='the password itself, which every user of this machine can see '
        'in the output of ps (default: %(default)s)',
    )


if __name__ == '__main__':
    sys.exit(main())

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

"""The command line of ``powervm-emulator``.

It needs only the standard library, and so do ``--help`` and the message about
packages that are missing.
"""

import argparse
import importlib.metadata
import pathlib
import sys
from collections.abc import Sequence

PROGRAM = 'powervm-emulator'
RECORD = 'record'
_LAST_PORT = 65535
_DEFAULT_PASSWORD = 'abc123'  # noqa: S105 - a documented test credential
#: ``emulation.EVENT_WAIT``, which can't be imported yet.
_EVENT_WAIT = 10.0
_LONGEST_WAIT = 3600


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options, with the name of the command in ``command``.

    ``record`` is one; without a name, the emulator serves.
    """
    if arguments and arguments[0] == RECORD:
        return _record_parser().parse_args(
            arguments[1:], argparse.Namespace(command=RECORD)
        )
    parser = _serve_parser()
    options = parser.parse_args(arguments, argparse.Namespace(command='serve'))
    if bool(options.tls_cert) != bool(options.tls_key):
        parser.error('--tls-cert and --tls-key need each other')
    if options.tls and options.tls_cert:
        parser.error('--tls makes a certificate: not with --tls-cert')
    return options


def read_password(path: str) -> str:
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


def _version() -> str:
    try:
        return importlib.metadata.version(PROGRAM)
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


def _password(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError('the password is empty')
    return text


def _serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description='Serve an emulation of the PowerVM (NovaLink) REST API. '
        'The first line of output is its URL. With several worlds there are '
        'several hosts, which share their storage pools. SIGINT (Ctrl-C) or '
        'SIGTERM stops the emulator and, without --state, discards its '
        'state.',
        epilog=f'{PROGRAM} {RECORD} --help tells how to make a world of a '
        'real host.',
    )
    parser.add_argument(
        '--version', action='version', version=f'{PROGRAM} {_version()}'
    )
    parser.add_argument(
        '--print-schema',
        action='store_true',
        help='print the JSON schema of world files, and exit',
    )
    _add_host_options(parser)
    _add_tls_options(parser)
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
        '--like',
        action='append',
        metavar='FILE',
        help='report of nova-powervm-check: give each emulated host the '
        'habits of the host that it is about. Repeat it for the report of '
        'the other mode',
    )
    parser.add_argument(
        '--state',
        metavar='FILE',
        help='file that keeps the hosts over restarts. If it is there, they '
        'are as it says, and not as in their worlds',
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
        '--host-root',
        metavar='DIR',
        action='append',
        help='directory for what programs on the management partition see '
        'as /sys and /dev: a scan there makes mapped disks appear; its bin '
        'has mkvterm and rmvterm; once for each host (default: none)',
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


def _add_tls_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--tls',
        action='store_true',
        help='serve HTTPS with a new certificate that signs itself; standard '
        'error has the path of its file',
    )
    parser.add_argument(
        '--tls-cert',
        metavar='FILE',
        help='serve HTTPS with this certificate (PEM); needs --tls-key',
    )
    parser.add_argument(
        '--tls-key',
        metavar='FILE',
        help='the key of this certificate (PEM), without a passphrase',
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
        type=_password,
        default=_DEFAULT_PASSWORD,
        help='the password itself, which every user of this machine can see '
        'in the output of ps (default: %(default)s)',
    )


def _record_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f'{PROGRAM} {RECORD}',
        description='Read a host or an HMC over its REST API and write a '
        'world that is like it. Nothing is changed there; beside the logon '
        'and logoff all requests only read.',
    )
    parser.add_argument(
        'url',
        metavar='URL',
        help='of the REST server, such as https://192.0.2.1:12443',
    )
    parser.add_argument(
        '--username', metavar='NAME', required=True, help='user to log on'
    )
    parser.add_argument(
        '--password-file',
        metavar='FILE',
        required=True,
        help="file whose first line is this user's password; - reads "
        'standard input',
    )
    parser.add_argument(
        '--cafile',
        metavar='FILE',
        help='certificates (PEM) to verify the server with, instead of '
        "the machine's",
    )
    parser.add_argument(
        '--mask',
        action='store_true',
        help='replace serial numbers, names and addresses by made-up ones, '
        'the same one everywhere',
    )
    parser.add_argument(
        '--output',
        metavar='FILE',
        help='the world file, which must not be there (default: standard '
        'output)',
    )
    return parser

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

"""The command ``nova-powervm-emulator``."""

import argparse
import signal
import sys
from collections.abc import Sequence

from nova_powervm.emulator import app
from nova_powervm.emulator import emulation
from nova_powervm.emulator import errors
from nova_powervm.emulator import server
from nova_powervm.emulator import worlds

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_LAST_PORT = 65535


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal says to stop.

    The first line of standard output is the emulator's URL.

    :returns: the exit status: 0, or 1 for a world that is not possible or a
        port that cannot be had.
    """
    options = _parser().parse_args(arguments)
    try:
        world = worlds.load_file(options.world) if options.world else None
        application = app.make_app(
            world,
            username=options.username,
            password=options.password,
            seed=options.seed,
            event_wait=options.event_wait,
        )
        running = server.Server(application, options.host, options.port)
    except errors.WorldError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        where = f'{options.host} port {options.port}'
        print(f'cannot listen on {where}: {error}', file=sys.stderr)
        return 1
    # Blocked here and in every thread to come, they wait for sigwait: a
    # handler could run just before this thread goes to sleep.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    running.start()
    print(running.url, flush=True)
    signal.sigwait(_STOPPING)
    application.close()
    running.stop()
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a port, 0 to {_LAST_PORT}'
        )
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='nova-powervm-emulator',
        description='Serve an emulation of the PowerVM (NovaLink) REST API. '
        'The first line of the output is its URL.',
    )
    parser.add_argument(
        '--world',
        metavar='FILE',
        help='a YAML document that says what the host is made of '
        '(the default is one POWER9 machine with four GPUs)',
    )
    parser.add_argument(
        '--host',
        default='127.0.0.1',
        help='the address to listen on (default: %(default)s)',
    )
    parser.add_argument(
        '--port',
        type=_port,
        default=0,
        help='the port to listen on; 0, the default, takes one that is free',
    )
    parser.add_argument(
        '--username',
        default='admin',
        help='who can log on with a password (default: %(default)s)',
    )
    parser.add_argument(
        '--password',
        default='abc123',
        help='the password, which protects nothing (default: %(default)s)',
    )
    parser.add_argument(
        '--seed',
        type=int,
        default=0,
        help='of every random choice, such as uuids; give each host of a '
        'cloud its own (default: %(default)s)',
    )
    parser.add_argument(
        '--event-wait',
        type=float,
        default=emulation.EVENT_WAIT,
        metavar='SECONDS',
        help='how long a poll for events waits (default: %(default)s)',
    )
    return parser


if __name__ == '__main__':
    sys.exit(main())

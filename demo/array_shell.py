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

"""The command line of the storage array, for its administrator.

``python -m demo.array_shell --state-dir DIR lsvdisk`` runs a command of the
array. Cinder's volume service, whose process has the simulator, serves it.
"""

import argparse
import collections.abc
import json
import pathlib
import socket
import socketserver
import sys
import threading
import typing

from demo import stack as stack_lib

#: Run a command, given by its words; return its output and its errors.
Execute = collections.abc.Callable[[list[str]], tuple[str, str]]

_SECONDS = 60.0


def serve(execute: Execute, port: int) -> None:
    """Serve the commands of an array from threads of this process."""

    class Handler(socketserver.StreamRequestHandler):
        """Answers one command: a line with JSON, in both directions."""

        def handle(self) -> None:
            """Run the command."""
            answer = execute(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(answer).encode())

    server = socketserver.ThreadingTCPServer(
        (stack_lib.ADDRESS, port), Handler
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


def run(stack: stack_lib.Stack, *words: str) -> tuple[str, str]:
    """Run a command of the array; return its output and its errors.

    :raises OSError: the array does not answer.
    :raises ValueError: it knows no such command, and says so in its log.
    """
    address = (stack_lib.ADDRESS, stack.ports[stack_lib.ARRAY])
    with socket.create_connection(address, _SECONDS) as connection:
        connection.sendall(json.dumps(words).encode() + b'\n')
        with connection.makefile('rb') as answer:
            found: typing.Any = json.load(answer)
    output, error = found
    return output, error


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run a command of the array.

    :param argv: the command line without the program's name; by default that
        of the process.
    :returns: the exit status: 0, or 1 if the array refuses the command.
    """
    parser = argparse.ArgumentParser(
        prog='python -m demo.array_shell',
        description="Run a command of the demonstration's storage array.",
    )
    parser.add_argument(
        '--state-dir',
        type=pathlib.Path,
        required=True,
        help='state directory of a cloud that runs Cinder',
    )
    parser.add_argument('command', nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    stack = stack_lib.load(arguments.state_dir)
    output, error = run(stack, *arguments.command)
    print(output, end='\n' if output else '')
    print(error, end='\n' if error else '', file=sys.stderr)
    return 1 if error else 0


if __name__ == '__main__':
    sys.exit(main())

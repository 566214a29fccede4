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

"""The server of the queues, a process of its own."""

import argparse
import asyncio
import collections.abc
import contextlib
import hmac
import json
import pathlib
import signal
import sys
import typing

from demo import stack as stack_lib
from demo.messaging import queues as queues_lib
from demo.services import launcher_watch

_EXPIRE_PERIOD = 60.0

_Frame = dict[str, typing.Any]


class Connection(asyncio.Protocol):
    """The server's side of a connection: see the protocol of the package.

    :param queues: the queues of the server.
    :param password: what the client has to send first.
    """

    def __init__(self, queues: queues_lib.Queues, password: str) -> None:
        self._queues = queues
        self._password = password
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport
        self._consumer: queues_lib.Consumer | None = None
        self._handle: collections.abc.Callable[[bytes], None] = self._log_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = typing.cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Handle the lines that are complete; an invalid one ends it all."""
        self._buffer += data
        if b'\n' not in data:
            return
        *lines, rest = bytes(self._buffer).split(b'\n')
        self._buffer[:] = rest
        try:
            for line in lines:
                self._handle(line)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            print(f'invalid request: {error!r}', file=sys.stderr, flush=True)
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Return what the client holds to its queue."""
        if self._consumer is not None:
            self._queues.remove(self._consumer)

    def _log_on(self, line: bytes) -> None:
        if hmac.compare_digest(line, self._password.encode()):
            self._handle = self._serve
        else:
            self._send({'error': 'the password in the URL is wrong'})
            self._transport.close()
            self._handle = self._ignore

    def _ignore(self, _line: bytes) -> None:
        """Do nothing with what a refused client has sent already."""

    def _serve(self, line: bytes) -> None:
        frame: _Frame = json.loads(line)
        operation = _OPERATIONS[frame['op']]
        operation(self, frame)

    def put(self, frame: _Frame) -> None:
        """Append a message to a queue."""
        answer = {}
        try:
            self._queues.put(frame['queue'], frame['message'])
        except queues_lib.QueueFullError as error:
            answer = {'error': str(error)}
        self._send(answer)

    def publish(self, frame: _Frame) -> None:
        """Give a message to a group."""
        self._queues.publish(frame['group'], frame['message'])
        self._send({})

    def consume(self, frame: _Frame) -> None:
        """Make the client a consumer."""
        if self._consumer is not None:
            raise ValueError('consumes already')
        self._send({})
        self._consumer = queues_lib.Consumer(
            lambda message: self._send({'message': message})
        )
        self._queues.add(self._consumer, frame['queues'], frame['group'])

    def acknowledge(self, _frame: _Frame) -> None:
        """Deliver the next message to the client."""
        if self._consumer is None:
            raise ValueError('does not consume')
        self._queues.acknowledge(self._consumer)

    def _send(self, frame: _Frame) -> None:
        self._transport.write(json.dumps(frame).encode() + b'\n')


_OPERATIONS: dict[
    str, collections.abc.Callable[[Connection, _Frame], None]
] = {
    'put': Connection.put,
    'publish': Connection.publish,
    'consume': Connection.consume,
    'acknowledge': Connection.acknowledge,
}


async def serve(port: int, password: str) -> None:
    """Serve queues on a port of the loopback address until SIGTERM."""
    loop = asyncio.get_running_loop()
    queues = queues_lib.Queues()
    server = await loop.create_server(
        lambda: Connection(queues, password), stack_lib.ADDRESS, port
    )
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _EXPIRE_PERIOD)
        queues.expire()
    # Since Python 3.12 "async with" would wait for all clients to hang up.
    server.close()


def main(argv: collections.abc.Sequence[str] | None = None) -> None:
    """Run the server until it gets a signal, or its launcher ends.

    :param argv: the command line without the program's name; by default that
        of the process.
    """
    parser = argparse.ArgumentParser(
        prog='python -m demo.messaging',
        description='Serve message queues on the loopback address, in place '
        'of a message broker.',
    )
    parser.add_argument('--port', type=int, required=True)
    # A password on the command line would be visible to all users.
    parser.add_argument('--password-file', type=pathlib.Path, required=True)
    arguments = parser.parse_args(argv)
    launcher_watch.end_with_launcher()
    password = arguments.password_file.read_text().strip()
    asyncio.run(serve(arguments.port, password))

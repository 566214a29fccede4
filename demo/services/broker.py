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

"""The message broker: :mod:`demo.messaging` describes its protocol."""

import asyncio
import collections.abc
import contextlib
import hmac
import json
import socket
import threading
import typing
import urllib.parse

from demo import stack as stack_lib
from demo.messaging import queues

# A message is one line, and can be as long as its sender likes.
_LONGEST_LINE = 1 << 30

_Frame = dict[str, typing.Any]


def serve(stack: stack_lib.Stack) -> None:
    """Serve the queues on the port of the transport URL."""
    url = urllib.parse.urlsplit(stack.transport_url)
    listening = socket.create_server((stack_lib.ADDRESS, url.port or 0))
    broker = _Broker(str(url.password))
    threading.Thread(
        target=asyncio.run, args=(broker.serve(listening),), daemon=True
    ).start()


class _Broker:
    """A server of queues.

    :param password: what a client has to send first.
    """

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._queues = queues.Queues()

    async def serve(self, listening: socket.socket) -> None:
        """Serve the clients that connect to a socket, for ever."""
        server = await asyncio.start_server(
            self._serve_client, sock=listening, limit=_LONGEST_LINE
        )
        await server.serve_forever()

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a client; an invalid request ends its connection."""

        def send(frame: _Frame) -> None:
            writer.write(json.dumps(frame).encode() + b'\n')

        consumer = queues.Consumer(lambda message: send({'message': message}))
        try:
            # A client that was killed has not read all that was sent.
            with contextlib.suppress(ConnectionError):
                password = (await reader.readline()).rstrip()
                if not hmac.compare_digest(password, self._password):
                    send({'error': 'the password in the URL is wrong'})
                    return
                async for line in reader:
                    self._handle(json.loads(line), consumer, send)
        finally:
            self._queues.remove(consumer)
            writer.close()

    def _handle(
        self,
        frame: _Frame,
        consumer: queues.Consumer,
        send: collections.abc.Callable[[_Frame], None],
    ) -> None:
        """Do what a line asks for, and answer."""
        match frame['op']:
            case 'put':
                try:
                    self._queues.put(frame['queue'], frame['message'])
                except queues.QueueFullError as error:
                    send({'error': str(error)})
                else:
                    send({})
            case 'publish':
                self._queues.publish(frame['group'], frame['message'])
                send({})
            case 'consume':
                send({})
                self._queues.add(consumer, frame['queues'], frame['group'])
            case 'acknowledge':
                self._queues.acknowledge(consumer)

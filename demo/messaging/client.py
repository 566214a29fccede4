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

"""Connections to the broker."""

import collections.abc
import contextlib
import queue
import socket
import threading
import typing
import uuid

import oslo_messaging
from oslo_serialization import jsonutils

Frame = dict[str, typing.Any]

Inbox = queue.SimpleQueue[Frame]


class Connection:
    """A connection for one thread at a time.

    :param url: the transport URL.
    """

    def __init__(self, url: oslo_messaging.TransportURL) -> None:
        (broker,) = url.hosts
        self._socket = socket.create_connection((broker.hostname, broker.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile('rb')
        self._socket.sendall(f'{broker.password}\n'.encode())

    def request(self, frame: Frame) -> None:
        """Send a frame, which the broker confirms.

        :raises OSError: the broker is gone.
        :raises oslo_messaging.MessageDeliveryFailure: the broker refuses.
        """
        self._send(frame)
        answer = self._receive()
        if 'error' in answer:
            raise oslo_messaging.MessageDeliveryFailure(answer['error'])

    def next_message(self) -> typing.Any:
        """Return the next message, which is acknowledged.

        :raises OSError: the broker is gone, or :meth:`close` was called.
        """
        frame = self._receive()
        # If this fails, the message returns to its queue.
        self._send({'op': 'acknowledge'})
        return frame['message']

    def close(self) -> None:
        """End the connection; a thread that waits for a message notices."""
        with contextlib.suppress(OSError):
            # A forked process may have the socket, too.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send(self, frame: Frame) -> None:
        self._socket.sendall(jsonutils.dump_as_bytes(frame) + b'\n')

    def _receive(self) -> Frame:
        line = self._lines.readline()
        if not line.endswith(b'\n'):
            raise ConnectionResetError('the broker has ended')
        frame: Frame = jsonutils.loads(line)
        return frame


def consume(
    url: oslo_messaging.TransportURL,
    queues: collections.abc.Sequence[str],
    group: str | None = None,
) -> Connection:
    """Return a connection on which messages of queues and to a group come.

    :raises oslo_messaging.MessageDeliveryFailure: the broker is not there or
        refuses.
    """
    try:
        connection = Connection(url)
        connection.request(
            {'op': 'consume', 'queues': [*queues], 'group': group}
        )
    except OSError as error:
        raise _failure(error) from error
    return connection


def _failure(error: OSError) -> oslo_messaging.MessageDeliveryFailure:
    return oslo_messaging.MessageDeliveryFailure(f'the broker: {error}')


class Client:
    """What a process sends, and the replies that it gets.

    :ivar reply_queue: the name of the queue of all its replies.
    """

    def __init__(self, url: oslo_messaging.TransportURL) -> None:
        self.reply_queue = f'reply/{uuid.uuid4().hex}'
        self._url = url
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._replies: Connection | None = None
        self._inboxes: dict[str, Inbox] = {}

    def request(self, frame: Frame) -> None:
        """Send a frame, which the broker confirms.

        :raises oslo_messaging.MessageDeliveryFailure: the broker is gone or
            refuses.
        """
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = Connection(self._url)
                self._connection.request(frame)
            except OSError as error:
                raise _failure(error) from error

    @contextlib.contextmanager
    def expect(self, identifier: str) -> collections.abc.Iterator[Inbox]:
        """Let the replies to a call arrive in an inbox of its own."""
        with self._lock:
            if self._replies is None:
                self._replies = consume(self._url, [self.reply_queue])
                threading.Thread(
                    target=self._distribute, args=(self._replies,), daemon=True
                ).start()
        inbox: Inbox = queue.SimpleQueue()
        self._inboxes[identifier] = inbox
        try:
            yield inbox
        finally:
            del self._inboxes[identifier]

    def close(self) -> None:
        """End its connections."""
        for connection in (self._connection, self._replies):
            if connection is not None:
                connection.close()

    def _distribute(self, replies: Connection) -> None:
        with contextlib.suppress(OSError):
            while True:
                reply = replies.next_message()
                # Nobody waits for a reply that comes too late.
                inbox = self._inboxes.get(reply['id'])
                if inbox is not None:
                    inbox.put(reply)

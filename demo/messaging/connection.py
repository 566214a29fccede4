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

"""Connections to the server of the queues."""

import collections
import contextlib
import dataclasses
import itertools
import logging
import socket
import time
import typing

import oslo_messaging
from oslo_serialization import jsonutils

_LOG = logging.getLogger(__name__)

Frame = dict[str, typing.Any]

_CHUNK = 1 << 16

# Between attempts to connect, in seconds.
_PAUSE = 0.2


@dataclasses.dataclass(frozen=True)
class Address:
    """Where the server is, and what it wants to hear first."""

    host: str
    port: int
    password: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return f'{self.host}:{self.port}'


class Connection:
    """A connection for one thread at a time.

    All methods but :meth:`close` raise OSError if the server is gone.
    """

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection((address.host, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._socket.sendall(address.password.encode() + b'\n')

    def request(self, frame: Frame, deadline: float | None = None) -> Frame:
        """Send a frame and return the answer.

        :param deadline: when to give up, in the time of time.monotonic.
        :raises TimeoutError: there is no answer in time. The connection
            can't be used again.
        :raises oslo_messaging.MessageDeliveryFailure: the server refuses.
        """
        self.send(frame)
        answer = self.receive(deadline)
        if answer is None:
            raise TimeoutError('the server of the queues does not answer')
        if 'error' in answer:
            raise oslo_messaging.MessageDeliveryFailure(answer['error'])
        return answer

    def send(self, frame: Frame) -> None:
        """Send a frame."""
        self._socket.sendall(jsonutils.dump_as_bytes(frame) + b'\n')

    def receive(self, deadline: float | None = None) -> Frame | None:
        """Return the next frame, or None if none comes in time."""
        while (end := self._buffer.find(b'\n')) < 0:
            if not self._read(deadline):
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        frame: Frame = jsonutils.loads(line)
        return frame

    def _read(self, deadline: float | None) -> bool:
        """Read what has arrived; return whether it did in time."""
        self._socket.settimeout(
            None
            if deadline is None
            else max(0.001, deadline - time.monotonic())
        )
        try:
            chunk = self._socket.recv(_CHUNK)
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(None)
        if not chunk:
            raise ConnectionResetError('the server of the queues has ended')
        self._buffer += chunk
        return True

    def close(self) -> None:
        """End the connection; a thread that is receiving notices it."""
        with contextlib.suppress(OSError):
            # A forked process may have the socket, too.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Connections:
    """Requests of many threads, over as many connections as they need.

    Connections are kept for later requests. If the server is away, a request
    waits until it is back.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: collections.deque[Connection] = collections.deque()

    def request(
        self,
        frame: Frame,
        retry: int | None = None,
        deadline: float | None = None,
    ) -> None:
        """Send a frame to the server, which confirms it.

        :param retry: how often to try again while the server is away; None
            or a negative number for ever.
        :param deadline: when to give up, in the time of time.monotonic.
        :raises oslo_messaging.MessageDeliveryFailure: the server is away,
            does not answer, or refuses the request.
        """
        for attempt in itertools.count():
            try:
                self._request(frame, deadline)
            except OSError as error:
                is_last = retry is not None and 0 <= retry <= attempt
                is_late = deadline and time.monotonic() + _PAUSE > deadline
                # A request that timed out may still be performed.
                if is_last or is_late or isinstance(error, TimeoutError):
                    raise oslo_messaging.MessageDeliveryFailure(
                        f'{self._address}: {error}'
                    ) from error
                if attempt == 0:
                    _LOG.warning('%s: %s; trying again', self._address, error)
                time.sleep(_PAUSE)
            else:
                return

    def close(self) -> None:
        """End the connections that no request uses."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _request(self, frame: Frame, deadline: float | None) -> None:
        """Send a frame over an idle or a new connection.

        The server may have been restarted since the idle ones were used.
        """
        try:
            self._request_over(self._idle.pop(), frame, deadline)
        except (IndexError, ConnectionError):
            self.close()
            fresh = Connection(self._address)
            self._request_over(fresh, frame, deadline)

    def _request_over(
        self, connection: Connection, frame: Frame, deadline: float | None
    ) -> None:
        try:
            connection.request(frame, deadline)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

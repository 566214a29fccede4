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

"""Subscriptions that outlive the server of the queues."""

import collections.abc
import logging
import threading
import time
import typing

from demo.messaging import connection

_LOG = logging.getLogger(__name__)

# Between attempts to connect, in seconds.
_PAUSE = 0.2


class Subscription:
    """The messages of queues and of a group, for one thread.

    The connection is made when it is needed, and made anew when it breaks,
    which waits while the server is away.

    :param queues: the names of the queues.
    :param group: the name of the group, or None.
    """

    def __init__(
        self,
        address: connection.Address,
        queues: collections.abc.Sequence[str],
        group: str | None = None,
    ) -> None:
        self._address = address
        self._frame: connection.Frame = {
            'op': 'consume',
            'queues': list(queues),
            'group': group,
        }
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._is_away = False
        self._connection: connection.Connection | None = None

    def connect(self) -> None:
        """Wait until the server has the subscription.

        Messages to a group are for the subscriptions of that moment.
        """
        while self._connection is None and not self._stopped.is_set():
            self._connect(None)

    def receive(self, timeout: float | None = None) -> typing.Any:
        """Return the next message, which is acknowledged.

        :param timeout: how long to wait for it, in seconds.
        :returns: None if there is none in time, or :meth:`stop` was called.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._stopped.is_set():
            if self._connection is None:
                self._connect(deadline)
            else:
                frame = self._receive(self._connection, deadline)
                if frame is not None:
                    return frame['message']
            if deadline is not None and time.monotonic() >= deadline:
                break
        return None

    def stop(self) -> None:
        """End the subscription, and a :meth:`receive` in another thread."""
        self._stopped.set()
        self._disconnect()

    def _receive(
        self, connected: connection.Connection, deadline: float | None
    ) -> connection.Frame | None:
        try:
            frame = connected.receive(deadline)
        except OSError:
            self._disconnect()
            return None
        if frame is not None:
            try:
                connected.send({'op': 'acknowledge'})
            except OSError:
                # The server took its queues with it.
                self._disconnect()
        return frame

    def _connect(self, deadline: float | None) -> None:
        """Try once to connect and subscribe; pause after a failure."""
        try:
            connected = connection.Connection(self._address)
            connected.request(self._frame)
        except OSError as error:
            if not self._is_away:
                _LOG.warning('%s: %s; trying again', self._address, error)
            self._is_away = True
            self._pause(deadline)
            return
        self._is_away = False
        with self._lock:
            if not self._stopped.is_set():
                self._connection = connected
                return
        connected.close()

    def _pause(self, deadline: float | None) -> None:
        pause = _PAUSE
        if deadline is not None:
            pause = max(0.0, min(pause, deadline - time.monotonic()))
        self._stopped.wait(pause)

    def _disconnect(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

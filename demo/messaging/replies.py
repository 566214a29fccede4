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

"""Replies to the calls of one process."""

import collections.abc
import contextlib
import queue
import threading
import time
import typing
import uuid

import oslo_messaging

from demo.messaging import connection
from demo.messaging import subscription

#: A reply as :mod:`.listener` sends it.
Reply = dict[str, typing.Any]

_Inbox = queue.SimpleQueue[Reply]


class Replies:
    """One queue for the replies to all calls of a process, and its thread.

    :ivar queue: the name of the queue.
    """

    def __init__(self, address: connection.Address) -> None:
        self.queue = f'reply/{uuid.uuid4().hex}'
        self._address = address
        self._inboxes: dict[str, _Inbox] = {}
        self._lock = threading.Lock()
        self._subscription: subscription.Subscription | None = None

    @contextlib.contextmanager
    def expect(self, identifier: str) -> collections.abc.Iterator[_Inbox]:
        """Let the replies to a call arrive in an inbox of its own."""
        self._subscribe()
        inbox: _Inbox = queue.SimpleQueue()
        self._inboxes[identifier] = inbox
        try:
            yield inbox
        finally:
            del self._inboxes[identifier]

    def close(self) -> None:
        """End the subscription."""
        with self._lock:
            if self._subscription is not None:
                self._subscription.stop()
                self._subscription = None

    def _subscribe(self) -> None:
        with self._lock:
            if self._subscription is None:
                subscribed = subscription.Subscription(
                    self._address, [self.queue]
                )
                self._subscription = subscribed
                threading.Thread(
                    target=self._distribute, args=(subscribed,), daemon=True
                ).start()

    def _distribute(self, subscribed: subscription.Subscription) -> None:
        while (reply := subscribed.receive()) is not None:
            # Nobody waits for a reply that comes too late.
            inbox = self._inboxes.get(reply['id'])
            if inbox is not None:
                inbox.put(reply)


def wait(
    inbox: _Inbox,
    description: str,
    timeout: float | None,
    silence: float | None,
) -> Reply:
    """Return the reply to a call.

    :param description: the call, for the error's message.
    :param timeout: how long to wait, in seconds, or None.
    :param silence: how long to wait for a sign of life of the server, which
        then sends them, or None.
    :raises oslo_messaging.MessagingTimeout: it took longer.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        limits = [] if deadline is None else [deadline - time.monotonic()]
        if silence:
            limits.append(silence)
        try:
            reply = inbox.get(
                timeout=max(0.0, min(limits)) if limits else None
            )
        except queue.Empty:
            raise oslo_messaging.MessagingTimeout(
                f'no reply to {description}'
            ) from None
        if not reply['is_heartbeat']:
            return reply

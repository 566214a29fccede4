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

"""The event feed: one queue per application id."""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence

# A client that stays away this long is told to read everything again.
QUEUE_LIMIT = 1000


@dataclasses.dataclass(frozen=True)
class Event:
    """One Event element.

    :ivar type: ``ADD_URI``, ``MODIFY_URI``, ``DELETE_URI``, ``NEW_CLIENT``...
    :ivar number: EventID, increasing, of the size of a time in ms.
    :ivar data: EventData, a path of the REST API or a client's own text.
    :ivar detail: EventDetail, the parts that changed, with commas.
    """

    type: str
    number: int
    data: str = ''
    detail: str = ''


@dataclasses.dataclass
class _Queue:
    """The events that a client has not polled yet.

    :ivar session: the token of the session that polled last.
    """

    session: str
    events: collections.deque[Event] = dataclasses.field(
        default_factory=collections.deque
    )


class Events:
    """Collects events for each client until it asks for them.

    :param condition: the host's lock; it is notified of every event.
    :param clock: gives the time in seconds.
    """

    def __init__(
        self,
        condition: threading.Condition,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._condition = condition
        self._queues: dict[str, _Queue] = {}
        self._last = int(clock() * 1000)
        self._closed = False

    def emit(self, type_: str, data: str = '', detail: str = '') -> Event:
        """Put an event into every client's queue and wake who waits."""
        event = self._make(type_, data, detail)
        for queue in self._queues.values():
            queue.events.append(event)
            if len(queue.events) > QUEUE_LIMIT:
                queue.events.clear()
                queue.events.append(self._make('MISSING_EVENTS'))
        self._condition.notify_all()
        return event

    def poll(
        self, client: str, session: str, timeout: float, *, greets: bool = True
    ) -> Sequence[Event]:
        """Return a client's events; wait for one if there are none.

        The first poll of a client makes its queue.

        :param client: the application id.
        :param session: the token of the client's session.
        :param timeout: seconds to wait; then the answer is empty.
        :param greets: whether the first poll answers NEW_CLIENT.
        """
        if client not in self._queues:
            self._queues[client] = _Queue(session)
            if greets:
                return (self._make('NEW_CLIENT'),)
        queue = self._queues[client]
        queue.session = session
        self._condition.wait_for(
            lambda: (
                bool(queue.events)
                or self._closed
                or self._queues.get(client) is not queue
            ),
            timeout,
        )
        events = tuple(queue.events)
        queue.events.clear()
        return events

    def end_session(self, session: str) -> None:
        """Drop the queues that a session was the last to poll."""
        self._queues = {
            client: queue
            for client, queue in self._queues.items()
            if queue.session != session
        }
        self._condition.notify_all()

    def forget(self) -> None:
        """Forget every client, and let those go that wait."""
        self._queues = {}
        self._condition.notify_all()

    def close(self) -> None:
        """Let every waiting client go, and never make one wait again."""
        self._closed = True
        self._condition.notify_all()

    def _make(self, type_: str, data: str = '', detail: str = '') -> Event:
        self._last += 1
        return Event(type_, self._last, data, detail)

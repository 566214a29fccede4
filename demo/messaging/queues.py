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

"""Queues of messages, and their consumers, without input and output."""

import collections
import collections.abc
import dataclasses
import time
import typing

Message = typing.Any

#: How many messages a queue can have.
LIMIT = 10_000

#: How long a queue without consumers exists, in seconds.
LIFETIME = 1800.0


def pool_queue(name: str, pool: str) -> str:
    """Return the name of the queue of a pool of listeners to a queue.

    It gets all messages of the queue, from its first consumer on.
    """
    return f'{name}/pool/{pool}'


class QueueFullError(Exception):
    """A queue has as many messages as it can have."""


@dataclasses.dataclass(eq=False)
class Queue:
    """A queue and its consumers; the next message is for the first free one.

    :ivar unused_since: when its last consumer left, or when it was created.
    """

    unused_since: float
    messages: collections.deque[Message] = dataclasses.field(
        default_factory=collections.deque
    )
    consumers: collections.deque['Consumer'] = dataclasses.field(
        default_factory=collections.deque
    )

    def serve(self) -> None:
        """Deliver messages to free consumers, each of which gets one."""
        for consumer in [*self.consumers]:
            if self.messages and consumer.held is None:
                # The others come before it the next time.
                self.consumers.remove(consumer)
                self.consumers.append(consumer)
                consumer.take_from(self)


@dataclasses.dataclass(eq=False)
class Consumer:
    """A consumer, to which one message at a time is delivered.

    :ivar deliver: called with each message. It must not raise.
    :ivar queues: the queues that it consumes.
    :ivar group: the group that it is in, or None.
    :ivar held: the message that it has not acknowledged and its queue.
    """

    deliver: collections.abc.Callable[[Message], None]
    queues: list[Queue] = dataclasses.field(default_factory=list)
    group: str | None = None
    held: tuple[Queue, Message] | None = None

    def take_from(self, queue: Queue) -> None:
        """Deliver the first message of a queue."""
        message = queue.messages.popleft()
        self.held = (queue, message)
        self.deliver(message)


class Queues:
    """All queues of a server, by name.

    A queue exists from its first message or its first consumer on, and until
    it has had no consumer for ``lifetime`` seconds: see :meth:`expire`.

    :param limit: how many messages a queue can have.
    :param clock: returns the time in seconds.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        lifetime: float = LIFETIME,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._lifetime = lifetime
        self._clock = clock
        self._queues: dict[str, Queue] = {}
        # Each consumer in a group has a queue of its own in that group.
        self._groups: dict[str, dict[Consumer, Queue]] = {}

    def put(self, name: str, message: Message) -> None:
        """Append a message to a queue, and to the queue of each of its pools.

        :raises QueueFullError: the queue is full. A pool that is full does
            not get the message.
        """
        for other, pool in [*self._queues.items()]:
            if other.startswith(pool_queue(name, '')) and (
                len(pool.messages) < self._limit
            ):
                self._append(pool, other, message)
        self._append(self._queue(name), name, message)

    def publish(self, group: str, message: Message) -> None:
        """Give a message to each consumer that is in a group now.

        A consumer that has fallen behind by as many messages as a queue can
        have does not get it, and must not keep the others from getting it.
        """
        for queue in [*self._groups.get(group, {}).values()]:
            if len(queue.messages) < self._limit:
                self._append(queue, group, message)

    def add(
        self,
        consumer: Consumer,
        names: collections.abc.Iterable[str],
        group: str | None,
    ) -> None:
        """Let a new consumer consume queues, and those of a group."""
        consumer.queues = [self._queue(name) for name in names]
        if group is not None:
            consumer.group = group
            members = self._groups.setdefault(group, {})
            members[consumer] = Queue(self._clock())
            consumer.queues.append(members[consumer])
        for queue in consumer.queues:
            queue.consumers.append(consumer)
        self._serve(consumer)

    def acknowledge(self, consumer: Consumer) -> None:
        """Forget the message that a consumer holds; deliver the next one."""
        consumer.held = None
        self._serve(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; the message that it holds returns to its queue.

        Messages to its group end with it.
        """
        for queue in consumer.queues:
            queue.consumers.remove(consumer)
            queue.unused_since = self._clock()
        if consumer.group is not None:
            members = self._groups[consumer.group]
            del members[consumer]
            if not members:
                del self._groups[consumer.group]
        if consumer.held is not None:
            queue, message = consumer.held
            consumer.held = None
            queue.messages.appendleft(message)
            queue.serve()

    def expire(self) -> None:
        """Delete the queues that have had no consumer for their lifetime."""
        oldest = self._clock() - self._lifetime
        for name, queue in [*self._queues.items()]:
            if not queue.consumers and queue.unused_since < oldest:
                del self._queues[name]

    def _queue(self, name: str) -> Queue:
        if name not in self._queues:
            self._queues[name] = Queue(self._clock())
        return self._queues[name]

    def _append(self, queue: Queue, name: str, message: Message) -> None:
        if len(queue.messages) >= self._limit:
            raise QueueFullError(
                f'queue {name} has {self._limit} messages, which nobody takes'
            )
        queue.messages.append(message)
        queue.serve()

    @staticmethod
    def _serve(consumer: Consumer) -> None:
        for queue in consumer.queues:
            if consumer.held is None and queue.messages:
                consumer.take_from(queue)

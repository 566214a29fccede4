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
import typing

Message = typing.Any

Queue = collections.deque[Message]

#: How many messages a queue can have.
LIMIT = 10_000


def pool_queue(name: str, pool: str) -> str:
    """Return the name of the queue of a pool of listeners to a queue.

    It gets all messages of the queue, from its first consumer on.
    """
    return f'{name}/pool/{pool}'


class QueueFullError(Exception):
    """A queue has as many messages as it can have."""


@dataclasses.dataclass(eq=False)
class Consumer:
    """A consumer, to which one message at a time is delivered.

    :ivar deliver: called with each message. It must not raise.
    :ivar queues: the queues that it consumes.
    :ivar group: the group that it is in, or None.
    :ivar own: the queue of its messages to the group.
    :ivar held: the message that it has not acknowledged and its queue.
    """

    deliver: collections.abc.Callable[[Message], None]
    queues: list[Queue] = dataclasses.field(default_factory=list)
    group: str | None = None
    own: Queue = dataclasses.field(default_factory=collections.deque)
    held: tuple[Queue, Message] | None = None

    def take(self) -> bool:
        """Take the next message of its queues; return whether it could."""
        if self.held is None:
            for queue in (*self.queues, self.own):
                if queue:
                    message = queue.popleft()
                    self.held = (queue, message)
                    self.deliver(message)
                    return True
        return False


class Queues:
    """All queues of a broker, by name, and their consumers.

    A queue exists from its first message or its first consumer on.

    :param limit: how many messages a queue can have.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queues: dict[str, Queue] = collections.defaultdict(
            collections.deque
        )
        # The one that has waited longest for a message is the first.
        self._consumers: list[Consumer] = []

    def put(self, name: str, message: Message) -> None:
        """Append a message to a queue, and to the queue of each of its pools.

        :raises QueueFullError: the queue is full. A pool that is full does
            not get the message.
        """
        pools = [
            queue
            for other, queue in self._queues.items()
            if other.startswith(pool_queue(name, ''))
        ]
        self._append(pools, message)
        if not self._append([self._queues[name]], message):
            raise QueueFullError(
                f'queue {name} has {self._limit} messages, which nobody takes'
            )

    def publish(self, group: str, message: Message) -> None:
        """Give a message to each consumer that is in a group now.

        One that has fallen behind by as many messages as a queue can have
        does not get it, and must not keep the others from getting it.
        """
        members = [one.own for one in self._consumers if one.group == group]
        self._append(members, message)

    def add(
        self,
        consumer: Consumer,
        names: collections.abc.Iterable[str],
        group: str | None,
    ) -> None:
        """Let a new consumer consume queues, and messages to a group."""
        consumer.queues = [self._queues[name] for name in names]
        consumer.group = group
        self._consumers.append(consumer)
        self._deliver()

    def acknowledge(self, consumer: Consumer) -> None:
        """Forget the message that a consumer holds; deliver the next one."""
        consumer.held = None
        self._deliver()

    def remove(self, consumer: Consumer) -> None:
        """Remove a client, whether it consumes or not.

        The message that it holds returns to its queue; messages to its group
        end with it.
        """
        if consumer in self._consumers:
            self._consumers.remove(consumer)
        if consumer.held is not None:
            queue, message = consumer.held
            queue.appendleft(message)
            self._deliver()

    def _append(
        self, queues: collections.abc.Iterable[Queue], message: Message
    ) -> bool:
        """Append a message to queues; return whether all had room for it."""
        is_full = False
        for queue in queues:
            if len(queue) < self._limit:
                queue.append(message)
            else:
                is_full = True
        self._deliver()
        return not is_full

    def _deliver(self) -> None:
        """Deliver messages to free consumers, which take turns."""
        for consumer in [*self._consumers]:
            if consumer.take():
                self._consumers.remove(consumer)
                self._consumers.append(consumer)

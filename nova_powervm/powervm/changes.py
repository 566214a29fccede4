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

"""Whether what was read of the host may have changed since.

The event stream tells of most changes, our own requests make some, and a lost
event is made up for by a full reading from time to time.
"""

import contextlib
import enum
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator

#: A stream that has said nothing for so long is not believed. The server
#: answers a poll after about ten seconds, with or without events.
SILENCE_SECONDS = 45.0
#: What ``[powervm]full_read_interval`` is unless it is set.
FULL_READ_SECONDS = 600.0


class Topic(enum.StrEnum):
    """What a reading is about."""

    #: The managed system, its slots and who owns them.
    SYSTEM = 'system'
    #: The volume groups.
    STORAGE = 'storage'


ALL = frozenset(Topic)


class Changes:
    """Counts what is known to have changed. It may be used by all threads.

    :param clock: Gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(Topic, 0)
        self._answered_at: float | None = None

    def touch(self, topics: Collection[Topic] = ALL) -> None:
        """Note that something of these topics has changed, or may have."""
        with self._lock:
            for topic in topics:
                self._counts[topic] += 1

    def answered(self) -> None:
        """Note that the stream has told all that happened up to now."""
        with self._lock:
            self._answered_at = self._clock()

    def interrupted(self) -> None:
        """Note that events may have been lost: nothing is believed now."""
        with self._lock:
            self._answered_at = None
        self.touch()

    @property
    def believed(self) -> bool:
        """Whether silence of the stream means that nothing has changed."""
        answered = self._answered_at
        return (
            answered is not None and self._clock() - answered < SILENCE_SECONDS
        )

    def position(self, topics: Collection[Topic]) -> tuple[int, ...] | None:
        """Give what is equal as long as nothing of these topics changes.

        :returns: None while nobody can tell.
        """
        if not self.believed:
            return None
        with self._lock:
            return tuple(self._counts[topic] for topic in sorted(topics))


class Watch:
    """Says whether one resource has to be read again.

    Its user keeps others out while it reads; they may ask meanwhile.

    :param changes: What is known to have changed.
    :param topics: What the resource depends on.
    :param full_read_seconds: How old a full reading may become.
    :param clock: Gives seconds that only grow.
    """

    def __init__(
        self,
        changes: Changes,
        topics: Collection[Topic],
        full_read_seconds: float = FULL_READ_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changes = changes
        self._topics = topics
        self._seconds = full_read_seconds
        self._clock = clock
        self._position: tuple[int, ...] | None = None
        self._full_at: float | None = None

    @property
    def overdue(self) -> bool:
        """Whether the resource is to be read without its ETag."""
        return (
            self._full_at is None
            or self._clock() - self._full_at >= self._seconds
        )

    @property
    def unchanged(self) -> bool:
        """Whether what was read last is still what the host would say."""
        return (
            self._position is not None
            and not self.overdue
            and self._position == self._changes.position(self._topics)
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read in this block; what changes meanwhile is read again."""
        started = self._clock()
        full = self.overdue
        position = self._changes.position(self._topics)
        # A reading that fails says nothing.
        self._position = None
        yield
        self._position = position
        if full:
            self._full_at = started

    def forget(self) -> None:
        """Have the resource read without its ETag the next time."""
        self._position = None
        self._full_at = None

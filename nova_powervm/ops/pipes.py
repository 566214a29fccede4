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

"""Turns a function that writes data into an iterator over that data."""

import queue
import threading
from collections.abc import Callable
from collections.abc import Generator
from typing import Protocol

#: Unread chunks before the writer has to wait.
_MAX_CHUNKS = 8
_CHUNK_BYTES = 256 * 1024
#: Seconds between a waiting writer's checks that its reader still exists.
_POLL_SECONDS = 1.0
#: Seconds without data after which a reader fails.
_STALL_SECONDS = 300.0


class Writer(Protocol):
    """What a producer writes to."""

    def write(self, data: bytes) -> None:
        """Pass data to the reader, waiting for it if necessary."""

    def truncate(self, size: int) -> None:
        """Do nothing: data that was passed on cannot be withdrawn."""


class _Abandoned(BaseException):
    """Ends a producer whose reader has stopped reading."""


class _End:
    """The end of the data, or the producer's error."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Pipe:
    def __init__(self) -> None:
        self.chunks: queue.Queue[bytes | _End] = queue.Queue(_MAX_CHUNKS)
        self.abandoned = threading.Event()

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK_BYTES):
            self.put(data[start : start + _CHUNK_BYTES])

    def truncate(self, size: int) -> None:
        """Do nothing; the producer's error reports that the data is bad."""

    def put(self, item: bytes | _End) -> None:
        while not self.abandoned.is_set():
            try:
                self.chunks.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return
        raise _Abandoned


def stream_output(produce: Callable[[Writer], None]) -> Generator[bytes]:
    """Yield the output of a function while it writes.

    Run the function in a thread. If it fails, raise its error after yielding
    all the data that it wrote before. Closing the iterator ends the function
    at its next write.

    :param produce: Writes bytes to the writer that it gets.
    :raises TimeoutError: The function wrote nothing for five minutes.
    """
    pipe = _Pipe()
    thread = threading.Thread(
        target=_run_producer,
        args=(produce, pipe),
        name='powervm-image',
        daemon=True,
    )
    thread.start()
    try:
        while True:
            item = _next_item(pipe)
            if not isinstance(item, _End):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        pipe.abandoned.set()


def _next_item(pipe: _Pipe) -> bytes | _End:
    try:
        return pipe.chunks.get(timeout=_STALL_SECONDS)
    except queue.Empty as error:
        raise TimeoutError(
            f'no data for {_STALL_SECONDS:.0f} seconds'
        ) from error


def _run_producer(produce: Callable[[Writer], None], pipe: _Pipe) -> None:
    error: BaseException | None = None
    try:
        produce(pipe)
    except _Abandoned:
        return
    except BaseException as raised:
        # Lost in this thread, any error would leave the reader waiting.
        error = raised
    try:
        pipe.put(_End(error))
    except _Abandoned:
        return

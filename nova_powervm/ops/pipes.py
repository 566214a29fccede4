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

"""A pipe from a function that writes to an iterator that reads."""

import queue
import threading
from collections.abc import Callable
from collections.abc import Generator
from typing import Protocol

#: Chunks that may wait to be read.
_MAX_CHUNKS = 8
_CHUNK_BYTES = 256 * 1024
#: Seconds after which a writer checks that the reader still exists.
_POLL_SECONDS = 1.0
#: Seconds without data after which a reader gives up.
_STALL_SECONDS = 300.0


class Writer(Protocol):
    """What a producer writes to."""

    def write(self, data: bytes) -> None:
        """Pass data on; this waits for a reader."""

    def truncate(self, size: int) -> None:
        """Do nothing: data that was passed on can't be withdrawn."""


class _Abandoned(BaseException):
    """Ends a producer whose reader is gone."""


class _End:
    """Follows the last chunk."""

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
        """Do nothing; the producer's error says that the data is bad."""

    def put(self, item: bytes | _End) -> None:
        while not self.abandoned.is_set():
            try:
                self.chunks.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return
        raise _Abandoned


def stream_output(produce: Callable[[Writer], None]) -> Generator[bytes]:
    """Read the output of a function while it writes.

    The function runs in a thread of its own. Its error is raised here after
    everything that it wrote before was read. Closing the iterator ends the
    function at its next write.

    :param produce: Writes bytes to the writer that it is given.
    :raises TimeoutError: It wrote nothing for five minutes.
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
            f'nothing came for {_STALL_SECONDS:.0f} seconds'
        ) from error


def _run_producer(produce: Callable[[Writer], None], pipe: _Pipe) -> None:
    error: BaseException | None = None
    try:
        produce(pipe)
    except _Abandoned:
        return
    except BaseException as raised:
        error = raised
    try:
        pipe.put(_End(error))
    except _Abandoned:
        return

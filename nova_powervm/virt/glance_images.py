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

"""Images that Nova gets from Glance, also as a stream of bytes."""

import queue
import threading
from collections.abc import Callable
from collections.abc import Generator
from typing import Any
from typing import Protocol

import cryptography.exceptions
from cursive import exception as cursive_exception
from nova import exception as nova_exception
from nova.image import glance

from nova_powervm import exception
from nova_powervm.lpar import image

#: Unread chunks before the writer has to wait.
_MAX_CHUNKS = 8
_CHUNK_BYTES = 256 * 1024
#: Seconds between a waiting writer's checks that its reader still exists.
_POLL_SECONDS = 1.0
#: Seconds without data after which a reader fails.
_STALL_SECONDS = 300.0
#: Errors that another try cannot avoid; a broken connection raises any other.
_REFUSALS = (
    nova_exception.NovaException,
    cryptography.exceptions.InvalidSignature,
    cursive_exception.SignatureVerificationError,
)


class Writer(Protocol):
    """The file to which a producer writes."""

    def write(self, data: bytes) -> None:
        """Pass data to the reader, waiting for it if necessary."""

    def truncate(self, size: int) -> None:
        """Do nothing: data that was passed on cannot be withdrawn."""


class GlanceImage:
    """One image, described and read with Nova's own client.

    :param context: Nova's request context.
    :param image_id: The image's uuid.
    :param trusted_certs: nova.objects.TrustedCerts, or None.
    """

    def __init__(
        self, context: Any, image_id: str, trusted_certs: Any = None
    ) -> None:
        self._context = context
        self._id = image_id
        self._trusted_certs = trusted_certs
        self._api = glance.API()

    def describe(self) -> image.Image:
        """Read the description of the image from Glance.

        The hash is ``os_hash_value``, or the MD5 in ``checksum`` for images
        from old versions of Glance.

        :raises exception.ImageRefused: Glance does not show the image.
        :raises exception.ImageUnreadable: Glance does not answer.
        """
        try:
            record = self._api.get(self._context, self._id)
        except Exception as error:
            # Nova passes on any error of Glance's client.
            raise self._failure(error) from error
        properties = {**record.get('properties', {}), **record}
        algorithm = properties.get('os_hash_algo')
        value = properties.get('os_hash_value')
        if not (algorithm and value):
            value = properties.get('checksum')
            algorithm = 'md5' if value else ''
        return image.Image(
            id=self._id,
            disk_format=properties.get('disk_format') or 'unknown',
            size=properties.get('size'),
            hash_algorithm=algorithm,
            hash_value=value or '',
            certificates=tuple(self._trusted_certs.ids)
            if self._trusted_certs
            else (),
        )

    def read(self) -> Generator[bytes]:
        """Read the image's bytes as Glance sends them.

        Nova verifies the image's signature at the same time, if configured or
        if there are trusted certificates. It reports a bad one at the end.

        :raises exception.ImageRefused: Glance or Nova refused.
        :raises exception.ImageUnreadable: The transfer was interrupted.
        """
        try:
            yield from stream_output(self._download)
        except Exception as error:
            # Nova passes on any error of Glance's client.
            raise self._failure(error) from error

    def _download(self, writer: Writer) -> None:
        self._api.download(
            self._context,
            self._id,
            data=writer,
            trusted_certs=self._trusted_certs,
        )

    def _failure(self, error: Exception) -> exception.PowerVMError:
        """Distinguish a refusal from an error that another try may avoid."""
        refused = isinstance(error, _REFUSALS) and not isinstance(
            error, nova_exception.GlanceConnectionFailed
        )
        if refused:
            # The message continues after the reason.
            reason = str(error).rstrip('.')
            # The error of a wrong signature has no text; this one is Nova's.
            reason = reason or 'Image signature verification failed'
            return exception.ImageRefused(image=self._id, reason=reason)
        return exception.ImageUnreadable(image=self._id, reason=error)


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


def _next_item(pipe: _Pipe) -> bytes | _End:
    try:
        return pipe.chunks.get(timeout=_STALL_SECONDS)
    except queue.Empty as error:
        raise TimeoutError(
            f'no data for {_STALL_SECONDS:.0f} seconds'
        ) from error

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

"""HTTP for a client that trusts its server with neither time nor memory.

pypowervm makes a session of the library requests for each request. That
library limits the time between two bytes, but neither the time nor the size of
an answer, and it follows redirects.
"""

import functools
import http.client
import io
import socket
import time
from collections.abc import Iterator
from typing import Any

import requests

#: The size of the longest answer, in bytes, both as sent and unpacked. In the
#: captured answers a partition has 12 kB, a Virtual I/O Server with all its
#: groups 350 kB and a mapping 2 kB, a logical unit of a pool 1 kB: a thousand
#: partitions have 12 MB, and ten thousand units 10 MB.
LONGEST_ANSWER = 64 * 1024 * 1024
#: The average rate of the slowest upload, in bytes a second. No real one is
#: nearly as slow: 100 GB would take more than two days.
SLOWEST_UPLOAD = 512 * 1024
#: Characters of a text from the server that a log or an error shows.
_SHORT = 2000


class AnswerTooLong(requests.exceptions.Timeout):
    """The answer is longer than any answer of a PowerVM host.

    To the caller this is like no answer: a write may have been carried out,
    and there is no point in asking again at once.
    """


class _Overrun(Exception):
    """The same for the library urllib3, which would replace an OSError."""


def shortened(text: object) -> str:
    """Return a text from the server, cut to what a log should have of it."""
    whole = str(text)
    if len(whole) <= _SHORT:
        return whole
    return f'{whole[:_SHORT]} ... ({len(whole) - _SHORT} more characters)'


class Client(requests.Session):
    """Sends one request, within limits, to the server and nobody else.

    Proxies and passwords that the environment has for other programs are not
    used: a proxy would get the token of the session.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        timeout: float | tuple[float, float],
        data: Any = None,
        **kwargs: Any,
    ) -> requests.Response:
        """Send the request.

        :param timeout: Seconds for connecting, and for all the rest until the
            end of the answer. The time of an upload has no limit but
            :data:`SLOWEST_UPLOAD`; then the answer gets these seconds.
        :raises AnswerTooLong: It has more than :data:`LONGEST_ANSWER` bytes.
        """
        limit = _Limit(timeout[1] if isinstance(timeout, tuple) else timeout)
        transport = _Transport(limit)
        for scheme in ('http://', 'https://'):
            self.mount(scheme, transport)
        if isinstance(data, Iterator):
            data = limit.pace(data)
        try:
            return super().request(
                method, url, timeout=timeout, data=data, **kwargs
            )
        except _Overrun as error:
            raise AnswerTooLong(
                f'it is longer than {LONGEST_ANSWER >> 20} MiB'
            ) from error
        except (
            requests.exceptions.ChunkedEncodingError,
            requests.exceptions.ContentDecodingError,
        ) as error:
            # The caller treats them alike, but pypowervm does not.
            raise requests.exceptions.ConnectionError(error) from error

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Follow no redirect, which could take the token to any server."""


class _Limit:
    """How long the server may still take for one request.

    :param seconds: For the whole request, unless it is an upload.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds for the next operation of the socket."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError('timed out')
        return seconds

    def pace(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks of an upload, each with a time limit of its own.

        What the source of the chunks takes does not count.
        """
        size, seconds = 0, 0.0
        for chunk in chunks:
            began = time.monotonic()
            ahead = size / SLOWEST_UPLOAD - seconds
            self._end = began + self._seconds + min(0, ahead)
            yield chunk
            size += len(chunk)
            seconds += time.monotonic() - began
        self._end = time.monotonic() + self._seconds


class _Transport(requests.adapters.HTTPAdapter):
    """Makes connections and answers that keep the limits."""

    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def get_connection_with_tls_context(
        self, *args: Any, **kwargs: Any
    ) -> Any:
        """Return a pool of connections, whose class keeps the limits."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        attributes = {
            'limit': self._limit,
            # Python 3.14 makes a method of a bare partial.
            'response_class': staticmethod(
                functools.partial(_Answer, self._limit)
            ),
        }
        pool.ConnectionCls = type(
            'LimitedConnection', (_Sending, pool.ConnectionCls), attributes
        )
        return pool

    def build_response(
        self, req: requests.PreparedRequest, resp: Any
    ) -> requests.Response:
        """Make the response of the library requests."""
        response = super().build_response(req, resp)
        response.raw = _Unpacking(resp)
        # Guessing the encoding of a long answer takes minutes.
        response.encoding = response.encoding or 'utf-8'
        if response.is_redirect:
            target = shortened(response.headers['location'])
            response.reason += f', a redirect to {target} (not followed)'
        return response


class _Sending(http.client.HTTPConnection):
    """A connection that sends within the limit."""

    limit: _Limit

    def send(self, data: Any) -> None:
        """Send bytes; the limit is for all of them."""
        if self.sock is None:
            self.connect()
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(self.limit.remaining())
            rest = rest[self.sock.send(rest) :]


class _Answer(http.client.HTTPResponse):
    """An answer that is read within the limit."""

    def __init__(
        self, limit: _Limit, sock: socket.socket, **kwargs: Any
    ) -> None:
        super().__init__(sock, **kwargs)
        received = _Received(self.fp.detach(), sock, limit)
        self.fp = io.BufferedReader(received)


class _Received(io.RawIOBase):
    """The bytes of an answer, its head included, as they are sent."""

    def __init__(
        self, raw: io.RawIOBase, sock: socket.socket, limit: _Limit
    ) -> None:
        super().__init__()
        self._raw = raw
        self._sock = sock
        self._limit = limit
        self._size = 0

    def readable(self) -> bool:
        """See the base class."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """See the base class."""
        self._sock.settimeout(self._limit.remaining())
        size = self._raw.readinto(buffer)
        self._size += size or 0
        if self._size > LONGEST_ANSWER:
            raise _Overrun
        return size

    def close(self) -> None:
        """See the base class."""
        super().close()
        self._raw.close()


class _Unpacking:
    """The body of an answer, which may be compressed."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        """Yield the parts of the body, unpacked."""
        size = 0
        for part in self._raw.stream(*args, **kwargs):
            size += len(part)
            if size > LONGEST_ANSWER:
                raise _Overrun
            yield part

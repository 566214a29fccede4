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

"""Lets clients from outside reach the terminals of LPARs.

The terminal of an LPAR listens on the loopback interface of the management
partition. Nova's proxy connects to one port here, says with an HTTP CONNECT
which console it wants, and then speaks with the terminal. The name of a
console is a path that only Nova knows.
"""

import asyncio
import contextlib
import dataclasses
import functools
import ipaddress
import math
import re
import resource
import socket
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Coroutine
from typing import Any
from typing import TypeAlias

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.conf import powervm as options

LOG = logging.getLogger(__name__)

_ACCEPTED = b'HTTP/1.1 200 OK\r\n\r\n'
_FORBIDDEN = b'HTTP/1.1 403 Forbidden\r\n\r\n'
_UNAVAILABLE = b'HTTP/1.1 503 Service Unavailable\r\n\r\n'
_END = b'\r\n\r\n'
_REQUEST = re.compile(rb'CONNECT (?P<path>\S+) HTTP/1\.[01]\r\n')
_CHUNK = 1 << 16
#: Connections that the kernel keeps until they are accepted.
_BACKLOG = 128
#: Seconds until the next try after no client could be accepted.
_RETRY_SECONDS = 1
#: Seconds between two lines of the log with one cause.
_LOG_SECONDS = 60

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: Returns a context that is connected with the terminal of a path.
Enter: TypeAlias = Callable[
    [str], contextlib.AbstractAsyncContextManager[Streams]
]


class UnknownPath(Exception):
    """No console has the path that a client has sent."""


class TooManyViewers(exception.ConsoleUnavailable):
    """A console, or all of them, have as many viewers as they may have."""


def _share(part: int, most: int) -> int:
    """Return a part of the file descriptors that this process may open.

    :param part: 8 for an eighth.
    :param most: What is enough.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, descriptors // part))


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The limits of what clients may use; times are in seconds.

    A viewer takes two file descriptors, a client that waits takes one, and a
    command takes some for a moment: together less than half of the descriptors
    that this process, which is nova-compute, may open.

    :param entry: After Nova has asked for the console, for new clients.
    :param request: For sending the path.
    :param silence: Without a byte in either direction.
    :param idle: Until a terminal without clients is closed.
    :param command: For opening or closing a terminal.
    :param viewers: Clients of one console.
    :param viewers_of_all: Clients of all consoles together.
    :param waiting: Clients that have not sent a path.
    :param commands: Commands that run at the same time.
    """

    entry: float = 60
    request: float = 10
    silence: float = 3600
    idle: float = 300
    command: float = 60
    viewers: int = 16
    viewers_of_all: int = dataclasses.field(
        default_factory=functools.partial(_share, 8, 256)
    )
    waiting: int = dataclasses.field(
        default_factory=functools.partial(_share, 16, 64)
    )
    commands: int = dataclasses.field(
        default_factory=functools.partial(_share, 64, 16)
    )


class Seldom:
    """Keeps repeated events from filling the log."""

    def __init__(self) -> None:
        # Each cause, to when it was last to be logged and how often since.
        self._counts: dict[object, tuple[float, int]] = {}

    def count(
        self, cause: object, loop: asyncio.AbstractEventLoop | None = None
    ) -> int:
        """Count an event.

        :param cause: The cause of the event, one of a few.
        :param loop: The loop whose clock counts; by default the loop of the
            caller's coroutine.
        :returns: How many events with this cause there were since one was last
            to be logged; 0 if this event is not to be logged.
        """
        now = (loop or asyncio.get_running_loop()).time()
        logged, more = self._counts.get(cause, (-math.inf, 0))
        is_due = now - logged >= _LOG_SECONDS
        self._counts[cause] = (now, 0) if is_due else (logged, more + 1)
        return more + 1 if is_due else 0


class Listener:
    """Listens for clients on one address.

    All of it runs in one asyncio loop. Before a client is connected with a
    terminal, it gets an answer whatever happens: Nova's proxy would wait for
    an answer for ever, at full speed, if its connection only ended.

    :param enter: Enters the console with a path; raises UnknownPath or
        ConsoleUnavailable.
    :param allowed: The networks of clients; if empty, all.
    :param limits: The limits of what clients may use.
    :param seldom: Keeps clients from filling the log.
    """

    def __init__(
        self,
        enter: Enter,
        allowed: Collection[options.Network],
        limits: Limits,
        seldom: Seldom,
    ) -> None:
        self._enter = enter
        self._allowed = allowed
        self._limits = limits
        self._seldom = seldom
        self._accepting: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[None]] = set()
        # In the order of their arrival.
        self._waiting: dict[asyncio.StreamWriter, None] = {}

    async def start(self, host: str, port: int) -> None:
        """Listen for clients, unless this has been started before.

        :raises OSError: The address or port is not available.
        """
        if self._accepting is None:
            addresses = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
            family, _, _, _, address = addresses[0]
            listening = socket.create_server(
                address, family=family, backlog=_BACKLOG
            )
            listening.setblocking(False)
            self._accepting = asyncio.create_task(self._accept_all(listening))

    async def stop(self) -> None:
        """Stop listening, and let all clients go."""
        if self._accepting is not None:
            ending = (self._accepting, *self._clients)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _accept_all(self, listening: socket.socket) -> None:
        """Accept clients one by one, for ever.

        The servers of asyncio accept many before they are told of the first,
        and log each failure without a bound.
        """
        with listening:
            while True:
                try:
                    await self._accept_one(listening)
                except ConnectionError:
                    # The client is gone already; no client may cause a pause.
                    await asyncio.sleep(0)
                except Exception as error:
                    if times := self._seldom.count('accept'):
                        LOG.warning(
                            'No viewer of a console can connect: %s. If '
                            'nova-compute lacks file descriptors, raise '
                            'LimitNOFILE= in its unit (%d times since the '
                            'last such line).',
                            error,
                            times,
                        )
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _accept_one(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(listening)
        self._admit(
            await asyncio.open_connection(sock=connection, limit=_CHUNK)
        )

    def _admit(self, client: Streams) -> None:
        """Serve a client, if need be in place of the longest waiting one."""
        self._waiting[client[1]] = None
        if len(self._waiting) > self._limits.waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            _end(oldest, _UNAVAILABLE)
        task = asyncio.create_task(self._serve(client))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _serve(self, client: Streams) -> None:
        answer = _UNAVAILABLE
        try:
            path = await self._read_path(client)
            async with self._enter(path) as terminal:
                client[1].write(_ACCEPTED)
                answer = b''
                await self._repeat(client, terminal)
        except UnknownPath:
            LOG.debug('A client without a valid path is refused.')
            answer = _FORBIDDEN
        except exception.PowerVMError as error:
            if times := self._seldom.count(type(error)):
                LOG.warning(
                    'A client has to do without its console: %s (%d times '
                    'since the last such line)',
                    error,
                    times,
                )
        except (OSError, asyncio.CancelledError):
            # The client is gone, or has to go.
            pass
        except Exception as error:
            if self._seldom.count(type(error)):
                LOG.exception('A viewer of a console was let go by a bug.')
        finally:
            _end(client[1], answer)

    async def _read_path(self, client: Streams) -> str:
        """Return the path that an allowed client asks for.

        :raises UnknownPath: The client may not ask, or sends no valid request
            in time.
        """
        reader, writer = client
        try:
            if not self._may_ask(writer.get_extra_info('peername')):
                raise UnknownPath
            async with asyncio.timeout(self._limits.request):
                request = await reader.readuntil(_END)
        except (
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            raise UnknownPath from error
        finally:
            self._waiting.pop(writer, None)
        match = _REQUEST.match(request)
        if match is None:
            raise UnknownPath
        return match['path'].decode(errors='replace')

    def _may_ask(self, peer: tuple[str, int] | None) -> bool:
        if peer is None:
            # The client is gone already.
            return False
        client = ipaddress.ip_address(peer[0])
        return not self._allowed or any(client in n for n in self._allowed)

    async def _repeat(self, client: Streams, terminal: Streams) -> None:
        """Pass on what both sides send, until one ends or both are silent."""
        limit = self._limits.silence
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit) as silence:
                now = asyncio.get_running_loop().time
                moved = lambda: silence.reschedule(now() + limit)  # noqa: E731
                await _until_first(
                    _pump(client[0], terminal[1], moved),
                    _pump(terminal[0], client[1], moved),
                )


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    moved: Callable[[], None],
) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        # A side that does not read keeps the other one from sending.
        await writer.drain()
        moved()


async def _until_first(*pumps: Coroutine[Any, Any, None]) -> None:
    """Run pumps until one of them ends."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(answer)
    close(writer)


def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once.

    The kernel still sends what it has taken, and an answer fits. Nothing else
    is waited for: a side that reads nothing would keep a file descriptor that
    nobody counts any more.
    """
    writer.transport.abort()

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
import ipaddress
import re
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

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: Returns a context that is connected with the terminal of a path.
Enter: TypeAlias = Callable[
    [str], contextlib.AbstractAsyncContextManager[Streams]
]


class UnknownPath(Exception):
    """No console has the path that a client has sent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost; times are in seconds.

    :param entry: After Nova has asked for the console, for new clients.
    :param request: For sending the path.
    :param silence: Without a byte in either direction.
    :param closing: For reading the last bytes that were sent.
    :param idle: Until a terminal without clients is closed.
    :param command: For opening or closing a terminal.
    :param waiting: Clients that have not sent a path.
    :param viewers: Clients of one console.
    """

    entry: float = 60
    request: float = 10
    silence: float = 3600
    closing: float = 5
    idle: float = 300
    command: float = 60
    waiting: int = 64
    viewers: int = 16


class Listener:
    """Listens for clients on one address.

    All of it runs in one asyncio loop. Before a client is connected with a
    terminal, it gets an answer whatever happens: Nova's proxy would wait for
    one for ever, at full speed, if its connection only ended.

    :param enter: Enters the console with a path; raises UnknownPath or
        ConsoleUnavailable.
    :param allowed: The networks of clients; if empty, all.
    :param limits: What clients may cost.
    """

    def __init__(
        self,
        enter: Enter,
        allowed: Collection[options.Network],
        limits: Limits,
    ) -> None:
        self._enter = enter
        self._allowed = allowed
        self._limits = limits
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        # In the order of their arrival.
        self._waiting: dict[asyncio.StreamWriter, None] = {}

    async def start(self, host: str, port: int) -> None:
        """Listen, unless it does already.

        :raises OSError: The address or port is not available.
        """
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, host, port, limit=_CHUNK
            )

    def stop(self) -> None:
        """Stop listening, and let all clients go."""
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()

    def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a client; the one that has waited longest may have to go."""
        self._waiting[writer] = None
        if len(self._waiting) > self._limits.waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._end(oldest, _UNAVAILABLE)
        task = asyncio.create_task(self._serve((reader, writer)))
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
            LOG.warning('A client has to do without its console: %s', error)
        except (OSError, asyncio.CancelledError):
            # It is gone, or it has to go.
            pass
        finally:
            self._end(client[1], answer)

    def _end(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        writer.write(answer)
        close(writer, self._limits.closing)

    async def _read_path(self, client: Streams) -> str:
        """Return the path that an allowed client asks for.

        :raises UnknownPath: It may not ask, or asks for nothing in time.
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
        found = _REQUEST.match(request)
        if found is None:
            raise UnknownPath
        return found['path'].decode(errors='replace')

    def _may_ask(self, peer: tuple[str, int] | None) -> bool:
        if peer is None:
            # It is gone already.
            return False
        address = ipaddress.ip_address(peer[0])
        return not self._allowed or any(
            address in network for network in self._allowed
        )

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
    """Run all until one of them ends."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def close(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Close a connection; give the other side some seconds for the rest."""
    writer.close()
    asyncio.get_running_loop().call_later(seconds, writer.transport.abort)

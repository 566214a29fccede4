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

"""The consoles of LPARs: their terminals, their paths and their clients."""

import asyncio
import collections
import contextlib
import dataclasses
import math
import threading
from collections.abc import AsyncIterator
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Coroutine
from concurrent import futures
from typing import Any
from typing import Protocol
from typing import TypeVar

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.ops import console_listener

LOG = logging.getLogger(__name__)

_R = TypeVar('_R')
Limits = console_listener.Limits

#: The seconds that a service that is stopping waits for terminals to close.
_PARTING_SECONDS = 5


class Terminals(Protocol):
    """The terminals of the host's LPARs."""

    def open(self, lpar_uuid: str) -> int:
        """Open the terminal of an LPAR, unless it is open.

        :returns: The port of the loopback interface where it is served.
        :raises exception.PowerVMError: The host cannot open it.
        """

    def close(self, lpar_uuid: str) -> None:
        """Close the terminal of an LPAR, but not a terminal of somebody else.

        :raises exception.PowerVMError: The host cannot close it.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """The address at which clients reach the consoles.

    :param host: The only address to listen on.
    :param port: The only port.
    :param allowed: The networks of clients; if empty, all.
    """

    host: str
    port: int
    allowed: Collection[options.Network] = ()


class Consoles:
    """The consoles of a host.

    All that changes here belongs to a daemon thread with an asyncio loop; it
    starts with the first console. A command opens or closes a terminal, and
    runs in another daemon thread: neither keeps the process from ending.

    :param terminals: Opens and closes terminals.
    :param address: Where to listen.
    :param limits: The limits of what clients may use.
    :param new_loop: Makes the loop, which has the clock.
    """

    def __init__(
        self,
        terminals: Terminals,
        address: Address,
        limits: Limits | None = None,
        new_loop: Callable[
            [], asyncio.AbstractEventLoop
        ] = asyncio.new_event_loop,
    ) -> None:
        self._terminals = terminals
        self.address = address
        self._limits = limits or Limits()
        self._new_loop = new_loop
        # Guards the thread and its loop; all else belongs to the loop.
        self._guard = threading.Lock()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consoles: dict[str, _Console] = {}
        self._starting = asyncio.Lock()
        self._seldom = console_listener.Seldom()
        self._viewers = _Viewers(self._limits, self._seldom)
        self._commands = asyncio.Semaphore(self._limits.commands)
        self._listener = console_listener.Listener(
            self._enter, address.allowed, self._limits, self._seldom
        )

    def open(self, lpar_uuid: str, path: str) -> str:
        """Open the console of an LPAR, and listen for its clients.

        New clients are admitted for a while: Nova calls this before each. The
        terminal closes some time after its last client.

        :param path: The console's path, unless it has one already.
        :returns: The console's path.
        :raises exception.ConsoleUnavailable: The terminal cannot be opened, or
            the address cannot be listened on.
        """
        return self._call(lpar_uuid, self._open(lpar_uuid, path))

    def close(self, lpar_uuid: str) -> None:
        """Close the console of an LPAR, whose path becomes invalid.

        A failure is only logged.
        """
        self._call(lpar_uuid, self._close(lpar_uuid))

    def has(self, lpar_uuid: str) -> bool:
        """Return whether an LPAR has a console."""
        return lpar_uuid in self._consoles

    def stop(self) -> None:
        """Close all consoles for good, without waiting long for the host."""
        with self._guard:
            self._is_stopped = True
            loop, self._loop = self._loop, None
        if loop is None:
            return
        with contextlib.suppress(futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), loop).result(
                _PARTING_SECONDS
            )
        loop.call_soon_threadsafe(loop.stop)

    def _call(self, lpar_uuid: str, coroutine: Coroutine[Any, Any, _R]) -> _R:
        """Run a coroutine in the thread, which starts if need be."""
        with self._guard:
            if self._is_stopped:
                coroutine.close()
                raise exception.ConsoleUnavailable(
                    lpar_uuid=lpar_uuid, reason='nova-compute is stopping'
                )
            if self._loop is None:
                self._loop = self._new_loop()
                self._loop.set_exception_handler(self._note_error)
                threading.Thread(
                    target=_run,
                    args=(self._loop,),
                    name='powervm-consoles',
                    daemon=True,
                ).start()
            done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return done.result()

    async def _open(self, lpar_uuid: str, path: str) -> str:
        await self._listen(lpar_uuid)
        console = self._consoles.setdefault(
            lpar_uuid, self._console(lpar_uuid, path)
        )
        await console.open()
        console.admit()
        return console.path

    def _console(self, lpar_uuid: str, path: str = '') -> '_Console':
        return _Console(
            lpar_uuid,
            path,
            self._terminals,
            self._limits,
            self._viewers,
            self._commands,
        )

    def _note_error(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Log an error that nobody handles, but not again and again.

        Any thread may call this: the garbage collector of any thread may find
        that a task was forgotten.
        """
        if self._seldom.count(context['message'], loop):
            loop.default_exception_handler(context)

    async def _listen(self, lpar_uuid: str) -> None:
        host, port = self.address.host, self.address.port
        async with self._starting:
            try:
                await self._listener.start(host, port)
            except OSError as error:
                raise exception.ConsoleUnavailable(
                    lpar_uuid=lpar_uuid,
                    reason=exception.PrivateText(
                        f'nova-compute cannot listen on {host} port '
                        f'{port} ({error.strerror}). Check '
                        '[vnc]server_proxyclient_address and '
                        '[powervm]vnc_port',
                        'nova-compute cannot listen for viewers',
                    ),
                ) from error

    async def _close(self, lpar_uuid: str) -> None:
        console = self._consoles.pop(lpar_uuid, None)
        if console is None:
            # An earlier process may have left its terminal open.
            console = self._console(lpar_uuid)
            console.is_open = True
        await console.end()

    async def _stop(self) -> None:
        await self._listener.stop()
        await asyncio.gather(
            *(
                console.end()
                for console in self._consoles.values()
                if console.is_open
            )
        )

    @contextlib.asynccontextmanager
    async def _enter(
        self, path: str
    ) -> AsyncIterator[console_listener.Streams]:
        """Have a client view the console with a path."""
        consoles = [c for c in self._consoles.values() if c.admits(path)]
        if not consoles:
            raise console_listener.UnknownPath
        async with consoles[0].viewed() as terminal:
            yield terminal


class _Viewers:
    """Limits the viewers of a console, and of all consoles together."""

    def __init__(
        self, limits: Limits, seldom: console_listener.Seldom
    ) -> None:
        self._limits = limits
        self._seldom = seldom
        # The LPARs that they view, in the order of their arrival.
        self._lpars: dict[asyncio.Task[Any], str] = {}

    def add(self, viewer: asyncio.Task[Any], lpar_uuid: str) -> None:
        """Let a viewer in, if need be in place of another viewer.

        :raises console_listener.TooManyViewers: There is no room for it.
        """
        counts = collections.Counter(self._lpars.values())
        if counts[lpar_uuid] >= self._limits.viewers:
            raise console_listener.TooManyViewers(
                lpar_uuid=lpar_uuid,
                reason=f'it has {self._limits.viewers} viewers already',
            )
        if len(self._lpars) >= self._limits.viewers_of_all:
            self._make_room(counts, lpar_uuid)
        self._lpars[viewer] = lpar_uuid

    def discard(self, viewer: asyncio.Task[Any]) -> None:
        """Forget a viewer that has gone."""
        self._lpars.pop(viewer, None)

    def _make_room(
        self, counts: collections.Counter[str], lpar_uuid: str
    ) -> None:
        """Dismiss a viewer of the console that has most.

        So a tenant with many viewers takes no place from a console that has
        fewer.
        """
        most = max(counts.values())
        if counts[lpar_uuid] >= most:
            raise console_listener.TooManyViewers(
                lpar_uuid=lpar_uuid,
                reason=f'all consoles of the host have '
                f'{self._limits.viewers_of_all} viewers together, and this '
                'one has as many as any other',
            )
        first, busiest = next(
            item for item in self._lpars.items() if counts[item[1]] == most
        )
        del self._lpars[first]
        first.cancel()
        if times := self._seldom.count('crowd'):
            LOG.warning(
                'A viewer of LPAR %(lpar_uuid)s has to go, which has %(most)d '
                'of the %(all)d viewers that nova-compute admits. '
                'LimitNOFILE= in its unit admits more (%(times)d times since '
                'the last such line).',
                {
                    'lpar_uuid': busiest,
                    'most': most,
                    'all': self._limits.viewers_of_all,
                    'times': times,
                },
            )


class _Console:
    """A console, which belongs to the loop.

    :ivar is_open: Whether its terminal may be open.
    """

    def __init__(
        self,
        lpar_uuid: str,
        path: str,
        terminals: Terminals,
        limits: Limits,
        viewers: _Viewers,
        commands: asyncio.Semaphore,
    ) -> None:
        self.path = path
        self.is_open = False
        self._admits_until = -math.inf
        self._lpar_uuid = lpar_uuid
        self._terminals = terminals
        self._limits = limits
        self._viewers = viewers
        # Limits the commands of all consoles, which take file descriptors.
        self._commands = commands
        self._clients: set[asyncio.Task[Any]] = set()
        # One command at a time, so that none meets the effects of another.
        self._command = asyncio.Lock()
        self._opening: asyncio.Task[int] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    def admit(self) -> None:
        """Let clients in for a while."""
        now = asyncio.get_running_loop().time()
        self._admits_until = now + self._limits.entry

    def admits(self, path: str) -> bool:
        """Return whether a client with a path may view the console.

        The path alone is not enough: the logs of Nova's proxies have it.
        """
        now = asyncio.get_running_loop().time()
        return path == self.path and now <= self._admits_until

    async def open(self) -> int:
        """Open the terminal, for a client that may come.

        The host is asked each time: if somebody else has closed the terminal,
        its port can belong to another LPAR by now.

        :returns: The port of the terminal.
        """
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._run_open())
        try:
            async with asyncio.timeout(self._limits.command):
                port = await asyncio.shield(self._opening)
        except TimeoutError as error:
            raise exception.ConsoleUnavailable(
                lpar_uuid=self._lpar_uuid,
                reason='mkvterm has not ended within '
                f'{self._limits.command:g} seconds',
            ) from error
        self._rest()
        return port

    @contextlib.asynccontextmanager
    async def viewed(self) -> AsyncIterator[console_listener.Streams]:
        """Connect the current task with the terminal."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy
        self._viewers.add(task, self._lpar_uuid)
        self._clients.add(task)
        try:
            streams = await self._connect()
            try:
                yield streams
            finally:
                console_listener.close(streams[1])
        finally:
            self._viewers.discard(task)
            self._clients.discard(task)
            self._rest()

    async def _connect(self) -> console_listener.Streams:
        port = await self.open()
        try:
            return await asyncio.open_connection('127.0.0.1', port)
        except OSError as error:
            raise exception.ConsoleUnavailable(
                lpar_uuid=self._lpar_uuid,
                reason=exception.PrivateText(
                    f'its terminal on port {port} does not answer '
                    f'({error.strerror})',
                    'its terminal does not answer',
                ),
            ) from error

    async def end(self) -> None:
        """Let all clients go, and close the terminal."""
        clients = tuple(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await self._shut()

    def _rest(self) -> None:
        """Close the terminal in a while if nobody views it until then."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(
            self._limits.idle, self._close_idle
        )

    def _close_idle(self) -> None:
        if not self._clients:
            self._closing = asyncio.create_task(self._shut())

    async def _shut(self) -> None:
        """Close the terminal; only log a failure."""
        if self._idle is not None:
            self._idle.cancel()
        reason: object = f'no end within {self._limits.command:g} seconds'
        try:
            async with asyncio.timeout(self._limits.command):
                await asyncio.shield(asyncio.create_task(self._run_close()))
            return
        except TimeoutError:
            pass
        except exception.PowerVMError as error:
            reason = error
        LOG.warning(
            'The terminal of LPAR %(lpar_uuid)s is not closed: %(reason)s. '
            'Until `rmvterm --id <number of the LPAR>` closes it, nobody else '
            'can open it on the host.',
            {'lpar_uuid': self._lpar_uuid, 'reason': reason},
        )

    async def _run_open(self) -> int:
        async with self._command:
            port = await self._run(self._terminals.open)
            self.is_open = True
            return port

    async def _run_close(self) -> None:
        async with self._command:
            # A client may have come meanwhile, or another command.
            if self.is_open and not self._clients:
                await self._run(self._terminals.close)
                self.is_open = False

    async def _run(self, function: Callable[[str], _R]) -> _R:
        """Run a command in its turn; a command that hangs lets others run."""
        async with self._commands:
            done = _in_thread(function, self._lpar_uuid)
            await asyncio.wait([done], timeout=self._limits.command)
        return await done


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    # Little is left to do, and nobody waits for it.
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()


def _in_thread(
    function: Callable[[str], _R], lpar_uuid: str
) -> 'asyncio.Future[_R]':
    """Run a command in a daemon thread of its own.

    At the end of a process, Python waits for the threads of a pool.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_R] = loop.create_future()

    def finish(settle: Callable[[Any], None], value: object) -> None:
        if not done.done():
            settle(value)

    def run() -> None:
        outcome: tuple[Callable[[Any], None], object]
        try:
            outcome = done.set_result, function(lpar_uuid)
        except Exception as error:
            outcome = done.set_exception, error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, *outcome)

    threading.Thread(target=run, name='powervm-terminal', daemon=True).start()
    return done

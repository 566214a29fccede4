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

"""The terminals of a host's partitions, of which each has at most one."""

import asyncio
import contextlib
import socket
import threading

from powervm_emulator.core import rfb


class Terminals:
    """The terminals that are open.

    One thread serves the viewers of all; it starts with the first terminal.
    All else is guarded by the lock of the host.

    :ivar failures: messages of the next calls to open one, which fail.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        # None: somebody has it open who has not asked for a port.
        self._open: dict[str, _Terminal | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._open

    def port(self, uuid: str) -> int | None:
        """Return the port of an open terminal; None if it has none."""
        terminal = self._open[uuid]
        return terminal.port if terminal else None

    def open(self, uuid: str, shown: rfb.Screen | None) -> None:
        """Open the terminal of a partition, which has none.

        :param shown: what viewers see; None for a terminal without a port.
        """
        self._open[uuid] = (
            None if shown is None else _Terminal(self._running(), shown)
        )

    def close(self, uuid: str) -> None:
        """Close the terminal of a partition, if it is open."""
        terminal = self._open.pop(uuid, None)
        if terminal is not None:
            terminal.close()

    def close_all(self) -> None:
        """Close every terminal, and forget the failures."""
        for uuid in tuple(self._open):
            self.close(uuid)
        self.failures.clear()

    def stop(self) -> None:
        """Close every terminal for good."""
        self.close_all()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=_run, args=(self._loop,), name='terminals', daemon=True
            ).start()
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    # What was cancelled just before ends now.
    tasks = asyncio.all_tasks(loop)
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


class _Terminal:
    """A terminal, and those who view it.

    :ivar port: that it listens on.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, shown: rfb.Screen
    ) -> None:
        self._screen = shown
        self._viewers: set[asyncio.Task[None]] = set()
        # Viewers can connect before the thread gets to it.
        self._socket = socket.create_server(('127.0.0.1', 0))
        self.port: int = self._socket.getsockname()[1]
        self._loop = loop
        self._serving: asyncio.Task[None] | None = None
        loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """Stop listening, and let every viewer go; do not wait for it."""
        self._loop.call_soon_threadsafe(self._end)

    def _begin(self) -> None:
        self._serving = self._loop.create_task(self._serve())
        self._serving.add_done_callback(lambda _: self._socket.close())

    def _end(self) -> None:
        assert self._serving is not None  # noqa: S101 - for mypy
        self._serving.cancel()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._view, sock=self._socket)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for viewer in self._viewers:
                viewer.cancel()

    async def _view(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy
        self._viewers.add(task)
        try:
            # Without the exception, the streams would log it.
            with contextlib.suppress(asyncio.CancelledError):
                await rfb.Viewer(self._screen, reader, writer).serve()
        finally:
            self._viewers.discard(task)
            writer.close()

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

"""Viewers of a terminal: the server's side of RFB 3.8 without a password."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from collections.abc import Sequence
from typing import Protocol

from powervm_emulator.core import screen

_VERSION = b'RFB 003.008\n'
_NO_SECURITY = 1
_RAW = 0
# 32 bits, little-endian, true colour: red, green and blue are bytes.
_FORMAT = struct.pack('>BBBBHHHBBB3x', 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
# How often the picture is compared with what a viewer has been sent.
_LOOK_SECONDS = 0.1


class Screen(Protocol):
    """What a terminal shows, and what its keys do."""

    @property
    def name(self) -> str:
        """What viewers call it."""

    def lines(self) -> Sequence[str]:
        """Return the lines that it shows now."""

    def press(self, keysym: int) -> None:
        """Press a key, by its X11 keysym."""


class Viewer:
    """Serves one viewer of a terminal.

    :param shown: what it sees.
    """

    def __init__(
        self,
        shown: Screen,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._screen = shown
        self._reader = reader
        self._writer = writer
        self._pixel_bytes = 4
        self._wants_picture = asyncio.Event()
        self._sent: tuple[int, Sequence[str]] | None = None

    async def serve(self) -> None:
        """Serve until the viewer goes, or breaks the protocol."""
        with contextlib.suppress(OSError, EOFError, KeyError):
            await self._greet()
            sending = asyncio.create_task(self._send_pictures())
            try:
                await self._obey()
            finally:
                sending.cancel()
        self._writer.close()

    async def _greet(self) -> None:
        self._writer.write(_VERSION)
        if await self._reader.readexactly(len(_VERSION)) != _VERSION:
            raise EOFError
        self._writer.write(bytes([1, _NO_SECURITY]))
        if (await self._reader.readexactly(1))[0] != _NO_SECURITY:
            raise EOFError
        self._writer.write(bytes(4))
        # Whether the viewer shares the terminal: it always does.
        await self._reader.readexactly(1)
        name = self._screen.name.encode()
        self._writer.write(
            struct.pack('>HH', screen.WIDTH, screen.HEIGHT)
            + _FORMAT
            + struct.pack('>I', len(name))
            + name
        )

    async def _obey(self) -> None:
        """Do what the messages of the viewer say."""
        kinds: dict[int, tuple[int, Callable[[bytes], int | None]]] = {
            0: (19, self._set_format),
            2: (3, lambda sent: 4 * int.from_bytes(sent[1:])),
            3: (9, self._ask_for_picture),
            4: (7, self._press),
            5: (5, lambda sent: None),
            6: (7, lambda sent: int.from_bytes(sent[3:])),
        }
        while True:
            kind = (await self._reader.readexactly(1))[0]
            length, obey = kinds[kind]
            rest = obey(await self._reader.readexactly(length))
            # What encodings it knows, and what it has cut out: no matter.
            await self._reader.readexactly(rest or 0)

    def _set_format(self, sent: bytes) -> None:
        self._pixel_bytes = sent[3] // 8

    def _ask_for_picture(self, sent: bytes) -> None:
        if not sent[0]:
            # It asks for all of it, whatever it has.
            self._sent = None
        self._wants_picture.set()

    def _press(self, sent: bytes) -> None:
        is_down, keysym = struct.unpack('>BxxI', sent)
        if is_down:
            self._screen.press(keysym)

    async def _send_pictures(self) -> None:
        """Send each picture that is asked for, once there is a new one."""
        while True:
            await self._wants_picture.wait()
            present = self._pixel_bytes, self._screen.lines()
            if present == self._sent:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            self._wants_picture.clear()
            self._sent = present
            self._writer.write(
                struct.pack('>BxH', 0, 1)
                + struct.pack('>HHHH', 0, 0, screen.WIDTH, screen.HEIGHT)
                + struct.pack('>i', _RAW)
                + screen.draw(self._sent[1], self._pixel_bytes)
            )
            await self._writer.drain()

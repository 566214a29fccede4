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

"""A viewer of consoles: a client of RFB 3.8 without a password."""

import socket
import struct

from powervm_emulator.core import screen

VERSION = b'RFB 003.008\n'
_SECONDS = 20
_RETURN = 0xFF0D


class Refused(Exception):
    """What a listener has answered in place of letting a viewer in."""


def request(path):
    """Return what a proxy sends first, for the console with a path."""
    return f'CONNECT {path} HTTP/1.1\r\n\r\n'.encode()


class Viewer:
    """A viewer that has asked to connect; a context that ends it.

    :param port: Of the loopback interface, or a whole address.
    :param path: What it asks for, as Nova's proxy does; None for nothing.
    :param stream: Has ``read(size)`` and ``write(data)``, in place of a
        connection.
    """

    def __init__(self, port=None, path=None, stream=None):
        self.name = None
        self._seen = []
        self._socket = None
        if stream is None:
            address = port if isinstance(port, tuple) else ('127.0.0.1', port)
            self._socket = socket.create_connection(address, _SECONDS)
            self._file = self._socket.makefile('rb')
        self._read_some = stream.read if stream else self._file.read
        self.write = stream.write if stream else self._socket.sendall
        if path is not None:
            self.write(request(path))

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        """Disconnect."""
        if self._socket is not None:
            self._file.close()
            self._socket.close()

    def read(self, size):
        """Read as many bytes.

        :raises EOFError: The other side has ended the connection.
        """
        data = b''
        while len(data) < size:
            found = self._read_some(size - len(data))
            if not found:
                raise EOFError(data)
            data += found
        return data

    def answer(self):
        """Read the answer to the path; return its status."""
        line = b''
        while not line.endswith(b'\r\n\r\n'):
            line += self.read(1)
        return int(line.split()[1])

    def enter(self):
        """Have the path accepted, and the screen begin.

        :raises Refused: The status is not 200.
        """
        status = self.answer()
        if status != 200:
            raise Refused(status)
        return self.greet()

    def greet(self):
        """Begin the screen."""
        assert self.read(len(VERSION)) == VERSION
        self.write(VERSION)
        assert self.read(2) == b'\1\1'
        self.write(b'\1')
        assert self.read(4) == bytes(4)
        self.write(b'\1')
        head = self.read(24)
        self._size = struct.unpack('>HH', head[:4])
        self.name = self.read(struct.unpack('>I', head[20:])[0]).decode()
        return self

    def picture(self):
        """Return the rows of pixels of the next picture, ``#`` for white."""
        width, height = self._size
        self.write(
            struct.pack('>BBHHHH', 3, bool(self._seen), 0, 0, *self._size)
        )
        self.read(16)
        data = self.read(width * height * 4)
        self._seen = [
            ''.join(
                '#' if data[at] else '.'
                for at in range(row * width * 4, (row + 1) * width * 4, 4)
            )
            for row in range(height)
        ]
        return self._seen

    def forget(self):
        """Forget the last picture, so that the next one need not differ."""
        self._seen = []

    def find(self, text):
        """Look at the last picture, and at new ones until one shows a text."""
        while not shows(self._seen, text):
            self.picture()

    def type(self, text):
        """Press the keys of a text, of which newline is the return key."""
        for letter in text:
            key = _RETURN if letter == '\n' else ord(letter)
            for is_down in (1, 0):
                self.write(struct.pack('>BBxxI', 4, is_down, key))


def shows(picture, text):
    """Return whether a picture shows a text.

    :param picture: Its rows of pixels.
    """
    wanted = screen.rows_of(text)
    first, *others = wanted
    for top in range(len(picture) - len(others)):
        left = picture[top].find(first)
        while left >= 0:
            if all(
                picture[top + number].startswith(row, left)
                for number, row in enumerate(others, 1)
            ):
                return True
            left = picture[top].find(first, left + 1)
    return False

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

"""The file that keeps the state of emulators over restarts.

Its first line names the format, its version, and the hash of what follows,
which is JSON.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator
from collections.abc import Sequence

from lxml import etree

from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import resource
from powervm_emulator.state import hosts

Emulation = emulation_module.Emulation
_VERSION = 4
_HEAD = re.compile('powervm-emulator state ([0-9]+) ([0-9a-f]{64})')
# What reading a document of another shape raises.
_MALFORMED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    etree.XMLSyntaxError,
    errors.RestError,
)


class StateError(Exception):
    """Why a file cannot keep the state, in words."""


class Keeper:
    """Keeps the hosts of a site in a file.

    The file is only ever replaced as a whole, so that a process that is
    killed leaves the former one or the new one.

    :param path: of the file, which need not be there.
    :ivar saved: what is in the file; None without a file.
    :raises StateError: another process uses the file, or it has something
        else. It is unchanged then.
    """

    def __init__(self, path: str) -> None:
        # A link stays one, and what it leads to is replaced.
        self._path = pathlib.Path(path).resolve()
        self._name = path
        self._lock = threading.Lock()
        self._written = ''
        self._emulations: Sequence[Emulation] = ()
        try:
            self._owned = self._own()
            with contextlib.ExitStack() as refused:
                refused.callback(self.close)
                self.saved = self._read()
                refused.pop_all()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, 'strerror', None) or error
            raise StateError(f'the state file {path}: {reason}') from error

    @property
    def count(self) -> int | None:
        """The number of hosts in the file; None without a file."""
        return None if self.saved is None else len(self.saved['hosts'])

    def load(self, emulation: Emulation, number: int) -> None:
        """Fill one host of a site, in their order, from the file.

        :raises StateError: the file does not describe a host.
        """
        assert self.saved is not None  # noqa: S101 - the caller has asked
        try:
            hosts.load(emulation, self.saved, number)
        except _MALFORMED as error:
            raise StateError(
                f'the state file {self._name} cannot be loaded: {error!r}; '
                'it is unchanged. Name another file to begin anew'
            ) from error

    def begin(self, emulations: Sequence[Emulation]) -> None:
        """Write the file, and know from now on what to write.

        :raises StateError: it cannot be written.
        """
        self._emulations = emulations
        self.saved = None
        try:
            self.save()
        except OSError as error:
            raise StateError(
                f'cannot write the state file {self._name}: {error.strerror}'
            ) from error

    def save(self) -> None:
        """Write what has changed, if anything has.

        When this returns, all changes that were made before it was called
        are on disk.

        :raises OSError: the file cannot be written.
        """
        with self._lock:
            with self._emulations[0].host.changing():
                state = hosts.save(self._emulations)
            text = json.dumps(state)
            if text != self._written:
                self._write(text)
                self._written = text

    def close(self) -> None:
        """Let other processes use the file."""
        os.close(self._owned)

    def _own(self) -> int:
        """Keep other processes from using the file."""
        lock = self._path.with_name(f'.{self._path.name}.lock')
        owned = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(owned)
            raise StateError(
                f'another emulator uses the state file {self._name}; end '
                'it, or name another file'
            ) from None
        return owned

    def _read(self) -> resource.JSON | None:
        try:
            text = self._path.read_text(encoding='utf-8')
        except FileNotFoundError:
            return None
        head, _, body = text.partition('\n')
        found = _HEAD.fullmatch(head)
        if found is None:
            raise StateError(
                f'{self._name} is no state file of this program; name '
                'another one, which need not be there'
            )
        if int(found[1]) != _VERSION:
            raise StateError(
                f'the state file {self._name} has version {found[1]}, and '
                f'this program reads version {_VERSION}; use the program '
                'that wrote it, or name another file'
            )
        if hashlib.sha256(body.encode()).hexdigest() != found[2]:
            raise StateError(
                f'the state file {self._name} is damaged: it is not as it '
                'was written; restore it, or name another file'
            )
        loaded: resource.JSON = json.loads(body)
        return loaded

    def _write(self, body: str) -> None:
        digest = hashlib.sha256(body.encode()).hexdigest()
        head = f'powervm-emulator state {_VERSION} {digest}\n'
        # Nobody else writes it: this process owns the lock.
        made = self._path.with_name(f'.{self._path.name}.new')
        number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(number, 'wb') as file:
            file.write(head.encode() + body.encode())
            file.flush()
            os.fsync(file.fileno())
        made.replace(self._path)
        with _directory(self._path.parent) as folder:
            os.fsync(folder)


@contextlib.contextmanager
def _directory(path: pathlib.Path) -> Iterator[int]:
    """Open a directory, whose entries are to be on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)

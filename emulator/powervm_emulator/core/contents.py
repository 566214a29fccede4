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

"""What clients have uploaded, on disk: contents of virtual disks and media.

Contents are written to files as they arrive and are never whole in memory.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import threading
from typing import BinaryIO

from powervm_emulator.core import scratch

_CHUNK = 1 << 20
# At so many places a new disk has what deleted ones have left.
_SPOTS = 16


@dataclasses.dataclass(frozen=True)
class Content:
    """What was uploaded to one disk or medium.

    :ivar size: in bytes.
    :ivar sha256: in hexadecimal, lower case.
    """

    path: pathlib.Path
    size: int
    sha256: str

    def open(self) -> BinaryIO:
        """Return the bytes as a file, which outlives their removal."""
        return self.path.open('rb')


class Upload:
    """Bytes that are arriving.

    :param path: of a file that nobody else uses.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file = path.open('wb')
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """The hash of what has arrived, in hexadecimal, lower case."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        """Add bytes; zeros, as of most disks of servers, take no space."""
        if chunk == bytes(len(chunk)):
            self._file.seek(len(chunk), os.SEEK_CUR)
        else:
            self._file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    def finish(self) -> Content:
        """Return what has arrived."""
        self._file.truncate(self.size)
        self._file.close()
        return Content(self._path, self.size, self.sha256)

    def discard(self) -> None:
        """Delete what has arrived."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class Contents:
    """The contents of every disk and medium, by VIOS uuid and UDID.

    Those of logical units are by the uuid of their pool instead.

    The directory is made when the first upload begins. Uploads may begin
    in any thread; everything else needs the host's lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._directory: scratch.Scratch | None = None
        self._count = 0
        self._kept: dict[tuple[str, str], Content] = {}

    def receive(self) -> Upload:
        """Begin an upload."""
        return Upload(self._new_path())

    def keep(self, vios: str, udid: str, content: Content) -> None:
        """Make what was uploaded the contents of a disk or medium.

        :param vios: uuid of the Virtual I/O Server.
        :param udid: of the disk or medium.
        """
        self.drop(vios, udid)
        self._kept[vios.upper(), udid] = content

    def find(self, vios: str, udid: str) -> Content | None:
        """Return the contents of a disk or medium, None if it has none."""
        return self._kept.get((vios.upper(), udid))

    def overlay(self, vios: str, udid: str, content: Content) -> None:
        """Write what was uploaded to a disk from its beginning.

        :param vios: uuid of the Virtual I/O Server.
        :param udid: of the disk, which keeps what was behind the upload's end.
        """
        present = self.find(vios, udid)
        if present is not None and present.size > content.size:
            with present.open() as old, content.path.open('r+b') as new:
                _copy(old, new, content.size)
                new.truncate(present.size)
            content = read(content.path)
        self.keep(vios, udid, content)

    def soil(self, vios: str, udid: str, end: int, residue: str) -> None:
        """Put on the end of a disk what deleted ones have left there.

        :param end: the size of the disk in bytes; all from the end of its
            present contents on is soiled.
        :param residue: what stands at many places there, with zeros between.
        """
        path = self._new_path()
        path.touch()
        present, left = self.find(vios, udid), residue.encode()
        with path.open('r+b') as file:
            start = present.size if present else 0
            if present is not None:
                with present.open() as old:
                    _copy(old, file, 0)
            file.truncate(end)
            step = max(len(left), (end - start) // _SPOTS)
            for offset in (*range(start, end, step), end):
                file.seek(max(start, min(offset, end - len(left))))
                file.write(left[: end - file.tell()])
        self.keep(vios, udid, read(path))

    def copy(self, vios: str, source: str, target: str) -> None:
        """Give a disk the contents of another one of the same VIOS."""
        content = self.find(vios, source)
        if content is not None:
            path = self._new_path()
            # Nobody writes into the file again, so that both may be one.
            path.hardlink_to(content.path)
            copied = dataclasses.replace(content, path=path)
            self.keep(vios, target, copied)

    def write(self, vios: str, udid: str, offset: int, data: bytes) -> None:
        """Change bytes of one disk, and of no other.

        :param offset: of the first one; what lies between it and the present
            end becomes zero.
        """
        present = self.find(vios, udid)
        path = self._new_path()
        if present is None:
            path.touch()
        else:
            # Others may be links to the present file.
            shutil.copyfile(present.path, path)
        with path.open('r+b') as file:
            file.seek(offset)
            file.write(data)
        self.keep(vios, udid, read(path))

    def drop(self, vios: str, udid: str) -> None:
        """Delete the contents of a disk or medium, if it has any."""
        content = self._kept.pop((vios.upper(), udid), None)
        if content is not None:
            content.path.unlink(missing_ok=True)

    def drop_server(self, vios: str) -> None:
        """Delete the contents of everything that a VIOS has."""
        for server, udid in tuple(self._kept):
            if server == vios.upper():
                self.drop(server, udid)

    def close(self) -> None:
        """Delete everything."""
        with self._lock:
            self._kept.clear()
            if self._directory is not None:
                self._directory.cleanup()
                self._directory = None

    def _new_path(self) -> pathlib.Path:
        with self._lock:
            if self._directory is None:
                self._directory = scratch.Scratch()
            self._count += 1
            return self._directory.path / f'file{self._count}'


def _copy(source: BinaryIO, target: BinaryIO, start: int) -> None:
    """Copy the bytes of a file from an offset on, but not its holes."""
    file = source.fileno()
    # There is no data where only a hole is left.
    with contextlib.suppress(OSError):
        while True:
            start = os.lseek(file, start, os.SEEK_DATA)
            hole = os.lseek(file, start, os.SEEK_HOLE)
            target.seek(start)
            while start < hole:
                chunk = os.pread(file, min(_CHUNK, hole - start), start)
                target.write(chunk)
                start += len(chunk)


def read(path: pathlib.Path) -> Content:
    """Return what is in a file."""
    with path.open('rb') as file:
        digest = hashlib.file_digest(file, 'sha256')
    return Content(path, path.stat().st_size, digest.hexdigest())

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

"""The files by which a management partition sees the disks of its host.

A program that runs on the management partition writes to sysfs, and storage
that is mapped to the partition appears below ``/dev``.
"""

import contextlib
import dataclasses
import fcntl
import functools
import itertools
import os
import pathlib
import select
import shlex
import shutil
import string
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import BinaryIO

from powervm_emulator import vterm_command
from powervm_emulator.core import content
from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import disk_contents
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Host = host_module.Host
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition
_LOCK = 'powervm-emulator.lock'
# What an emulator makes in the directory, and no other file of it.
_MADE = ('bin', 'dev', 'sys', 'var')
_CHUNK = 1 << 20
_SECTOR = 512
_ID_CHARACTERS = 32
_SIZES = {scsi_mapping.DISK: 'DiskCapacity', scsi_mapping.UNIT: 'UnitCapacity'}
_COMMANDS = ('mkvterm', 'rmvterm')
_WAKE = b'\1'


class HostRootError(Exception):
    """Why a directory cannot be used, in words."""


@dataclasses.dataclass(frozen=True)
class _Storage:
    """A disk that the management partition has.

    :ivar contents: what was written to it; None for nothing.
    :ivar size: of the whole disk in bytes.
    :ivar vios: uuid of the Virtual I/O Server that has it.
    :ivar udid: of the disk.
    """

    contents: contents_module.Content | None
    size: int
    vios: str
    udid: str

    def open(self) -> BinaryIO | None:
        """Open what was written, so that it outlives its removal."""
        return self.contents.open() if self.contents else None


@dataclasses.dataclass
class _Device:
    """A disk that a scan has made appear.

    :ivar slot: of the adapter that it is on.
    :ivar directory: that of the SCSI device.
    :ivar delete: the file that removes it.
    :ivar storage: the disk.
    :ivar filled: when it was filled, in nanoseconds.
    """

    name: str
    slot: int
    directory: pathlib.Path
    delete: int
    storage: _Storage
    filled: int
    is_stale: bool = False


class HostRoot:
    """The root directory of one host's management partition.

    For each virtual SCSI adapter of the partition there is a FIFO
    ``sys/bus/vio/devices/3<slot>/host<n>/scsi_host/host<n>/scan``. Whoever
    writes to it gets ``dev/disk/by-id/*<end of the UDID>`` for each disk that
    is mapped there: a link to a file with the bytes of the whole disk as they
    are then. What is written to ``sys/block/<name>/device/delete`` removes
    it. As in Linux, ``sys/block/<name>`` and ``sys/bus/vio/devices/3<slot>``
    are links into ``sys/devices/vio``, and a disk is below its adapter there.
    A disk that is not mapped any more leaves its link, and no bytes, and
    keeps its adapter. A virtual disk then has what was written to its device.

    ``bin`` has ``mkvterm`` and ``rmvterm`` for the PATH of such programs, once
    it is known where the emulator is served.

    If the partition is a Virtual I/O Server, the disks that it maps are files
    below the paths that its mappings have as BackingDeviceName.

    :param directory: it is made if it is missing.
    :param host: whose :attr:`~core.host.Host.settled` is :meth:`settle` from
        now on.
    :raises HostRootError: the directory is in use, or has other files.
    """

    def __init__(self, directory: str, host: Host) -> None:
        self._root = pathlib.Path(directory)
        self._host = host
        self._lock = _take(self._root)
        # All below is guarded by the lock of the host.
        self._scans: dict[int, int] = {}
        self._devices: dict[str, _Device] = {}
        self._files: dict[pathlib.Path, _Storage] = {}
        self._written: dict[int, Callable[[], None]] = {}
        self._links = self._root / 'dev/disk/by-id'
        self._links.mkdir(parents=True)
        self._poll = select.epoll()
        self._wake, self._waker = os.pipe()
        self._poll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(
            target=self._listen, name='host-root', daemon=True
        )
        self._thread.start()
        host.settled = self.settle

    def close(self) -> None:
        """Remove the files; whoever calls this does not hold the host."""
        with self._host.condition:
            self._host.settled = host_module.do_nothing
        os.write(self._waker, _WAKE)
        self._thread.join()
        for file in (*self._written, self._wake, self._waker):
            os.close(file)
        self._poll.close()
        _clear(self._root)
        (self._root / _LOCK).unlink()
        os.close(self._lock)

    def write_commands(self, url: str) -> None:
        """Write the commands of the partition that ask this emulator.

        :param url: where it is served.
        """
        directory = self._root / 'bin'
        directory.mkdir()
        for name in _COMMANDS:
            words = sys.executable, '-I', vterm_command.__file__, url, name
            script = directory / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            script.chmod(0o700)

    def settle(self) -> None:
        """Show what has become of the mappings; the host is held."""
        found = self._mapped()
        self._settle_adapters({slot for slot, _ in found})
        for end, device in self._devices.items():
            if (device.slot, end) not in found and not device.is_stale:
                device.is_stale = True
                self._keep_writes(device)
                # Whoever reads the old one goes on.
                self._fill(self._root / 'dev' / device.name, None, 0)
        self._settle_files()

    def _settle_adapters(self, mapped: set[int]) -> None:
        """Show the adapters of some slots, and those that still have disks."""
        slots = mapped | {device.slot for device in self._devices.values()}
        for slot in self._scans.keys() - slots:
            self._unwatch(self._scans.pop(slot))
            self._link(slot).unlink()
            shutil.rmtree(self._adapter(slot))
        for slot in slots - self._scans.keys():
            name = f'host{slot}'
            self._scans[slot] = self._watch(
                self._adapter(slot) / name / 'scsi_host' / name / 'scan',
                functools.partial(self._scan, slot),
            )
            self._link(slot).parent.mkdir(parents=True, exist_ok=True)
            self._link(slot).symlink_to(
                f'../../../devices/vio/{self._adapter(slot).name}'
            )

    def _settle_files(self) -> None:
        """Show the disks of a management partition that has some itself."""
        found = dict(self._local())
        for path in self._files.keys() - found.keys():
            path.unlink()
        for path, storage in found.items():
            if self._files.get(path) != storage:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._fill(path, storage.open(), storage.size)
        self._files = found

    def _mapped(self) -> dict[tuple[int, str], _Storage]:
        """Return the disks that are mapped to the partition.

        :returns: them by the slot, and the end of the UDID.
        """
        return {
            (mapping.client_slot, mapping.udid[-_ID_CHARACTERS:]): storage
            for vios, mapping, storage in self._storages()
            if mapping.client_slot is not None
            and vios.state == partition_module.RUNNING
            and _manages(scsi_mapping.client_of(self._host, mapping))
        }

    def _local(self) -> Iterator[tuple[pathlib.Path, _Storage]]:
        for vios, mapping, storage in self._storages():
            path = pathlib.PurePosixPath(mapping.backing_name)
            if (
                _manages(vios)
                and path.is_absolute()
                and '..' not in path.parts
            ):
                yield self._root / path.relative_to('/'), storage

    def _storages(self) -> Iterator[tuple[Partition, Mapping, _Storage]]:
        """Yield the disks of all mappings."""
        for vios in self._host.all(partition_module.VIOS):
            assert isinstance(vios, Partition)  # noqa: S101 - for mypy
            for mapping in scsi_mapping.of(vios):
                if mapping.storage is not None and mapping.kind in _SIZES:
                    capacity = content.number(
                        mapping.storage, _SIZES[mapping.kind]
                    )
                    yield (
                        vios,
                        mapping,
                        _Storage(
                            disk_contents.find(self._host, vios, mapping),
                            units.to_bytes(capacity),
                            vios.uuid,
                            mapping.udid,
                        ),
                    )

    def _scan(self, slot: int) -> None:
        """Make the disks of an adapter appear that are not there yet."""
        for (at, end), storage in self._mapped().items():
            if at == slot and end not in self._devices:
                name = self._new_name()
                self._fill(
                    self._root / 'dev' / name, storage.open(), storage.size
                )
                directory = self._new_directory(slot)
                delete = self._watch(
                    directory / 'delete', functools.partial(self._delete, end)
                )
                self._devices[end] = _Device(
                    name,
                    slot,
                    directory,
                    delete,
                    storage,
                    (self._root / 'dev' / name).stat().st_mtime_ns,
                )
                self._describe(directory, name, storage.size)
                link = self._links / f'scsi-SIBM_3303_NVDISK{end}'
                link.symlink_to(f'../../{name}')

    def _keep_writes(self, device: _Device) -> None:
        """Give a virtual disk what was written to its device, if anything."""
        path, storage = self._root / 'dev' / device.name, device.storage
        if path.stat().st_mtime_ns == device.filled:
            return
        contents = self._host.contents
        arriving = contents.receive()
        with path.open('rb') as file:
            while chunk := file.read(_CHUNK):
                arriving.write(chunk)
        contents.keep(storage.vios, storage.udid, arriving.finish())

    def _describe(self, directory: pathlib.Path, name: str, size: int) -> None:
        """Show a disk in its SCSI device, and below ``sys/block``."""
        block = directory / 'block' / name
        block.mkdir(parents=True)
        (block / 'size').write_text(f'{size // _SECTOR}\n')
        (block / 'device').symlink_to(f'../../../{directory.name}')
        link = self._root / 'sys/block' / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(
            pathlib.Path('..', block.relative_to(self._root / 'sys'))
        )

    def _delete(self, end: str) -> None:
        """Let a disk disappear."""
        device = self._devices.pop(end)
        (self._root / 'dev' / device.name).unlink()
        (self._root / 'sys/block' / device.name).unlink()
        self._unwatch(device.delete)
        shutil.rmtree(device.directory)
        self._settle_adapters({slot for slot, _ in self._mapped()})
        # Clients wait for this one.
        (self._links / f'scsi-SIBM_3303_NVDISK{end}').unlink()

    def _new_directory(self, slot: int) -> pathlib.Path:
        """Return where the next disk of an adapter is."""
        used = {device.directory for device in self._devices.values()}
        host = self._adapter(slot) / f'host{slot}'
        return next(
            directory
            for number in itertools.count()
            if (
                directory := host
                / f'target{slot}:0:{number}'
                / f'{slot}:0:{number}:0'
            )
            not in used
        )

    def _new_name(self) -> str:
        used = {device.name for device in self._devices.values()}
        return next(
            name
            for length in itertools.count(1)
            for letters in itertools.product(
                string.ascii_lowercase, repeat=length
            )
            if (name := f'sd{"".join(letters)}') not in used
        )

    def _adapter(self, slot: int) -> pathlib.Path:
        return self._root / f'sys/devices/vio/3{slot:07x}'

    def _link(self, slot: int) -> pathlib.Path:
        return self._root / f'sys/bus/vio/devices/3{slot:07x}'

    def _fill(
        self, path: pathlib.Path, source: BinaryIO | None, size: int
    ) -> None:
        """Write a file whose end is a hole, and replace what is there."""
        new = self._root / 'dev' / '.new'
        with new.open('wb') as file, source or contextlib.nullcontext():
            while source and (chunk := source.read(_CHUNK)):
                if chunk.count(0) == len(chunk):
                    file.seek(len(chunk), os.SEEK_CUR)
                else:
                    file.write(chunk)
            file.truncate(size)
        new.rename(path)

    def _watch(self, path: pathlib.Path, written: Callable[[], None]) -> int:
        """Make a FIFO, and have something done when it is written to."""
        path.parent.mkdir(parents=True)
        os.mkfifo(path, 0o600)
        # As a writer, too: it never ends, and the others need not wait.
        file = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._written[file] = written
        self._poll.register(file, select.EPOLLIN)
        return file

    def _unwatch(self, file: int) -> None:
        self._poll.unregister(file)
        del self._written[file]
        os.close(file)

    def _listen(self) -> None:
        """Do what is written to the FIFOs, in a thread of its own."""
        while True:
            ready = [file for file, _ in self._poll.poll()]
            if self._wake in ready:
                return
            for file in ready:
                with self._host.condition:
                    self._read(file)

    def _read(self, file: int) -> None:
        written = self._written.get(file)
        # It may be another one by now, or gone.
        with contextlib.suppress(BlockingIOError):
            if written is not None and os.read(file, _CHUNK).strip():
                written()


def _manages(partition: Partition | None) -> bool:
    return partition is not None and partition.boolean(
        partition_module.MANAGEMENT
    )


def _take(root: pathlib.Path) -> int:
    """Take a directory; return the lock that keeps it.

    :raises HostRootError: it is in use, or has other files.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = root / _LOCK
        if any(root.iterdir()) and not lock.exists():
            raise HostRootError(
                f'the directory {root} is not empty, and no emulator has '
                'made what is in it; name another one'
            )
        taken = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise HostRootError(f'cannot use {root}: {error.strerror}') from error
    try:
        fcntl.flock(taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(taken)
        raise HostRootError(
            f'another emulator uses the directory {root}'
        ) from error
    # An emulator that was killed has left them.
    _clear(root)
    return taken


def _clear(root: pathlib.Path) -> None:
    for name in _MADE:
        shutil.rmtree(root / name, ignore_errors=True)

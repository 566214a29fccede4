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

"""The devices of the management partition, on which nova-compute runs.

There is no REST call for the bytes of a disk. Only a program on the management
partition can read or write a disk, which is mapped to the partition or belongs
to it.

The guests write the disks, and Linux makes links and devices from what it
finds there: the names of arrays (``md-name-``), of volumes (``dm-name-``) and
of what they consist of. No such name may lead to the disk of another guest. So
only links count that are made from the identity of a SCSI disk, and a mapped
disk is looked for only below the adapter that it is mapped to.
"""

import contextlib
import dataclasses
import errno
import functools
import glob
import os
import stat
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import BinaryIO
from typing import TypeVar

import tenacity
from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.powervm import rest_errors

LOG = logging.getLogger(__name__)

_Result = TypeVar('_Result')

#: Seconds within which a mapped disk must appear, and a deleted one vanish.
APPEAR_SECONDS = 60
_VANISH_SECONDS = 10
#: What the REST API calls a GB.
BYTES_PER_GB = storage.GIB
#: Linux gives a virtual I/O adapter this address, plus the slot.
_VIO = 0x30000000
#: How many characters of its UDID are in the names of links to a disk.
_ID_CHARACTERS = 32
#: How links begin that are made from the identity of a SCSI disk. All others
#: may be made from what a guest has written to a disk.
_IDENTITIES = 'scsi', 'wwn'
_CURE = (
    'On the management partition, LVM, mdadm, multipath and automounters must '
    'leave the disks of servers alone: see "Disks of servers on the NovaLink '
    'partition" in the documentation'
)


class DirectFiles:
    """Files that nova-compute's user owns, such as those of an emulated host.

    It implements :class:`nova_powervm.ops.drivers.LocalFiles`.
    """

    def write(self, path: str, text: str) -> None:
        """Write to a file, and do not wait for a reader of it."""
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def open(self, path: str, *, write: bool = False) -> BinaryIO:
        """Open a disk, or a file in the place of a disk."""
        return open_disk(path, write=write)


def is_block_device(path: str) -> bool:
    """Return whether a block device is at a path, and no regular file.

    :raises OSError: Something else is there, or nothing.
    """
    mode = os.lstat(path).st_mode
    if not (stat.S_ISBLK(mode) or stat.S_ISREG(mode)):
        raise OSError(errno.ENOTBLK, os.strerror(errno.ENOTBLK), path)
    return stat.S_ISBLK(mode)


def open_disk(path: str, *, write: bool = False) -> BinaryIO:
    """Open a block device or a regular file, unbuffered.

    :param path: Its path, which is no link.
    :param write: Whether to open it for writing, and not for reading.
    :raises OSError: It cannot be opened, or is something else.
    """
    flags = os.O_NOFOLLOW | (os.O_WRONLY if write else os.O_RDONLY)
    if is_block_device(path) and write:
        # Linux refuses a device that is in use, by a mount or an array.
        flags |= os.O_EXCL
    return open(os.open(path, flags), 'wb' if write else 'rb', buffering=0)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenDisk:
    """A disk that is open.

    :param path: Where it is, for messages.
    :param size: Its size in bytes.
    :param file: The disk, unbuffered, at its beginning.
    """

    path: str
    size: int
    file: BinaryIO

    def contents(self) -> drivers.DiskBytes:
        """Return all of its bytes; it is open for reading."""
        return drivers.DiskBytes(self.size, _Stream(self))


@dataclasses.dataclass(frozen=True, slots=True)
class _Device:
    """A SCSI disk below a virtual adapter.

    :param name: Its name below ``dev``.
    :param directory: Its directory below that of the adapter.
    """

    name: str
    directory: str


class ManagementPartition:
    """Finds the management partition, and reads its devices.

    :param adapter: An adapter with a session that has logged on.
    :param root: ``[powervm]management_root``.
    :param files: Accesses the files; None for direct access.
    :param sleep: Waits for the host.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        root: str,
        files: drivers.LocalFiles | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._adapter = adapter
        self._root = root
        self._files = files or DirectFiles()
        self._sleep = sleep
        self._lock = threading.Lock()
        # Its uuid, and whether it is a Virtual I/O Server.
        self._identity: tuple[str, bool] | None = None

    @property
    def uuid(self) -> str:
        """The uuid of the partition; empty if the host has not exactly one."""
        return self._find()[0]

    @property
    def is_server(self) -> bool:
        """Whether the partition is itself a Virtual I/O Server."""
        return self._find()[1]

    @rest_errors.retried
    def _find(self) -> tuple[str, bool]:
        """Look for the partition until it is found once."""
        with self._lock:
            if self._identity is None:
                find = partition_tasks.get_mgmt_partition
                action = 'finding the management partition'
                with rest_errors.translated(action):
                    try:
                        management = find(self._adapter)
                    except pvm.ManagementPartitionNotFoundException:
                        return '', False
                is_server = isinstance(management, virtual_io_server.VIOS)
                self._identity = management.uuid, is_server
            return self._identity

    def check(self, lpar_uuid: str) -> None:
        """Refuse to read a disk where nova-compute cannot.

        :param lpar_uuid: The LPAR whose disk it is, for messages.
        :raises exception.DiskUnreadable: nova-compute does not run on the
            management partition of the host.
        """
        if not self._adapter.traits.local_api:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}',
                reason=exception.PrivateText(
                    'nova-compute logs on to the REST API with a password. '
                    'Only on the management partition (NovaLink) itself, '
                    'without [powervm]rest_username and rest_password, can it '
                    'read disks',
                    'this host is not set up to read disks',
                ),
            )
        if not self.uuid:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}',
                reason=exception.PrivateText(
                    'the host does not report exactly one management '
                    'partition. Check with `pvmctl lpar list` and `pvmctl '
                    'vios list`',
                    'this host is not set up to read disks',
                ),
            )

    @contextlib.contextmanager
    def scanned(
        self, slot: int, udid: str, size_gb: float, *, write: bool = False
    ) -> Iterator[OpenDisk]:
        """Have a disk appear that is mapped to the partition, and open it.

        :param slot: The slot of the client adapter that it is on.
        :param udid: The UDID of the disk.
        :param size_gb: Its size in GB, as the host reports it.
        :param write: Whether to open it for writing, and not for reading.
        :raises exception.DiskUnreadable: It does not appear in time, or
            something else does.
        :raises exception.DiskUnwritable: The same for writing, or it is in
            use.
        """
        look = functools.partial(self._appear, slot, udid)
        with _translated(udid, write=write):
            device = self._wait(look, APPEAR_SECONDS)
        if device is None:
            raise _refusal(udid, self._missing(slot, udid), write=write)
        path = self._path(f'dev/{device.name}')
        with self._opened(path, size_gb, write=write) as disk:
            # A device that is open keeps its name.
            if self._device(slot, udid) != device:
                raise _refusal(
                    udid,
                    f'{path} became another one while it was opened. Try '
                    'again',
                    write=write,
                )
            yield disk

    @contextlib.contextmanager
    def opened_local(
        self, path: str, size_gb: float, *, write: bool = False
    ) -> Iterator[OpenDisk]:
        """Open a disk of the partition itself.

        :param path: Its path there, as the host reports it.
        :param size_gb: As for :meth:`scanned`, like the errors.
        """
        real_path = os.path.realpath(self._path(path.lstrip('/')))
        with self._opened(real_path, size_gb, write=write) as disk:
            yield disk

    @contextlib.contextmanager
    def _opened(
        self, path: str, size_gb: float, *, write: bool
    ) -> Iterator[OpenDisk]:
        """Open a device or file that has to be of a size."""
        with _translated(path, write=write):
            file = self._files.open(path, write=write)
        with file:
            with _translated(path, write=write):
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
            if not storage.is_same_size(size / BYTES_PER_GB, size_gb):
                raise _refusal(
                    path,
                    f'it has {size} bytes, and the host reports {size_gb:g} '
                    f'GB: it may be another one. {_CURE}',
                    write=write,
                )
            yield OpenDisk(path, size, file)

    def drop(self, udid: str, slot: int | None = None) -> None:
        """Remove the device of a disk that is not mapped any more, if any.

        A scan would not replace the device, and reading it fails. Only log a
        device that cannot be removed.

        :param slot: The slot of the client adapter that it was on; None for
            any of the partition.
        """
        devices = self._disks_at(slot, {*self._links(udid).values()})
        for device in devices:
            try:
                self._files.write(f'{device.directory}/delete', '1')
            except FileNotFoundError:
                pass
            except OSError as error:
                LOG.warning(
                    'The device %(device)s of the management partition '
                    'cannot be removed: %(error)s',
                    {'device': device.name, 'error': error},
                )
        names = {device.name for device in devices}
        self._wait(
            lambda: names.isdisjoint(self._links(udid).values()) or None,
            _VANISH_SECONDS,
        )

    def _appear(self, slot: int, udid: str) -> _Device | None:
        """Return the device of a disk; scan its adapter if there is none."""
        device = self._device(slot, udid)
        if device is None:
            pattern = f'{_address(slot)}/host*/scsi_host/host*/scan'
            for path in self._glob(pattern):
                self._files.write(path, '- - -')
            device = self._device(slot, udid)
        return device

    def _device(self, slot: int, udid: str) -> _Device | None:
        """Return the device of a disk; None if it is not the only one."""
        # Read the links once: both comparisons must be with the same names.
        names = {*self._links(udid).values()}
        devices = self._disks_at(slot, names)
        return devices[0] if len(devices) == len(names) == 1 else None

    def _disks_at(
        self, slot: int | None, names: set[str] | None = None
    ) -> list[_Device]:
        """Return the disks below an adapter, or below all adapters.

        :param slot: The slot of the adapter; None for all.
        :param names: The names of the disks; None for all.
        """
        disks = []
        for path in self._glob(f'{_address(slot)}/host*/target*/*:*/block/*'):
            directory, _, name = path.rpartition('/block/')
            if names is None or name in names:
                disks.append(_Device(name, directory))
        return disks

    def _links(self, udid: str) -> dict[str, str]:
        """Return the links that are made from the identity of a disk.

        :returns: Name of the link -> name of the device below ``dev``, or a
            relative path if it is not there.
        """
        end = glob.escape(udid[-_ID_CHARACTERS:])
        dev = os.path.realpath(self._path('dev'))
        devices = {}
        for kind in _IDENTITIES:
            for link in self._glob(f'dev/disk/by-id/{kind}-*{end}'):
                # Linux may be removing the link.
                with contextlib.suppress(FileNotFoundError):
                    device = os.path.relpath(os.path.realpath(link), dev)
                    devices[os.path.basename(link)] = device
        return devices

    def _missing(self, slot: int, udid: str) -> str:
        """Tell why the device of a mapped disk is not used."""
        links = [f'{k} to {v}' for k, v in self._links(udid).items()]
        disks = [device.name for device in self._disks_at(slot)]
        cure = _CURE if links else 'See the log of the kernel there'
        return (
            f'it is mapped to the management partition at slot {slot}, but '
            f'it did not appear there as one disk within {APPEAR_SECONDS} '
            f'seconds. Its links below {self._path("dev/disk/by-id")}: '
            f'{", ".join(links) or "none"}; disks below '
            f'{self._path(_address(slot))}: {", ".join(disks) or "none"}. '
            f'{cure}'
        )

    def _glob(self, pattern: str) -> list[str]:
        root = glob.escape(self._root)
        return sorted(glob.glob(os.path.join(root, pattern)))

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _wait(
        self, look: Callable[[], _Result | None], seconds: float
    ) -> _Result | None:
        """Look again until there is a result; return None after the time."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda result: result is None),
            stop=tenacity.stop_after_delay(seconds),
            wait=tenacity.wait_exponential(multiplier=0.01, max=1),
            retry_error_callback=lambda state: None,
            sleep=self._sleep,
        )(look)


class _Stream:
    """The bytes of a disk, from its beginning to its end."""

    def __init__(self, disk: OpenDisk) -> None:
        self._disk = disk
        self._left = disk.size

    def read(self, size: int) -> bytes:
        """Read the next bytes; none at the end.

        :raises exception.DiskUnreadable: The disk fails, or ends too early.
        """
        wanted = min(size, self._left)
        with _translated(self._disk.path):
            data = self._disk.file.read(wanted)
        if wanted and not data:
            raise _refusal(
                self._disk.path,
                f'it ends after {self._disk.size - self._left} of '
                f'{self._disk.size} bytes',
                write=False,
            )
        self._left -= len(data)
        return data


def _address(slot: int | None) -> str:
    """Return the pattern of an adapter's directory; None for that of all."""
    address = '3*' if slot is None else f'{_VIO + slot:x}'
    return f'sys/bus/vio/devices/{address}'


def _refusal(
    disk: str, reason: object, *, write: bool
) -> exception.PowerVMError:
    """Return an error; users need not know where the disk is.

    :param disk: The path or the UDID of the disk.
    """
    error = exception.DiskUnwritable if write else exception.DiskUnreadable
    return error(
        what=exception.PrivateText(f'disk {disk}', 'disk'),
        reason=exception.PrivateText(
            reason, 'the management partition does not have it as expected'
        ),
    )


@contextlib.contextmanager
def _translated(disk: str, *, write: bool = False) -> Iterator[None]:
    """Translate errors of files."""
    try:
        yield
    except OSError as error:
        is_busy = error.errno == errno.EBUSY
        reason = f'{error}. {_CURE}' if is_busy else error
        raise _refusal(disk, reason, write=write) from error

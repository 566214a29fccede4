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
partition can read a disk: one that is mapped to the partition, or one that the
partition has itself.
"""

import contextlib
import functools
import glob
import os
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import BinaryIO

import tenacity
from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.ops import disk_interfaces
from nova_powervm.powervm import rest_errors

LOG = logging.getLogger(__name__)

#: Seconds within which a mapped disk must appear, and a deleted one vanish.
APPEAR_SECONDS = 60
_VANISH_SECONDS = 10
#: Linux gives a virtual I/O adapter this address, plus the slot.
_VIO = 0x30000000
#: By as many characters of its UDID Linux names a disk.
_ID_CHARACTERS = 32


class DirectFiles:
    """Files that nova-compute's user owns, as of an emulated host."""

    def write(self, path: str, text: str) -> None:
        """Write to a file, and do not wait for somebody who reads it."""
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def readable(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Return a context that does nothing."""
        return contextlib.nullcontext()


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
        files: disk_interfaces.LocalFiles | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._adapter = adapter
        self._root = root
        self._files = files or DirectFiles()
        self._sleep = sleep
        self._lock = threading.Lock()
        # Its uuid, and whether it is a Virtual I/O Server.
        self._found: tuple[str, bool] | None = None

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
            if self._found is None:
                with rest_errors.translated(
                    'finding the management partition'
                ):
                    try:
                        found = partition_tasks.get_mgmt_partition(
                            self._adapter
                        )
                    except pvm.ManagementPartitionNotFoundException:
                        return '', False
                is_server = isinstance(found, virtual_io_server.VIOS)
                self._found = found.uuid, is_server
            return self._found

    def check(self, lpar_uuid: str) -> None:
        """Refuse to read a disk where nova-compute cannot.

        :param lpar_uuid: The LPAR whose disk it is, for messages.
        :raises exception.DiskUnreadable: It does not run on the management
            partition of the host.
        """
        if not self._adapter.traits.local_api:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}',
                reason='nova-compute logs on to the REST API with a password. '
                'Only on the management partition (NovaLink) itself, without '
                '[powervm]rest_username and rest_password, can it read disks',
            )
        if not self.uuid:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}',
                reason='the host does not report exactly one management '
                'partition. Check with `pvmctl lpar list` and `pvmctl vios '
                'list`',
            )

    @contextlib.contextmanager
    def scanned(
        self, slot: int, udid: str
    ) -> Iterator[disk_interfaces.DiskBytes]:
        """Have a disk appear that is mapped to the partition, and open it.

        :param slot: The slot of the client adapter that it is on.
        :param udid: The UDID of the disk.
        :raises exception.DiskUnreadable: It does not appear in time.
        """
        with _readable(udid):
            path = self._wait(
                functools.partial(self._appear, slot, udid), APPEAR_SECONDS
            )
        if path is None:
            raise exception.DiskUnreadable(
                what=f'disk {udid}',
                reason='it is mapped to the management partition at slot '
                f'{slot}, but it did not appear below '
                f'{self._path("dev/disk/by-id")} within {APPEAR_SECONDS} '
                'seconds. See the log of the kernel there',
            )
        with self.opened(path) as found:
            yield found

    @contextlib.contextmanager
    def opened_local(self, path: str) -> Iterator[disk_interfaces.DiskBytes]:
        """Open a disk of the partition itself, by its path there."""
        with self.opened(self._path(path.lstrip('/'))) as found:
            yield found

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[disk_interfaces.DiskBytes]:
        """Open a device or file for reading."""
        with contextlib.ExitStack() as stack:
            with _readable(path):
                stack.enter_context(self._files.readable(path))
                file = stack.enter_context(open(path, 'rb', buffering=0))
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
            if not size:
                raise exception.DiskUnreadable(
                    what=f'disk {path}', reason='it is empty'
                )
            yield disk_interfaces.DiskBytes(size, _Stream(file, size, path))

    def drop(self, udid: str) -> None:
        """Remove the device of a disk that is not mapped any more, if any.

        A scan would not replace it, and reading it fails. One that stays is
        only logged.
        """
        for device in {os.path.realpath(link) for link in self._links(udid)}:
            name = os.path.basename(device)
            path = self._path(f'sys/block/{name}/device/delete')
            try:
                self._files.write(path, '1')
            except FileNotFoundError:
                pass
            except OSError as error:
                LOG.warning(
                    'The device %(device)s of the management partition '
                    'cannot be removed: %(error)s',
                    {'device': device, 'error': error},
                )
        self._wait(
            lambda: None if self._links(udid) else udid, _VANISH_SECONDS
        )

    def _appear(self, slot: int, udid: str) -> str | None:
        """Return the device of a disk; scan its adapter if there is none."""
        pattern = f'sys/bus/vio/devices/{_VIO + slot:x}/host*/scsi_host/host*'
        if not self._links(udid):
            for path in self._glob(f'{pattern}/scan'):
                self._files.write(path, '- - -')
        links = self._links(udid)
        return os.path.realpath(links[0]) if links else None

    def _links(self, udid: str) -> list[str]:
        end = glob.escape(udid[-_ID_CHARACTERS:])
        return self._glob(f'dev/disk/by-id/*{end}')

    def _glob(self, pattern: str) -> list[str]:
        return sorted(
            glob.glob(os.path.join(glob.escape(self._root), pattern))
        )

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _wait(
        self, look: Callable[[], str | None], seconds: float
    ) -> str | None:
        """Look again until there is something; return None without."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda found: found is None),
            stop=tenacity.stop_after_delay(seconds),
            wait=tenacity.wait_exponential(multiplier=0.01, max=1),
            retry_error_callback=lambda state: None,
            sleep=self._sleep,
        )(look)


class _Stream:
    """The bytes of a disk, from its beginning to its end.

    :param file: The disk.
    :param size: Its size in bytes.
    :param path: Where it is, for messages.
    """

    def __init__(self, file: BinaryIO, size: int, path: str) -> None:
        self._file = file
        self._size = self._left = size
        self._path = path

    def read(self, size: int) -> bytes:
        """Read the next bytes; none at the end.

        :raises exception.DiskUnreadable: The disk fails, or ends too early.
        """
        wanted = min(size, self._left)
        with _readable(self._path):
            data = self._file.read(wanted)
        if wanted and not data:
            raise exception.DiskUnreadable(
                what=f'disk {self._path}',
                reason=f'it ends after {self._size - self._left} of '
                f'{self._size} bytes',
            )
        self._left -= len(data)
        return data


@contextlib.contextmanager
def _readable(what: str) -> Iterator[None]:
    """Translate errors of files."""
    try:
        yield
    except OSError as error:
        raise exception.DiskUnreadable(
            what=f'disk {what}', reason=error
        ) from error

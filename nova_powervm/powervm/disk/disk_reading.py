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

"""Reads disks that are lent to the management partition."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tenacity
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.ops import drivers
from nova_powervm.powervm import management_partition
from nova_powervm.powervm.disk import scsi_mappings

LOG = logging.getLogger(__name__)

#: Seconds in which a reading that is cancelled must end.
_CANCEL_SECONDS = 60
_UNDO_TRIES, _UNDO_SECONDS = 3, 1


class Reading:
    """A reading of a root disk.

    :ivar cancelled: Is set to end it.
    :ivar ended: Is set at its end.
    """

    def __init__(self, lpar_uuid: str) -> None:
        self._lpar_uuid = lpar_uuid
        self.cancelled = threading.Event()
        self.ended = threading.Event()

    def of(self, disk: management_partition.OpenDisk) -> drivers.DiskBytes:
        """Return the bytes of a disk, which end when this is cancelled."""
        contents = disk.contents()
        return dataclasses.replace(
            contents, stream=_Stream(self, contents.stream)
        )

    def check(self) -> None:
        """Refuse to go on when this is cancelled.

        :raises exception.ReadingCancelled: It is.
        """
        if self.cancelled.is_set():
            raise exception.ReadingCancelled(
                what=f'root disk of LPAR {self._lpar_uuid}'
            )


class _Stream:
    """The bytes of a disk while nobody cancels the reading."""

    def __init__(self, reading: Reading, stream: drivers.ByteStream) -> None:
        self._reading = reading
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Read the next bytes; see the protocol."""
        self._reading.check()
        return self._stream.read(size)


class DiskReader:
    """Reads the root disks of LPARs, each in one thread at a time.

    :param management: The management partition.
    :param mappings: Lends disks to it.
    """

    def __init__(
        self,
        management: management_partition.ManagementPartition,
        mappings: scsi_mappings.ScsiMappings,
    ) -> None:
        self._management = management
        self._mappings = mappings
        self._lock = threading.Lock()
        self._active: dict[str, Reading] = {}

    @contextlib.contextmanager
    def alone(self, lpar_uuid: str) -> Iterator[Reading]:
        """Keep other threads from reading a root disk.

        :raises exception.RestBusy: Another thread reads it.
        """
        reading = Reading(lpar_uuid)
        with self._lock:
            if lpar_uuid in self._active:
                raise _busy(lpar_uuid)
            self._active[lpar_uuid] = reading
        try:
            yield reading
        finally:
            with self._lock:
                del self._active[lpar_uuid]
            reading.ended.set()

    def cancel(self, lpar_uuid: str) -> None:
        """End the reading of a disk that is to be deleted, if there is one.

        :raises exception.RestBusy: It does not end in time: the receiver of
            the bytes does not go on.
        """
        with self._lock:
            reading = self._active.get(lpar_uuid)
        if reading is None:
            return
        reading.cancelled.set()
        if not reading.ended.wait(_CANCEL_SECONDS):
            raise _busy(lpar_uuid)

    @contextlib.contextmanager
    def lent(
        self,
        lpar_uuid: str,
        servers: Sequence[str],
        element: Any,
        size_gb: float,
        *,
        write: bool = False,
    ) -> Iterator[management_partition.OpenDisk]:
        """Map a disk to the management partition, and open it.

        :param lpar_uuid: The LPAR whose disk it is.
        :param servers: Uuids of the servers that have the disk; the first of
            them that runs maps it.
        :param element: pypowervm's wrapper of the disk.
        :param size_gb: Its size in GB, as the host reports it.
        :param write: Whether to open it for writing, and not for reading.
        """
        # A reading that was killed may have left the device.
        self._management.drop(element.udid)
        with undone(
            f'The disk {element.name} stays mapped to the management '
            'partition until its server is started or deleted, the disk is '
            'read again, or nova-compute is restarted',
            lambda: self._mappings.take_back(lpar_uuid),
        ):
            slot = self._lend(servers, element)
            if slot is None:
                raise _unwritable(element) if write else no_server(lpar_uuid)
            opened = self._management.scanned(
                slot, element.udid, size_gb, write=write
            )
            with opened as disk:
                yield disk

    def _lend(self, servers: Sequence[str], element: Any) -> int | None:
        """Lend a disk; return the slot, or None if no server runs."""
        slots = (self._mappings.lend(server, element) for server in servers)
        return next((slot for slot in slots if slot is not None), None)


def _unwritable(element: Any) -> exception.DiskUnwritable:
    return exception.DiskUnwritable(
        what=exception.PrivateText(f'disk {element.name}', 'disk'),
        reason='no Virtual I/O Server that has it is running',
    )


def _busy(lpar_uuid: str) -> exception.RestBusy:
    return exception.RestBusy(
        action=f'using the root disk of LPAR {lpar_uuid}',
        reason='it is being read for an image',
    )


def no_server(lpar_uuid: str) -> exception.DiskUnreadable:
    """Return the error for a disk whose servers do not run."""
    return exception.DiskUnreadable(
        what=f'root disk of LPAR {lpar_uuid}',
        reason='no Virtual I/O Server that has the disk is running. Start one',
    )


@contextlib.contextmanager
def undone(consequence: str, undo: Callable[[], object]) -> Iterator[None]:
    """Undo something at the end.

    The server is blocked otherwise, so errors that are not worth a second try
    elsewhere get one here. An error of the undoing is raised, or only logged
    if the block has raised another.

    :param consequence: What holds if it cannot be undone.
    """
    tries = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.PowerVMError),
        stop=tenacity.stop_after_attempt(_UNDO_TRIES),
        wait=tenacity.wait_fixed(_UNDO_SECONDS),
        reraise=True,
    )
    try:
        yield
    except BaseException:
        try:
            tries(undo)
        except exception.PowerVMError as error:
            LOG.error(
                '%(consequence)s: %(error)s',
                {'consequence': consequence, 'error': error},
            )
        raise
    tries(undo)

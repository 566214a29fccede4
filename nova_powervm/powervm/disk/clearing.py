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

"""Overwrites what deleted disks have left where a disk is made or enlarged.

It is not known what a Virtual I/O Server does with these bytes, and neither
the REST API nor pypowervm has a call that clears a disk. So a disk is written
to its end before a guest gets it: by its device on the management partition,
or else by an upload. An upload begins at the beginning of the disk, so it
cannot clear the end of a disk that has grown. Nor can it clear with a qcow2
image: it is not known what a Virtual I/O Server writes where that has nothing.
"""

import enum
import os
from collections.abc import Callable
from collections.abc import Iterator

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm import exception
from nova_powervm.powervm import management_partition

LOG = logging.getLogger(__name__)

MIB = 1024**2
_MIB_PER_GB = 1024
_SENT = bytes(64 * 1024)
_WRITTEN = bytes(4 * MIB)


class Way(enum.Enum):
    """How disks are cleared."""

    NONE = enum.auto()
    DEVICE = enum.auto()
    UPLOAD = enum.auto()


def choose_way(
    setting: str,
    management: management_partition.ManagementPartition,
    *,
    is_local: bool,
) -> Way:
    """Return how disks are cleared here.

    :param setting: ``[powervm]disk_clear``.
    :param management: The management partition, to which a disk is lent to be
        cleared. If it is a Virtual I/O Server, no disk can be lent to it, and
        the host tells the path of its own disks only when they are mapped.
    :param is_local: Whether nova-compute runs on it.
    """
    if setting == 'none':
        return Way.NONE
    if is_local and management.uuid and not management.is_server:
        return Way.DEVICE
    return Way.UPLOAD


def size_in_mib(size_gb: float, unit_gb: float) -> int:
    """Return the size of a disk in MiB.

    :param size_gb: Its size in GB, which the host reports with few digits.
    :param unit_gb: The unit of which the size is a multiple; 0 if unknown.
    """
    unit = round(unit_gb * _MIB_PER_GB) or 1
    return round(size_gb * _MIB_PER_GB / unit) * unit


def zeros(count: int) -> Iterator[bytes]:
    """Yield chunks of zeros to be sent to a disk.

    :param count: How many bytes they have together.
    """
    for _ in range(count // len(_SENT)):
        yield _SENT
    yield _SENT[: count % len(_SENT)]


def write_zeros(
    disk: management_partition.OpenDisk,
    start: int,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Overwrite a disk that is open for writing, and wait for the storage.

    :param start: The first byte to overwrite; all after it follow.
    :param check: Is called before each write, and may raise an error.
    :raises exception.DiskUnwritable: The disk fails.
    """
    left = disk.size - start
    LOG.info(
        'Clearing the last %(gb).2f GB of %(path)s.',
        {'gb': left / MIB / _MIB_PER_GB, 'path': disk.path},
    )
    try:
        with timeutils.StopWatch() as watch:
            disk.file.seek(start)
            while left > 0:
                check()
                left -= disk.file.write(_WRITTEN[:left])
            os.fsync(disk.file.fileno())
    except OSError as error:
        raise exception.DiskUnwritable(
            what=exception.PrivateText(f'disk {disk.path}', 'disk'),
            reason=error,
        ) from error
    LOG.info(
        'Cleared %(path)s in %(seconds).1f seconds.',
        {'path': disk.path, 'seconds': watch.elapsed()},
    )

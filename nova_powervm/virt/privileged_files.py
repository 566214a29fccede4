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

"""Files of the management partition that only root can access."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

import nova.privsep.path
from nova import exception as nova_exception

from nova_powervm.ops import drivers
from nova_powervm.powervm import management_partition

_ROOT = 0


class PrivilegedFiles(drivers.LocalFiles):
    """Accesses files by Nova's privilege separation."""

    def __init__(self) -> None:
        # While one thread owns a device, others must not take it for one that
        # a kill has left with this owner.
        self._lock = threading.Lock()

    def write(self, path: str, text: str) -> None:
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        try:
            nova.privsep.path.writefile(path, 'w', text)
        except nova_exception.FileNotFound as error:
            # It has just been removed.
            raise FileNotFoundError(path) from error

    def open(self, path: str, *, write: bool = False) -> BinaryIO:
        """Own a device or a file for this moment only.

        The owner can open it, whatever its group and the groups of
        nova-compute's user are.
        """
        with self._lock, _accessible(path, os.W_OK if write else os.R_OK):
            return management_partition.open_disk(path, write=write)


@contextlib.contextmanager
def _accessible(path: str, access: int) -> Iterator[None]:
    """Own a device or a file during the block, if this process needs that.

    A device belongs to root. If it belongs to nova-compute's user, a kill
    during such a block has left it so: give it back to root.
    """
    user, owner = os.getuid(), os.lstat(path).st_uid
    is_device = management_partition.is_block_device(path)
    is_left = is_device and user == owner != _ROOT
    if os.access(path, access) and not is_left:
        yield
        return
    _give(path, user)
    try:
        yield
    finally:
        # A device may have been removed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            _give(path, _ROOT if is_left else owner)


def _give(path: str, user: int) -> None:
    try:
        nova.privsep.path.chown(path, uid=user)
    except nova_exception.FileNotFound as error:
        raise FileNotFoundError(path) from error

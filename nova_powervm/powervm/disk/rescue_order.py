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

"""Connects the storage of LPARs in the order of a rescue, or in its own."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks
from nova_powervm.powervm.disk import scsi_mappings


def check(
    mappings: scsi_mappings.ScsiMappings,
    servers: Sequence[str],
    lpar_uuid: str,
) -> None:
    """Refuse to unmap what could not be mapped again.

    :raises exception.RestBusy: A server does not run.
    """
    if not all(map(mappings.is_running, servers)):
        raise exception.RestBusy(
            action=f'connecting the disks of LPAR {lpar_uuid} anew',
            reason='a Virtual I/O Server that has them is not running',
        )


def reconnect(
    mappings: scsi_mappings.ScsiMappings,
    servers: Sequence[str],
    lpar_uuid: str,
    stored: Iterable[stored_disks.Stored],
    attach: Callable[[str, Sequence[stored_disks.Stored]], None],
    *,
    rescued: bool,
) -> None:
    """Connect the storage of an LPAR that is off anew.

    :param servers: Uuids of the servers that have its disks.
    :param lpar_uuid: Upper-case PowerVM uuid.
    :param stored: All of its disks and media.
    :param attach: Connects storage.
    :param rescued: Whether the rescue disk comes first; otherwise it is left
        out.
    :raises exception.RestBusy: A server does not run; nothing was changed.
    """
    check(mappings, servers, lpar_uuid)
    chosen = [
        item
        for item in stored
        if storage.is_connected(item.name, rescued=rescued)
    ]
    # All of it: each disk gets another virtual slot.
    mappings.detach(lpar_uuid, ours_only=True)
    attach(lpar_uuid, chosen)

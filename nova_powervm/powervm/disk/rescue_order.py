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

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import scsi_mappings

#: Uuid of each server -> pypowervm's wrappers of what it has of an LPAR.
Elements = Mapping[str, Sequence[Any]]


def check(
    mappings: scsi_mappings.ScsiMappings, elements: Elements, lpar_uuid: str
) -> None:
    """Refuse to unmap what could not be mapped again.

    :param elements: All storage of the LPAR.
    :param lpar_uuid: Upper-case PowerVM uuid.
    :raises exception.RestBusy: A server does not run.
    :raises exception.RestError: Some storage was not found.
    """
    action = f'connecting the disks of LPAR {lpar_uuid} anew'
    stopped = [*filter(None, map(mappings.name_of_stopped, elements))]
    if stopped:
        raise exception.RestBusy(
            action=action,
            reason=f'{" and ".join(stopped)}, which serves its disks, does not'
            ' run. Start the Virtual I/O Server, and try again; the guest was '
            'left as it was',
        )
    found = {
        storage.base_name(element.name)
        for present in elements.values()
        for element in present
    }
    for name in sorted(mappings.names(lpar_uuid) - found):
        if storage.belongs_to(name, lpar_uuid):
            raise exception.RestError(
                action=action,
                reason=f'{name} is connected, but not where the options of '
                '[powervm] say that new disks are made',
            )


def reconnect(
    mappings: scsi_mappings.ScsiMappings,
    elements: Elements,
    lpar_uuid: str,
    *,
    rescued: bool,
) -> None:
    """Connect the storage of an LPAR that is off anew.

    :param elements: All storage of the LPAR.
    :param lpar_uuid: Upper-case PowerVM uuid.
    :param rescued: Whether the rescue disk comes first; otherwise it is left
        out.
    :raises exception.RestError: As :func:`check`; nothing was changed.
    """
    check(mappings, elements, lpar_uuid)
    # All of it: each disk gets another virtual slot.
    mappings.detach(lpar_uuid, ours_only=True)
    for number, (server, present) in enumerate(elements.items()):
        chosen = [
            element
            for element in present
            if storage.is_connected(element.name, rescued=rescued)
        ]
        if not mappings.attach(server, lpar_uuid, chosen, number):
            raise exception.RestBusy(
                action=f'connecting the disks of LPAR {lpar_uuid} anew',
                reason='a Virtual I/O Server has stopped meanwhile',
            )

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

"""The host's physical I/O slots as the driver sees them."""

import dataclasses
import enum
from collections.abc import Collection
from collections.abc import Iterable

from nova_powervm import exception

#: The PCI values that PowerVM reports for a slot without an adapter.
EMPTY_ID = 0xFFFF
_NO_DEVICE = (None, 0, EMPTY_ID)
#: The code of the reason that a partition has a slot.
OWNED = 'owned'


class PartitionKind(enum.StrEnum):
    """What runs in a partition that owns a slot."""

    CLIENT = 'partition'
    VIOS = 'VIOS'
    MANAGEMENT = 'management partition'


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """The partition that a slot is assigned to.

    :param kind: What runs in it.
    :param partition_id: PowerVM's small integer id, if reported.
    :param uuid: Upper-case PowerVM uuid, if reported.
    :param name: Partition name, if reported.
    """

    kind: PartitionKind
    partition_id: int | None = None
    uuid: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        label = self.name or self.uuid or f'id {self.partition_id}'
        return f'{self.kind} {label}'


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """One physical I/O slot (REST element ``IOSlot`` of a ManagedSystem).

    PCI values are integers, or None where the host does not report them.

    :param drc_index: Dynamic reconfiguration connector index, the slot's
        name within the host.
    :param drc_name: Physical location code.
    :param sriov: True if the adapter is in SR-IOV mode: then the hypervisor
        owns it, although no partition does.
    :param assignable: False if the host reports that no partition can own it.
    :param bus_group_required: True if all slots of its bus must move together;
        passed back to PowerVM unchanged.
    """

    drc_index: int
    drc_name: str | None = None
    description: str | None = None
    vendor_id: int | None = None
    device_id: int | None = None
    subsys_vendor_id: int | None = None
    subsys_device_id: int | None = None
    pci_class: int | None = None
    revision_id: int | None = None
    owner: Owner | None = None
    sriov: bool = False
    assignable: bool = True
    bus_group_required: bool = False

    @property
    def drc_hex(self) -> str:
        """The DRC index as eight upper-case hex digits."""
        return format_drc_index(self.drc_index)

    @property
    def owner_lpar(self) -> str:
        """The owner's PowerVM uuid in upper case, or ''."""
        return ((self.owner and self.owner.uuid) or '').upper()

    @property
    def is_empty(self) -> bool:
        """Whether the slot holds no adapter.

        A PCI class alone does not say so: a guest can change that of its card.
        """
        if self.vendor_id:
            return self.vendor_id == EMPTY_ID
        if (self.description or '').strip().lower() == 'empty slot':
            return True
        # A real host described such a slot as "Unknown", with zeros as ids.
        return self.pci_class == EMPTY_ID and self.device_id in _NO_DEVICE

    def __str__(self) -> str:
        where = f' at {self.drc_name}' if self.drc_name else ''
        description = f' ({self.description})' if self.description else ''
        return f'slot {self.drc_hex}{where}{description}'


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why a slot is not offered.

    :param code: Stable name of the reason.
    :param text: The reason in words, to follow "because".
    """

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


def format_drc_index(drc_index: int) -> str:
    """Format a DRC index as in the names of providers and traits."""
    return f'{drc_index:08X}'


def format_drc_indexes(drc_indexes: Iterable[int]) -> exception.Listing:
    """Format DRC indexes as a sorted list, separated by commas."""
    return exception.Listing(map(format_drc_index, sorted(drc_indexes)))


def duplicated_indexes(slots: Iterable[Slot]) -> frozenset[int]:
    """Find the DRC indexes that the host reports more than once."""
    seen: set[int] = set()
    twice: set[int] = set()
    for slot in slots:
        (twice if slot.drc_index in seen else seen).add(slot.drc_index)
    return frozenset(twice)


def by_index(slots: Collection[Slot]) -> dict[int, Slot]:
    """Return slots by their DRC indexes, without indexes reported repeatedly.

    Which of several slots with one index a provider stands for is unknown.
    """
    twice = duplicated_indexes(slots)
    return {
        slot.drc_index: slot for slot in slots if slot.drc_index not in twice
    }


def reason_unavailable(
    slot: Slot,
    instance_lpars: Collection[str],
    duplicated: Collection[int] = (),
) -> Reason | None:
    """Return why a slot cannot be offered even if the inventory file has it.

    A device in doubt is not offered. A slot that an LPAR of an instance owns
    can be offered, because its provider is allocated.

    :param slot: The slot to judge.
    :param instance_lpars: Upper-case uuids of the LPARs that belong to
        instances of Nova.
    :param duplicated: DRC indexes that the host reports more than once.
    :returns: The first reason that applies, or None.
    """
    if slot.is_empty:
        return Reason('empty', 'the slot is empty')
    if slot.drc_index in duplicated:
        return Reason(
            'duplicate', 'the host reports its DRC index more than once'
        )
    if slot.sriov:
        return Reason(
            'sriov', 'the adapter is in SR-IOV mode: the hypervisor owns it'
        )
    if slot.owner is not None and not _owned_by_instance(
        slot.owner, instance_lpars
    ):
        return Reason(OWNED, f'it is owned by {slot.owner}')
    if not slot.assignable:
        return Reason(
            'unassignable', 'the host does not allow partitions to own it'
        )
    return None


def _owned_by_instance(owner: Owner, instance_lpars: Collection[str]) -> bool:
    return (
        owner.kind is PartitionKind.CLIENT
        and owner.uuid is not None
        and owner.uuid.upper() in instance_lpars
    )

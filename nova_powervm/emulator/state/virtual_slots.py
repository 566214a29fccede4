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


"""The virtual slots of a partition: where its virtual adapters sit.

Every kind of virtual adapter shares them. This module asks all of them and
knows none: adapters that are resources of their own are children of their
partition with a ``VirtualSlotNumber``; those that a Virtual I/O Server's
content lists (mappings, trunk adapters) say beside it, as
``LocalPartitionID``, whose they are.
"""

import dataclasses
import itertools
from collections.abc import Collection

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import resource as resource_module

Host = host_module.Host
Partition = partition_module.Partition

# 0 and 1 are the virtual serial adapters.
FIRST = 2
NUMBER = 'VirtualSlotNumber'
NEXT = 'UseNextAvailableSlotID'
NEXT_HIGH = 'UseNextAvailableHighSlotID'
_LIMIT = f'{partition_module.IO}/MaximumVirtualIOSlots'
_USUAL_LIMIT = 64


@dataclasses.dataclass(frozen=True)
class Draft:
    """A section of a VIOS's content that is to replace the present one."""

    vios: Partition
    section: content.Element


def limit(partition: Partition) -> int:
    """Return MaximumVirtualIOSlots; slot numbers are below it."""
    return partition.integer(_LIMIT, _USUAL_LIMIT)


def taken(
    host: Host, partition: Partition, draft: Draft | None = None
) -> set[int]:
    """Return the virtual slots of a partition that have an adapter.

    :param draft: a change that is being made.
    """
    slots = {
        child.integer(NUMBER)
        for child in host.of_type(resource_module.Resource, partition)
        if content.find(child.element, NUMBER) is not None
    }
    for vios in host.of_type(Partition, partition.system):
        if vios.kind == partition_module.VIOS:
            slots |= _listed(vios, partition.id, draft)
    return slots


def claim(
    host: Host,
    partition: Partition,
    wanted: int | None = None,
    draft: Draft | None = None,
    high: bool = False,
) -> int:
    """Return a slot for a new adapter: the one that is wanted or the next.

    :param wanted: VirtualSlotNumber as the client sent it, or None.
    :param draft: a change that is being made.
    :param high: the next one is the highest that is free.
    :raises errors.Conflict: it is taken, beyond the limit, or none is free.
    """
    used = taken(host, partition, draft)
    slots = range(FIRST, limit(partition))
    if wanted is None:
        free = [slot for slot in slots if slot not in used]
        if not free:
            raise errors.Conflict(
                f'The partition {partition.name!r} has no free virtual slot '
                f'below {limit(partition)}.'
            )
        return free[-1] if high else free[0]
    if wanted not in slots:
        raise errors.Conflict(
            f'{wanted} is not a virtual slot of the partition '
            f'{partition.name!r}: they are {FIRST} to {slots.stop - 1}.'
        )
    if wanted in used:
        raise errors.Conflict(
            f'The virtual slot {wanted} of the partition {partition.name!r} '
            'is taken.'
        )
    return wanted


def choose(
    host: Host,
    partition: Partition,
    adapter: content.Element,
    promised: Collection[int] = (),
) -> int:
    """Return the slot for an adapter that a client wants to have.

    :param adapter: says VirtualSlotNumber, or that the next slot is to be
        used, or the next that is higher than all that are taken.
    :param promised: slots that the same request takes for others.
    :raises errors.RestError: the slot is no slot, taken, or all are.
    """
    used = taken(host, partition) | set(promised)
    if content.boolean(adapter, NEXT_HIGH):
        return _next(partition, used, max((FIRST - 1, *used)) + 1)
    wanted = content.text(adapter, NUMBER)
    if wanted and not content.boolean(adapter, NEXT):
        return _explicit(partition, used, wanted)
    return _next(partition, used, FIRST)


def _explicit(partition: Partition, used: set[int], wanted: str) -> int:
    last = limit(partition) - 1
    if not wanted.isdecimal() or not FIRST <= int(wanted) <= last:
        raise errors.BadRequest(
            f'{wanted!r} is not a virtual slot of the partition '
            f'{partition.name!r}: these are {FIRST} to {last}.'
        )
    if int(wanted) in used:
        raise errors.Conflict(
            f'The virtual slot {wanted} of the partition {partition.name!r} '
            'is taken.'
        )
    return int(wanted)


def _next(partition: Partition, used: set[int], start: int) -> int:
    """Return the first free slot from one on, else the lowest of all."""
    end = limit(partition)
    for slot in itertools.chain(range(start, end), range(FIRST, end)):
        if slot not in used:
            return slot
    raise errors.Conflict(
        f'The partition {partition.name!r} has no free virtual slot: '
        f'MaximumVirtualIOSlots is {end}.'
    )


def _listed(
    vios: Partition, partition_id: int, draft: Draft | None
) -> set[int]:
    """Return a partition's slots that a VIOS's content tells of."""
    slots = set()
    for child in vios.element:
        section = child
        if (
            draft is not None
            and draft.vios is vios
            and content.local_name(draft.section) == content.local_name(child)
        ):
            section = draft.section
        for number in section.iter(f'{{*}}{NUMBER}'):
            adapter = number.getparent()
            if content.integer(adapter, 'LocalPartitionID') == partition_id:
                slots.add(content.integer(adapter, NUMBER))
    return slots

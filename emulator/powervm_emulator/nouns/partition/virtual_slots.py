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

"""Which virtual slots of a partition are taken.

Virtual adapters of every kind share the numbers below the partition's
MaximumVirtualIOSlots. The module of each kind registers a function that
names the slots of its adapters; nobody else knows of all kinds.
"""

import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

Partition = partition_module.Partition
Host = host_module.Host
Asker = Callable[[Host, Partition], Iterable[int]]
NUMBER = 'VirtualSlotNumber'
NEXT = 'UseNextAvailableSlotID'
NEXT_HIGH = 'UseNextAvailableHighSlotID'
# Slots 0 and 1 are the virtual serial adapters of every partition.
FIRST = 2
_ASKERS: list[Asker] = []


def register(asker: Asker) -> Asker:
    """Let a function say which slots of a partition its adapters take."""
    _ASKERS.append(asker)
    return asker


def taken(host: Host, partition: Partition) -> set[int]:
    """Return the numbers of the slots that have an adapter of any kind."""
    return {slot for asker in _ASKERS for slot in asker(host, partition)}


def free(host: Host, partition: Partition) -> set[int]:
    """Return the numbers of the slots that have none."""
    return set(range(FIRST, limit(partition))) - taken(host, partition)


def limit(partition: Partition) -> int:
    """Return the first number that is beyond the partition's slots."""
    return partition.integer(partition_module.VIRTUAL_SLOTS, 64)


def location(partition: Partition, slot: int) -> str:
    """Return the location code of a slot."""
    machine = '.'.join(
        partition.system.text(f'{managed_system.MTMS}/{name}')
        for name in ('MachineType', 'Model', 'SerialNumber')
    )
    return f'U{machine}-V{partition.id}-C{slot}'


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
    return pick(partition, adapter, taken(host, partition) | set(promised))


def pick(
    partition: Partition, adapter: content.Element, used: set[int]
) -> int:
    """Return the slot for an adapter, as :func:`choose` does.

    :param used: the slots that are taken.
    :raises errors.RestError: the slot is no slot, taken, or all are.
    """
    if content.boolean(adapter, NEXT_HIGH):
        return _next(partition, used, max((FIRST - 1, *used)) + 1)
    wanted = content.text(adapter, NUMBER)
    if wanted and not content.boolean(adapter, NEXT):
        return _explicit(partition, used, wanted)
    return _next(partition, used, FIRST)


def _explicit(partition: Partition, used: set[int], wanted: str) -> int:
    last = limit(partition) - 1
    if not content.is_whole(wanted) or not FIRST <= int(wanted) <= last:
        raise errors.Refused(
            f'{wanted!r} is not a virtual slot of the partition '
            f'{partition.name!r}: these are {FIRST} to {last}.'
        )
    if int(wanted) in used:
        raise errors.Refused(
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
    raise errors.Refused(
        f'The partition {partition.name!r} has no free virtual slot: '
        f'MaximumVirtualIOSlots is {end}.'
    )

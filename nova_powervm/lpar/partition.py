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

"""The state, size and identity of an LPAR, and those of its instance."""

import dataclasses
import enum
import hashlib
import re
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import slots

#: PowerVM's limit on the length of a partition's name.
LPAR_NAME_LIMIT = 31
_REFUSED = re.compile(r'[^A-Za-z0-9._ -]')
#: PowerVM hands out processing units in hundredths.
_UNITS_DIGITS = 2


class Power(enum.StrEnum):
    """The power state of an instance."""

    RUNNING = 'running'
    OFF = 'off'
    SUSPENDED = 'suspended'
    FAILED = 'failed'
    UNKNOWN = 'unknown'


#: PowerVM's states (REST type LogicalPartitionState) in lower case.
_MEANING = {
    'running': Power.RUNNING,
    'starting': Power.RUNNING,
    'open firmware': Power.RUNNING,
    'hardware discovery': Power.RUNNING,
    'shutting down': Power.RUNNING,
    'migrating running': Power.RUNNING,
    'suspending': Power.RUNNING,
    'resuming': Power.RUNNING,
    'not activated': Power.OFF,
    'migrating not active': Power.OFF,
    'suspended': Power.SUSPENDED,
    'error': Power.FAILED,
    'not available': Power.UNKNOWN,
    'unknown': Power.UNKNOWN,
}


def power(state: str) -> Power:
    """Return the power state for a state of PowerVM, which may be unknown."""
    return _MEANING.get(state.strip().lower(), Power.UNKNOWN)


@dataclasses.dataclass(frozen=True, slots=True)
class SlotAssignment:
    """A physical slot to give to an LPAR.

    :param drc_index: The slot.
    :param bus_group_required: The host's own value, passed back unchanged.
    """

    drc_index: int
    bus_group_required: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """The memory and processors of an LPAR.

    :param memory_mb: Memory in MiB, a multiple of the region size.
    :param vcpus: Number of virtual processors.
    :param proc_units: Processing units for all of them.
    """

    memory_mb: int
    vcpus: int
    proc_units: float

    def __str__(self) -> str:
        return (
            f'{self.memory_mb} MiB, {self.vcpus} virtual processors, '
            f'{self.proc_units:g} processing units'
        )

    def differences(self, wanted: 'Sizes') -> list[str]:
        """Describe how these sizes differ from those wanted."""
        pairs = (
            ('memory', wanted.memory_mb, self.memory_mb),
            ('virtual processors', wanted.vcpus, self.vcpus),
            ('processing units', wanted.proc_units, self.proc_units),
        )
        return [
            f'{what} {have} instead of {want}'
            for what, want, have in pairs
            if want != have
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionSpec:
    """What the document of an LPAR is to say.

    :param uuid: Upper-case PowerVM uuid.
    :param name: At most 31 characters; only a new LPAR gets it.
    :param sizes: None to leave those of an LPAR as they are.
    :param slots: The physical slots. Each is required, so PowerVM does not
        start the LPAR without it.
    :param freed: DRC indexes of the slots that the LPAR gives up, for a move.
    """

    uuid: str
    name: str
    sizes: Sizes | None
    slots: tuple[SlotAssignment, ...] = ()
    freed: frozenset[int] = frozenset()

    @property
    def drc_indexes(self) -> frozenset[int]:
        """The DRC indexes of the slots."""
        return frozenset(slot.drc_index for slot in self.slots)


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """An LPAR as the host reports it.

    :param uuid: Upper-case PowerVM uuid.
    :param name: Its name.
    :param state: Its state as the host reports it, e.g. 'running'.
    :param sizes: Its configured memory and processors.
    :param slots: DRC index of each physical slot -> whether it is required.
    :param handle: An opaque object for the implementation that read it.
    """

    uuid: str
    name: str
    state: str
    sizes: Sizes
    slots: dict[int, bool]
    handle: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def power(self) -> Power:
        """Its power state."""
        return power(self.state)

    @property
    def is_active(self) -> bool:
        """Whether it is not off."""
        return self.power is not Power.OFF

    def differences(self, spec: PartitionSpec) -> list[str]:
        """Describe how the LPAR differs from a spec.

        Its name may: an administrator can change it.
        """
        sizes = self.sizes.differences(spec.sizes) if spec.sizes else []
        return sizes + slot_differences(self.slots, spec.drc_indexes)


def slot_differences(
    found: Mapping[int, bool], wanted: Collection[int]
) -> list[str]:
    """Describe how an LPAR's slots differ from those that it should have.

    :param found: DRC index of each slot -> whether it is required.
    :param wanted: DRC indexes.
    """
    kinds = (
        ('is missing', set(wanted) - set(found)),
        ('was not asked for', set(found) - set(wanted)),
        ('is not required', {i for i in wanted if found.get(i) is False}),
    )
    return [
        f'slot {slots.format_drc_index(index)} {what}'
        for what, indexes in kinds
        for index in sorted(indexes)
    ]


def lpar_uuid(instance_uuid: str) -> str:
    """Derive the LPAR's uuid from the instance's.

    PowerVM requires the first bit to be zero, so the mapping is not
    reversible; see :func:`instance_uuids`.

    :returns: The uuid in upper case, as PowerVM writes it.
    """
    first = f'{int(instance_uuid[0], 16) & 7:x}'
    return (first + instance_uuid[1:]).upper()


def instance_uuids(lpar_uuid: str) -> tuple[str, str]:
    """Return the two possible instance uuids of an LPAR's uuid."""
    low = lpar_uuid.lower()
    return low, f'{int(low[0], 16) | 8:x}{low[1:]}'


def lpar_name(instance_name: str) -> str:
    """Adapt an instance's name (not its display name) to PowerVM's rules.

    A name that is too long is cut and gets a digest, so that names with a long
    common beginning stay different.

    :returns: At most 31 characters that PowerVM accepts.
    """
    name = _REFUSED.sub('_', instance_name)
    if len(name) <= LPAR_NAME_LIMIT:
        return name
    digest = hashlib.sha256(instance_name.encode()).hexdigest()[:8]
    return f'{name[: LPAR_NAME_LIMIT - len(digest) - 1]}-{digest}'


def check_memory(memory_mb: int, region_mb: int) -> None:
    """Refuse a memory size that PowerVM does not support.

    :param memory_mb: The flavor's memory in MiB.
    :param region_mb: The host's memory region size in MiB.
    :raises exception.MemorySizeRefused: It is not a multiple of the region
        size. The message has the nearest valid sizes.
    """
    if region_mb <= 0 or memory_mb % region_mb == 0:
        return
    below = memory_mb - memory_mb % region_mb
    choices = [size for size in (below, below + region_mb) if size > 0]
    raise exception.MemorySizeRefused(
        memory_mb=memory_mb,
        region_mb=region_mb,
        choices=' or '.join(map(str, choices)),
    )


def proc_units(vcpus: int, factor: float, minimum_per_vcpu: float) -> float:
    """Calculate the processing units of an LPAR.

    :param vcpus: The flavor's vCPUs, each a virtual processor.
    :param factor: Processing units per virtual processor.
    :param minimum_per_vcpu: The host's minimum for each virtual processor.
    :returns: Processing units, rounded to hundredths.
    :raises exception.ProcessorsRefused: The factor is below the minimum.
    """
    units = round(vcpus * factor, _UNITS_DIGITS)
    if units < round(vcpus * minimum_per_vcpu, _UNITS_DIGITS):
        raise exception.ProcessorsRefused(
            vcpus=vcpus, factor=factor, units=units, minimum=minimum_per_vcpu
        )
    return units

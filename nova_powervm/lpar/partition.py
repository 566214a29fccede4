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

"""The state, settings and identity of an LPAR, and how to derive them."""

import dataclasses
import enum
import hashlib
import re
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import slots
from nova_powervm.lpar import settings as lpar_settings

#: PowerVM's limit on the length of a partition's name.
LPAR_NAME_LIMIT = 31
_REFUSED = re.compile(r'[^A-Za-z0-9._ -]')


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
class PartitionSpec:
    """The contents that the document of an LPAR is to have.

    :param uuid: Upper-case PowerVM uuid.
    :param name: At most 31 characters; only a new LPAR gets it.
    :param settings: Its settings; None to leave an LPAR's settings as they
        are.
    :param slots: The physical slots. Each is required, so PowerVM does not
        start the LPAR without it.
    :param changed: The names of the settings to change on an LPAR that exists.
    :param freed: DRC indexes of the slots that the LPAR gives up, for a move.
    :param nvram: The NVRAM of a new LPAR; None for the firmware's own.
    """

    uuid: str
    name: str
    settings: lpar_settings.Settings | None
    slots: tuple[SlotAssignment, ...] = ()
    changed: frozenset[str] = frozenset()
    freed: frozenset[int] = frozenset()
    nvram: str | None = dataclasses.field(default=None, repr=False)

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
    :param settings: Its memory, processors and further settings.
    :param slots: DRC index of each physical slot -> whether it is required.
    :param handle: An opaque object for the implementation that read it.
    :param reference_code: What its operator panel shows, such as ``B2001230``
        or ``Linux ppc64le``; empty if the panel shows nothing.
    :param virtual_slots: How many virtual slots it has, counted from 0.
    :param obstacle: Why its adapters cannot be changed now; empty if they can.
    :param migration_state: PowerVM's state of its live migration.
    """

    uuid: str
    name: str
    state: str
    settings: lpar_settings.Settings
    slots: dict[int, bool]
    handle: Any = dataclasses.field(default=None, compare=False, repr=False)
    reference_code: str = dataclasses.field(default='', compare=False)
    virtual_slots: int = dataclasses.field(default=64, compare=False)
    obstacle: str = dataclasses.field(default='', compare=False)
    migration_state: str = dataclasses.field(
        default='Not_Migrating', compare=False
    )

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

        Its name may differ: an administrator can change it.
        """
        settings = (
            self.settings.differences(spec.settings, spec.changed)
            if spec.settings
            else []
        )
        return settings + slot_differences(self.slots, spec.drc_indexes)


def slot_differences(
    present: Mapping[int, bool], wanted: Collection[int]
) -> list[str]:
    """Describe how the slots of an LPAR differ from those that it should have.

    :param present: DRC index of each slot -> whether it is required.
    :param wanted: The DRC indexes that it should have.
    """
    kinds = (
        ('is missing', set(wanted) - set(present)),
        ('was not asked for', set(present) - set(wanted)),
        ('is not required', {i for i in wanted if present.get(i) is False}),
    )
    return [
        f'slot {slots.format_drc_index(index)} {difference}'
        for difference, indexes in kinds
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

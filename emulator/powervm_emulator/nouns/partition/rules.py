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

"""What hardware refuses, as named checks.

Each check returns if the request is possible and raises otherwise, with a
message that names the thing that is in the way.
"""

import re

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import habits
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

System = managed_system.System
Element = content.Element
Partition = partition_module.Partition
Host = host_module.Host


MAX_NAME = 31
#: The most partitions of a system that does not say it.
MAX_ID = 65535
MIN_SLOTS = 2
MAX_SLOTS = 65534
_NAME = re.compile(r"""[ -~]+""")
_NOT_OF_NAMES = frozenset('()\\<>*$&?|[]\'"`')
# Processor units are hundredths; comparing them needs no more than this.
_EPSILON = 0.001
# What an active partition can change within the range of its last boot: where
# it asks for it, where the range is, and how both are called.
_RANGES = (
    (
        f'{partition_module.MEMORY}/DesiredMemory',
        partition_module.MEMORY,
        'Memory',
        'MB of memory',
    ),
    (
        f'{partition_module.SHARED}/DesiredVirtualProcessors',
        partition_module.CURRENT_SHARED,
        'VirtualProcessors',
        'virtual processors',
    ),
    (
        f'{partition_module.SHARED}/DesiredProcessingUnits',
        partition_module.CURRENT_SHARED,
        'ProcessingUnits',
        'processor units',
    ),
    (
        f'{partition_module.DEDICATED}/DesiredProcessors',
        partition_module.CURRENT_DEDICATED,
        'Processors',
        'dedicated processors',
    ),
)


def check_name(host: Host, system: System, name: str, uuid: str) -> None:
    """Names are of legal characters, not too long and unique on the system.

    The characters are those that pypowervm knows.
    """
    if not 1 <= len(name) <= MAX_NAME:
        raise errors.Refused(
            f'The partition name {name!r} does not have 1 to {MAX_NAME} '
            'characters.'
        )
    if not _NAME.fullmatch(name) or _NOT_OF_NAMES.intersection(name):
        raise errors.Refused(
            f'The partition name {name!r} has characters other than those of '
            f'ASCII, or one of {" ".join(sorted(_NOT_OF_NAMES))}'
        )
    for other in host.of_type(Partition, system):
        if other.name == name and other.uuid.upper() != uuid.upper():
            raise errors.Refused(
                f'[HSCL05DE The partition name {name!r} is in use by the '
                f'partition with the id {other.id}.]'
            )


def check_id(host: Host, system: System, partition_id: int) -> None:
    """Ids are within the partitions of the system and unique there."""
    most = system.integer('MaximumPartitions', MAX_ID)
    if not 1 <= partition_id <= most:
        raise errors.Refused(
            f'{partition_id} is not a PartitionID: these are 1 to {most}.'
        )
    for other in host.of_type(Partition, system):
        if other.id == partition_id:
            raise errors.Refused(
                f'The partition id {partition_id} is in use by {other.name!r}.'
            )


def check_uuid(host: Host, uuid: str) -> None:
    """Uuids are unique on the host and have their top bit clear."""
    for kind in partition_module.KINDS:
        if host.find(kind, uuid) is not None:
            raise errors.Refused(f'A partition with the uuid {uuid} exists.')
    if uuid[:1].lower() in '89abcdef':
        raise errors.Refused(
            f'The partition uuid {uuid} has its most significant bit set.'
        )


def check_type(kind: str, type_: str) -> None:
    """A LogicalPartition is not a VIOS, and the type is a known one."""
    if type_ not in partition_module.TYPES:
        raise errors.Refused(f'{type_!r} is not a partition type.')
    is_vios = type_ == partition_module.VIOS_TYPE
    if is_vios != (kind == partition_module.VIOS):
        raise errors.Refused(
            f'A {kind} cannot have the partition type {type_!r}.',
            'REST0140',
        )


def check_memory(system: System, element: Element) -> None:
    """Minimum, desired and maximum are in order and whole regions."""
    section = f'{partition_module.MEMORY}/'
    desired = content.integer(element, f'{section}DesiredMemory')
    minimum = content.integer(element, f'{section}MinimumMemory', desired)
    maximum = content.integer(element, f'{section}MaximumMemory', desired)
    if not 0 < minimum <= desired <= maximum:
        raise errors.Refused(
            f'Memory of {minimum} minimum, {desired} desired and {maximum} '
            'MB maximum is not in order.',
            'REST0264',
        )
    for value in (minimum, desired, maximum):
        if value % system.region_size:
            raise errors.Refused(
                f'{value} MB of memory is not a multiple of the memory '
                f'region size, {system.region_size} MB.'
            )


def check_virtual_slots(element: Element) -> None:
    """The number of virtual slots is one that pypowervm knows as legal."""
    count = content.integer(element, partition_module.VIRTUAL_SLOTS, MIN_SLOTS)
    if not MIN_SLOTS <= count <= MAX_SLOTS:
        raise errors.Refused(
            f'{count} are not MaximumVirtualIOSlots: these are {MIN_SLOTS} '
            f'to {MAX_SLOTS}.'
        )


def check_compatibility(system: System, element: Element) -> None:
    """The processor compatibility mode is one that the system has."""
    mode = content.text(element, partition_module.COMPATIBILITY)
    known = system.compatibility_modes
    if mode and known and mode not in known:
        raise errors.Refused(
            f'The system does not support the processor compatibility mode '
            f'{mode}.'
        )


def check_remote_restart(
    system: System, element: Element, present: Partition | None = None
) -> None:
    """Simplified remote restart is possible, and can change now.

    :param present: the partition, if it exists.
    """
    wanted = content.boolean(element, partition_module.REMOTE_RESTART)
    if wanted and not system.can_restart_remotely:
        raise errors.Refused(
            'The system does not support the simplified remote restart of '
            'partitions.'
        )
    active = present is not None and present.is_active
    if active and not system.can_toggle_remote_restart:
        raise errors.Refused(
            'The system does not support a change of simplified remote '
            'restart of an active partition.'
        )


def check_secure_boot(system: System, element: Element) -> None:
    """The system and the type of the partition support secure boot."""
    policy = content.integer(element, partition_module.SECURE_BOOT)
    type_ = content.text(element, 'PartitionType')
    if policy and not system.can_boot_securely:
        raise errors.Refused('The system does not support secure boot.')
    if policy and type_ == partition_module.IBM_I:
        raise errors.Refused(
            f'A partition of the type {type_} does not support secure boot.'
        )


def check_current_range(partition: Partition, element: Element) -> None:
    """What an active partition asks for is within what it has booted with."""
    if not partition.is_active:
        return
    for path, where, name, what in _RANGES:
        desired = content.number(element, path)
        low = partition.number(f'{where}/CurrentMinimum{name}', desired)
        high = partition.number(f'{where}/CurrentMaximum{name}', desired)
        if not low - _EPSILON <= desired <= high + _EPSILON:
            raise errors.Refused(
                f'{desired:g} {what} are not between the {low:g} and '
                f'{high:g} that the partition {partition.name!r} can have '
                'until it is activated again.'
            )


def check_capacity(
    host: Host,
    system: System,
    element: Element,
    present: Partition | None = None,
) -> None:
    """What the partition asks for is free on the system.

    Free is what no active partition holds, less what the partitions that are
    not active have been promised: a partition that was created can always be
    activated.

    :param element: the content that is asked for.
    :param present: the partition, if it exists; what it has counts as free.
    """
    free = system.available
    for other in host.of_type(Partition, system):
        if other is present:
            free += other.held
        elif not other.is_active:
            free -= partition_module.amounts_of(system, other.element)
    wanted = partition_module.amounts_of(system, element)
    if wanted.total_memory > free.total_memory:
        raise errors.Refused(
            f'{wanted.memory} MB of memory and {wanted.overhead} MB for the '
            f'hypervisor were asked for and {max(free.total_memory, 0)} MB '
            'are free.'
        )
    if wanted.units > free.units + _EPSILON:
        raise errors.Refused(
            f'{wanted.units:g} processor units were asked for and '
            f'{max(free.units, 0):g} are free.'
        )


def check_slots(
    system: System, element: Element, present: Partition | None = None
) -> None:
    """Every slot of the profile exists, is free, assignable and named once.

    :param element: the content that is asked for.
    :param present: the partition, if it exists; its slots stay its own.
    """
    had = present.profile_slots if present else {}
    seen = set()
    for drc_index, _required in partition_module.profile_slots(element):
        if drc_index in seen:
            raise errors.Refused(
                f'The I/O slot {drc_index:08X} is named more than once.'
            )
        seen.add(drc_index)
        if drc_index not in had:
            _check_new_slot(system, drc_index, present)


def check_not_active(partition: Partition) -> None:
    """A partition that is to be deleted is not activated."""
    if partition.is_active:
        habits.refuse(
            'running-deletion',
            errors.Refused(
                f'The partition {partition.name!r} cannot be deleted in the '
                f'state {partition.state!r}.'
            ),
        )


def check_not_migrating(partition: Partition) -> None:
    """A partition does not change until its migration is over.

    One that has failed is over when it has been recovered.
    """
    if partition.migration_state != partition_module.NOT_MIGRATING:
        raise errors.Refused(
            f'The partition {partition.name!r} cannot be changed: the state '
            f'of its migration is {partition.migration_state!r}.'
        )


def check_dynamic(partition: Partition, what: str) -> None:
    """An active partition can be changed only if its guest takes part."""
    if partition.is_active and not partition.can_change_when_active:
        habits.refuse(
            f'running-{what}',
            errors.Refused(
                f'The {what} of the partition {partition.name!r} cannot be '
                'changed: it is active and has no active RMC connection.'
            ),
        )


def _check_new_slot(
    system: System, drc_index: int, present: Partition | None
) -> None:
    slot = system.find_slot(drc_index)
    if slot is None:
        habits.refuse(
            'unknown-slot',
            errors.Refused(
                f'There is no I/O slot with the DRC index {drc_index:08X}.'
            ),
        )
        return
    if not slot.assignable:
        raise errors.Refused(f'The I/O slot {slot.name} is not assignable.')
    if system.in_sriov_mode(slot):
        raise errors.Refused(
            f'The adapter in the I/O slot {slot.name} is in SR-IOV mode.'
        )
    own = present is not None and slot.owner == present.owner
    if slot.owner is not None and not own:
        raise errors.Refused(
            f'The I/O slot {slot.name} is owned by the partition '
            f'{slot.owner.name!r} with the id {slot.owner.id}.'
        )

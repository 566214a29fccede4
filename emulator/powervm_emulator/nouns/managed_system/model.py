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

"""The managed system: memory, processors and I/O slots."""

import contextlib
import dataclasses
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.core import resource
from powervm_emulator.nouns import io_slot

Slot = io_slot.Slot


# The hypervisor keeps a page table of 1/64 of the maximum memory and some
# more for itself; the true amount depends on the machine.
_PAGE_TABLE_SHARE = 64
_FIXED_MB = 128
KIND = 'ManagedSystem'
RESERVED_MEMORY = 'QueryReservedMemoryRequiredForPartition'
MEMORY = 'AssociatedSystemMemoryConfiguration'
PROCESSORS = 'AssociatedSystemProcessorConfiguration'
CAPABILITIES = 'AssociatedSystemCapabilities'
IO = 'AssociatedSystemIOConfiguration'
_MIGRATION = 'SystemMigrationInformation'
_MIGRATIONS = f'{_MIGRATION}/NumberOfActiveMigrationsInProgress'
#: How many partitions can migrate at once.
MOST_MIGRATIONS = f'{_MIGRATION}/MaximumActiveMigrations'
_LINKS = {
    'LogicalPartition': 'AssociatedLogicalPartitions',
    'VirtualIOServer': 'AssociatedVirtualIOServers',
}
_SLOTS = f'{IO}/IOSlots/IOSlot'
_BUS_SLOTS = f'{IO}/IOBuses/IOBus/IOSlots/IOSlot'
_ADAPTERS = f'{IO}/IOAdapters'
SRIOV = f'{IO}/SRIOVAdapters/IOAdapterChoice'
MTMS = 'MachineTypeModelAndSerialNumber'
OWNER_CAPABILITY = f'{CAPABILITIES}/IOSlotOwnerAssignmentCapable'
COMPATIBILITY = f'{PROCESSORS}/SupportedPartitionProcessorCompatibilityModes'
REMOTE_RESTART = (
    f'{CAPABILITIES}/PowerVMLogicalPartitionSimplifiedRemoteRestartCapable'
)
REMOTE_RESTART_TOGGLE = (
    f'{CAPABILITIES}/DynamicSimplifiedRemoteRestartToggleCapable'
)
SECURE_BOOT = f'{CAPABILITIES}/PartitionSecureBootCapable'
LIVE_MIGRATION = f'{CAPABILITIES}/ActiveLogicalPartitionMobilityCapable'
AIX = f'{CAPABILITIES}/AIXCapable'
_HYPERVISOR = f'{MEMORY}/MemoryUsedByHypervisor'
UNITS_PER_PROCESSOR = f'{PROCESSORS}/MinimumProcessorUnitsPerVirtualProcessor'
#: How the elements begin that limit the desired processors of a partition, and
#: what limits its maximum.
LIMITS = {
    'Processors': (
        'CurrentMaximumProcessors',
        'CurrentMaximumAllowedProcessorsPerPartition',
    ),
    'VirtualProcessors': (
        'CurrentMaximumVirtualProcessors',
        'MaximumAllowedVirtualProcessorsPerPartition',
    ),
}
#: Partitions that these limits tell apart.
ENVIRONMENTS = ('AIXOrLinux', 'IBMi', 'VirtualIOServer')


@dataclasses.dataclass(frozen=True)
class Amounts:
    """What a partition takes of a system.

    :ivar memory: its own, in MB.
    :ivar overhead: what the hypervisor needs for it, in MB.
    :ivar units: processor units.
    """

    memory: int = 0
    overhead: int = 0
    units: float = 0.0

    def __add__(self, other: 'Amounts') -> 'Amounts':
        return Amounts(
            self.memory + other.memory,
            self.overhead + other.overhead,
            round(self.units + other.units, 2),
        )

    def __neg__(self) -> 'Amounts':
        return Amounts(-self.memory, -self.overhead, -self.units)

    def __sub__(self, other: 'Amounts') -> 'Amounts':
        return self + -other

    @property
    def total_memory(self) -> int:
        """Memory in MB with what the hypervisor needs."""
        return self.memory + self.overhead


class System(resource.Resource):
    """A ManagedSystem with its IOSlots.

    Available memory and processor units are kept in the content and moved by
    what partitions take and give back, so that those of a captured system
    hold although the partitions of the time were not captured.
    """

    def __init__(self, uuid: str, element: content.Element) -> None:
        super().__init__(KIND, uuid, element)
        #: Whether IOSlots say whose they are. There are systems that do it
        #: and do not claim the capability.
        self.reports_owners = self.boolean(OWNER_CAPABILITY)
        #: Which monitors of performance are on; see :mod:`nouns.pcm`.
        self.monitors: dict[str, bool] = {}
        #: The fabric of each Fibre Channel port with a link, by WWPN.
        self.fabrics: dict[str, str] = {}
        self._slots: dict[int, Slot] = {}
        self.read_slots()

    def read_slots(self) -> None:
        """Take the slots from the content again; a world was built into it."""
        self._slots = {
            slot.drc_index: slot
            for slot in map(Slot, content.find_all(self.element, _SLOTS))
        }

    def view(self, groups: groups_module.Groups) -> content.Element:
        """See the base class.

        An HMC repeats slots below their buses; there they are as in the
        list of the system.
        """
        found = super().view(groups)
        for slot in content.find_all(found, _SLOTS):
            io_slot.drop_ports(slot)
        repeated = content.find_all(found, _BUS_SLOTS)
        slots = content.find_all(found, _SLOTS) if repeated else []
        by_index = {
            content.integer(one, io_slot.DRC_INDEX): one for one in slots
        }
        for old in repeated:
            slot = by_index.get(content.integer(old, io_slot.DRC_INDEX))
            if slot is not None:
                old.getparent().replace(old, content.copy(slot))
        return found

    @contextlib.contextmanager
    def unchanged_if_it_fails(self) -> Iterator[None]:
        """Put content and slots back if what is done to them fails."""
        element = content.copy(self.element)
        owners = {slot.drc_index: slot.owner for slot in self.slots()}
        try:
            yield
        except BaseException:
            self.element = element
            self.read_slots()
            for drc_index, owner in owners.items():
                self._slots[drc_index].owner = owner
            raise

    name = fields.text('SystemName')
    #: The machine's serial number.
    serial = fields.text(f'{MTMS}/SerialNumber')

    @property
    def mtms(self) -> str:
        """What tells the machine from others, such as 9009-22A*EMU0001."""
        kind = self.text(f'{MTMS}/MachineType')
        return f'{kind}-{self.text(f"{MTMS}/Model")}*{self.serial}'

    #: MemoryRegionSize in MB; partitions' memory is a multiple.
    region_size = fields.integer(f'{MEMORY}/MemoryRegionSize', 1)
    #: Memory in MB that no active partition holds.
    memory_available = fields.integer(f'{MEMORY}/CurrentAvailableSystemMemory')
    #: Processor units of the machine.
    units = fields.number(f'{PROCESSORS}/ConfigurableSystemProcessorUnits')
    #: Processor units that no active partition holds.
    units_available = fields.number(
        f'{PROCESSORS}/CurrentAvailableSystemProcessorUnits'
    )
    #: Processor units that each virtual processor needs at least.
    units_per_processor = fields.number(UNITS_PER_PROCESSOR, 0.05)

    #: Whether partitions can be made ready for remote restart.
    can_restart_remotely = fields.boolean(REMOTE_RESTART)
    #: Whether that can be changed of active partitions.
    can_toggle_remote_restart = fields.boolean(REMOTE_RESTART_TOGGLE)
    #: Whether partitions can have a secure boot policy.
    can_boot_securely = fields.boolean(SECURE_BOOT)
    #: Whether running partitions can come from other systems, and go there.
    can_migrate = fields.boolean(LIVE_MIGRATION, default=True)

    #: Live migrations in progress, to it or from it, and the most.
    migrations = fields.integer(_MIGRATIONS)
    most_migrations = fields.integer(MOST_MIGRATIONS)

    def count_migrations(self, number: int) -> bool:
        """Say how many there are; return whether it is another number."""
        changed = number != self.migrations
        if changed:
            self.put(_MIGRATIONS, number)
        return changed

    def processor_limits(self, environment: str, kind: str) -> tuple[int, int]:
        """Return the desired and the maximum processors of a partition.

        :param environment: that part of the elements' names that says which
            partitions they are about, for example ``IBMi``.
        :param kind: ``Processors`` or ``VirtualProcessors``.
        :returns: the most that it can have of each; 0 for any number.
        """
        current, allowed = LIMITS[kind]
        most = self.integer(f'{PROCESSORS}/{allowed}')
        desired = f'{PROCESSORS}/{current}Per{environment}Partition'
        return self.integer(desired) or most, most

    @property
    def compatibility_modes(self) -> list[str]:
        """Processor compatibility modes that partitions can ask for."""
        found = content.find_all(self.element, COMPATIBILITY)
        return [(mode.text or '').strip() for mode in found]

    @property
    def available(self) -> Amounts:
        """What no active partition holds."""
        return Amounts(self.memory_available, units=self.units_available)

    def overhead(self, maximum: int) -> int:
        """Return what the hypervisor needs for a partition, in MB.

        :param maximum: the memory in MB that the partition can grow to.
        """
        needed = maximum // _PAGE_TABLE_SHARE + _FIXED_MB
        return -(-needed // self.region_size) * self.region_size

    def take(self, amounts: Amounts) -> None:
        """Move memory and processor units to a partition.

        Negative amounts give them back.
        """
        for kind in ('Current', 'Pending'):
            self._move(
                f'{MEMORY}/{kind}AvailableSystemMemory', amounts.total_memory
            )
            self._move(
                f'{PROCESSORS}/{kind}AvailableSystemProcessorUnits',
                amounts.units,
            )
        self._move(_HYPERVISOR, -amounts.overhead)

    def link(self, child: resource.Resource) -> None:
        """Let the system link to one of its partitions."""
        name = _LINKS[child.kind]
        section = content.find(self.element, name)
        if section is None:
            section = content.leaf(name)
            self.element.append(section)
            elements.sort(self.element)
        if not _links_to(section, child):
            section.append(content.link(child.event_path))

    def unlink(self, child: resource.Resource) -> None:
        """Let the system not link to a partition any more."""
        section = content.section(self.element, _LINKS[child.kind])
        for link in _links_to(section, child):
            section.remove(link)

    def set_memory(self, memory: int) -> None:
        """Set the memory in MB that no active partition holds."""
        for kind in ('Current', 'Pending'):
            self.put(f'{MEMORY}/{kind}AvailableSystemMemory', memory)

    def set_units(self, units: float) -> None:
        """Set the processor units that no active partition holds."""
        for kind in ('Current', 'Pending'):
            path = f'{PROCESSORS}/{kind}AvailableSystemProcessorUnits'
            self.put(path, round(units, 2))

    def slots(self) -> Iterator[Slot]:
        """Yield the slots in the order of the content."""
        yield from tuple(self._slots.values())

    def find_slot(self, drc_index: int) -> Slot | None:
        """Return the slot with a DRC index, or None."""
        return self._slots.get(drc_index)

    def get_slot(self, drc_index: int) -> Slot:
        """Return the slot with a DRC index.

        :raises errors.NotFound: the system has none.
        """
        slot = self._slots.get(drc_index)
        if slot is None:
            raise errors.NotFound(
                f'System {self.name} has no I/O slot with the DRC index '
                f'{drc_index:08X}.'
            )
        return slot

    def add_slot(self, element: content.Element) -> Slot:
        """Add a slot, for example from ``io_slot.new_slot``."""
        slots = content.section(self.element, f'{IO}/IOSlots')
        slots.append(element)
        slot = Slot(element)
        self._slots[slot.drc_index] = slot
        return slot

    def remove_slot(self, drc_index: int) -> None:
        """Remove a slot from the system altogether."""
        del self._slots[drc_index]
        self.remove_sriov(drc_index)
        for element in (
            *self._of(_SLOTS, io_slot.DRC_INDEX, drc_index),
            *self._of(_BUS_SLOTS, io_slot.DRC_INDEX, drc_index),
            *self._adapters_of(drc_index),
        ):
            element.getparent().remove(element)

    def set_card(self, slot: Slot, card: io_slot.Card) -> None:
        """Put a card into a slot, or take it out with ``Card()``."""
        slot.set_card(card)
        self.remove_sriov(slot.drc_index)
        for adapter in self._adapters_of(slot.drc_index):
            io_slot.set_adapter(adapter, card)

    def name_slot(self, slot: Slot, name: str) -> None:
        """Give a slot a location code."""
        slot.set_name(name)
        for adapter in self._adapters_of(slot.drc_index):
            io_slot.name_adapter(adapter, name)

    def remove_sriov(self, drc_index: int) -> None:
        """Remove the SR-IOV adapter of a slot, if it has one."""
        for choice in self._of(SRIOV, 'SRIOVAdapter/AdapterID', drc_index):
            choice.getparent().remove(choice)

    def in_sriov_mode(self, slot: Slot) -> bool:
        """Whether the hypervisor owns the slot's adapter for SR-IOV."""
        return any(
            content.text(choice, 'SRIOVAdapter/AdapterMode') == 'Sriov'
            for choice in self._of(
                SRIOV, 'SRIOVAdapter/AdapterID', slot.drc_index
            )
        )

    def _of(
        self, path: str, name: str, drc_index: int
    ) -> list[content.Element]:
        """Return the elements at a path that are about a slot.

        :param name: the path of the DRC index in each of them.
        """
        return [
            element
            for element in content.find_all(self.element, path)
            if content.integer(element, name) == drc_index
        ]

    def _adapters_of(self, drc_index: int) -> list[content.Element]:
        """Return what the list of adapters has about a slot, at any depth."""
        return [
            adapter
            for adapters in content.find_all(self.element, _ADAPTERS)
            for adapter in adapters.iter('{*}IOAdapter')
            if content.integer(adapter, 'AdapterID') == drc_index
        ]

    def _move(self, path: str, amount: float) -> None:
        if content.find(self.element, path) is None:
            return
        left = round(self.number(path) - amount, 2)
        self.put(path, int(left) if left == int(left) else left)


def _links_to(
    section: content.Element, child: resource.Resource
) -> list[content.Element]:
    return [
        link
        for link in content.find_all(section, 'link')
        if content.target(link, '.').upper() == child.uuid.upper()
    ]


class ReservedMemory(jobs_module.Operation):
    """QueryReservedMemoryRequiredForPartition of a system.

    Parameters: ``DesiredMemory`` and ``MaximumMemory`` in MB. The result
    ``RequiredMemory`` is the desired memory with the hypervisor's overhead.
    """

    target: System

    def finish(self) -> dict[str, str]:
        """See the base class."""
        desired = self._megabytes('DesiredMemory')
        overhead = self.target.overhead(self._megabytes('MaximumMemory'))
        return {
            'RequiredMemory': str(desired + overhead),
            'CurrentAvailableSystemMemory': str(self.target.memory_available),
        }

    def _megabytes(self, name: str) -> int:
        value = self.parameters.get(name, '')
        if not content.is_whole(value):
            raise jobs_module.JobError(
                f'{name} {value!r} is not an amount in MB.'
            )
        return int(value)


def summary(found: System) -> resource.JSON:
    """Summarize a system and its slots."""
    return {
        'uuid': found.uuid,
        'name': found.name,
        'memory_available': found.memory_available,
        'processor_units_available': found.units_available,
        'reports_slot_owners': found.reports_owners,
        'slots': [slot_summary(found, other) for other in found.slots()],
    }


def slot_summary(found: System, one: io_slot.Slot) -> resource.JSON:
    """Summarize a slot; ``owner`` is the name of a partition, or None."""
    ids = {
        key: io_slot.hexadecimal(one.element, name, digits)
        for key, (name, digits) in io_slot.IDS.items()
    }
    return {
        'drc_index': f'{one.drc_index:08X}',
        'drc_name': one.drc_name,
        'description': one.description,
        **ids,
        'owner': one.owner.name if one.owner else None,
        'assignable': one.assignable,
        'sriov': found.in_sriov_mode(one),
    }


def only(host: host_module.Host) -> System:
    """Return the only system of a host.

    :raises errors.RestError: there is none, or more than one.
    """
    systems = list(host.of_type(System))
    if not systems:
        raise errors.NotFound(f'There is no {KIND}.')
    if len(systems) > 1:
        raise errors.BadRequest(
            'There are several systems: create the partition under '
            f'{KIND}/{{uuid}}.'
        )
    return systems[0]

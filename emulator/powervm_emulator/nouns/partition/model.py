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

"""A partition, of either kind: LogicalPartition or VirtualIOServer."""

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import fields
from powervm_emulator.core import resource
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system

LPAR = 'LogicalPartition'
VIOS = 'VirtualIOServer'
KINDS = (LPAR, VIOS)
AIX_LINUX = 'AIX/Linux'
IBM_I = 'OS400'
VIOS_TYPE = 'Virtual IO Server'
TYPES = (AIX_LINUX, IBM_I, VIOS_TYPE)
NOT_ACTIVATED = 'not activated'
RUNNING = 'running'
STARTING = 'starting'
SHUTTING_DOWN = 'shutting down'
ERROR = 'error'
MIGRATING = 'migrating running'
#: Those in which the guest works.
WORKING = (RUNNING, MIGRATING)
STATES = (
    NOT_ACTIVATED,
    RUNNING,
    STARTING,
    SHUTTING_DOWN,
    'not available',
    'open firmware',
    ERROR,
    'migrating not active',
    MIGRATING,
    'hardware discovery',
    'suspended',
    'suspending',
    'resuming',
    'Unknown',
)
NOT_MIGRATING = 'Not_Migrating'
MIGRATION_STARTS = 'Migration_Starting'
MIGRATION_RUNS = 'Migration_In_Progress'
MIGRATION_FAILED = 'Migration_Failed'
ADDRESS = 'ResourceMonitoringIPAddress'
MANAGEMENT = 'IsManagementPartition'
RMC_ACTIVE = 'active'
RMC_STATES = (RMC_ACTIVE, 'inactive', 'none', 'unknown', 'busy')
IO = 'PartitionIOConfiguration'
MEMORY = 'PartitionMemoryConfiguration'
PROCESSORS = 'PartitionProcessorConfiguration'
SHARED = f'{PROCESSORS}/SharedProcessorConfiguration'
DEDICATED = f'{PROCESSORS}/DedicatedProcessorConfiguration'
CURRENT_SHARED = f'{PROCESSORS}/CurrentSharedProcessorConfiguration'
CURRENT_DEDICATED = f'{PROCESSORS}/CurrentDedicatedProcessorConfiguration'
SHARING_MODE = f'{PROCESSORS}/SharingMode'
SHARED_MODES = ('capped', 'uncapped')
DEDICATED_MODES = (
    'sre idle proces',
    'keep idle procs',
    'sre idle procs active',
    'sre idle procs always',
)
COMPATIBILITY = 'PendingProcessorCompatibilityMode'
SECURE_BOOT = 'PendingSecureBoot'
REMOTE_RESTART = 'SimplifiedRemoteRestartCapable'
CAPABILITIES = 'PartitionCapabilities'
OPERATING_SYSTEM = 'OperatingSystemVersion'
PROFILE_SLOTS = f'{IO}/ProfileIOSlots'
PROFILE = 'LogicalPartitionProfile'
PROFILE_LINK = 'AssociatedPartitionProfile'
VIRTUAL_SLOTS = f'{IO}/MaximumVirtualIOSlots'


class Partition(resource.Resource):
    """A LogicalPartition or VirtualIOServer of one system.

    :param system: the system that it is a partition of.
    :ivar address: of its RMC connection; empty if it has never had one.
    :ivar is_shell: whether its guest is on another system, from which it has
        not come yet or to which it has gone.
    :ivar count: how far its guest has counted since it was booted.
    """

    def __init__(
        self,
        kind: str,
        uuid: str,
        element: content.Element,
        system: managed_system.System,
    ) -> None:
        super().__init__(kind, uuid, element, parent=system)
        self.system = system
        self.address = self.text(ADDRESS)
        self.is_shell = False
        self.count = 0

    name = fields.text('PartitionName')
    id = fields.integer('PartitionID')
    #: One of ``TYPES``.
    type = fields.text('PartitionType')
    #: One of ``STATES``.
    state = fields.text('PartitionState')
    #: ``NOT_MIGRATING`` or one of the next three constants.
    migration_state = fields.text('MigrationState', NOT_MIGRATING)
    #: One of ``RMC_STATES``.
    rmc_state = fields.text('ResourceMonitoringControlState')

    @property
    def is_active(self) -> bool:
        """Whether it holds memory and processors."""
        return self.state != NOT_ACTIVATED

    @property
    def can_change_when_active(self) -> bool:
        """Whether the guest takes part in dynamic changes (DLPAR)."""
        return (
            self.type == IBM_I
            or self.rmc_state == RMC_ACTIVE
            or self.boolean(MANAGEMENT)
        )

    #: DesiredMemory in MB.
    memory = fields.integer(f'{MEMORY}/DesiredMemory')

    @property
    def units(self) -> float:
        """Processor units it needs; a dedicated processor is one."""
        return units_of(self.element)

    @property
    def held(self) -> managed_system.Amounts:
        """What it has taken of its system: nothing if it is not active."""
        if not self.is_active:
            return managed_system.Amounts()
        maximum = self.integer(f'{MEMORY}/CurrentMaximumMemory', self.memory)
        overhead = self.system.overhead(maximum)
        return managed_system.Amounts(self.memory, overhead, self.units)

    @property
    def owner(self) -> io_slot.Owner:
        """This partition as the owner of slots."""
        return io_slot.Owner(self.uuid, self.id, self.name, self.type)

    @property
    def profile_uuid(self) -> str:
        """The uuid of its profile; empty if it has none, as on NovaLink."""
        return content.target(self.element, PROFILE_LINK).lower()

    @property
    def profile_slots(self) -> dict[int, bool]:
        """DRC index of every slot of the profile, and whether required."""
        return dict(profile_slots(self.element))

    def find_profile_slot(self, drc_index: int) -> content.Element | None:
        """Return the ProfileIOSlot with a DRC index, or None."""
        path = f'{PROFILE_SLOTS}/ProfileIOSlot'
        for slot in content.find_all(self.element, path):
            if _drc_index(slot) == drc_index:
                return slot
        return None

    def add_profile_slot(self, slot: io_slot.Slot, required: bool) -> None:
        """Add a slot of the system to the profile, with its details."""
        section = content.section(self.element, PROFILE_SLOTS)
        section.append(profile_slot(slot.element, required))
        elements.sort(content.section(self.element, IO))

    def show_profile_slot(self, slot: io_slot.Slot) -> bool:
        """Write the details of a slot to the profile, if it is there."""
        old = self.find_profile_slot(slot.drc_index)
        if old is None:
            return False
        required = content.boolean(old, 'IsRequired')
        old.getparent().replace(old, profile_slot(slot.element, required))
        return True

    def drop_profile_slot(self, drc_index: int) -> None:
        """Take a slot out of the profile, if it is there."""
        slot = self.find_profile_slot(drc_index)
        if slot is not None:
            slot.getparent().remove(slot)


def amounts_of(
    system: managed_system.System, element: content.Element
) -> managed_system.Amounts:
    """Return what a partition's content asks for."""
    memory = content.integer(element, f'{MEMORY}/DesiredMemory')
    maximum = content.integer(element, f'{MEMORY}/MaximumMemory', memory)
    return managed_system.Amounts(
        memory, system.overhead(maximum), units_of(element)
    )


def units_of(element: content.Element) -> float:
    """Return the processor units that a partition's content asks for."""
    if is_dedicated(element):
        return content.number(element, f'{DEDICATED}/DesiredProcessors')
    return content.number(element, f'{SHARED}/DesiredProcessingUnits')


def is_dedicated(element: content.Element) -> bool:
    """Whether a partition's content asks for dedicated processors."""
    return content.boolean(element, f'{PROCESSORS}/HasDedicatedProcessors')


def profile_slots(element: content.Element) -> list[tuple[int, bool]]:
    """Return (DRC index, required) of each ProfileIOSlot, in order."""
    return [
        (_drc_index(slot), content.boolean(slot, 'IsRequired'))
        for slot in content.find_all(element, f'{PROFILE_SLOTS}/ProfileIOSlot')
    ]


def profile_slot(slot: content.Element, required: bool) -> content.Element:
    """Return a ProfileIOSlot for a system's IOSlot element."""
    return content.new(
        'ProfileIOSlot',
        io_slot.associated_slot(slot),
        content.leaf('IsRequired', required),
    )


def _drc_index(slot: content.Element) -> int:
    return content.integer(slot, f'AssociatedIOSlot/{io_slot.DRC_INDEX}')


def summary(found: Partition) -> resource.JSON:
    """Summarize a partition, with the slots in its profile."""
    return {
        'uuid': found.uuid,
        'id': found.id,
        'name': found.name,
        'kind': found.kind,
        'type': found.type,
        'state': found.state,
        'rmc_state': found.rmc_state,
        'migration_state': found.migration_state,
        'operating_system': found.text(OPERATING_SYSTEM),
        'memory': found.memory,
        'processor_units': found.units,
        'slots': [
            {'drc_index': f'{index:08X}', 'required': required}
            for index, required in found.profile_slots.items()
        ],
    }

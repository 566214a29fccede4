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

"""A managed system as the driver sees it."""

import dataclasses
import math
import re

import os_traits

from nova_powervm.devices import slots

_GENERATION = re.compile(r'POWER(\d+)')
#: The first generation that runs little-endian Linux.
_FIRST_LITTLE_ENDIAN = 8
#: The traits that os-traits has for generations of POWER processors.
_GENERATION_TRAITS = {
    8: os_traits.HW_CPU_PPC64LE_POWER8,
    9: os_traits.HW_CPU_PPC64LE_POWER9,
}
#: The trait of hosts that can run AIX.
AIX_TRAIT = 'CUSTOM_POWERVM_AIX'
#: All traits of a host that the driver decides.
TRAITS = frozenset(_GENERATION_TRAITS.values()) | {
    os_traits.HW_ARCH_PPC64,
    os_traits.HW_ARCH_PPC64LE,
    AIX_TRAIT,
}


@dataclasses.dataclass(frozen=True, slots=True)
class DiskCapacity:
    """The size and use of the storage for instances' disks, in whole GiB.

    :param total_gb: The size of the storage.
    :param used_gb: How much of it is used, by anybody.
    :param reserved_gb: How much is used by things that Placement does not
        count: disks of others, media, and disks of flavors without a root disk
        size.
    """

    total_gb: int = 0
    used_gb: int = 0
    reserved_gb: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class HypervisorMemory:
    """The hypervisor's overhead for an LPAR, and the memory that is free.

    :param overhead_mb: The memory in MiB that the hypervisor needs for the
        LPAR.
    :param free_mb: The memory in MiB that no LPAR uses; None if the host does
        not tell.
    """

    overhead_mb: int
    free_mb: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessorLimits:
    """The most processors of a kind that an LPAR can have; 0 if unknown.

    :param desired: The most processors that can be desired for it.
    :param maximum: The most that its maximum can be.
    """

    desired: int = 0
    maximum: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ManagedSystem:
    """One reading of the managed system.

    :param name: SystemName.
    :param uuid: The managed system's uuid.
    :param machine: Machine type, model and serial number.
    :param memory_mb: ConfigurableSystemMemory in MiB.
    :param memory_free_mb: CurrentAvailableSystemMemory in MiB.
    :param memory_region_mb: MemoryRegionSize in MiB.
    :param proc_units: ConfigurableSystemProcessorUnits.
    :param proc_units_free: CurrentAvailableSystemProcessorUnits.
    :param min_units_per_vcpu: MinimumProcessorUnitsPerVirtualProcessor.
    :param io_slots: All physical I/O slots with their owners.
    :param virtual: The limits of virtual processors.
    :param dedicated: The limits of dedicated processors.
    :param compatibility_modes: SupportedPartitionProcessorCompatibilityModes.
    :param has_dedicated_processors: Whether LPARs can have dedicated
        processors.
    :param has_remote_restart: Whether it is capable of simplified remote
        restart.
    :param has_secure_boot: Whether it is capable of secure boot.
    :param has_aix: Whether its LPARs can run AIX.
    """

    name: str
    uuid: str
    machine: str
    memory_mb: int
    memory_free_mb: int
    memory_region_mb: int
    proc_units: float
    proc_units_free: float
    min_units_per_vcpu: float
    io_slots: tuple[slots.Slot, ...] = ()
    virtual: ProcessorLimits = ProcessorLimits()
    dedicated: ProcessorLimits = ProcessorLimits()
    compatibility_modes: tuple[str, ...] = ()
    has_dedicated_processors: bool = True
    has_remote_restart: bool = False
    has_secure_boot: bool = False
    has_aix: bool = True

    @property
    def vcpus(self) -> int:
        """Whole processors that the host can configure."""
        return math.floor(self.proc_units)

    @property
    def vcpus_used(self) -> int:
        """Processors that are not free, rounded up."""
        return math.ceil(round(self.proc_units - self.proc_units_free, 2))

    @property
    def memory_used_mb(self) -> int:
        """Memory that is not free, in MiB."""
        return self.memory_mb - self.memory_free_mb

    @property
    def traits(self) -> frozenset[str]:
        """The traits that tell which guests it runs."""
        return self._cpu_traits | ({AIX_TRAIT} if self.has_aix else set())

    @property
    def _cpu_traits(self) -> frozenset[str]:
        """The traits of processors that its guests can rely on.

        An LPAR runs in the newest mode that host and guest know.
        """
        modes = filter(None, map(_GENERATION.match, self.compatibility_modes))
        generations = {int(mode[1]) for mode in modes}
        if not generations:
            return frozenset()
        traits = {os_traits.HW_ARCH_PPC64}
        if max(generations) >= _FIRST_LITTLE_ENDIAN:
            traits.add(os_traits.HW_ARCH_PPC64LE)
        return frozenset(traits).union(
            _GENERATION_TRAITS[generation]
            for generation in generations & _GENERATION_TRAITS.keys()
        )

    def slot(self, drc_index: int) -> slots.Slot | None:
        """Find a slot by its DRC index."""
        matching = (s for s in self.io_slots if s.drc_index == drc_index)
        return next(matching, None)


def overcommitment(
    managed: ManagedSystem, factor: float, allocation_ratio: float
) -> str | None:
    """Describe an allocation ratio that promises more than the host has.

    Virtual processors share processors, so an allocation ratio above 1 is fine
    as long as there are enough processing units.

    :param managed: The host.
    :param factor: Processing units per virtual processor.
    :param allocation_ratio: Nova's ratio for VCPU.
    """
    promised = round(managed.vcpus * allocation_ratio * factor, 2)
    if promised <= managed.proc_units:
        return None
    fitting = (
        math.floor(100 * managed.proc_units / managed.vcpus / factor) / 100
    )
    return (
        f'{managed.vcpus} VCPU with an allocation ratio of {allocation_ratio} '
        f'and [powervm]proc_units_factor={factor} promise {promised} '
        f'processing units, but system {managed.name} has '
        f'{managed.proc_units}: instances will fail to start when it is '
        'full. Lower '
        f'[DEFAULT]cpu_allocation_ratio to {fitting} or the factor.'
    )

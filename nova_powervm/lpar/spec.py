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

"""An instance's LPAR as it should be, and as the host says that it is.

Both are data. An operation asks Nova, Neutron and Glance in the meantime
through :class:`nova_powervm.ops.survey.Askers`.
"""

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import storage
from nova_powervm.lpar import virtual_slots
from nova_powervm.lpar import volumes as lpar_volumes


@dataclasses.dataclass(frozen=True, slots=True)
class WantedSlot:
    """A slot that an instance has, or is to get.

    :param claim: The slot, and what it was claimed for.
    :param burns: The claims of the providers to burn before an LPAR gets the
        slot; empty for a reusable device.
    :param refusal: Why an LPAR that lacks the slot must not get it; empty if
        it can.
    """

    claim: claims.Claim
    burns: tuple[claims.Claim, ...] = ()
    refusal: str = ''

    @property
    def drc_index(self) -> int:
        """The DRC index of the slot."""
        return self.claim.drc_index


@dataclasses.dataclass(frozen=True, slots=True)
class WantedImage:
    """The image that a new root disk is made from.

    :param described: The image as Glance describes it.
    :param flavor_gb: The flavor's ``root_gb``; 0 for the image's own size.
    :param inspect: Whether to check that the image has its declared format.
    """

    described: image.Image
    flavor_gb: int
    inspect: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What Nova and Placement say about an instance's LPAR.

    :param instance_uuid: The instance's uuid.
    :param name: Its name (``instance.name``, not the display name).
    :param settings: The settings that its flavor gives; None to leave the
        LPAR's settings as they are.
    :param os_distro: The operating system in lower case, as its image says;
        empty if that does not say it.
    :param other_settings: The settings that the other flavors of a move give.
    :param slots: All the slots that it has.
    :param moved_slots: DRC index of each slot that a move takes from the LPAR
        or gives to it, to the uuid of the migration.
    :param root: The image to make the root disk or a rescue disk from; None if
        neither is to be made.
    :param blanks: Its disks beside the root disk, in the guest's order. Their
        virtual slots follow from their roles: see
        :func:`.storage.virtual_slot`.
    :param checks_swap: Whether the swap disk may differ from the one in
        ``blanks``.
    :param grow_root_gb: The size in GiB to enlarge the root disk to, if it is
        smaller; None to leave it.
    :param config_drive: Whether it has a config drive.
    :param ports: Its ports as Nova knows them; None if they are unknown, which
        leaves the adapters as they are.
    :param management: Whether it gets a management adapter if it has none.
    :param volumes: Its volumes, or the volumes that an operation is about. A
        boot volume takes the place of ``root``, and a start is told of it.
    :param known_volumes: The ids of all volumes that Nova has for it, volumes
        that are being attached among them; None if they are unknown.
    :param rescued: Whether a start is to start its rescue system.
    :param power_on: Whether to start it.
    :param runs_later: Whether a later operation starts it, in a check.
    :param timeout: Seconds for its guest to shut down; 0 to stop it at once.
    :param pool_is_current: Whether the instance uses the disks that the host's
        pool has for it; they may be years old.
    :param allocated: Uuids of the providers that Placement has just named as
        allocated to it; None to ask before a device is burned.
    :param virtual_slots: The virtual slots of its ports and volumes that are
        on record; see :mod:`.virtual_slots`.
    :param providers: Uuid of each slot provider of the host to its slot; empty
        before the first update of Placement.
    :param nvram: What a move has brought of the NVRAM of its former LPAR; it
        may hold secrets.
    """

    instance_uuid: str
    name: str = ''
    settings: lpar_settings.FlavorSettings | None = None
    os_distro: str = ''
    other_settings: tuple[lpar_settings.FlavorSettings, ...] = ()
    slots: tuple[WantedSlot, ...] = ()
    moved_slots: Mapping[int, str] = dataclasses.field(default_factory=dict)
    root: WantedImage | None = None
    blanks: tuple[storage.Disk, ...] = ()
    checks_swap: bool = False
    grow_root_gb: int | None = None
    config_drive: bool = False
    ports: tuple[network_ports.Port, ...] | None = None
    management: management_adapter.Choice = management_adapter.Choice.NONE
    volumes: tuple[lpar_volumes.Volume, ...] = ()
    known_volumes: frozenset[str] | None = None
    rescued: bool = False
    power_on: bool = True
    runs_later: bool = False
    timeout: int = 0
    pool_is_current: bool = True
    allocated: frozenset[str] | None = None
    virtual_slots: Mapping[str, int] = dataclasses.field(default_factory=dict)
    providers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    nvram: str | None = dataclasses.field(default=None, repr=False)

    @property
    def lpar_uuid(self) -> str:
        """Upper-case uuid of the LPAR."""
        return partition.lpar_uuid(self.instance_uuid)

    @property
    def drc_indexes(self) -> frozenset[int]:
        """The DRC indexes of its slots."""
        return frozenset(slot.drc_index for slot in self.slots)

    @property
    def boots_from_volume(self) -> bool:
        """Whether a volume is its root disk."""
        return any(volume.is_boot for volume in self.volumes)

    @property
    def swap(self) -> storage.Disk | None:
        """The swap disk that it should have."""
        return next((d for d in self.blanks if d.role == storage.SWAP), None)


class Part(enum.StrEnum):
    """A part of what the host says; each is read only if a plan needs it."""

    #: The LPAR's document.
    LPAR = 'the LPAR'
    #: What the host supports, which never changes.
    RULES = 'what the host supports'
    #: A fresh reading of the host's slots.
    SLOTS = 'the slots'
    #: The providers that Placement has allocated to the instance.
    ALLOCATED = 'its allocations'
    #: How adapters differ from ports.
    ADAPTERS = 'its adapters'
    #: What the image contains.
    IMAGE = 'the image'
    #: The contents of the config drive.
    MEDIUM = 'the config drive'
    #: Its disks in a pool that hosts share.
    DISKS = 'its disks'
    #: The storage that is connected to the LPAR.
    MAPPINGS = 'its mappings'
    #: Its volumes, and whether they are connected by all paths.
    VOLUMES = 'its volumes'
    #: Whether it is connected to exactly the wanted swap disk.
    SWAP_FITS = 'its swap disk'
    #: Whether there is a rescue disk of the instance.
    HAS_RESCUE = 'its rescue disk'


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """Asks how much memory the hypervisor needs for an LPAR.

    :param memory_mb: The memory of the LPAR in MiB.
    :param max_mem: The largest memory that it may get, in MiB.
    """

    memory_mb: int
    max_mem: int


class Actual:
    """The host's answers: each part is read when a plan needs it, and kept.

    :param read: Reads a part. Its errors end the planning; they refuse no
        operation.
    :param has_pool: Whether the host's disks are in storage that other hosts
        see, too.
    :param virtual_slots: How many virtual slots a new LPAR gets.
    """

    def __init__(
        self,
        read: Callable[[Part | MemoryQuestion], Any],
        *,
        has_pool: bool = False,
        virtual_slots: int,
    ) -> None:
        self._read = read
        self._parts: dict[Part | MemoryQuestion, Any] = {}
        self.has_pool = has_pool
        self.virtual_slots = virtual_slots

    def _get(self, part: Part | MemoryQuestion) -> Any:
        if part not in self._parts:
            self._parts[part] = self._read(part)
        return self._parts[part]

    @property
    def lpar(self) -> partition.Partition | None:
        """The LPAR; None if there is none."""
        lpar: partition.Partition | None = self._get(Part.LPAR)
        return lpar

    @property
    def rules(self) -> host_values.ManagedSystem:
        """A reading of the host, the fresh one if there is one already."""
        part = Part.SLOTS if Part.SLOTS in self._parts else Part.RULES
        managed: host_values.ManagedSystem = self._get(part)
        return managed

    @property
    def slots(self) -> host_values.ManagedSystem:
        """A fresh reading of the host."""
        managed: host_values.ManagedSystem = self._get(Part.SLOTS)
        return managed

    def hypervisor_memory(
        self, memory_mb: int, max_mem: int
    ) -> host_values.HypervisorMemory:
        """The memory that the hypervisor needs for an LPAR of some size."""
        question = MemoryQuestion(memory_mb, max_mem)
        memory: host_values.HypervisorMemory = self._get(question)
        return memory

    @property
    def allocated(self) -> Collection[str]:
        """Uuids of the providers that are allocated to the instance."""
        uuids: Collection[str] = self._get(Part.ALLOCATED)
        return uuids

    @property
    def adapters(self) -> network_ports.Changes:
        """The changes that fit the adapters to the ports."""
        changes: network_ports.Changes = self._get(Part.ADAPTERS)
        return changes

    def known_slots(self, wanted: Wanted) -> dict[str, int]:
        """Return the virtual slots of ports and volumes that were read.

        :param wanted: The LPAR, with its ports.
        """
        adapters = self._parts.get(Part.ADAPTERS, network_ports.Changes())
        macs = {port.mac for port in wanted.ports or ()}
        of_ports = [a for a in adapters.present if a.mac in macs]
        return {
            **network_ports.slots_of(of_ports),
            **virtual_slots.of_connected(self._parts.get(Part.VOLUMES, {})),
        }

    @property
    def image(self) -> image.Contents:
        """What the image contains."""
        contents: image.Contents = self._get(Part.IMAGE)
        return contents

    @property
    def medium_bytes(self) -> int:
        """The size of the config drive."""
        return len(self._get(Part.MEDIUM))

    @property
    def disks(self) -> tuple[storage.PoolDisk, ...]:
        """The instance's disks in the pool."""
        disks: tuple[storage.PoolDisk, ...] = self._get(Part.DISKS)
        return disks

    @property
    def mappings(self) -> Collection[str]:
        """The names of the storage that is connected to the LPAR."""
        names: Collection[str] = self._get(Part.MAPPINGS)
        return names

    @property
    def volumes(self) -> Mapping[str, lpar_volumes.Connected]:
        """Id of each volume -> how it is connected."""
        volumes: Mapping[str, lpar_volumes.Connected] = self._get(Part.VOLUMES)
        return volumes

    @property
    def swap_fits(self) -> bool:
        """Whether the LPAR is connected to exactly the wanted swap disk."""
        return bool(self._get(Part.SWAP_FITS))

    @property
    def has_rescue(self) -> bool:
        """Whether there is a rescue disk of the instance."""
        return bool(self._get(Part.HAS_RESCUE))

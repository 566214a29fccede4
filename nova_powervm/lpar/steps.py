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

"""The steps of a plan for an LPAR, and the two orders that they come in."""

import dataclasses
from typing import ClassVar

from nova_powervm.devices import claims
from nova_powervm.devices import slots
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes


class Step:
    """One change; its text is for the log.

    :cvar needs_off: Whether the LPAR has to be off for it.
    """

    __slots__ = ()
    needs_off: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveRemains(Step):
    """Remove what an interrupted build left.

    :param delete_disks: Whether to delete the disks, too.
    """

    delete_disks: bool

    def __str__(self) -> str:
        kept = '' if self.delete_disks else ', but not its disks'
        return f'remove what an interrupted build left{kept}'


@dataclasses.dataclass(frozen=True, slots=True)
class PrepareHost(Step):
    """Prepare the host for adapters; hosts refuse this most often."""

    connections: tuple[network_ports.Connection, ...]

    def __str__(self) -> str:
        return f'prepare the host for {_ports(self.connections)}'


@dataclasses.dataclass(frozen=True, slots=True)
class Stop(Step):
    """Stop the LPAR.

    :param reason: Why it has to be off.
    :param timeout: Seconds for its guest to shut down; 0 to stop it hard.
    """

    reason: str
    timeout: int = 0

    def __str__(self) -> str:
        how = f'within {self.timeout} seconds' if self.timeout else 'hard'
        return f'stop it {how} ({self.reason})'


@dataclasses.dataclass(frozen=True, slots=True)
class MakeRoot(Step):
    """Make the root disk from an image."""

    disk: storage.Disk
    image: str

    @property
    def product(self) -> str:
        """The disk or medium to make, in words."""
        return f'{self.disk} from image {self.image}'

    def __str__(self) -> str:
        return f'make the {self.product}'


@dataclasses.dataclass(frozen=True, slots=True)
class KeepDisks(Step):
    """Use the disks that the instance has in the pool."""

    disks: tuple[storage.PoolDisk, ...]

    def __str__(self) -> str:
        names = ', '.join(disk.stored.name for disk in self.disks)
        return f'keep the disks {names}'


@dataclasses.dataclass(frozen=True, slots=True)
class MakeBlank(Step):
    """Make an empty disk."""

    disk: storage.Disk

    @property
    def product(self) -> str:
        """The disk or medium to make, in words."""
        return str(self.disk)

    def __str__(self) -> str:
        return f'make the {self.product}'


@dataclasses.dataclass(frozen=True, slots=True)
class MakeMedium(Step):
    """Make the config drive of the instance, or of its rescue system."""

    size: int
    rescue: bool = False

    @property
    def product(self) -> str:
        """The disk or medium to make, in words."""
        whose = ' of the rescue system' if self.rescue else ''
        return f'config drive{whose} ({self.size} bytes)'

    def __str__(self) -> str:
        return f'make the {self.product}'


@dataclasses.dataclass(frozen=True, slots=True)
class GrowRoot(Step):
    """Enlarge the root disk if it is smaller."""

    needs_off: ClassVar[bool] = True
    size_gb: int

    def __str__(self) -> str:
        return f'have a root disk of at least {self.size_gb} GB'


@dataclasses.dataclass(frozen=True, slots=True)
class FitSwap(Step):
    """Leave exactly one swap disk, or none."""

    needs_off: ClassVar[bool] = True
    swap: storage.Disk | None

    def __str__(self) -> str:
        return f'have {self.swap or "no swap disk"}, and no other swap disk'


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveAdapter(Step):
    """Remove an adapter that belongs to no port."""

    adapter: network_ports.Adapter

    def __str__(self) -> str:
        return f'remove the adapter {self.adapter}, which belongs to no port'


@dataclasses.dataclass(frozen=True, slots=True)
class RemovePort(Step):
    """Remove the adapter of a port, if there is one."""

    port: network_ports.Port

    def __str__(self) -> str:
        return f'remove the adapter of port {self.port.id}'


@dataclasses.dataclass(frozen=True, slots=True)
class CreateAdapters(Step):
    """Create the adapters of connections."""

    connections: tuple[network_ports.Connection, ...]

    def __str__(self) -> str:
        return f'create the adapters of {_ports(self.connections)}'


@dataclasses.dataclass(frozen=True, slots=True)
class Map(Step):
    """Connect the disks and the medium that earlier steps made or found."""

    needs_off: ClassVar[bool] = True

    def __str__(self) -> str:
        return 'connect its disks'


@dataclasses.dataclass(frozen=True, slots=True)
class FindVolumes(Step):
    """Have the host find volumes; this fails most often.

    :param volumes: The volumes.
    """

    volumes: tuple[lpar_volumes.Volume, ...]

    def __str__(self) -> str:
        return f'find {_names(self.volumes)}'


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectVolumes(Step):
    """Connect the volumes that an earlier step has found."""

    volumes: tuple[lpar_volumes.Volume, ...]

    def __str__(self) -> str:
        return f'connect {_names(self.volumes)}'


@dataclasses.dataclass(frozen=True, slots=True)
class DisconnectVolumes(Step):
    """Disconnect volumes, and have the host forget them.

    :param volumes: The volumes.
    """

    volumes: tuple[lpar_volumes.Volume, ...]

    def __str__(self) -> str:
        return f'disconnect {_names(self.volumes)}'


@dataclasses.dataclass(frozen=True, slots=True)
class Reconnect(Step):
    """Connect all disks of the instance anew, in the order of a rescue.

    :param rescued: Whether the rescue disk comes first; otherwise the disks
        are connected as before the rescue, and the rescue disk is deleted.
    """

    needs_off: ClassVar[bool] = True
    rescued: bool

    def __str__(self) -> str:
        if self.rescued:
            return 'connect its disks anew, the rescue disk first'
        return 'connect its disks as before the rescue, delete the rescue disk'


@dataclasses.dataclass(frozen=True, slots=True)
class Document(Step):
    """Burn devices, then create or change the LPAR's document.

    This is one step, because nothing may come between the two.

    :param spec: The contents that the document is to have.
    :param reason: How the LPAR differs from them, in words.
    :param creates: Whether there is no LPAR yet.
    :param added: The slots that the LPAR gets.
    :param burns: Claims of the providers to burn, all of added slots.
    """

    needs_off: ClassVar[bool] = True
    spec: partition.PartitionSpec
    reason: str
    creates: bool = False
    added: tuple[claims.Claim, ...] = ()
    burns: tuple[claims.Claim, ...] = ()

    def __str__(self) -> str:
        action = 'create it with' if self.creates else 'change it:'
        text = f'{action} {self.reason}'
        if not self.burns:
            return text
        burned = slots.format_drc_indexes({c.drc_index for c in self.burns})
        return f'burn the one-time-use devices in {burned} and {text}'


@dataclasses.dataclass(frozen=True, slots=True)
class Start(Step):
    """Start the LPAR.

    :param asks_again: Whether to ask the pool once more whether another LPAR
        uses its disks: earlier steps may have taken minutes.
    """

    needs_off: ClassVar[bool] = True
    asks_again: bool = False

    def __str__(self) -> str:
        return 'start it'


@dataclasses.dataclass(frozen=True, slots=True)
class Restart(Step):
    """Stop and start a running LPAR in one job.

    :param timeout: Seconds for its guest to restart; 0 to restart it hard.
    """

    timeout: int = 0

    def __str__(self) -> str:
        how = f'within {self.timeout} seconds' if self.timeout else 'hard'
        return f'restart it {how}'


#: The order in which an LPAR is made. Disks fail most often, so a device is
#: burned when all is made that can be made without the LPAR.
MAKING: tuple[type[Step], ...] = (
    RemoveRemains,
    FindVolumes,
    MakeRoot,
    KeepDisks,
    MakeBlank,
    MakeMedium,
    PrepareHost,
    Document,
    CreateAdapters,
    Map,
    ConnectVolumes,
    FitSwap,
    GrowRoot,
    Start,
)
#: The order in which an LPAR is changed. Adapters and disks burn nothing, so
#: they come before the document. The swap disk comes after the other disks,
#: which thus keep their addresses in the guest.
CHANGING: tuple[type[Step], ...] = (
    FindVolumes,
    MakeRoot,
    MakeMedium,
    PrepareHost,
    Stop,
    RemoveAdapter,
    RemovePort,
    CreateAdapters,
    Reconnect,
    GrowRoot,
    KeepDisks,
    Map,
    DisconnectVolumes,
    ConnectVolumes,
    FitSwap,
    Document,
    Start,
    Restart,
)


@dataclasses.dataclass(frozen=True, slots=True)
class LparPlan:
    """What an operation does to an LPAR.

    :param operation: The operation, with what it may do.
    :param steps: The steps in their order.
    :param remarks: Facts that an operator should know, for the log.
    """

    operation: operations.Operation
    steps: tuple[Step, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = '; '.join(map(str, self.steps)) or 'nothing to do'
        return f'{self.operation}: {steps}'

    @property
    def makes(self) -> bool:
        """Whether the LPAR is made anew."""
        document = self.document
        return document is not None and document.creates

    @property
    def document(self) -> Document | None:
        """The write of the LPAR's document, if there is one."""
        return next((s for s in self.steps if isinstance(s, Document)), None)


def _ports(connections: tuple[network_ports.Connection, ...]) -> str:
    names = ', '.join(each.port.id for each in connections)
    return f'port{"s" if len(connections) > 1 else ""} {names}'


def _names(volumes: tuple[lpar_volumes.Volume, ...]) -> str:
    return ', '.join(map(str, volumes))

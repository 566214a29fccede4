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

"""The protocols through which the operations use everything else.

:mod:`nova_powervm.powervm` implements those of the host,
:mod:`nova_powervm.virt` those of Nova and Placement. The protocols of disks,
ports and volumes are in :mod:`nova_powervm.ops.drivers`.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import slot_providers
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import partition


class System(Protocol):
    """The managed system."""

    def read(self) -> host_values.ManagedSystem:
        """Read the host, with one conditional request if nothing changed.

        :raises exception.RestError: The REST server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """

    def hypervisor_memory(
        self, memory_mb: int, max_mem: int
    ) -> host_values.HypervisorMemory:
        """Ask how much memory the hypervisor needs for an LPAR.

        :param memory_mb: The memory of the LPAR in MiB.
        :param max_mem: The largest memory that it may get, in MiB.
        """

    def uptime(self) -> int:
        """Return the seconds since the management partition was booted."""


class Partitions(Protocol):
    """The logical partitions of the host.

    :ivar virtual_slots: How many virtual slots a new LPAR gets, those from 0
        on.
    """

    virtual_slots: int

    def names(self) -> Mapping[str, str]:
        """Map upper-case uuid to name for all partitions but the VIOSes."""

    def states(self) -> Mapping[str, str]:
        """Map upper-case uuid to the state of each LPAR, as the host names it.

        Send one request; omit the management partition and VIOSes.
        """

    def find(self, uuid: str) -> partition.Partition | None:
        """Read an LPAR; return None if it does not exist.

        :param uuid: Upper-case PowerVM uuid.
        """

    def state(self, uuid: str) -> str:
        """Return the state of an LPAR, as the host names it.

        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def nvram(self, uuid: str) -> str | None:
        """Read the NVRAM of an LPAR, which may hold secrets.

        :param uuid: Upper-case PowerVM uuid.
        :returns: A text that another host takes; None if there is none.
        """

    def obstacle(self, uuid: str) -> str | None:
        """Return the reason why adapters of an LPAR cannot be changed now.

        :param uuid: Upper-case PowerVM uuid.
        :returns: The reason; None if they can be, or there is no such LPAR.
        """

    def write(
        self,
        spec: partition.PartitionSpec,
        before_write: Callable[[], None],
        *,
        creates: bool,
    ) -> partition.Partition:
        """Write the document of an LPAR, with its sizes and slots together.

        :param spec: What the document is to say; an LPAR that exists keeps all
            else.
        :param before_write: Is called just before each try of the write, when
            nothing else is left to do.
        :param creates: Whether the LPAR does not exist yet. If the host
            refuses to create it with its NVRAM, it is created without.
        :returns: The LPAR, as the host reports it afterwards.
        :raises exception.PartitionNotFound: There is no LPAR to change.
        """

    def delete(self, uuid: str) -> None:
        """Delete a stopped LPAR, if it exists, which frees its slots."""

    def power_on(self, lpar: partition.Partition) -> None:
        """Start an LPAR unless it is already running."""

    def power_off(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        """Stop an LPAR unless it is already off.

        :param hard: Whether to stop it at once; otherwise the operating
            system is asked to shut down.
        :param timeout: Seconds for the operating system to shut down; 0 for
            the server's default.
        """

    def restart(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        """Stop and start a running LPAR in one job.

        :param hard: Whether to stop it at once; otherwise the operating
            system is asked to shut down.
        :param timeout: Seconds until the job is cancelled; 0 for the
            server's default.
        :raises exception.RestError: The job failed or was cancelled.
        """

    def dump(self, lpar: partition.Partition) -> None:
        """Have the guest of a running LPAR write a dump, and restart it.

        :raises exception.RestError: The job failed.
        """


class LiveMigrations(Protocol):
    """The live migrations of LPARs from this host and to it."""

    def full(self) -> str:
        """Return why the host takes part in no further migration now.

        :returns: The reason; empty if it does.
        """

    def servers(
        self, of_disks: Collection[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of Virtual I/O Servers, in their order.

        :param of_disks: The uuids of those that map disks.
        :returns: Those that map disks, and those that map volumes.
        :raises exception.MoveRefused: One of them does not answer.
        """

    def guest(
        self, uuid: str, of_disks: Collection[str]
    ) -> live_migration.Guest:
        """Read an LPAR that is to move, without its network adapters.

        :param uuid: Upper-case PowerVM uuid.
        :param of_disks: As for :meth:`servers`.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def paths(self, uuid: str) -> Sequence[live_migration.Path]:
        """Return where the disks of an LPAR are, if there is one.

        :param uuid: Upper-case PowerVM uuid.
        """

    def unsuitable(self, udids: Collection[str]) -> Collection[str]:
        """Return those of some disks that only one server can open.

        :param udids: The unique device ids of the disks.
        :returns: Texts that name them.
        """

    def public_key(self) -> str:
        """Return the key by which this host logs on to others."""

    def authorize(self, key: str) -> None:
        """Let another host log on to this one.

        :param key: Its public key.
        """

    def validate(self, uuid: str, target: live_migration.Target) -> None:
        """Have the host verify that an LPAR can migrate.

        :raises exception.RestError: It cannot.
        """

    def migrate(self, uuid: str, target: live_migration.Target) -> None:
        """Have the host migrate an LPAR, and wait for the end.

        :raises exception.PowerVMError: The job failed, or its end is unknown:
            only the hosts tell where the LPAR is.
        """

    def abort(self, uuid: str) -> None:
        """Have the host end the migration of an LPAR, which stays."""

    def recover(self, uuid: str, *, force: bool = False) -> None:
        """Have the host clean up after a migration that failed.

        :param force: Whether to do that without the other host.
        """


class Records(Protocol):
    """Nova's records of instances."""

    def instances_of(self, lpar_uuids: Iterable[str]) -> Mapping[str, str]:
        """Find the instances that LPARs belong to.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: LPAR uuid to instance uuid, without foreign LPARs. Instances
            that were deleted or evacuated to another host are included.
        """

    def hosted(self, nodename: str) -> Collection[str]:
        """Return the uuids of all instances of a host."""

    def running(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> Mapping[str, str]:
        """Find the instances that should be running and have no task.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param nodename: As in ``instance.host``.
        :returns: LPAR uuid to instance uuid, for active instances of the host
            without an operation of Nova in progress.
        """

    def gone(self, lpar_uuids: Iterable[str]) -> Collection[str]:
        """Find the LPARs whose instances need no disks any more.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: Those of instances that Nova knows, and that are deleted, or
            on no host and without an operation in progress.
        """

    def abandoned(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> Collection[str]:
        """Find the LPARs that interrupted evacuations to a host left there.

        Call this only while no evacuation is in progress.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param nodename: The destination, as in ``instance.host``.
        """

    def holdings(
        self, lpar_uuids: Iterable[str]
    ) -> Mapping[str, Mapping[str, claims.SlotProvider]]:
        """Find the slot providers that Nova stored with instances.

        While an instance moves, include those of its source and destination.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: LPAR uuid to slot providers by uuid, without foreign LPARs.
            An instance that is deleted or has no host holds nothing.
        """

    def stale_lpars(
        self, lpar_uuids: Iterable[str], nodename: str
    ) -> Mapping[str, slot_providers.StaleLpar]:
        """Find the stale LPARs, whose instances have moved to other hosts.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param nodename: The host of the LPARs, as in ``instance.host``.
        :returns: LPAR uuid to where its instance is. An LPAR is not stale
            while its instance moves from or to this host.
        """

    def awaited(self, nodename: str) -> Collection[str]:
        """Find the LPARs that live migrations may bring to a host.

        :param nodename: The destination, as in ``instance.host``.
        :returns: Upper-case PowerVM uuids, also of migrations whose end is
            unknown: their LPARs may be there.
        """


class Placement(Protocol):
    """The requests to Placement that Nova itself does not make."""

    def get_allocations(
        self, providers: Collection[slot_providers.Provider]
    ) -> slot_providers.Allocations:
        """Read the allocations and reservations of providers.

        Never raise an error: a provider without an answer from Placement
        counts as allocated.
        """

    def get_consumers(
        self, providers: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        """Read the consumers of providers, with one request for each.

        Never raise an error.

        :param providers: The uuids of the providers.
        :returns: Provider uuid to consumer uuids, without the providers that
            Placement did not answer about.
        """

    def allocated_to(self, consumer: str) -> Mapping[str, Mapping[str, Any]]:
        """Return what is allocated to a consumer.

        :returns: Provider uuid to ``{'resources': {class: amount}}``.
        :raises exception.PlacementUnanswered: Placement did not answer.
        """

    def is_burned(self, uuid: str, classes: Collection[str]) -> bool:
        """Return whether all inventory of a provider is reserved.

        :param classes: The resource classes; if empty, all.
        :raises exception.PlacementUnanswered: Placement did not answer, or
            the provider has no inventory.
        """

    def burn(self, uuid: str, classes: Collection[str]) -> bool:
        """Reserve all inventory of a provider, and read it back.

        Send one request, and two more if it was not reserved yet.

        :param classes: The resource classes to reserve; if empty, all.
        :returns: Whether this call has reserved the inventory.
        :raises exception.PlacementUnanswered: Placement did not confirm the
            reservation, or the provider has no inventory.
        """


def require_lpar(partitions: Partitions, uuid: str) -> partition.Partition:
    """Read an LPAR that must exist.

    :param uuid: Upper-case PowerVM uuid.
    :raises exception.PartitionNotFound: There is no such LPAR.
    """
    lpar = partitions.find(uuid)
    if lpar is None:
        raise exception.PartitionNotFound(uuid=uuid)
    return lpar

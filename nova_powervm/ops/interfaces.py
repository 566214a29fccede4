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

"""What the operations need from outside, as protocols.

:mod:`nova_powervm.powervm` implements those of the host,
:mod:`nova_powervm.virt` those of Nova and Placement,
:mod:`nova_powervm.inventory_file` that of the inventory file. Those of
networks are in :mod:`nova_powervm.ops.vif_interfaces`.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

from nova_powervm.devices import claims
from nova_powervm.devices import host
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.instance import image
from nova_powervm.instance import partition


class System(Protocol):
    """The managed system."""

    def read(self) -> host.HostView:
        """Read the host; an unchanged one costs one conditional request.

        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """

    def uptime(self) -> int:
        """Give the seconds since the management partition was booted."""


class Inventory(Protocol):
    """The inventory file."""

    @property
    def policy(self) -> policies.Policy:
        """What is in force."""

    def refresh(self) -> policies.Policy:
        """Take a changed file over, if it is good, and give what holds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A virtual disk or medium that was made.

    :param name: Its name.
    :param handle: What the port that made it needs to attach it; opaque.
    """

    name: str
    handle: Any = dataclasses.field(compare=False, repr=False)


class Source(Protocol):
    """Gives the bytes of an image, from the beginning each time."""

    def __call__(self) -> Generator[bytes]:
        """Open the image.

        Closing the generator ends the transfer. What goes wrong is raised
        while reading.
        """


class Disks(Protocol):
    """A way to keep the disks of instances.

    Found as an entry point of ``nova_powervm.disk_drivers`` that has the
    name that ``[powervm]disk_driver`` says.
    """

    @property
    def unavailable(self) -> str | None:
        """Why this host offers no disks, None if it does.

        It names the option that is missing. All other methods can be called
        nevertheless.
        """

    def capacity(self) -> host.DiskCapacity:
        """Give the size of the storage and how much of it is taken."""

    def prepare(self) -> None:
        """Clear up after a service that was killed; called at start."""

    def check(self, *, config_drive: bool) -> None:
        """Refuse if no disk can be made at all.

        :param config_drive: Whether there is to be a medium, too.
        :raises exception.ConfigurationError: An option is missing or wrong.
        """

    def check_room(
        self, lpar: str, root_gb: int, medium_bytes: int | None
    ) -> None:
        """Refuse if there is no space for an LPAR's disks.

        What the LPAR has by now counts as free. The host is asked.

        :param lpar: Upper-case PowerVM uuid.
        :param root_gb: Size of its root disk in GiB.
        :param medium_bytes: Size of its medium; None for no medium.
        :raises exception.NoRoom: There is too little.
        :raises exception.ConfigurationError: There is no such storage.
        """

    def make_root(
        self,
        lpar: str,
        name: str,
        size_gb: int,
        contents: image.Contents,
        source: Source,
    ) -> Stored:
        """Make a root disk and write an image onto it.

        Nothing is left of a disk that could not be filled. What is there of
        the LPAR's by now was left by an interrupted build, and is removed.

        :param lpar: Upper-case PowerVM uuid; there need be no such LPAR.
        :param name: Of the disk.
        :param size_gb: Its size in GiB.
        :param contents: What the image holds.
        :param source: Gives the image's bytes, the last ones only if all of
            them are right.
        :raises exception.ImageDamaged: They are not.
        """

    def make_medium(self, name: str, iso: bytes) -> Stored:
        """Make a virtual optical medium.

        :param name: Of the medium.
        :param iso: Its contents.
        """

    def attach(self, lpar: str, stored: Sequence[Stored]) -> None:
        """Connect storage to an LPAR; what is connected already is fine.

        :param lpar: Upper-case PowerVM uuid.
        """

    def stems(self) -> Collection[str]:
        """Give what the names of our disks begin with, one for each LPAR.

        :returns: See :func:`nova_powervm.instance.storage.stem`.
        """

    def remove_stems(self, stems: Collection[str]) -> None:
        """Delete disks and media by what their names begin with."""

    def remove(self, lpar: str, *, delete: bool = True) -> None:
        """Disconnect and delete all storage of an LPAR; none is fine.

        :param lpar: Upper-case PowerVM uuid; the LPAR itself may be gone.
        :param delete: False to disconnect it only.
        """


class Partitions(Protocol):
    """The logical partitions of the host."""

    def names(self) -> Mapping[str, str]:
        """Give upper-case uuid to name of all but the VIOSes."""

    def states(self) -> Mapping[str, str]:
        """Give upper-case uuid to the host's word for the state of each LPAR.

        One request; the management partition and VIOSes are left out.
        """

    def find(self, uuid: str) -> partition.Partition | None:
        """Read an LPAR, or give None if there is none.

        :param uuid: Upper-case PowerVM uuid.
        """

    def state(self, uuid: str) -> str:
        """Give the host's word for an LPAR's state.

        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def obstacle(self, uuid: str) -> str | None:
        """Say why an LPAR can't get or lose adapters now.

        :param uuid: Upper-case PowerVM uuid.
        :returns: The reason, None if there is none, or no LPAR.
        """

    def create(self, spec: partition.PartitionSpec) -> partition.Partition:
        """Make an LPAR; it is not started.

        :returns: The LPAR as the host reports it.
        """

    def assign(
        self, uuid: str, slots: Collection[partition.SlotAssignment]
    ) -> partition.Partition:
        """Give slots to a stopped LPAR as required ones; the rest stays.

        :param uuid: Upper-case PowerVM uuid.
        :returns: The LPAR as the host reports it afterwards.
        """

    def delete(self, uuid: str) -> None:
        """Delete a stopped LPAR, which frees its slots; none is fine."""

    def power_on(self, lpar: partition.Partition) -> None:
        """Start an LPAR; one that runs already is fine."""

    def power_off(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        """Stop an LPAR; one that is off already is fine.

        :param hard: At once, else by asking the operating system.
        :param timeout: Seconds that the operating system gets; 0 for the
            server's default.
        """

    def restart(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        """Stop and start a running LPAR in one job.

        :param hard: At once, else by asking the operating system.
        :param timeout: Seconds that the job gets before it is cancelled; 0
            for the server's default.
        :raises exception.RestError: It failed, or the time was up.
        """


class Records(Protocol):
    """Nova's records of instances."""

    def instances_of(self, lpars: Iterable[str]) -> Mapping[str, str]:
        """Find the instances that LPARs belong to.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to instance uuid. An LPAR that is missing from
            the answer is foreign. Instances that were deleted or evacuated
            away are found, too.
        """

    def hosted(self, host: str) -> Collection[str]:
        """Give the uuids of all instances of a host."""

    def running(self, lpars: Iterable[str], host: str) -> Mapping[str, str]:
        """Find the instances that should be running and are left alone.

        :param lpars: Upper-case PowerVM uuids.
        :param host: As in ``instance.host``.
        :returns: LPAR uuid to instance uuid, of active instances of the host
            that no operation of Nova is working on.
        """

    def holdings(
        self, lpars: Iterable[str]
    ) -> Mapping[str, Mapping[str, claims.SlotProvider]]:
        """Find the slot providers that Nova stored with instances.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to slot providers by uuid. An LPAR that is missing
            from the answer is foreign. A deleted instance holds nothing, nor
            does one without a host.
        """


class Placement(Protocol):
    """What is asked of Placement beyond what Nova hands over."""

    def get_allocations(
        self, providers: Collection[slot_providers.Provider]
    ) -> slot_providers.Allocations:
        """Find who holds allocations of these providers.

        Never raises: what Placement gives no answer about counts as
        allocated.
        """

    def get_consumers(
        self, providers: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        """Find who holds allocations of providers, with one request for each.

        Never raises.

        :param providers: Uuids.
        :returns: Uuid of each provider that Placement gave an answer about to
            the uuids of its consumers.
        """

    def allocated_to(self, consumer: str) -> Collection[str]:
        """Give the uuids of the providers that a consumer holds.

        :raises exception.PlacementUnanswered: Placement did not answer.
        """

    def burn(self, uuid: str, classes: Collection[str]) -> bool:
        """Reserve all inventory of a provider, and read that back.

        One request; two more if it was not reserved.

        :param classes: Resource classes that count; if none, all of them.
        :returns: Whether it was not.
        :raises exception.PlacementUnanswered: Placement did not say that it
            is reserved, or the provider has no inventory.
        """

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

"""What connecting ports needs from the host and from Nova.

:mod:`nova_powervm.powervm.vif` implements the drivers,
:mod:`nova_powervm.virt` the records of Nova.
"""

import contextlib
from collections.abc import Collection
from collections.abc import Sequence
from typing import Protocol
from typing import TypeVar

from nova_powervm.instance import network
from nova_powervm.instance import partition

_C = TypeVar('_C', bound=network.Connection)
_A = TypeVar('_A', bound=network.Adapter)


class VifDriver(Protocol[_C, _A]):
    """Connects the ports that Neutron binds with one ``vif_type``.

    Found as an entry point of ``nova_powervm.vif_drivers`` that has the name
    of the type. An instance may have ports of several types, so each driver
    gets only ports of its own type, and reports and removes only adapters
    of its own type.
    """

    def check(self, port: network.Port) -> None:
        """Refuse a port without asking the host.

        :raises exception.PortRefused: No adapter can be made for it.
        """

    def using(
        self, ports: Sequence[network.Port]
    ) -> contextlib.AbstractContextManager[None]:
        """Keep what ports need on the host until their adapters are made.

        Everything from :meth:`connect` to :meth:`plug` happens inside of
        this context.
        """

    def connect(self, ports: Sequence[network.Port]) -> Sequence[_C]:
        """Plan how to connect ports; nothing is changed.

        :returns: One connection for each port.
        :raises exception.PortRefused: A port can't be connected.
        """

    def provide(
        self, connections: Sequence[_C], marks: 'InstanceMarks'
    ) -> None:
        """Prepare the host for connections; no LPAR is changed.

        :param marks: The record of the instance that the ports belong to.
        """

    def adapters(self, lpar: str) -> Sequence[_A]:
        """Read the adapters of an LPAR that ports of this type may have.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def serves(self, adapter: _A, port: network.Port) -> bool:
        """Whether an adapter is the one of a port with its MAC address.

        :param adapter: One that :meth:`adapters` gave.
        :param port: Its binding may have been lost, and its type with it.
        """

    def plug(self, lpar: partition.Partition, connection: _C) -> None:
        """Make the adapter of a connection; one that exists is fine."""

    def unplug(self, lpar: str, mac: str, only: _A | None = None) -> None:
        """Remove the adapter with a MAC address; none is fine.

        :param lpar: Upper-case PowerVM uuid.
        :param mac: As Neutron writes it.
        :param only: Remove no other adapter that has the address.
        """

    def release(self, marks: 'InstanceMarks') -> None:
        """Free what only the ports of an instance needed.

        Called when its LPAR is gone. Never raises.

        :param marks: The record of the instance.
        """

    def tidy(self) -> None:
        """Free what is of no use any more, once for each cycle.

        Never raises.
        """


class PortRecords(Protocol):
    """Nova's records of the ports of this host's instances."""

    def marks(self) -> Collection[str]:
        """Give the marks that instances of this host have."""

    def remove_mark(self, mark: str) -> None:
        """Remove a mark from all instances of this host."""

    def ports(self) -> Collection[network.Port]:
        """Give the ports of all instances of this host.

        Those of instances that are being deleted are left out.
        """


class InstanceMarks(Protocol):
    """Marks of one instance, which VIF drivers write for this host.

    A mark is a short text that Nova keeps in its record of the instance, for
    what a driver has to know after a restart of the service.
    """

    @property
    def instance(self) -> str:
        """The instance's uuid, for log lines."""

    def read(self) -> Collection[str]:
        """Give the marks of the instance."""

    def add(self, marks: Collection[str]) -> None:
        """Write marks into Nova's record of the instance.

        Never raises.
        """

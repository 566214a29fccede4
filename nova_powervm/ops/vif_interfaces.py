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

"""The protocols for connecting ports.

:mod:`nova_powervm.powervm.vif` implements the drivers,
:mod:`nova_powervm.virt` the records of Nova.
"""

import contextlib
from collections.abc import Collection
from collections.abc import Sequence
from typing import Protocol
from typing import TypeVar

from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition

_C = TypeVar('_C', bound=network_ports.Connection)
_A = TypeVar('_A', bound=network_ports.Adapter)


class VifDriver(Protocol[_C, _A]):
    """Connects the ports that Neutron binds with one ``vif_type``.

    Its entry point in ``nova_powervm.vif_drivers`` has the name of the type.
    An instance may have ports of several types. Each driver gets only ports
    of its own type, and reports and removes only adapters of its own type.
    """

    def check(self, port: network_ports.Port) -> None:
        """Check a port without asking the host.

        :raises exception.PortRefused: No adapter can be created for it.
        """

    def using(
        self, ports: Sequence[network_ports.Port]
    ) -> contextlib.AbstractContextManager[None]:
        """Keep what ports need on the host until their adapters exist.

        Everything from :meth:`connect` to :meth:`plug` happens within this
        context.
        """

    def connect(self, ports: Sequence[network_ports.Port]) -> Sequence[_C]:
        """Plan how to connect ports, and change nothing.

        :returns: One connection for each port.
        :raises exception.PortRefused: A port cannot be connected.
        """

    def provide(
        self, connections: Sequence[_C], metadata: 'InstanceMetadata'
    ) -> None:
        """Prepare the host for connections, and change no LPAR.

        :param metadata: The record of the instance that the ports belong to.
        """

    def adapters(self, lpar_uuid: str) -> Sequence[_A]:
        """Read the adapters of an LPAR that ports of this type may have.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def serves(self, adapter: _A, port: network_ports.Port) -> bool:
        """Return whether an adapter belongs to a port with its MAC address.

        :param adapter: An adapter from :meth:`adapters`.
        :param port: The port, which may have lost its binding and its type.
        """

    def plug(self, lpar: partition.Partition, connection: _C) -> int | None:
        """Create the adapter of a connection unless it exists.

        A guest names it by its virtual slot. Create it at the connection's
        ``slot``, unless that is None.

        :returns: Its virtual slot; None if that is unknown.
        """

    def unplug(self, lpar_uuid: str, mac: str, only: _A | None = None) -> None:
        """Remove the adapter with a MAC address, if there is one.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param mac: The MAC address in Neutron's form.
        :param only: Do not remove any other adapter with the address.
        """

    def release(self, metadata: 'InstanceMetadata') -> None:
        """Remove from the host what only the ports of an instance needed.

        This is called when its LPAR is gone. Never raise an error.

        :param metadata: The record of the instance.
        """

    def tidy(self) -> None:
        """Remove from the host what is no longer used, once in each cycle.

        Never raise an error.
        """


class PortRecords(Protocol):
    """Nova's records of the ports of this host's instances."""

    def metadata_keys(self) -> Collection[str]:
        """Return the keys of all instances of this host."""

    def remove_key(self, key: str) -> None:
        """Remove a key from all instances of this host."""

    def ports(self) -> Collection[network_ports.Port]:
        """Return the ports of all instances of this host.

        Omit the ports of instances that are being deleted.
        """


class InstanceMetadata(Protocol):
    """The metadata of one instance that VIF drivers write for this host.

    A key is a short text in Nova's record of the instance, of at most 64
    characters. It stores what a driver has to know after a restart of the
    service.
    """

    @property
    def instance_uuid(self) -> str:
        """The instance's uuid, for log lines."""

    def read(self) -> Collection[str]:
        """Return the keys of the instance."""

    def add(self, keys: Collection[str]) -> None:
        """Write keys into Nova's record of the instance.

        Never raise an error.
        """

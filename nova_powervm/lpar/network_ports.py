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

"""Ports of instances and network adapters of LPARs, of any type."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import ClassVar

NORMAL = 'normal'
#: The VIF type of a port that Neutron has bound to no host.
UNBOUND = 'unbound'
#: The VNIC types that need no device of their own. Neutron's driver for OVN
#: serves ``baremetal`` itself.
BRIDGED = (NORMAL, 'baremetal')


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """A port of an instance.

    :param id: Its uuid in Neutron.
    :param mac: As Neutron writes it, ``fa:16:3e:00:00:01``.
    :param vif_type: The type of its binding (``binding:vif_type``).
    :param vnic_type: The type that its owner requested
        (``binding:vnic_type``).
    :param vlan: VLAN ID of its network; None for a flat network.
    :param physical_network: Neutron's name of the physical network, if it
        is known.
    """

    id: str
    mac: str
    vif_type: str
    vnic_type: str = NORMAL
    vlan: int | None = None
    physical_network: str | None = None

    @property
    def is_unbound(self) -> bool:
        """Whether Neutron has bound it to no host."""
        return self.vif_type == UNBOUND


@dataclasses.dataclass(frozen=True, slots=True)
class Adapter:
    """A network adapter of an LPAR; each VIF driver has a subclass.

    Instances of a subclass compare by value, and their text describes the
    adapter in log lines.

    :param mac: As Neutron writes it, ``fa:16:3e:00:00:01``.
    :param slot: Its virtual slot; None if it is unknown, or the host's choice.
    """

    #: The VIF type of the VIF driver that reports the adapter.
    vif_type: ClassVar[str]

    mac: str
    slot: int | None = dataclasses.field(
        default=None, compare=False, kw_only=True
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """How a port is to be connected; each VIF driver has a subclass.

    :param port: The port.
    :param slot: The virtual slot that its adapter is to have; None if the host
        is to choose one.
    """

    port: Port
    slot: int | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The changes that fit an LPAR's adapters to its instance's ports.

    :param surplus: Adapters to remove first.
    :param connections: Connections whose adapters to create afterwards.
    :param present: All adapters that the LPAR has, surplus ones among them.
    """

    surplus: Sequence[Adapter] = ()
    connections: Sequence[Connection] = ()
    present: Sequence[Adapter] = ()

    def __bool__(self) -> bool:
        return bool(self.surplus or self.connections)

    @property
    def additions(self) -> tuple[Connection, ...]:
        """The connections that do not depend on removing surplus adapters.

        A guest must not get two adapters with the same MAC address.
        """
        used = {adapter.mac for adapter in self.surplus}
        return tuple(c for c in self.connections if c.port.mac not in used)


def slots_of(adapters: Iterable[Adapter]) -> dict[str, int]:
    """Return the known virtual slots of adapters, by their MAC addresses."""
    return {a.mac: a.slot for a in adapters if a.slot is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """Ports and adapters that do not match; :class:`Changes` would end it.

    :param missing: Ports without an adapter.
    :param surplus: Adapters without a port.
    """

    missing: tuple[Port, ...] = ()
    surplus: tuple[Adapter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)


def compare(
    ports: Iterable[Port],
    adapters: Sequence[Adapter],
    serves: Callable[[Adapter, Port], bool],
) -> Mismatch:
    """Compare the ports of an instance with the adapters of its LPAR.

    :param ports: The ports of the instance.
    :param adapters: The adapters of the LPAR, without adapters that no port
        can have.
    :param serves: Whether an adapter belongs to a port with the same MAC
        address.
    """
    missing = []
    used = set()
    for port in ports:
        fitting = [a for a in adapters if a.mac == port.mac]
        fitting = [adapter for adapter in fitting if serves(adapter, port)]
        used.update(fitting)
        if not fitting:
            missing.append(port)
    surplus = tuple(adapter for adapter in adapters if adapter not in used)
    return Mismatch(tuple(missing), surplus)

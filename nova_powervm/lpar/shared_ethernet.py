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

"""Shared Ethernet: bridges, VLANs, and which bridge serves a port."""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import ClassVar

from nova_powervm import exception
from nova_powervm.lpar import network_ports

#: Neutron's VIF type of a port on a Shared Ethernet Adapter.
VIF_TYPE = 'pvm_sea'
#: How many additional trunk adapters a bridge can have, and how many tagged
#: VLANs each of them. pypowervm never adds VLANs to the first trunk adapter.
TRUNKS = 15
VLANS_PER_TRUNK = 20

_NO_BRIDGE = 'this host has no Shared Ethernet bridge for its network'


@dataclasses.dataclass(frozen=True, slots=True)
class Bridge:
    """A Shared Ethernet bridge (REST element ``NetworkBridge``).

    :param uuid: Its uuid.
    :param switch: Name of the virtual switch that it connects.
    :param pvid: The VLAN ID that untagged frames of the physical network have
        inside the host.
    :param vlans: All VLANs that it carries, ``pvid`` among them.
    :param free_vlans: How many VLANs can still be added to it.
    """

    uuid: str
    switch: str
    pvid: int
    vlans: frozenset[int]
    free_vlans: int = TRUNKS * VLANS_PER_TRUNK

    def keeps_from(self, other: 'Bridge', vlan: int) -> bool:
        """Return whether this bridge prevents another from carrying a VLAN.

        A VLAN of a virtual switch can be on one bridge only.
        """
        return (
            self.uuid != other.uuid
            and self.switch == other.switch
            and vlan in self.vlans
        )

    def __str__(self) -> str:
        return f'{self.switch}/{self.pvid}'


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Vlan:
    """A VLAN on a bridge of this host.

    :param bridge: The bridge's uuid: a bridge that was recreated does not
        carry the VLANs that the driver added to the old one.
    :param number: The VLAN ID.
    """

    bridge: str
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class BridgeName:
    """The name of a bridge in the configuration.

    :param switch: Name of its virtual switch.
    :param pvid: Its PVID; required if the switch has several bridges.
    """

    switch: str
    pvid: int | None = None

    def matches(self, bridge: Bridge) -> bool:
        """Return whether it names this bridge."""
        pvid = bridge.pvid if self.pvid is None else self.pvid
        return (self.switch, pvid) == (bridge.switch, bridge.pvid)

    def __str__(self) -> str:
        pvid = '' if self.pvid is None else f'/{self.pvid}'
        return f'{self.switch}{pvid}'


@dataclasses.dataclass(frozen=True, slots=True)
class Adapter(network_ports.Adapter):
    """A client network adapter of an LPAR.

    :param mac: As Neutron writes it, ``fa:16:3e:00:00:01``.
    :param vlan: Its port VLAN ID.
    :param switch: Name of its virtual switch.
    """

    vif_type: ClassVar[str] = VIF_TYPE

    vlan: int
    switch: str

    def serves(self, port: network_ports.Port) -> bool:
        """Return whether it can connect a port with its MAC address.

        A port without a VLAN is identified by its MAC address alone: it is on
        a flat network, or its binding was lost.
        """
        return port.vlan in (None, self.vlan)

    def __str__(self) -> str:
        return f'{self.mac} on VLAN {self.vlan} of {self.switch}'


@dataclasses.dataclass(frozen=True, slots=True)
class Connection(network_ports.Connection):
    """The bridge and VLAN of one port.

    :param port: The port.
    :param bridge: The bridge to its physical network.
    :param vlan: VLAN ID of its adapter.
    """

    bridge: Bridge
    vlan: int

    @property
    def adapter(self) -> Adapter:
        """The adapter of the connection."""
        switch = self.bridge.switch
        return Adapter(self.port.mac, self.vlan, switch, slot=self.slot)

    @property
    def is_provisioned(self) -> bool:
        """Whether the bridge carries the VLAN already."""
        return self.vlan in self.bridge.vlans

    @property
    def on_bridge(self) -> Vlan:
        """The VLAN, on its bridge."""
        return Vlan(self.bridge.uuid, self.vlan)


def connect(
    port: network_ports.Port,
    bridges: Sequence[Bridge],
    mappings: Mapping[str, BridgeName],
) -> Connection:
    """Choose the bridge of a port.

    :param port: The port.
    :param bridges: The bridges of the host.
    :param mappings: Physical network to the name of its bridge; if empty, the
        host's only bridge is used for every network.
    :raises exception.PortRefused: No bridge, or more than one, qualifies.
    """
    fitting = bridges
    if mappings:
        fitting = _mapped(port, bridges, mappings)
    if len(fitting) != 1:
        text = _undecided(port, bridges, fitting)
        reason = exception.PrivateText(text, _NO_BRIDGE)
        raise exception.PortRefused(port=port.id, reason=reason)
    bridge = fitting[0]
    vlan = bridge.pvid if port.vlan is None else port.vlan
    for other in bridges:
        if other.keeps_from(bridge, vlan):
            raise exception.PortRefused(
                port=port.id,
                reason=exception.PrivateText(
                    f'VLAN {vlan} belongs to Shared Ethernet bridge '
                    f'{other} and cannot be on {bridge}, too: see '
                    '[powervm]bridge_mappings',
                    _NO_BRIDGE,
                ),
            )
    return Connection(port, bridge, vlan)


def free_vlans_of(trunks: Collection[int]) -> int:
    """Return the number of VLANs that can still be added to a bridge.

    :param trunks: The number of tagged VLANs of each additional trunk adapter.
    """
    free = sum(max(VLANS_PER_TRUNK - tagged, 0) for tagged in trunks)
    return free + max(TRUNKS - len(trunks), 0) * VLANS_PER_TRUNK


def check_free_vlans(connections: Iterable[Connection]) -> None:
    """Refuse connections whose new VLANs do not fit on their bridge.

    :raises exception.PortRefused: The message names the first port whose VLAN
        does not fit.
    """
    new: dict[str, set[int]] = {}
    for connection in connections:
        if connection.is_provisioned:
            continue
        bridge = connection.bridge
        added = new.setdefault(bridge.uuid, set())
        added.add(connection.vlan)
        if len(added) > bridge.free_vlans:
            # Nova truncates faults, so the remedy comes first.
            raise exception.PortRefused(
                port=connection.port.id,
                reason=exception.PrivateText(
                    f'remove unused VLANs from Shared Ethernet '
                    f'bridge {bridge}: it is full and cannot carry VLAN '
                    f'{connection.vlan}, too ({len(bridge.vlans)} VLANs; '
                    f'{TRUNKS} trunk adapters with {VLANS_PER_TRUNK} each are '
                    'the limit)',
                    'the Shared Ethernet bridge of its network is full',
                ),
            )


def _mapped(
    port: network_ports.Port,
    bridges: Sequence[Bridge],
    mappings: Mapping[str, BridgeName],
) -> list[Bridge]:
    name = mappings.get(port.physical_network or '')
    if name is None:
        raise exception.PortRefused(
            port=port.id,
            reason=exception.PrivateText(
                f"its physical network '{port.physical_network}' is none "
                f'of [powervm]bridge_mappings ({", ".join(sorted(mappings))})',
                _NO_BRIDGE,
            ),
        )
    return [bridge for bridge in bridges if name.matches(bridge)]


def _undecided(
    port: network_ports.Port,
    bridges: Collection[Bridge],
    fitting: Collection[Bridge],
) -> str:
    present = ', '.join(sorted(map(str, bridges))) or 'none'
    name = port.physical_network or 'its network'
    # Nova truncates faults, so the remedy comes first.
    if not fitting:
        return (
            f'set [powervm]bridge_mappings: there is no Shared Ethernet '
            f'bridge for {name} (there are: {present})'
        )
    return (
        f'name one as SWITCH/PVID in [powervm]bridge_mappings: '
        f'{len(fitting)} Shared Ethernet bridges could carry {name} '
        f'({present})'
    )

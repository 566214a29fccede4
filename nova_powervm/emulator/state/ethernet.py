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

"""The resources of virtual Ethernet: switches, networks, adapters, bridges.

A bridge's trunk adapters are Adapters of its Virtual I/O Servers; what the
NetworkBridge and the VirtualIOServer show of them is made from these.
"""

from collections.abc import Iterator

from nova_powervm.emulator import content
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import resource
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.state import virtual_slots

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
System = system_module.System

SWITCH = 'VirtualSwitch'
NETWORK = 'VirtualNetwork'
BRIDGE = 'NetworkBridge'
ADAPTER = 'ClientNetworkAdapter'

DEFAULT_SWITCH = 'ETHERNET0(Default)'
SWITCH_LINK = 'AssociatedVirtualSwitch/link'
SEAS = 'SharedEthernetAdapters'
SEA = 'SharedEthernetAdapter'
SEA_VIOS = 'AssignedVirtualIOServer'
TRUNKS = 'TrunkAdapters'
TRUNK = 'TrunkAdapter'


class Switch(resource.Resource):
    """A VirtualSwitch of a system."""

    def __init__(self, uuid: str, element: Element, system: System) -> None:
        super().__init__(SWITCH, uuid, element, parent=system)
        self.system = system

    @property
    def name(self) -> str:
        """SwitchName, the default one's as ``ETHERNET0(Default)``."""
        return self.text('SwitchName')

    @property
    def short_name(self) -> str:
        """SwitchName without the remark that it is the default one."""
        return self.name.removesuffix('(Default)')

    @property
    def id(self) -> int:
        """SwitchID, 0 to 15."""
        return self.integer('SwitchID')

    @property
    def mode(self) -> str:
        """SwitchMode, ``Veb`` or ``Vepa``."""
        return self.text('SwitchMode')


class Network(resource.Resource):
    """A VirtualNetwork: one VLAN of one switch.

    :ivar lasting: whether a client made it; others go with the last adapter
        that has the VLAN.
    """

    def __init__(
        self, uuid: str, element: Element, system: System, lasting: bool
    ) -> None:
        super().__init__(NETWORK, uuid, element, parent=system)
        self.lasting = lasting

    @property
    def vlan(self) -> int:
        """NetworkVLANID."""
        return self.integer('NetworkVLANID')

    @property
    def switch_id(self) -> int:
        """VswitchID: SwitchID of its switch."""
        return self.integer('VswitchID')


class Adapter(resource.Resource):
    """A ClientNetworkAdapter of a partition; a trunk adapter is one, too.

    :ivar bridge: the uuid of the NetworkBridge whose trunk it is, or empty.
    """

    def __init__(
        self, uuid: str, element: Element, partition: Partition
    ) -> None:
        super().__init__(ADAPTER, uuid, element, parent=partition)
        self.partition = partition
        self.bridge = ''

    @property
    def mac(self) -> str:
        """MACAddress: twelve digits in upper case."""
        return self.text('MACAddress')

    @property
    def slot(self) -> int:
        """VirtualSlotNumber."""
        return self.integer(virtual_slots.NUMBER)

    @property
    def pvid(self) -> int:
        """PortVLANID: the VLAN of packets without a tag."""
        return self.integer('PortVLANID')

    @property
    def tagged(self) -> tuple[int, ...]:
        """TaggedVLANIDs."""
        return tuple(map(int, self.text('TaggedVLANIDs').split()))

    @property
    def vlans(self) -> set[int]:
        """Every VLAN that it takes part in."""
        return {self.pvid, *self.tagged}

    @property
    def switch_id(self) -> int:
        """SwitchID of its switch."""
        return self.integer('VirtualSwitchID')

    @property
    def priority(self) -> int:
        """TrunkPriority; 0 for an adapter that is no trunk."""
        return self.integer('TrunkPriority')


class Bridge(resource.Resource):
    """A NetworkBridge: a Shared Ethernet Adapter, or two for failover."""

    def __init__(self, uuid: str, element: Element, system: System) -> None:
        super().__init__(BRIDGE, uuid, element, parent=system)
        self.system = system

    @property
    def pvid(self) -> int:
        """PortVLANID, which the primary trunk adapters have."""
        return self.integer('PortVLANID')

    @property
    def switch_id(self) -> int:
        """SwitchID of the switch that it bridges."""
        trunks = self.trunks
        return content.integer(trunks[0], 'VirtualSwitchID') if trunks else 0

    @property
    def seas(self) -> list[Element]:
        """Its SharedEthernetAdapter elements."""
        return content.find_all(self.element, f'{SEAS}/{SEA}')

    @property
    def trunks(self) -> list[Element]:
        """The TrunkAdapter elements of the first SharedEthernetAdapter."""
        path = f'{TRUNKS}/{TRUNK}'
        return content.find_all(self.seas[0], path) if self.seas else []


def adapters(host: Host, system: System) -> Iterator[Adapter]:
    """Yield the adapters of every partition of a system."""
    for adapter in host.of_type(Adapter):
        if adapter.partition.system is system:
            yield adapter


def trunks_of(
    host: Host, bridge: Bridge, vios: Partition | None = None
) -> list[Adapter]:
    """Return the trunk adapters of a bridge, the primary ones first.

    :param vios: only those of this server.
    """
    found = [
        adapter
        for adapter in host.of_type(Adapter, vios)
        if adapter.bridge == bridge.uuid
    ]
    return sorted(found, key=lambda adapter: adapter.pvid != bridge.pvid)


def link(path: str) -> Element:
    """Return a link to a resource."""
    element = content.leaf('link')
    element.set('href', path)
    element.set('rel', 'related')
    return element


def target(element: Element, path: str) -> str:
    """Return the uuid that the link at a path leads to, or nothing."""
    found = content.find(element, path)
    href = '' if found is None else found.get('href', '')
    return str(href).partition('?')[0].rpartition('/')[2]


@virtual_slots.register
def _slots(host: Host, partition: Partition) -> Iterator[int]:
    """Yield the slots of a partition's network adapters.

    A captured Virtual I/O Server has trunk adapters that are no resources.
    """
    for adapter in host.of_type(Adapter, partition):
        yield adapter.slot
    for trunk in content.find_all(partition.element, f'{TRUNKS}/{TRUNK}'):
        yield content.integer(trunk, virtual_slots.NUMBER)

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

"""NetworkBridges that world documents describe."""

from collections.abc import Sequence

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns import trunk_adapter
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.network_bridge import model as network_bridge
from powervm_emulator.nouns.network_bridge import update as bridge_update
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import virtual_slots

Element = content.Element
System = managed_system.System
Partition = partition_module.Partition
_LAST_VLAN = virtual_network.MAX_VLAN
Spec = resource.JSON
Host = host_module.Host


def build(host: Host, system: System, described: Sequence[Spec]) -> None:
    """Build the bridges of a system."""
    bridged = {
        vlan
        for bridge in described
        for vlan in (bridge.get('pvid', 1), *bridge.get('vlans', ()))
    }
    for spec in described:
        _build(host, system, spec, bridged)


def _build(host: Host, system: System, spec: Spec, bridged: set[int]) -> None:
    """Build a bridge of a system.

    :param bridged: the VLANs that any bridge of the system specifies.
    """
    if 'capture' in spec:
        found = captures.find(spec['capture'], network_bridge.BRIDGE)
        bridge = network_bridge.Bridge(found.uuid, found.element, system)
        host.add(bridge)
        _adopt_trunks(host, bridge)
        return
    name = spec.get('switch', virtual_switch.DEFAULT_SWITCH)
    switch = virtual_switch.by_name(host, system, name)
    used = bridged.union(
        *(adapter.vlans for adapter in net_adapter.every(host, system))
    )
    vlans = _trunk_vlans(spec, used)
    seas = [
        _sea(
            _vios(host, system, spec[key]),
            [_trunk(switch, *pair, priority) for pair in vlans],
            is_primary=priority == 1,
        )
        for priority, key in enumerate(('vios', 'failover_vios'), 1)
        if key in spec
    ]
    body = content.new(
        network_bridge.BRIDGE,
        content.leaf('PortVLANID', spec['pvid']),
        content.new(trunk_adapter.SEAS, *seas),
    )
    bridge_update.build(host, system, body)


def _adopt_trunks(host: Host, bridge: network_bridge.Bridge) -> None:
    """Create the trunk adapters of a captured bridge on existing VIOSes."""
    for sea in bridge.seas:
        uuid = content.target(sea, trunk_adapter.SEA_VIOS)
        vios = host.find(partition_module.VIOS, uuid)
        if not isinstance(vios, Partition):
            continue
        for trunk in content.find_all(sea, trunk_adapter.TRUNK_PATH):
            _adopt(host, bridge, vios, trunk)


def _adopt(
    host: Host, bridge: network_bridge.Bridge, vios: Partition, trunk: Element
) -> None:
    children = [content.copy(child) for child in trunk]
    element = content.new(net_adapter.ADAPTER, *children[1:])
    uuid = host.new_uuid()
    content.put(element, 'LocalPartitionID', vios.id)
    adapter = net_adapter.Adapter(uuid, element, vios)
    adapter.bridge = bridge.uuid
    host.add(adapter)


def _sea(vios: Partition, trunks: list[Element], is_primary: bool) -> Element:
    number = len(content.find_all(vios.element, trunk_adapter.SEA_PATH))
    device = content.new(
        'EthernetBackingDevice',
        content.leaf('DeviceName', f'ent{number}'),
    )
    choice = content.leaf('BackingDeviceChoice')
    choice.append(device)
    return content.new(
        trunk_adapter.SEA,
        content.link(vios.event_path, trunk_adapter.SEA_VIOS),
        choice,
        content.leaf('IsPrimary', is_primary),
        content.new(trunk_adapter.TRUNKS, *trunks),
    )


def _trunk_vlans(spec: Spec, used: set[int]) -> list[tuple[int, list[int]]]:
    """Return the PVID and tagged VLANs of each trunk adapter of a bridge.

    :param used: VLANs that can't be PVIDs of additional trunk adapters.
    """
    vlans = sorted(spec.get('vlans', ()))
    arbitrary = (
        number for number in range(_LAST_VLAN, 1, -1) if number not in used
    )
    size = net_adapter.MAX_TAGGED
    parts = [vlans[at : at + size] for at in range(0, len(vlans), size)]
    return [(spec['pvid'], []), *zip(arbitrary, parts, strict=False)]


def _trunk(
    switch: virtual_switch.Switch, pvid: int, tagged: list[int], priority: int
) -> Element:
    link = content.leaf('AssociatedVirtualSwitch')
    link.append(content.link(switch.event_path))
    return content.new(
        trunk_adapter.TRUNK,
        content.leaf(virtual_slots.NEXT, True),
        content.leaf('PortVLANID', pvid),
        content.leaf('TaggedVLANIDs', ' '.join(map(str, tagged))),
        link,
        content.leaf('TrunkPriority', priority),
    )


def _vios(host: Host, system: System, name: str) -> Partition:
    for partition in host.of_type(Partition, system):
        if partition.kind == partition_module.VIOS and partition.name == name:
            return partition
    raise errors.WorldError(f'unknown Virtual I/O Server {name!r}')


SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'vios': shapes.ref(
            'name',
            'The Virtual I/O Server with the Shared Ethernet Adapter. '
            'Required without capture.',
        ),
        'failover_vios': shapes.ref(
            'name',
            'The server with a second Shared Ethernet Adapter, for failover.',
        ),
        'switch': shapes.text(
            'Its name; ETHERNET0(Default) if it is not given.'
        ),
        'pvid': shapes.ref(
            'vlan',
            'The VLAN that is bridged without a tag. Required without '
            'capture.',
        ),
        'vlans': shapes.array(
            shapes.ref('vlan'), 'The VLANs that are bridged with their tags.'
        ),
    }
)

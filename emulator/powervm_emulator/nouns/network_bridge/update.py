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

"""Making, changing and deleting network bridges."""

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns import trunk_adapter
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.client_network_adapter import (
    update as client_network_adapter_update,
)
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.network_bridge import model as network_bridge
from powervm_emulator.nouns.partition import model as partition_module

Element = content.Element
System = managed_system.System
Partition = partition_module.Partition
Plan = network_bridge.Plan
Host = host_module.Host
Bridge = network_bridge.Bridge


_READ_ONLY = ('Metadata', 'PortVLANID', 'UniqueDeviceID', 'LoadGroups')
_SEA_READ_ONLY = (
    trunk_adapter.SEA_VIOS,
    'BackingDeviceChoice',
    'DeviceName',
    'PortVLANID',
    'UniqueDeviceID',
    'ConfigurationState',
)


def create(host: Host, system: System, body: Element) -> Bridge:
    """Make a bridge of a posted body, or refuse.

    :raises errors.RestError: hardware would not; nothing has changed.
    """
    for vios in network_bridge.servers(host, system, body):
        network_bridge.check_reachable(vios)
    return build(host, system, body)


def build(host: Host, system: System, body: Element) -> Bridge:
    """Make a bridge as :func:`create` does, whatever state servers have."""
    pvid = virtual_network.vlan_number(
        content.text(body, 'PortVLANID'), 'PortVLANID'
    )
    bridge = Bridge(host.new_uuid(), body, system)
    network_bridge.check_new(host, bridge)
    plans = network_bridge.make_plans(host, bridge, body)
    content.put_default(body, 'FailoverEnabled', len(plans) > 1)
    content.put_default(body, 'LoadBalancingEnabled', False)
    content.put(body, 'PortVLANID', pvid)
    content.put(body, 'UniqueDeviceID', 0)
    for plan in plans:
        _carry_out(host, bridge, plan)
        _fill_sea(host, bridge, plan)
    host.add(bridge)
    _show(host, bridge)
    return bridge


def update(
    host: Host, bridge: Bridge, body: Element, _groups: groups_module.Groups
) -> None:
    """Change a bridge to a posted body, or refuse.

    :raises errors.RestError: hardware would not; nothing has changed.
    """
    pvid = content.text(body, 'PortVLANID')
    if pvid and pvid != str(bridge.pvid):
        raise errors.Refused('The PVID of a network bridge cannot be changed.')
    content.keep(body, bridge.element, _READ_ONLY)
    network_bridge.check_same_servers(bridge, body)
    for vios in network_bridge.servers(host, bridge.system, body):
        network_bridge.check_reachable(vios)
    plans = network_bridge.make_plans(host, bridge, body)
    for plan, old in zip(plans, bridge.seas, strict=True):
        content.keep(plan.sea, old, _SEA_READ_ONLY)
        _carry_out(host, bridge, plan)
    bridge.element = body
    host.touch(bridge)
    _show(host, bridge)


def delete(host: Host, bridge: Bridge) -> None:
    """Delete a bridge with its Shared Ethernet Adapters and trunks.

    :raises errors.Refused: a server cannot let go of them.
    """
    servers = network_bridge.servers(host, bridge.system, bridge.element)
    for vios in servers:
        network_bridge.check_reachable(vios)
    for vios, sea in zip(servers, bridge.seas, strict=True):
        for adapter in network_bridge.trunks_of(host, bridge, vios):
            client_network_adapter_update.drop(host, adapter)
        trunk_adapter.hide_sea(vios, content.text(sea, 'DeviceName'))
        host.touch(vios)
    host.remove(bridge)
    net_adapter.settle_networks(host, bridge.system)


def forget(host: Host, partition: Partition) -> None:
    """Take a partition that is gone out of the bridges of its system."""
    for bridge in host.of_type(Bridge, partition.system):
        for sea in bridge.seas:
            uuid = content.target(sea, trunk_adapter.SEA_VIOS)
            if uuid.upper() == partition.uuid:
                sea.getparent().remove(sea)
                _lose(host, bridge)
    net_adapter.settle_networks(host, partition.system)


def _adapter_element(trunk: network_bridge.Trunk) -> Element:
    """Return the adapter that is planned, as a client would send it."""
    element = content.new(
        net_adapter.ADAPTER,
        content.leaf('RequiredAdapter', trunk.required),
        content.leaf('PortVLANID', trunk.pvid),
        content.leaf('TrunkPriority', trunk.priority),
    )
    tagged = ' '.join(map(str, trunk.tagged))
    content.put(element, 'TaggedVLANIDs', tagged)
    return element


def _fill_sea(host: Host, bridge: Bridge, plan: network_bridge.Plan) -> None:
    """Write what the server chooses about a new Shared Ethernet Adapter."""
    sea = plan.sea
    two = len(bridge.seas) > 1
    balanced = content.boolean(bridge.element, 'LoadBalancingEnabled')
    mode = 'sharing' if balanced else 'auto'
    content.put(sea, 'HighAvailabilityMode', mode if two else 'disabled')
    device = trunk_adapter.next_device(plan.vios)
    content.put(sea, 'DeviceName', device)
    content.replace(sea, _interface(device))
    content.put(sea, 'PortVLANID', bridge.pvid)
    unique = f'10{host.random.getrandbits(64):016x}'
    content.put(sea, 'UniqueDeviceID', unique)
    elements.fill(sea)
    _fill_device(plan.vios, sea)


def _fill_device(vios: Partition, sea: Element) -> None:
    """Write what the server says of the device behind an adapter."""
    device = content.find(sea, 'BackingDeviceChoice/EthernetBackingDevice')
    if device is None:
        return
    name = content.text(device, 'DeviceName')
    port = int(name[3:]) + 1 if trunk_adapter.is_device(name) else 1
    code = f'U78D2.001.{vios.system.serial}-P1-C10-T{port}'
    elements.fill(device)
    content.put_default(device, 'DynamicReconfigurationConnectorName', code)
    content.put_default(device, 'PhysicalLocation', code)
    content.put_default(device, 'UniqueDeviceID', f'13{code}')
    content.replace(device, _interface(name))
    elements.sort(device)


def _interface(device: str) -> Element:
    """Return the interface of a device, which has no address."""
    name = content.leaf('InterfaceName', device.replace('ent', 'en'))
    interface = content.new('IPInterface', name)
    elements.fill(interface)
    return interface


def _show(host: Host, bridge: Bridge) -> None:
    """Write a bridge's trunk adapters wherever they are shown."""
    servers = network_bridge.servers(host, bridge.system, bridge.element)
    for vios, sea in zip(servers, bridge.seas, strict=True):
        found = network_bridge.trunks_of(host, bridge, vios)
        members = [trunk_adapter.element(adapter) for adapter in found]
        content.replace(sea, content.new(trunk_adapter.TRUNKS, *members))
        elements.sort(sea)
        trunk_adapter.show_sea(vios, sea)
        host.touch(vios)
    everywhere = network_bridge.trunks_of(host, bridge)
    content.replace(bridge.element, trunk_adapter.load_groups(everywhere))
    elements.sort(bridge.element)
    net_adapter.settle_networks(host, bridge.system)
    _link_networks(host, bridge)
    for adapter in everywhere:
        client_network_adapter_update.link_network(host, adapter)


def _link_networks(host: Host, bridge: Bridge) -> None:
    """Let a bridge and its load groups link to their virtual networks."""
    groups = content.find_all(bridge.element, 'LoadGroups/LoadGroup')
    for part in (bridge.element, *groups):
        section = content.leaf('VirtualNetworks')
        for vlan in _vlans(part):
            network = virtual_network.find(
                host, bridge.system, bridge.switch_id, vlan
            )
            if network is not None:
                section.append(content.link(network.event_path))
        content.replace(part, section)


def _vlans(part: Element) -> list[int]:
    """Return each VLAN of the trunk adapters below an element, once."""
    trunks = part.iter(f'{{{content.UOM_NS}}}{trunk_adapter.TRUNK}')
    numbers = [
        number
        for trunk in trunks
        for name in ('PortVLANID', 'TaggedVLANIDs')
        for number in content.text(trunk, name).split()
    ]
    return [int(number) for number in dict.fromkeys(numbers)]


def _lose(host: Host, bridge: Bridge) -> None:
    """Go on with a bridge that has lost one Shared Ethernet Adapter."""
    if bridge.seas:
        content.put(bridge.element, 'FailoverEnabled', False)
        host.touch(bridge)
        _show(host, bridge)
    else:
        host.remove(bridge)


def _carry_out(host: Host, bridge: Bridge, plan: Plan) -> None:
    """Give a server the trunk adapters that were planned for it."""
    for adapter in plan.leaving:
        client_network_adapter_update.drop(host, adapter)
    for trunk in plan.trunks:
        if trunk.present is None:
            made = client_network_adapter_update.make(
                host,
                plan.vios,
                _adapter_element(trunk),
                plan.switch,
                trunk.slot,
                trunk.mac,
            )
            made.bridge = bridge.uuid
            client_network_adapter_update.add(host, made)
        elif trunk.changes:
            client_network_adapter_update.set_vlans(
                trunk.present, trunk.pvid, trunk.tagged
            )
            trunk_adapter.show(trunk.present)
            host.touch(trunk.present)

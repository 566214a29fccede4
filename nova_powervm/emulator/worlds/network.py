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

"""Building the virtual Ethernet that a world document describes."""

from collections.abc import Iterable
from typing import Any

from nova_powervm.emulator import captures
from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import adapters
from nova_powervm.emulator.state import bridges
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import network_rules
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.state import virtual_slots

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
Spec = dict[str, Any]
Switch = ethernet.Switch
System = system_module.System

_DEFAULT = {'name': ethernet.DEFAULT_SWITCH}
_LAST_VLAN = network_rules.MAX_VLAN


def build(
    host: Host,
    system: System,
    spec: Spec,
    partitions: Iterable[tuple[Partition, Spec]],
) -> None:
    """Build the switches, networks, bridges and adapters of a system.

    :param partitions: the system's partitions and their specifications.
    :raises errors.WorldError: the world violates a rule of virtual Ethernet.
    """
    try:
        for switch in spec.get('virtual_switches', (_DEFAULT,)):
            _build_switch(host, system, switch)
        for network in spec.get('virtual_networks', ()):
            _build_network(host, system, network)
        for bridge in spec.get('network_bridges', ()):
            _build_bridge(host, system, bridge, _bridged(spec))
        for partition, described in partitions:
            for adapter in described.get('adapters', ()):
                _build_adapter(host, partition, adapter)
    except errors.RestError as error:
        raise errors.WorldError([error.message]) from error


def _build_switch(host: Host, system: System, spec: Spec) -> None:
    if 'capture' in spec:
        found = _captured(spec, ethernet.SWITCH)
        host.add(Switch(found.uuid, found.element, system))
        return
    body = content.new(
        ethernet.SWITCH,
        content.leaf('SwitchMode', spec.get('mode', switches.MODES[0])),
        content.leaf('SwitchName', spec['name']),
    )
    switches.create(host, system, body)


def _build_network(host: Host, system: System, spec: Spec) -> None:
    found = _captured(spec, ethernet.NETWORK)
    host.add(ethernet.Network(found.uuid, found.element, system, lasting=True))


def _bridged(spec: Spec) -> set[int]:
    """Return all VLANs that the system's bridges specify."""
    return {
        vlan
        for bridge in spec['network_bridges']
        for vlan in (bridge.get('pvid', 1), *bridge.get('vlans', ()))
    }


def _build_bridge(
    host: Host, system: System, spec: Spec, bridged: set[int]
) -> None:
    if 'capture' in spec:
        found = _captured(spec, ethernet.BRIDGE)
        bridge = ethernet.Bridge(found.uuid, found.element, system)
        host.add(bridge)
        _adopt_trunks(host, bridge)
        return
    name = spec.get('switch', ethernet.DEFAULT_SWITCH)
    switch = switches.by_name(host, system, name)
    used = bridged.union(
        *(adapter.vlans for adapter in ethernet.adapters(host, system))
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
        ethernet.BRIDGE,
        content.leaf('PortVLANID', spec['pvid']),
        content.new(ethernet.SEAS, *seas),
    )
    bridges.build(host, system, body)


def _adopt_trunks(host: Host, bridge: ethernet.Bridge) -> None:
    """Create the trunk adapters of a captured bridge on existing VIOSes."""
    for sea in bridge.seas:
        uuid = ethernet.target(sea, ethernet.SEA_VIOS)
        vios = host.find(partition_module.VIOS, uuid)
        if not isinstance(vios, Partition):
            continue
        for trunk in content.find_all(
            sea, f'{ethernet.TRUNKS}/{ethernet.TRUNK}'
        ):
            _adopt(host, bridge, vios, trunk)


def _adopt(
    host: Host, bridge: ethernet.Bridge, vios: Partition, trunk: Element
) -> None:
    children = [content.copy(child) for child in trunk]
    element = content.new(ethernet.ADAPTER, *children[1:])
    uuid = host.new_uuid()
    content.put(element, 'Metadata/Atom/AtomID', uuid)
    content.put(element, 'LocalPartitionID', vios.id)
    adapter = ethernet.Adapter(uuid, element, vios)
    adapter.bridge = bridge.uuid
    host.add(adapter)


def _sea(vios: Partition, trunks: list[Element], is_primary: bool) -> Element:
    number = len(
        content.find_all(vios.element, f'{ethernet.SEAS}/{ethernet.SEA}')
    )
    device = content.new(
        'EthernetBackingDevice',
        content.leaf('AdapterID', 1),
        content.leaf('DeviceName', f'ent{number}'),
    )
    choice = content.leaf('BackingDeviceChoice')
    choice.append(device)
    assigned = content.leaf(ethernet.SEA_VIOS)
    assigned.set('href', vios.event_path)
    assigned.set('rel', 'related')
    return content.new(
        ethernet.SEA,
        assigned,
        choice,
        content.leaf('IsPrimary', is_primary),
        content.new(ethernet.TRUNKS, *trunks),
    )


def _trunk_vlans(spec: Spec, used: set[int]) -> list[tuple[int, list[int]]]:
    """Return the PVID and tagged VLANs of each trunk adapter of a bridge.

    :param used: VLANs that can't be PVIDs of additional trunk adapters.
    """
    vlans = sorted(spec.get('vlans', ()))
    arbitrary = (
        number for number in range(_LAST_VLAN, 1, -1) if number not in used
    )
    size = network_rules.MAX_TAGGED
    parts = [vlans[at : at + size] for at in range(0, len(vlans), size)]
    return [(spec['pvid'], []), *zip(arbitrary, parts, strict=False)]


def _trunk(
    switch: Switch, pvid: int, tagged: list[int], priority: int
) -> Element:
    link = content.leaf('AssociatedVirtualSwitch')
    link.append(ethernet.link(switch.event_path))
    return content.new(
        ethernet.TRUNK,
        content.leaf(virtual_slots.NEXT, True),
        content.leaf('PortVLANID', pvid),
        content.leaf('TaggedVLANIDs', ' '.join(map(str, tagged))),
        link,
        content.leaf('TrunkPriority', priority),
    )


def _build_adapter(host: Host, partition: Partition, spec: Spec) -> None:
    if 'capture' in spec:
        found = _captured(spec, ethernet.ADAPTER)
        host.add(ethernet.Adapter(found.uuid, found.element, partition))
        return
    name = spec.get('switch', ethernet.DEFAULT_SWITCH)
    switch = switches.by_name(host, partition.system, name)
    link = content.leaf('AssociatedVirtualSwitch')
    link.append(ethernet.link(switch.event_path))
    body = content.new(
        ethernet.ADAPTER,
        content.leaf(virtual_slots.NEXT_HIGH, True),
        content.leaf('PortVLANID', spec['vlan']),
        link,
    )
    if 'mac' in spec:
        mac = spec['mac'].replace(':', '').upper()
        body.append(content.leaf('MACAddress', mac))
    adapters.build(host, partition, body)


def _captured(spec: Spec, kind: str) -> captures.Capture:
    named = spec['capture']
    return captures.get(named['file'], named.get('entry', 0), kind)


def _vios(host: Host, system: System, name: str) -> Partition:
    for partition in host.of_type(Partition, system):
        if partition.kind == partition_module.VIOS and partition.name == name:
            return partition
    raise errors.WorldError([f'unknown Virtual I/O Server {name!r}'])

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

"""Network bridges: the Shared Ethernet Adapters of Virtual I/O Servers.

NovaLink has clients say which VLANs a bridge has by the trunk adapters of
its SharedEthernetAdapters; LoadGroups only show them.
"""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import adapter_content
from nova_powervm.emulator.state import adapters
from nova_powervm.emulator.state import bridge_content
from nova_powervm.emulator.state import bridge_plans
from nova_powervm.emulator.state import bridge_rules
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import groups as groups_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import network_rules
from nova_powervm.emulator.state import networks
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.state import trunks

Bridge = ethernet.Bridge
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
Plan = bridge_plans.Plan
System = system_module.System

_READ_ONLY = ('Metadata', 'PortVLANID', 'UniqueDeviceID', 'LoadGroups')
_SEA_READ_ONLY = (
    ethernet.SEA_VIOS,
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
    for vios in bridge_rules.servers(host, system, body):
        bridge_rules.check_reachable(vios)
    return build(host, system, body)


def build(host: Host, system: System, body: Element) -> Bridge:
    """Make a bridge as :func:`create` does, whatever state servers have."""
    pvid = network_rules.vlan(content.text(body, 'PortVLANID'), 'PortVLANID')
    bridge = Bridge(host.new_uuid(), body, system)
    bridge_rules.check_new(host, bridge)
    plans = bridge_plans.make(host, bridge, body)
    content.put(body, 'Metadata/Atom/AtomID', bridge.uuid)
    content.put_default(body, 'FailoverEnabled', len(plans) > 1)
    content.put_default(body, 'LoadBalancingEnabled', False)
    content.put(body, 'PortVLANID', pvid)
    content.put(body, 'UniqueDeviceID', 0)
    content.replace(body, content.leaf('VirtualNetworks'))
    for plan in plans:
        _carry_out(host, bridge, plan)
        bridge_content.fill_sea(host, bridge, plan)
    host.add(bridge)
    bridge_content.show(host, bridge)
    return bridge


def update(
    host: Host, bridge: Bridge, body: Element, _groups: groups_module.Groups
) -> None:
    """Change a bridge to a posted body, or refuse.

    :raises errors.RestError: hardware would not; nothing has changed.
    """
    pvid = content.text(body, 'PortVLANID')
    if pvid and pvid != str(bridge.pvid):
        raise errors.BadRequest(
            'The PVID of a network bridge cannot be changed.'
        )
    content.keep(body, bridge.element, _READ_ONLY)
    bridge_rules.check_same_servers(bridge, body)
    for vios in bridge_rules.servers(host, bridge.system, body):
        bridge_rules.check_reachable(vios)
    plans = bridge_plans.make(host, bridge, body)
    for plan, old in zip(plans, bridge.seas, strict=True):
        content.keep(plan.sea, old, _SEA_READ_ONLY)
        _carry_out(host, bridge, plan)
    bridge.element = body
    host.touch(bridge)
    bridge_content.show(host, bridge)


def delete(host: Host, bridge: Bridge) -> None:
    """Delete a bridge with its Shared Ethernet Adapters and trunks.

    :raises errors.Conflict: a server cannot let go of them.
    """
    servers = bridge_rules.servers(host, bridge.system, bridge.element)
    for vios in servers:
        bridge_rules.check_reachable(vios)
    for vios, sea in zip(servers, bridge.seas, strict=True):
        for adapter in ethernet.trunks_of(host, bridge, vios):
            adapters.drop(host, adapter)
        trunks.hide_sea(vios, content.text(sea, 'DeviceName'))
        host.touch(vios)
    host.remove(bridge)
    networks.settle(host, bridge.system)


def forget(host: Host, partition: Partition) -> None:
    """Take a partition that is gone out of the bridges of its system."""
    for bridge in host.of_type(Bridge, partition.system):
        for sea in bridge.seas:
            uuid = ethernet.target(sea, ethernet.SEA_VIOS)
            if uuid.upper() == partition.uuid:
                sea.getparent().remove(sea)
                _lose(host, bridge)
    networks.settle(host, partition.system)


def _lose(host: Host, bridge: Bridge) -> None:
    """Go on with a bridge that has lost one Shared Ethernet Adapter."""
    if bridge.seas:
        content.put(bridge.element, 'FailoverEnabled', False)
        host.touch(bridge)
        bridge_content.show(host, bridge)
    else:
        host.remove(bridge)


def _carry_out(host: Host, bridge: Bridge, plan: Plan) -> None:
    """Give a server the trunk adapters that were planned for it."""
    for adapter in plan.leaving:
        adapters.drop(host, adapter)
    for trunk in plan.trunks:
        if trunk.present is None:
            made = adapter_content.make(
                host,
                plan.vios,
                bridge_content.adapter_element(trunk),
                plan.switch,
                trunk.slot,
                trunk.mac,
            )
            made.bridge = bridge.uuid
            adapters.add(host, made)
        elif trunk.changes:
            adapter_content.set_vlans(trunk.present, trunk.pvid, trunk.tagged)
            trunks.show(trunk.present)
            host.touch(trunk.present)

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

"""What the host writes into a network bridge."""

from nova_powervm.emulator import content
from nova_powervm.emulator.state import adapters
from nova_powervm.emulator.state import bridge_plans
from nova_powervm.emulator.state import bridge_rules
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import networks
from nova_powervm.emulator.state import trunks

Bridge = ethernet.Bridge
Element = content.Element
Host = host_module.Host

_ORDER = (
    'Metadata',
    'ControlChannelID',
    'FailoverEnabled',
    'LoadBalancingEnabled',
    'LoadGroups',
    'PortVLANID',
    ethernet.SEAS,
    'UniqueDeviceID',
    'VirtualNetworks',
)

_SEA_ORDER = (
    'Metadata',
    ethernet.SEA_VIOS,
    'ControlChannelInterfaceName',
    'BackingDeviceChoice',
    'HighAvailabilityMode',
    'DeviceName',
    'JumboFramesEnabled',
    'PortVLANID',
    'QualityOfServiceMode',
    'QueueSize',
    'ThreadModeEnabled',
    ethernet.TRUNKS,
    'IsPrimary',
    'IPInterface',
    'UniqueDeviceID',
    'LargeSend',
    'AddressToPing',
    'IIDPService',
    'ConfigurationState',
)

_SEA_DEFAULTS: dict[str, content.Value] = {
    'JumboFramesEnabled': False,
    'QualityOfServiceMode': 'disabled',
    'QueueSize': 8192,
    'ThreadModeEnabled': True,
    'IsPrimary': True,
    'LargeSend': True,
    'ConfigurationState': 'Configured',
}


def adapter_element(trunk: bridge_plans.Trunk) -> Element:
    """Return the adapter that is planned, as a client would send it."""
    element = content.new(
        ethernet.ADAPTER,
        content.leaf('RequiredAdapter', trunk.required),
        content.leaf('PortVLANID', trunk.pvid),
        content.leaf('TrunkPriority', trunk.priority),
    )
    tagged = ' '.join(map(str, trunk.tagged))
    content.put(element, 'TaggedVLANIDs', tagged)
    return element


def fill_sea(host: Host, bridge: Bridge, plan: bridge_plans.Plan) -> None:
    """Write what the server chooses about a new Shared Ethernet Adapter."""
    sea = plan.sea
    two = len(bridge.seas) > 1
    balanced = content.boolean(bridge.element, 'LoadBalancingEnabled')
    mode = 'sharing' if balanced else 'auto'
    content.put(sea, 'HighAvailabilityMode', mode if two else 'disabled')
    content.put(sea, 'DeviceName', trunks.next_device(plan.vios))
    content.put(sea, 'PortVLANID', bridge.pvid)
    unique = f'10{host.random.getrandbits(64):016x}'
    content.put(sea, 'UniqueDeviceID', unique)
    for name, value in _SEA_DEFAULTS.items():
        content.put_default(sea, name, value)


def show(host: Host, bridge: Bridge) -> None:
    """Write a bridge's trunk adapters wherever they are shown."""
    servers = bridge_rules.servers(host, bridge.system, bridge.element)
    for vios, sea in zip(servers, bridge.seas, strict=True):
        found = ethernet.trunks_of(host, bridge, vios)
        members = [trunks.element(adapter) for adapter in found]
        content.replace(sea, content.new(ethernet.TRUNKS, *members))
        content.sort_children(sea, _SEA_ORDER)
        trunks.show_sea(vios, sea)
        host.touch(vios)
    everywhere = ethernet.trunks_of(host, bridge)
    content.replace(bridge.element, trunks.load_groups(everywhere))
    content.sort_children(bridge.element, _ORDER)
    networks.settle(host, bridge.system)
    for adapter in everywhere:
        adapters.link_network(host, adapter)

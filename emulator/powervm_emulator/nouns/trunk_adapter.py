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

"""What Virtual I/O Servers and bridges show of trunk adapters.

Elements are put and taken one by one: a captured server has more of them
than there are resources.
"""

import re

from powervm_emulator.core import content
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import virtual_slots

Element = content.Element
TRUNKS = net_adapter.TRUNKS
Adapter = net_adapter.Adapter
TRUNK = net_adapter.TRUNK
Partition = partition_module.Partition


SEAS = 'SharedEthernetAdapters'
SEA = 'SharedEthernetAdapter'
SEA_PATH = f'{SEAS}/{SEA}'
TRUNK_PATH = f'{TRUNKS}/{TRUNK}'
SEA_VIOS = 'AssignedVirtualIOServer'
GROUP = 'ViosNetwork'
# ent0 to ent3 are physical ports.
FIRST_DEVICE = 4
_DEVICE = re.compile('ent[0-9]{1,9}')
_SWITCH = 'AssociatedVirtualSwitch'
_NAMES = (
    'DynamicReconfigurationConnectorName',
    'LocationCode',
    'RequiredAdapter',
    'VariedOn',
    'LocalPartitionID',
    virtual_slots.NUMBER,
    'AllowedOperatingSystemMACAddresses',
    'MACAddress',
    'PortVLANID',
    'QualityOfServicePriorityEnabled',
    'TaggedVLANIDs',
    'TaggedVLANSupported',
    _SWITCH,
    'VirtualSwitchID',
    'DeviceName',
    'TrunkPriority',
)


def element(adapter: Adapter, with_switch: bool = False) -> Element:
    """Return the TrunkAdapter element of an adapter.

    :param with_switch: link to its switch, as a server does; a bridge has
        no more than its id.
    """
    found = [content.find(adapter.element, name) for name in _NAMES]
    children = [
        content.copy(child)
        for child in found
        if child is not None
        and (with_switch or content.local_name(child) != _SWITCH)
    ]
    return content.new(TRUNK, *children)


def show(adapter: Adapter) -> None:
    """Let a Virtual I/O Server show an adapter, if it is a trunk's."""
    if not adapter.priority or adapter.parent is None:
        return
    hide(adapter)
    if adapter.partition.kind == partition_module.VIOS:
        section = _section(adapter.partition, TRUNKS)
        section.append(element(adapter, with_switch=True))


def hide(adapter: Adapter) -> None:
    """Let the server of an adapter not show it any more."""
    for found in content.find_all(adapter.partition.element, TRUNK_PATH):
        if content.integer(found, virtual_slots.NUMBER) == adapter.slot:
            found.getparent().remove(found)


def show_sea(vios: Partition, sea: Element) -> None:
    """Let a server show one of a bridge's Shared Ethernet Adapters."""
    hide_sea(vios, content.text(sea, 'DeviceName'))
    _section(vios, SEAS).append(content.copy(sea))


def hide_sea(vios: Partition, device: str) -> None:
    """Let a server not show a Shared Ethernet Adapter any more."""
    for found in content.find_all(vios.element, SEA_PATH):
        if content.text(found, 'DeviceName') == device:
            found.getparent().remove(found)


def is_device(name: str) -> bool:
    """Whether a name is that of an Ethernet device, such as ``ent4``."""
    return _DEVICE.fullmatch(name) is not None


def next_device(vios: Partition) -> str:
    """Return the name for the next device of a server, such as ``ent4``."""
    used = [
        int(node.text[3:])
        for node in vios.element.iter(f'{{{content.UOM_NS}}}DeviceName')
        if node.text and is_device(node.text)
    ]
    return f'ent{max([*used, FIRST_DEVICE - 1]) + 1}'


def load_groups(adapters: list[Adapter]) -> Element:
    """Return the LoadGroups of a bridge.

    :param adapters: its trunk adapters, the primary ones first.
    """
    pvids = dict.fromkeys(adapter.pvid for adapter in adapters)
    groups = []
    for pvid in pvids:
        members = [
            element(adapter) for adapter in adapters if adapter.pvid == pvid
        ]
        group = content.new(
            'LoadGroup',
            content.leaf('PortVLANID', pvid),
            content.new(TRUNKS, *members),
        )
        groups.append(group)
    return content.new('LoadGroups', *groups)


def _section(vios: Partition, name: str) -> Element:
    found = content.section(vios.element, name)
    found.set('group', GROUP)
    return found

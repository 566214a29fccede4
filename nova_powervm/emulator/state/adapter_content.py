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

"""What the host writes into a network adapter."""

from nova_powervm.emulator import content
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.state import trunks
from nova_powervm.emulator.state import virtual_slots

Adapter = ethernet.Adapter
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

_ORDER = (
    'Metadata',
    'AdapterType',
    'DynamicReconfigurationConnectorName',
    'LocationCode',
    'LocalPartitionID',
    'RequiredAdapter',
    'VariedOn',
    virtual_slots.NUMBER,
    'Enabled',
    'AllowedOperatingSystemMACAddresses',
    'MACAddress',
    'PortVLANID',
    'QualityOfServicePriority',
    'QualityOfServicePriorityEnabled',
    'TaggedVLANIDs',
    'TaggedVLANSupported',
    'VirtualStationInterfaceTypeID',
    'VirtualStationInterfaceTypeVersion',
    'VirtualStationInterfaceManagerID',
    'AssociatedVirtualSwitch',
    'VirtualSwitchID',
    'IPAddress',
    'SubnetMask',
    'Gateway',
    'DeviceName',
    'TrunkPriority',
    'ConfiguredMTU',
    'OvsBridge',
    'OvsPortExternalIds',
    'VirtualNetworks',
)

_DEFAULTS: dict[str, content.Value] = {
    'RequiredAdapter': False,
    'VariedOn': True,
    'Enabled': True,
    'AllowedOperatingSystemMACAddresses': 'ALL',
    'QualityOfServicePriorityEnabled': False,
}


def make(
    host: Host,
    partition: Partition,
    element: Element,
    switch: ethernet.Switch,
    slot: int,
    mac: str,
) -> Adapter:
    """Return an adapter that is not part of the host yet."""
    uuid = host.new_uuid()
    content.put(element, 'Metadata/Atom/AtomID', uuid)
    content.remove(element, (virtual_slots.NEXT, virtual_slots.NEXT_HIGH))
    for name, value in _DEFAULTS.items():
        content.put_default(element, name, value)
    code = location(partition, slot)
    content.put(element, 'DynamicReconfigurationConnectorName', code)
    content.put(element, 'LocationCode', code)
    content.put(element, 'LocalPartitionID', partition.id)
    content.put(element, virtual_slots.NUMBER, slot)
    content.put(element, 'MACAddress', mac)
    if not partition.boolean('IsManagementPartition'):
        # Only there can a client choose it.
        content.remove(element, ('DeviceName',))
    if partition.kind == partition_module.VIOS:
        name = trunks.next_device(partition)
        content.put(element, 'DeviceName', name)
    set_switch(element, switch)
    return Adapter(uuid, element, partition)


def set_vlans(adapter: Adapter, pvid: int, tagged: tuple[int, ...]) -> None:
    """Write the VLANs of an adapter; without any, no tagged ones."""
    content.put(adapter.element, 'PortVLANID', pvid)
    text = ' '.join(map(str, tagged))
    content.put(adapter.element, 'TaggedVLANIDs', text)
    _settle_tags(adapter.element)
    content.sort_children(adapter.element, _ORDER)


def location(partition: Partition, slot: int) -> str:
    """Return the location code of a virtual slot."""
    mtms = system_module.MTMS
    machine = '.'.join(
        partition.system.text(f'{mtms}/{name}')
        for name in ('MachineType', 'Model', 'SerialNumber')
    )
    return f'U{machine}-V{partition.id}-C{slot}'


def set_switch(element: Element, switch: ethernet.Switch) -> None:
    """Write the switch of an adapter, and what follows from its VLANs."""
    related = content.leaf('AssociatedVirtualSwitch')
    related.append(ethernet.link(switch.event_path))
    content.replace(element, related)
    content.put(element, 'VirtualSwitchID', switch.id)
    _settle_tags(element)
    content.sort_children(element, _ORDER)


def _settle_tags(element: Element) -> None:
    tagged = ' '.join(content.text(element, 'TaggedVLANIDs').split())
    if tagged:
        content.put(element, 'TaggedVLANIDs', tagged)
        content.put(element, 'TaggedVLANSupported', True)
    else:
        content.remove(element, ('TaggedVLANIDs',))
        content.put_default(element, 'TaggedVLANSupported', False)

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

"""Network adapters of partitions: making, changing and deleting them."""

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns import trunk_adapter
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import rules
from powervm_emulator.nouns.partition import virtual_slots

Host = host_module.Host
Adapter = net_adapter.Adapter
Element = content.Element
Partition = partition_module.Partition


_LINKS = 'ClientNetworkAdapters'
_WHAT = 'network adapters'
_READ_ONLY = (
    'Metadata',
    'DynamicReconfigurationConnectorName',
    'LocationCode',
    'LocalPartitionID',
    virtual_slots.NUMBER,
    'DeviceName',
    'VirtualNetworks',
)


def create(host: Host, partition: Partition, body: Element) -> Adapter:
    """Make an adapter of a posted body, or refuse.

    :returns: the adapter; the host has chosen what the body leaves open.
    :raises errors.RestError: hardware would not; nothing has changed.
    """
    rules.check_not_migrating(partition)
    rules.check_dynamic(partition, _WHAT)
    return build(host, partition, body)


def build(host: Host, partition: Partition, body: Element) -> Adapter:
    """Make an adapter as :func:`create` does, whatever the guest does."""
    system = partition.system
    net_adapter.vlans(body)
    switch = virtual_switch.of(host, system, body, virtual_switch.SWITCH_LINK)
    _check_trunk(host, partition, body, switch.id)
    mac = content.text(body, 'MACAddress').upper()
    if mac:
        net_adapter.check_mac(host, system, mac)
    slot = virtual_slots.choose(host, partition, body)
    mac = mac or net_adapter.new_mac(host, system)
    adapter = make(host, partition, body, switch, slot, mac)
    add(host, adapter)
    net_adapter.settle_networks(host, system)
    link_network(host, adapter)
    return adapter


def update(
    host: Host, adapter: Adapter, body: Element, groups: groups_module.Groups
) -> None:
    """Change an adapter to a posted body, or refuse.

    VLANs, the switch and whether it is enabled are the hypervisor's matter
    and change under a guest that does not take part.

    :raises errors.RestError: hardware would not; nothing has changed.
    """
    net_adapter.check_not_bridged(adapter)
    rules.check_not_migrating(adapter.partition)
    _check_slot(adapter, body)
    adapter.merge_groups(body, groups)
    content.keep(body, adapter.element, _READ_ONLY)
    net_adapter.vlans(body)
    partition = adapter.partition
    system = partition.system
    switch = virtual_switch.of(host, system, body, virtual_switch.SWITCH_LINK)
    _check_trunk(host, partition, body, switch.id, adapter)
    _settle_mac(host, adapter, body)
    set_switch(body, switch)
    trunk_adapter.hide(adapter)
    adapter.element = body
    trunk_adapter.show(adapter)
    host.touch(adapter)
    net_adapter.settle_networks(host, system)
    link_network(host, adapter)


def delete(host: Host, adapter: Adapter) -> None:
    """Delete an adapter.

    :raises errors.Refused: the guest cannot let go of it, or it is a trunk
        adapter of a bridge.
    """
    net_adapter.check_not_bridged(adapter)
    rules.check_not_migrating(adapter.partition)
    rules.check_dynamic(adapter.partition, _WHAT)
    drop(host, adapter)
    net_adapter.settle_networks(host, adapter.partition.system)


def make(
    host: Host,
    partition: Partition,
    element: Element,
    switch: virtual_switch.Switch,
    slot: int,
    mac: str,
) -> Adapter:
    """Return an adapter that is not part of the host yet."""
    uuid = host.new_uuid()
    content.remove(element, (virtual_slots.NEXT, virtual_slots.NEXT_HIGH))
    elements.fill(element)
    code = virtual_slots.location(partition, slot)
    content.put(element, 'DynamicReconfigurationConnectorName', code)
    content.put(element, 'LocationCode', code)
    content.put(element, 'LocalPartitionID', partition.id)
    content.put(element, virtual_slots.NUMBER, slot)
    content.put(element, 'MACAddress', mac)
    if not partition.boolean(partition_module.MANAGEMENT):
        # Only there can a client choose it.
        content.remove(element, ('DeviceName',))
    if partition.kind == partition_module.VIOS:
        name = trunk_adapter.next_device(partition)
        content.put(element, 'DeviceName', name)
    set_switch(element, switch)
    return Adapter(uuid, element, partition)


def set_vlans(adapter: Adapter, pvid: int, tagged: tuple[int, ...]) -> None:
    """Write the VLANs of an adapter; without any, no tagged ones."""
    content.put(adapter.element, 'PortVLANID', pvid)
    text = ' '.join(map(str, tagged))
    content.put(adapter.element, 'TaggedVLANIDs', text)
    _settle_tags(adapter.element)
    elements.sort(adapter.element)


def set_switch(element: Element, switch: virtual_switch.Switch) -> None:
    """Write the switch of an adapter, and what follows from its VLANs."""
    related = content.leaf('AssociatedVirtualSwitch')
    related.append(content.link(switch.event_path))
    content.replace(element, related)
    content.put(element, 'VirtualSwitchID', switch.id)
    _settle_tags(element)
    elements.sort(element)


def _settle_tags(element: Element) -> None:
    tagged = ' '.join(content.text(element, 'TaggedVLANIDs').split())
    if tagged:
        content.put(element, 'TaggedVLANIDs', tagged)
        content.put(element, 'TaggedVLANSupported', True)
    else:
        content.remove(element, ('TaggedVLANIDs',))
        content.put_default(element, 'TaggedVLANSupported', False)


def add(host: Host, adapter: Adapter) -> None:
    """Make an adapter part of its partition and of the host."""
    partition = adapter.partition
    host.add(adapter)
    section = content.find(partition.element, _LINKS)
    if section is None:
        section = content.leaf(_LINKS)
        partition.element.append(section)
        elements.sort(partition.element)
    section.append(content.link(adapter.event_path))
    trunk_adapter.show(adapter)
    host.touch(partition)


def drop(host: Host, adapter: Adapter) -> None:
    """Take an adapter out of its partition and of the host."""
    partition = adapter.partition
    host.remove(adapter)
    for found in content.find_all(partition.element, f'{_LINKS}/link'):
        if found.get('href', '').endswith(f'/{adapter.uuid}'):
            found.getparent().remove(found)
    trunk_adapter.hide(adapter)
    host.touch(partition)


def link_network(host: Host, adapter: Adapter) -> None:
    """Let an adapter link to the network of its PVID."""
    system = adapter.partition.system
    network = virtual_network.find(
        host, system, adapter.switch_id, adapter.pvid
    )
    section = content.leaf('VirtualNetworks')
    if network is not None:
        section.append(content.link(network.event_path))
    content.replace(adapter.element, section)


def _settle_mac(host: Host, adapter: Adapter, body: Element) -> None:
    """Check a posted MAC address and write it as the API does."""
    mac = content.text(body, 'MACAddress').upper()
    if mac != adapter.mac:
        rules.check_dynamic(adapter.partition, _WHAT)
        system = adapter.partition.system
        net_adapter.check_mac(host, system, mac, adapter)
    content.put(body, 'MACAddress', mac)


def _check_slot(adapter: Adapter, body: Element) -> None:
    wanted = content.text(body, virtual_slots.NUMBER)
    if wanted and wanted != str(adapter.slot):
        raise errors.Refused(
            'The virtual slot of a network adapter cannot be changed.'
        )


def _check_trunk(
    host: Host,
    partition: Partition,
    body: Element,
    switch_id: int,
    present: Adapter | None = None,
) -> None:
    priority = content.integer(body, 'TrunkPriority')
    if priority:
        pvid, tagged = net_adapter.vlans(body)
        net_adapter.check_trunk(
            host,
            partition,
            switch_id=switch_id,
            wanted=(pvid, *tagged),
            priority=priority,
            leaving=() if present is None else (present,),
        )

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

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import adapter_content
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import groups as groups_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import network_rules
from nova_powervm.emulator.state import networks
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import rules
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import trunks
from nova_powervm.emulator.state import virtual_slots

Adapter = ethernet.Adapter
Element = content.Element
Host = host_module.Host
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
    rules.check_dynamic(partition, _WHAT)
    return build(host, partition, body)


def build(host: Host, partition: Partition, body: Element) -> Adapter:
    """Make an adapter as :func:`create` does, whatever the guest does."""
    system = partition.system
    network_rules.vlans(body)
    network_rules.check_priority(body)
    switch = switches.of(host, system, body, ethernet.SWITCH_LINK)
    _check_trunk(host, partition, body, switch.id)
    mac = content.text(body, 'MACAddress').upper()
    if mac:
        network_rules.check_mac(host, system, mac)
    slot = virtual_slots.choose(host, partition, body)
    mac = mac or network_rules.new_mac(host, system)
    adapter = adapter_content.make(host, partition, body, switch, slot, mac)
    add(host, adapter)
    networks.settle(host, system)
    link_network(host, adapter)
    return adapter


def add(host: Host, adapter: Adapter) -> None:
    """Make an adapter part of its partition and of the host."""
    partition = adapter.partition
    host.add(adapter)
    section = content.find(partition.element, _LINKS)
    if section is None:
        section = content.leaf(_LINKS)
        partition.element.append(section)
    section.append(ethernet.link(adapter.event_path))
    trunks.show(adapter)
    host.touch(partition)


def update(
    host: Host, adapter: Adapter, body: Element, groups: groups_module.Groups
) -> None:
    """Change an adapter to a posted body, or refuse.

    VLANs, the switch and whether it is enabled are the hypervisor's matter
    and change under a guest that does not take part.

    :raises errors.RestError: hardware would not; nothing has changed.
    """
    network_rules.check_not_bridged(adapter)
    _check_slot(adapter, body)
    adapter.merge_groups(body, groups)
    content.keep(body, adapter.element, _READ_ONLY)
    network_rules.vlans(body)
    network_rules.check_priority(body)
    partition = adapter.partition
    system = partition.system
    switch = switches.of(host, system, body, ethernet.SWITCH_LINK)
    _check_trunk(host, partition, body, switch.id, adapter)
    _settle_mac(host, adapter, body)
    adapter_content.set_switch(body, switch)
    trunks.hide(adapter)
    adapter.element = body
    trunks.show(adapter)
    host.touch(adapter)
    networks.settle(host, system)
    link_network(host, adapter)


def delete(host: Host, adapter: Adapter) -> None:
    """Delete an adapter.

    :raises errors.Conflict: the guest cannot let go of it, or it is a trunk
        adapter of a bridge.
    """
    network_rules.check_not_bridged(adapter)
    rules.check_dynamic(adapter.partition, _WHAT)
    drop(host, adapter)
    networks.settle(host, adapter.partition.system)


def drop(host: Host, adapter: Adapter) -> None:
    """Take an adapter out of its partition and of the host."""
    partition = adapter.partition
    host.remove(adapter)
    for found in content.find_all(partition.element, f'{_LINKS}/link'):
        if found.get('href', '').endswith(f'/{adapter.uuid}'):
            found.getparent().remove(found)
    trunks.hide(adapter)
    host.touch(partition)


def link_network(host: Host, adapter: Adapter) -> None:
    """Let an adapter link to the network of its PVID."""
    system = adapter.partition.system
    network = networks.find(host, system, adapter.switch_id, adapter.pvid)
    section = content.leaf('VirtualNetworks')
    if network is not None:
        section.append(ethernet.link(network.event_path))
    content.replace(adapter.element, section)


def _settle_mac(host: Host, adapter: Adapter, body: Element) -> None:
    """Check a posted MAC address and write it as the API does."""
    mac = content.text(body, 'MACAddress').upper()
    if mac != adapter.mac:
        rules.check_dynamic(adapter.partition, _WHAT)
        system = adapter.partition.system
        network_rules.check_mac(host, system, mac, adapter)
    content.put(body, 'MACAddress', mac)


def _check_slot(adapter: Adapter, body: Element) -> None:
    wanted = content.text(body, virtual_slots.NUMBER)
    if wanted and wanted != str(adapter.slot):
        raise errors.BadRequest(
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
        pvid, tagged = network_rules.vlans(body)
        network_rules.check_trunk(
            host,
            partition,
            switch_id=switch_id,
            wanted=(pvid, *tagged),
            priority=priority,
            leaving=() if present is None else (present,),
        )

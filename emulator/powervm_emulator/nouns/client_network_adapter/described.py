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

"""ClientNetworkAdapters that world documents describe."""

from collections.abc import Iterable

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.client_network_adapter import (
    update as client_network_adapter_update,
)
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import virtual_slots

Host = host_module.Host
Partition = partition_module.Partition


def build(
    host: Host, partition: Partition, described: Iterable[resource.JSON]
) -> None:
    """Build the adapters of a partition."""
    for spec in described:
        _build(host, partition, spec)


def _build(host: Host, partition: Partition, spec: resource.JSON) -> None:
    if 'capture' in spec:
        found = captures.find(spec['capture'], net_adapter.ADAPTER)
        made = net_adapter.Adapter(found.uuid, found.element, partition)
        _replace_adopted(host, made)
        host.add(made)
        return
    name = spec.get('switch', virtual_switch.DEFAULT_SWITCH)
    switch = virtual_switch.by_name(host, partition.system, name)
    link = content.leaf('AssociatedVirtualSwitch')
    link.append(content.link(switch.event_path))
    body = content.new(
        net_adapter.ADAPTER,
        content.leaf(virtual_slots.NEXT_HIGH, True),
        content.leaf('PortVLANID', spec['vlan']),
        link,
    )
    if 'mac' in spec:
        mac = spec['mac'].replace(':', '').upper()
        body.append(content.leaf('MACAddress', mac))
    client_network_adapter_update.build(host, partition, body)


def _replace_adopted(host: Host, made: net_adapter.Adapter) -> None:
    """Make a captured trunk adapter that of its captured bridge."""
    for other in list(host.of_type(net_adapter.Adapter, made.partition)):
        if other.bridge and other.slot == made.slot:
            made.bridge = other.bridge
            host.remove(other)


SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'vlan': shapes.ref('vlan', 'PortVLANID. Required without capture.'),
        'mac': shapes.value(
            'string',
            'The MAC address with colons; made if it is not given.',
            pattern='^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$',
        ),
        'switch': shapes.text(
            'Its name; ETHERNET0(Default) if it is not given.'
        ),
    }
)

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

"""Network adapters of partitions: the model and the rules."""

import re
from collections.abc import Collection
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import habits
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import rmc
from powervm_emulator.nouns.partition import virtual_slots

Host = host_module.Host
Element = content.Element
System = managed_system.System
Partition = partition_module.Partition


ADAPTER = 'ClientNetworkAdapter'
TRUNKS = 'TrunkAdapters'
TRUNK = 'TrunkAdapter'
# What a virtual Ethernet adapter can have besides its PVID.
MAX_TAGGED = 20
_MAC = re.compile('[0-9A-F]{12}')


class Adapter(resource.Resource):
    """A ClientNetworkAdapter of a partition; a trunk adapter is one, too.

    :ivar bridge: the uuid of the NetworkBridge whose trunk it is, or empty.
    """

    def __init__(
        self, uuid: str, element: Element, partition: Partition
    ) -> None:
        super().__init__(ADAPTER, uuid, element, parent=partition)
        self.partition = partition
        self.bridge = ''

    #: Twelve digits in upper case.
    mac = fields.text('MACAddress')
    slot = fields.integer(virtual_slots.NUMBER)
    #: The VLAN of packets without a tag.
    pvid = fields.integer('PortVLANID')

    @property
    def tagged(self) -> tuple[int, ...]:
        """TaggedVLANIDs."""
        return tuple(map(int, self.text('TaggedVLANIDs').split()))

    @property
    def vlans(self) -> set[int]:
        """Every VLAN that it takes part in."""
        return {self.pvid, *self.tagged}

    #: SwitchID of its switch.
    switch_id = fields.integer('VirtualSwitchID')

    def use_of(self, other: resource.Resource) -> str:
        """See the base class: it uses a switch, and networks of its VLANs."""
        if other.parent is not self.partition.system:
            return ''
        if isinstance(other, virtual_switch.Switch):
            uses = other.id == self.switch_id
        elif isinstance(other, virtual_network.Network):
            uses = (
                other.switch_id == self.switch_id and other.vlan in self.vlans
            )
        else:
            uses = False
        return (
            f'is in use by the network adapter in the virtual slot '
            f'{self.slot} of the partition {self.partition.name!r}' * uses
        )

    #: 0 for an adapter that is no trunk.
    priority = fields.integer('TrunkPriority')


def every(host: Host, system: System) -> Iterator[Adapter]:
    """Yield the adapters of every partition of a system."""
    for adapter in host.of_type(Adapter):
        if adapter.partition.system is system:
            yield adapter


@virtual_slots.register
def _slots(host: Host, partition: Partition) -> Iterator[int]:
    """Yield the slots of a partition's network adapters.

    A captured Virtual I/O Server has trunk adapters that are no resources.
    """
    for adapter in host.of_type(Adapter, partition):
        yield adapter.slot
    for trunk in content.find_all(partition.element, f'{TRUNKS}/{TRUNK}'):
        yield content.integer(trunk, virtual_slots.NUMBER)


@rmc.register_addresses
def _on_management_network(host: Host, partition: Partition) -> Iterator[str]:
    """Yield the MAC addresses of a partition's adapters on that network."""
    for adapter in host.of_type(Adapter, partition):
        name = virtual_switch.name_of(
            host, partition.system, adapter.switch_id
        )
        if (name, adapter.pvid) == (rmc.SWITCH, rmc.VLAN):
            yield adapter.mac


def settle_networks(host: Host, system: System) -> None:
    """Make the networks of a system follow its adapters."""
    used = {
        (adapter.switch_id, vlan)
        for adapter in every(host, system)
        for vlan in adapter.vlans
    }
    virtual_network.settle(host, system, used)


def vlans(element: Element) -> tuple[int, tuple[int, ...]]:
    """Return PortVLANID and TaggedVLANIDs of a posted adapter.

    :raises errors.Refused: one is no VLAN or there twice, or there are
        more than an adapter can have.
    """
    pvid = virtual_network.vlan_number(
        content.text(element, 'PortVLANID'), 'PortVLANID'
    )
    texts = content.text(element, 'TaggedVLANIDs').split()
    tagged = [
        virtual_network.vlan_number(text, 'TaggedVLANIDs') for text in texts
    ]
    for number in {pvid, *tagged}:
        if (pvid, *tagged).count(number) > 1:
            raise errors.Refused(f'The VLAN {number} is named more than once.')
    if len(tagged) > MAX_TAGGED:
        raise errors.Refused(
            f'{len(tagged)} tagged VLANs are more than the {MAX_TAGGED} that '
            'an adapter can have.'
        )
    return pvid, tuple(tagged)


def check_mac(
    host: Host, system: System, mac: str, present: Adapter | None = None
) -> None:
    """MAC addresses are twelve digits, of one station, and unique."""
    if not _MAC.fullmatch(mac) or int(mac, 16) == 0 or int(mac[:2], 16) & 1:
        raise errors.Refused(f'{mac!r} is not the MAC address of a port.')
    for other in every(host, system):
        if other.mac.upper() == mac and other is not present:
            problem = errors.Refused(
                f'The MAC address {mac} is in use by the network adapter in '
                f'the virtual slot {other.slot} of the partition '
                f'{other.partition.name!r}.'
            )
            habits.refuse('same-mac', problem)


def check_trunk(
    host: Host,
    partition: Partition,
    *,
    switch_id: int,
    wanted: Collection[int],
    priority: int,
    bridge: str = '',
    leaving: Collection[Adapter] = (),
) -> None:
    """A VLAN of a switch has one trunk adapter of each priority.

    Those of one VLAN are on different partitions, and of one bridge if they
    are of any: the second one is for failover.

    :param wanted: the trunk's VLANs.
    :param bridge: the uuid of the bridge that it is of, or nothing.
    :param leaving: adapters that are not there afterwards.
    """
    for other in every(host, partition.system):
        shared = other.vlans & set(wanted)
        if not shared or other in leaving or other.switch_id != switch_id:
            continue
        if other.priority and (
            other.priority == priority
            or other.partition is partition
            or (bridge and other.bridge and bridge != other.bridge)
        ):
            raise errors.Refused(_trunk_message(min(shared), other))


def check_not_bridged(adapter: Adapter) -> None:
    """A bridge's trunk adapters are changed by way of the bridge."""
    if adapter.bridge:
        raise errors.Refused(
            f'The adapter in the virtual slot {adapter.slot} of the '
            f'partition {adapter.partition.name!r} is a trunk adapter of '
            f'the network bridge {adapter.bridge}.'
        )


def new_mac(host: Host, system: System, promised: Collection[str] = ()) -> str:
    """Return a locally administered address that is not in use."""
    used = {other.mac for other in every(host, system)}
    while True:
        bits = host.random.getrandbits(48) & ~(3 << 40) | 2 << 40
        mac = f'{bits:012X}'
        if mac not in used and mac not in promised:
            return mac


def _trunk_message(vlan_id: int, other: Adapter) -> str:
    return (
        f'The VLAN {vlan_id} is on the trunk adapter with the PVID '
        f'{other.pvid} and the priority {other.priority} of the partition '
        f'{other.partition.name!r}.'
    )


def summary(host: Host, found: partition_module.Partition) -> resource.JSON:
    """Summarize the network adapters of a partition."""
    return {
        'adapters': [
            _adapter(host, one) for one in host.of_type(Adapter, found)
        ]
    }


def _adapter(host: Host, one: Adapter) -> resource.JSON:
    """Summarize an adapter; its MAC address has Neutron's notation."""
    digits = one.mac.lower()
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    return {
        'uuid': one.uuid,
        'mac': ':'.join(pairs),
        'vlan': one.pvid,
        'tagged': list(one.tagged),
        'switch': virtual_switch.name_of(
            host, one.partition.system, one.switch_id
        ),
        'slot': one.slot,
    }

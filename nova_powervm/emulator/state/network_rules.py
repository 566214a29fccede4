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

"""What virtual Ethernet refuses.

Each check returns if the request is possible and raises otherwise, with a
message that names the thing that is in the way.
"""

import re
from collections.abc import Collection

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module

Adapter = ethernet.Adapter
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
System = system_module.System

MAX_VLAN = 4094
# What a virtual Ethernet adapter can have besides its PVID.
MAX_TAGGED = 20
MAX_PRIORITY = 15
_MAC = re.compile('[0-9A-F]{12}')


def vlan(text: str, what: str) -> int:
    """Return the VLAN that a text says: 1 to 4094.

    :param what: the element, for the message.
    :raises errors.BadRequest: it is none.
    """
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_VLAN:
        return int(text)
    raise errors.BadRequest(
        f'{text!r} is not a VLAN for {what}: these are 1 to {MAX_VLAN}.'
    )


def vlans(element: Element) -> tuple[int, tuple[int, ...]]:
    """Return PortVLANID and TaggedVLANIDs of a posted adapter.

    :raises errors.BadRequest: one is no VLAN or there twice, or there are
        more than an adapter can have.
    """
    pvid = vlan(content.text(element, 'PortVLANID'), 'PortVLANID')
    texts = content.text(element, 'TaggedVLANIDs').split()
    tagged = [vlan(text, 'TaggedVLANIDs') for text in texts]
    for number in {pvid, *tagged}:
        if (pvid, *tagged).count(number) > 1:
            raise errors.BadRequest(
                f'The VLAN {number} is named more than once.'
            )
    if len(tagged) > MAX_TAGGED:
        raise errors.BadRequest(
            f'{len(tagged)} tagged VLANs are more than the {MAX_TAGGED} that '
            'an adapter can have.'
        )
    return pvid, tuple(tagged)


def check_mac(
    host: Host, system: System, mac: str, present: Adapter | None = None
) -> None:
    """MAC addresses are twelve digits, of one station, and unique."""
    if not _MAC.fullmatch(mac) or int(mac, 16) == 0 or int(mac[:2], 16) & 1:
        raise errors.BadRequest(f'{mac!r} is not the MAC address of a port.')
    for other in ethernet.adapters(host, system):
        if other.mac.upper() == mac and other is not present:
            raise errors.Conflict(
                f'The MAC address {mac} is in use by the network adapter in '
                f'the virtual slot {other.slot} of the partition '
                f'{other.partition.name!r}.'
            )


def check_priority(element: Element) -> None:
    """A trunk priority is a number from 1 to 15."""
    text = content.text(element, 'TrunkPriority')
    if text and not (text.isdecimal() and 1 <= int(text) <= MAX_PRIORITY):
        raise errors.BadRequest(
            f'{text!r} is not a trunk priority: these are 1 to {MAX_PRIORITY}.'
        )


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
    for other in ethernet.adapters(host, partition.system):
        shared = other.vlans & set(wanted)
        if not shared or other in leaving or other.switch_id != switch_id:
            continue
        if other.priority and (
            other.priority == priority
            or other.partition is partition
            or (bridge and other.bridge and bridge != other.bridge)
        ):
            raise errors.Conflict(_trunk_message(min(shared), other))


def check_not_bridged(adapter: Adapter) -> None:
    """A bridge's trunk adapters are changed by way of the bridge."""
    if adapter.bridge:
        raise errors.Conflict(
            f'The adapter in the virtual slot {adapter.slot} of the '
            f'partition {adapter.partition.name!r} is a trunk adapter of '
            f'the network bridge {adapter.bridge}.'
        )


def new_mac(host: Host, system: System, promised: Collection[str] = ()) -> str:
    """Return a locally administered address that is not in use."""
    used = {other.mac for other in ethernet.adapters(host, system)}
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

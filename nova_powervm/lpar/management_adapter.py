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

"""The management adapter of an LPAR, by which its guest answers RMC.

It is on a virtual switch that connects each LPAR with the NovaLink partition.
A guest with the RSCT packages answers there, at a link-local address, without
any network of its own; NovaLink then changes adapters and volumes while the
guest runs, and lets it shut down by itself.

Its MAC address follows from the LPAR's uuid. A server that has an adapter
keeps it: its virtual slot is on record, like that of a port. So a config drive
that names the adapter stays true, whenever it was made.
"""

import enum
import hashlib
import ipaddress
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.lpar import virtual_slots

#: The virtual switch of the RMC connections between NovaLink and the guests.
#: No Neutron port is ever on it.
SWITCH = 'MGMTSWITCH'
#: The VLAN of NovaLink's own adapter on it.
VLAN = 4094
#: The virtual slot is above those of all ports, so that a guest that numbers
#: its interfaces gives the same numbers to ports as without the adapter.
SLOT = virtual_slots.MANAGEMENT

#: Stands for the switch, which has no bridge to another network.
_BRIDGE = shared_ethernet.Bridge('', SWITCH, VLAN, frozenset({VLAN}))
_PORT_ID = 'management'
#: Locally administered, and no prefix of Neutron's or PowerVM's.
_PREFIX = '06'


class Choice(enum.StrEnum):
    """Which servers get a management adapter that have none."""

    NEW = 'new'
    ALL = 'all'
    NONE = 'none'
    #: What the flavor or the image of a server says.
    NEVER = 'never'


def adds(
    choice: Choice, *, is_recorded: bool, is_new: bool, starts: bool
) -> bool:
    """Return whether an LPAR without a management adapter gets one.

    A server that has been without one gets none by moving: its guest numbers
    its interfaces, and cloud-init has configured them.

    :param choice: What the option, the flavor and the image say.
    :param is_recorded: Whether the server has had one.
    :param is_new: Whether its root disk is made anew.
    :param starts: Whether the LPAR is made, or starts anew.
    """
    if choice is Choice.NEVER or not starts:
        return False
    if choice is Choice.NEW:
        return is_new or is_recorded
    return choice is Choice.ALL or is_recorded


def port(lpar_uuid: str) -> network_ports.Port:
    """Return what stands for the adapter among the ports of an LPAR.

    :param lpar_uuid: The LPAR's uuid, in any case.
    """
    digest = hashlib.sha256(lpar_uuid.upper().encode()).hexdigest()
    pairs = [digest[at : at + 2] for at in range(0, 10, 2)]
    return network_ports.Port(
        _PORT_ID,
        ':'.join([_PREFIX, *pairs]),
        shared_ethernet.VIF_TYPE,
        vlan=VLAN,
    )


def is_adapter(adapter: network_ports.Adapter, lpar_uuid: str) -> bool:
    """Return whether an adapter is the management adapter of an LPAR.

    A port may have the same address, since its owner can choose that.
    """
    return (
        isinstance(adapter, shared_ethernet.Adapter)
        and adapter.switch == SWITCH
        and adapter.mac == port(lpar_uuid).mac
    )


def is_port(candidate: network_ports.Port) -> bool:
    """Return whether this is what :func:`port` returns for some LPAR."""
    return candidate.id == _PORT_ID


def connection(own: network_ports.Port) -> shared_ethernet.Connection:
    """Return how the adapter is connected.

    :param own: From :func:`port`.
    """
    return shared_ethernet.Connection(own, _BRIDGE, VLAN, slot=SLOT)


def has_room(lpar_uuid: str, slots: Mapping[str, int]) -> bool:
    """Return whether the adapter's virtual slot is free for it.

    A server may have had 30 ports before there were management adapters.

    :param slots: The virtual slots of other devices, by the keys of a record;
        see :mod:`.virtual_slots`.
    """
    own = port(lpar_uuid).mac
    return all(
        slot != SLOT or virtual_slots.owner_of(key) == own
        for key, slot in slots.items()
    )


def describe(
    network_data: Mapping[str, Collection[Any]] | None, mac: str
) -> dict[str, list[Any]]:
    """Add the adapter to the description of a guest's networks.

    The address is that which the operating system would give the interface,
    and nothing is routed through it.

    :param network_data: The contents of ``network_data.json``; None for a
        guest without networks.
    :param mac: The adapter's MAC address.
    """
    present = network_data or {}
    data = {
        key: [*present.get(key, ())]
        for key in ('links', 'networks', 'services')
    }
    name = 'powervm-management'
    data['links'].append(
        {
            'id': name,
            'vif_id': name,
            'type': 'phy',
            'ethernet_mac_address': mac,
            'mtu': None,
        }
    )
    data['networks'].append(
        {
            'id': name,
            'network_id': name,
            'type': 'ipv6',
            'link': name,
            'ip_address': str(_link_local(mac)),
            'netmask': 'ffff:ffff:ffff:ffff::',
            'routes': [],
            'services': [],
        }
    )
    return data


def _link_local(mac: str) -> ipaddress.IPv6Address:
    """Return the address that an interface gives itself (RFC 4291, EUI-64)."""
    octets = bytes.fromhex(mac.replace(':', ''))
    interface = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return ipaddress.IPv6Address(bytes([0xFE, 0x80, *bytes(6)]) + interface)

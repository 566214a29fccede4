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

"""Whether a guest that has booted answers RMC requests.

It does if it has the RSCT packages, and an interface on the management switch
that has an address: because the config drive names the interface, as
cloud-init reads it, or because the guest brings it up by itself. The modules
of adapters and of mappings register what a guest has of both.
"""

from collections.abc import Callable
from collections.abc import Iterable

from powervm_emulator.core import contents
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module

Host = host_module.Host
Partition = partition_module.Partition

#: The switch of the management partition, and the VLAN of its adapter.
SWITCH = 'MGMTSWITCH'
VLAN = 4094
#: The label of a config drive, which is in its first sectors.
_LABEL = b'config-2'
#: A config drive with files of its user is not much larger.
_LONGEST = 1 << 26

#: Returns the MAC addresses of a partition on the management network, twelve
#: digits each.
Addresses = Callable[[Host, Partition], Iterable[str]]
#: Returns what is in the optical drives of a partition.
Media = Callable[[Host, Partition], Iterable[contents.Content]]

_ADDRESSES: list[Addresses] = []
_MEDIA: list[Media] = []


def register_addresses(asker: Addresses) -> Addresses:
    """Let a function say how a partition is on the management network."""
    _ADDRESSES.append(asker)
    return asker


def register_media(asker: Media) -> Media:
    """Let a function say which media a partition reads."""
    _MEDIA.append(asker)
    return asker


def state_after_boot(host: Host, partition: Partition, has_rsct: bool) -> str:
    """Return the RMC state of a partition whose guest has booted.

    :param has_rsct: whether its guest has the packages, whatever others have.
    """
    behaviour = host.behaviour
    has_rsct |= behaviour.guests_have_rsct
    if has_rsct and _is_configured(host, partition):
        return partition_module.RMC_ACTIVE
    return behaviour.rmc_after_power_on


def _is_configured(host: Host, partition: Partition) -> bool:
    addresses = [mac for asker in _ADDRESSES for mac in asker(host, partition)]
    if not addresses or host.behaviour.guests_configure_rmc:
        return bool(addresses)
    drives = [
        content for asker in _MEDIA for content in asker(host, partition)
    ]
    return any(_names(drive, addresses) for drive in drives)


def _names(drive: contents.Content, addresses: Iterable[str]) -> bool:
    """Return whether a config drive names an interface."""
    if drive.size > _LONGEST:
        return False
    with drive.open() as file:
        data = file.read()
    if _LABEL not in data:
        return False
    return any(_written(mac) in data for mac in addresses)


def _written(mac: str) -> bytes:
    """Return a MAC address as OpenStack's network_data.json has it."""
    pairs = [mac[at : at + 2] for at in range(0, len(mac), 2)]
    return f'"ethernet_mac_address": "{":".join(pairs).lower()}"'.encode()

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

"""Rules that decide which ports are bound, and how.

Ports and segments are the dictionaries that Neutron passes to a mechanism
driver. Their keys and values are those of the Networking API (provider and
binding extensions) and of ``neutron_lib.plugins.ml2.api``. The module itself
needs no neutron.
"""

import collections.abc
import dataclasses
import fnmatch
from typing import Any

Port = collections.abc.Mapping[str, Any]
Segment = collections.abc.Mapping[str, Any]

#: What PowerVM calls a port on a shared Ethernet adapter.
VIF_TYPE = 'pvm_sea'

_NETWORK_TYPES = ('flat', 'vlan')
#: Types of ports that have no device of their own. On a host without OVN, OVN
#: answers DHCP for ports of type ``baremetal``, but not ``normal``.
_VNIC_TYPES = ('normal', 'baremetal')


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The hosts and networks on which ports are bound.

    Each string is a name or a pattern with ``*`` and ``?``.

    :param hosts: The PowerVM hosts.
    :param physical_networks: The physical networks of these hosts.
    """

    hosts: tuple[str, ...] = ('*',)
    physical_networks: tuple[str, ...] = ('*',)

    def has_host(self, host: str) -> bool:
        """Return whether a host is one of the PowerVM hosts."""
        return _matches(host, self.hosts)

    def why_not_segment(self, segment: Segment) -> str | None:
        """Return why a segment cannot be bound, or None if it can."""
        if segment['network_type'] not in _NETWORK_TYPES:
            return f'its type is {segment["network_type"]}'
        if not _matches(segment['physical_network'], self.physical_networks):
            return (
                f'{segment["physical_network"]} is not among [pvm_sea]'
                'physical_networks'
            )
        return None


def why_foreign(port: Port) -> str | None:
    """Return why a port is left to other drivers, or None if it is ours."""
    if port['device_owner'].startswith('network:'):
        # An agent plugs its own ports, even on a PowerVM host.
        return f'it belongs to {port["device_owner"]}'
    vnic_type = port.get('binding:vnic_type', 'normal')
    if vnic_type not in _VNIC_TYPES:
        return f'its vnic_type is {vnic_type}'
    return None


def why_not_port(port: Port) -> str | None:
    """Return why no driver can bind a port, or None if it can be bound."""
    if port.get('trunk_details'):
        # The parent port would work, but its subports never would.
        return 'it is the parent of a trunk'
    if port.get('resource_request'):
        # PowerVM hosts offer none to Placement, so nothing would guarantee it.
        return 'it has a guaranteed bandwidth or packet rate'
    return None


def vif_details(segment: Segment) -> dict[str, Any]:
    """Return the binding details that the compute driver needs.

    ``vlan`` is the VLAN ID. A flat segment has none: its frames are untagged.
    """
    details = {
        'port_filter': False,
        'connectivity': 'l2',
        # Nova itself uses the first physical network of a network, which
        # may differ from that of the bound segment.
        'physical_network': segment['physical_network'],
    }
    if segment['network_type'] == 'vlan':
        details['vlan'] = segment['segmentation_id']
    return details


def _matches(name: str, patterns: collections.abc.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

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

"""What is bound and how: rules over neutron's dictionaries, without neutron.

Ports and segments are the dictionaries that a mechanism driver is given. The
keys and values are those of the Networking API (provider and binding
extensions) and of ``neutron_lib.plugins.ml2.api``.
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


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """Where ports are bound; each text is a name or a pattern of names.

    :param hosts: The PowerVM hosts.
    :param physical_networks: The physical networks that they are on.
    """

    hosts: tuple[str, ...] = ('*',)
    physical_networks: tuple[str, ...] = ('*',)

    def has_host(self, host: str) -> bool:
        """Tell whether a host is one of the PowerVM hosts."""
        return _matches(host, self.hosts)

    def why_not_segment(self, segment: Segment) -> str | None:
        """Tell why a segment can't be bound, or None if it can."""
        if segment['network_type'] not in _NETWORK_TYPES:
            return f'its type is {segment["network_type"]}'
        if not _matches(segment['physical_network'], self.physical_networks):
            return (
                f'{segment["physical_network"]} is not among [pvm_sea]'
                'physical_networks'
            )
        return None


def why_foreign(port: Port) -> str | None:
    """Tell why another driver shall bind a port, or None if we shall."""
    if port['device_owner'].startswith('network:'):
        # Of an agent: even if one runs on a host of ours, it plugs its own.
        return f'it belongs to {port["device_owner"]}'
    vnic_type = port.get('binding:vnic_type', 'normal')
    if vnic_type != 'normal':
        return f'its vnic_type is {vnic_type}'
    return None


def why_not_port(port: Port) -> str | None:
    """Tell why a port can't be bound at all, or None if it can."""
    if port.get('trunk_details'):
        # It would work, but its subports never would.
        return 'it is the parent of a trunk'
    return None


def vif_details(segment: Segment) -> dict[str, Any]:
    """Return what the compute driver has to know of a bound segment.

    ``vlan`` is the VLAN's number. A flat segment has none: its frames are
    untagged.
    """
    details = {
        'port_filter': False,
        'connectivity': 'l2',
        # Nova takes a network's first physical network, which need not be
        # that of the segment that was bound.
        'physical_network': segment['physical_network'],
    }
    if segment['network_type'] == 'vlan':
        details['vlan'] = segment['segmentation_id']
    return details


def _matches(name: str, patterns: collections.abc.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

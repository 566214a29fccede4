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

"""A summary of virtual Ethernet, as JSON values."""

from typing import Any

from nova_powervm.emulator import content
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import system as system_module

JSON = dict[str, Any]
Host = host_module.Host


def system(host: Host, found: system_module.System) -> JSON:
    """Summarize the virtual switches and network bridges of a system."""
    return {
        'virtual_switches': [
            {'name': one.name, 'uuid': one.uuid, 'mode': one.mode}
            for one in host.of_type(ethernet.Switch, found)
        ],
        'network_bridges': [
            _bridge(host, one) for one in host.of_type(ethernet.Bridge, found)
        ],
    }


def partition(host: Host, found: partition_module.Partition) -> JSON:
    """Summarize the network adapters of a partition."""
    return {
        'adapters': [
            _adapter(host, one)
            for one in host.of_type(ethernet.Adapter, found)
        ]
    }


def _bridge(host: Host, one: ethernet.Bridge) -> JSON:
    """Summarize a bridge; ``vlans`` are the VLANs it bridges tagged."""
    tagged = {
        int(text)
        for trunk in one.trunks
        for text in content.text(trunk, 'TaggedVLANIDs').split()
    }
    servers = [
        host.find(
            partition_module.VIOS, ethernet.target(sea, ethernet.SEA_VIOS)
        )
        for sea in one.seas
    ]
    return {
        'uuid': one.uuid,
        'switch': _switch_name(host, one.system, one.switch_id),
        'pvid': one.pvid,
        'vlans': sorted(tagged),
        'vioses': [
            server.text('PartitionName') for server in servers if server
        ],
    }


def _adapter(host: Host, one: ethernet.Adapter) -> JSON:
    """Summarize an adapter; its MAC address has Neutron's notation."""
    digits = one.mac.lower()
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    return {
        'uuid': one.uuid,
        'mac': ':'.join(pairs),
        'vlan': one.pvid,
        'tagged': list(one.tagged),
        'switch': _switch_name(host, one.partition.system, one.switch_id),
        'slot': one.slot,
    }


def _switch_name(
    host: Host, system: system_module.System, switch_id: int
) -> str | None:
    found = switches.by_id(host, system, switch_id)
    return found.name if found else None

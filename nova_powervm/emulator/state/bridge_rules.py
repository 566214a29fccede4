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

"""What network bridges refuse about their Shared Ethernet Adapters."""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module

Bridge = ethernet.Bridge
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
System = system_module.System

MAX_SEAS = 2


def servers(host: Host, system: System, body: Element) -> list[Partition]:
    """Return the Virtual I/O Servers that a posted bridge is of.

    :raises errors.RestError: there are none, too many, or one is unknown.
    """
    found = [
        _server(host, system, sea)
        for sea in content.find_all(body, f'{ethernet.SEAS}/{ethernet.SEA}')
    ]
    if not 1 <= len(found) <= MAX_SEAS or len(set(found)) != len(found):
        raise errors.BadRequest(
            'A network bridge has one Shared Ethernet Adapter, or two on '
            'different Virtual I/O Servers.'
        )
    return found


def check_reachable(vios: Partition) -> None:
    """A server changes its devices when it runs and can be talked to."""
    running = vios.state == partition_module.RUNNING
    if not running or vios.rmc_state != partition_module.RMC_ACTIVE:
        raise errors.Conflict(
            f'The Shared Ethernet Adapters of {vios.name!r} cannot be '
            f'changed: its state is {vios.state!r} and its RMC connection '
            f'{vios.rmc_state!r}.'
        )


def check_new(host: Host, bridge: Bridge) -> None:
    """Every Shared Ethernet Adapter has a backing device of its own."""
    for vios, sea in zip(
        servers(host, bridge.system, bridge.element),
        bridge.seas,
        strict=True,
    ):
        device = _backing(sea)
        if not device:
            raise errors.BadRequest(
                'A Shared Ethernet Adapter needs a backing device.'
            )
        for other in content.find_all(
            vios.element, f'{ethernet.SEAS}/{ethernet.SEA}'
        ):
            if _backing(other) == device:
                raise errors.Conflict(
                    f'The device {device} of {vios.name!r} backs another '
                    'Shared Ethernet Adapter.'
                )


def check_same_servers(bridge: Bridge, body: Element) -> None:
    """An update names the Shared Ethernet Adapters that there are."""
    posted = content.find_all(body, f'{ethernet.SEAS}/{ethernet.SEA}')
    wanted, present = (
        [ethernet.target(sea, ethernet.SEA_VIOS).upper() for sea in seas]
        for seas in (posted, bridge.seas)
    )
    if wanted != present:
        raise errors.Conflict(
            'The Shared Ethernet Adapters of a network bridge cannot be '
            'changed: delete the bridge and make another.'
        )


def _server(host: Host, system: System, sea: Element) -> Partition:
    uuid = ethernet.target(sea, ethernet.SEA_VIOS)
    found = host.find(partition_module.VIOS, uuid)
    if not isinstance(found, Partition) or found.system is not system:
        raise errors.Conflict(
            f'The system {system.name} has no Virtual I/O Server with the '
            f'uuid {uuid}.'
        )
    return found


def _backing(sea: Element) -> str:
    choice = content.find(sea, 'BackingDeviceChoice')
    if choice is None or not len(choice):
        return ''
    return content.text(choice[0], 'DeviceName')

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

"""Virtual switches: making, changing, deleting and finding them."""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import groups as groups_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import system as system_module

Element = content.Element
Host = host_module.Host
Switch = ethernet.Switch
System = system_module.System

MODES = ('Veb', 'Vepa')
MAX_SWITCHES = 16
_ORDER = ('Metadata', 'SwitchID', 'SwitchMode', 'SwitchName')
_READ_ONLY = ('Metadata', 'SwitchID', 'VirtualNetworks')


def create(host: Host, system: System, body: Element) -> Switch:
    """Make a switch of a posted body, or refuse.

    :raises errors.RestError: the name, the mode or the number of switches.
    """
    content.put_default(body, 'SwitchMode', MODES[0])
    _check(host, system, body, None)
    used = {switch.id for switch in host.of_type(Switch, system)}
    if len(used) >= MAX_SWITCHES:
        raise errors.Conflict(
            f'The system {system.name} has {MAX_SWITCHES} virtual switches '
            'already.'
        )
    uuid = host.new_uuid()
    content.put(body, 'Metadata/Atom/AtomID', uuid)
    content.put(body, 'SwitchID', min(set(range(MAX_SWITCHES)) - used))
    content.replace(body, content.leaf('VirtualNetworks'))
    content.sort_children(body, _ORDER)
    switch = Switch(uuid, body, system)
    host.add(switch)
    return switch


def update(
    host: Host, switch: Switch, body: Element, _groups: groups_module.Groups
) -> None:
    """Give a switch the name and mode of a posted body, or refuse."""
    content.keep(body, switch.element, _READ_ONLY)
    _check(host, switch.system, body, switch)
    content.sort_children(body, _ORDER)
    switch.element = body
    host.touch(switch)


def delete(host: Host, switch: Switch) -> None:
    """Delete a switch that nothing uses.

    :raises errors.Conflict: it is the default one, or in use.
    """
    if switch.id == 0:
        raise errors.Conflict(
            f'The default virtual switch {switch.name} cannot be deleted.'
        )
    for adapter in ethernet.adapters(host, switch.system):
        if adapter.switch_id == switch.id:
            raise errors.Conflict(
                f'The virtual switch {switch.name} is in use by the network '
                f'adapter in the virtual slot {adapter.slot} of the '
                f'partition {adapter.partition.name!r}.'
            )
    for network in host.of_type(ethernet.Network, switch.system):
        if network.switch_id == switch.id:
            raise errors.Conflict(
                f'The virtual switch {switch.name} has a virtual network of '
                f'the VLAN {network.vlan}.'
            )
    host.remove(switch)


def of(host: Host, system: System, element: Element, path: str) -> Switch:
    """Return the switch that a body links to; the default one if to none.

    :param path: of the link in the body.
    :raises errors.Conflict: the system has no such switch.
    """
    wanted = ethernet.target(element, path)
    for switch in host.of_type(Switch, system):
        if switch.uuid == wanted.lower() or (not wanted and switch.id == 0):
            return switch
    raise errors.Conflict(
        f'The system {system.name} has no virtual switch with the uuid '
        f'{wanted}.'
    )


def by_id(host: Host, system: System, switch_id: int) -> Switch | None:
    """Return the switch with a SwitchID, or None."""
    for switch in host.of_type(Switch, system):
        if switch.id == switch_id:
            return switch
    return None


def by_name(host: Host, system: System, name: str) -> Switch:
    """Return the switch with a name; ``ETHERNET0`` is the default one's.

    :raises errors.Conflict: the system has no such switch.
    """
    for switch in host.of_type(Switch, system):
        if name in (switch.name, switch.short_name):
            return switch
    raise errors.Conflict(
        f'The system {system.name} has no virtual switch {name!r}.'
    )


def _check(
    host: Host, system: System, body: Element, present: Switch | None
) -> None:
    name = content.text(body, 'SwitchName')
    if not name:
        raise errors.BadRequest('A virtual switch needs a SwitchName.')
    mode = content.text(body, 'SwitchMode')
    if mode not in MODES:
        raise errors.BadRequest(
            f'{mode!r} is not a mode of a virtual switch: these are '
            f'{" and ".join(MODES)}.'
        )
    for other in host.of_type(Switch, system):
        if other is not present and name.removesuffix('(Default)') == (
            other.short_name
        ):
            raise errors.Conflict(
                f'The system {system.name} has a virtual switch {name!r} '
                'already.'
            )

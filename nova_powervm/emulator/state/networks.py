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

"""Virtual networks: the VLANs of the switches that are there.

NovaLink has one for each VLAN that an adapter takes part in, and none else;
here a network that a client makes stays as well.
"""

import uuid as uuid_module

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import groups as groups_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import network_rules
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import system as system_module

Element = content.Element
Host = host_module.Host
Network = ethernet.Network
Switch = ethernet.Switch
System = system_module.System

_ORDER = (
    'Metadata',
    'AssociatedSwitch',
    'NetworkName',
    'NetworkVLANID',
    'VswitchID',
    'TaggedNetwork',
)
_LINKS = 'VirtualNetworks'
_FIXED = ('NetworkVLANID', 'TaggedNetwork')
_READ_ONLY = ('Metadata', 'AssociatedSwitch', 'VswitchID', *_FIXED)


def create(host: Host, system: System, body: Element) -> Network:
    """Make a network of a posted body, or refuse.

    :raises errors.RestError: no such switch, no VLAN, or it is there.
    """
    switch = switches.of(host, system, body, 'AssociatedSwitch')
    text = content.text(body, 'NetworkVLANID')
    vlan = network_rules.vlan(text, 'NetworkVLANID')
    if find(host, system, switch.id, vlan) is not None:
        raise errors.Conflict(
            f'The virtual switch {switch.name} has a virtual network of the '
            f'VLAN {vlan} already.'
        )
    content.put_default(body, 'NetworkName', _name(switch, vlan))
    content.put_default(body, 'TaggedNetwork', vlan != 1)
    network = _make(switch, vlan, body, lasting=True)
    _add(host, switch, network)
    return network


def update(
    host: Host, network: Network, body: Element, _groups: groups_module.Groups
) -> None:
    """Give a network the name of a posted body.

    :raises errors.BadRequest: the body has another VLAN.
    """
    for name in _FIXED:
        text = content.text(body, name)
        if text and text != network.text(name):
            raise errors.BadRequest(
                f'{name} of a virtual network cannot be changed.'
            )
    content.keep(body, network.element, _READ_ONLY)
    content.sort_children(body, _ORDER)
    network.element = body
    host.touch(network)


def delete(host: Host, network: Network) -> None:
    """Delete a network whose VLAN no adapter has.

    :raises errors.Conflict: one has it.
    """
    assert isinstance(network.parent, System)  # noqa: S101 - for the checker
    system = network.parent
    for adapter in ethernet.adapters(host, system):
        if (
            adapter.switch_id == network.switch_id
            and network.vlan in adapter.vlans
        ):
            raise errors.Conflict(
                f'The VLAN {network.vlan} is in use by the network adapter '
                f'in the virtual slot {adapter.slot} of the partition '
                f'{adapter.partition.name!r}.'
            )
    _remove(host, network)


def find(
    host: Host, system: System, switch_id: int, vlan: int
) -> Network | None:
    """Return the network of a switch's VLAN, or None."""
    for network in host.of_type(Network, system):
        if (network.switch_id, network.vlan) == (switch_id, vlan):
            return network
    return None


def settle(host: Host, system: System) -> None:
    """Make the networks of a system follow its adapters."""
    used = {
        (adapter.switch_id, vlan)
        for adapter in ethernet.adapters(host, system)
        for vlan in adapter.vlans
    }
    for network in list(host.of_type(Network, system)):
        key = network.switch_id, network.vlan
        if key in used:
            used.remove(key)
        elif not network.lasting:
            _remove(host, network)
    for switch_id, vlan in sorted(used):
        switch = switches.by_id(host, system, switch_id)
        if switch is not None:
            element = _element(switch, vlan)
            _add(host, switch, _make(switch, vlan, element, lasting=False))


def _element(switch: Switch, vlan: int) -> Element:
    return content.new(
        ethernet.NETWORK,
        content.leaf('NetworkName', _name(switch, vlan)),
        # VLAN 1 is what pypowervm takes for the untagged network.
        content.leaf('TaggedNetwork', vlan != 1),
    )


def _name(switch: Switch, vlan: int) -> str:
    return f'{switch.short_name}-{vlan}'


def _make(
    switch: Switch, vlan: int, element: Element, lasting: bool
) -> Network:
    # Of the switch and VLAN, as K2 makes them: the same network has the same
    # uuid when it comes back.
    space = uuid_module.UUID(switch.uuid)
    uuid = str(uuid_module.uuid3(space, str(vlan)))
    content.put(element, 'Metadata/Atom/AtomID', uuid)
    related = content.leaf('AssociatedSwitch')
    related.set('href', switch.event_path)
    related.set('rel', 'related')
    content.replace(element, related)
    content.put(element, 'NetworkVLANID', vlan)
    content.put(element, 'VswitchID', switch.id)
    content.sort_children(element, _ORDER)
    return Network(uuid, element, switch.system, lasting)


def _add(host: Host, switch: Switch, network: Network) -> None:
    host.add(network)
    section = content.find(switch.element, _LINKS)
    if section is None:
        section = content.leaf(_LINKS)
        switch.element.append(section)
    section.append(ethernet.link(network.event_path))
    host.touch(switch)


def _remove(host: Host, network: Network) -> None:
    host.remove(network)
    for switch in host.of_type(Switch, network.parent):
        for found in content.find_all(switch.element, f'{_LINKS}/link'):
            if found.get('href') == network.event_path:
                found.getparent().remove(found)
                host.touch(switch)

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
from collections.abc import Iterable

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import quick
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.managed_system import model as managed_system

Element = content.Element
System = managed_system.System
Switch = virtual_switch.Switch
Host = host_module.Host


NETWORK = 'VirtualNetwork'
MAX_VLAN = 4094
_LINKS = 'VirtualNetworks'
_FIXED = ('NetworkVLANID', 'TaggedNetwork')
_READ_ONLY = ('Metadata', 'AssociatedSwitch', 'VswitchID', *_FIXED)


class Network(resource.Resource):
    """A VirtualNetwork: one VLAN of one switch.

    :ivar lasting: whether a client made it; others go with the last adapter
        that has the VLAN.
    """

    def __init__(
        self,
        uuid: str,
        element: Element,
        system: System,
        lasting: bool = False,
    ) -> None:
        super().__init__(NETWORK, uuid, element, parent=system)
        self.lasting = lasting

    vlan = fields.integer('NetworkVLANID')
    #: SwitchID of its switch.
    switch_id = fields.integer('VswitchID')

    def use_of(self, other: resource.Resource) -> str:
        """See the base class."""
        if not isinstance(other, Switch) or other.system is not self.parent:
            return ''
        uses = other.id == self.switch_id
        return f'has a virtual network of the VLAN {self.vlan}' * uses


def create(host: Host, system: System, body: Element) -> Network:
    """Make a network of a posted body, or refuse.

    :raises errors.RestError: no such switch, no VLAN, or it is there.
    """
    switch = virtual_switch.of(host, system, body, 'AssociatedSwitch')
    text = content.text(body, 'NetworkVLANID')
    vlan = vlan_number(text, 'NetworkVLANID')
    if find(host, system, switch.id, vlan) is not None:
        raise errors.Refused(
            f'The virtual switch {switch.name} has a virtual network of the '
            f'VLAN {vlan} already.'
        )
    content.put_default(body, 'NetworkName', _name(switch, vlan))
    content.put_default(body, 'TaggedNetwork', vlan != 1)
    network = _make(switch, vlan, body, lasting=True)
    _add(host, switch, network)
    return network


def build(
    host: Host, system: System, described: Iterable[resource.JSON]
) -> None:
    """Build the captured networks of a system."""
    for spec in described:
        found = captures.find(spec['capture'], NETWORK)
        host.add(Network(found.uuid, found.element, system, lasting=True))


def update(
    host: Host, network: Network, body: Element, _groups: groups_module.Groups
) -> None:
    """Give a network the name of a posted body.

    :raises errors.Refused: the body has another VLAN.
    """
    for name in _FIXED:
        text = content.text(body, name)
        if text and text != network.text(name):
            raise errors.Refused(
                f'{name} of a virtual network cannot be changed.'
            )
    content.keep(body, network.element, _READ_ONLY)
    elements.sort(body)
    network.element = body
    host.touch(network)


def delete(host: Host, network: Network) -> None:
    """Delete a network whose VLAN no adapter has.

    :raises errors.Refused: one has it.
    """
    host.check_unused(network, f'The VLAN {network.vlan}')
    _remove(host, network)


def vlan_number(text: str, what: str) -> int:
    """Return the VLAN that a text says: 1 to 4094.

    :param what: the element, for the message.
    :raises errors.Refused: it is none.
    """
    if content.is_whole(text) and 1 <= int(text) <= MAX_VLAN:
        return int(text)
    raise errors.Refused(
        f'{text!r} is not a VLAN for {what}: these are 1 to {MAX_VLAN}.'
    )


def find(
    host: Host, system: System, switch_id: int, vlan: int
) -> Network | None:
    """Return the network of a switch's VLAN, or None."""
    for network in host.of_type(Network, system):
        if (network.switch_id, network.vlan) == (switch_id, vlan):
            return network
    return None


def settle(host: Host, system: System, used: set[tuple[int, int]]) -> None:
    """Give a system the networks that its adapters use.

    :param used: SwitchID and VLAN of each.
    """
    for network in list(host.of_type(Network, system)):
        key = network.switch_id, network.vlan
        if key in used:
            used.remove(key)
        elif not network.lasting:
            _remove(host, network)
    for switch_id, vlan in sorted(used):
        switch = virtual_switch.by_id(host, system, switch_id)
        if switch is not None:
            element = _element(switch, vlan)
            _add(host, switch, _make(switch, vlan, element, lasting=False))


def _element(switch: Switch, vlan: int) -> Element:
    return content.new(
        NETWORK,
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
    related = content.link(switch.event_path, 'AssociatedSwitch')
    content.replace(element, related)
    content.put(element, 'NetworkVLANID', vlan)
    content.put(element, 'VswitchID', switch.id)
    elements.sort(element)
    return Network(uuid, element, switch.system, lasting)


def _add(host: Host, switch: Switch, network: Network) -> None:
    host.add(network)
    section = content.find(switch.element, _LINKS)
    if section is None:
        section = content.leaf(_LINKS)
        switch.element.append(section)
    section.append(content.link(network.event_path))
    host.touch(switch)


def _remove(host: Host, network: Network) -> None:
    host.remove(network)
    for switch in host.of_type(Switch, network.parent):
        for found in content.find_all(switch.element, f'{_LINKS}/link'):
            if found.get('href') == network.event_path:
                found.getparent().remove(found)
                host.touch(switch)


_WORLD_SCHEMA: resource.JSON = shapes.record(
    {'capture': shapes.ref('capture')}, required=['capture']
)
NOUN = noun.Noun(
    NETWORK,
    parents=(managed_system.KIND,),
    create=create,
    update=update,
    delete=delete,
    quick={
        'NetworkName': quick.text('NetworkName'),
        'NetworkVLANID': quick.number('NetworkVLANID'),
        'TaggedNetwork': quick.text('TaggedNetwork'),
        'VswitchID': quick.number('VswitchID'),
    },
    world=noun.WorldKey(
        'virtual_networks',
        (managed_system.KIND,),
        _WORLD_SCHEMA,
        build=build,
    ),
)

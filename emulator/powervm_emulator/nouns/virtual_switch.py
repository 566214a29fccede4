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

from collections.abc import Iterable

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns.managed_system import model as managed_system

Element = content.Element
System = managed_system.System
Host = host_module.Host


SWITCH = 'VirtualSwitch'
DEFAULT_SWITCH = 'ETHERNET0(Default)'
SWITCH_LINK = 'AssociatedVirtualSwitch/link'
_DEFAULT_MODE = 'Veb'
MAX_SWITCHES = 16
_READ_ONLY = ('Metadata', 'SwitchID', 'VirtualNetworks')
DEFAULT = {'name': DEFAULT_SWITCH}


class Switch(resource.Resource):
    """A VirtualSwitch of a system."""

    def __init__(self, uuid: str, element: Element, system: System) -> None:
        super().__init__(SWITCH, uuid, element, parent=system)
        self.system = system

    #: That of the default one is ``ETHERNET0(Default)``.
    name = fields.text('SwitchName')

    @property
    def short_name(self) -> str:
        """SwitchName without the remark that it is the default one."""
        return self.name.removesuffix('(Default)')

    #: 0 to 15.
    id = fields.integer('SwitchID')
    #: ``Veb`` or ``Vepa``.
    mode = fields.text('SwitchMode')


def create(host: Host, system: System, body: Element) -> Switch:
    """Make a switch of a posted body, or refuse.

    :raises errors.RestError: the name, the mode or the number of switches.
    """
    content.put_default(body, 'SwitchMode', _DEFAULT_MODE)
    _check(host, system, body, None)
    used = {switch.id for switch in host.of_type(Switch, system)}
    if len(used) >= MAX_SWITCHES:
        raise errors.Refused(
            f'The system {system.name} has {MAX_SWITCHES} virtual switches '
            'already.'
        )
    uuid = host.new_uuid()
    content.put(body, 'SwitchID', min(set(range(MAX_SWITCHES)) - used))
    content.replace(body, content.leaf('VirtualNetworks'))
    elements.sort(body)
    switch = Switch(uuid, body, system)
    host.add(switch)
    return switch


def build(
    host: Host, system: System, described: Iterable[resource.JSON]
) -> None:
    """Build the switches of a system."""
    for spec in described:
        _build(host, system, spec)


def _build(host: Host, system: System, spec: resource.JSON) -> None:
    if 'capture' in spec:
        found = captures.find(spec['capture'], SWITCH)
        host.add(Switch(found.uuid, found.element, system))
        return
    body = content.new(
        SWITCH,
        content.leaf('SwitchMode', spec.get('mode', _DEFAULT_MODE)),
        content.leaf('SwitchName', spec['name']),
    )
    create(host, system, body)


def update(
    host: Host, switch: Switch, body: Element, _groups: groups_module.Groups
) -> None:
    """Give a switch the name and mode of a posted body, or refuse."""
    content.keep(body, switch.element, _READ_ONLY)
    _check(host, switch.system, body, switch)
    elements.sort(body)
    switch.element = body
    host.touch(switch)


def delete(host: Host, switch: Switch) -> None:
    """Delete a switch that nothing uses.

    :raises errors.Refused: it is the default one, or in use.
    """
    if switch.id == 0:
        raise errors.Refused(
            f'The default virtual switch {switch.name} cannot be deleted.'
        )
    host.check_unused(switch, f'The virtual switch {switch.name}')
    host.remove(switch)


def of(host: Host, system: System, element: Element, path: str) -> Switch:
    """Return the switch that a body links to; the default one if to none.

    :param path: of the link in the body.
    :raises errors.Refused: the system has no such switch.
    """
    wanted = content.target(element, path)
    for switch in host.of_type(Switch, system):
        if switch.uuid == wanted.lower() or (not wanted and switch.id == 0):
            return switch
    raise errors.Refused(
        f'The system {system.name} has no virtual switch with the uuid '
        f'{wanted}.'
    )


def by_id(host: Host, system: System, switch_id: int) -> Switch | None:
    """Return the switch with a SwitchID, or None."""
    for switch in host.of_type(Switch, system):
        if switch.id == switch_id:
            return switch
    return None


def name_of(host: Host, system: System, switch_id: int) -> str | None:
    """Return the name of the switch with a SwitchID, or None."""
    found = by_id(host, system, switch_id)
    return found.name if found else None


def by_name(host: Host, system: System, name: str) -> Switch:
    """Return the switch with a name; ``ETHERNET0`` is the default one's.

    :raises errors.Refused: the system has no such switch.
    """
    for switch in host.of_type(Switch, system):
        if name in (switch.name, switch.short_name):
            return switch
    raise errors.Refused(
        f'The system {system.name} has no virtual switch {name!r}.'
    )


def _check(
    host: Host, system: System, body: Element, present: Switch | None
) -> None:
    name = content.text(body, 'SwitchName')
    if not name:
        raise errors.Refused('A virtual switch needs a SwitchName.')
    for other in host.of_type(Switch, system):
        if other is not present and name.removesuffix('(Default)') == (
            other.short_name
        ):
            raise errors.Refused(
                f'The system {system.name} has a virtual switch {name!r} '
                'already.'
            )


_WORLD_SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'name': shapes.text('SwitchName. Required without capture.'),
        'mode': shapes.choice(['Veb', 'Vepa'], 'Veb is the default.'),
    }
)
NOUN = noun.Noun(
    SWITCH,
    parents=(managed_system.KIND,),
    create=create,
    update=update,
    delete=delete,
    world=noun.WorldKey(
        'virtual_switches',
        (managed_system.KIND,),
        _WORLD_SCHEMA,
        required=('name',),
        captured=('name', 'mode'),
        build=build,
        default=(DEFAULT,),
    ),
)

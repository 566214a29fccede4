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

"""Fibre Channel ports of adapters in slots, which worlds describe.

The profile of the partition that has the slot shows them. Whether a port has
a link, and to which fabric, no document says: ``System.fabrics`` does.
"""

from collections.abc import Collection
from collections.abc import Iterator

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import san
from powervm_emulator.core import shapes
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system

System = managed_system.System
Element = content.Element
_PORT = 'PhysicalFibreChannelPort'
_VOLUMES = 'PhysicalVolumes'
_NPIV_PORTS = 64
SCHEMA: resource.JSON = shapes.record(
    {
        'wwpn': shapes.value(
            'string',
            '16 hexadecimal digits, in quotes, unique in the site.',
            pattern=san.WWPN,
        ),
        'fabric': shapes.text(
            'The name of the fabric. Without it the port has no link.'
        ),
        'name': shapes.text(
            'PortName. The next one by default, such as fcs0.'
        ),
        'location': shapes.text('The location code. Made if not given.'),
        'npiv': shapes.boolean(
            'Whether it has ports for NPIV. By default, if it has a link.'
        ),
    },
    required=['wwpn'],
)


def build(
    system: System, slot: io_slot.Slot, described: list[resource.JSON]
) -> None:
    """Give the adapter in a slot its ports, in place of what it had."""
    first = sum(1 for _ in _ports(system))
    ports = content.new('PhysicalFibreChannelPorts')
    for number, spec in enumerate(described):
        values: dict[str, content.Value] = {
            'LocationCode': f'{slot.drc_name}-T{number + 1}',
            'PortName': f'fcs{first + number}',
        }
        ports.append(_port(values, spec))
        wwpn = san.normal(spec['wwpn'])
        system.fabrics.pop(wwpn, None)
        if 'fabric' in spec:
            system.fabrics[wwpn] = spec['fabric']
    adapter = content.new(
        io_slot.FIBRE_CHANNEL,
        content.leaf('AdapterID', slot.drc_index),
        content.leaf('Description', slot.description),
        content.leaf('DeviceName', slot.drc_name),
        content.leaf('DynamicReconfigurationConnectorName', slot.drc_name),
        content.leaf('PhysicalLocation', slot.drc_name.rpartition('-')[2]),
        ports,
    )
    slot.set_related_adapter(adapter)


def _port(
    values: dict[str, content.Value], spec: resource.JSON
) -> content.Element:
    for key, name in (('location', 'LocationCode'), ('name', 'PortName')):
        if key in spec:
            values[name] = spec[key]
    values['UniqueDeviceID'] = f'1a{values["LocationCode"]}'
    values['WWPN'] = san.normal(spec['wwpn'])
    if spec.get('npiv', 'fabric' in spec):
        values['AvailablePorts'] = values['TotalPorts'] = _NPIV_PORTS
    leaves = [content.leaf(*item) for item in values.items()]
    port = content.new(_PORT, *leaves)
    content.section(port, _VOLUMES).set('group', 'ViosStorage')
    elements.sort(port)
    return port


def list_disk(server: Element, disk: Element, wwpns: Collection[str]) -> bool:
    """List a disk behind some ports in a server's content, and no others.

    :param wwpns: of the ports that reach the disk.
    :returns: whether anything has changed.
    """
    changed = False
    for port in _within(server):
        section = content.section(port, _VOLUMES)
        old = [one for one in section if _udid(one) == _udid(disk)]
        new = []
        if content.text(port, 'WWPN') in wwpns:
            new.append(content.copy(disk))
        if list(map(etree.tostring, old)) != list(map(etree.tostring, new)):
            section[:] = [*(one for one in section if one not in old), *new]
            changed = True
    return changed


def keep_disks(new: Element, old: Element) -> None:
    """List in a slot what was behind the ports that it has had before."""
    before = {content.text(port, 'WWPN'): port for port in _within(old)}
    for port in _within(new):
        same = before.get(content.text(port, 'WWPN'))
        disks = None if same is None else content.find(same, _VOLUMES)
        if disks is not None:
            content.replace(port, content.copy(disks))


def active(system: System, owner: str) -> dict[str, str]:
    """Return the ports with a link of a partition, each with its fabric.

    :param owner: uuid of the partition.
    """
    return {
        wwpn: system.fabrics[wwpn]
        for slot in system.slots()
        if slot.owner and slot.owner.uuid.upper() == owner.upper()
        for port in _of(slot)
        if (wwpn := content.text(port, 'WWPN')) in system.fabrics
    }


def location(system: System, wwpn: str) -> str:
    """Return the location code of a port."""
    return next(
        content.text(port, 'LocationCode')
        for port in _ports(system)
        if content.text(port, 'WWPN') == san.normal(wwpn)
    )


def check_unique(host: host_module.Host) -> None:
    """Refuse ports of a site that have one worldwide port name.

    :raises errors.WorldError: two have.
    """
    known: dict[str, str] = {}
    others = [one for one in host.site.hosts if one is not host]
    for system in (
        system for one in (*others, host) for system in one.of_type(System)
    ):
        for port in _ports(system):
            wwpn = content.text(port, 'WWPN')
            if wwpn in known:
                raise errors.WorldError(
                    f'the Fibre Channel port {wwpn} is in {known[wwpn]!r} '
                    f'and in {system.name!r}: give each one of its own'
                )
            known[wwpn] = system.name


def _ports(system: System) -> Iterator[Element]:
    for slot in system.slots():
        yield from _of(slot)


def _of(slot: io_slot.Slot) -> Iterator[Element]:
    yield from _within(slot.element)


def _within(element: Element) -> Iterator[Element]:
    yield from element.iter(f'{{{content.UOM_NS}}}{_PORT}')


def _udid(disk: Element) -> str:
    return content.text(disk, 'UniqueDeviceID')

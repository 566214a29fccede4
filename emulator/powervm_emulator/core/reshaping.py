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

"""Answers as a host with other habits gives them.

Nothing that is kept changes: a list has another order, or something is left
out of what a Virtual I/O Server shows that is off or has lost RMC.
"""

from collections.abc import Callable
from collections.abc import Iterator
from typing import TypeAlias

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import habits as habits_module

Element = content.Element
Habits = habits_module.Habits
_Key: TypeAlias = Callable[[Element], int | str]

ASCENDING = 'ascending'
DESCENDING = 'descending'
#: Every second one comes first.
OTHER = 'other'
#: What can have an order of its own.
LISTS = ('slots', 'lpars', 'mappings', 'media')
#: What a silent server may not show, with the elements that are left out.
HIDDEN = {
    'ports': ('PhysicalFibreChannelPort',),
    'disks': ('PhysicalVolume',),
    'mappings': ('VirtualSCSIMapping', 'VirtualFibreChannelMapping'),
}


def reshape(body: bytes, habits: Habits) -> bytes:
    """Return a document as a host with the habits answers with it."""
    if not (habits.orders or habits.hidden):
        return body
    root = etree.fromstring(body, content.parser())
    for server in [*root.iter('{*}VirtualIOServer')]:
        if is_silent(server):
            _hide(server, habits)
    for what, order in habits.orders.items():
        for found in _lists(root, what):
            _sort(found, _KEYS[what], order)
    changed: bytes = etree.tostring(
        root, encoding='UTF-8', xml_declaration=False
    )
    return changed


def is_silent(server: Element) -> bool:
    """Return whether a Virtual I/O Server is off or has lost RMC."""
    return (
        content.text(server, 'PartitionState') != 'running'
        or content.text(server, 'ResourceMonitoringControlState') != 'active'
    )


def _hide(server: Element, habits: Habits) -> None:
    for what in habits.hidden:
        for name in HIDDEN[what]:
            for found in [*server.iter(f'{{*}}{name}')]:
                found.getparent().remove(found)


def _lists(root: Element, what: str) -> Iterator[list[Element]]:
    """Yield the lists of something in a document."""
    if what == 'lpars':
        yield [
            entry
            for entry in root.iterfind('{*}entry')
            if entry.find('{*}content/{*}LogicalPartition') is not None
        ]
        return
    section, name = _PLACES[what]
    for found in root.iter(f'{{*}}{section}'):
        yield found.findall(f'{{*}}{name}')


def _sort(found: list[Element], key: _Key, order: str) -> None:
    """Put elements of one parent into another order."""
    wanted = sorted(found, key=key, reverse=order == DESCENDING)
    if order == OTHER:
        wanted = wanted[1::2] + wanted[::2]
    if wanted:
        parent = wanted[0].getparent()
        start = parent.index(found[0])
        for place, element in enumerate(wanted, start):
            parent.insert(place, element)


def _number(path: str) -> _Key:
    def key(element: Element) -> int:
        found = element.find('/'.join(f'{{*}}{n}' for n in path.split('/')))
        return int(found.text or 0) if found is not None else 0

    return key


def _name(element: Element) -> str:
    return content.text(element, 'MediaName')


_PLACES = {
    'slots': ('IOSlots', 'IOSlot'),
    'mappings': ('VirtualSCSIMappings', 'VirtualSCSIMapping'),
    'media': ('OpticalMedia', 'VirtualOpticalMedia'),
}
_KEYS: dict[str, _Key] = {
    'slots': _number('SlotDynamicReconfigurationConnectorIndex'),
    'lpars': _number('content/LogicalPartition/PartitionID'),
    'mappings': _number('ServerAdapter/VirtualSlotNumber'),
    'media': _name,
}

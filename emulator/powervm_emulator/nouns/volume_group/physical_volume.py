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

"""Physical volumes of Virtual I/O Servers.

Each described volume group has one of its own. Others are free until they
are mapped, or a new group takes them.
"""

import base64
import re
from collections.abc import Container
from collections.abc import Iterable

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns.partition import model as partition_module

VOLUMES = 'PhysicalVolumes'
VOLUME = 'PhysicalVolume'
_PATH = f'{VOLUMES}/{VOLUME}'
AVAILABLE = 'AvailableForUsage'
UDID = 'UniqueDeviceID'
_MEGABYTES = 1024
_SHARED = 'NoReserve'
_NAME = re.compile('hdisk([0-9]{1,6})')
Partition = partition_module.Partition


def add(
    vios: Partition, group: content.Element, capacity: float, serial: str
) -> None:
    """Give a new volume group the next disk of its server.

    :param group: the group's content.
    :param capacity: in GB.
    :param serial: a hexadecimal number that no other disk has.
    """
    volume = _element(vios, next_name(vios), capacity, serial)
    content.section(group, VOLUMES).append(volume)
    content.section(vios.element, VOLUMES).append(content.copy(volume))


def build(
    host: host_module.Host, vios: Partition, described: Iterable[resource.JSON]
) -> None:
    """Give a server the free disks that its world describes.

    :raises errors.WorldError: it has a disk with the name or UDID of one.
    """
    for spec in described:
        serial = f'{host.random.getrandbits(64):016x}'
        name = spec.get('name') or next_name(vios)
        volume = _element(vios, name, spec['capacity'], serial)
        content.put(volume, AVAILABLE, True)
        for key, path in (('udid', UDID), ('location', 'LocationCode')):
            if key in spec:
                content.put(volume, path, spec[key])
        for path in ('VolumeName', UDID):
            _check_new(vios, path, content.text(volume, path))
        content.section(vios.element, VOLUMES).append(volume)


def of(element: content.Element) -> list[content.Element]:
    """Return the disks in the content of a server or of a volume group."""
    return content.find_all(element, _PATH)


def find(vios: Partition, udid: str) -> content.Element | None:
    """Return the disk of a server with a UDID, if any."""
    return _find(vios, UDID, udid)


def find_named(vios: Partition, name: str) -> content.Element | None:
    """Return the disk of a server with a name, if any."""
    return _find(vios, 'VolumeName', name)


def _find(vios: Partition, path: str, value: str) -> content.Element | None:
    found = (
        one for one in of(vios.element) if content.text(one, path) == value
    )
    return next(found, None)


def is_free(volume: content.Element) -> bool:
    """Whether nobody has a disk."""
    return content.boolean(volume, AVAILABLE)


def is_shared(volume: content.Element) -> bool:
    """Whether several servers can have a disk open."""
    return content.text(volume, 'ReservePolicy', _SHARED) == _SHARED


def mark(element: content.Element, names: Container[str], free: bool) -> None:
    """Say whether disks of a server are free, wherever its content has them.

    Those behind a Fibre Channel port are listed there, too.
    """
    for volume in _everywhere(element, names):
        content.put(volume, AVAILABLE, free)


def forget(vios: Partition, name: str) -> None:
    """Remove the disk of a server with a name, wherever it is listed."""
    for volume in _everywhere(vios.element, [name]):
        volume.getparent().remove(volume)


def _everywhere(
    element: content.Element, names: Container[str]
) -> list[content.Element]:
    return [
        volume
        for volume in element.iter(f'{{{content.UOM_NS}}}{VOLUME}')
        if content.text(volume, 'VolumeName') in names
    ]


def _check_new(vios: Partition, path: str, value: str) -> None:
    if _find(vios, path, value) is not None:
        raise errors.WorldError(
            f'{vios.name} has two physical volumes with {path} {value!r}'
        )


def next_name(vios: Partition) -> str:
    """Return the first name that no disk of a server has."""
    names = {content.text(one, 'VolumeName') for one in of(vios.element)}
    return next(
        f'hdisk{number}'
        for number in range(len(names) + 1)
        if f'hdisk{number}' not in names
    )


def _element(
    vios: Partition, name: str, capacity: float, serial: str
) -> content.Element:
    serial = serial[:16].upper()
    # As the disks of a RAID adapter say it of themselves.
    inquiry = f'1IBM     IPR-0   {serial}'.encode()
    found = _NAME.fullmatch(name)
    place = int(found[1]) + 1 if found else 0
    values: dict[str, content.Value] = {
        'LocationCode': f'U78D2.001.{vios.system.serial}-P1-D{place}',
        UDID: f'01{base64.b64encode(inquiry).decode()}',
        'VolumeCapacity': int(capacity * _MEGABYTES),
        'VolumeName': name,
        'VolumeUniqueID': f'391BIBMIPR-0   {serial}03IBMsas',
    }
    leaves = [content.leaf(*item) for item in values.items()]
    volume = content.new(VOLUME, *leaves)
    elements.fill(volume)
    elements.sort(volume)
    return volume


_SCHEMA: resource.JSON = shapes.record(
    {
        'capacity': shapes.ref('gigabytes'),
        'name': shapes.value(
            'string',
            'Such as hdisk7; the first one that is free if it is not given.',
            pattern=f'^{_NAME.pattern}$',
        ),
        'udid': shapes.value(
            'string',
            'UniqueDeviceID: 01 and base64. Made if it is not given.',
            pattern='^01[A-Za-z0-9+/]+={0,2}$',
        ),
        'location': shapes.text('The location code. Made if it is not given.'),
    },
    'A disk of the server that is in no volume group.',
    required=['capacity'],
)
#: A part of worlds alone: clients see disks in other documents.
NOUN = noun.Noun(
    VOLUME,
    world=noun.WorldKey(
        'physical_volumes',
        (partition_module.VIOS,),
        _SCHEMA,
        build=build,
    ),
)

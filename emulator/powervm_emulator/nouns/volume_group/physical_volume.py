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

Each described volume group has one of its own; nothing changes them.
"""

import base64

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.nouns.partition import model as partition_module

VOLUMES = 'PhysicalVolumes'
_VOLUME = 'PhysicalVolume'
_PATH = f'{VOLUMES}/{_VOLUME}'
_MEGABYTES = 1024


def add(
    vios: partition_module.Partition,
    group: content.Element,
    capacity: float,
    serial: str,
) -> None:
    """Give a new volume group the next disk of its server.

    :param group: the group's content.
    :param capacity: in GB.
    :param serial: a hexadecimal number that no other disk has.
    """
    used = content.find_all(vios.element, _PATH)
    names = {content.text(volume, 'VolumeName') for volume in used}
    number = next(
        number
        for number in range(len(names) + 1)
        if f'hdisk{number}' not in names
    )
    volume = _element(vios, number, capacity, serial[:16].upper())
    content.section(group, VOLUMES).append(volume)
    section = content.section(vios.element, VOLUMES)
    section.append(content.copy(volume))


def _element(
    vios: partition_module.Partition, number: int, capacity: float, serial: str
) -> content.Element:
    # As the disks of a RAID adapter say it of themselves.
    inquiry = f'1IBM     IPR-0   {serial}'.encode()
    values: dict[str, content.Value] = {
        'LocationCode': f'U78D2.001.{vios.system.serial}-P1-D{number + 1}',
        'UniqueDeviceID': f'01{base64.b64encode(inquiry).decode()}',
        'VolumeCapacity': int(capacity * _MEGABYTES),
        'VolumeName': f'hdisk{number}',
        'VolumeUniqueID': f'391BIBMIPR-0   {serial}03IBMsas',
    }
    leaves = [content.leaf(*item) for item in values.items()]
    volume = content.new(_VOLUME, *leaves)
    elements.fill(volume)
    elements.sort(volume)
    return volume

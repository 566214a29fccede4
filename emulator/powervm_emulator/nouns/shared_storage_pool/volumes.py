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

"""The physical volumes that a pool is made of; nothing changes them."""

import base64

from powervm_emulator.core import content
from powervm_emulator.core import elements

_MEGABYTES = 1024


def volume(identity: str, number: int, capacity: float) -> content.Element:
    """Return a disk of a storage system.

    :param identity: of the pool, in hexadecimal.
    :param number: tells the disks of a pool apart.
    :param capacity: in GB.
    """
    label = f'pool_disk_{number}'
    inquiry = f'3IBM     2145{identity[:20]}{number:012d}'.upper().encode()
    values: dict[str, content.Value] = {
        'Description': 'MPIO IBM 2145 FC Disk',
        'UniqueDeviceID': f'01{base64.b64encode(inquiry).decode()}',
        'VolumeCapacity': int(capacity * _MEGABYTES),
        'VolumeName': f'hdisk{100 + number}',
        'IsFibreChannelBacked': True,
        'StorageLabel': base64.b64encode(label.encode()).decode(),
    }
    leaves = [content.leaf(*item) for item in values.items()]
    element = content.new('PhysicalVolume', *leaves)
    elements.fill(element)
    elements.sort(element)
    return element

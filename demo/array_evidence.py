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

"""What the storage array of the demonstration says about its volumes.

The array writes it to a file. Neither Nova nor the emulated host has a part
in that.
"""

import base64
import dataclasses
import json
import pathlib
import typing

from demo import guest
from demo import stack as stack_lib

# What IBM's arrays answer to an inquiry, before the uid.
_INQUIRY = '3IBM2145124'

#: The name of the file, which is in the directory of the volumes.
DESCRIPTION = 'array.json'


@dataclasses.dataclass(frozen=True)
class ArrayVolume:
    """A volume of the array.

    :ivar size: in bytes.
    :ivar wwpns: the sorted worldwide port names, in upper case, of the hosts
        that it is mapped to.
    :ivar file: has its bytes.
    """

    uid: str
    size: int
    wwpns: list[str]
    file: pathlib.Path

    @property
    def udid(self) -> str:
        """UniqueDeviceID of the disk that Virtual I/O Servers have of it."""
        inquiry = f'{_INQUIRY}{self.uid}'.encode()
        return f'01{base64.b64encode(inquiry).decode()}'

    @property
    def sha256(self) -> str:
        """The SHA-256 of what was written to it."""
        return guest.sha256(self.file.read_bytes())


def read(stack: stack_lib.Stack) -> dict[str, typing.Any]:
    """Return the description of the whole array."""
    found: dict[str, typing.Any] = json.loads(
        (stack.volumes / DESCRIPTION).read_text()
    )
    return found


def find(stack: stack_lib.Stack, identifier: str) -> ArrayVolume | None:
    """Return what the array has of a volume of Cinder, or None.

    :param identifier: of the volume.
    """
    return find_by_name(stack, f'volume-{identifier}')


def find_by_name(stack: stack_lib.Stack, name: str) -> ArrayVolume | None:
    """Return the volume that has a name in the array, or None."""
    described = read(stack)
    for volume in described['volumes']:
        if volume['name'] == name:
            break
    else:
        return None
    hosts = {one['host'] for one in described['maps'] if one['volume'] == name}
    return ArrayVolume(
        uid=volume['uid'],
        size=volume['size'],
        wwpns=sorted(
            wwpn.upper()
            for host in described['hosts']
            if host['name'] in hosts
            for wwpn in host['wwpns']
        ),
        file=pathlib.Path(volume['file']),
    )

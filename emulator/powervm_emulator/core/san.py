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

"""A storage area network: arrays, and what they map to which initiators.

It is outside of all hosts, and no host knows more of it than what its ports
can reach. Worldwide port names are compared without case and colons.
"""

import base64
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from powervm_emulator.core import resource
from powervm_emulator.core import shapes

WWPN = '^([0-9a-fA-F]{2}:?){7}[0-9a-fA-F]{2}$'
# Of a logical unit number that has more than 16 bits.
_LONG = 8


def normal(wwpn: str) -> str:
    """Return a worldwide port name as the REST API has it."""
    return wwpn.replace(':', '').upper()


def lua(lun: int) -> int:
    """Return the logical unit address, of 64 bits, of a unit number."""
    return lun << (32 if len(f'{lun:x}') == _LONG else 48)


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume of an array.

    :ivar uid: 32 hexadecimal digits.
    :ivar size: in bytes.
    :ivar file: the path of the file with its bytes; None without.
    :ivar reserve_policy: what servers that find it choose.
    """

    name: str
    uid: str
    size: int
    file: str | None = None
    reserve_policy: str = 'NoReserve'

    @property
    def udid(self) -> str:
        """UniqueDeviceID, as captured ones of IBM's arrays are made."""
        inquiry = f'3IBM2145124{self.uid.upper()}'.encode()
        return f'01{base64.b64encode(inquiry).decode()}'


class _Array:
    """One array.

    :ivar targets: the fabric of each of its ports, by worldwide port name.
    :ivar units: by initiator, the volume at each logical unit address. Two
        hosts can have one initiator.
    """

    def __init__(self, described: resource.JSON) -> None:
        self.targets = {
            normal(port['wwpn']): port['fabric'] for port in described['ports']
        }
        volumes = {
            one['name']: Volume(**one) for one in described.get('volumes', ())
        }
        initiators = {
            one['name']: one['wwpns'] for one in described.get('hosts', ())
        }
        self.units: dict[str, list[tuple[int, Volume]]] = {}
        for one in described.get('maps', ()):
            unit = lua(one['lun']), volumes[one['volume']]
            for wwpn in initiators[one['host']]:
                self.units.setdefault(normal(wwpn), []).append(unit)


class San:
    """The arrays that the hosts of a site can have disks of.

    :param arrays: as :data:`SCHEMA` describes them, without :func:`problems`.
    """

    def __init__(self, arrays: Iterable[resource.JSON] = ()) -> None:
        self.described = list(arrays)
        self._arrays = [_Array(one) for one in self.described]

    def find(
        self, initiator: str, fabric: str, target: str, address: int
    ) -> Iterator[Volume]:
        """Yield the volumes that an initiator finds at an address.

        :param fabric: that the initiator is in.
        """
        for array in self._arrays:
            if array.targets.get(normal(target)) == fabric:
                for at, volume in array.units.get(normal(initiator), ()):
                    if at == address:
                        yield volume

    def seen_by(self, initiators: Mapping[str, str]) -> dict[str, Volume]:
        """Return the volumes that any of some initiators reaches, by UDID.

        :param initiators: worldwide port names, each with its fabric.
        """
        return {
            volume.udid: volume
            for array in self._arrays
            for wwpn, fabric in initiators.items()
            if fabric in array.targets.values()
            for _, volume in array.units.get(normal(wwpn), ())
        }


def problems(arrays: Iterable[resource.JSON]) -> Iterator[str]:
    """Yield what a schema cannot express: contradictions of arrays."""
    listed = list(arrays)
    ports = [normal(p['wwpn']) for one in listed for p in one['ports']]
    uids = [v['uid'].upper() for a in listed for v in a.get('volumes', ())]
    yield from _repeated('the target port', ports)
    yield from _repeated('the uid', uids)
    yield from _repeated('the array', [one['name'] for one in listed])
    for one in listed:
        yield from _contradictions(one)


def _contradictions(array: resource.JSON) -> Iterator[str]:
    name = array['name']
    maps = array.get('maps', ())
    for kind in ('host', 'volume'):
        known = [one['name'] for one in array.get(f'{kind}s', ())]
        yield from _repeated(f'{name}: the {kind}', known)
        for one in maps:
            if one[kind] not in known:
                yield f'{name}: a map of the unknown {kind} {one[kind]!r}'
    units = [f'{one["lun"]} of {one["host"]}' for one in maps]
    yield from _repeated(f'{name}: the LUN', units)


def _repeated(what: str, values: list[str]) -> Iterator[str]:
    for value in sorted({one for one in values if values.count(one) > 1}):
        yield f'{what} {value} is there more than once'


_WWPN = shapes.value('string', '16 hexadecimal digits.', pattern=WWPN)
#: Of the list of all arrays.
SCHEMA = shapes.array(
    shapes.record(
        {
            'name': shapes.text(),
            'ports': shapes.array(
                shapes.record(
                    {'wwpn': _WWPN, 'fabric': shapes.text()},
                    required=['wwpn', 'fabric'],
                )
            ),
            'hosts': shapes.array(
                shapes.record(
                    {'name': shapes.text(), 'wwpns': shapes.array(_WWPN)},
                    required=['name', 'wwpns'],
                )
            ),
            'volumes': shapes.array(
                shapes.record(
                    {
                        'name': shapes.text(),
                        'uid': shapes.value(
                            'string', pattern='^[0-9a-fA-F]{32}$'
                        ),
                        'size': shapes.value('integer', 'Bytes.', minimum=1),
                        'file': shapes.value(['string', 'null'], pattern='^/'),
                        'reserve_policy': shapes.choice(
                            ['NoReserve', 'SinglePath']
                        ),
                    },
                    required=['name', 'uid', 'size'],
                )
            ),
            'maps': shapes.array(
                shapes.record(
                    {
                        'host': shapes.text(),
                        'volume': shapes.text(),
                        'lun': shapes.value(
                            'integer', minimum=0, maximum=0xFFFFFFFF
                        ),
                    },
                    required=['host', 'volume', 'lun'],
                )
            ),
        },
        required=['name', 'ports'],
    )
)

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

"""Extended attribute groups: which parts of a resource a request is about."""

from collections.abc import Iterable
from typing import Self

from powervm_emulator.core import content
from powervm_emulator.core import errors

# Groups that K2 leaves out unless a request names them. Elements of other
# groups (Hypervisor, SystemNetwork) are part of the default attributes.
EXTENDED = frozenset(
    (
        'Advanced',
        'NVRAM',
        'ViosFCMapping',
        'ViosNetwork',
        'ViosSCSIMapping',
        'ViosStorage',
        'VNIC',
    )
)
_KNOWN = EXTENDED | {
    'All',
    'EnergyManagement',
    'Hypervisor',
    'None',
    'SystemNetwork',
    'TierThreshold',
}


class Groups:
    """The value of the ``group`` query parameter.

    :param names: the groups named; None if the parameter was absent or
        ``All``, which this server answers with every group.
    """

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self.names = None if names is None else frozenset(names)

    @classmethod
    def from_query(cls, value: str | None) -> Self:
        """Read the parameter as it stands in a URI (``None``, ``A,B``).

        Resources of each kind can be read with the groups of all kinds.

        :raises errors.BadRequest: no kind has such a group.
        """
        names = ['All'] if value is None else value.split(',')
        for name in names:
            if name not in _KNOWN:
                raise errors.BadRequest(
                    f'Unknown extended attribute group {name}', 'REST0026'
                )
        return cls(None if 'All' in names else names)

    @property
    def mask(self) -> int:
        """A bit for each extended group, set if the selection shows it."""
        return sum(
            1 << bit
            for bit, name in enumerate(sorted(EXTENDED))
            if self.names is None or name in self.names
        )

    def shows(self, element: content.Element) -> bool:
        """Whether the element is part of what the request is about."""
        group = element.get('group')
        if group not in EXTENDED or self.names is None:
            return True
        return group in self.names


#: What a request is about that names no group.
ALL = Groups()

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

"""How long Placement needs to find devices for a flavor's groups."""

import dataclasses
import math
from collections import Counter
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from nova_powervm.tool.rules import flavors

#: Placement makes about so many candidates in a second (measured: 32 slots
#: and 4 groups of one kind took 93 s).
CANDIDATES_PER_SECOND = 9300
#: Seconds from which on a request is worth a warning.
SLOW_SECONDS = 2
#: So many groups of a kind are slow on a host of unknown size: three take half
#: an hour on one of 256 equal slots, two take seconds.
MANY_GROUPS = 3
#: Equal devices of one host from which on some flavors are slow.
MANY_DEVICES = 8
#: What makes Placement stop in time, for messages about ``placement.conf``.
PLACEMENT_OPTIONS = (
    '[placement]max_allocation_candidates = 1000, '
    '[placement]allocation_candidates_generation_strategy = breadth-first '
    'and [workarounds]optimize_for_wide_provider_trees = true'
)
_USUAL, _LARGE = 32, 256


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementCost:
    """What the groups of one kind cost.

    :param resource_class: What they ask for.
    :param groups: Number of equal groups.
    :param fitting: Number of devices of one host that fit; 0 if unknown.
    """

    resource_class: str
    groups: int
    fitting: int

    @property
    def ways(self) -> int:
        """Candidates on one host: all ways to give N slots to k groups."""
        return math.perm(self.fitting, self.groups)

    @property
    def seconds(self) -> int:
        """Roughly the time of one request, if nothing limits it."""
        return round(self.ways / CANDIDATES_PER_SECOND)

    @property
    def high(self) -> bool:
        """Whether somebody should do something about it."""
        if self.fitting:
            return self.seconds >= SLOW_SECONDS
        return self.groups >= MANY_GROUPS

    def __str__(self) -> str:
        if not self.fitting:
            small, large = (
                dataclasses.replace(self, fitting=number)
                for number in (_USUAL, _LARGE)
            )
            return (
                f'{self.groups} equal groups take Placement '
                f'{_time(small.seconds)} for each server with {_USUAL} such '
                f'devices on a host, {_time(large.seconds)} and gigabytes of '
                f'memory with {_LARGE}'
            )
        return (
            f'{self.groups} equal groups and {self.fitting} devices that '
            f'fit: {self.ways} ways to place them on this host alone, which '
            f'take Placement {_time(self.seconds)} for each server'
        )


def estimate_costs(
    groups: Iterable[flavors.FlavorGroup],
    devices: Collection[flavors.DeviceRequest],
) -> Iterator[PlacementCost]:
    """Work out the cost of each kind of group.

    :param groups: Those of a flavor that ask for devices.
    :param devices: What one host offers; none if that is unknown.
    """
    kinds = Counter(
        (next(iter(group.resources)), group.required)
        for group in groups
        if group.suffix and group.resources
    )
    for (name, required), number in kinds.items():
        fitting = sum(
            device.resource_class == name and required <= device.traits
            for device in devices
        )
        yield PlacementCost(name, number, fitting)


def _time(seconds: int) -> str:
    if seconds < 120:
        return f'about {seconds} s'
    if seconds < 7200:
        return f'about {seconds // 60} minutes'
    return 'many hours'

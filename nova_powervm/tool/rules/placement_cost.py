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

"""Estimates how long Placement takes to find devices for a flavor."""

import dataclasses
import math
from collections import Counter
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from nova_powervm.tool.rules import flavors

#: Candidates that Placement builds per second (measured: 32 slots and 4 equal
#: groups took 93 s).
CANDIDATES_PER_SECOND = 9300
#: Minimum duration in seconds that is worth a warning.
SLOW_SECONDS = 2
#: Number of equal groups that are slow on a host of unknown size: three take
#: half an hour on a host with 256 equal slots, two take seconds.
MANY_GROUPS = 3
#: Number of equal devices on a host from which on some flavors are slow.
MANY_DEVICES = 8
#: Options in ``placement.conf`` that limit the duration, for messages.
PLACEMENT_OPTIONS = (
    '[placement]max_allocation_candidates = 1000, '
    '[placement]allocation_candidates_generation_strategy = breadth-first '
    'and [workarounds]optimize_for_wide_provider_trees = true'
)
_USUAL, _LARGE = 32, 256


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementCost:
    """Cost of the equal groups of a flavor.

    :param resource_class: The requested resource class.
    :param groups: Number of equal groups.
    :param fitting: Number of matching devices on one host; 0 if unknown.
    """

    resource_class: str
    groups: int
    fitting: int

    @property
    def ways(self) -> int:
        """Candidates on one host: the ways to assign N slots to k groups."""
        return math.perm(self.fitting, self.groups)

    @property
    def seconds(self) -> int:
        """Estimated duration of one request without a limit, in seconds."""
        return round(self.ways / CANDIDATES_PER_SECOND)

    @property
    def high(self) -> bool:
        """Whether the cost is worth a warning."""
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
                f'devices on a host, and {_time(large.seconds)} and gigabytes '
                f'of memory with {_LARGE}'
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
    """Estimate the cost of each set of equal groups.

    :param groups: Groups of a flavor that request devices.
    :param devices: Devices that one host offers; empty if unknown.
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

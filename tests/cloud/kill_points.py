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

"""Where nova-compute is killed in an operation."""

import collections
import dataclasses

#: For how many seconds a request is held. Nothing waits for its end.
HOLD_SECONDS = 20.0
_IGNORED = ('Event.', 'Logon.', 'control')


@dataclasses.dataclass(frozen=True)
class Point:
    """Where nova-compute is killed.

    :ivar label: of the request's route.
    :ivar number: which of those requests it is, 1 for the first.
    :ivar phase: ``before`` or ``after`` it is handled.
    :ivar side: the index of the host that gets it, among those of the site.
    """

    method: str
    label: str
    number: int
    phase: str
    side: int = 0

    def __str__(self):
        return f'{self.phase} {self.method} {self.label} {self.number}'


def list_points(journal, side=0):
    """Return the points at which an operation with a journal can be killed.

    A kill after a request that only reads is one before the next request.

    :param side: the index of the host that has the journal.
    """
    counts = collections.Counter()
    points = []
    for record in journal:
        if record['label'].startswith(_IGNORED):
            continue
        key = record['method'], record['label']
        counts[key] += 1
        phases = ('before',) if key[0] == 'GET' else ('before', 'after')
        points += [Point(*key, counts[key], phase, side) for phase in phases]
    return points


def hold(control, point):
    """Let an emulator hold a request."""
    control.add_fault(
        method=point.method,
        match=point.label,
        nth=point.number,
        phase=point.phase,
        drop=True,
        delay=HOLD_SECONDS,
    )

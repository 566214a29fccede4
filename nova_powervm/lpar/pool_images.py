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

"""Names of the images in a shared storage pool, which tell their state.

All hosts that share a pool see the names, and nothing else tells them what
the others do: no host keeps a record of its own.
"""

import dataclasses
import enum
import re

_PREFIX = 'nvi'
_NAME = re.compile(
    r'nvi([0-9a-f]{40})(?:\.([pux])([0-9a-f]{8,10})(?:\.([0-9a-f]{8}))?)?'
)

#: An upload is given up for lost after so many seconds, and as many more for
#: each GiB. Then another host uploads the image once more.
LOST_AFTER_SECONDS = 600
LOST_AFTER_SECONDS_PER_GB = 60
#: Another host can be deleting an image for so many seconds.
DELETING_SECONDS = 600
#: After a day, any host removes an upload that was interrupted.
ABANDONED_SECONDS = 24 * 3600


class State(enum.StrEnum):
    """The state of an image in a pool; the value is part of its name."""

    #: Disks are made from it.
    READY = ''
    #: As READY, but at some time no disk was made from it.
    UNUSED = 'u'
    #: It is being written.
    PARTIAL = 'p'
    #: It is being deleted; no disk may be made from it.
    RETIRED = 'x'


@dataclasses.dataclass(frozen=True, slots=True)
class PoolImage:
    """An image in a pool, as its name describes it.

    :param fingerprint: That of the image; see :class:`.image.Image`.
    :param state: Its state.
    :param since: When it got into this state, in seconds since 1970; 0 if
        this is unknown.
    :param writer: What only the host that writes it has; empty without.
    """

    fingerprint: str
    state: State = State.READY
    since: int = 0
    writer: str = ''

    def __str__(self) -> str:
        parts = [_PREFIX + self.fingerprint]
        if self.state:
            parts.append(f'{self.state}{self.since:08x}')
        if self.writer:
            parts.append(self.writer)
        return '.'.join(parts)

    @property
    def is_usable(self) -> bool:
        """Whether disks can be made from it."""
        return self.state in (State.READY, State.UNUSED)

    def age(self, now: float) -> float:
        """Return for how many seconds it has been in its state.

        The clock of the host that named it may be ahead.

        :param now: In seconds since 1970.
        """
        return max(0.0, now - self.since)

    def to(self, state: State, now: float = 0.0) -> 'PoolImage':
        """Return the same image in another state.

        :param now: In seconds since 1970; for all states but READY.
        """
        return PoolImage(self.fingerprint, state, int(now))


def parse(name: str) -> PoolImage | None:
    """Return the image that a logical unit's name describes, if it is one."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    fingerprint, state, since, writer = found.groups()
    return PoolImage(
        fingerprint, State(state or ''), int(since or '0', 16), writer or ''
    )


def lost_after(size_gb: float) -> float:
    """Return after how many seconds an upload counts as lost.

    :param size_gb: Size of the image in GiB.
    """
    return LOST_AFTER_SECONDS + LOST_AFTER_SECONDS_PER_GB * size_gb

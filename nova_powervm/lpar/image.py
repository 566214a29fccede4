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

"""Images: their properties in Glance, their bytes, their names in a pool.

All hosts that share a pool see the names of its images, and a name tells the
state of its image. Hosts learn of each other in no other way: no host keeps a
record of its own.
"""

import dataclasses
import enum
import hashlib
import re
from collections.abc import Collection

from nova_powervm import exception

#: Glance's names of disk formats.
RAW = 'raw'
QCOW2 = 'qcow2'
#: The disk formats that a host can support.
FORMATS = (RAW, QCOW2)

#: Hexadecimal digits of an image's fingerprint.
FINGERPRINT_DIGITS = 40

#: Glance's hashes that no two images share.
_STRONG_HASHES = frozenset(('sha256', 'sha384', 'sha512'))


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image as Glance describes it.

    :param id: Its uuid.
    :param disk_format: The format, in Glance's terms.
    :param size: Its size in bytes, or None if Glance does not report it.
    :param hash_algorithm: The algorithm of Glance's hash, as named by hashlib;
        empty if there is no hash.
    :param hash_value: The hash in hexadecimal.
    :param certificates: Ids of the certificates that its owner trusts to have
        signed it. If there are any, no server gets the image before its
        signature has been verified for this server.
    """

    id: str
    disk_format: str
    size: int | None = None
    hash_algorithm: str = ''
    hash_value: str = ''
    certificates: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hexadecimal digits that only images with the same bytes share.

        If Glance has no hash, the image's id takes its place, because Glance
        never changes an image. An owner who trusts certificates trusts neither
        Glance nor a weak hash: then only copies that were verified with the
        same certificates share the digits.
        """
        parts: tuple[str, ...] = (
            (self.hash_algorithm, self.hash_value.lower())
            if self.hash_value
            else ('id', self.id)
        )
        if self.hash_algorithm not in _STRONG_HASHES:
            parts = (*parts, *sorted(self.certificates))
        text = ':'.join((*parts, self.disk_format, str(self.size)))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return digest[:FINGERPRINT_DIGITS]

    def check(self, formats: Collection[str] = FORMATS) -> int:
        """Refuse an image that no disk can be made from.

        :param formats: The disk formats that are supported.
        :returns: Its size in bytes.
        :raises exception.ImageRefused: It has another format, is empty, or
            has an unknown size.
        """
        if self.disk_format not in formats:
            raise exception.ImageRefused(
                image=self.id,
                reason=f'its disk format is {self.disk_format}. Convert it '
                f'to {" or ".join(formats)} and upload it again',
            )
        if self.size is None:
            raise exception.ImageRefused(
                image=self.id,
                reason='Glance does not report its size. Upload it again',
            )
        if not self.size:
            raise exception.ImageRefused(image=self.id, reason='it is empty')
        return self.size


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The properties of an image that its beginning shows.

    :param size: Its size in bytes.
    :param disk_format: One of :data:`FORMATS`.
    :param disk_bytes: The bytes that it needs on a disk.
    """

    size: int
    disk_format: str
    disk_bytes: int


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

    :param fingerprint: The image's fingerprint; see :class:`.image.Image`.
    :param state: Its state.
    :param since: When it got into this state, in seconds since 1970; 0 if
        this is unknown.
    :param writer: A mark of the host that is writing it; empty for none.
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
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    fingerprint, state, since, writer = match.groups()
    return PoolImage(
        fingerprint, State(state or ''), int(since or '0', 16), writer or ''
    )


def lost_after(size_gb: float) -> float:
    """Return after how many seconds an upload counts as lost.

    :param size_gb: Size of the image in GiB.
    """
    return LOST_AFTER_SECONDS + LOST_AFTER_SECONDS_PER_GB * size_gb

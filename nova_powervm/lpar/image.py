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

"""Images: their properties in Glance, and what their bytes show."""

import dataclasses
import hashlib
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
        signed it. If there are any, no server gets it without a verification
        of its signature for this server.
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

        Without a hash it is that of the image's id, because Glance never
        changes an image. Who trusts certificates does not trust Glance, nor a
        weak hash: then only copies that were verified with the same
        certificates count.
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

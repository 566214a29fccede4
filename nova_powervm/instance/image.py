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

"""Images: what Glance says of them, and what is found in their bytes."""

import dataclasses

from nova_powervm import exception

#: What Glance calls the disk formats that a host can take.
FORMATS = ('raw', 'qcow2')


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image as Glance describes it.

    :param id: Its uuid.
    :param disk_format: Glance's word for the format.
    :param size: Its bytes, or None where Glance does not say.
    :param hash_algorithm: Name of the hash that Glance keeps, as hashlib
        knows it; empty for none.
    :param hash_value: That hash in hexadecimal.
    """

    id: str
    disk_format: str
    size: int | None = None
    hash_algorithm: str = ''
    hash_value: str = ''

    def check(self) -> int:
        """Refuse an image that no virtual disk can be made of.

        :returns: Its bytes.
        :raises exception.ImageRefused: It is neither raw nor qcow2, is
            empty, or nobody knows how large it is.
        """
        if self.disk_format not in FORMATS:
            raise exception.ImageRefused(
                image=self.id,
                reason=f'its disk format is {self.disk_format}. Convert it '
                'to raw or qcow2 and upload it anew',
            )
        if self.size is None:
            raise exception.ImageRefused(
                image=self.id,
                reason='Glance does not say its size. Upload it anew',
            )
        if not self.size:
            raise exception.ImageRefused(image=self.id, reason='it is empty')
        return self.size


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """What the beginning of an image tells of it.

    :param size: The number of its bytes.
    :param disk_format: One of :data:`FORMATS`.
    :param disk_bytes: What the image takes on a disk.
    """

    size: int
    disk_format: str
    disk_bytes: int

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

"""Virtual disks and media: their names, and the sizes of root disks."""

import math
import re

from nova_powervm import exception

GIB = 1024**3

_STEM = 14

_OURS = re.compile(r'nv[0-9a-f]{12}(r|x|\.iso)$')


def stem(lpar_uuid: str) -> str:
    """Return the prefix of the names of all storage of an LPAR.

    The name of a virtual disk has at most 15 characters, so only 48 bits of
    the uuid fit.
    """
    return 'nv' + lpar_uuid.replace('-', '')[:12].lower()


def stem_of(name: str) -> str:
    """Return the stem of the name of a disk or medium of the driver's own."""
    return base_name(name)[:_STEM]


def root_disk_name(lpar_uuid: str, flavor_gb: int) -> str:
    """Name the root disk of an LPAR.

    The last letter tells whether Placement counts the disk: ``r`` if the
    flavor's size is allocated as DISK_GB, ``x`` if the flavor has no size and
    the disk has that of the image.
    """
    return stem(lpar_uuid) + ('r' if flavor_gb else 'x')


def config_drive_name(lpar_uuid: str) -> str:
    """Name the medium of an LPAR's config drive."""
    return stem(lpar_uuid) + '.iso'


def belongs_to(name: str, lpar_uuid: str) -> bool:
    """Return whether a virtual disk or medium belongs to an LPAR.

    :param name: As the host reports it, with or without a path.
    """
    return base_name(name).startswith(stem(lpar_uuid))


def is_ours(name: str) -> bool:
    """Return whether the driver created the storage with this name."""
    return _OURS.match(base_name(name)) is not None


def is_counted(name: str) -> bool:
    """Return whether a virtual disk's size is allocated in Placement."""
    found = _OURS.match(base_name(name))
    return found is not None and found[1] == 'r'


def base_name(name: str) -> str:
    """Return the name of a storage element without its path."""
    return name.rpartition('/')[2]


def root_disk_gb(flavor_gb: int, image_bytes: int, image: str) -> int:
    """Calculate the size of a root disk in GiB.

    :param flavor_gb: ``root_gb`` of the flavor; 0 for the size of the image.
    :param image_bytes: The bytes that the image needs on a disk.
    :param image: The image's name or id, for messages.
    :raises exception.RootDiskTooSmall: The image does not fit.
    """
    needed = max(1, math.ceil(image_bytes / GIB))
    if not flavor_gb:
        return needed
    if image_bytes > flavor_gb * GIB:
        raise exception.RootDiskTooSmall(
            image=image, needed_gb=needed, flavor_gb=flavor_gb
        )
    return flavor_gb

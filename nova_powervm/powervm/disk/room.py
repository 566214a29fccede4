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

"""Space for disks, as pypowervm's wrappers report it in GB."""

from nova_powervm import exception
from nova_powervm.lpar import storage


def is_smaller(size_gb: float, wanted_gb: float) -> bool:
    """Return whether a disk that the host reports is too small."""
    return size_gb < wanted_gb - storage.ROUNDING_GB


def check_free(
    place: object, free_gb: float, needed_gb: float, what: str
) -> None:
    """Verify that there is enough free space.

    :param place: Where, for the message.
    :param what: What needs the space, for the message.
    :raises exception.NoRoom: There is too little.
    """
    if needed_gb > free_gb + storage.ROUNDING_GB:
        raise exception.NoRoom(
            place=place,
            free_gb=f'{free_gb:g}',
            needed_gb=f'{needed_gb:g}',
            what=what,
        )

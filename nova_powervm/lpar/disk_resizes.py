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

"""What a resize can do with the disks of an instance."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class DiskSizes:
    """The sizes of disks that a flavor asks for.

    :param root_gb: Of the root disk in GiB; 0 for the size of the image.
    :param ephemeral_gb: Of all ephemeral disks in GiB.
    :param swap_mb: Of the swap disk in MiB; 0 for none.
    """

    root_gb: int
    ephemeral_gb: int
    swap_mb: int


def refused_disk_changes(old: DiskSizes, new: DiskSizes) -> Iterator[str]:
    """Yield what cannot be done to the disks, in words.

    A root disk can only grow, because its contents would be cut off. Its name
    says for ever whether Placement counts it (:func:`.storage.is_counted`).
    Nova does not change its records of ephemeral disks in a resize.
    """
    if new.root_gb and not old.root_gb:
        yield (
            'the root disk has the size of its image, because the present '
            'flavor has a disk of 0 GB, so it cannot be resized to '
            f'{new.root_gb} GB: choose a flavor with a disk of 0 GB'
        )
    elif new.root_gb < old.root_gb:
        yield (
            f'the root disk of {old.root_gb} GB cannot shrink to '
            f'{new.root_gb} GB'
        )
    if new.ephemeral_gb != old.ephemeral_gb:
        yield (
            'ephemeral disks cannot change: the present flavor has '
            f'{old.ephemeral_gb} GB of them, and the new one '
            f'{new.ephemeral_gb} GB'
        )

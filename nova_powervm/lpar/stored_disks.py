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

"""Disks in storage that several hosts share: which ones an LPAR can use.

Two LPARs must never write to one disk.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.lpar import storage


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A disk or medium that was created.

    :param name: Its name.
    :param handle: What its disk driver needs to attach it; opaque.
    """

    name: str
    handle: Any = dataclasses.field(compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PoolDisk:
    """A disk of an LPAR in storage that several hosts share.

    :param lpar_uuid: Upper-case PowerVM uuid of the LPAR that it belongs to.
    :param disk: Its role and size.
    :param in_use: Whether a running LPAR uses it, on any host; False if the
        driver is told not to ask.
    :param stored: The disk, to attach it.
    """

    lpar_uuid: str
    disk: storage.Disk
    in_use: bool
    stored: Stored


def check_unused(disks: Iterable[PoolDisk]) -> None:
    """Refuse disks that a running LPAR of any host uses.

    :raises exception.DiskInUse: One of them is in use.
    """
    for known in disks:
        if known.in_use:
            raise exception.DiskInUse(name=known.stored.name)


def only(matching: Collection[PoolDisk], what: str, owner: str) -> PoolDisk:
    """Return the only one of the disks that have the wanted role.

    :param matching: All disks of the owner with this role.
    :param what: The role in words.
    :param owner: The instance or LPAR, for messages.
    :raises exception.DiskMissing: There is none.
    :raises exception.DiskAmbiguous: There are several.
    """
    if not matching:
        raise exception.DiskMissing(
            owner=owner, what=what, place='the shared storage pool'
        )
    first = next(iter(matching))
    if len(matching) > 1:
        raise exception.DiskAmbiguous(
            owner=owner, what=what, count=len(matching), name=first.stored.name
        )
    return first


def select_kept(
    found: Sequence[PoolDisk],
    blanks: Iterable[storage.Disk],
    instance_uuid: str,
) -> list[PoolDisk]:
    """Select the disks that an instance keeps, the root disk first.

    A swap disk may be missing: it holds nothing worth keeping.

    :param found: Its disks in the pool.
    :param blanks: The disks that it has beside the root disk.
    :param instance_uuid: Its uuid, for messages.
    :raises exception.DiskMissing: Another one does not exist.
    :raises exception.DiskAmbiguous: Several may be one of them.
    :raises exception.DiskInUse: A running LPAR uses one of them.
    """

    def one(what: str, is_wanted: Callable[[str], bool]) -> PoolDisk:
        matching = [known for known in found if is_wanted(known.disk.role)]
        return only(matching, what, f'instance {instance_uuid}')

    kept = [one('root', storage.is_root)] + [
        one(
            storage.role_name(disk.role),
            functools.partial(operator.eq, disk.role),
        )
        for disk in blanks
        if disk.role != storage.SWAP
        or any(known.disk.role == disk.role for known in found)
    ]
    check_unused(kept)
    return kept

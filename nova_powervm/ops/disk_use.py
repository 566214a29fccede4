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

"""Which disks of a shared pool an LPAR can use.

Two LPARs must never write to one disk.
"""

from collections.abc import Collection
from collections.abc import Iterable

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.ops import disk_interfaces


def check_unused(disks: Iterable[disk_interfaces.PoolDisk]) -> None:
    """Refuse disks that a running LPAR uses, on whatever host.

    :raises exception.DiskInUse: One of them is in use.
    """
    for known in disks:
        if known.in_use:
            raise exception.DiskInUse(name=known.stored.name)


def check_still_unused(disks: disk_interfaces.Disks, lpar: str) -> None:
    """Refuse to start an LPAR whose disks another one uses.

    Ask the pool, if the disks are in one, just before the start.

    :param lpar: Upper-case PowerVM uuid of an LPAR that is off.
    :raises exception.DiskInUse: A running LPAR uses one of its disks.
    """
    if disks.pool is not None:
        check_unused(disks.pool.disks(lpar))


def check_start(disks: disk_interfaces.Disks, lpar: str) -> None:
    """Refuse to start an LPAR that another one uses the disks of, or without.

    A move that was interrupted may have disconnected them.

    :param lpar: Upper-case PowerVM uuid of an LPAR that is off.
    :raises exception.DiskInUse: A running LPAR uses one of its disks.
    :raises exception.DiskNotConnected: Its root disk is in the pool, and not
        connected to it.
    """
    if disks.pool is None:
        return
    found = disks.pool.disks(lpar)
    check_unused(found)
    roots = {k.stored.name for k in found if storage.is_root(k.disk.role)}
    for name in sorted(roots.difference(disks.attached(lpar))):
        raise exception.DiskNotConnected(name=name, lpar=lpar)


def only(
    matching: Collection[disk_interfaces.PoolDisk], what: str, owner: str
) -> disk_interfaces.PoolDisk:
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

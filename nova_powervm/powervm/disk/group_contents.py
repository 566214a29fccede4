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

"""The disks and media in a volume group, and the space that they use."""

import math
from collections.abc import Callable
from typing import Any

from oslo_log import log as logging
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import volume_groups

LOG = logging.getLogger(__name__)


def capacity(group: pvm_storage.VG) -> host_values.DiskCapacity:
    """Return a group's size and how much of it is used, in whole GiB.

    The free space is rounded down.
    """
    total = math.floor(group.capacity)
    counted = [
        disk.capacity
        for disk in group.virtual_disks
        if storage.is_counted(disk.name)
    ]
    others = group.capacity - group.available_size - sum(counted)
    # How much larger than its flavor's size a disk may be.
    excess = max(0, math.ceil(volume_groups.unit_gb(group)) - 1)
    return host_values.DiskCapacity(
        total_gb=total,
        used_gb=max(0, total - math.floor(group.available_size)),
        reserved_gb=max(0, math.ceil(round(others, 3)))
        + excess * len(counted),
    )


def find(group: pvm_storage.VG, name: str) -> pvm_storage.VDisk | None:
    """Return the virtual disk with a name in a group, or None."""
    return next(
        (
            disk
            for disk in group.virtual_disks
            if storage.base_name(disk.name) == name
        ),
        None,
    )


class LeftoverError(Exception):
    """A disk exists before its creation was requested."""


def addition(
    name: str, build: Callable[[], pvm_storage.VDisk]
) -> Callable[[pvm_storage.VG], bool]:
    """Return an edit that adds a virtual disk to a group.

    The edit raises :class:`LeftoverError` if the disk exists when it is called
    for the first time. If it exists later, the answer to the request that
    created it was lost.

    :param name: Name of the disk.
    :param build: Builds its wrapper.
    :returns: An edit for :meth:`.volume_groups.VolumeGroups.change`.
    """
    asked = False

    def edit(group: pvm_storage.VG) -> bool:
        nonlocal asked
        if find(group, name) is not None:
            if not asked:
                raise LeftoverError
            return False
        asked = True
        group.virtual_disks.append(build())
        return True

    return edit


def find_root(group: pvm_storage.VG, lpar_uuid: str) -> pvm_storage.VDisk:
    """Return the root disk of an LPAR in a group.

    :raises exception.DiskMissing: There is none.
    """
    for role in storage.ROOTS:
        disk = find(group, storage.disk_name(lpar_uuid, role))
        if disk is not None:
            return disk
    raise exception.DiskMissing(
        owner=f'LPAR {lpar_uuid}',
        what='root',
        place=f'volume group {group.name}',
    )


def growth(lpar_uuid: str, size_gb: float) -> Callable[[pvm_storage.VG], bool]:
    """Return an edit that enlarges an LPAR's root disk if it is smaller.

    :param size_gb: Its size in GiB.
    :returns: An edit for :meth:`.volume_groups.VolumeGroups.change`.
    """

    def edit(group: pvm_storage.VG) -> bool:
        disk = find_root(group, lpar_uuid)
        is_smaller = storage.is_smaller(disk.capacity, size_gb)
        if is_smaller:
            disk.capacity = size_gb
        return is_smaller

    return edit


def removal(
    is_doomed: Callable[[str], bool], *, media_only: bool = False
) -> Callable[[pvm_storage.VG], bool]:
    """Return an edit that removes disks and media from a group.

    :param is_doomed: Whether to remove the disk or medium with a name.
    :param media_only: Whether to remove no disk.
    :returns: An edit for :meth:`.volume_groups.VolumeGroups.change`.
    """

    def edit(group: pvm_storage.VG) -> bool:
        kept: list[Any] = [] if media_only else [group.virtual_disks]
        kept += [repository.optical_media for repository in group.vmedia_repos]
        found = [
            (elements, element)
            for elements in kept
            for element in elements
            if is_doomed(storage.base_name(element.name))
        ]
        for elements, element in found:
            elements.remove(element)
        return bool(found)

    return edit


def rescue_removal(
    lpar_uuid: str, *, media_only: bool = False
) -> Callable[[pvm_storage.VG], bool]:
    """Return an edit that removes what the rescue system of an LPAR has.

    :param media_only: Whether to remove its medium only.
    :returns: An edit for :meth:`.volume_groups.VolumeGroups.change`.
    """
    return removal(
        lambda name: (
            storage.is_of_rescue(name) and storage.belongs_to(name, lpar_uuid)
        ),
        media_only=media_only,
    )


def discard(
    groups: volume_groups.ServerGroups,
    name: str,
    cause: exception.PowerVMError,
) -> None:
    """Delete a disk or medium after a failed upload.

    A failure to delete is only logged: the upload's error is reported.

    :param groups: The groups of the server that has it.
    :param cause: Why the upload failed.
    """
    LOG.warning('Removing %s after a failed upload: %s', name, cause)
    try:
        groups.change_all(removal(lambda found: found == name))
    except exception.PowerVMError as error:
        LOG.error(
            '%(name)s could not be removed: %(error)s',
            {'name': name, 'error': error},
        )

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

"""Virtual disks and media: their roles, names, sizes, and who may use them.

Two LPARs must never write to one disk in storage that several hosts share.
"""

import dataclasses
import math
import re
import uuid
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception

GIB = 1024**3
_MIB_PER_GIB = 1024
#: Hosts report sizes in GB with a few digits.
ROUNDING_GB = 0.01

_STEM = 14

#: Roles of disks. Each is one letter or, for an ephemeral disk, one digit: the
#: name of a virtual disk in a volume group has room for no more.
ROOT = 'r'
#: A root disk of the image's size, which Placement does not count.
UNCOUNTED_ROOT = 'x'
ROOTS = (ROOT, UNCOUNTED_ROOT)
SWAP = 's'
EPHEMERALS = '0123456789'
#: The disk of a rescue system, which Placement does not count.
RESCUE = 'z'
#: The roles of config drives in the names of their media: the instance's own,
#: and its rescue system's.
_MEDIUM = '.iso'
_RESCUE_MEDIUM = 'z.iso'
_OF_RESCUE = (RESCUE, _RESCUE_MEDIUM)

#: An LPAR's client adapters for the storage of the first Virtual I/O Server
#: have the virtual slots from this one on, and those for the next server as
#: many slots below. An LPAR has 64 slots, and the adapters of ports get the
#: lowest free ones.
_FIRST_SLOT = 48
_SLOTS_OF_SERVER = 16
_SERVERS = 2
#: Roles in the order of their slots, which is the order that guests see; the
#: medium of the config drive comes after them.
_IN_ORDER = f'{ROOT}{EPHEMERALS}{SWAP}'

#: Roles in the names of logical units.
_UNIT_ROLES = {
    ROOT: 'root',
    UNCOUNTED_ROOT: 'root0',
    SWAP: 'swap',
    RESCUE: 'rescue',
    **{role: f'eph{role}' for role in EPHEMERALS},
}
_ROLES_OF_UNITS = {name: role for role, name in _UNIT_ROLES.items()}
_UNIT = re.compile(rf'nv([0-9a-f]{{32}})-({"|".join(_ROLES_OF_UNITS)})')
_OURS = re.compile(r'nv[0-9a-f]{12}([rxsz0-9]|z?\.iso|g[0-9]+\.iso)$')
#: The role of the medium that notes the size of a root disk in MiB from which
#: on it has to be cleared.
_GROWTH = re.compile(r'g([0-9]+)\.iso')


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """A disk that an instance has or is to have.

    :param role: One of the roles of this module.
    :param size_gb: Its size in GiB; a swap disk may be smaller than 1.
    """

    role: str
    size_gb: float

    def __str__(self) -> str:
        return f'{role_name(self.role)} disk of {self.size_gb:g} GB'


def is_same_size(size_gb: float, other_gb: float) -> bool:
    """Return whether two sizes are equal as far as a host reports them."""
    return abs(size_gb - other_gb) <= ROUNDING_GB


def is_smaller(size_gb: float, wanted_gb: float) -> bool:
    """Return whether a disk that the host reports is too small."""
    return size_gb < wanted_gb - ROUNDING_GB


def check_free(
    place: object, free_gb: float, needed_gb: float, purpose: str
) -> None:
    """Verify that there is enough free space.

    :param place: Where the space is, for the message.
    :param purpose: What needs the space, for the message.
    :raises exception.InsufficientSpace: There is too little.
    """
    if needed_gb > free_gb + ROUNDING_GB:
        raise exception.InsufficientSpace(
            place=place,
            free_gb=f'{free_gb:g}',
            needed_gb=f'{needed_gb:g}',
            what=purpose,
        )


def role_name(role: str) -> str:
    """Return a role in words."""
    if role in EPHEMERALS:
        return f'ephemeral {int(role) + 1}'
    return {
        ROOT: 'root',
        UNCOUNTED_ROOT: 'root',
        SWAP: 'swap',
        RESCUE: 'rescue',
    }[role]


def is_root(role: str) -> bool:
    """Return whether a role is a root disk's."""
    return role in ROOTS


def root_role(flavor_gb: int) -> str:
    """Return the role of a root disk, given the flavor's ``root_gb``."""
    return ROOT if flavor_gb else UNCOUNTED_ROOT


def blank_disks(
    ephemerals_gb: Sequence[int], swap_mb: int
) -> tuple[Disk, ...]:
    """Return the disks beside the root disk, in the order that guests see.

    :param ephemerals_gb: Sizes of the ephemeral disks in GiB; at most ten.
    :param swap_mb: Size of the swap disk in MiB; 0 for none.
    """
    disks = [
        Disk(role, size)
        for role, size in zip(EPHEMERALS, ephemerals_gb, strict=False)
    ]
    if swap_mb:
        disks.append(Disk(SWAP, swap_mb / _MIB_PER_GIB))
    return tuple(disks)


def stem(lpar_uuid: str) -> str:
    """Return the prefix of the names of all storage of an LPAR.

    The name of a virtual disk has at most 15 characters, so only 48 bits of
    the uuid fit.
    """
    return 'nv' + lpar_uuid.replace('-', '')[:12].lower()


def stem_of(name: str) -> str:
    """Return the stem of the name of a disk or medium of the driver's own."""
    return base_name(name)[:_STEM]


def disk_name(lpar_uuid: str, role: str) -> str:
    """Name a virtual disk of an LPAR in a volume group.

    The last letter is the role, which tells whether Placement counts the disk.
    """
    return stem(lpar_uuid) + role


def unit_name(lpar_uuid: str, role: str) -> str:
    """Name a logical unit of an LPAR in a shared storage pool.

    It begins with the stem, and contains the whole uuid, because all LPARs of
    a cloud may be in one pool.
    """
    return f'nv{lpar_uuid.replace("-", "").lower()}-{_UNIT_ROLES[role]}'


def parse_unit_name(name: str) -> tuple[str, str] | None:
    """Return whose logical unit has a name, and its role.

    :returns: Upper-case PowerVM uuid of the LPAR, and the role; None if the
        driver has not made the unit for an instance.
    """
    match = _UNIT.fullmatch(name)
    if match is None:
        return None
    return str(uuid.UUID(match[1])).upper(), _ROLES_OF_UNITS[match[2]]


def config_drive_name(lpar_uuid: str, *, rescue: bool = False) -> str:
    """Name the medium of an LPAR's config drive.

    :param rescue: Whether its rescue system gets the drive.
    """
    return stem(lpar_uuid) + (_RESCUE_MEDIUM if rescue else _MEDIUM)


def growth_name(lpar_uuid: str, size_mib: int) -> str:
    """Name the medium that notes that a root disk is being enlarged.

    No guest gets this medium. It exists while the disk is connected to none.

    :param size_mib: The size of the disk before, in MiB.
    """
    return f'{stem(lpar_uuid)}g{size_mib}.iso'


def growing_from(name: str) -> int | None:
    """Return the size in MiB in a name by :func:`growth_name`, or None."""
    match = _GROWTH.fullmatch(_role_of(name) or '')
    return int(match[1]) if match else None


def is_root_name(name: str) -> bool:
    """Return whether a disk is a root disk of the driver's own."""
    return is_root(_role_of(name) or '')


def is_of_rescue(name: str) -> bool:
    """Return whether a disk or medium is a rescue system's."""
    return _role_of(name) in _OF_RESCUE


def is_connected(name: str, *, rescued: bool) -> bool:
    """Return whether a disk or medium is to be connected to its LPAR.

    A rescue system has its own config drive, and not the instance's: both have
    the same label, so it might read the wrong one.

    :param rescued: Whether the LPAR runs its rescue system.
    """
    role = _role_of(name)
    return role != _MEDIUM if rescued else role not in _OF_RESCUE


def virtual_slots(server: int) -> range:
    """Return the virtual slots for the storage of a Virtual I/O Server.

    The host itself chooses the slots for the third server and further ones.

    :param server: The number of the server, counted from 0.
    """
    first = _FIRST_SLOT - server * _SLOTS_OF_SERVER
    return range(first, first + _SLOTS_OF_SERVER * (server < _SERVERS))


def virtual_slot(
    name: str, server: int, *, rescued: bool = False
) -> int | None:
    """Return the virtual slot of a disk or medium of the driver's own.

    The slot depends on the role only: the devices of a guest have the same
    addresses on every host, whatever else is connected. A rescue disk takes
    the place of the root disk, to which the guest's list of boot devices
    leads, and all other disks come one place later.

    :param name: As the host reports it, with or without a path.
    :param server: As in :func:`virtual_slots`.
    :param rescued: Whether the LPAR has a rescue disk.
    :returns: The slot; None if the host is to choose one.
    """
    role = _role_of(name)
    reserved = virtual_slots(server)
    if role is None or not reserved:
        return None
    if role == RESCUE:
        return reserved[0]
    return reserved[_place_of(role) + rescued]


def _place_of(role: str) -> int:
    if role in (_MEDIUM, _RESCUE_MEDIUM):
        return len(_IN_ORDER)
    return _IN_ORDER.index(ROOT if is_root(role) else role)


def slots_of(names: Iterable[str], *, rescued: bool = False) -> frozenset[int]:
    """Return the virtual slots of disks and media, for any server.

    :param names: As for :func:`virtual_slot`, which also chooses the slots of
        a rescue.
    """
    slots = {
        virtual_slot(name, server, rescued=rescued)
        for name in names
        for server in range(_SERVERS)
    }
    return frozenset(slot for slot in slots if slot is not None)


def _role_of(name: str) -> str | None:
    unit = parse_unit_name(name)
    if unit is not None:
        return unit[1]
    match = _OURS.match(base_name(name))
    return match and match[1]


def belongs_to(name: str, lpar_uuid: str) -> bool:
    """Return whether a virtual disk or medium belongs to an LPAR.

    :param name: As the host reports it, with or without a path.
    """
    unit = parse_unit_name(name)
    if unit is not None:
        return unit[0] == lpar_uuid.upper()
    return is_ours(name) and base_name(name).startswith(stem(lpar_uuid))


def is_ours(name: str) -> bool:
    """Return whether the driver created the storage with this name."""
    return _OURS.match(base_name(name)) is not None


def is_counted(name: str) -> bool:
    """Return whether the size of a disk is allocated in Placement.

    :param name: Name of a virtual disk or logical unit.
    """
    return _role_of(name) not in (None, UNCOUNTED_ROOT, _MEDIUM, *_OF_RESCUE)


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
    :param stored: The disk in the form that attaches it.
    """

    lpar_uuid: str
    disk: Disk
    in_use: bool
    stored: Stored


def check_unused(disks: Iterable[PoolDisk]) -> None:
    """Refuse disks that a running LPAR of any host uses.

    :raises exception.DiskInUse: One of them is in use.
    """
    for disk in disks:
        if disk.in_use:
            raise exception.DiskInUse(name=disk.stored.name)


def only(disks: Collection[PoolDisk], role: str, owner: str) -> PoolDisk:
    """Return the only disk of an owner that has some role.

    :param disks: All disks of the owner with this role.
    :param role: The role in words.
    :param owner: The instance or LPAR, for messages.
    :raises exception.DiskMissing: There is none.
    :raises exception.DiskAmbiguous: There are several.
    """
    if not disks:
        raise exception.DiskMissing(
            owner=owner, what=role, place='the shared storage pool'
        )
    first = next(iter(disks))
    if len(disks) > 1:
        raise exception.DiskAmbiguous(
            owner=owner, what=role, count=len(disks), name=first.stored.name
        )
    return first


def select_kept(
    disks: Sequence[PoolDisk],
    blanks: Iterable[Disk],
    instance_uuid: str,
    *,
    has_root: bool = True,
) -> list[PoolDisk]:
    """Select the disks that an instance keeps, the root disk first.

    A swap disk may be missing: it holds nothing worth keeping.

    :param disks: Its disks in the pool.
    :param blanks: The disks that it has beside the root disk.
    :param instance_uuid: Its uuid, for messages.
    :param has_root: Whether one of them is its root disk, and not a volume.
    :raises exception.DiskMissing: A disk other than the swap disk is missing.
    :raises exception.DiskAmbiguous: There are several disks of one role.
    :raises exception.DiskInUse: A running LPAR uses one of the disks.
    """

    def select(*roles: str) -> PoolDisk:
        of_roles = [disk for disk in disks if disk.disk.role in roles]
        return only(of_roles, role_name(roles[0]), f'instance {instance_uuid}')

    has_swap = any(disk.disk.role == SWAP for disk in disks)
    kept = [select(*ROOTS)] if has_root else []
    kept += [
        select(blank.role)
        for blank in blanks
        if blank.role != SWAP or has_swap
    ]
    check_unused(kept)
    return kept


@dataclasses.dataclass(frozen=True, slots=True)
class DiskSizes:
    """The sizes of disks that a flavor asks for.

    :param root_gb: The root disk's in GiB; 0 for the size of the image.
    :param ephemeral_gb: The sum of all ephemeral disks' in GiB.
    :param swap_mb: The swap disk's in MiB; 0 for none.
    """

    root_gb: int
    ephemeral_gb: int
    swap_mb: int


def refused_disk_changes(old: DiskSizes, new: DiskSizes) -> Iterator[str]:
    """Yield the changes that cannot be made to the disks, in words.

    A root disk cannot shrink, because its contents would be cut off. Its name
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

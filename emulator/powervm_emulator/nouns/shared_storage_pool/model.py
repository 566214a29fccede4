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

"""Shared storage pools, their tiers and logical units."""

import random
import uuid as uuid_module
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import fields
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import model as partition_module

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

KIND = 'SharedStoragePool'
TIER = 'Tier'
UNIT = 'LogicalUnit'
UNITS = 'LogicalUnits'
DISK = 'VirtualIO_Disk'
IMAGE = 'VirtualIO_Image'
# How UDIDs begin; the rest tells one logical unit from another.
_DIGITS = {DISK: '27', IMAGE: '29'}
_BLOCK = 1 << 20


class Pool(resource.Resource):
    """A SharedStoragePool, which the hosts of its cluster share.

    :param spec: how worlds describe the cluster, without the nodes.
    :ivar random: of all that the pool chooses. It does not depend on hosts.
    :ivar cluster_uuid: of the cluster, which each host shows in its own way.
    :ivar unseen: GB that a captured pool has less than its logical units say.
    """

    def __init__(self, spec: resource.JSON, seed: int) -> None:
        name = spec['pool']['name']
        # Not cryptography: equal seeds must give equal worlds.
        self.random = random.Random(f'{seed} {name}')  # noqa: S311
        super().__init__(KIND, self.new_uuid(), content.new(KIND))
        self.spec = spec
        self.pool_uuid = self.uuid
        self.cluster_uuid = self.new_uuid()
        self.identity = self.new_number()
        self.unseen = 0.0
        self.tiers: list[Tier] = []
        self.units: dict[str, LogicalUnit] = {}

    name = fields.text('StoragePoolName')

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return str(self.spec['name'])

    capacity = fields.number('Capacity')  # in GB

    @property
    def free(self) -> float:
        """GB that no logical unit takes."""
        used = sum(unit.used for unit in self.units.values())
        return self.capacity - used - self.unseen

    @property
    def promised(self) -> float:
        """The capacities of all logical units, in GB."""
        return sum(unit.capacity for unit in self.units.values())

    @property
    def default_tier(self) -> 'Tier':
        """The tier for those who name none."""
        return next(tier for tier in self.tiers if tier.boolean('IsDefault'))

    def new_uuid(self) -> str:
        """Return a uuid that nothing else has, in lower case."""
        bits = self.random.getrandbits(128) & ~(1 << 127)
        return str(uuid_module.UUID(int=bits, version=4))

    def new_number(self) -> str:
        """Return 32 hexadecimal digits."""
        return f'{self.random.getrandbits(128):032x}'

    def find(self, udid: str) -> 'LogicalUnit | None':
        """Return the logical unit with a UDID, or None."""
        return self.units.get(key_of(udid))

    def has_had(self, udid: str) -> bool:
        """Whether a UDID is of this pool, be the logical unit gone or not."""
        return key_of(udid).startswith(self.identity)

    def clones(self, image: 'LogicalUnit') -> list['LogicalUnit']:
        """Return the linked clones of an image."""
        return [
            unit for unit in self.units.values() if unit.image == image.key
        ]

    def view(self, groups: groups_module.Groups) -> Element:
        """Return the content with what follows from the logical units."""
        copy = super().view(groups)
        excess = max(0.0, self.promised - self.capacity)
        for name, value in (
            ('FreeSpace', self.free),
            ('OverCommitSpace', excess),
            ('TotalLogicalUnitSize', self.promised),
        ):
            content.put(copy, name, units.gigabytes(value))
        shown = [unit.detail() for unit in self.units.values()]
        content.replace(copy, content.new(UNITS, *shown))
        return copy


class Tier(resource.Resource):
    """A Tier of a pool."""

    def __init__(self, uuid: str, element: Element, pool: Pool) -> None:
        super().__init__(TIER, uuid, element, parent=pool)
        self.pool = pool
        self.pool_uuid = pool.uuid

    @property
    def event_path(self) -> str:
        """The root URI, as captured events have it."""
        return self.path

    name = fields.text('Name')
    capacity = fields.number('Capacity')  # in GB

    @property
    def units(self) -> list['LogicalUnit']:
        """The logical units on this tier."""
        return [one for one in self.pool.units.values() if one.tier is self]

    @property
    def free(self) -> float:
        """GB that no logical unit takes."""
        return self.capacity - sum(unit.used for unit in self.units)


class LogicalUnit(resource.Resource):
    """A LogicalUnit of a tier.

    :ivar uploaded: bytes that the last upload has written.
    :ivar blocks: numbers of the blocks that guests have written since, or
        that a clone does not share with its image any more.
    """

    def __init__(self, uuid: str, element: Element, tier: Tier) -> None:
        super().__init__(UNIT, uuid, element, parent=tier)
        self.tier = tier
        self.pool = tier.pool
        self.pool_uuid = tier.pool.uuid
        self.uploaded = 0
        self.blocks: set[int] = set()

    #: Others can have it, too.
    name = fields.text('UnitName')
    udid = fields.text('UniqueDeviceID')

    @property
    def key(self) -> str:
        """What tells it from others; see :func:`key_of`."""
        return key_of(self.udid)

    type = fields.text('LogicalUnitType')

    @property
    def image(self) -> str:
        """The key of the image that it is a linked clone of, or nothing."""
        return key_of(self.text('ClonedFrom'))

    capacity = fields.number('UnitCapacity')  # in GB

    @property
    def size(self) -> int:
        """The capacity in bytes."""
        return units.to_bytes(self.capacity)

    #: Whether it takes no more space than what was written to it.
    is_thin = fields.boolean('ThinDevice')
    #: Whether an active partition has it.
    in_use = fields.boolean('InUse')

    @property
    def used(self) -> float:
        """GB of the pool that it takes."""
        return self.used_with(self.uploaded, self.blocks)

    def used_with(self, uploaded: int, blocks: set[int]) -> float:
        """Return the GB that it would take after other writes."""
        if not self.is_thin:
            return self.capacity
        return units.of_bytes(min(self.size, uploaded + len(blocks) * _BLOCK))

    def blocks_with(self, offset: int, length: int) -> set[int]:
        """Return the blocks of its own after a guest has written."""
        first, last = offset // _BLOCK, (offset + length - 1) // _BLOCK
        written = {
            block
            for block in range(first, last + 1)
            if (block + 1) * _BLOCK > self.uploaded
        }
        return self.blocks | written

    def detail(self) -> Element:
        """Return it as the contents of other resources show it."""
        children = [
            content.copy(child)
            for child in self.element
            if content.local_name(child) != 'Metadata'
        ]
        return content.new(UNIT, *children)


def key_of(udid: str) -> str:
    """Return what tells one logical unit from another.

    The first two characters of a UDID say what it is of, and not always the
    same.
    """
    return udid[2:].lower()


def udid_of(pool: Pool, type_: str) -> str:
    """Return the UDID of a new logical unit."""
    return f'{_DIGITS[type_]}{pool.identity}{pool.new_number()}'


def of(host: Host) -> Iterator[Pool]:
    """Yield the pools that a host shares."""
    yield from host.of_type(Pool)


def of_server(host: Host, vios: Partition) -> Pool | None:
    """Return the pool of a Virtual I/O Server's cluster, or None."""
    for pool in of(host):
        if vios.uuid in host.pools[pool.uuid]:
            return pool
    return None


def unit_of(host: Host, vios: Partition, udid: str) -> LogicalUnit | None:
    """Return what a Virtual I/O Server sees under a UDID, or None."""
    pool = of_server(host, vios)
    return pool.find(udid) if pool else None

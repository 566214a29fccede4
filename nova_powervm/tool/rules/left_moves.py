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

"""What moves have left on a host, and what an operator does about it.

Nova leaves the status of an interrupted migration as it is, and its
allocations of the source stay in Placement. Whether anybody needs them, the
server tells: as long as Nova is at it, its move is open. At rest, it needs
them if a hard reboot would take them. What is left then is not needed once no
LPAR has the slots.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import placement_tree

#: The page of the documentation that explains the steps.
PAGE = '"Stuck servers" in the documentation'
#: States in which Nova reboots a server hard.
_REBOOTABLE = ('ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED', 'ERROR')
_ERROR = 'ERROR'
#: The status of a server whose user has to confirm or revert its move.
AWAITS_USER = 'VERIFY_RESIZE'
_SOFT_DELETED = 'SOFT_DELETED'
# Migrations whose user has decided.
_ENDING = ('confirming', 'reverting')
# A server that boots from a volume has none; its flavor may have a size.
_DISK = 'DISK_GB'


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A migration from this host, as Nova's API shows it.

    :param uuid: Its uuid, which is a consumer in Placement.
    :param server: Uuid of the server; empty if it is deleted, and its
        migrations with it: Nova's API then tells no more of them.
    :param status: Its status, which does not tell whether it goes on.
    :param is_in_place: Whether it leads to the same host.
    :param is_last: Whether it is the server's last migration; it matters only
        if it is in place.
    """

    uuid: str
    server: str = ''
    status: str = ''
    is_in_place: bool = False
    is_last: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server, as Nova's API shows it.

    :param status: Its status, such as ``ACTIVE``.
    :param task: Its task state; None if Nova is not at it.
    :param host: Its host; None without one.
    :param wants: Resource class to the amount that its flavor requests.
    """

    status: str
    task: str | None
    host: str | None
    wants: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class SlotMove:
    """What a slot has to do with a move.

    :param state: The state of the slot in words.
    :param steps: Commands and instructions in their order, one per line; empty
        if there is nothing to do.
    """

    state: str
    steps: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """This host with what Placement holds of it.

    :param tree: What Placement holds, with the moves.
    :param io_slots: All slots.
    :param owners_known: False if a slot can have an owner that is not
        reported, or if the host itself was not asked.
    :param openstack: The command ``openstack`` for the cloud.
    """

    tree: placement_tree.Tree
    io_slots: Collection[slots.Slot]
    owners_known: bool = True
    openstack: str = 'openstack'

    def slots_of(self, consumer: str) -> frozenset[int]:
        """Return the DRC indexes of the slots that a consumer holds."""
        return frozenset(
            index
            for provider in self.tree.below
            if consumer in provider.consumers
            for index in provider.named_slots
        )

    def amounts_of(self, consumer: str) -> Mapping[str, int]:
        """Return what a consumer holds of this host, by resource class."""
        amounts: dict[str, int] = {}
        for provider in (self.tree.root, *self.tree.below):
            for name, amount in provider.consumers.get(consumer, {}).items():
                amounts[name] = amounts.get(name, 0) + amount
        return amounts

    def owned_by(self, lpar_uuid: str) -> frozenset[int]:
        """Return the DRC indexes of the slots that an LPAR owns."""
        return frozenset(
            slot.drc_index
            for slot in self.io_slots
            if slot.owner_lpar == lpar_uuid
        )


def find_unexplained(
    tree: placement_tree.Tree, io_slots: Iterable[slots.Slot]
) -> frozenset[str]:
    """Return the consumers of slots that their own LPARs do not have.

    They are migrations, or instances whose LPAR does not exist yet.
    """
    owners = {slot.drc_index: slot.owner_lpar for slot in io_slots}
    return frozenset(
        consumer
        for provider in tree.slot_providers
        for consumer in provider.consumers
        if owners.get(provider.drc_index or 0) != partition.lpar_uuid(consumer)
    )


def read_wants(flavor: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the amounts that a flavor requests, by resource class.

    Amounts that cannot be read are left out, as are disks.
    """
    wants = {'VCPU': flavor.get('vcpus', 0), 'MEMORY_MB': flavor.get('ram', 0)}
    # The unnumbered group replaces the sizes; the others add to it.
    groups = flavors.read_groups(flavor.get('extra_specs') or {})
    for group in sorted(groups, key=lambda group: group.suffix):
        for name, amount in group.resources.items():
            if amount.isdecimal():
                wants[name] = int(amount) + (
                    wants.get(name, 0) if group.suffix else 0
                )
    return wants


def judge_moves(
    host: Host,
    migrations: Mapping[str, Migration],
    servers: Mapping[str, Server | None],
) -> Mapping[int, SlotMove]:
    """Judge what moves have to do with the slots of a host.

    :param migrations: Those among the unexplained consumers that are
        migrations from this host, by uuid.
    :param servers: Uuid to server; None for one that Nova does not have.
    :returns: DRC index to finding, for slots that are allocated to a
        migration, or owned by an LPAR whose instance is on another host.
    """
    slot_moves: dict[int, SlotMove] = {}
    for move in _list_moves(host, servers, migrations):
        slot_moves |= dict.fromkeys(move.indexes, _judge(move))
    return slot_moves


def _list_moves(
    host: Host,
    servers: Mapping[str, Server | None],
    migrations: Mapping[str, Migration],
) -> Iterator['_Move']:
    """Yield what moves hold: LPARs first, then migrations in Placement."""
    for lpar_uuid, stale in host.tree.moves.stale_lpars.items():
        uuid = stale.instance_uuid
        yield _Move(host, uuid, servers[uuid], host.owned_by(lpar_uuid))
    for each in migrations.values():
        indexes = host.slots_of(each.uuid)
        server = servers[each.server] if each.server else None
        yield _Move(host, each.server, server, indexes, each)


def describe_silence(host: Host, problem: str) -> Mapping[int, SlotMove]:
    """Say of all slots that may be of a move that this is not known.

    :param problem: Why Nova's API has not answered.
    """
    slot_moves: dict[int, SlotMove] = {}
    steps = (f"delete nothing before Nova's API answers. {problem}",)
    for lpar_uuid in host.tree.moves.stale_lpars:
        state = 'Nova does not tell about its move'
        indexes = host.owned_by(lpar_uuid)
        slot_moves |= dict.fromkeys(indexes, SlotMove(state, steps))
    for consumer in find_unexplained(host.tree, host.io_slots):
        state = (
            f'allocated to {consumer}; Nova does not tell whether it is a move'
        )
        indexes = host.slots_of(consumer)
        slot_moves |= dict.fromkeys(indexes, SlotMove(state, steps))
    return slot_moves


@dataclasses.dataclass(frozen=True, slots=True)
class _Move:
    """One side of a move of a server.

    :param host: This host.
    :param uuid: Uuid of the server; empty if it is deleted.
    :param server: The server; None if Nova does not have it.
    :param indexes: DRC indexes of the slots that the migration holds or, if
        that holds none, that the LPAR owns.
    :param migration: The migration; None if it holds nothing here.
    """

    host: Host
    uuid: str
    server: Server | None
    indexes: Collection[int]
    migration: Migration | None = None

    @property
    def subject(self) -> str:
        """Say whose the slots are."""
        held = 'allocated to a move of' if self.migration else 'owned by'
        return f'{held} {self.who}'

    @property
    def who(self) -> str:
        """Name the server."""
        return f'server {self.uuid}' if self.uuid else 'a deleted server'

    @property
    def lpar_uuid(self) -> str | None:
        """Upper-case uuid of the server's LPAR; None if it is deleted."""
        return partition.lpar_uuid(self.uuid) if self.uuid else None

    @property
    def owned_slots(self) -> tuple[slots.Slot, ...]:
        """Those of the slots that a partition owns."""
        return tuple(
            slot
            for slot in self.host.io_slots
            if slot.owner and slot.drc_index in self.indexes
        )

    @property
    def is_here(self) -> bool:
        """Whether the server is recorded on this host."""
        return self.server is not None and (
            self.server.host == self.host.tree.node
        )

    @property
    def reboot(self) -> tuple[str, ...]:
        """The commands that reboot the server hard."""
        refused = self.server and (
            self.server.task or self.server.status not in _REBOOTABLE
        )
        allow = (
            f'{self.host.openstack} server set --auto-approve --state active '
            f'{self.uuid}'
        )
        return (
            *((allow,) if refused else ()),
            f'{self.host.openstack} server reboot --hard {self.uuid}',
        )


def _judge(move: _Move) -> SlotMove:
    """Judge a move by the first of the judges that knows."""
    judged = filter(None, (judge(move) for judge in _JUDGES))
    return next(judged, None) or _judge_rest(move)


def _judge_missing(move: _Move) -> SlotMove | None:
    """Judge a migration whose server Nova does not have."""
    if move.server or not move.uuid:
        return None
    return SlotMove(
        f'{move.subject}, which Nova does not have',
        (f'see {PAGE}, and keep the allocations',),
    )


def _judge_open(move: _Move) -> SlotMove | None:
    """Judge a move that Nova, or the user of its server, has not ended."""
    server = move.server
    if server is None:
        return None
    if server.status == _SOFT_DELETED:
        return SlotMove(f'{move.subject}, which is soft-deleted')
    if not server.task and server.status != AWAITS_USER:
        return None
    name = next(
        (
            slot.owner.name
            for slot in move.owned_slots
            if slot.owner and slot.owner_lpar == move.lpar_uuid
        ),
        None,
    )
    state = f'allocated to {name or f"server {move.uuid}"}, which moves'
    status = move.migration.status if move.migration else ''
    if not server.task and status not in _ENDING:
        return SlotMove(state)
    now = f'task {server.task}' if server.task else f'migration {status}'
    return SlotMove(
        state,
        (
            f'nothing, as long as Nova is at it ({now}); if it was '
            f'interrupted, as in {PAGE}:',
            *move.reboot,
        ),
    )


def _judge_need(move: _Move) -> SlotMove | None:
    """Judge a move whose allocations a hard reboot would take."""
    if not move.is_here:
        return None
    if move.migration is None:
        return SlotMove(
            f'{move.subject}, which has its allocations on another host',
            (f'see "If the server is recorded on the wrong host" in {PAGE}',),
        )
    if not move.host.amounts_of(move.uuid):
        return _needs_reboot(move)
    if not (move.migration.is_in_place and move.migration.is_last):
        return None
    return _judge_flavor(move, move.migration.uuid)


def _judge_flavor(move: _Move, migration: str) -> SlotMove | None:
    """Judge by the flavor whose allocations count after a resize in place.

    Nova's API does not tell which flavor a resize began with. What Placement
    has allocated for the one and for the other tells, where it differs.
    """
    wants = move.server.wants if move.server else {}
    old = move.host.amounts_of(migration)
    new = move.host.amounts_of(move.uuid)
    differing = {
        name
        for name in {*old, *new} - {_DISK}
        if old.get(name, 0) != new.get(name, 0)
    }
    is_old, is_new = (
        all(held.get(name, 0) == wants.get(name, 0) for name in differing)
        for held in (old, new)
    )
    if is_old == is_new:
        return SlotMove(
            f'{move.subject}, which may need a hard reboot',
            (
                *move.reboot,
                'if show says the same after the reboot, see '
                f'{PAGE}: keep the allocations until then',
            ),
        )
    return _needs_reboot(move) if is_old else None


def _needs_reboot(move: _Move) -> SlotMove:
    return SlotMove(f'{move.subject}, which needs a hard reboot', move.reboot)


def _judge_unknown_owners(move: _Move) -> SlotMove | None:
    """Judge a move on a host that does not tell who has its slots."""
    if move.host.owners_known:
        return None
    return SlotMove(
        f'{move.subject}; the host does not tell who has its slots',
        ('run the command on the host, without stored responses',),
    )


def _judge_owners(move: _Move) -> SlotMove | None:
    """Judge by the partition of this host that has the slots."""
    if not move.owned_slots:
        return None
    others = [
        slot for slot in move.owned_slots if slot.owner_lpar != move.lpar_uuid
    ]
    if others:
        return SlotMove(
            f'{move.subject}, but {others[0].owner} has slot '
            f'{slots.format_drc_index(others[0].drc_index)}',
            (
                f'find out what {others[0].owner} is, and take the slot from '
                'it, or keep the allocation',
            ),
        )
    if move.server and not move.is_here:
        return _judge_stale_lpar(move, move.server)
    return _needs_reboot(move)


def _judge_stale_lpar(move: _Move, server: Server) -> SlotMove:
    """Tell how to remove a stale LPAR."""
    owner = move.owned_slots[0].owner
    number = owner.partition_id if owner else None
    which = f'id={"<id>" if number is None else number}'
    removal = (
        f'pvmctl lpar power-off -i {which}  # unless it is off',
        f'pvmctl lpar delete -i {which}  # keep its disks',
        'restart nova-compute on this host',
    )
    failed = server.status == _ERROR
    where = server.host or 'its host'
    return SlotMove(
        f'{move.subject}, which is on {where}: its LPAR here is on the wrong '
        'side',
        (
            *(move.reboot if failed else ()),
            f'once server {move.uuid} runs on {where}:',
            *removal,
        ),
    )


def _judge_rest(move: _Move) -> SlotMove:
    """Say that what a migration holds is not needed."""
    if move.migration is None:
        return SlotMove(move.subject)
    return SlotMove(
        f'left over from a move of {move.who}',
        (
            f'{move.host.openstack} resource provider allocation delete '
            f'{move.migration.uuid}',
        ),
    )


#: Each returns None for a move of which it knows nothing.
_JUDGES: tuple[Callable[[_Move], SlotMove | None], ...] = (
    _judge_missing,
    _judge_open,
    _judge_need,
    _judge_unknown_owners,
    _judge_owners,
)

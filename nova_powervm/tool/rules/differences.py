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

"""Where the inventory file, the host and Placement do not agree."""

import dataclasses
import enum
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import names
from nova_powervm.devices import plan as plans
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree

_MENDS = {
    plans.Action.CREATE: 'makes',
    plans.Action.PUBLISH: 'corrects',
    plans.Action.KEEP_CLASS: 'corrects',
    plans.Action.QUARANTINE: 'keeps in quarantine',
    plans.Action.WITHDRAW: 'withdraws',
    plans.Action.DELETE: 'deletes',
}
_ACCOUNT = (
    'nothing, if Nova builds, moves or deletes the instance just now; else '
    'see "openstack server show {consumer}"'
)
_REPLACED = (
    'if this card was to be there, `nova-powervm-inventory restore {index} '
    '--new-card`; see "Replace a card" in the page on tasks on a host'
)


SlotMoves = Mapping[int, left_moves.SlotMove]


class Kind(enum.StrEnum):
    """What is wrong with a slot or a provider."""

    #: Offered by file and host, without a provider in Placement.
    MISSING = 'missing'
    #: A provider of ours whose slot is no longer offered.
    STALE = 'stale'
    #: A provider whose inventory or traits are not what they should be.
    CHANGED = 'changed'
    #: The card in a slot is not the one that the provider was made for.
    REPLACED = 'replaced'
    #: A provider below the node that this driver did not make.
    FOREIGN = 'foreign'
    #: An allocation without a device at its LPAR, or the other way round.
    LEAKED = 'leaked'
    #: A device that Nova's and Cyborg's files both give away.
    SHARED = 'shared'


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the file, the host and Placement.

    :param kind: What is wrong.
    :param words: The difference in words.
    :param cure: What to do about it.
    :param drc_index: The slot, if it is about one.
    :param name: Name of the provider, if there is one.
    """

    kind: Kind
    words: str
    cure: str
    drc_index: int | None = None
    name: str = ''


def compare(
    plan: plans.Plan,
    tree: placement_tree.Tree,
    io_slots: Collection[slots.Slot],
    lpar_uuids: Collection[str] | None,
    slot_moves: SlotMoves | None = None,
) -> tuple[Difference, ...]:
    """Find all differences between the plan, Placement and the host.

    What nova-compute does unasked is in the plan: after it has been carried
    out, nothing of the kinds missing, stale and changed is left.

    :param lpar_uuids: Upper-case uuids of the host's LPARs; None if unknown,
        and then no allocation is reported because its LPAR is missing.
    :param slot_moves: What moves have to do with slots, by DRC index.
    :returns: The differences, by kind and slot.
    """
    return sort_differences(
        [
            *_of_plan(plan, tree),
            *_foreign(plan, tree, io_slots),
            *_leaked(tree, io_slots, lpar_uuids, slot_moves or {}),
        ]
    )


def sort_differences(
    differences: Iterable[Difference],
) -> tuple[Difference, ...]:
    """Sort differences by kind, slot and provider."""
    order = list(Kind)
    return tuple(
        sorted(
            differences,
            key=lambda d: (order.index(d.kind), d.drc_index or 0, d.name),
        )
    )


# What the plan would change


def _of_plan(
    plan: plans.Plan, tree: placement_tree.Tree
) -> Iterator[Difference]:
    there = {provider.uuid: provider for provider in tree.children}
    elsewhere = {p.name for p in tree.below} - {
        provider.name for provider in tree.children
    }
    for entry in plan.entries:
        if entry.uuid is None:
            if entry.name not in elsewhere:
                words = (
                    f'offered as {", ".join(entry.resource_classes)}, but '
                    'Placement has no provider of it'
                )
                missing = _planned(Kind.MISSING, entry, words)
                yield dataclasses.replace(missing, name='')
            continue
        if entry.replacement:
            words = f'the ids of another card: {entry.replacement}'
            index = slots.format_drc_index(entry.drc_index)
            yield dataclasses.replace(
                _planned(Kind.REPLACED, entry, words),
                cure=_REPLACED.format(index=index),
            )
        changes = '; '.join(_changes(entry, there[entry.uuid]))
        if entry.action is plans.Action.DELETE:
            yield _planned(Kind.STALE, entry, f'{entry.reason}; free')
        elif changes and entry.action is plans.Action.WITHDRAW:
            yield _planned(Kind.STALE, entry, f'{entry.reason}: {changes}')
        elif changes:
            yield _planned(Kind.CHANGED, entry, changes)


def _planned(kind: Kind, entry: plans.Entry, words: str) -> Difference:
    return Difference(kind, words, _cure(entry), entry.drc_index, entry.name)


def _cure(entry: plans.Entry) -> str:
    if entry.action is plans.Action.WITHDRAW and entry.consumers:
        holders = ', '.join(entry.consumers)
        return (
            f'it is allocated to {holders}: give the slot back to the host, '
            'or delete the instance'
        )
    return (
        f'nova-compute {_MENDS[entry.action]} it in its next update; if not, '
        'its log says why'
    )


def _changes(
    entry: plans.Entry, provider: slot_providers.Provider
) -> Iterator[str]:
    """Say how a provider differs from what it should be."""
    for name in sorted(set(provider.inventory) - set(entry.inventory)):
        yield f'has inventory of {name}'
    for name, wanted in sorted(entry.inventory.items()):
        record = provider.inventory.get(name)
        if record is None:
            yield f'lacks inventory of {name}'
            continue
        # Of a device with its one unit to give, the rest is not read.
        for key in sorted(wanted.keys() & record.keys()):
            if record[key] != wanted[key]:
                yield f'{name} {key} is {record[key]}, should be {wanted[key]}'
    yield from compare_traits(provider.traits, entry.traits)


def compare_traits(
    there: frozenset[str], wanted: frozenset[str]
) -> Iterator[str]:
    """Say how traits differ from those that should be there."""
    if lacking := sorted(wanted - there):
        yield f'lacks {", ".join(lacking)}'
    if surplus := sorted(there - wanted):
        yield f'has {", ".join(surplus)}'


# Providers of others


def _foreign(
    plan: plans.Plan,
    tree: placement_tree.Tree,
    io_slots: Iterable[slots.Slot],
) -> Iterator[Difference]:
    ours = {p.uuid for p in tree.slot_providers}
    offered = {rc for e in plan.entries for rc in e.resource_classes}
    claimed = _claimed(plan)
    indexes = [slot.drc_index for slot in io_slots]
    for other in tree.below:
        index = next((i for i in indexes if _stands_for(other, i)), None)
        is_cyborgs = names.slot_of_cyborg_provider(other.name) is not None
        if other.uuid in ours or (index not in claimed and is_cyborgs):
            continue
        if judged := _judge_foreign(other, index, offered):
            yield Difference(Kind.FOREIGN, *judged, index, other.name)


def _claimed(plan: plans.Plan) -> frozenset[int]:
    """Return the slots that Nova has a provider for, or would have."""
    return frozenset(entry.drc_index for entry in plan.entries) | {
        verdict.slot.drc_index
        for verdict in plan.verdicts
        if verdict.paragraphs and not verdict.denials
    }


def _judge_foreign(
    other: placement_tree.Provider, index: int | None, offered: Collection[str]
) -> tuple[str, str] | None:
    """Say what a provider of others is, and what to do if it does harm.

    :returns: None if it harms nothing.
    """
    owner = (
        'of Cyborg'
        if os_traits.OWNER_CYBORG in other.traits
        else 'not made by this driver'
    )
    if other.drc_index is not None:
        return (
            'has the name of a slot, but is no direct child of the node',
            'delete or rename it in Placement: it keeps the slot from being '
            'offered',
        )
    if index is not None:
        return (
            f'{owner}, for the same slot',
            'let one service manage the device: deny it in the inventory '
            "file, or take it out of the other's configuration",
        )
    shared = sorted(set(other.inventory) & set(offered))
    if shared and names.OWNER_TRAIT not in other.traits:
        return (
            f'{owner}, with the class {", ".join(shared)} of slots',
            f'put traitN:{names.OWNER_TRAIT}=required into each group of '
            'the flavors ("flavor lint" finds those without)',
        )
    return None


def _stands_for(other: placement_tree.Provider, index: int) -> bool:
    """Whether a provider of others says that it is a slot of this host."""
    drc = slots.format_drc_index(index)
    trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{drc}'
    words = other.name.replace('_', ' ').replace('-', ' ').upper().split()
    return trait in other.traits or drc in words or f'0X{drc}' in words


# Allocations and what LPARs hold


def _leaked(
    tree: placement_tree.Tree,
    io_slots: Iterable[slots.Slot],
    lpar_uuids: Collection[str] | None,
    slot_moves: SlotMoves,
) -> Iterator[Difference]:
    by_index = {slot.drc_index: slot for slot in io_slots}
    for provider in tree.slot_providers:
        index = provider.drc_index or 0
        move = slot_moves.get(index)
        if move and not move.steps:
            # Nova waits for a user: the migration needs what it holds.
            continue
        for consumer in sorted(provider.consumers):
            lpar_uuid = tree.lpar_of(consumer)
            if words := _unheld(
                consumer, lpar_uuid, by_index.get(index), lpar_uuids
            ):
                yield Difference(
                    kind=Kind.LEAKED,
                    words=words,
                    cure=_cure_of_move(move)
                    or _ACCOUNT.format(consumer=consumer)
                    + '; if there is no such server, "openstack resource '
                    f'provider allocation delete {consumer}"',
                    drc_index=provider.drc_index,
                    name=provider.name,
                )
    yield from _unallocated(tree, by_index, slot_moves)


def _cure_of_move(move: left_moves.SlotMove | None) -> str:
    if move is None or not move.steps:
        return ''
    return f'{move.state}: {"; ".join(move.steps)}'


def _unheld(
    consumer: str,
    lpar_uuid: str,
    slot: slots.Slot | None,
    lpar_uuids: Collection[str] | None,
) -> str:
    """Say why a consumer does not have its slot; empty if it has."""
    if slot and slot.owner and slot.owner.uuid == lpar_uuid:
        return ''
    if lpar_uuids is not None and lpar_uuid not in lpar_uuids:
        return f'allocated to {consumer}, which has no LPAR on this host'
    if slot is None:
        # That the slot is gone is said of its provider already.
        return ''
    holder = f'is owned by {slot.owner}' if slot.owner else 'is free'
    return f'allocated to {consumer}, but the slot {holder}'


def _unallocated(
    tree: placement_tree.Tree,
    by_index: Mapping[int, slots.Slot],
    slot_moves: SlotMoves,
) -> Iterator[Difference]:
    """Find the slots that LPARs of instances hold without an allocation."""
    for slot in by_index.values():
        lpar_uuid = slot.owner_lpar or ''
        stale = tree.moves.stale_lpars.get(lpar_uuid)
        consumer = tree.instance_lpars.get(lpar_uuid)
        if consumer is None and stale is None:
            continue
        standing = [
            provider
            for provider in tree.below
            if provider.drc_index == slot.drc_index
            or _stands_for(provider, slot.drc_index)
        ]
        if any(tree.is_held(provider, lpar_uuid) for provider in standing):
            continue
        account = _ACCOUNT.format(consumer=consumer)
        words = (
            f'held by {slot.owner} of instance {consumer}, which was not '
            'allocated it'
        )
        cure = '; if it is a leftover, take the slot from the LPAR with pvmctl'
        if stale:
            account = _ACCOUNT.format(consumer=stale.instance_uuid)
            words = (
                f'held by {slot.owner}, whose instance {stale.instance_uuid} '
                f'is on {stale.host}'
            )
            cure = (
                '; if the server is well there, delete the LPAR with pvmctl, '
                'but not its disks'
            )
        yield Difference(
            kind=Kind.LEAKED,
            words=words,
            cure=_cure_of_move(slot_moves.get(slot.drc_index))
            or account + cure,
            drc_index=slot.drc_index,
            name=standing[0].name if standing else '',
        )

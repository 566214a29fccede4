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

"""Moves, as far as Placement tells of them.

While an instance moves, its allocations on the source belong to the migration,
and its LPAR there keeps its slots. Placement does not say what a consumer is:
Nova gives a migration the project and the user of its instance, and it has no
LPAR of its own.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.tool.rules import placement_tree


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of allocations.

    :param uuid: Its uuid.
    :param owner: Its project and user.
    :param providers: Uuids of the providers that it has allocations of.
    """

    uuid: str
    owner: tuple[str, str]
    providers: frozenset[str]


#: Reads a consumer from Placement; None if it has no allocations.
Read = Callable[[str], Consumer | None]


def find_moves(
    tree: placement_tree.Tree,
    host_slots: Collection[slots.Slot],
    read: Read,
    node_of: Callable[[str], str],
) -> placement_tree.Moves:
    """Find the moves of the LPARs that own slots.

    Placement is asked only about LPARs that own a slot which is not allocated
    to their instances.
    """
    migrations: dict[str, str] = {}
    stale: dict[str, slot_providers.StaleLpar] = {}
    lpar_uuids = {slot.owner_lpar for slot in host_slots}
    for lpar_uuid, holders in _find_others(tree, host_slots).items():
        instance = _read_instance(tree, lpar_uuid, read)
        if instance is None:
            continue
        found = {
            holder: lpar_uuid
            for holder in sorted(holders)
            if partition.lpar_uuid(holder) not in lpar_uuids
            and (consumer := read(holder))
            and consumer.owner == instance.owner
        }
        migrations |= found
        if not found and lpar_uuid not in tree.instance_lpars:
            stale[lpar_uuid] = slot_providers.StaleLpar(
                instance.uuid, node_of(min(instance.providers))
            )
    return placement_tree.Moves(migrations, stale)


def _find_others(
    tree: placement_tree.Tree, host_slots: Iterable[slots.Slot]
) -> Mapping[str, frozenset[str]]:
    """Find the LPARs that own slots without an allocation of their instances.

    :returns: Upper-case uuid of the LPAR to the consumers of its slots.
    """
    found: dict[str, frozenset[str]] = {}
    for slot in host_slots:
        lpar_uuid = slot.owner_lpar
        if lpar_uuid and slot.owner and slot.owner.kind is _CLIENT:
            holders = frozenset(_holders(tree, slot.drc_index))
            if lpar_uuid not in map(partition.lpar_uuid, holders):
                found[lpar_uuid] = found.get(lpar_uuid, frozenset()) | holders
    return found


def _holders(tree: placement_tree.Tree, index: int) -> Iterator[str]:
    """Yield the consumers of the providers of a slot, whoever made them."""
    for provider in tree.below:
        if index in slot_providers.slots_named_by(
            provider.name, provider.traits
        ):
            yield from provider.consumers


def _read_instance(
    tree: placement_tree.Tree, lpar_uuid: str, read: Read
) -> Consumer | None:
    """Read the consumer that an LPAR of any host belongs to."""
    known = tree.instance_lpars.get(lpar_uuid)
    candidates = (known,) if known else partition.instance_uuids(lpar_uuid)
    answers = map(read, candidates)
    return next((answer for answer in answers if answer), None)


_CLIENT = slots.PartitionKind.CLIENT

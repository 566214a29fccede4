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

"""Nova's provider tree as the last plan left it.

Nova hands over a new copy of the tree in each cycle. If that is what the last
plan made of it, and what the plan was made of is the same, there is nothing
to plan.
"""

import dataclasses
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import claims
from nova_powervm.devices import planned
from nova_powervm.devices import slot_providers
from nova_powervm.virt.provider_tree import tree as trees


@dataclasses.dataclass(frozen=True, slots=True)
class _Ours:
    """What a slot's provider holds once it was written."""

    uuid: str
    inventory: slot_providers.Inventory
    traits: frozenset[str]
    resources: trees.Resources


@dataclasses.dataclass(frozen=True, slots=True)
class _Picture:
    """One tree, with what its plan was made of."""

    basis: Sequence[object]
    uuids: frozenset[str]
    root_inventory: slot_providers.Inventory
    ours: Sequence[_Ours]
    # Cyborg's are told by a trait.
    strangers: Mapping[str, frozenset[str]]
    made_at: float


class SettledTree:
    """Remembers a tree that needs no more changes.

    :param seconds: For how long it is remembered. A provider that was given
        another name, and options of Nova that were changed while it runs, are
        not noticed before.
    :param clock: Gives seconds that only grow.
    """

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._picture: _Picture | None = None

    def restore(
        self, tree: Any, nodename: str, basis: Sequence[object]
    ) -> bool:
        """Bring a tree up to date if that takes no planning.

        :param tree: Nova's ProviderTree.
        :param nodename: Name of the compute node's provider.
        :param basis: What a plan would be made of; compared by identity.
        :returns: Whether nothing is left to do.
        """
        picture = self._picture
        # Through the tree's methods each step for each provider would look it
        # up and take the lock again, which is most of the time of a cycle.
        with tree.lock:
            root = tree.roots_by_name[nodename]
            nodes = dict(_walk(root))
            if (
                picture is None
                or self._clock() - picture.made_at >= self._seconds
                or not _same(picture.basis, basis)
                or picture.uuids != nodes.keys()
                or root.has_inventory_changed(picture.root_inventory)
                or _differs(nodes, picture)
            ):
                self._picture = None
                return False
            for provider in picture.ours:
                # Nova's copy never has them. It would copy them once more, but
                # nobody changes them.
                nodes[provider.uuid].resources = provider.resources
        return True

    def remember(
        self,
        tree: Any,
        nodename: str,
        basis: Sequence[object],
        plan: planned.Plan,
        providers: Mapping[str, claims.SlotProvider],
    ) -> None:
        """Keep a tree to which a plan was applied, if it can be kept.

        :param tree: As for :meth:`restore`, and so are the next two.
        :param plan: What was applied.
        :param providers: What :func:`nova_powervm.virt.provider_tree.tree.apply` gave.
        """
        entries = {entry.drc_index: entry for entry in plan.entries}
        if not plan.settled or not (
            len(entries) == len(plan.entries) == len(providers)
        ):
            self._picture = None
            return
        uuids = frozenset(tree.get_provider_uuids(nodename))
        root = tree.data(nodename)
        strangers = uuids - set(providers) - {root.uuid}
        self._picture = _Picture(
            basis=tuple(basis),
            uuids=uuids,
            root_inventory=root.inventory,
            ours=tuple(
                _ours(uuid, entries[provider.drc_index])
                for uuid, provider in providers.items()
            ),
            strangers={
                uuid: frozenset(tree.data(uuid).traits) for uuid in strangers
            },
            made_at=self._clock(),
        )


def _ours(uuid: str, entry: planned.Entry) -> _Ours:
    return _Ours(
        uuid, entry.inventory, entry.traits, trees.resources(uuid, entry)
    )


def _same(some: Sequence[object], others: Sequence[object]) -> bool:
    return [id(item) for item in some] == [id(item) for item in others]


def _walk(node: Any) -> Iterator[tuple[str, Any]]:
    yield node.uuid, node
    for child in node.children.values():
        yield from _walk(child)


def _differs(nodes: Mapping[str, Any], picture: _Picture) -> bool:
    for provider in picture.ours:
        node = nodes[provider.uuid]
        # What is equal as it stands need not be compared as Nova does it.
        if node.traits != provider.traits or (
            node.inventory != provider.inventory
            and node.has_inventory_changed(provider.inventory)
        ):
            return True
    return any(
        nodes[uuid].traits != traits
        for uuid, traits in picture.strangers.items()
    )

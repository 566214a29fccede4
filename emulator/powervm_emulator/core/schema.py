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

"""Checking the documents of clients against the tables of elements."""

import collections
import functools
from collections.abc import Sequence

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors

Element = content.Element
# What captures have below elements of which the tables know nothing.
_ANY = ('Metadata',)
# What has no version in captures, beside lists: links, and choices.
_WITHOUT_VERSION = frozenset(
    (
        'AssociatedVirtualSwitch',
        'BackingDeviceChoice',
        'EncryptionAgent',
        'IOAdapterChoice',
        'PartitionProfiles',
        'ProfileVirtualIOAdapterSubclass',
        'RelatedIOAdapter',
        'Storage',
        'TargetDevice',
    )
)


def check(element: Element, old: Element | None = None) -> None:
    """Refuse an element with unknown, misplaced or repeated ones in it.

    :param old: what it is to replace. A host takes back what it has served,
        and that of a newer host has elements that the tables do not have.
    :raises errors.BadDocument: it has one, at any depth.
    """
    schema = _Schema()
    try:
        schema.check(element)
    except errors.BadDocument:
        if old is None:
            raise
    else:
        return
    schema.learn(old)
    schema.check(element)


class _Schema:
    """The tables of elements, and what was learned of a document."""

    def __init__(self) -> None:
        self._orders: dict[str, list[str]] = {}
        self._repeated: set[tuple[str, str]] = set()

    def learn(self, element: Element) -> None:
        """Add the places of all elements of a document."""
        for parent in element.iter(etree.Element):
            kind = content.local_name(parent)
            names = [content.local_name(child) for child in parent]
            self._learn_places(kind, names)
            self._repeated.update(
                (kind, name)
                for name, count in collections.Counter(names).items()
                if count > 1
            )

    def _learn_places(self, kind: str, names: Sequence[str]) -> None:
        order = self._orders.setdefault(kind, list(_known(kind)))
        place = 0
        for name in names:
            if name not in order[place:]:
                order.insert(place + 1, name)
            place = order.index(name, place)

    def check(self, element: Element) -> None:
        """Refuse what has no place.

        :raises errors.BadDocument: it is not known, not there, or of no
            version of the schema.
        """
        kind = content.local_name(element)
        namespace = content.namespace_of(element)
        lacks_version = len(element) and not element.get('schemaVersion')
        if (
            lacks_version
            and namespace == content.UOM_NS
            and _has_version(kind)
        ):
            raise errors.BadDocument(
                f'The element {kind} has no attribute schemaVersion.'
            )
        seen: list[str] = []
        place = 0
        for child in element:
            name = content.local_name(child)
            if content.namespace_of(child) != namespace:
                raise errors.BadDocument(
                    f'{kind} has no element {name} of the namespace '
                    f'{content.namespace_of(child) or "none"}.'
                )
            place = self._place(kind, name, place, seen)
            seen.append(name)
            self.check(child)

    def _place(self, kind: str, name: str, place: int, seen: list[str]) -> int:
        """Return the place of a child in the order of its parent.

        :param kind: the name of the parent.
        :param place: of the child before it.
        :param seen: the names of all before it.
        :raises errors.BadDocument: it has none, or none from there on.
        """
        order = self._orders.get(kind) or _known(kind)
        if name not in order:
            raise errors.BadDocument(f'{kind} has no element {name}.')
        if name in seen and not self._repeats(kind, name):
            raise errors.BadDocument(f'{name} is in {kind} more than once.')
        if name not in order[place:]:
            raise errors.BadDocument(
                f'{name} is in {kind} after {seen[-1]}, and must be before it.'
            )
        return order.index(name, place)

    def _repeats(self, kind: str, name: str) -> bool:
        child = elements.CHILDREN.get(kind, {}).get(name)
        known = child is not None and child.repeats
        return known or (kind, name) in self._repeated


def _known(kind: str) -> Sequence[str]:
    return elements.ORDERS.get(kind, _ANY)


@functools.lru_cache(maxsize=10_000)
def _has_version(kind: str) -> bool:
    """Whether elements of a kind always say of which version they are.

    pypowervm makes lists without one.
    """
    children = elements.CHILDREN.get(kind, {}).values()
    if not children or any(child.repeats for child in children):
        return False
    return kind not in _WITHOUT_VERSION

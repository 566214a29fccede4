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

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors

Element = content.Element
# What captures have below elements of which the tables know nothing.
_ANY = ('Metadata',)


def check(element: Element) -> None:
    """Refuse an element with unknown, misplaced or repeated ones in it.

    :raises errors.BadRequest: it has one, at any depth.
    """
    kind = content.local_name(element)
    namespace = content.namespace_of(element)
    seen: list[str] = []
    place = 0
    for child in element:
        name = content.local_name(child)
        if content.namespace_of(child) != namespace:
            raise errors.BadRequest(
                f'{kind} has no element {name} of the namespace '
                f'{content.namespace_of(child) or "none"}.'
            )
        place = _place(kind, name, place, seen)
        seen.append(name)
        check(child)


def _place(kind: str, name: str, place: int, seen: list[str]) -> int:
    """Return the place of a child in the order of its parent.

    :param kind: the name of the parent.
    :param place: of the child before it.
    :param seen: the names of all before it.
    :raises errors.BadRequest: it has none, or none from there on.
    """
    order = elements.ORDERS.get(kind, _ANY)
    if name not in order:
        raise errors.BadRequest(f'{kind} has no element {name}.')
    child = elements.CHILDREN.get(kind, {}).get(name)
    if name in seen and not (child and child.repeats):
        raise errors.BadRequest(f'{name} is in {kind} more than once.')
    if name not in order[place:]:
        raise errors.BadRequest(
            f'{name} is in {kind} after {seen[-1]}, and must be before it.'
        )
    return order.index(name, place)

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

"""The elements of documents, as the tables in ``elements`` have them.

A table has the name of an element in the first column of a line (or of several
that are alike), and below it a line for each of its children, in the order of
K2's schema::

    SharedProcessorConfiguration
      UncappedWeight CUD 0-255 = 128

The words of a child are its name, with ``*`` if it can be repeated; ``kb``,
the mark of who may set it, or ``-`` if it has none; the type that values from
clients are checked for; and the value that the emulator gives it unless
somebody says something else. ``kb`` ends with ``!`` if the other mark,
``kxe``, is true. A line with a name alone is another place where the child
is accepted: hosts and pypowervm do not always agree.

Types are ``boolean``, ``integer`` and ``number``, none of them negative; the
first and the last of some whole numbers, as above; and values that are
possible, with ``|`` between them.
"""

import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Iterator
from collections.abc import Mapping

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import errors

_TABLES = importlib.resources.files('powervm_emulator') / 'elements'
_NUMBER = re.compile(r'[0-9]{1,12}(\.[0-9]{1,12})?')
_RANGE = re.compile('([0-9]+)-([0-9]+)')
_SERVER_ATTRIBUTES = ('group', 'kb', 'ksv', 'kxe', 'schemaVersion')


@dataclasses.dataclass(frozen=True)
class Child:
    """An element that another one can have.

    :ivar kb: the mark of who may set it: nobody but the host if it begins
        with RO, and clients only at creation with CO. Empty without mark.
    :ivar kxe: the other mark.
    :ivar type: of its value; empty for any.
    :ivar default: its value if nobody has said anything; None for none.
    """

    name: str
    kb: str = ''
    kxe: str = 'false'
    type: str = ''
    default: str | None = None
    repeats: bool = False

    def is_fixed(self, new: bool) -> bool:
        """Whether clients cannot set it, in a new resource or later."""
        return self.kb.startswith('RO' if new else ('RO', 'CO'))

    @property
    def what(self) -> str:
        """Its type in words."""
        if self.type in {'integer', 'number'}:
            return 'a number'
        if limits := _RANGE.fullmatch(self.type):
            return ' to '.join(limits.groups())
        return self.type.replace('boolean', 'true|false').replace('|', ' or ')

    def is_possible(self, text: str) -> bool:
        """Whether a text is of its type."""
        if self.type == 'integer':
            return content.is_whole(text)
        if self.type == 'number':
            return _NUMBER.fullmatch(text) is not None
        if limits := _RANGE.fullmatch(self.type):
            least, most = map(int, limits.groups())
            return content.is_whole(text) and least <= int(text) <= most
        return text in self.type.replace('boolean', 'true|false').split('|')


def _child(line: str) -> Child:
    words, equals, default = line.partition(' = ')
    name, kb, *type_ = words.split(maxsplit=2)
    return Child(
        name.removesuffix('*'),
        kb.strip('-!'),
        'true' if kb.endswith('!') else 'false',
        ''.join(type_),
        default.strip() if equals else None,
        name.endswith('*'),
    )


def _lines() -> Iterator[tuple[str, str]]:
    """Yield each line of the tables that has a child, after its parent."""
    for table in sorted(_TABLES.iterdir(), key=lambda file: file.name):
        parents: list[str] = []
        for line in table.read_text().splitlines():
            if line.startswith(' '):
                yield from ((parent, line) for parent in parents)
            elif line and not line.startswith('#'):
                parents = line.split()


def _read() -> tuple[dict[str, dict[str, Child]], dict[str, tuple[str, ...]]]:
    children: dict[str, dict[str, Child]] = {}
    orders = {'Metadata': ('Atom',), 'Atom': ('AtomID', 'AtomCreated')}
    for parent, line in _lines():
        name = line.split()[0].removesuffix('*')
        order = orders.get(parent, ('Metadata',))
        orders[parent] = (*order, name)
        if line.strip() != name:
            children.setdefault(parent, {})[name] = _child(line)
    return children, orders


#: Element name to its children, by name and in their order.
CHILDREN: Mapping[str, Mapping[str, Child]]
#: Element name to the names that its children have, in order. A name that
#: comes twice is accepted at both places.
ORDERS: content.Orders
CHILDREN, ORDERS = _read()


def mark(element: content.Element) -> None:
    """Give the elements below one the marks that clients of a host see."""
    marked = _marked_children(content.local_name(element))
    for node in element:
        child = marked.get(content.local_name(node))
        if child is not None and not node.get('kb'):
            node.set('kb', child.kb)
            node.set('kxe', child.kxe)
        if len(node):
            mark(node)


@functools.lru_cache(maxsize=10_000)
def _marked_children(name: str) -> Mapping[str, Child]:
    """Return the children with marks that an element can have, by name."""
    known = CHILDREN.get(name, {})
    return {child.name: child for child in known.values() if child.kb}


def sort(element: content.Element) -> None:
    """Put the children of an element into their order; unknown ones last.

    Clients that insert an element rely on the ones that are there being in
    order.
    """
    ranks = _ranks(content.local_name(element))
    children = list(element)
    found = [
        ranks.get(child.tag.rpartition('}')[2], len(ranks))
        for child in children
    ]
    if found != sorted(found):
        order = sorted(range(len(found)), key=found.__getitem__)
        element.extend([children[number] for number in order])


@functools.cache
def _ranks(name: str) -> Mapping[str, int]:
    """Return the places of the children that an element can have."""
    order = ('Metadata', *CHILDREN[name])
    return {child: number for number, child in enumerate(order)}


def fill(element: content.Element) -> None:
    """Give an element the values that nobody has said anything about."""
    content.put_defaults(element, _defaults(content.local_name(element)))


@functools.cache
def _defaults(name: str) -> Mapping[str, str]:
    return {
        child.name: child.default
        for child in CHILDREN[name].values()
        if child.default is not None
    }


def restore(
    element: content.Element, old: content.Element | None = None
) -> None:
    """Undo what a client has posted of what it cannot set.

    :param old: what the element is to replace; None if it is new.
    """
    for child in CHILDREN[content.local_name(element)].values():
        if child.is_fixed(new=old is None):
            content.remove(element, [child.name])
            found = None if old is None else content.find(old, child.name)
            if found is not None:
                element.append(content.copy(found))


def check_values(
    element: content.Element, old: content.Element | None = None
) -> None:
    """Check that the values a client has posted are of their types.

    :param old: what the element is to replace; its values are not refused.
    :raises errors.BadDocument: one is not, at any depth.
    """
    wrong = [value for value in _values(element) if not value.is_possible]
    present = set(_values(old)) if wrong and old is not None else set()
    for value in wrong:
        if value not in present:
            raise errors.BadDocument(
                f'{value.text!r} is not {value.child.what} for '
                f'{value.child.name} of {value.parent}.'
            )


@dataclasses.dataclass(frozen=True)
class _Value:
    """A value in a document, of an element that has a type."""

    parent: str
    child: Child
    text: str

    @property
    def is_possible(self) -> bool:
        return self.child.is_possible(self.text)


def _values(element: content.Element) -> Iterator[_Value]:
    """Yield each value below an element that has to be of a type."""
    for parent in element.iter(etree.Element):
        name = content.local_name(parent)
        typed = _typed_children(name)
        for node in parent if typed else ():
            child = typed.get(content.local_name(node))
            if child is not None:
                yield _Value(name, child, str(node.text or '').strip())


@functools.lru_cache(maxsize=10_000)
def _typed_children(name: str) -> Mapping[str, Child]:
    """Return the children with types that an element can have, by name."""
    known = CHILDREN.get(name, {})
    return {child.name: child for child in known.values() if child.type}


def keep_marks(
    element: content.Element, old: content.Element | None = None
) -> None:
    """Undo what a client has posted of the attributes that servers set.

    :param old: what the element is to replace; None if it is new.
    """
    for name in _SERVER_ATTRIBUTES:
        element.attrib.pop(name, None)
        value = None if old is None else old.get(name)
        if value is not None:
            element.set(name, value)
    if old is None and content.find(element, 'Metadata') is not None:
        element.set('schemaVersion', content.SCHEMA_VERSION)
    # The members of a list have the same marks.
    replaced = (
        {content.local_name(child): child for child in reversed(old)}
        if old is not None
        else {}
    )
    for child in element:
        keep_marks(child, replaced.get(content.local_name(child)))

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

A table has the name of an element in the first column of a line, and below it
a line for each of its children, in the order of K2's schema::

    SharedProcessorConfiguration
      UncappedWeight CUD integer = 128

The words of a child are its name, with ``*`` if it can be repeated; ``kb``,
the mark of who may set it, or ``-`` if it has none; the type of its value,
text if there is none; and the value that the emulator gives it unless
somebody says something else. ``kb`` ends with ``!`` if the other mark,
``kxe``, is true. A line with a name alone is another place where the child
is accepted: hosts and pypowervm do not always agree.
"""

import dataclasses
import importlib.resources
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.emulator.core import content

_TABLES = importlib.resources.files('nova_powervm.emulator') / 'elements'


@dataclasses.dataclass(frozen=True)
class Child:
    """An element that another one can have.

    :ivar kb: the mark of who may set it: nobody but the host if it begins
        with RO, and clients only at creation with CO. Empty without mark.
    :ivar kxe: the other mark.
    :ivar type: of its value; empty for text.
    :ivar default: its value if nobody has said anything; None for none.
    """

    name: str
    kb: str = ''
    kxe: str = 'false'
    type: str = ''
    default: str | None = None
    repeats: bool = False


def _child(line: str) -> Child:
    words, equals, default = line.partition(' = ')
    name, kb, *type_ = words.split()
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
        parent = ''
        for line in table.read_text().splitlines():
            if line.startswith(' '):
                yield parent, line
            elif line and not line.startswith('#'):
                parent = line


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


def sort(element: content.Element) -> None:
    """Put the children of an element into their order; unknown ones last.

    Clients that insert an element rely on the ones that are there being in
    order.
    """
    order = ('Metadata', *CHILDREN[content.local_name(element)])
    content.sort_children(element, order)

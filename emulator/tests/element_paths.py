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

"""Which elements documents have and in what order, and how two sets differ.

A path is the local names from below the root, joined by a slash. Equal
siblings, as in a list, have the same path.
"""

import collections
import dataclasses
import itertools

from lxml import etree


class Shape:
    """The element paths of documents, and the order of siblings.

    :ivar paths: each path once, in the order of the documents.
    :ivar pairs: by path of a parent, each (first, second) of which all
        elements stand in this order below one such parent.
    """

    def __init__(self, roots):
        self.paths = {}
        self.pairs = collections.defaultdict(set)
        for root in roots:
            self._add('', root)

    def _add(self, path, element):
        children = list(element.iterchildren(etree.Element))
        names = [etree.QName(child).localname for child in children]
        self.pairs[path] |= pairs_of(names)
        for name, child in zip(names, children, strict=True):
            self.paths[join(path, name)] = None
            self._add(join(path, name), child)


@dataclasses.dataclass(frozen=True)
class Swap:
    """Two siblings in another order than in the captures.

    :ivar first: what is first in the captures, and second here.
    """

    parent: str
    first: str
    second: str


class Comparison:
    """What is expected of documents, and what they have.

    :param preferred: the captures whose order counts where captures differ.
    :param captured: all captures, with the preferred ones.
    """

    def __init__(self, preferred, captured, served):
        self.preferred = preferred
        self.captured = captured
        self.served = served

    def expected(self):
        """Return each captured path, parents first and siblings in order."""
        return list(self._below(''))

    def absent(self):
        """Return the expected paths that are not served."""
        return [
            path for path in self.expected() if path not in self.served.paths
        ]

    def absent_roots(self):
        """Return the absent paths whose parents are served."""
        return [
            path for path in self.absent() if self._is_served(parent_of(path))
        ]

    def swaps(self):
        """Return the pairs of served siblings that are out of order."""
        return [
            Swap(parent, first, second)
            for parent in ['', *self.expected()]
            for first, second in sorted(self.required(parent))
            if (second, first) in self.served.pairs.get(parent, ())
        ]

    def required(self, parent):
        """Return the pairs of children of a path that captures agree on."""
        best = self.preferred.pairs.get(parent, set())
        found = best | {
            pair
            for pair in self.captured.pairs.get(parent, ())
            if pair[::-1] not in best
        }
        return {pair for pair in found if pair[::-1] not in found}

    def _is_served(self, path):
        return not path or path in self.served.paths

    def _below(self, parent):
        names = [
            path.rpartition('/')[2]
            for path in self.captured.paths
            if parent_of(path) == parent
        ]
        for name in in_order(names, self.required(parent)):
            path = join(parent, name)
            yield path
            yield from self._below(path)


def pairs_of(names):
    """Return each (first, second) of which no second is before a first."""
    last = {name: place for place, name in enumerate(names)}
    return {
        (first, second)
        for second, place in reversed(
            [(name, names.index(name)) for name in last]
        )
        for first in last
        if last[first] < place
    }


def in_order(names, pairs):
    """Sort names so that pairs are in order, as far as that is possible."""
    left = list(names)
    while left:
        free = (
            name
            for name in left
            if not any((other, name) in pairs for other in left)
        )
        chosen = next(itertools.chain(free, left))
        left.remove(chosen)
        yield chosen


def join(parent, name):
    """Return the path of a child."""
    return f'{parent}/{name}' if parent else name


def parent_of(path):
    """Return the path of the parent, which is empty for the root."""
    return path.rpartition('/')[0]

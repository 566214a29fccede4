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

"""Finding the paragraphs that identify a slot without trying each of them.

:meth:`.policy.Paragraph.identifies` is the definition; this gives the same.
"""

import dataclasses
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

_Values = tuple[str | None, ...]
#: A paragraph's place in the file and its patterns, in the group's order.
_Candidate = tuple[int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """Paragraphs with the same keys.

    :param exact: Gives what a slot has for the keys whose values have no
        wildcards, to be looked up.
    :param patterns: The properties of the keys whose values have.
    :param candidates: What ``exact`` gives to the paragraphs that have it.
    :param known: Which candidates have turned out to match which values.
    """

    exact: Callable[[slots.Slot], Any]
    patterns: tuple[policies.Property, ...]
    candidates: dict[Any, list[_Candidate]] = dataclasses.field(
        default_factory=dict
    )
    known: dict[tuple[Any, _Values], tuple[int, ...]] = dataclasses.field(
        default_factory=dict
    )

    def find(self, slot: slots.Slot) -> Iterable[int]:
        """Give the places of the paragraphs that identify a slot."""
        exact = self.exact(slot)
        candidates = self.candidates.get(exact)
        if candidates is None:
            return ()
        if not self.patterns:
            return [place for place, _ in candidates]
        varying = tuple(pattern.of(slot) for pattern in self.patterns)
        found = self.known.get((exact, varying))
        if found is None:
            found = tuple(
                place
                for place, patterns in candidates
                if all(map(policies.value_matches, patterns, varying))
            )
            self.known[exact, varying] = found
        return found


class Index:
    """The paragraphs of a policy, by what they compare.

    Those without wildcards are looked up, however many there are, and slots
    are looked up as they are: to write their numbers as the file does takes
    longer. Patterns are tried once for each value that the host reports.

    :param paragraphs: In the order of the file.
    """

    def __init__(self, paragraphs: Sequence[policies.Paragraph]) -> None:
        self._paragraphs = paragraphs
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], _Group] = {}
        for place, paragraph in enumerate(paragraphs):
            wanted = paragraph.identification
            patterns = tuple(
                sorted(k for k in wanted if policies.has_wildcard(wanted[k]))
            )
            exact = tuple(sorted(k for k in wanted if k not in patterns))
            values = [policies.PROPERTIES[k].meant(wanted[k]) for k in exact]
            if not wanted or None in values:
                # It may not mean every slot, and what no slot can have is
                # not what a slot does not report.
                continue
            if (exact, patterns) not in groups:
                groups[exact, patterns] = _group(exact, patterns)
            groups[exact, patterns].candidates.setdefault(
                values[0] if len(values) == 1 else tuple(values), []
            ).append((place, tuple(wanted[key] for key in patterns)))
        self._groups = tuple(groups.values())

    def identifying(self, slot: slots.Slot) -> tuple[policies.Paragraph, ...]:
        """Give the paragraphs that identify a slot, in file order."""
        places: list[int] = []
        for group in self._groups:
            places += group.find(slot)
        return tuple(self._paragraphs[place] for place in sorted(places))


def _group(exact: Sequence[str], patterns: Sequence[str]) -> _Group:
    attributes = [policies.PROPERTIES[key].attribute for key in exact]
    return _Group(
        operator.attrgetter(*attributes) if attributes else _nothing,
        tuple(policies.PROPERTIES[key] for key in patterns),
    )


def _nothing(_: slots.Slot) -> tuple[()]:
    return ()

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
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm.domain import policy as policies
from nova_powervm.domain import slots

_Values = tuple[str | None, ...]
#: A paragraph's place in the file and its patterns, in the group's order.
_Candidate = tuple[int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """Paragraphs with the same keys.

    :param exact: The keys whose values have no wildcards.
    :param patterns: The keys whose values have.
    :param candidates: Values of the exact keys to the paragraphs with them.
    :param known: Which candidates have turned out to match which values.
    """

    exact: tuple[str, ...]
    patterns: tuple[str, ...]
    candidates: dict[_Values, list[_Candidate]] = dataclasses.field(
        default_factory=dict
    )
    known: dict[tuple[_Values, _Values], tuple[int, ...]] = dataclasses.field(
        default_factory=dict
    )

    def find(self, values: Mapping[str, str | None]) -> Iterable[int]:
        """Give the places of the paragraphs that match a slot's values."""
        exact = tuple(values[key] for key in self.exact)
        candidates = self.candidates.get(exact)
        if candidates is None:
            return ()
        if not self.patterns:
            return [place for place, _ in candidates]
        varying = tuple(values[key] for key in self.patterns)
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

    Those without wildcards are looked up, however many there are. Patterns
    are tried once for each value that the host reports.

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
            if not wanted:
                # It may not mean every slot.
                continue
            group = groups.setdefault(
                (exact, patterns), _Group(exact, patterns)
            )
            group.candidates.setdefault(
                tuple(wanted[key] for key in exact), []
            ).append((place, tuple(wanted[key] for key in patterns)))
        self._groups = tuple(groups.values())
        compared = {
            key
            for group in self._groups
            for key in (*group.exact, *group.patterns)
        }
        self._properties = [
            (key, policies.PROPERTIES[key]) for key in sorted(compared)
        ]

    def identifying(self, slot: slots.Slot) -> tuple[policies.Paragraph, ...]:
        """Give the paragraphs that identify a slot, in file order."""
        values = {key: prop.of(slot) for key, prop in self._properties}
        places = [
            place for group in self._groups for place in group.find(values)
        ]
        return tuple(self._paragraphs[place] for place in sorted(places))

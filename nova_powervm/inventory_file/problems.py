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

"""What is wrong with an inventory file, and where."""

import dataclasses
from typing import Protocol

from nova_powervm import exception

#: A file of another kind altogether would fill the log otherwise.
_MOST_SHOWN = 100
#: Nor does it help to know more of it; each problem costs time and memory.
MAX_PROBLEMS = 500


class Mark(Protocol):
    """A place in a text, counted from 0 (PyYAML's marks are of this form)."""

    @property
    def line(self) -> int:
        """Line."""

    @property
    def column(self) -> int:
        """Column."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with the file.

    :param line: Line, from 1; 0 if it is about the file as a whole.
    :param column: Column, from 1; 0 likewise.
    :param paragraph: Name of the paragraph it is in, if it is in one.
    :param what: What is wrong.
    :param hint: What to write instead.
    """

    line: int = 0
    column: int = 0
    paragraph: str = ''
    what: str = ''
    hint: str = ''

    def __str__(self) -> str:
        place = []
        if self.line:
            place += [f'line {self.line}', f'column {self.column}']
        if self.paragraph:
            place.append(f"paragraph '{self.paragraph}'")
        where = f'{", ".join(place)}: ' if place else ''
        cure = f'. Hint: {self.hint}' if self.hint else ''
        return where + self.what + cure


class Problems(tuple[Problem, ...]):
    """All problems of a file; as text, one to a line."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = [f'  {problem}' for problem in self[:_MOST_SHOWN]]
        if len(self) > _MOST_SHOWN:
            lines.append(f'  and {len(self) - _MOST_SHOWN} more')
        return '\n'.join(lines)


class TooManyProblems(Exception):
    """So many problems were found that looking for more makes no sense."""


class Findings:
    """Collects problems while a file is read.

    :param paragraph: Name of the paragraph that is read.
    """

    def __init__(self, paragraph: str = '') -> None:
        self._paragraph = paragraph
        self._problems: list[Problem] = []

    def within(self, paragraph: str) -> 'Findings':
        """Give a collector for one paragraph that adds to this one."""
        inner = Findings(paragraph)
        inner._problems = self._problems
        return inner

    def add(self, mark: Mark, what: str, hint: str = '') -> None:
        """Note a problem at a place of the text.

        :raises TooManyProblems: There are :data:`MAX_PROBLEMS` already.
        """
        if len(self._problems) == MAX_PROBLEMS:
            self._problems.append(
                Problem(
                    what=f'the file has more than {MAX_PROBLEMS} problems',
                    hint='these were found first; the others come up when '
                    'they are gone',
                )
            )
            raise TooManyProblems
        self._problems.append(
            Problem(
                mark.line + 1, mark.column + 1, self._paragraph, what, hint
            )
        )

    def raise_any(self, path: str) -> None:
        """Raise what was found, in the order of the file.

        :raises exception.PolicyInvalid: There is at least one problem.
        """
        if self._problems:
            raise make_policy_error(path, *sorted(set(self._problems)))


def make_policy_error(
    path: str, *problems: Problem
) -> exception.PolicyInvalid:
    """Make the error for a file; its field ``problems`` is a tuple."""
    return exception.PolicyInvalid(
        path=path, count=len(problems), problems=Problems(problems)
    )

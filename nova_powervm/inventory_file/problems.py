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

"""The problems of an inventory file, each with its place and its cure."""

import dataclasses
import enum
from typing import Any
from typing import NoReturn

import yaml

from nova_powervm import exception

#: Limit of time and memory: more problems do not help the reader.
MAX_PROBLEMS = 500
#: A file of a different kind would otherwise fill the log.
_MOST_SHOWN = 100
_LONGEST_SHOWN = 60


class Code(enum.StrEnum):
    """Kinds of problems; a kind keeps its code when its words change."""

    ALIAS = 'alias'
    ANCHOR = 'anchor'
    BAD_BOOLEAN = 'bad-boolean'
    BAD_CHARACTER = 'bad-character'
    BAD_RESOURCE_CLASS = 'bad-resource-class'
    BAD_TRAIT = 'bad-trait'
    BAD_VALUE = 'bad-value'
    BAD_YAML = 'bad-yaml'
    BESIDE_DENIAL = 'beside-denial'
    DANGLING_LINK = 'dangling-link'
    DOUBLED_KEY = 'doubled-key'
    DOUBLED_TRAIT = 'doubled-trait'
    EMPTY = 'empty'
    FOREIGN_OWNER = 'foreign-owner'
    GROUP_WRITABLE = 'group-writable'
    MERGE_KEY = 'merge-key'
    MISSING_KEY = 'missing-key'
    NEEDS_QUOTES = 'needs-quotes'
    NOT_PRINTABLE = 'not-printable'
    NOT_REGULAR = 'not-regular'
    NOT_UTF8 = 'not-utf8'
    SECOND_DOCUMENT = 'second-document'
    TAG = 'tag'
    TOO_DEEP = 'too-deep'
    TOO_LARGE = 'too-large'
    TOO_LONG = 'too-long'
    TOO_MANY_PROBLEMS = 'too-many-problems'
    TOO_MANY_VALUES = 'too-many-values'
    UNKNOWN_KEY = 'unknown-key'
    UNREADABLE = 'unreadable'
    WORLD_WRITABLE = 'world-writable'
    WRONG_FORM = 'wrong-form'


#: What is wrong, in one line, and the remedy.
Message = tuple[Code, str, str]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem of the file.

    :param line: Line number from 1; 0 for a problem of the file as a whole.
    :param column: Column number from 1; 0 likewise.
    :param paragraph: Name of the paragraph; empty outside of paragraphs.
    :param what: The problem.
    :param hint: The remedy.
    :param code: One of :class:`Code`; empty if a command found the problem.
    """

    line: int = 0
    column: int = 0
    paragraph: str = ''
    what: str = ''
    hint: str = ''
    code: str = ''

    def __str__(self) -> str:
        place = []
        if self.line:
            place += [f'line {self.line}', f'column {self.column}']
        if self.paragraph:
            place.append(f"paragraph '{self.paragraph}'")
        where = f'{", ".join(place)}: ' if place else ''
        cure = f'. Hint: {self.hint}' if self.hint else ''
        return where + self.coded + cure

    @property
    def coded(self) -> str:
        """The problem with its code."""
        return f'{self.what} [{self.code}]' if self.code else self.what


class Problems(tuple[Problem, ...]):
    """All problems of a file; their text has one line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = [f'  {problem}' for problem in self[:_MOST_SHOWN]]
        if len(self) > _MOST_SHOWN:
            lines.append(f'  and {len(self) - _MOST_SHOWN} more')
        return '\n'.join(lines)


class StopReading(Exception):
    """The rest of the text can't or need not be read."""


class Findings:
    """Collects problems while a file is parsed."""

    def __init__(self) -> None:
        self._problems: set[Problem] = set()

    def add(
        self, mark: yaml.Mark | None, message: Message, paragraph: str = ''
    ) -> None:
        """Add a problem, unless it was added before.

        :param mark: Its place; None for a problem of the file as a whole.
        :param message: Its code and words.
        :param paragraph: Name of the paragraph.
        :raises StopReading: There are :data:`MAX_PROBLEMS` others already.
        """
        code, what, hint = message
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        problem = Problem(*place, to_printable(paragraph), what, hint, code)
        if (
            len(self._problems) == MAX_PROBLEMS
            and problem not in self._problems
        ):
            what = f'the file has more than {MAX_PROBLEMS} problems'
            hint = 'correct these, and check the file again for the others'
            code = Code.TOO_MANY_PROBLEMS
            self._problems.add(Problem(what=what, hint=hint, code=code))
            raise StopReading
        self._problems.add(problem)

    def stop(self, mark: yaml.Mark | None, *message: Any) -> NoReturn:
        """Add a problem after which nothing more can be read."""
        self.add(mark, message)
        raise StopReading

    def raise_any(self, path: str) -> None:
        """Raise the problems, in the order of the file, if there are any.

        :raises exception.PolicyInvalid: There is at least one problem.
        """
        if self._problems:
            raise exception.PolicyInvalid(
                path=path,
                count=len(self._problems),
                problems=Problems(sorted(self._problems)),
            )


def find_mark(text: str) -> yaml.Mark:
    """Return the place at the end of a text."""
    column = len(text) - text.rfind('\n') - 1
    return yaml.Mark('', len(text), text.count('\n'), column, '', 0)


def hint_to_quote(value: str) -> str:
    """Return the hint to quote a value, with its quoted form if possible."""
    if not value.isprintable() or len(value) > 255:
        return 'quote it'
    doubled = value.replace("'", "''")
    return f"quote it: '{doubled}'"


def to_printable(value: str) -> str:
    """Escape and shorten text of the file for a log line."""
    safe = value if value.isprintable() else ascii(value)[1:-1]
    if len(safe) > _LONGEST_SHOWN:
        safe = safe[:_LONGEST_SHOWN] + '...'
    return safe

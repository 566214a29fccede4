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

"""What tests prove, as lines of reStructuredText.

The sources of the tests are parsed, not imported. Sphinx is not needed here,
so tests can do without it.
"""

import ast
import collections
import configparser
import dataclasses
import pathlib
import re
from collections.abc import Iterable
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[3]
MATRIX = ROOT / 'doc' / 'source' / 'support-matrix.ini'

_CLAUSE = re.compile(
    r'^ +(?P<number>[A-Z]\d+): (?P<text>.*(?:\n +(?![A-Z]\d+: )\S.*)*)',
    re.MULTILINE,
)
_REMARK = re.compile(r' \(([^()]*)\)$')
_DIFFERENCE = re.compile(r'\bdifference (\d+)')
#: What a remark begins with if a clause needs no test.
_SETTLED = re.compile(
    r'(Nova|Placement|Cyborg|os-traits)(, |$)'
    r'|out of scope|open: |difference \d|:doc:`'
)


@dataclasses.dataclass(frozen=True)
class Clause:
    """A clause of a specification.

    :ivar remark: Who does it instead, why it is not done, or where it is
        explained.
    """

    number: str
    text: str
    remark: str

    @property
    def differences(self) -> list[str]:
        """Numbers of the differences from the specification."""
        return _DIFFERENCE.findall(self.remark)

    @property
    def needs_test(self) -> bool:
        """Whether a test has to prove it."""
        return not _SETTLED.match(self.remark)


def clauses(page: str) -> Iterator[Clause]:
    """Yield the clauses in the text of a page or of a directive.

    Each is a number, a colon, the clause, and a remark in parentheses at its
    end.
    """
    for found in _CLAUSE.finditer(page):
        text = ' '.join(found['text'].split())
        remark = _REMARK.search(text)
        yield Clause(
            found['number'], _REMARK.sub('', text), remark[1] if remark else ''
        )


def rows() -> dict[str, configparser.SectionProxy]:
    """Return the rows of the support matrix by name."""
    config = configparser.ConfigParser()
    config.read_string(MATRIX.read_text())
    return {
        key: row
        for key, row in config.items()
        if key not in ('DEFAULT', 'driver.powervm')
    }


def proofs() -> dict[str, list[str]]:
    """Return the full names of tests by what they prove."""
    found = collections.defaultdict(list)
    for path in sorted((ROOT / 'tests').rglob('*.py')):
        text = path.read_text()
        if 'proofs.proves(' in text:
            module = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
            for test, names in decorated(ast.parse(text), module):
                for name in names:
                    found[name].append(test)
    return dict(found)


def decorated(
    node: ast.Module | ast.ClassDef, above: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield full name, and what it proves, of each test, story and class."""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = f'{above}.{child.name}'
            for call in child.decorator_list:
                if (
                    isinstance(call, ast.Call)
                    and ast.unparse(call.func) == 'proofs.proves'
                ):
                    yield name, [ast.literal_eval(arg) for arg in call.args]
            if isinstance(child, ast.ClassDef):
                yield from decorated(child, name)


def clause_table(text: str, found: dict[str, list[str]]) -> Iterator[str]:
    """Give clauses and their tests as lines."""
    yield from _head('8 36 56', 'No.', 'Clause', 'Proved by')
    for clause in clauses(text):
        remark = _DIFFERENCE.sub(
            r':ref:`difference \1 <difference-\1>`', clause.remark
        )
        words = f'{clause.text} ({remark})' if remark else clause.text
        yield from _row(clause.number, words, found.get(clause.number, ()))


def matrix_table(found: dict[str, list[str]]) -> Iterator[str]:
    """Give the supported rows of the matrix and their tests as lines."""
    yield from _head('24 20 56', 'Row', 'Feature', 'Proved by')
    for key, row in rows().items():
        if row['driver.powervm'] != 'missing':
            yield from _row(f'``{key}``', row['title'], found.get(key, ()))


def _head(widths: str, *titles: str) -> Iterator[str]:
    yield from ('.. list-table::', '   :header-rows: 1')
    yield from (f'   :widths: {widths}', '')
    for mark, title in zip('*  ', titles, strict=True):
        yield f'   {mark} - {title}'


def _row(first: str, second: str, tests: Iterable[str]) -> Iterator[str]:
    yield from (f'   * - {first}', f'     - {second}', '     -')
    yield from (f'       * ``{test}``' for test in tests)

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

"""Formats findings as a report with excerpts of the file."""

import unicodedata
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm.inventory_file import Problem
from nova_powervm.tool.inventory import checked_file
from nova_powervm.tool.inventory import file_findings

#: Number of lines that are shown before and after the line of a problem.
_BEFORE, _AFTER = 2, 1
#: Maximum length of a line; a longer one is cut around the column.
_WIDTH = 100
_CUT = '...'


def format_checked(checked: checked_file.CheckedFile) -> Iterator[str]:
    """Format what was found in a file, or in two files together.

    :param checked: The file, or the comparison.
    """
    yield from format_report(checked.found, checked.source, checked.text)
    yield _summarize(checked)
    if not checked.is_refused:
        yield from checked.offer


def format_report(
    found: Sequence[file_findings.Finding], source: str, text: str
) -> Iterator[str]:
    """Format findings with excerpts of the file.

    :param found: The findings.
    :param source: Name of the file.
    :param text: Text of the file.
    """
    # The parser counts lines by line feeds only, too.
    lines = text.removesuffix('\n').split('\n')
    for finding in found:
        problem = finding.problem
        place = _place(problem, source)
        yield f'{place}: {finding.severity}: {_what(problem)}'
        yield from _excerpt(lines, problem)
        if problem.hint:
            yield f'  hint: {problem.hint}'
        yield ''


def _summarize(checked: checked_file.CheckedFile) -> str:
    """Summarize the findings in one line.

    The line says what the service does with the file only if that is known.
    """
    errors, warnings = (
        sum(finding.severity is severity for finding in checked.found)
        for severity in file_findings.Severity
    )
    if checked.other_source:
        both = f'{checked.other_source} and {checked.source}'
        if not errors:
            return f'{both}: no device in both.'
        return f'{both}: {_count(errors, "problem")} with devices in both.'
    if not checked.found:
        return f'{checked.source}: no problems.'
    effect = checked.effect.format('does not start' if errors else 'starts')
    return (
        f'{checked.source}: {_count(errors, "error")}, '
        f'{_count(warnings, "warning")}. {effect}'
    )


def _count(number: int, noun: str) -> str:
    return f'{number} {noun}' if number == 1 else f'{number} {noun}s'


def _place(problem: Problem, source: str) -> str:
    """Format the place as FILE:LINE:COLUMN, which editors understand."""
    if not problem.line:
        return source
    return f'{source}:{problem.line}:{problem.column}'


def _what(problem: Problem) -> str:
    if not problem.paragraph:
        return problem.coded
    return f"paragraph '{problem.paragraph}': {problem.coded}"


def _excerpt(lines: Sequence[str], problem: Problem) -> Iterator[str]:
    if not 0 < problem.line <= len(lines):
        return
    column = max(problem.column - 1, 0)
    start = _start(column)
    first = max(problem.line - _BEFORE, 1)
    last = min(problem.line + _AFTER, len(lines))
    width = len(str(last))
    for number in range(first, last + 1):
        shown = _cut(lines[number - 1], start)
        yield f'  {number:{width}} | {shown}'.rstrip()
        if number == problem.line:
            before = _safe(lines[number - 1])[start:column]
            marker = (len(_CUT) if start else 0) + _columns(before)
            yield f'  {"":{width}} | {" " * marker}^'


def _start(column: int) -> int:
    """Choose the first column to show, so that the problem is visible."""
    return 0 if column < _WIDTH else column - _WIDTH // 2


def _cut(line: str, start: int) -> str:
    safe = _safe(line)
    shown = safe[start : start + _WIDTH]
    before = _CUT if start and shown else ''
    after = _CUT if start + _WIDTH < len(safe) else ''
    return before + shown + after


def _safe(line: str) -> str:
    """Replace tabs and characters that are not printable."""
    return ''.join(
        '→' if c == '\t' else c if c.isprintable() else '?'
        for c in line.rstrip('\r')
    )


def _columns(text: str) -> int:
    return sum(
        0
        if unicodedata.combining(c)
        else 2
        if unicodedata.east_asian_width(c) in 'WF'
        else 1
        for c in text
    )

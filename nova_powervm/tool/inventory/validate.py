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

"""Command ``validate``, with its report of excerpts of the file."""

import argparse
import unicodedata
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova_powervm.inventory_file import Problem
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import host_reader

_COLUMNS = (
    'Severity',
    'Line',
    'Column',
    'Paragraph',
    'Problem',
    'Hint',
    'Code',
)
#: Number of lines that are shown before and after the line of a problem.
_BEFORE, _AFTER = 2, 1
#: Maximum length of a line; a longer one is cut around the column.
_WIDTH = 100
_CUT = '...'


class Validate(base.Lister):
    """Validate an inventory file and report all problems at once.

    Errors are problems for which nova-compute would refuse the file. Unless
    --offline is given, the file is also compared with a host, to find
    paragraphs that may not do what they were meant to do.

    With --offline, the command can compare paragraphs only with each other. It
    warns of those that identify the same devices on any host. Two others may
    still identify the same device of a certain host, which is an error there.

    With --accelerators, the file of Cyborg's slots is validated in the same
    way, for cyborg-agent. A device of the host in both files is an error.

    The exit code is 0 if there are no problems, 1 if there are only warnings,
    and 2 if there are errors or the host can't be read.
    """

    trouble = exit_codes.ERRORS
    examples = """
        # Validate the file of this host, and compare it with the host
        nova-powervm-inventory validate

        # Validate only the file, on any machine, without nova.conf
        nova-powervm-inventory validate inventory.yaml --offline

        # Validate Cyborg's file, too, and find devices that are in both
        nova-powervm-inventory validate \\
            --accelerators /etc/cyborg/inventory.yaml

        # Compare a file with a stored response of the REST API
        nova-powervm-inventory validate inventory.yaml --system-xml system.xml

        # In a CI job: let warnings fail, and print JSON
        nova-powervm-inventory validate inventory.yaml --offline \\
            --fatal-warnings -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            nargs='?',
            metavar='FILE',
            help='inventory file, which has to exist; - for standard input '
            '(default: [powervm]inventory_file in nova.conf, or '
            '/etc/nova/inventory.yaml)',
        )
        parser.add_argument(
            '--fatal-warnings',
            action='store_true',
            help='exit with code 2 if there are warnings',
        )
        base.add_accelerators_option(parser)
        parser.set_defaults(formatter=None)
        for action in parser._actions:  # noqa: SLF001 - no other way
            if action.dest == 'formatter':
                action.help = (
                    'output format (default: a report that shows the lines '
                    'of the file around each problem)'
                )
        host_reader.add_host_options(parser, offline=True)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the report, or the list in the selected format."""
        if parsed_args.formatter:
            return super().run(parsed_args)
        return self.guarded(self._report, parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the findings."""
        checked = self._check(parsed_args)
        self._grade(checked, parsed_args)
        columns: tuple[str, ...] = _COLUMNS
        if parsed_args.accelerators:
            columns = ('File', *_COLUMNS)
        return columns, [
            [
                self.cell(_cells(each, finding)[column], parsed_args)
                for column in columns
            ]
            for each in checked
            for finding in each.findings
        ]

    def _report(self, parsed_args: argparse.Namespace) -> int:
        checked = self._check(parsed_args)
        for each in checked:
            for line in format_checked(each):
                print(line, file=self.app.stdout)
        return self._grade(checked, parsed_args)

    def _grade(
        self,
        checked: Iterable[file_findings.CheckedFile],
        parsed_args: argparse.Namespace,
    ) -> int:
        severities = {f.severity for each in checked for f in each.findings}
        if file_findings.Severity.ERROR in severities:
            self.exit_code = exit_codes.ERRORS
        elif severities:
            self.exit_code = (
                exit_codes.ERRORS
                if parsed_args.fatal_warnings
                else exit_codes.WARNINGS
            )
        return self.exit_code

    def _check(
        self, parsed_args: argparse.Namespace
    ) -> list[file_findings.CheckedFile]:
        """Read the files, and compare them with the host and each other."""
        checked = [*self._read(parsed_args)]
        if all(each.policy is None for each in checked):
            return checked
        reading = None
        if not parsed_args.offline:
            reading = host_reader.read_host(self.app, parsed_args)
        checked = [each.compare(reading) for each in checked]
        if parsed_args.accelerators and reading:
            checked += file_findings.compare_files(
                checked[0], checked[1], reading
            )
        return checked

    def _read(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[file_findings.CheckedFile]:
        named = parsed_args.file is not None
        yield file_findings.read_checked(
            self.app,
            parsed_args.file if named else self.app.config.inventory_file,
            file_findings.NOVA,
            named=named,
        )
        if parsed_args.accelerators:
            yield file_findings.read_checked(
                self.app,
                parsed_args.accelerators,
                file_findings.CYBORG,
                named=True,
            )


def _cells(
    checked: file_findings.CheckedFile, finding: file_findings.Finding
) -> dict[str, Any]:
    return {
        'File': checked.source,
        'Severity': finding.severity.value,
        'Line': finding.problem.line or None,
        'Column': finding.problem.column or None,
        'Paragraph': finding.problem.paragraph or None,
        'Problem': finding.problem.what,
        'Hint': finding.problem.hint or None,
        'Code': str(finding.problem.code) or None,
    }


def format_checked(checked: file_findings.CheckedFile) -> Iterator[str]:
    """Format what was found in a file, or in two files together.

    :param checked: The file, or the comparison.
    """
    yield from format_report(checked.findings, checked.source, checked.text)
    yield _summarize(checked)
    if not checked.is_refused:
        yield from checked.offer


def format_report(
    findings: Sequence[file_findings.Finding], source: str, text: str
) -> Iterator[str]:
    """Format findings with excerpts of the file.

    :param source: Name of the file.
    :param text: Text of the file.
    """
    # The parser counts lines by line feeds only, too.
    lines = text.removesuffix('\n').split('\n')
    for finding in findings:
        problem = finding.problem
        place = _place(problem, source)
        yield f'{place}: {finding.severity}: {_what(problem)}'
        yield from _excerpt(lines, problem)
        if problem.hint:
            yield f'  hint: {problem.hint}'
        yield ''


def _summarize(checked: file_findings.CheckedFile) -> str:
    """Summarize the findings in one line.

    The line says what the service does with the file only if that is known.
    """
    errors, warnings = (
        sum(finding.severity is severity for finding in checked.findings)
        for severity in file_findings.Severity
    )
    if checked.other_source:
        both = f'{checked.other_source} and {checked.source}'
        if not errors:
            return f'{both}: no device in both.'
        return f'{both}: {_count(errors, "problem")} with devices in both.'
    if not checked.findings:
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

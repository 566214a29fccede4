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

"""Command ``validate``."""

import argparse
import dataclasses
import os
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.inventory_file import load
from nova_powervm.inventory_file import parse
from nova_powervm.inventory_file import read_excerpt
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import problem_report

_STDIN = '-'
_WARNINGS, _ERRORS = 1, 2
_COLUMNS = (
    'Severity',
    'Line',
    'Column',
    'Paragraph',
    'Problem',
    'Hint',
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Checked:
    """Result of checking a file.

    :param source: Name of the file.
    :param text: Text of the file, for excerpts.
    :param found: The findings.
    :param offer: Lines that describe the offered devices, if a host was read.
    :param access: Whether the file could be read.
    """

    source: str
    text: str
    found: Sequence[file_findings.Finding]
    offer: Sequence[str] = ()
    access: file_findings.Access = file_findings.Access.READ


class Validate(base.Lister):
    """Validate an inventory file and report all problems at once.

    Errors are problems for which nova-compute would refuse the file. Unless
    --offline is given, the file is also compared with a host, to find
    paragraphs that may not do what they were meant to do. The exit code is 0
    if there are no problems, 1 if there are only warnings, and 2 if there are
    errors or the host can't be read.
    """

    trouble = _ERRORS
    examples = """
        # Validate the file of this host, and compare it with the host
        nova-powervm-inventory validate

        # Validate only the file, on any machine, without nova.conf
        nova-powervm-inventory validate inventory.yaml --offline

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
        parser.set_defaults(formatter=None)
        for action in parser._actions:
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

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """List the findings."""
        found = self._find(parsed_args).found
        self._grade(found, parsed_args)
        return _COLUMNS, [
            [
                self.cell(value, parsed_args)
                for value in (
                    finding.severity.value,
                    finding.problem.line or None,
                    finding.problem.column or None,
                    finding.problem.paragraph or None,
                    finding.problem.what,
                    finding.problem.hint or None,
                )
            ]
            for finding in found
        ]

    def _report(self, parsed_args: argparse.Namespace) -> int:
        checked = self._find(parsed_args)
        found, source = checked.found, checked.source
        for line in problem_report.format_report(found, source, checked.text):
            print(line, file=self.app.stdout)
        summary = problem_report.format_summary(found, source, checked.access)
        print(summary, file=self.app.stdout)
        status = self._grade(found, parsed_args)
        if status != _ERRORS:
            for line in checked.offer:
                print(line, file=self.app.stdout)
        return status

    def _grade(
        self,
        found: Sequence[file_findings.Finding],
        parsed_args: argparse.Namespace,
    ) -> int:
        severities = {finding.severity for finding in found}
        if file_findings.Severity.ERROR in severities:
            self.status = _ERRORS
        elif severities:
            self.status = _ERRORS if parsed_args.fatal_warnings else _WARNINGS
        return self.status

    def _find(self, parsed_args: argparse.Namespace) -> _Checked:
        named = parsed_args.file is not None
        path = parsed_args.file if named else self.app.config.inventory_file
        if path == _STDIN:
            source, text = '<stdin>', base.read_stdin(self.app)
            access = file_findings.Access.READ
        else:
            source, text = path, None
            access = _access(path)
        if named and access is file_findings.Access.MISSING:
            return _Checked(
                source,
                '',
                [file_findings.make_missing_file_finding()],
                access=access,
            )
        try:
            policy = load(path) if text is None else parse(text, source)
        except exception.PolicyInvalid as error:
            problems = file_findings.make_error_findings(
                error.fields['problems']
            )
            shown = _shown(path, text)
            return _Checked(source, shown, problems, access=access)
        found = [
            *file_findings.find_empty_file(
                policy, access is not file_findings.Access.MISSING
            )
        ]
        offer: Iterable[str] = ()
        if not parsed_args.offline:
            reading = host_reader.read_host(
                self.app, parsed_args, or_offline=True
            )
            found += file_findings.find_host_mismatches(policy, reading)
            offer = file_findings.describe_offer(policy, reading)
        return _Checked(
            source, _shown(path, text), found, tuple(offer), access
        )


def _access(path: str) -> file_findings.Access:
    if not os.path.lexists(path):
        return file_findings.Access.MISSING
    if not os.access(path, os.R_OK, effective_ids=True):
        return file_findings.Access.UNREADABLE
    return file_findings.Access.READ


def _shown(path: str, text: bytes | str | None) -> str:
    """Read the file again for excerpts; return an empty text on failure."""
    if text is None:
        text = read_excerpt(path)
    return text if isinstance(text, str) else text.decode(errors='replace')

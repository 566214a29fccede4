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
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import checked_file
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import problem_report

_WARNINGS, _ERRORS = 1, 2
_COLUMNS = (
    'Severity',
    'Line',
    'Column',
    'Paragraph',
    'Problem',
    'Hint',
    'Code',
)


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

    trouble = _ERRORS
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
            for finding in each.found
        ]

    def _report(self, parsed_args: argparse.Namespace) -> int:
        checked = self._check(parsed_args)
        for each in checked:
            for line in problem_report.format_checked(each):
                print(line, file=self.app.stdout)
        return self._grade(checked, parsed_args)

    def _grade(
        self,
        checked: Iterable[checked_file.CheckedFile],
        parsed_args: argparse.Namespace,
    ) -> int:
        severities = {f.severity for each in checked for f in each.found}
        if file_findings.Severity.ERROR in severities:
            self.status = _ERRORS
        elif severities:
            self.status = _ERRORS if parsed_args.fatal_warnings else _WARNINGS
        return self.status

    def _check(
        self, parsed_args: argparse.Namespace
    ) -> list[checked_file.CheckedFile]:
        """Read the files, and compare them with the host and each other."""
        checked = [*self._read(parsed_args)]
        if all(each.policy is None for each in checked):
            return checked
        reading = None
        if not parsed_args.offline:
            reading = host_reader.read_host(self.app, parsed_args)
        checked = [each.compare(reading) for each in checked]
        if parsed_args.accelerators and reading:
            checked += _compare_files(checked[0], checked[1], reading)
        return checked

    def _read(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[checked_file.CheckedFile]:
        named = parsed_args.file is not None
        yield checked_file.read_checked(
            self.app,
            parsed_args.file if named else self.app.config.inventory_file,
            checked_file.NOVA,
            named=named,
        )
        if parsed_args.accelerators:
            yield checked_file.read_checked(
                self.app,
                parsed_args.accelerators,
                checked_file.CYBORG,
                named=True,
            )


def _compare_files(
    inventory: checked_file.CheckedFile,
    accelerators: checked_file.CheckedFile,
    reading: host_reader.HostReading,
) -> list[checked_file.CheckedFile]:
    """Find the devices that both files give away, if both are valid.

    :param reading: The state of the host.
    """
    policy, other = inventory.policy, accelerators.policy
    if policy is None or other is None:
        return []
    found = file_findings.find_shared_slots(policy, other, reading)
    return [
        checked_file.CheckedFile(
            accelerators.source,
            text=accelerators.text,
            found=tuple(found),
            other_source=inventory.source,
        )
    ]


def _cells(
    checked: checked_file.CheckedFile, finding: file_findings.Finding
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

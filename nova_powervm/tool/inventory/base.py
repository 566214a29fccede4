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

"""Base classes of the commands: exit codes, errors, examples in the help."""

import argparse
import os
import shutil
import textwrap
import traceback
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TextIO
from typing import TypeAlias

from cliff import command
from cliff import lister
from cliff.formatters import base as formatters

from nova_powervm import exception
from nova_powervm import printable
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import app as inventory_app

App: TypeAlias = inventory_app.InventoryApp
#: Column names and rows.
Listing: TypeAlias = tuple[Sequence[str], Iterable[Sequence[Any]]]

_WIDTH = 120
_STRUCTURED = ('json', 'yaml')


class Command(command.Command):
    """A command with an exit code, whose errors are printed as one line.

    Subclasses set ``exit_code`` if it is not 0.

    :cvar examples: Example command lines with a comment above each, for the
        end of the help text.
    :cvar trouble: Exit code if the command fails.
    """

    app: App
    examples = ''
    trouble = exit_codes.FAILURE
    exit_code = exit_codes.SUCCESS

    def get_epilog(self) -> str:
        """Return the examples, which follow the options in the help text."""
        lines = textwrap.dedent(self.examples).strip()
        return 'Examples::\n\n' + textwrap.indent(lines, '  ')

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Create the parser, whose help keeps the line breaks of examples."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = _HelpFormatter
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, and print an error as one line."""
        return self.guarded(super().run, parsed_args) or self.exit_code

    def guarded(
        self,
        action: Callable[[argparse.Namespace], int],
        parsed_args: argparse.Namespace,
    ) -> int:
        """Call a function, and print an error as one line.

        :returns: The exit code.
        """
        try:
            return action(parsed_args)
        except BrokenPipeError:
            raise
        except errors.EXPECTED as error:
            self._show_traceback()
            self.complain(errors.describe(error))
        except Exception as error:
            self._show_traceback()
            self.complain(
                f'{type(error).__name__}: {error}. This is a bug '
                'in the program. Report it with the output of --debug.'
            )
        return self.trouble

    def _show_traceback(self) -> None:
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)

    def note(self, text: str) -> None:
        """Print a note on standard error, unless --quiet is given."""
        if self.app.options.verbose_level:
            print(text, file=self.app.stderr)

    def is_agreed(self, question: str) -> bool:
        """Ask the user; who cannot be asked has not agreed."""
        if self.app.stdin.isatty():
            self.app.stderr.write(f'{question} [y/N] ')
            self.app.stderr.flush()
            answer = self.app.stdin.readline().strip().lower()
            if answer in ('y', 'yes'):
                return True
        else:
            self.complain(
                f'{question} Standard input is not a terminal, so that you '
                'cannot confirm it: give --yes'
            )
        self.exit_code = exit_codes.REFUSED
        return False

    def complain(self, error: object) -> None:
        """Print an error on standard error."""
        print(f'{self.app.NAME}: {error}', file=self.app.stderr)


def load_inventory(app: App, named: str | None) -> policies.Policy:
    """Read the inventory file named on the command line, or the default file.

    :param named: The name from the command line; None for
        ``[powervm]inventory_file``, which does not have to exist.
    :raises exception.ConfigurationError: The named file does not exist.
    :raises exception.PolicyInvalid: The file has problems.
    """
    if named is None:
        return load(app.config.inventory_file)
    if not os.path.lexists(named):
        raise exception.ConfigurationError(
            reason=f"there is no file '{named}'. Check the name of the "
            'inventory file.'
        )
    return load(named)


def add_file_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option, or the argument, that names the inventory file."""
    parser.add_argument(
        name,
        metavar='FILE',
        help='inventory file (default: [powervm]inventory_file in nova.conf, '
        'or /etc/nova/inventory.yaml)',
        nargs=None if name.startswith('-') else '?',
    )


def add_accelerators_option(
    parser: argparse.ArgumentParser, default: str | None = None
) -> None:
    """Add the option that names the file of Cyborg's slots."""
    parser.add_argument(
        '--accelerators',
        metavar='FILE',
        default=default,
        help=f'file of the slots that Cyborg manages (default: {default})'
        if default
        else 'file of the slots that Cyborg manages, which has to exist: '
        '[powervm]accelerator_file in cyborg.conf, by default '
        '/etc/cyborg/inventory.yaml',
    )


def parse_positive(text: str) -> int:
    """Parse the value of an option that is a number of 1 or more.

    :raises argparse.ArgumentTypeError: It is not.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the description and the examples.

    Double colons are replaced by single ones: they are markup for the
    documentation, which is generated from the same text.
    """

    def add_text(self, text: str | None) -> None:
        """Add a paragraph without the markup."""
        super().add_text(text and text.replace('::\n', ':\n'))


class RecordFormatter(formatters.ListFormatter):
    """Writes a record for each row, with a line for each column.

    A value can have several lines. None is wrapped, so that commands can be
    copied.
    """

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no options."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the records, with an empty line between them."""
        margin = max(map(len, column_names)) + 2
        separator = ''
        for row in data:
            stdout.write(separator)
            separator = '\n'
            for name, value in zip(column_names, row, strict=True):
                lines = str(value).splitlines() or ['-']
                indented = f'\n{"":{margin}}'.join(lines)
                stdout.write(f'{name:{margin}}{indented}\n')


class Lister(Command, lister.Lister):
    """A command that lists rows.

    :cvar as_record: Whether each row is shown as a record.
    """

    as_record = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Limit tables to 120 columns, or to the terminal if it is wider."""
        parser = super().get_parser(prog_name)
        if not parser.get_default('max_width'):
            columns = shutil.get_terminal_size((0, 0)).columns
            parser.set_defaults(max_width=max(_WIDTH, columns))
        return parser

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Write records instead of a table that would be too wide."""
        if (
            (self.as_record or vars(parsed_args).get('long'))
            and parsed_args.formatter == 'table'
            and not parsed_args.columns
        ):
            self.formatter = RecordFormatter()
        status: int = super().produce_output(parsed_args, column_names, data)
        return status

    def cell(self, value: Any, parsed_args: argparse.Namespace) -> Any:
        """Convert a value to the selected output format."""
        if parsed_args.formatter in _STRUCTURED:
            return value
        if value is None:
            return ''
        if isinstance(value, bool):
            return 'yes' if value else 'no'
        if isinstance(value, list | tuple):
            separator = '\n' if parsed_args.formatter == 'table' else ' '
            return separator.join(printable.printable(str(v)) for v in value)
        return printable.printable(value) if isinstance(value, str) else value

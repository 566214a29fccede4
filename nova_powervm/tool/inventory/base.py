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

"""What all commands have in common: exit codes, errors, examples in help."""

import argparse
import os
import shutil
import textwrap
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

from cliff import command
from cliff import lister
from cliff import show
from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import app as inventory_app

    App: TypeAlias = inventory_app.InventoryApp

#: What stands for bad input, an unreadable file or a silent server.
EXPECTED = (exception.PowerVMError, cfg.Error, OSError, ValueError)

_WIDTH = 120
_STRUCTURED = ('json', 'yaml')


class Reporting(command.Command):
    """A command that ends in an exit code, and whose errors are one line.

    Subclasses set ``status`` while they work if it is not 0.

    :cvar examples: Command lines with a comment line before each; they end
        the help.
    :cvar trouble: Exit code if the command could not do its work.
    """

    app: 'App'
    examples = ''
    trouble = 1
    status = 0

    def get_epilog(self) -> str:
        """Give the examples, which stand after the options."""
        lines = textwrap.dedent(self.examples).strip()
        return 'Examples::\n\n' + textwrap.indent(lines, '  ')

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Make the parser; the help keeps the lines of the examples."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = _HelpFormatter
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and turn its errors into one line each."""
        status = self.guarded(super().run, parsed_args)
        return status or self.status

    def guarded(
        self,
        action: Callable[[argparse.Namespace], int],
        parsed_args: argparse.Namespace,
    ) -> int:
        """Do something; say in one line if it fails.

        :returns: The exit code.
        """
        try:
            return action(parsed_args)
        except BrokenPipeError:
            raise
        except EXPECTED as error:
            self._show_traceback()
            self.complain(describe_error(error))
        except Exception as error:
            self._show_traceback()
            self.complain(
                f'{type(error).__name__}: {error}. This is an error of the '
                'program; please report it with the output of --debug.'
            )
        return self.trouble

    def _show_traceback(self) -> None:
        if self.app.options.debug:
            traceback.print_exc(file=self.app.stderr)

    def note(self, text: str) -> None:
        """Tell a person something where the output alone says nothing."""
        if self.app.options.verbose_level:
            print(text, file=self.app.stderr)

    def complain(self, error: object) -> None:
        """Print an error, where errors belong."""
        print(f'{self.app.NAME}: {error}', file=self.app.stderr)


def load_inventory(app: 'App', named: str | None) -> policies.Policy:
    """Read the inventory file that a command was given, or the default one.

    :param app: Has the configuration.
    :param named: The argument of the command; None for
        ``[powervm]inventory_file``, which need not exist.
    :raises exception.ConfigurationError: There is no file of this name.
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


def read_stdin(app: 'App') -> bytes | str:
    """Read all of standard input: its bytes, if it has them."""
    content: bytes | str = getattr(app.stdin, 'buffer', app.stdin).read()
    return content


def describe_error(error: BaseException) -> str:
    """Put an error into words; one about a file begins with its name."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f'{error.filename}: {error.strerror}'
    return str(error)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves the lines of the description and the examples as they are.

    Two colons are for the documentation, which is made of the same text.
    """

    def add_text(self, text: str | None) -> None:
        """Add a paragraph of its own."""
        super().add_text(text and text.replace('::\n', ':\n'))


class Command(Reporting):
    """A command that prints what it likes."""


class Lister(Reporting, lister.Lister):
    """A command whose result is a list of rows."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Let tables be as wide as the terminal, but 120 columns at least."""
        parser = super().get_parser(prog_name)
        if not parser.get_default('max_width'):
            columns = shutil.get_terminal_size((0, 0)).columns
            parser.set_defaults(max_width=max(_WIDTH, columns))
        return parser

    def is_short(self, parsed_args: argparse.Namespace) -> bool:
        """Whether only the columns are wanted that a terminal has room for."""
        return (
            parsed_args.formatter == 'table'
            and not parsed_args.columns
            and not parsed_args.long
        )

    def cell(self, value: Any, parsed_args: argparse.Namespace) -> Any:
        """Bring a value into the form that it has in the chosen format."""
        if parsed_args.formatter in _STRUCTURED:
            return value
        if value is None:
            return ''
        if isinstance(value, bool):
            return 'yes' if value else 'no'
        if isinstance(value, list | tuple):
            separator = '\n' if parsed_args.formatter == 'table' else ' '
            return separator.join(map(str, value))
        return value


class ShowOne(Reporting, show.ShowOne):
    """A command whose result is one thing with properties."""

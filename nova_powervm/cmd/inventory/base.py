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
import textwrap
import traceback
from typing import TYPE_CHECKING
from typing import TypeAlias

from cliff import command
from cliff import lister
from cliff import show
from oslo_config import cfg

from nova_powervm import exception

if TYPE_CHECKING:
    from nova_powervm.cmd.inventory import app as inventory_app

    App: TypeAlias = inventory_app.InventoryApp

#: What stands for bad input, an unreadable file or a silent server.
EXPECTED = (exception.PowerVMError, cfg.Error, OSError, ValueError)


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
        return 'examples:\n' + textwrap.indent(lines, '  ')

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Make the parser; the help keeps the lines of the examples."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = _HelpFormatter
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and turn its errors into one line each."""
        try:
            status = super().run(parsed_args)
        except BrokenPipeError:
            raise
        except EXPECTED as error:
            if self.app.options.debug:
                traceback.print_exc(file=self.app.stderr)
            self.complain(error)
            return self.trouble
        return self.status or status

    def complain(self, error: object) -> None:
        """Print an error, where errors belong."""
        print(f'{self.app.NAME}: {error}', file=self.app.stderr)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves the lines of the description and the examples as they are."""


class Command(Reporting):
    """A command that prints what it likes."""


class Lister(Reporting, lister.Lister):
    """A command whose result is a list of rows."""


class ShowOne(Reporting, show.ShowOne):
    """A command whose result is one thing with properties."""

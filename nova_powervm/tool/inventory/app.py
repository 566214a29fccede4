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

"""Application nova-powervm-inventory: global options, configuration, logs."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any
from typing import TextIO
from typing import cast

from cliff import app
from cliff import commandmanager
from cliff import help as cliff_help

from nova_powervm import printable
from nova_powervm.tool.inventory import config

NAME = 'nova-powervm-inventory'
#: Namespace of the entry points that provide the commands.
NAMESPACE = 'nova_powervm.inventory'

_DESCRIPTION = """\
Validate the inventory file of a PowerVM host, show how it applies to the host,
and manage the devices that the host offers to instances.
"""


class InventoryApp(app.App):
    """Application of the framework cliff.

    :param stdin: Input stream for answers; standard input by default.
    :param stdout: Output stream for results; standard output by default.
    :param stderr: Output stream for warnings and errors; standard error by
        default.
    """

    NAME = NAME
    LOG = logging.getLogger('nova_powervm.tool')

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        super().__init__(
            description=_DESCRIPTION,
            version=config.describe_version(NAME),
            command_manager=commandmanager.CommandManager(NAMESPACE),
            # Without this, "show --help" would print the list of commands.
            deferred_help=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        # What commands print has names that others gave.
        self._terminal = self.stderr
        self.stdout = cast(TextIO, printable.PrintableStream(self.stdout))
        self.stderr = cast(TextIO, printable.PrintableStream(self.stderr))
        self._config: config.Config | None = None

    @property
    def config(self) -> config.Config:
        """The options of nova.conf, read when a command first needs them.

        :raises oslo_config.cfg.Error: A file can't be found or parsed.
        :raises nova_powervm.exception.ConfigurationError: A file can't be
            read.
        """
        if self._config is None:
            self._config = config.read_config(
                self.options.config_files, self.options.config_dirs
            )
        return self._config

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Add the options that name configuration files to cliff's own."""
        parser = super().build_option_parser(
            description,
            version,
            {
                'prog': NAME,
                # Options can follow the command, and the abbreviation of one
                # of its options must not be taken for a global option.
                'allow_abbrev': False,
                **(argparse_kwargs or {}),
            },
        )
        for action in parser._actions:  # noqa: SLF001 - no other way
            if '--version' in action.option_strings:
                # cliff puts the name of its own base class first.
                action.version = version  # type: ignore
        config.add_options(parser)
        return parser

    def configure_logging(self) -> None:
        """Configure the log output; hide messages of libraries by default."""
        super().configure_logging()
        console = logging.getLogger().handlers[-1]
        if self.options.debug or self.options.verbose_level > 2:
            console.setLevel(logging.DEBUG)
        elif self.options.verbose_level == 2:
            console.setLevel(logging.INFO)
        else:
            console.setLevel(logging.WARNING)
            # The one-line error has the information that libraries log.
            console.addFilter(logging.Filter('nova_powervm'))

    def run(self, argv: list[str]) -> int:
        """Run one command, and leave the log of the process as it was.

        :param argv: The arguments, without the name of the program.
        :returns: The exit code.
        """
        root = logging.getLogger()
        level, handlers = root.level, [*root.handlers]
        try:
            return super().run(argv)
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers

    def interact(self) -> None:
        """Print the help if no command was given."""
        show_help = cliff_help.HelpAction([], argparse.SUPPRESS, default=self)
        show_help(self.parser, self.options, None, None)

    @property
    def terminal(self) -> TextIO | None:
        """The terminal that shows progress; None if there is none."""
        if self.options.verbose_level and self._terminal.isatty():
            return cast(TextIO, self._terminal)
        return None

    def warn(self, text: str) -> None:
        """Print a warning on standard error, unless --quiet is given."""
        if self.options.verbose_level:
            print(f'{NAME}: warning: {text}', file=self.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-inventory``.

    :param argv: The arguments; those of the process by default.
    :returns: The exit code.
    """
    return InventoryApp().run(list(sys.argv[1:] if argv is None else argv))

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

"""The application: global options, configuration and log output."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any
from typing import TextIO

from cliff import app
from cliff import commandmanager
from cliff import help as cliff_help

from nova_powervm.tool import version as versions
from nova_powervm.tool.inventory import config

NAME = 'nova-powervm-inventory'
#: Entry points of this namespace are the commands.
NAMESPACE = 'nova_powervm.inventory'

_DESCRIPTION = """\
Check the inventory file of a PowerVM host, see what it means on the host, and
look after the devices that it offers to instances.
"""


class InventoryApp(app.App):
    """The tool, as a cliff application.

    :param stdin: Where answers are read, for tests.
    :param stdout: Where results go, for tests.
    :param stderr: Where warnings and errors go, for tests.
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
            version=versions.describe_version(NAME),
            command_manager=commandmanager.CommandManager(NAMESPACE),
            # Without this, "show --help" would print the list of commands.
            deferred_help=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        self._config: config.Config | None = None
        self._handlers: list[logging.Handler] = []

    @property
    def config(self) -> config.Config:
        """The options of nova.conf, read when a command first needs them.

        :raises oslo_config.cfg.Error: A file can't be read or understood.
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
                # Options may follow the command; a part of its name must not
                # be taken for one of these.
                'allow_abbrev': False,
                **(argparse_kwargs or {}),
            },
        )
        for action in parser._actions:
            if '--version' in action.option_strings:
                # cliff puts the name of its own base class first.
                action.version = version  # type: ignore
        parser.add_argument(
            '--config-file',
            action='append',
            dest='config_files',
            metavar='PATH',
            help='a configuration file of nova-compute; can be given more '
            'than once (default: the files that nova-compute reads, if '
            'there are any, e.g. /etc/nova/nova.conf)',
        )
        parser.add_argument(
            '--config-dir',
            action='append',
            dest='config_dirs',
            metavar='DIR',
            help='a directory; its files whose names end in .conf are read '
            'after the configuration files; can be given more than once',
        )
        return parser

    def configure_logging(self) -> None:
        """Keep libraries quiet unless somebody wants to hear them."""
        root = logging.getLogger()
        root.setLevel(logging.DEBUG)
        console = logging.StreamHandler(self.stderr)
        console.setFormatter(logging.Formatter(self.CONSOLE_MESSAGE_FORMAT))
        level = self.options.verbose_level
        if self.options.debug or level > 2:
            console.setLevel(logging.DEBUG)
        elif level == 2:
            console.setLevel(logging.INFO)
        else:
            console.setLevel(logging.WARNING if level else logging.ERROR)
            # What they would say the error says, too, in one line.
            console.addFilter(logging.Filter('nova_powervm'))
        self._handlers.append(console)
        if self.options.log_file:
            log_file = logging.FileHandler(self.options.log_file)
            log_file.setFormatter(
                logging.Formatter(self.LOG_FILE_MESSAGE_FORMAT)
            )
            self._handlers.append(log_file)
        for handler in self._handlers:
            root.addHandler(handler)

    def run(self, argv: list[str]) -> int:
        """Run one command.

        :param argv: The arguments, without the name of the program.
        :returns: The exit status.
        """
        root = logging.getLogger()
        level = root.level
        try:
            return super().run(argv)
        finally:
            root.setLevel(level)
            for handler in self._handlers:
                root.removeHandler(handler)
                if isinstance(handler, logging.FileHandler):
                    handler.close()
            self._handlers.clear()

    def interact(self) -> None:
        """Print the help: without a command there is nothing to do."""
        show_help = cliff_help.HelpAction([], argparse.SUPPRESS, default=self)
        show_help(self.parser, self.options, None, None)

    def warn(self, text: str) -> None:
        """Tell the user something beside the command's own output."""
        if self.options.verbose_level:
            print(f'{NAME}: warning: {text}', file=self.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-inventory``.

    :param argv: The arguments; those of the process by default.
    :returns: The exit status.
    """
    return InventoryApp().run(list(sys.argv[1:] if argv is None else argv))

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

"""Formatter that writes each row as a record that fits a terminal."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TextIO

from cliff.formatters import base

_EMPTY = '-'


class RecordFormatter(base.ListFormatter):
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
                lines = str(value).splitlines() or [_EMPTY]
                indented = f'\n{"":{margin}}'.join(lines)
                stdout.write(f'{name:{margin}}{indented}\n')

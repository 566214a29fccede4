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
import textwrap
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import TextIO

from cliff.formatters import base

_EMPTY = '-'
#: Lines of these columns are typed as they are, so they are not wrapped.
_VERBATIM = ('Commands', 'Remedy')
_NARROWEST = 40


class RecordFormatter(base.ListFormatter):
    """Writes a record for each row, with a line for each column."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no options, because the options of tables apply."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the records, with an empty line between them.

        :param data: Rows; a value can have several lines.
        :param parsed_args: Arguments with ``max_width``, the maximum length of
            a line; 0 for no limit.
        """
        separator = ''
        for row in data:
            stdout.write(separator)
            for line in format_record(
                column_names, row, parsed_args.max_width
            ):
                stdout.write(line + '\n')
            separator = '\n'


def format_record(
    column_names: Sequence[str], row: Sequence[Any], width: int
) -> Iterator[str]:
    """Yield the lines of one record.

    :param width: Maximum length of a line; 0 for no limit. Long words are not
        broken, so that they can be copied.
    """
    margin = max(map(len, column_names)) + 2
    space = max(width - margin, _NARROWEST) if width else 0
    for name, value in zip(column_names, row, strict=True):
        title = name
        limit = 0 if name in _VERBATIM else space
        for text in str(value).splitlines() or [_EMPTY]:
            for line in _wrap(text, limit):
                yield f'{title:{margin}}{line}'
                title = ''


def _wrap(text: str, space: int) -> Sequence[str]:
    if not space:
        return [text]
    return textwrap.wrap(
        text, space, break_long_words=False, break_on_hyphens=False
    ) or [_EMPTY]

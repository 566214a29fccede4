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

"""Makes text of others fit for a line of a log, a message or a table.

Names, reference codes and error texts come from the host, from tenants and
from programs of the operator. A line break in one would begin a line that
looks like another record, and an escape sequence would act on an operator's
terminal.
"""

import logging
from collections.abc import Iterable
from typing import Any
from typing import TextIO


def printable(text: str) -> str:
    r"""Write characters that are not printable as Python does, as in ``\n``.

    Line breaks of every kind are among them, and what changes the direction
    of a text.
    """
    if text.isprintable():
        return text
    return ''.join(
        c if c.isprintable() else c.encode('unicode_escape').decode()
        for c in text
    )


class PrintableStream:
    """Writes to a stream what acts on a terminal by its line breaks only.

    :param stream: The stream, whose other attributes this has, too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, whose lines become printable."""
        self._stream.write('\n'.join(map(printable, text.split('\n'))))
        return len(text)


class _OneLine(logging.Handler):
    """Makes the message of each record one printable line.

    It is a handler because those of a logger get the records of all loggers
    below it, which its filters do not, and get them before those of the root
    logger write them.
    """

    def createLock(self) -> None:
        """Create no lock: nothing is shared."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Change a record whose message is not printable."""
        try:
            text = record.getMessage()
        except Exception:
            # Whoever writes the record complains.
            return
        if not text.isprintable():
            record.msg, record.args = printable(text), None


def guard_loggers(names: Iterable[str]) -> None:
    """Let loggers, and all below them, log nothing but printable lines."""
    for name in names:
        logging.getLogger(name).addHandler(_OneLine())

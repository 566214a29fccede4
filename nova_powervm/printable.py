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

#: The attribute of the factory of log records that is made here.
_MARK = 'makes_printable_records'
#: Characters of a message that are escaped: the whole of a hostile answer may
#: have millions, and take seconds. At DEBUG there is no limit.
_LONGEST = 1 << 20


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


def guard_records(names: Iterable[str]) -> None:
    """Let loggers, and all below them, log nothing but printable lines.

    This is done where records are made: a logging file takes the handlers of
    all loggers away, a handler that writes nothing keeps Python from writing
    what nobody has configured, and a filter does not get the records of the
    loggers below its own. To do it again changes nothing.

    :param names: The names of the loggers.
    """
    make = logging.getLogRecordFactory()
    if hasattr(make, _MARK):
        return
    prefixes = tuple(f'{name}.' for name in names)

    def make_printable(
        name: str, *args: Any, **kwargs: Any
    ) -> logging.LogRecord:
        record = make(name, *args, **kwargs)
        if f'{name}.'.startswith(prefixes):
            _escape(record)
        return record

    setattr(make_printable, _MARK, True)
    logging.setLogRecordFactory(make_printable)


def _escape(record: logging.LogRecord) -> None:
    """Change a record whose message is not printable."""
    try:
        text = record.getMessage()
    except Exception:
        # The handler that writes the record complains.
        return
    if text.isprintable():
        return
    rest = len(text) - _LONGEST
    if rest > 0 and record.levelno >= logging.INFO:
        text = f'{text[:_LONGEST]} ... ({rest} more characters)'
    record.msg, record.args = printable(text), ()

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

"""YAML text to a graph of nodes, with the parts of YAML left out that hide
what a file says: aliases, merge keys, tags, several documents.

Nodes, not values: only a node knows its line and how it was written.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import yaml

from nova_powervm.policyfile import problems

#: Tag of the node that stands where an alias stood; its problem is known.
REFUSED_TAG = 'refused'

# Paragraphs, their keys and the keys of an identification are three levels.
# The limit is far below the depth at which Python runs out of stack.
_DEEPEST = 10
_QUOTE_STARS = (
    'a value that begins with * has to be quoted, and wildcards are not '
    'understood yet'
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    line: int
    column: int


class _TooDeep(Exception):
    def __init__(self, mark: problems.Mark) -> None:
        super().__init__()
        self.mark = mark


class _Loader(yaml.SafeLoader):
    """Composes nodes; notes what the inventory file may not use."""

    def __init__(self, text: str, findings: problems.Findings) -> None:
        super().__init__(text)
        # The stubs of PyYAML leave these two without types.
        self.first_event: Callable[[], Any] = self.peek_event
        self.next_event: Callable[[], Any] = self.get_event
        self._findings = findings
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        event = self.first_event()
        if isinstance(event, yaml.AliasEvent):
            self.next_event()
            place: Any = event.start_mark
            self._findings.add(
                place,
                f'*{event.anchor} is an alias of YAML, which is not accepted',
                f'write the value out; {_QUOTE_STARS}',
            )
            return _refused(event)
        self._refuse_extras(event)
        if self._depth == _DEEPEST:
            raise _TooDeep(event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _refuse_extras(self, event: Any) -> None:
        if event.anchor is not None:
            self._findings.add(
                event.start_mark,
                f'&{event.anchor} is an anchor of YAML, which is not accepted',
                'leave it out; a value that begins with & has to be quoted',
            )
            event.anchor = None
        if event.tag is not None:
            self._findings.add(
                event.start_mark,
                'tags of YAML (!...) are not accepted',
                'leave the tag out; a value that begins with ! has to be '
                'quoted, and quotes make any value text',
            )
            event.tag = None


def _refused(event: Any) -> yaml.ScalarNode:
    return yaml.ScalarNode(
        REFUSED_TAG, '', event.start_mark, event.end_mark, "'"
    )


def compose(text: str, findings: problems.Findings) -> yaml.Node | None:
    """Read the one document of a YAML text.

    :param text: The text.
    :param findings: Gets what is wrong with the text as YAML.
    :returns: The root node; None if the text holds nothing or is no YAML.
    """
    try:
        loader = _Loader(text, findings)
    except yaml.reader.ReaderError as error:
        findings.add(
            _place(text, error.position),
            f'character {_code(error.character)} is not allowed in YAML',
            'remove it; the file is plain UTF-8 text',
        )
        return None
    try:
        return _single_document(loader, findings)
    except _TooDeep as error:
        findings.add(
            error.mark,
            f'values are nested more than {_DEEPEST} levels deep',
            'the file needs three: paragraph, section, value',
        )
    except yaml.MarkedYAMLError as error:
        _add_syntax_error(loader, error, findings)
    except (ValueError, OverflowError):
        # PyYAML lets these out for an escape beyond Unicode ("\UFFFFFFFF")
        # and for a %YAML directive with an absurdly long number.
        findings.add(
            loader.get_mark(),
            'this is no valid YAML: a number is out of range',
            'write the value without escapes or directives',
        )
    finally:
        loader.dispose()
    return None


def _single_document(
    loader: _Loader, findings: problems.Findings
) -> yaml.Node | None:
    loader.next_event()
    if loader.check_event(yaml.StreamEndEvent):
        return None
    root = loader.compose_document()
    if not loader.check_event(yaml.StreamEndEvent):
        second = loader.first_event()
        findings.add(
            second.start_mark,
            'a second YAML document begins here, but only one is accepted',
            'put all paragraphs into one document: remove the line ---',
        )
    return root


def _add_syntax_error(
    loader: _Loader,
    error: yaml.MarkedYAMLError,
    findings: problems.Findings,
) -> None:
    context = f' {error.context}' if error.context else ''
    what = f'this is no valid YAML:{context}: {error.problem}'
    findings.add(
        error.problem_mark or loader.get_mark(),
        what.replace(':: ', ': '),
        _hint_for_syntax(error),
    )


def _hint_for_syntax(error: yaml.MarkedYAMLError) -> str:
    text = f'{error.context} {error.problem}'
    if '\\t' in text:
        return 'indent with spaces; YAML takes no tabs there'
    if 'alias' in text:
        return _QUOTE_STARS
    if 'mapping values' in text:
        return (
            'a value with a colon and a space has to be quoted; otherwise '
            'look at the indentation of this line and the one before'
        )
    return 'look at the indentation, colons and quotes here and just before'


def _place(text: str, position: int) -> _Place:
    before = text[:position]
    return _Place(before.count('\n'), len(before) - (before.rfind('\n') + 1))


def _code(character: str | int) -> str:
    code = ord(character) if isinstance(character, str) else character
    return f'U+{code:04X}'

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

"""PyYAML loader that refuses YAML features which the file must not use.

Aliases, anchors, merge keys and tags hide the content of a file. Deep nesting
and many values cost stack, memory and time.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_nodes

#: The file needs three levels: paragraphs, their keys, identification keys.
#: The limit is far below the depth at which Python runs out of stack.
MAX_DEPTH = 10
#: Maximum number of keys, values, mappings and lists, for which PyYAML needs a
#: few seconds. The file of the largest host has a tenth of it.
MAX_NODES = 30_000

_BLANKS = '\0 \t\r\n\x85\u2028\u2029'
_WORD = re.compile(r'[\s,\[\]{}]')
_LONGEST = 60


class StopReading(Exception):
    """A problem after which the text can't be read further.

    :param mark: Place of the problem.
    :param what: The problem.
    :param hint: The remedy.
    """

    def __init__(self, mark: problems.Mark, what: str, hint: str) -> None:
        super().__init__(what)
        self.mark = mark
        self.what = what
        self.hint = hint


class InventoryLoader(yaml.SafeLoader):
    """Composes nodes, and reports features that the file must not use.

    :param text: Text of the file.
    :param findings: Collects the problems.
    """

    def __init__(self, text: str, findings: problems.Findings) -> None:
        super().__init__(text)
        # PyYAML's stubs have no types for these methods.
        self.first_event: Callable[[], Any] = self.peek_event
        self.next_event: Callable[[], Any] = self.get_event
        self._scan_plain: Callable[[], None] = self.fetch_plain
        self._character: Callable[..., str] = self.peek
        self._findings = findings
        self._depth = 0
        self._count = 0
        self._name: yaml.Node | None = None

    def findings_at(self, mark: problems.Mark) -> problems.Findings:
        """Return the collector for problems of the current paragraph.

        :param mark: Place of a problem. At the left margin, it belongs to the
            next paragraph, whose name is not known yet.
        """
        name = self._name
        if not isinstance(name, yaml.ScalarNode):
            return self._findings
        start = name.start_mark
        if mark.line > start.line and mark.column <= start.column:
            return self._findings
        return self._findings.within(yaml_nodes.to_printable(str(name.value)))

    def fetch_alias(self) -> None:
        """Scan an alias as text without quotes.

        A leading star is more often a wildcard. Scanned as text, its whole
        value can be reported, and reading continues.
        """
        self._scan_plain()

    def check_key(self) -> bool:
        """Return whether "?" marks a key here.

        Within brackets, PyYAML ends a value at each "?", which is refused.
        """
        alone = self._character(1) in _BLANKS
        if self.flow_level and not (
            alone and self.buffer[self.pointer - 1] in f'{_BLANKS}[{{,'
        ):
            value = self._word()
            raise StopReading(
                self.get_mark(),
                f'{yaml_nodes.to_printable(value)} has a ? without quotes in '
                'brackets, which readers of YAML understand in different ways',
                yaml_nodes.hint_to_quote(value),
            )
        return alone

    def _word(self) -> str:
        """Return the word at the current place, up to a space or bracket."""
        here = self.pointer
        before = self.buffer[max(0, here - _LONGEST) : here]
        after = self.buffer[here : here + _LONGEST]
        word = _WORD.split(before)[-1] + _WORD.split(after)[0]
        return word.rstrip('\0')

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Compose the next node with its children."""
        if self._depth == 1:
            # The index of a value is its name; a name has none.
            self._name = index
        event = self.first_event()
        self._check_size(event.start_mark)
        self._refuse_extras(event)
        if _is_alias(event):
            self.next_event()
            return self._refused_alias(event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _check_size(self, mark: problems.Mark) -> None:
        if self._depth == MAX_DEPTH:
            raise StopReading(
                mark,
                f'values are nested more than {MAX_DEPTH} levels deep',
                'the file needs three: paragraph, section, value',
            )
        self._count += 1
        if self._count > MAX_NODES:
            raise StopReading(
                mark,
                f'the file has more than {MAX_NODES} keys and values',
                'use wildcards, or leave out the slots of other hosts',
            )

    def _refuse_extras(self, event: Any) -> None:
        findings = self.findings_at(event.start_mark)
        if event.anchor is not None:
            findings.add(
                event.start_mark,
                f'&{yaml_nodes.to_printable(event.anchor)} is an anchor of '
                'YAML, which is not accepted',
                'leave it out; a value that begins with & has to be quoted',
            )
            event.anchor = None
        if event.tag is not None:
            findings.add(
                event.start_mark,
                'tags of YAML (!...) are not accepted',
                'leave the tag out; a value that begins with ! has to be '
                'quoted, and quotes make any value text',
            )
            event.tag = None

    def _refused_alias(self, event: Any) -> yaml.ScalarNode:
        mark = event.start_mark
        value = yaml_nodes.to_printable(event.value)
        self.findings_at(mark).add(
            mark,
            f'YAML reads {value} as an alias, which is not accepted',
            f'{yaml_nodes.hint_to_quote(event.value)}, if the star is a '
            'wildcard; otherwise write out what it stands for',
        )
        return yaml.ScalarNode(
            yaml_nodes.REFUSED_TAG, '', event.start_mark, event.end_mark, "'"
        )


def _is_alias(event: Any) -> bool:
    return (
        isinstance(event, yaml.ScalarEvent)
        and not event.style
        and event.value.startswith('*')
    )

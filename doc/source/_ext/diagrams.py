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

"""Draw trees and message sequences as SVG.

Graphviz is not needed: where the documents are built, it may be missing.
Colors and fonts come from the style sheet ``_static/nova-powervm.css``.
"""

import dataclasses
import itertools
import textwrap
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from xml.sax import saxutils

#: Width of a character of the labels, of a wide one, and height of a line, in
#: pixels. They suit the widest of the fonts that the style sheet names.
_CHARACTER = 7.2
_WIDE = 9.4
_LINE = 17
#: Space around a label in its box.
_PADDING = 9


@dataclasses.dataclass(frozen=True, slots=True)
class TreeNode:
    """One box of a tree.

    :param depth: 0 for the root.
    :param name: The first line of the box.
    :param details: The lines below it.
    """

    depth: int
    name: str
    details: tuple[str, ...]

    @property
    def height(self) -> int:
        """Height of the box in pixels."""
        return (1 + len(self.details)) * _LINE + 2 * _PADDING

    @property
    def width(self) -> float:
        """Width of the box in pixels."""
        return _text_width((self.name, *self.details)) + 2 * _PADDING


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One arrow of a sequence, or a step that one actor takes alone.

    :param source: Index of the actor that sends it.
    :param target: Index of the actor that gets it; for a step the same.
    :param text: Its label.
    """

    source: int
    target: int
    text: str

    @property
    def is_step(self) -> bool:
        """Whether one actor does this alone."""
        return self.source == self.target


def parse_tree(lines: Iterable[str]) -> list[TreeNode]:
    """Read a tree: three spaces for each level, details after bars.

    :raises ValueError: A line is indented deeper than its parent allows.
    """
    found: list[TreeNode] = []
    for line in filter(str.strip, lines):
        name, *details = (part.strip() for part in line.split('|'))
        depth = (len(line) - len(line.lstrip())) // 3
        if depth > (found[-1].depth + 1 if found else 0):
            raise ValueError(f'no parent for this node: {line}')
        found.append(TreeNode(depth, name, tuple(details)))
    return found


def draw_tree(nodes: Sequence[TreeNode]) -> str:
    """Draw a tree with one box in each row, children below their parent."""
    indent, gap = 44, 14
    tops = list(
        itertools.accumulate((n.height + gap for n in nodes), initial=1)
    )
    parts: list[str] = []
    for row, node in enumerate(nodes):
        x, y = 1 + node.depth * indent, tops[row]
        if node.depth:
            parent = _parent(nodes, row)
            stem = 1 + (node.depth - 1) * indent + indent / 2
            middle = y + node.height / 2
            start = tops[parent] + nodes[parent].height
            parts.append(
                f'<path class="line" d="M{stem} {start}V{middle}H{x}"/>'
            )
        parts.append(_box(x, y, node.width, node.height))
        parts += _lines(x + _PADDING, y + _PADDING, (node.name,), 'name')
        parts += _lines(x + _PADDING, y + _PADDING + _LINE, node.details)
    width = max(1 + n.depth * indent + n.width for n in nodes)
    return _svg(width + 1, tops[-1] - gap + 1, parts)


def _parent(nodes: Sequence[TreeNode], row: int) -> int:
    depth = nodes[row].depth - 1
    return max(i for i in range(row) if nodes[i].depth == depth)


def parse_sequence(
    lines: Iterable[str],
) -> tuple[list[str], list[Message]]:
    """Read a sequence: a line of actors, then ``a -> b: text`` lines.

    ``a: text`` is a step that an actor takes alone.

    :raises ValueError: A line names an actor that is not in the first line.
    """
    first, *rest = filter(str.strip, lines)
    actors = [name.strip() for name in first.split(',')]
    messages = []
    for line in rest:
        who, _, text = line.partition(':')
        source, _, target = (part.strip() for part in who.partition('->'))
        messages.append(
            Message(
                actors.index(source),
                actors.index(target or source),
                text.strip(),
            )
        )
    return actors, messages


def draw_sequence(actors: Sequence[str], messages: Sequence[Message]) -> str:
    """Draw actors as columns, and their messages from top to bottom."""
    column, head = 186, 40
    parts: list[str] = []
    y = head + 14.0
    for message in messages:
        drawn, y = _message(message, column, y)
        parts += drawn
    lines = []
    for index, name in enumerate(actors):
        x = (index + 0.5) * column
        lines.append(f'<path class="life" d="M{x} {head}V{y}"/>')
        lines.append(_box(x - column / 2 + 6, 1, column - 12, head - 1))
        lines.append(_text(x, 25, name, 'name middle'))
    return _svg(len(actors) * column, y + 6, lines + parts)


def _message(
    message: Message, column: float, y: float
) -> tuple[list[str], float]:
    """Draw one message below ``y``; give what is drawn, and where it ends."""
    start = (message.source + 0.5) * column
    end = (message.target + 0.5) * column
    room = column - 24 if message.is_step else abs(end - start) - 20
    label = textwrap.wrap(message.text, int(room / _CHARACTER * 1.12))
    below = y + len(label) * _LINE
    if message.is_step:
        height = len(label) * _LINE + 10
        box = _box(start - column / 2 + 6, y, column - 12, height, 'step')
        text = _lines(start, y + 4, label, 'middle')
        return [box, *text], y + height + 12
    text = _lines((start + end) / 2, y, label, 'middle back')
    side = 7 if end > start else -7
    arrow = (
        f'<path class="line" d="M{start} {below + 5}H{end}"/>'
        f'<path class="head" d="M{end} {below + 5}l{-side} -4v8z"/>'
    )
    return [*text, arrow], below + 22


def _text_width(lines: Iterable[str]) -> float:
    return max(
        sum(_WIDE if c.isupper() else _CHARACTER for c in line)
        for line in lines
    )


def _box(
    x: float, y: float, width: float, height: float, kind: str = 'box'
) -> str:
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" '
        f'height="{height:g}" rx="4"/>'
    )


def _lines(
    x: float, y: float, lines: Iterable[str], kind: str = ''
) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield _text(x, y + 13 + number * _LINE, line, kind)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}">'
        f'{saxutils.escape(text)}</text>'
    )


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:g} {height:g}" '
        f'style="width: {width:g}px" aria-hidden="true">'
        f'{"".join(parts)}</svg>'
    )

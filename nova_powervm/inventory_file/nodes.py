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

"""What all parts of the file have in common: mappings, lists and text."""

import difflib
from collections.abc import Collection
from collections.abc import Iterator

import yaml

from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import readings
from nova_powervm.inventory_file import words

#: Tag of the node that stands where an alias stood; its problem is known.
REFUSED_TAG = 'refused'

# Longer than any name that PowerVM or Placement knows.
_LONGEST = 255
_LONGEST_SHOWN = 60

Entry = tuple[str, yaml.Node, yaml.Node]


def quoted(value: str) -> str:
    """Write a value in YAML's single quotes."""
    return "'" + value.replace("'", "''") + "'"


def quote_it(value: str) -> str:
    """Give the hint to quote a value, in its quoted form if it is sane."""
    return f'quote it: {quoted(value)}' if _is_sane(value) else 'quote it'


def _is_sane(value: str) -> bool:
    return value.isprintable() and len(value) <= _LONGEST


def plain(value: str) -> str:
    """Bring any text of the file into a form that is fit for a log line."""
    safe = value if value.isprintable() else ascii(value)[1:-1]
    if len(safe) > _LONGEST_SHOWN:
        safe = safe[:_LONGEST_SHOWN] + '...'
    return safe


def shown(value: str) -> str:
    """Do as :func:`plain`, and put it in quotes."""
    return f"'{plain(value)}'"


def is_refused(node: yaml.Node) -> bool:
    """Whether the node's problem is already known."""
    return node.tag == REFUSED_TAG


def is_blank(node: yaml.Node) -> bool:
    """Whether nothing at all is written where a value belongs."""
    return node.tag == readings.NULL and node.value == ''


def form(node: yaml.Node) -> str:
    """Say in words what a node is."""
    if isinstance(node, yaml.MappingNode):
        return 'a mapping'
    if isinstance(node, yaml.SequenceNode):
        return 'a list'
    return 'empty' if is_blank(node) else 'a single value'


def refuse_form(
    node: yaml.Node, findings: problems.Findings, what: str, accepted: str
) -> None:
    """Note that a section is a list, say, where it has to be a mapping."""
    if not is_refused(node):
        findings.add(node.start_mark, f'{what} is {form(node)}', accepted)
    check_unused(node, findings)


def text(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> str | None:
    """Read a scalar as text, exactly as it is written.

    :param node: The node.
    :param findings: Gets what is wrong with it.
    :param subject: What the value is of, for messages.
    :param accepted: What is accepted, for messages.
    :returns: The text; None if there is a problem.
    """
    if is_refused(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        findings.add(node.start_mark, f'{subject} is {form(node)}', accepted)
        check_unused(node, findings)
        return None
    value = str(node.value)
    if not value:
        findings.add(node.start_mark, f'{subject} has no value', accepted)
        return None
    if not _is_sane(value):
        findings.add(
            node.start_mark,
            f'{subject}: {shown(value)} is longer than {_LONGEST} characters '
            'or has line breaks or characters that are not printable',
            accepted,
        )
        return None
    other = readings.other_than_text(node)
    if other:
        findings.add(
            node.start_mark,
            f'{subject}: YAML reads {plain(value)} as {other}, not as text',
            f'{quote_it(value)}; {accepted}',
        )
        return None
    return value


def boolean(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> bool | None:
    """Read a scalar as true or false.

    :param node: The node.
    :param findings: Gets what is wrong with it.
    :param subject: The key it is the value of, for messages.
    :param accepted: What is accepted, for messages.
    :returns: What it says; None if there is a problem.
    """
    if is_refused(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        findings.add(node.start_mark, f'{subject} is {form(node)}', accepted)
        check_unused(node, findings)
        return None
    value = str(node.value)
    if value not in words.BOOLEANS:
        what = f'is {shown(value)}' if value else 'has no value'
        findings.add(node.start_mark, f'{subject} {what}', accepted)
    elif node.style:
        findings.add(
            node.start_mark,
            f'{subject} is {shown(value)} in quotes, which make it text',
            f'leave the quotes out: {value}; {accepted}',
        )
    else:
        return words.BOOLEANS[value]
    return None


def entries(
    node: yaml.MappingNode,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> Iterator[Entry]:
    """Go through a mapping, whose keys are text and differ.

    What a bad or doubled key stands for is given nevertheless, so that the
    problems in there are found, too.

    :param subject: What a key of this mapping is, for messages.
    :param accepted: What is accepted as key, for messages.
    :returns: Key, the key's node and the value's.
    """
    first_lines: dict[str, int] = {}
    for key_node, value in node.value:
        key = _key(key_node, findings, subject, accepted)
        if key is None:
            check_unused(value, findings)
            continue
        if key in first_lines:
            findings.add(
                key_node.start_mark,
                f'{subject} {shown(key)} stands there twice, first in line '
                f'{first_lines[key]}',
                'give each its own name, or leave one of them out',
            )
        first_lines.setdefault(key, key_node.start_mark.line + 1)
        yield key, key_node, value


def _key(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> str | None:
    """Read a key; None if it can't even be named."""
    if node.tag == readings.MERGE:
        findings.add(
            node.start_mark,
            '<< is a merge key of YAML, which is not accepted',
            'write the keys out',
        )
        return None
    key = text(node, findings, subject, accepted)
    if key is None and isinstance(node, yaml.ScalarNode):
        return None if is_refused(node) else str(node.value)
    return key


def check_unused(node: yaml.Node, findings: problems.Findings) -> None:
    """Look for doubled keys in a part that is not understood otherwise."""
    if isinstance(node, yaml.MappingNode):
        for _, _, value in entries(node, findings, 'key', 'keys are text'):
            check_unused(value, findings)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            check_unused(item, findings)


def nearest(word: str, known: Collection[str]) -> str | None:
    """Find the word that was probably meant."""
    found = difflib.get_close_matches(word, known, n=1)
    return found[0] if found else None

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

"""Reads mappings, text and booleans from YAML nodes."""

import difflib
from collections.abc import Collection
from collections.abc import Iterator

import yaml

from nova_powervm.inventory_file import file_keywords
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_types

#: Tag of the node that replaces a refused alias.
REFUSED_TAG = 'refused'

# Maximum length of a name in PowerVM and Placement.
_LONGEST = 255
_LONGEST_SHOWN = 60

Entry = tuple[str, yaml.Node, yaml.Node]


def quote_yaml(value: str) -> str:
    """Put a value in YAML's single quotes."""
    return "'" + value.replace("'", "''") + "'"


def hint_to_quote(value: str) -> str:
    """Return the hint to quote a value, with its quoted form if possible."""
    return f'quote it: {quote_yaml(value)}' if _is_sane(value) else 'quote it'


def _is_sane(value: str) -> bool:
    return value.isprintable() and len(value) <= _LONGEST


def to_printable(value: str) -> str:
    """Escape and shorten text of the file for a log line."""
    safe = value if value.isprintable() else ascii(value)[1:-1]
    if len(safe) > _LONGEST_SHOWN:
        safe = safe[:_LONGEST_SHOWN] + '...'
    return safe


def quote_printable(value: str) -> str:
    """Escape and shorten text as :func:`to_printable`, and quote it."""
    return f"'{to_printable(value)}'"


def is_refused(node: yaml.Node) -> bool:
    """Return whether the node replaces a refused alias."""
    return node.tag == REFUSED_TAG


def is_blank(node: yaml.Node) -> bool:
    """Return whether the value is missing in the text."""
    return node.tag == yaml_types.NULL and node.value == ''


def describe_form(node: yaml.Node) -> str:
    """Describe the form of a node in words."""
    if isinstance(node, yaml.MappingNode):
        return 'a mapping'
    if isinstance(node, yaml.SequenceNode):
        return 'a list'
    return 'empty' if is_blank(node) else 'a single value'


def add_wrong_form(
    node: yaml.Node, findings: problems.Findings, what: str, accepted: str
) -> None:
    """Report that a section has the wrong form, such as a list."""
    if not is_refused(node):
        findings.add(
            node.start_mark, f'{what} is {describe_form(node)}', accepted
        )
    check_nested_keys(node, findings)


def read_text(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> str | None:
    """Read a scalar as text, exactly as it is written.

    :param node: The node.
    :param findings: Collects the problems.
    :param subject: Name of the value, for messages.
    :param accepted: Accepted values, for messages.
    :returns: The text; None if it is invalid.
    """
    if is_refused(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        add_wrong_form(node, findings, subject, accepted)
        return None
    value = str(node.value)
    if not value:
        findings.add(node.start_mark, f'{subject} has no value', accepted)
        return None
    if not _is_sane(value):
        findings.add(
            node.start_mark,
            f'{subject}: {quote_printable(value)} is longer than {_LONGEST} '
            'characters or has line breaks or characters that are not '
            'printable',
            accepted,
        )
        return None
    other = yaml_types.find_other_type(node)
    if other:
        findings.add(
            node.start_mark,
            f'{subject}: YAML reads {to_printable(value)} as {other}, not as '
            'text',
            f'{hint_to_quote(value)}; {accepted}',
        )
        return None
    return value


def read_boolean(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> bool | None:
    """Read a scalar as a boolean.

    :param node: The node.
    :param findings: Collects the problems.
    :param subject: Key of the value, for messages.
    :param accepted: Accepted values, for messages.
    :returns: The boolean; None if it is invalid.
    """
    if is_refused(node):
        return None
    if not isinstance(node, yaml.ScalarNode):
        add_wrong_form(node, findings, subject, accepted)
        return None
    value = str(node.value)
    if value not in file_keywords.BOOLEANS:
        what = f'is {quote_printable(value)}' if value else 'has no value'
        findings.add(node.start_mark, f'{subject} {what}', accepted)
    elif node.style:
        findings.add(
            node.start_mark,
            f'{subject} is {quote_printable(value)} in quotes, which make it '
            'text',
            f'leave the quotes out: {value}; {accepted}',
        )
    else:
        return file_keywords.BOOLEANS[value]
    return None


def iterate_entries(
    node: yaml.MappingNode,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> Iterator[Entry]:
    """Iterate over a mapping, whose keys must be text and unique.

    Values of invalid and duplicate keys are included, so that their problems
    are found, too.

    :param node: The mapping.
    :param findings: Collects the problems.
    :param subject: Name of a key of this mapping, for messages.
    :param accepted: Accepted keys, for messages.
    :returns: Key, node of the key, and node of the value.
    """
    first_lines: dict[str, int] = {}
    for key_node, value in node.value:
        key = _key(key_node, findings, subject, accepted)
        if key is None:
            check_nested_keys(value, findings)
            continue
        if key in first_lines:
            findings.add(
                key_node.start_mark,
                f'{subject} {quote_printable(key)} appears twice, '
                f'first in line {first_lines[key]}',
                'give each its own name, or remove one of them',
            )
        first_lines.setdefault(key, key_node.start_mark.line + 1)
        yield key, key_node, value


def _key(
    node: yaml.Node,
    findings: problems.Findings,
    subject: str,
    accepted: str,
) -> str | None:
    """Read a key; return None if it has no text."""
    if node.tag == yaml_types.MERGE:
        findings.add(
            node.start_mark,
            '<< is a merge key of YAML, which is not accepted',
            'write the keys out',
        )
        return None
    key = read_text(node, findings, subject, accepted)
    if key is None and isinstance(node, yaml.ScalarNode):
        return None if is_refused(node) else str(node.value)
    return key


def check_nested_keys(node: yaml.Node, findings: problems.Findings) -> None:
    """Report duplicate keys in a part that is not parsed otherwise."""
    if isinstance(node, yaml.MappingNode):
        for _, _, value in iterate_entries(
            node, findings, 'key', 'keys are text'
        ):
            check_nested_keys(value, findings)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            check_nested_keys(item, findings)


def find_nearest(word: str, known: Collection[str]) -> str | None:
    """Find the known word that is most similar."""
    found = difflib.get_close_matches(word, known, n=1)
    return found[0] if found else None

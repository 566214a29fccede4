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

"""Text of an inventory file to a policy (specification, "Device
Identification and Whitelisting").
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import yaml

from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_keywords
from nova_powervm.inventory_file import identification
from nova_powervm.inventory_file import paragraph_values
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file import yaml_nodes

#: Bytes of the largest file that is read.
MAX_BYTES = 1024 * 1024

_REQUIRED_KEY, *_OPTIONAL_KEYS = file_keywords.PARAGRAPH_KEYS
_KEYS_ACCEPTED = (
    f'a paragraph takes {_REQUIRED_KEY}, which is required, '
    f'{", ".join(_OPTIONAL_KEYS[:-1])} and {_OPTIONAL_KEYS[-1]}'
)
_DENIAL_KEYS = ('identification', 'allow')
_DENIAL_ACCEPTED = (
    'a paragraph with allow: false takes identification and nothing else'
)
_FILE_ACCEPTED = (
    'the file is a mapping of paragraph names to paragraphs; ' + _KEYS_ACCEPTED
)
_NAME_ACCEPTED = 'a paragraph has a name of text, such as gpus, and a colon'


def parse(text: str | bytes, source: str) -> policy.Policy:
    """Read the text of an inventory file.

    :param text: The text; bytes are UTF-8, with or without a byte order
        mark. Nothing but white space and comments is an empty policy.
    :param source: Where it is from: the file's path or a name like
        ``<stdin>``. It stands in messages and in the policy.
    :returns: The policy, with its paragraphs in the order of the text.
    :raises nova_powervm.exception.PolicyInvalid: The text has problems. The
        error's field ``problems`` is a tuple of all of them, each a
        :class:`~.problems.Problem`; its text has one line for each.
    """
    _check_size(text, source)
    if isinstance(text, bytes):
        text = _decode(text, source)
    findings = problems.Findings()
    paragraphs: tuple[policy.Paragraph, ...] = ()
    with contextlib.suppress(problems.TooManyProblems):
        root = yaml_document.compose_document(text, findings)
        if root is not None:
            paragraphs = _read_root(root, findings)
    findings.raise_any(source)
    return policy.Policy(paragraphs=paragraphs, source=source)


def _check_size(text: str | bytes, source: str) -> None:
    content = (
        text.encode(errors='surrogatepass') if isinstance(text, str) else text
    )
    if len(content) > MAX_BYTES:
        problem = problems.Problem(
            what=f'the file is larger than {MAX_BYTES} bytes',
            hint='check that it is the right file, which '
            '[powervm]inventory_file names',
        )
        raise problems.make_policy_error(source, problem)


def _decode(text: bytes, source: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start]
        problem = problems.Problem(
            line=before.count(b'\n') + 1,
            column=len(before) - before.rfind(b'\n'),
            what=f'byte 0x{text[error.start]:02X} is not UTF-8',
            hint='save the file with the encoding UTF-8',
        )
        raise problems.make_policy_error(source, problem) from error


def _read_root(
    root: yaml.Node, findings: problems.Findings
) -> tuple[policy.Paragraph, ...]:
    if yaml_nodes.is_blank(root):
        return ()
    if not isinstance(root, yaml.MappingNode):
        if not yaml_nodes.is_refused(root):
            findings.add(
                root.start_mark,
                f'the file is {yaml_nodes.describe_form(root)}',
                _FILE_ACCEPTED,
            )
        yaml_nodes.check_nested_keys(root, findings)
        return ()
    return tuple(
        _read_paragraph(name, name_node, node, findings)
        for name, name_node, node in yaml_nodes.iterate_entries(
            root, findings, 'paragraph name', _NAME_ACCEPTED
        )
    )


def _read_paragraph(
    name: str,
    name_node: yaml.Node,
    node: yaml.Node,
    outer: problems.Findings,
) -> policy.Paragraph:
    findings = outer.within(yaml_nodes.to_printable(name))
    paragraph = policy.Paragraph(
        name=name, identification={}, line=name_node.start_mark.line + 1
    )
    if not isinstance(node, yaml.MappingNode):
        if not yaml_nodes.is_refused(node):
            findings.add(
                name_node.start_mark,
                f'the paragraph is {yaml_nodes.describe_form(node)}',
                _KEYS_ACCEPTED,
            )
        yaml_nodes.check_nested_keys(node, findings)
        return paragraph
    key_nodes: dict[str, yaml.Node] = {}
    for key, key_node, value in yaml_nodes.iterate_entries(
        node, findings, 'key', _KEYS_ACCEPTED
    ):
        key_nodes[key] = key_node
        paragraph = _read_section(paragraph, key, key_node, value, findings)
    if 'identification' not in key_nodes:
        findings.add(
            name_node.start_mark,
            'the paragraph has no identification section',
            _KEYS_ACCEPTED,
        )
    if not paragraph.allow:
        _check_denial(key_nodes, findings)
    return paragraph


def _check_denial(
    key_nodes: Mapping[str, yaml.Node], findings: problems.Findings
) -> None:
    """Specification, "allow": beside false the others make no sense."""
    for key in file_keywords.PARAGRAPH_KEYS:
        if key in key_nodes and key not in _DENIAL_KEYS:
            findings.add(
                key_nodes[key].start_mark,
                f'{key} stands beside allow: false',
                f'{_DENIAL_ACCEPTED}: leave {key} out, or allow',
            )


def _read_section(
    paragraph: policy.Paragraph,
    key: str,
    key_node: yaml.Node,
    value: yaml.Node,
    findings: problems.Findings,
) -> policy.Paragraph:
    """Give the paragraph with one section more."""
    read: Any
    if key == 'identification':
        read = identification.read_identification(value, findings)
    elif key == 'resource_class':
        read = paragraph_values.read_resource_class(value, findings)
    elif key == 'traits':
        read = paragraph_values.read_traits(value, findings)
    elif key in ('allow', 'one_time_use'):
        read = paragraph_values.read_boolean(key, value, findings)
    else:
        _refuse_key(key, key_node, findings)
        yaml_nodes.check_nested_keys(value, findings)
        return paragraph
    if read is None:
        return paragraph
    return dataclasses.replace(paragraph, **{key: read})


def _refuse_key(
    key: str, key_node: yaml.Node, findings: problems.Findings
) -> None:
    if key in policy.PROPERTIES:
        hint = f'{key} belongs in the section identification'
    else:
        meant = yaml_nodes.find_nearest(
            key.lower(), file_keywords.PARAGRAPH_KEYS
        )
        guess = f'did you mean {meant}? ' if meant else ''
        hint = guess + _KEYS_ACCEPTED
    findings.add(
        key_node.start_mark,
        f'a paragraph has no key {yaml_nodes.quote_printable(key)}',
        hint,
    )

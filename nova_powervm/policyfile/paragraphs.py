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

import dataclasses

import yaml

from nova_powervm.domain import policy
from nova_powervm.policyfile import document
from nova_powervm.policyfile import nodes
from nova_powervm.policyfile import problems
from nova_powervm.policyfile import sections

_KEYS = ('identification', 'resource_class', 'traits')
_KEYS_ACCEPTED = (
    f'a paragraph takes {_KEYS[0]}, which is required, {_KEYS[1]} and '
    f'{_KEYS[2]}'
)
_FILE_ACCEPTED = (
    'the file is a mapping of paragraph names to paragraphs; ' + _KEYS_ACCEPTED
)
_NAME_ACCEPTED = 'a paragraph has a name of text, such as gpus, and a colon'
# Keys that a later version understands. A file that needs one must not be
# taken as if the key was not there: that would offer too much.
_NOT_YET = {
    'allow': (
        'to deny devices remove the whole paragraph, for what no paragraph '
        'identifies is denied; to allow them leave out the line with allow'
    ),
    'one_time_use': (
        'to keep used devices from other instances remove the whole '
        'paragraph; without the line they are offered again and again'
    ),
}


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
    if isinstance(text, bytes):
        text = _decode(text, source)
    findings = problems.Findings()
    root = document.compose(text, findings)
    paragraphs = _read_root(root, findings) if root is not None else ()
    findings.raise_any(source)
    return policy.Policy(paragraphs=paragraphs, source=source)


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
        raise problems.invalid(source, problem) from error


def _read_root(
    root: yaml.Node, findings: problems.Findings
) -> tuple[policy.Paragraph, ...]:
    if nodes.is_blank(root):
        return ()
    if not isinstance(root, yaml.MappingNode):
        if not nodes.is_refused(root):
            findings.add(
                root.start_mark,
                f'the file is {nodes.form(root)}',
                _FILE_ACCEPTED,
            )
        nodes.check_unused(root, findings)
        return ()
    return tuple(
        _read_paragraph(name, name_node, node, findings)
        for name, name_node, node in nodes.entries(
            root, findings, 'paragraph name', _NAME_ACCEPTED
        )
    )


def _read_paragraph(
    name: str,
    name_node: yaml.Node,
    node: yaml.Node,
    outer: problems.Findings,
) -> policy.Paragraph:
    findings = outer.within(nodes.plain(name))
    paragraph = policy.Paragraph(
        name=name, identification={}, line=name_node.start_mark.line + 1
    )
    if not isinstance(node, yaml.MappingNode):
        if not nodes.is_refused(node):
            findings.add(
                name_node.start_mark,
                f'the paragraph is {nodes.form(node)}',
                _KEYS_ACCEPTED,
            )
        nodes.check_unused(node, findings)
        return paragraph
    keys = set()
    for key, key_node, value in nodes.entries(
        node, findings, 'key', _KEYS_ACCEPTED
    ):
        keys.add(key)
        paragraph = _read_section(paragraph, key, key_node, value, findings)
    if 'identification' not in keys:
        findings.add(
            name_node.start_mark,
            'the paragraph has no identification section',
            _KEYS_ACCEPTED,
        )
    return paragraph


def _read_section(
    paragraph: policy.Paragraph,
    key: str,
    key_node: yaml.Node,
    value: yaml.Node,
    findings: problems.Findings,
) -> policy.Paragraph:
    """Give the paragraph with one section more."""
    if key == 'identification':
        return dataclasses.replace(
            paragraph,
            identification=sections.read_identification(value, findings),
        )
    if key == 'resource_class':
        name = sections.read_resource_class(value, findings)
        return dataclasses.replace(
            paragraph, resource_class=name or paragraph.resource_class
        )
    if key == 'traits':
        return dataclasses.replace(
            paragraph, traits=sections.read_traits(value, findings)
        )
    _refuse_key(key, key_node, findings)
    nodes.check_unused(value, findings)
    return paragraph


def _refuse_key(
    key: str, key_node: yaml.Node, findings: problems.Findings
) -> None:
    if key in _NOT_YET:
        what, hint = f'{key} is not understood yet', _NOT_YET[key]
    else:
        what = f'a paragraph has no key {nodes.shown(key)}'
        hint = _hint_for_key(key)
    findings.add(key_node.start_mark, what, hint)


def _hint_for_key(key: str) -> str:
    if key in policy.PROPERTIES:
        return f'{key} belongs into the section identification'
    meant = nodes.nearest(key.lower(), (*_KEYS, *_NOT_YET))
    guess = f'did you mean {meant}? ' if meant in _KEYS else ''
    return guess + _KEYS_ACCEPTED

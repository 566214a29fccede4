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

"""The sections of a paragraph (specification, "Device Identification")."""

from collections.abc import Callable
from collections.abc import Mapping

import os_resource_classes
import os_traits
import yaml

from nova_powervm.domain import policy
from nova_powervm.policyfile import nodes
from nova_powervm.policyfile import problems

_EXAMPLES = {
    'vendor_id': '10DE',
    'device_id': '1DB6',
    'subsys_vendor_id': '10DE',
    'subsys_device_id': '124A',
    'class': '0302',
    'revision_id': 'A1',
    'drc_index': '21010020',
    'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
}
_CLASS_ACCEPTED = (
    'resource_class takes CUSTOM_ and capital letters, digits or _, such as '
    'CUSTOM_GPU; or PGPU; or FPGA. Without the key it is '
    f'{policy.DEFAULT_RESOURCE_CLASS}'
)
_TRAIT_ACCEPTED = (
    'a trait is one of os-traits or CUSTOM_ and capital letters, digits or '
    '_, such as CUSTOM_FAST'
)
_IDENTIFICATION_ACCEPTED = (
    f'identification takes one or more of {", ".join(policy.PROPERTIES)}'
)
_TRAITS_ACCEPTED = (
    'traits takes a list with at least one name, such as [CUSTOM_FAST]; '
    'leave the section out if there is none'
)
# What the properties are called elsewhere, too unlike to be guessed.
_OTHER_WORDS = {
    'product_id': 'device_id',
    'subsys_product_id': 'subsys_device_id',
    'pci_rev_id': 'revision_id',
    'rev_id': 'revision_id',
    'location_code': 'drc_name',
    'location': 'drc_name',
    'address': 'drc_name',
}


def read_identification(
    node: yaml.Node, findings: problems.Findings
) -> Mapping[str, str]:
    """Read the section that says which slots a paragraph is about.

    :param node: The section's value.
    :param findings: Gets what is wrong with it.
    :returns: The good keys with their values, hex digits in upper case.
    """
    if not isinstance(node, yaml.MappingNode):
        _refuse_form(
            node, findings, 'identification', _IDENTIFICATION_ACCEPTED
        )
        return {}
    if not node.value:
        findings.add(
            node.start_mark,
            'identification is empty',
            _IDENTIFICATION_ACCEPTED,
        )
    found = {}
    for key, key_node, value_node in nodes.entries(
        node, findings, 'identification key', _IDENTIFICATION_ACCEPTED
    ):
        if key not in policy.PROPERTIES:
            _refuse_property(key, key_node, findings)
            nodes.check_unused(value_node, findings)
            continue
        value = _read_value(key, value_node, findings)
        if value is not None:
            found[key] = value
    return found


def _refuse_property(
    key: str, key_node: yaml.Node, findings: problems.Findings
) -> None:
    if key in ('resource_class', 'traits', 'identification'):
        hint = f'{key} belongs one level further out, into the paragraph'
    else:
        meant = _OTHER_WORDS.get(key.lower()) or nodes.nearest(
            key.lower(), policy.PROPERTIES
        )
        guess = f'did you mean {meant}? ' if meant else ''
        hint = guess + _IDENTIFICATION_ACCEPTED
    findings.add(
        key_node.start_mark,
        f'identification has no key {nodes.shown(key)}',
        hint,
    )


def _read_value(
    key: str, node: yaml.Node, findings: problems.Findings
) -> str | None:
    accepted = _value_accepted(key)
    value = nodes.text(node, findings, key, accepted)
    if value is None:
        return None
    if '*' in value or '?' in value:
        findings.add(
            node.start_mark,
            f'{key} {nodes.shown(value)} has a wildcard, and wildcards (* '
            'and ?) are not understood yet',
            f'write one paragraph for each whole value; {accepted}',
        )
        return None
    problem = policy.problem_with_value(key, value)
    if problem:
        findings.add(node.start_mark, problem, accepted)
        return None
    return policy.normal_value(key, value)


def _value_accepted(key: str) -> str:
    digits = policy.PROPERTIES[key].digits
    meaning = policy.PROPERTIES[key].meaning
    if digits is None:
        return (
            f'{key} ({meaning}) takes text as PowerVM reports it, such as '
            f'{nodes.quoted(_EXAMPLES[key])}'
        )
    return (
        f'{key} ({meaning}) takes {digits} hexadecimal digits without 0x, '
        f'such as {nodes.quoted(_EXAMPLES[key])}'
    )


def read_resource_class(
    node: yaml.Node, findings: problems.Findings
) -> str | None:
    """Read the name of a paragraph's resource class.

    :param node: The key's value.
    :param findings: Gets what is wrong with it.
    :returns: The name; None if there is a problem.
    """
    return _read_name(
        node,
        findings,
        ('resource_class', _CLASS_ACCEPTED),
        policy.problem_with_resource_class,
        _guess_class,
    )


def _guess_class(name: str) -> str | None:
    for guess in (name.upper(), os_resource_classes.normalize_name(name)):
        if not policy.problem_with_resource_class(guess):
            return str(guess)
    return None


def read_traits(
    node: yaml.Node, findings: problems.Findings
) -> tuple[str, ...]:
    """Read the list of a paragraph's own traits.

    :param node: The section's value.
    :param findings: Gets what is wrong with it.
    :returns: The good names, in the order of the file.
    """
    if not isinstance(node, yaml.SequenceNode):
        _refuse_form(node, findings, 'traits', _TRAITS_ACCEPTED)
        return ()
    if not node.value:
        findings.add(node.start_mark, 'traits is empty', _TRAITS_ACCEPTED)
    names: list[str] = []
    for item in node.value:
        name = _read_name(
            item,
            findings,
            ('trait', _TRAIT_ACCEPTED),
            policy.problem_with_trait,
            _guess_trait,
        )
        if name in names:
            findings.add(
                item.start_mark,
                f'trait {name} stands there twice',
                'leave one of them out',
            )
        elif name is not None:
            names.append(name)
    return tuple(names)


def _guess_trait(name: str) -> str | None:
    upper = name.upper()
    if not policy.problem_with_trait(upper):
        return upper
    standard = nodes.nearest(upper, os_traits.get_traits())
    if standard and not policy.problem_with_trait(standard):
        return standard
    return None


def _read_name(
    node: yaml.Node,
    findings: problems.Findings,
    subject: tuple[str, str],
    problem_with: Callable[[str], str | None],
    guess: Callable[[str], str | None],
) -> str | None:
    """Read the name of a class or trait; see the callers."""
    what, accepted = subject
    name = nodes.text(node, findings, what, accepted)
    if name is None:
        return None
    problem = problem_with(name)
    if not problem:
        return name
    meant = guess(name)
    hint = f'did you mean {meant}? ' if meant else ''
    findings.add(node.start_mark, problem, hint + accepted)
    return None


def _refuse_form(
    node: yaml.Node, findings: problems.Findings, what: str, accepted: str
) -> None:
    if not nodes.is_refused(node):
        findings.add(
            node.start_mark, f'{what} is {nodes.form(node)}', accepted
        )
    nodes.check_unused(node, findings)

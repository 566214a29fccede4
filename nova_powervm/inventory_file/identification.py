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

"""The section identification: which slots a paragraph is about
(specification, "identification").
"""

from collections.abc import Mapping

import yaml

from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_keywords
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_nodes

_ACCEPTED = (
    f'identification takes one or more of {", ".join(policy.PROPERTIES)}'
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
    """Read the section.

    :param node: The section's value.
    :param findings: Gets what is wrong with it.
    :returns: The good keys with their values or patterns, hex digits in
        upper case.
    """
    if not isinstance(node, yaml.MappingNode):
        yaml_nodes.add_wrong_form(node, findings, 'identification', _ACCEPTED)
        return {}
    if not node.value:
        findings.add(node.start_mark, 'identification is empty', _ACCEPTED)
    found = {}
    for key, key_node, value_node in yaml_nodes.iterate_entries(
        node, findings, 'identification key', _ACCEPTED
    ):
        if key not in policy.PROPERTIES:
            _refuse_property(key, key_node, findings)
            yaml_nodes.check_nested_keys(value_node, findings)
            continue
        value = _read_value(key, value_node, findings)
        if value is not None:
            found[key] = value
    return found


def _refuse_property(
    key: str, key_node: yaml.Node, findings: problems.Findings
) -> None:
    if key in file_keywords.PARAGRAPH_KEYS:
        hint = f'{key} belongs one level further out, into the paragraph'
    else:
        meant = _OTHER_WORDS.get(key.lower()) or yaml_nodes.find_nearest(
            key.lower(), policy.PROPERTIES
        )
        guess = f'did you mean {meant}? ' if meant else ''
        hint = guess + _ACCEPTED
    findings.add(
        key_node.start_mark,
        f'identification has no key {yaml_nodes.quote_printable(key)}',
        hint,
    )


def _read_value(
    key: str, node: yaml.Node, findings: problems.Findings
) -> str | None:
    accepted = _value_accepted(key)
    value = yaml_nodes.read_text(node, findings, key, accepted)
    if value is None:
        return None
    problem = policy.problem_with_value(key, value)
    if problem:
        findings.add(node.start_mark, problem, accepted)
        return None
    return policy.normal_value(key, value)


def _value_accepted(key: str) -> str:
    digits = policy.PROPERTIES[key].digits
    meaning = policy.PROPERTIES[key].meaning
    form = (
        f'{digits} hexadecimal digits without 0x'
        if digits
        else 'text as PowerVM reports it'
    )
    return (
        f'{key} ({meaning}) takes {form}, such as '
        f'{yaml_nodes.quote_yaml(file_keywords.EXAMPLES[key])}; * stands for '
        'any characters and ? for one'
    )

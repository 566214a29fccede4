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

"""The sections of a paragraph that say what its devices are offered as
(specification, "allow", "resource_class" and "traits").
"""

from collections.abc import Callable

import os_resource_classes
import os_traits
import yaml

from nova_powervm.devices import policy
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_nodes

_CLASS_ACCEPTED = (
    'resource_class takes CUSTOM_ and capital letters, digits or _, such as '
    'CUSTOM_GPU; or PGPU; or FPGA. Without the key it is '
    f'{policy.DEFAULT_RESOURCE_CLASS}'
)
_TRAIT_ACCEPTED = (
    'a trait is one of os-traits or CUSTOM_ and capital letters, digits or '
    '_, such as CUSTOM_FAST'
)
_TRAITS_ACCEPTED = (
    'traits takes a list with at least one name, such as [CUSTOM_FAST]; '
    'leave the section out if there is none'
)
_BOOLEANS_ACCEPTED = {
    'allow': (
        'allow takes true, which is the default, or false, which denies what '
        'the paragraph identifies; yes and no are accepted, too'
    ),
    'one_time_use': (
        'one_time_use takes true, which keeps a device back once an instance '
        'has used it, or false, which is the default; yes and no are '
        'accepted, too'
    ),
}
_INSTEAD = {
    'HW_PCI_ONE_TIME_USE': 'write one_time_use: true into the paragraph; ',
}


def read_boolean(
    key: str, node: yaml.Node, findings: problems.Findings
) -> bool | None:
    """Read the value of allow or one_time_use.

    :param key: Which of the two.
    :param node: The key's value.
    :param findings: Gets what is wrong with it.
    :returns: What it says; None if there is a problem.
    """
    return yaml_nodes.read_boolean(
        node, findings, key, _BOOLEANS_ACCEPTED[key]
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
        yaml_nodes.add_wrong_form(node, findings, 'traits', _TRAITS_ACCEPTED)
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
                f'trait {name} appears twice',
                'leave one of them out',
            )
        elif name is not None:
            names.append(name)
    return tuple(names)


def _guess_trait(name: str) -> str | None:
    upper = name.upper()
    if not policy.problem_with_trait(upper):
        return upper
    standard = yaml_nodes.find_nearest(upper, os_traits.get_traits())
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
    name = yaml_nodes.read_text(node, findings, what, accepted)
    if name is None:
        return None
    problem = problem_with(name)
    if not problem:
        return name
    hint = _INSTEAD.get(name, '')
    if not hint and (meant := guess(name)):
        hint = f'did you mean {meant}? '
    findings.add(node.start_mark, problem, hint + accepted)
    return None

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

"""Says in words what does not fit the schema of the file."""

import difflib
from collections.abc import Callable
from collections.abc import Collection
from typing import Any
from typing import NamedTuple

import os_resource_classes
import os_traits
import yaml

from nova_powervm.devices import policy
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file.problems import Code
from nova_powervm.inventory_file.problems import Message

# Maximum length of names and values, as in PowerVM and Placement.
_LONGEST = 255
_PARAGRAPH_KEYS = (
    'identification',
    'allow',
    'resource_class',
    'traits',
    'one_time_use',
)
# Names of properties elsewhere that are too different to be guessed.
_OTHER_WORDS = {
    'product_id': 'device_id',
    'subsys_product_id': 'subsys_device_id',
    'pci_rev_id': 'revision_id',
    'rev_id': 'revision_id',
    'location_code': 'drc_name',
    'location': 'drc_name',
    'address': 'drc_name',
}


class Misfit(NamedTuple):
    """A value that does not fit the schema.

    :param subject: The name of the value.
    :param node: The node of the value.
    :param value: The value as data.
    :param wanted: The argument of the keyword in the schema.
    :param accepted: The accepted values in words.
    """

    subject: str
    node: yaml.Node
    value: Any
    wanted: Any
    accepted: str


def describe(keyword: str, misfit: Misfit) -> Message:
    """Say what is wrong with a value, and what to do about it.

    :param keyword: The keyword of the schema that it breaks.
    """
    message = MESSAGES[keyword]
    if not isinstance(message, tuple):
        return message(misfit)
    code, what, hint = message
    values = misfit._asdict() | {
        'value': problems.to_printable(str(misfit.value))
    }
    return code, what.format(**values), hint.format(**values)


def _describe_type(misfit: Misfit) -> Message:
    subject, node, _, wanted, accepted = misfit
    if wanted != 'string' or not isinstance(node, yaml.ScalarNode):
        if yaml_document.is_blank(node):
            return Code.EMPTY, f'{subject} is empty', accepted
        form = _FORMS.get(type(node), 'a single value')
        return Code.WRONG_FORM, f'{subject} is {form}', accepted
    text = problems.to_printable(node.value)
    if not text:
        return Code.EMPTY, f'{subject} has no value', accepted
    if not node.value.isprintable():
        what = f"{subject}: '{text}' has line breaks or characters that are "
        return Code.NOT_PRINTABLE, what + 'not printable', accepted
    kind = yaml_document.find_other_type(node)
    what = f'{subject}: YAML reads {text} as {kind}, not as text'
    hint = f'{problems.hint_to_quote(node.value)}; {accepted}'
    return Code.NEEDS_QUOTES, what, hint


def _describe_boolean(misfit: Misfit) -> Message:
    subject, node, _, _, accepted = misfit
    if not isinstance(node, yaml.ScalarNode):
        return _describe_type(misfit)
    if not node.value:
        return Code.EMPTY, f'{subject} has no value', accepted
    what = f"{subject} is '{problems.to_printable(node.value)}'"
    if node.value in yaml_document.BOOLEANS:
        what += ' in quotes, which make it text'
        accepted = f'leave the quotes out: {node.value}; {accepted}'
    return Code.BAD_BOOLEAN, what, accepted


def _describe_text(misfit: Misfit) -> Message:
    """Describe a text in the words of the policy's rules."""
    subject, _, value, _, accepted = misfit
    if not value:
        return Code.EMPTY, f'{subject} has no value', accepted
    if len(value) > _LONGEST:
        text = problems.to_printable(value)
        what = f"{subject}: '{text}' is longer than {_LONGEST} characters"
        return Code.TOO_LONG, what, accepted
    # The rules are those of the schema. If they differ, the value is refused.
    doubt = f'{subject} is not accepted'
    if subject == 'trait':
        what = policy.problem_with_trait(value) or doubt
        return Code.BAD_TRAIT, what, _hint_for_trait(value) + accepted
    if subject == 'resource_class':
        what = policy.problem_with_resource_class(value) or doubt
        return Code.BAD_RESOURCE_CLASS, what, _hint_for_class(value) + accepted
    what = policy.problem_with_value(subject, value) or doubt
    return Code.BAD_VALUE, what, accepted


_FORMS: dict[type[yaml.Node], str] = {
    yaml.MappingNode: 'a mapping',
    yaml.SequenceNode: 'a list',
}
#: The message for each keyword of the schema, or what makes it.
MESSAGES: dict[str, Message | Callable[[Misfit], Message]] = {
    'type': _describe_type,
    'enum': _describe_boolean,
    # A text that breaks several of these has one problem.
    'minLength': _describe_text,
    'maxLength': _describe_text,
    'pattern': _describe_text,
    'format': _describe_text,
    'required': (
        Code.MISSING_KEY,
        '{subject} has no {wanted[0]} section',
        '{accepted}',
    ),
    'minProperties': (Code.EMPTY, '{subject} is empty', '{accepted}'),
    'minItems': (Code.EMPTY, '{subject} is empty', '{accepted}'),
    'uniqueItems': (
        Code.DOUBLED_TRAIT,
        '{subject} {value} appears twice',
        'remove one of them',
    ),
    'not': (
        Code.BESIDE_DENIAL,
        '{subject} stands beside allow: false',
        '{accepted}: remove {subject}, or remove allow',
    ),
}


def describe_unknown_key(
    key: str, keys: Collection[str], accepted: str
) -> Message:
    """Describe a key that a paragraph or an identification does not take.

    :param key: The key.
    :param keys: The keys that are accepted there.
    :param accepted: These keys in words.
    """
    where, hint = 'a paragraph', ''
    if 'identification' not in keys:
        where = 'identification'
        if key in _PARAGRAPH_KEYS:
            hint = f'{key} belongs one level further out, in the paragraph'
    elif key in policy.PROPERTIES:
        hint = f'{key} belongs in the section identification'
    meant = _OTHER_WORDS.get(key.lower())
    if meant not in keys:
        meant = _find_nearest(key.lower(), keys)
    what = f"{where} has no key '{problems.to_printable(key)}'"
    return Code.UNKNOWN_KEY, what, hint or _ask(meant) + accepted


def _hint_for_class(name: str) -> str:
    guesses = (name.upper(), os_resource_classes.normalize_name(name))
    return _ask(next(filter(policy.may_be_device, guesses), None))


def _hint_for_trait(name: str) -> str:
    if name == 'HW_PCI_ONE_TIME_USE':
        return 'write one_time_use: true into the paragraph; '
    upper = name.upper()
    guesses = (upper, _find_nearest(upper, os_traits.get_traits()) or upper)
    problem = policy.problem_with_trait
    return _ask(next((m for m in guesses if not problem(m)), None))


def _find_nearest(word: str, words: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, words, n=1)), None)


def _ask(meant: str | None) -> str:
    return f'did you mean {meant}? ' if meant else ''

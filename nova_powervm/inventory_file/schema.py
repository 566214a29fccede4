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

"""Builds the JSON schema of the inventory file for editors and other tools.

``inventory.schema.json`` beside this module is what :func:`build_schema`
gives. To generate it again, or for the installed version of os-traits::

    python3 -m nova_powervm.inventory_file.schema
"""

import importlib.resources
import json
from typing import Any

import os_traits

from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_keywords
from nova_powervm.inventory_file import paragraphs
from nova_powervm.inventory_file import yaml_loader

#: Rules that the schema can't express, but the parser checks. A schema applies
#: to the values, for which a YAML parser has dropped duplicate keys, expanded
#: aliases and removed quotes.
RULES_BEYOND_SCHEMA = {
    'duplicate keys': (
        'No mapping has the same key twice, and no two paragraphs have the '
        'same name.'
    ),
    'parts of YAML': (
        'Anchors, merge keys, tags and a second document are refused.'
    ),
    'quotes around text': (
        'A value that any version of YAML reads as something other than text '
        'needs quotes, even if your editor reads it as text.'
    ),
    'no quotes around booleans': (
        'The values of ``allow`` and ``one_time_use`` must not be quoted, and '
        'are true, false, yes or no, not ``on`` or ``off``.'
    ),
    'printable text': (
        'Names and values have no control characters, line breaks or other '
        'characters that are not printable.'
    ),
    'standard traits': (
        'A standard trait has to be in the release of os-traits that is '
        'installed with nova-compute, which may differ from the one that '
        'the schema was built with.'
    ),
    'nothing': (
        'A file without paragraphs contains only comments, not the word null.'
    ),
    'size': (
        f'The file has at most {paragraphs.MAX_BYTES} bytes, in UTF-8, and '
        f'{yaml_loader.MAX_NODES} keys and values.'
    ),
}

_NAME = 'inventory.schema.json'
_HEX = '[0-9A-Fa-f?]'
_CUSTOM = 'CUSTOM_[A-Z0-9_]+'
_LONGEST = 255
_WILDCARDS = (
    'The wildcards * (any characters, or none) and ? (one character) may '
    'stand anywhere in it. A property that the host does not report matches '
    'nothing, not even *.'
)


def build_schema() -> dict[str, Any]:
    """Build the schema from the rules of the policy.

    :returns: A schema of draft 2020-12.
    """
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        '$id': 'urn:nova-powervm:inventory.schema.json',
        'title': 'Inventory file of nova-powervm',
        'description': (
            'The physical I/O slots of one PowerVM host that instances may '
            'get: paragraph names to paragraphs. A device that no paragraph '
            'identifies is not offered.'
        ),
        'type': ['object', 'null'],
        'propertyNames': {
            'type': 'string',
            'minLength': 1,
            'maxLength': _LONGEST,
        },
        'additionalProperties': {'$ref': '#/$defs/paragraph'},
        '$defs': {
            'paragraph': _paragraph(),
            'identification': _identification(),
            'boolean': {
                'enum': [True, False, *file_keywords.YES, *file_keywords.NO]
            },
        },
    }


def _paragraph() -> dict[str, Any]:
    return {
        'title': 'Paragraph',
        'description': (
            'Which slots it is about, and what they are offered as. Its name '
            'is any text that differs from the names of the others.'
        ),
        'type': 'object',
        'required': ['identification'],
        'additionalProperties': False,
        'properties': {
            'identification': {'$ref': '#/$defs/identification'},
            'allow': {
                'description': (
                    'Whether devices that the paragraph identifies are '
                    'offered (true) or denied (false), whatever other '
                    'paragraphs say. With false, identification is the only '
                    'other key.'
                ),
                'default': True,
                '$ref': '#/$defs/boolean',
            },
            'resource_class': _resource_class(),
            'traits': _traits(),
            'one_time_use': {
                'description': (
                    'Whether a device is kept back once an instance has used '
                    'it, until an operator releases it.'
                ),
                'default': False,
                '$ref': '#/$defs/boolean',
            },
        },
        'if': {
            'type': 'object',
            'required': ['allow'],
            'properties': {'allow': {'enum': [False, *file_keywords.NO]}},
        },
        'then': {
            'properties': {
                'resource_class': False,
                'traits': False,
                'one_time_use': False,
            }
        },
    }


def _identification() -> dict[str, Any]:
    return {
        'title': 'Identification',
        'description': (
            'Properties of the slot and the device in it. A slot has to '
            'match all that are given.'
        ),
        'type': 'object',
        'minProperties': 1,
        'additionalProperties': False,
        'properties': {
            key: _property(key, known)
            for key, known in policy.PROPERTIES.items()
        },
    }


def _property(key: str, known: policy.Property) -> dict[str, Any]:
    if known.digits is None:
        form, pattern = 'Text as PowerVM reports it.', r'^[^\s](.*[^\s])?$'
    else:
        form = (
            f'{known.digits} hexadecimal digits without 0x, upper or lower '
            'case, in quotes.'
        )
        pattern = _hexadecimal(known.digits)
    return {
        'title': known.meaning,
        'description': f'The {known.meaning}. {form} {_WILDCARDS}',
        'type': 'string',
        'maxLength': _LONGEST,
        'pattern': pattern,
        'examples': [file_keywords.EXAMPLES[key]],
    }


def _hexadecimal(digits: int) -> str:
    """Return a pattern of this many digits, or fewer with a star."""
    return (
        rf'^(?:(?:\**{_HEX}){{{digits}}}\**'
        rf'|(?=.*\*)(?:\**{_HEX}){{0,{digits - 1}}}\**)$'
    )


def _resource_class() -> dict[str, Any]:
    others = '|'.join(policy.DEVICE_CLASSES)
    return {
        'title': 'Resource class',
        'description': (
            'What a flavor asks for to get the device: CUSTOM_ and capital '
            f'letters, digits or _; or {" or ".join(policy.DEVICE_CLASSES)}.'
        ),
        'default': policy.DEFAULT_RESOURCE_CLASS,
        'type': 'string',
        'maxLength': _LONGEST,
        'pattern': f'^(?:{_CUSTOM}|{others})$',
        'examples': ['CUSTOM_GPU'],
    }


def _traits() -> dict[str, Any]:
    standard = sorted(
        name
        for name in os_traits.get_traits()
        if not policy.problem_with_trait(name)
    )
    return {
        'title': 'Traits',
        'description': (
            'Traits of the devices beside those that the driver generates: '
            'standard ones of os-traits, or CUSTOM_ and capital letters, '
            f'digits or _. All that begin with {policy.GENERATED_PREFIX} or '
            'OWNER_, and those about compute nodes, are refused; in '
            'place of HW_PCI_ONE_TIME_USE write one_time_use: true.'
        ),
        'type': 'array',
        'minItems': 1,
        'uniqueItems': True,
        'items': {
            'type': 'string',
            'maxLength': _LONGEST,
            'anyOf': [
                {'pattern': (f'^(?!{policy.GENERATED_PREFIX}){_CUSTOM}$')},
                {'enum': standard},
            ],
        },
        'examples': [['CUSTOM_FAST']],
    }


def format_schema(schema: dict[str, Any]) -> str:
    """Format a schema as the text of a file."""
    return json.dumps(schema, indent=2) + '\n'


def read_shipped_schema() -> str:
    """Read the schema file in the package."""
    package = importlib.resources.files('nova_powervm.inventory_file')
    return (package / _NAME).read_text(encoding='utf-8')


if __name__ == '__main__':
    print(format_schema(build_schema()), end='')

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

"""The reference of the inventory file, made from its JSON schema."""

from collections.abc import Iterator
from typing import Any

from nova_powervm.inventory_file import schema

_PVMCTL = {
    'vendor_id': 'pci_vendor_id',
    'device_id': 'pci_dev_id',
    'subsys_vendor_id': 'pci_subsys_vendor_id',
    'subsys_device_id': 'pci_subsys_dev_id',
    'class': 'pci_class',
    'revision_id': 'pci_rev_id',
}


def paragraph() -> Iterator[str]:
    """Give a definition list of a paragraph's keys, as reStructuredText."""
    built = schema.build_schema()
    definition = built['$defs']['paragraph']
    for key, value in definition['properties'].items():
        name = value.get('$ref', '').rpartition('/')[2]
        whole = {**built['$defs'].get(name, {}), **value}
        required = key in definition['required']
        yield f'``{key}`` ({"required" if required else "optional"})'
        yield f'    {_text(whole["description"])}'
        yield from _facts(whole)
        yield ''


def identification() -> Iterator[str]:
    """Give a definition list of an identification's keys."""
    definition = schema.build_schema()['$defs']['identification']
    for key, value in definition['properties'].items():
        yield f'``{key}`` (``pvmctl ioslot list -d {_PVMCTL.get(key, key)}``)'
        # The wildcards are the same for all.
        text = value['description'].partition(' The wildcards')[0]
        yield f'    {_text(text)}'
        yield from _facts(value)
        yield ''


def beyond() -> Iterator[str]:
    """Give a list of the rules that the schema can't say."""
    for rule in schema.RULES_BEYOND_SCHEMA.values():
        yield f'* {rule}'


def _facts(value: dict[str, Any]) -> Iterator[str]:
    if 'default' in value:
        yield ''
        yield f'    Default: ``{_yaml(value["default"])}``'
    for example in value.get('examples', ()):
        yield ''
        yield f'    Example: ``{_yaml(example)}``'


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f'[{", ".join(value)}]'
    plain = '_' in value or value.startswith('U')
    return str(value) if plain else f"'{value}'"


def _text(description: str) -> str:
    return description.replace('*', r'\*').replace('_', r'\_')

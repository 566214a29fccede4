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

"""Generates the reference of the inventory file from its JSON schema."""

from collections.abc import Iterator
from typing import Any

from nova_powervm.inventory_file import structure

_PVMCTL = {
    'vendor_id': 'pci_vendor_id',
    'device_id': 'pci_dev_id',
    'subsys_vendor_id': 'pci_subsys_vendor_id',
    'subsys_device_id': 'pci_subsys_dev_id',
    'class': 'pci_class',
    'revision_id': 'pci_rev_id',
}


_PARAGRAPH = structure.SCHEMA['additionalProperties']
_IDENTIFICATION = _PARAGRAPH['properties']['identification']


def list_paragraph_keys() -> Iterator[str]:
    """Yield a definition list of paragraph keys as reStructuredText."""
    for key, value in _PARAGRAPH['properties'].items():
        required = key in _PARAGRAPH['required']
        yield f'``{key}`` ({"required" if required else "optional"})'
        # The next section describes the wildcards.
        text = value['description'].partition(' In every value, the wild')[0]
        yield f'    {_text(text)}'
        yield from _facts(value)
        yield ''


def list_identification_keys() -> Iterator[str]:
    """Yield a definition list of identification keys."""
    for key, value in _IDENTIFICATION['properties'].items():
        yield f'``{key}`` (``pvmctl ioslot list -d {_PVMCTL.get(key, key)}``)'
        yield f'    {_text(value["description"])}'
        yield from _facts(value)
        yield ''


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

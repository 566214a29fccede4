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

"""The schema documents that a host gives to its clients."""

from collections.abc import Iterable

from lxml import etree

from powervm_emulator.core import elements
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import exchange
from powervm_emulator.core import noun
from powervm_emulator.core import route

_PATH = '/rest/api/web/schema'
_TYPE = 'application/xml'
_XSD = 'http://www.w3.org/2001/XMLSchema'


def read(
    _: emulation_module.Emulation, _call: exchange.Call, kind: str
) -> exchange.Answer:
    """GET schema/{kind}.xsd: what elements a kind has; nothing if unknown."""
    children = elements.CHILDREN.get(kind)
    body = b'' if children is None else _document(kind, children.values())
    return exchange.Answer(200, body, _TYPE)


def _document(kind: str, children: Iterable[elements.Child]) -> bytes:
    root = etree.Element(f'{{{_XSD}}}schema', nsmap={'xs': _XSD})
    element = etree.SubElement(root, f'{{{_XSD}}}element', name=kind)
    type_ = etree.SubElement(element, f'{{{_XSD}}}complexType')
    sequence = etree.SubElement(type_, f'{{{_XSD}}}sequence')
    for child in children:
        most = 'unbounded' if child.repeats else '1'
        etree.SubElement(
            sequence,
            f'{{{_XSD}}}element',
            name=child.name,
            minOccurs='0',
            maxOccurs=most,
        )
    return bytes(etree.tostring(root))


NOUN = noun.Noun(
    'Schema',
    routes=tuple(
        route.Route('GET', rule, read, 'Schema.read', served=(_TYPE,))
        for rule in (f'{_PATH}/<kind>.xsd', f'{_PATH}/inc/<kind>.xsd')
    ),
)

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

"""Reading and writing the content element of a resource.

A resource's state *is* the XML element that the REST API serves as the
content of its Atom entry, so that whatever a capture or a client put there is
served again. This module is the only place that knows how values sit in it.

Paths are element names joined by ``/`` and match in any namespace.
"""

import copy as copy_module
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

from lxml import etree

from powervm_emulator.core import errors

UOM_NS = 'http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/2012_10/'
PCM_NS = 'http://www.ibm.com/xmlns/systems/power/firmware/pcm/mc/2012_10/'
WEB_NS = 'http://www.ibm.com/xmlns/systems/power/firmware/web/mc/2012_10/'
SCHEMA_VERSION = 'V1_8_0'
Element: TypeAlias = etree._Element  # noqa: SLF001 - lxml has no other name
Value: TypeAlias = str | int | float | bool
#: Element name to the names of its children in the order of K2's schema.
Orders: TypeAlias = Mapping[str, Sequence[str]]
# Python takes more for numbers: other digits, and digits with underscores.
_WHOLE = re.compile('[0-9]{1,18}')
_INTEGER = re.compile('-?[0-9]{1,18}')
_NUMBER = re.compile(r'-?[0-9]{1,18}(\.[0-9]{1,18})?')
_HREF_HOST = re.compile(r'^https?://[^/]+(?=/rest/api/)')
_NOT_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')
# Entities and external subsets have no place in the REST API.


def parser() -> etree.XMLParser:
    """Return a parser for one document.

    A parser that several threads use shares its table of names among them,
    which lxml does not protect.
    """
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
    )


def parse(document: bytes | str) -> Element:
    """Return the root of an XML document, namespaces normalised.

    :raises errors.BadDocument: the document is not well-formed, or has a
        document type.
    """
    data = document.encode() if isinstance(document, str) else document
    try:
        root = etree.fromstring(data, parser())
    except etree.XMLSyntaxError as error:
        raise errors.BadDocument(
            f'The body is not well-formed XML: {error}'
        ) from error
    if root.getroottree().docinfo.doctype:
        raise errors.BadDocument('The body has a document type.')
    return normalise(root)


def normalise(element: Element) -> Element:
    """Return an element of which its own namespace is the default.

    What is below the element moves to the result. Whitespace between elements
    goes, hosts in REST hrefs go (the server puts its own there), everything
    else stays as it was sent.
    """
    namespace = etree.QName(element).namespace
    nsmap = {None: namespace} if namespace else None
    result = etree.Element(element.tag, dict(element.attrib), nsmap)
    result.text = element.text
    result.extend(list(element))
    for node in result.iter():
        node.tail = None
        if len(node) and not (node.text or '').strip():
            node.text = None
    for node in result.xpath('descendant-or-self::*[@href]'):
        node.set('href', _HREF_HOST.sub('', node.get('href')))
    etree.cleanup_namespaces(result)
    return result


def copy(element: Element) -> Element:
    """Return a copy of an element that is normalised already."""
    return copy_module.deepcopy(element)


def local_name(element: Element) -> str:
    """Return the element's name without its namespace."""
    return str(element.tag.rpartition('}')[2])


def new(name: str, *children: Element, namespace: str = UOM_NS) -> Element:
    """Return a new structured element with the Metadata that K2 puts in."""
    element = etree.Element(
        f'{{{namespace}}}{name}',
        nsmap={None: namespace},
        schemaVersion=SCHEMA_VERSION,
    )
    metadata = etree.SubElement(element, f'{{{namespace}}}Metadata')
    etree.SubElement(metadata, f'{{{namespace}}}Atom')
    element.extend(children)
    return element


def leaf(
    name: str, value: Value | None = None, namespace: str = UOM_NS
) -> Element:
    """Return a new element that holds one value."""
    element = etree.Element(f'{{{namespace}}}{name}', nsmap={None: namespace})
    if value is not None:
        element.text = as_text(value)
    return element


def as_text(value: Value) -> str:
    """Return a value as the REST API writes it."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, float):
        return f'{value:.2f}'.rstrip('0').rstrip('.')
    return clean(value) if isinstance(value, str) else str(value)


def clean(value: str) -> str:
    """Return a text with the characters replaced that XML cannot have.

    Clients can send them in paths and headers, which refusals repeat.
    """
    return _NOT_XML.sub('\N{REPLACEMENT CHARACTER}', value)


def find(element: Element, path: str) -> Element | None:
    """Return the first element at a path, or None; ``.`` is the element."""
    if path == '.':
        return element
    name, _, below = path.partition('/')
    # Much faster than what lxml has for paths.
    for child in element.iterchildren(f'{{*}}{name}'):
        found = find(child, below) if below else child
        if found is not None:
            return found
    return None


def find_all(element: Element, path: str) -> list[Element]:
    """Return every element at a path."""
    found = [element]
    for name in path.split('/'):
        tag = f'{{*}}{name}'
        found = [child for one in found for child in one.iterchildren(tag)]
    return found


def text(element: Element, path: str, default: str = '') -> str:
    """Return the stripped text at a path."""
    found = find(element, path)
    if found is None or found.text is None:
        return default
    return str(found.text).strip()


def is_whole(text: str) -> bool:
    """Whether a text is a whole number, with no sign and of ASCII digits."""
    return _WHOLE.fullmatch(text) is not None


def integer(element: Element, path: str, default: int = 0) -> int:
    """Return the whole number at a path, or the default if there is none."""
    value = text(element, path)
    return int(value) if _INTEGER.fullmatch(value) else default


def number(element: Element, path: str, default: float = 0.0) -> float:
    """Return the number at a path, or the default if there is none."""
    value = text(element, path)
    return float(value) if _NUMBER.fullmatch(value) else default


def boolean(element: Element, path: str, default: bool = False) -> bool:
    """Return the truth value at a path."""
    value = text(element, path).lower()
    return value == 'true' if value else default


def section(element: Element, path: str) -> Element:
    """Return the structured element at a path, making what is missing."""
    for name in path.split('/'):
        element = _seed(element, name)
    return element


def put(element: Element, path: str, value: Value) -> Element:
    """Set the value at a path, making the elements that are missing."""
    above, _, name = path.rpartition('/')
    parent = section(element, above) if above else element
    target = find(parent, name)
    if target is None:
        target = _append(parent, name)
    target.text = as_text(value)
    return target


def put_default(element: Element, path: str, value: Value) -> None:
    """Set the value at a path unless there is an element already."""
    if find(element, path) is None:
        put(element, path, value)


def put_defaults(element: Element, values: Mapping[str, Value]) -> None:
    """Set the values of the children that are not there."""
    present = set(map(local_name, element))
    for name, value in values.items():
        if name not in present:
            _append(element, name).text = as_text(value)


def replace(element: Element, child: Element) -> None:
    """Put a child in the place of the one with its name, or at the end."""
    old = find(element, local_name(child))
    if old is None:
        element.append(child)
    else:
        element.replace(old, child)


def keep(element: Element, old: Element, names: Iterable[str]) -> None:
    """Restore what a posted element omits or cannot change.

    A client therefore cannot remove a child by leaving it out.

    :param old: the element that the posted one replaces.
    :param names: names of the children that cannot change.
    """
    for name in names:
        child = find(old, name)
        if child is None:
            remove(element, [name])
        else:
            replace(element, copy(child))
    for child in old:
        if find(element, local_name(child)) is None:
            element.append(copy(child))


def remove(element: Element, names: Iterable[str]) -> None:
    """Remove every child with one of the names."""
    for name in names:
        for child in find_all(element, name):
            element.remove(child)


def namespace_of(element: Element) -> str:
    """Return the namespace that an element is in."""
    return str(element.tag).rpartition('}')[0].removeprefix('{')


def identify(element: Element, id_: str, created: int = 0) -> None:
    """Write the id of an entry to its content element, unless it has one.

    :param created: when it was made, in milliseconds since 1970.
    """
    put_default(element, 'Metadata/Atom/AtomID', id_)
    put_default(element, 'Metadata/Atom/AtomCreated', created)


def _seed(parent: Element, name: str) -> Element:
    found = find(parent, name)
    if found is None:
        make = leaf if name in {'Metadata', 'Atom'} else new
        found = make(name, namespace=namespace_of(parent))
        parent.insert(0 if name == 'Metadata' else len(parent), found)
    return found


def _append(parent: Element, name: str) -> Element:
    return etree.SubElement(parent, f'{{{namespace_of(parent)}}}{name}')


def link(path: str, name: str = 'link', namespace: str = UOM_NS) -> Element:
    """Return a link to a resource."""
    element = leaf(name, namespace=namespace)
    element.set('href', path)
    element.set('rel', 'related')
    return element


def target(element: Element, path: str) -> str:
    """Return the uuid that the link at a path leads to, or nothing."""
    found = find(element, path)
    href = '' if found is None else found.get('href', '')
    return str(href).partition('?')[0].rpartition('/')[2]

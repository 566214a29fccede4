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

"""Atom documents: how the REST API wraps content elements."""

import dataclasses
import datetime
import re
import uuid
from collections.abc import Iterable
from collections.abc import Mapping

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors

ATOM_NS = 'http://www.w3.org/2005/Atom'
CONTENT_TYPE = 'application/atom+xml; charset=UTF-8'
# Where the content of an entry begins and ends.
_BEGIN = re.compile(r'(<content type="[^"]*">)<(\w+) xmlns=("[^"]*")')
_END = re.compile(r'</(\w+)></content>')
_SECRET = ('X-Api-Session', 'Cookie')
AUTHOR = 'IBM Power Systems Management Console'


@dataclasses.dataclass(frozen=True)
class Entry:
    """An Atom entry to be written.

    :ivar id: the resource's uuid (a job's is its number).
    :ivar element: the content; hrefs in it have no host yet. It becomes part
        of the document.
    :ivar path: of the SELF link, with its query, without host; or nothing.
    :ivar etag: the entity tag, or nothing.
    """

    id: str
    element: content.Element
    path: str = ''
    etag: str = ''


@dataclasses.dataclass(frozen=True)
class File:
    """An entry of a feed that has no content, and a link to a file.

    :ivar path: of the file, without host.
    :ivar category: what it is of.
    :ivar at: when it was made, in seconds since the epoch.
    """

    name: str
    path: str
    category: str
    at: float


class Writer:
    """Writes documents for one request.

    :param base: ``http://host:port`` as the client addressed the server; it
        goes before every REST path in the document.
    :param now: the time, in seconds since the epoch.
    """

    def __init__(self, base: str, now: float) -> None:
        self._base = base
        self._time = _time(now)

    def entry(self, entry: Entry) -> bytes:
        """Return a document of one entry."""
        return _serialise(self._entry(entry))

    def feed(self, id_: str, path: str, entries: Iterable[Entry]) -> bytes:
        """Return a document of a feed.

        :param id_: of the feed.
        :param path: of its SELF link, with its query, without host.
        """
        feed = etree.Element(_atom('feed'), nsmap={None: ATOM_NS})
        _sub(feed, 'id', id_)
        _sub(feed, 'updated', self._time)
        self._link(feed, path)
        _sub(feed, 'generator', AUTHOR)
        feed.extend([self._entry(entry) for entry in entries])
        return _serialise(feed)

    def listing(
        self, id_: str, title: str, path: str, files: Iterable[File]
    ) -> bytes:
        """Return a document of a feed of samples of performance.

        :param path: of its self link, without host.
        """
        feed = etree.Element(_atom('feed'), nsmap={None: ATOM_NS})
        _sub(feed, 'id', id_)
        _sub(feed, 'updated', self._time)
        _sub(feed, 'title', title)
        link = _sub(feed, 'link')
        link.set('rel', 'self')
        link.set('href', self._base + path)
        _sub(feed, 'generator', AUTHOR)
        for file in files:
            self._add_file(feed, file)
        return _serialise(feed)

    def _add_file(self, feed: content.Element, file: File) -> None:
        entry = _sub(feed, 'entry')
        _sub(entry, 'id', str(uuid.uuid3(uuid.NAMESPACE_URL, file.path)))
        _sub(entry, 'updated', _time(file.at))
        _sub(entry, 'title', file.name)
        _sub(entry, 'published', _time(file.at))
        link = _sub(entry, 'link')
        link.set('type', 'application/vnd.ibm.powervm.pcm.json')
        link.set('href', self._base + file.path)
        _sub(_sub(entry, 'author'), 'name', AUTHOR)
        _sub(entry, 'category').set('term', file.category)

    def _entry(self, entry: Entry) -> content.Element:
        element = etree.Element(_atom('entry'), nsmap={None: ATOM_NS})
        type_ = content.local_name(entry.element)
        _sub(element, 'id', entry.id)
        _sub(element, 'title', type_)
        _sub(element, 'published', self._time)
        if entry.path:
            self._link(element, entry.path)
        _sub(_sub(element, 'author'), 'name', AUTHOR)
        if entry.etag:
            tag = etree.SubElement(
                element,
                f'{{{content.UOM_NS}}}etag',
                nsmap={'etag': content.UOM_NS},
            )
            tag.text = entry.etag
        body = _sub(element, 'content')
        body.set('type', media_type(entry.element))
        elements.mark(entry.element)
        self._add_base(entry.element)
        body.append(entry.element)
        return element

    def _link(self, element: content.Element, path: str) -> None:
        link = _sub(element, 'link')
        link.set('rel', 'SELF')
        link.set('href', content.clean(self._base + path))

    def _add_base(self, element: content.Element) -> None:
        for node in element.xpath('descendant-or-self::*[@href]'):
            href = node.get('href')
            if href.startswith('/rest/api/'):
                node.set('href', self._base + href)


def media_type(element: content.Element) -> str:
    """Return the media type of a content element."""
    namespace = content.namespace_of(element)
    if namespace == content.PCM_NS:
        return 'application/xml'
    service = 'web' if namespace == content.WEB_NS else 'uom'
    name = content.local_name(element)
    return f'application/vnd.ibm.powervm.{service}+xml; type={name}'


def error_element(
    error: errors.RestError, path: str, headers: Mapping[str, str]
) -> content.Element:
    """Return the HttpErrorResponse element of a refusal."""
    shown = ', '.join(
        f'{name}={"*******" if name in _SECRET else value}'
        for name, value in headers.items()
    )
    values = {
        'HTTPStatus': str(error.status),
        'RequestURI': path,
        'ReasonCode': error.reason,
        'Message': error.text,
        'RequestBody': '',
        'RequestHeaders': f'{{{shown}}}',
    }
    leaves = [
        content.leaf(name, value, content.WEB_NS)
        for name, value in values.items()
    ]
    return content.new('HttpErrorResponse', *leaves, namespace=content.WEB_NS)


def logon_response(name: str, value: str) -> bytes:
    """Return the answer to a logon; the one document that is not Atom.

    :param name: ``X-API-Session`` or ``X-API-SessionFile``.
    """
    token = content.leaf(name, value, content.WEB_NS)
    root = content.new('LogonResponse', token, namespace=content.WEB_NS)
    elements.mark(root)
    return bytes(etree.tostring(root, xml_declaration=True, encoding='UTF-8'))


def _time(at: float) -> str:
    time = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return time.isoformat(timespec='milliseconds')


def _serialise(root: content.Element) -> bytes:
    # A declaration with an encoding makes the client refuse the document: it
    # decodes the body before it parses it.
    text = etree.tostring(root, encoding='unicode')
    return bytes(
        _END.sub(r'</\1:\1></content>', _BEGIN.sub(_prefixed, text)).encode()
    )


def _prefixed(begin: re.Match[str]) -> str:
    """Give an element of content its name as prefix, as hosts do.

    lxml can do so only by parsing, which another thread could notice.
    """
    before, name, namespace = begin.groups()
    return f'{before}<{name}:{name} xmlns:{name}={namespace} xmlns={namespace}'


def _atom(name: str) -> str:
    return f'{{{ATOM_NS}}}{name}'


def _sub(
    parent: content.Element, name: str, text: str | None = None
) -> content.Element:
    element = etree.SubElement(parent, _atom(name))
    element.text = text
    return element

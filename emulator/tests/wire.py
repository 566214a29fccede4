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

"""Requests as they go over the wire, and the documents that captures hold."""

import dataclasses
import functools
import http.client
import pathlib

import pypowervm
from lxml import etree

from . import base

UOM = 'http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/2012_10/'
WEB = UOM.replace('uom', 'web')
DATA = pathlib.Path(pypowervm.__file__).parent / 'tests' / 'data'


def media_type(kind, service='uom'):
    """Return the media type of a document as pypowervm sends it."""
    return f'application/vnd.ibm.powervm.{service}+xml; type={kind}'


def name(element):
    """Return the name of an element without its namespace."""
    return etree.QName(element).localname


def names(element):
    """Return the names of the children, in their order."""
    return [name(child) for child in element.iterchildren(etree.Element)]


def child(element, path):
    """Return the element at a path of names, or None."""
    return element.find('/'.join(f'{{*}}{step}' for step in path.split('/')))


def contents(root):
    """Return the content elements of a feed or an entry."""
    return [content[0] for content in root.iter('{*}content')]


@functools.cache
def captured():
    """Return file name and root of every captured document of pypowervm."""
    found = []
    for path in sorted(DATA.iterdir()):
        if path.suffix not in {'.txt', '.xml'}:
            continue
        text = path.read_text(errors='replace')
        if 'BODY{' in text:
            text = text.partition('BODY{')[2].rpartition('END OF SECTION}')[0]
        try:
            root = etree.fromstring(text.strip().encode())
        except etree.XMLSyntaxError:
            continue
        found.append((path.name, root))
    return found


@dataclasses.dataclass
class Answer:
    """What came back for a request.

    :ivar status: of HTTP.
    :ivar headers: by their names in small letters.
    :ivar text: the body.
    """

    status: int
    headers: dict
    text: str

    @property
    def root(self):
        """The root element of the body."""
        return etree.fromstring(self.text.encode())

    @property
    def contents(self):
        """The content elements of the body."""
        return contents(self.root)

    @property
    def content(self):
        """The only content element of the body."""
        (found,) = self.contents
        return found

    @property
    def message(self):
        """The message of a refusal."""
        return child(self.content, 'Message').text or ''


class WireTestCase(base.EmulatorTestCase):
    """Sends requests without pypowervm."""

    def ask(self, method, path, body=None, **headers):
        """Send a request; return its answer.

        :param path: what follows ``/rest/api/``, with the query.
        :param body: text, or an element.
        :param headers: by their names with ``_``; None for none of that name.
        """
        if isinstance(body, etree._Element):
            body = etree.tostring(body, encoding='unicode')
        sent = {
            'X-API-Session': self.adapter.session._sessToken,
            'Accept': 'application/atom+xml',
        }
        if body is not None:
            steps = path.partition('?')[0].split('/')
            kind = steps[-1] if method == 'PUT' else steps[-2]
            sent['Content-Type'] = media_type(kind, steps[0])
        for key, value in headers.items():
            sent[key.replace('_', '-')] = value
        connection = http.client.HTTPConnection(
            self.emulator.host, self.emulator.port, timeout=60
        )
        self.addCleanup(connection.close)
        connection.putrequest(method, f'/rest/api/{path}')
        for key, value in sent.items():
            if value is not None:
                connection.putheader(key, value)
        data = (body or '').encode()
        if body is not None:
            connection.putheader('Content-Length', str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        text = response.read().decode()
        found = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, found, text)

    def get(self, path, **headers):
        """Read a document; it must be there."""
        answer = self.ask('GET', path, **headers)
        self.assertEqual(200, answer.status, answer.text)
        return answer

    def partition(self, name_):
        """Return the summary of a partition of the control plane."""
        return next(
            partition
            for system in self.control.state()['systems']
            for partition in system['partitions']
            if partition['name'] == name_
        )

    def path_of(self, name_):
        """Return the path of a partition below ``/rest/api/``."""
        found = self.partition(name_)
        return f'uom/{found["kind"]}/{found["uuid"]}'

    def assert_refusal(self, answer, message, status=400):
        """Assert that an answer refuses with a message."""
        self.assertEqual(status, answer.status, answer.text[:2000])
        self.assertRegex(answer.message, message)

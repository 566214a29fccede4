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

"""Media types: which a client accepts, and which its body has."""

from collections.abc import Sequence

from werkzeug import datastructures
from werkzeug import http

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import errors

#: Clients who ask for the content of a document get Atom, too.
ATOM = ('application/atom+xml',)
UOM = (*ATOM, 'application/vnd.ibm.powervm.uom+xml')
WEB = (*ATOM, 'application/vnd.ibm.powervm.web+xml')
JSON = ('application/json',)
# Documents that need no ``type`` in their Content-Type.
_UNTYPED = ('LogonRequest',)
#: What clients ask for who read samples; the first is of the links to them.
METRICS = ('application/vnd.ibm.powervm.pcm.json', *ATOM)
OCTETS = ('application/octet-stream',)


def of_answer(method: str, path: str) -> Sequence[str]:
    """Return the media types of the answer to a request for a document.

    Only who reads can ask for the content. A deletion has no document.
    """
    if method == 'DELETE':
        return ()
    if method != 'GET' or path.startswith('/rest/api/pcm/'):
        return ATOM
    jobs = path.startswith('/rest/api/uom/jobs/') or '/do/' in path
    return WEB if jobs or path.startswith('/rest/api/web/') else UOM


def check_accepted(header: str, served: Sequence[str]) -> None:
    """Refuse a request whose Accept header has none of the media types.

    :param header: its value; empty if the client accepts everything.
    :param served: the media types of the answer, without parameters.
    :raises errors.NotAcceptable: it has none.
    """
    ranges = http.parse_accept_header(
        header or '*/*', datastructures.MIMEAccept
    )
    for accepted, quality in ranges:
        media_range = accepted.partition(';')[0].strip().lower()
        if quality and any(_is_in(type_, media_range) for type_ in served):
            return
    raise errors.NotAcceptable(
        f'Accept has {header!r}, but the answer is {served[0]}.'
    )


def check_body(header: str, body: content.Element) -> None:
    """Refuse a body whose Content-Type is missing or of another document.

    :raises errors.BadRequest: it is missing.
    :raises errors.UnsupportedMediaType: it is of another document.
    """
    if not header:
        raise errors.BadRequest('The body has no Content-Type.')
    expected = atom.media_type(body)
    name, type_ = _parts(expected)
    accepted = [(name, type_)]
    if type_ in _UNTYPED:
        accepted.append((name, None))
    if _parts(header) not in accepted:
        raise errors.UnsupportedMediaType(
            f'The body is {expected!r}, but its Content-Type is {header!r}.'
        )


def _parts(header: str) -> tuple[str, str | None]:
    """Return the media type of a Content-Type, and of which document."""
    name, parameters = http.parse_options_header(header)
    return name.lower(), parameters.get('type')


def _is_in(type_: str, media_range: str) -> bool:
    """Whether a media type is in a range such as ``*/*`` or ``text/*``."""
    return media_range in ('*/*', f'{type_.partition("/")[0]}/*', type_)

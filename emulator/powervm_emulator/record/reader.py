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

"""Reading a REST server: it is logged on to, read, and logged off from."""

import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Self

from lxml import etree

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import errors

_LOGON = '/rest/api/web/Logon'
_LOGON_TYPE = 'application/vnd.ibm.powervm.web+xml; type=LogonRequest'
# Seconds; a system with many partitions is read for long.
_TIMEOUT = 300.0


class RecordError(Exception):
    """Why nothing was recorded, in words."""


class ReadError(Exception):
    """Why one document cannot be read, in words."""


class Reader:
    """A session with a REST server, as a context manager.

    :param url: ``https://host:port``.
    :param cafile: certificates to verify the server with; None for those of
        the machine.
    :raises RecordError: the URL is none, or the file can't be read.
    """

    def __init__(
        self, url: str, username: str, password: str, cafile: str | None
    ) -> None:
        self._url = url.rstrip('/')
        self._username = username
        self._password = password
        self._token = ''
        parts = urllib.parse.urlsplit(self._url)
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise RecordError(
                f'{url!r} is not the URL of a REST server, such as '
                'https://192.0.2.1:12443'
            )
        # The certificates of the machine take long to read.
        context = _context(cafile) if parts.scheme == 'https' else None
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirect
        )

    def __enter__(self) -> Self:
        body = content.new(
            'LogonRequest',
            content.leaf('UserID', self._username, content.WEB_NS),
            content.leaf('Password', self._password, content.WEB_NS),
            namespace=content.WEB_NS,
        )
        try:
            answer = self._send('PUT', _LOGON, bytes(etree.tostring(body)))
            root = content.parse(answer)
        except (ReadError, errors.RestError) as error:
            raise RecordError(
                f'cannot log on to {self._url}: {error}'
            ) from error
        self._token = content.text(root, 'X-API-Session')
        if not self._token:
            raise RecordError(f'{self._url} gives no session')
        return self

    def __exit__(self, *_exception: object) -> None:
        try:
            self._send('DELETE', _LOGON)
        except ReadError:
            # The session ends by itself; what was read counts.
            self._token = ''

    def read(self, path: str) -> list[captures.Capture]:
        """Return the resources of a feed; none if it is empty.

        :param path: below ``/rest/api/uom/``, with its query.
        :raises ReadError: the server refuses, or answers something else.
        """
        answer = self._send('GET', f'/rest/api/uom/{path}')
        try:
            return captures.parse(answer) if answer else []
        except (etree.XMLSyntaxError, IndexError) as error:
            raise ReadError('the answer is no feed') from error

    def _send(
        self, method: str, path: str, body: bytes | None = None
    ) -> bytes:
        headers = {'Accept': '*/*'}
        if body is not None:
            headers['Content-Type'] = _LOGON_TYPE
        if self._token:
            headers['X-API-Session'] = self._token
        request = urllib.request.Request(  # noqa: S310 - http or https
            self._url + path, body, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise ReadError(f'it answers {error.code}') from error
        except (OSError, ValueError) as error:
            reason = getattr(error, 'reason', error)
            raise ReadError(str(reason)) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it would take the token to another server."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        """See the base class."""
        return


def _context(cafile: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile)
    except OSError as error:
        raise RecordError(
            f'cannot read the certificates in {cafile}: '
            f'{error.strerror or error}'
        ) from error

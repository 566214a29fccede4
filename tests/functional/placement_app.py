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

"""Placement in the process of the tests, which is asked as little as possible.

Nova asks for the allocations of each provider whenever it updates one.
"""

import io
import itertools
import json as json_format
import urllib.parse

import requests
from keystoneauth1 import session

#: What an answer depends on, besides the database.
_QUESTION = (
    'PATH_INFO',
    'QUERY_STRING',
    'HTTP_OPENSTACK_API_VERSION',
    'HTTP_ACCEPT',
    'HTTP_X_AUTH_TOKEN',
)


class KeptAnswers:
    """A WSGI middleware that keeps Placement's answers until the next write.

    :param app: Placement.
    """

    #: The one that was made last.
    latest = None
    #: Whether the process keeps answers; a measurement does not.
    keeps = True
    #: Changes before and after each write to any Placement of the process:
    #: two may share a database.
    _writes = itertools.count()
    _state = next(_writes)

    def __init__(self, app):
        self._app = app
        self._kept = {}
        KeptAnswers.latest = self

    def __call__(self, environ, start_response):
        is_question = environ['REQUEST_METHOD'] == 'GET'
        ask = self._answer if is_question and self.keeps else self._write
        status, headers, body = ask(environ)
        start_response(status, list(headers))
        return [body]

    def _write(self, environ):
        KeptAnswers._state = next(KeptAnswers._writes)
        try:
            return _ask(self._app, environ)
        finally:
            KeptAnswers._state = next(KeptAnswers._writes)

    def _answer(self, environ):
        key = tuple(environ.get(name) for name in _QUESTION)
        state = KeptAnswers._state
        kept_state, answer = self._kept.get(key, (None, None))
        if state != kept_state:
            answer = _ask(self._app, environ)
            if answer[0].startswith('2'):
                # A write that has begun meanwhile has changed the state.
                self._kept[key] = state, answer
        return answer


def _ask(app, environ):
    """Return status, headers and body of the answer to a request."""
    start = []
    body = b''.join(app(environ, lambda *given: start.extend(given[:2])))
    return *start, body


class Session(session.Session):
    """Calls the latest Placement without HTTP, for keystoneauth's adapters.

    :param endpoint: The URL at which others find it.
    """

    def __init__(self, endpoint):
        super().__init__()
        self._app = KeptAnswers.latest
        url = urllib.parse.urlsplit(endpoint)
        self._environ = {
            'SCRIPT_NAME': url.path,
            'SERVER_NAME': url.hostname,
            'SERVER_PORT': '80',
            'SERVER_PROTOCOL': 'HTTP/1.1',
            'HTTP_ACCEPT': 'application/json',
            'wsgi.url_scheme': url.scheme,
        }

    def request(self, url, method, *, headers, json=None, **_):
        """Return the answer to a request, like that of the library."""
        path, _, query = url.partition('?')
        body = b'' if json is None else json_format.dumps(json).encode()
        environ = self._environ | {
            'REQUEST_METHOD': method,
            'PATH_INFO': urllib.parse.unquote(path),
            'QUERY_STRING': requests.utils.requote_uri(query),
            'CONTENT_LENGTH': str(len(body)),
            'CONTENT_TYPE': 'application/json',
            'wsgi.input': io.BytesIO(body),
        }
        for name, value in headers.items():
            environ[f'HTTP_{name.upper().replace("-", "_")}'] = value
        status, headers, content = _ask(self._app, environ)
        answer = requests.Response()
        answer.url, answer.encoding = url, 'utf-8'
        answer.status_code, answer.reason = int(status[:3]), status[4:]
        answer.headers.update(headers)
        answer._content = content
        return answer

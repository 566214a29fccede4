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

"""A gate in front of Placement: counts requests, and makes some fail."""

import re
import threading

_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


class Gate:
    """A WSGI middleware between Cyborg's services and Placement.

    :param app: Placement.
    """

    def __init__(self, app):
        self._app = app
        self._lock = threading.Lock()
        self._taken = []
        self._trap = None

    def take(self):
        """Return method and path of the requests since the last call."""
        with self._lock:
            taken, self._taken = self._taken, []
        return taken

    def set_trap(self, number, spring, *, passing, match='PUT|POST|DELETE'):
        """Call a function at one request, which gets a 503.

        :param number: The number of the request among those that match,
            beginning with 1.
        :param spring: The function.
        :param passing: Whether Placement gets the request before, so that only
            its answer is lost.
        :param match: A regular expression for method and path.
        """
        with self._lock:
            self._trap = [number, spring, passing, re.compile(match)]

    def remove_trap(self):
        """Pass on all requests again.

        :returns: Whether the trap had sprung.
        """
        with self._lock:
            sprung = self._trap is not None and self._trap[0] <= 0
            self._trap = None
        return sprung

    def __call__(self, environ, start_response):
        line = f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}'
        if query := environ['QUERY_STRING']:
            line += f'?{query}'
        if trap := self._note(line):
            spring, passing = trap
            if passing:
                list(self._app(environ, lambda *_: None))
            spring()
            start_response('503 Trapped', [('Content-Length', '0')])
            return [b'']
        return self._app(environ, start_response)

    def _note(self, line):
        with self._lock:
            self._taken.append(_UUID.sub('{}', line))
            if self._trap is None or not self._trap[3].match(line):
                return None
            self._trap[0] -= 1
            return self._trap[1:3] if self._trap[0] == 0 else None

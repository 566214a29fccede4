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

"""Serves WSGI applications over HTTP, or not if it is told so."""

import threading

from werkzeug import serving


class _Handler(serving.WSGIRequestHandler):
    # Clients that use keystoneauth reuse their connections.
    protocol_version = 'HTTP/1.1'

    def log(self, type, message, *args):
        """Log nothing; the services log requests themselves."""


class Server:
    """Serves an application on a port of the loopback interface.

    :param app: A WSGI application.
    """

    def __init__(self, app):
        self._app = app
        #: Whether connections are closed without an answer. The port stays
        #: ours: another process might take one that nobody listens on.
        self.is_away = False
        self._server = serving.make_server(
            '127.0.0.1',
            0,
            self._answer,
            threaded=True,
            request_handler=_Handler,
        )
        self._server.daemon_threads = True
        self._server.verify_request = lambda *_: not self.is_away

    def start(self):
        """Serve from a thread of this process."""
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        ).start()

    def stop(self):
        """Stop for good."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ, start_response):
        if self.is_away:
            # The connection was open before.
            start_response(
                '503 Service Unavailable', [('Connection', 'close')]
            )
            return [b'']
        return self._app(environ, start_response)

    @property
    def url(self):
        """The URL of the application's root."""
        return f'http://127.0.0.1:{self._server.server_port}'

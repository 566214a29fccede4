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

"""Serving the application over HTTP."""

import socket
import threading
from typing import TYPE_CHECKING
from typing import NoReturn

from werkzeug import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from _typeshed.wsgi import WSGIEnvironment


class _Handler(serving.WSGIRequestHandler):
    # Answers are small; waiting to fill a packet costs tens of milliseconds.
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: object) -> None:
        """Say nothing: the journal has every request."""


class Server:
    """A threaded HTTP server that runs in a thread of its own.

    :param host: the address to listen on.
    :param port: the port, 0 for any that is free.
    :param tls: files of the certificate and its key, None for no TLS.
    """

    def __init__(
        self,
        application: 'WSGIApplication',
        host: str,
        port: int,
        tls: tuple[str, str] | None = None,
    ) -> None:
        self._scheme = 'https' if tls else 'http'
        self._server = serving.make_server(
            host,
            port,
            application,
            threaded=True,
            request_handler=_Handler,
            ssl_context=tls,
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={'poll_interval': 0.02},
            name='powervm-emulator',
            daemon=True,
        )
        self.host = host
        self.port = int(self._server.port)

    @property
    def url(self) -> str:
        """The URL that clients use."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        return f'{self._scheme}://{host}:{self.port}'

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop to serve and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def drop_connection(environ: 'WSGIEnvironment') -> NoReturn:
    """Close a request's connection without an answer."""
    connection: socket.socket = environ['werkzeug.socket']
    connection.shutdown(socket.SHUT_RDWR)
    # The server takes this for a client that has gone away.
    raise ConnectionAbortedError('dropped by a fault')

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
import ssl
import sys
import threading
from typing import TYPE_CHECKING
from typing import Any
from typing import NoReturn

from werkzeug import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from _typeshed.wsgi import WSGIEnvironment


# Seconds that a client may take for its handshake, or for each next part of
# its request.
_PATIENCE = 60.0


class _Handler(serving.WSGIRequestHandler):
    # Answers are small; waiting to fill a packet costs tens of milliseconds.
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: object) -> None:
        """Say nothing: the journal has every request."""


class _Listener(serving.ThreadedWSGIServer):
    """Accepts connections; each has a thread, for its TLS handshake too."""

    def __init__(
        self,
        application: 'WSGIApplication',
        host: str,
        port: int,
        tls: tuple[str, str] | None,
    ) -> None:
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
        # The base class ends the process if it cannot have the port itself.
        with _bind(host, port) as bound:
            super().__init__(
                host, port, application, _Handler, fd=bound.fileno()
            )
        # For the scheme of URLs. Given to the base class, it would make
        # handshakes where connections are accepted: one client that is
        # silent would keep all others out.
        self.ssl_context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection; called in its thread."""
        request.settimeout(_PATIENCE)
        if self.ssl_context is None:
            super().finish_request(request, client_address)
            return
        wrapped = self.ssl_context.wrap_socket(request, server_side=True)
        try:
            super().finish_request(wrapped, client_address)
        finally:
            self.shutdown_request(wrapped)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away or speak no TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Server:
    """A threaded HTTP server that runs in a thread of its own.

    :param host: the address to listen on.
    :param port: the port, 0 for any that is free.
    :param tls: files of the certificate and its key, None for no TLS.
    :raises OSError: the address or port cannot be had, or a file not read.
    """

    def __init__(
        self,
        application: 'WSGIApplication',
        host: str,
        port: int,
        tls: tuple[str, str] | None = None,
    ) -> None:
        self._scheme = 'https' if tls else 'http'
        self._server = _Listener(application, host, port, tls)
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
        """Stop to serve, if it was started, and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    return socket.create_server(
        (host, port), family=family, backlog=serving.LISTEN_QUEUE
    )


def drop_connection(environ: 'WSGIEnvironment') -> NoReturn:
    """Close a request's connection without an answer."""
    connection: socket.socket = environ['werkzeug.socket']
    connection.shutdown(socket.SHUT_RDWR)
    # The server takes this for a client that has gone away.
    raise ConnectionAbortedError('dropped by a fault')

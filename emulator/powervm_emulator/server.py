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

"""A threaded HTTP server for the application."""

import contextlib
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any
from typing import NoReturn

from werkzeug import exceptions
from werkzeug import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from _typeshed.wsgi import WSGIEnvironment


LOG = logging.getLogger(__name__)
# Seconds that a client may take for its TLS handshake, or to send the next
# part of its request.
_CLIENT_TIMEOUT = 60.0
# Seconds that a client may take for each part of a body that nobody reads, how
# much that is at most, and how many there may be.
_LINGER = 0.01
_READ = 1 << 20
_LAST_READS = 10_000


class _Handler(serving.WSGIRequestHandler):
    # Waiting to fill a packet delays small answers by tens of milliseconds.
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: object) -> None:
        """Log nothing; the journal records every request."""

    def run_wsgi(self) -> None:
        """Answer the one request of a connection.

        The base class sends head and body apart, and waits for more of a
        request that has no body; each takes as long as a small answer.
        """
        self.close_connection = True
        environ = self.make_environ()
        try:
            self._send(self._answer(environ))
        finally:
            if {'CONTENT_LENGTH', 'HTTP_TRANSFER_ENCODING'} & environ.keys():
                self._drain()

    def _answer(self, environ: 'WSGIEnvironment') -> Iterable[bytes]:
        try:
            return self.server.app(environ, self._begin)
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            LOG.exception('%s failed', self.requestline)
            return exceptions.InternalServerError()(environ, self._begin)

    def _begin(
        self,
        status: str,
        headers: list[tuple[str, str]],
        _error: object = None,
    ) -> Callable[[bytes], object]:
        """Take the head of the answer, as WSGI has it."""
        lines = [
            f'{self.protocol_version} {status}',
            f'Server: {self.version_string()}',
            f'Date: {self.date_time_string()}',
            *(f'{name}: {value}' for name, value in headers),
            'Connection: close\r\n\r\n',
        ]
        self._head = '\r\n'.join(lines).encode('latin-1')
        return self.wfile.write

    def _send(self, parts: Iterable[bytes]) -> None:
        """Send the answer, whose end is that of the connection."""
        with contextlib.ExitStack() as stack:
            if hasattr(parts, 'close'):
                stack.callback(parts.close)
            head = self._head
            for part in parts:
                self.wfile.write(head + part)
                head = b''
            if head:
                self.wfile.write(head)

    def _drain(self) -> None:
        """Read what is still to come of a body that nobody wants.

        A client that is sending when its connection closes may never see the
        answer.
        """
        self.connection.settimeout(_LINGER)
        with contextlib.suppress(OSError):
            for _ in range(_LAST_READS):
                if not self.rfile.read1(_READ):
                    break


class _Listener(serving.ThreadedWSGIServer):
    """A listener that handles each connection in its own thread.

    The thread performs the TLS handshake, too.
    """

    def __init__(
        self,
        application: 'WSGIApplication',
        host: str,
        port: int,
        context: ssl.SSLContext | None,
    ) -> None:
        # The base class exits the process if it can't bind the port itself.
        with _bind(host, port) as bound:
            super().__init__(
                host, port, application, _Handler, fd=bound.fileno()
            )
        # The request handler derives the scheme of URLs from it. The base
        # class would perform handshakes in the thread that accepts
        # connections, where one silent client blocks all others.
        self.ssl_context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, in its thread."""
        request.settimeout(_CLIENT_TIMEOUT)
        if self.ssl_context is None:
            super().finish_request(request, client_address)
            return
        wrapped = self.ssl_context.wrap_socket(request, server_side=True)
        try:
            super().finish_request(wrapped, client_address)
        finally:
            self.shutdown_request(wrapped)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or do not speak TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Server:
    """A threaded HTTP server that runs in its own thread.

    :param application: the application to serve.
    :param host: the address to listen on.
    :param port: the port to listen on; 0 for any free port.
    :param tls: for the handshakes; None for plain HTTP.
    :raises OSError: the address or port is unavailable.
    """

    def __init__(
        self,
        application: 'WSGIApplication',
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
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

    def serve(self, application: 'WSGIApplication') -> None:
        """Serve another application from the next request on."""
        self._server.app = application

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, if started, and release the port."""
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
    """Close the connection of a request without answering."""
    connection: socket.socket = environ['werkzeug.socket']
    # The client may have gone.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    # The server handles this like a client that disconnected.
    raise ConnectionAbortedError('dropped by a fault')

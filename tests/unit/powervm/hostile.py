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

"""A REST server that answers as an attacker likes, over real sockets."""

import contextlib
import gzip
import itertools
import os
import re
import socketserver
import ssl
import threading

_SESSION = (
    '<LogonResponse xmlns="http://www.ibm.com/xmlns/systems/power/firmware/'
    'web/mc/2012_10/" schemaVersion="V1_5_0"><{0}>{1}</{0}></LogonResponse>'
)
_PAUSE = 0.1


class Server(socketserver.ThreadingTCPServer):
    """Opens sessions for everybody, and does what a test says otherwise.

    :param tls: The paths of a certificate and its key, if it speaks TLS.
    :ivar answer: Called with the handler of each request but logons.
    :ivar heads: The heads of all requests, as they came.
    :ivar logon: The answer to a logon.
    :ivar over: Set when the server ends.
    :ivar taken: The bytes that :func:`take` has read.
    """

    daemon_threads = True

    def __init__(self, tls=None):
        super().__init__(('127.0.0.1', 0), _Handler)
        self._scheme = 'https' if tls else 'http'
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answer = send(whole(b'', '500 No'))
        self.heads = []
        self.logon = by_password('secret-token')
        self.over = threading.Event()
        self.taken = bytearray()
        self._thread = threading.Thread(target=self.serve_forever, args=[0.01])

    @property
    def url(self):
        """Its address."""
        return f'{self._scheme}://127.0.0.1:{self.server_address[1]}'

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request, client_address):
        """Say nothing: clients hang up."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self):
        lines = iter(self.rfile.readline, b'\r\n')
        head = b''.join(itertools.takewhile(bool, lines)).decode()
        if not head:
            # Somebody has only looked whether the server is there.
            return
        self.server.heads.append(head)
        if ' /rest/api/web/Logon ' in head:
            # What is not read would reset the connection.
            length = re.search(r'(?i)content-length: (\d+)', head)
            self.rfile.read(int(length[1]))
            self.wfile.write(self.server.logon)
        else:
            self.server.answer(self)


def by_password(token, **headers):
    """Answer a logon with a token."""
    return whole(_SESSION.format('X-API-Session', token).encode(), **headers)


def by_file(path):
    """Answer a logon with the path of a file that has the token."""
    return whole(_SESSION.format('X-API-SessionFile', path).encode())


def whole(body, status='200 OK', **headers):
    """Return an answer with a body; a header that is None is left out."""
    lines = {
        'Content-Length': len(body),
        'X-MC-Type': 'PVM',
        'Content-Type': 'application/atom+xml',
    } | {name.replace('_', '-'): value for name, value in headers.items()}
    text = ''.join(
        f'{name}: {value}\r\n' for name, value in lines.items() if value
    )
    return f'HTTP/1.1 {status}\r\n{text}\r\n'.encode() + body


def send(data):
    """Send bytes."""
    return lambda handler: handler.wfile.write(data)


def unpack_to(size):
    """Send a small body that unpacks to ``size`` bytes."""
    return send(
        whole(gzip.compress(b'\0' * size), '200 OK', Content_Encoding='gzip')
    )


def drip(data, at_once=0):
    """Send some bytes at once, and then one now and then."""

    def answer(handler):
        handler.wfile.write(data[:at_once])
        for byte in data[at_once:]:
            if handler.server.over.wait(_PAUSE):
                return
            handler.wfile.write(bytes([byte]))

    return answer


def repeat(data, first=b''):
    """Send the same bytes until the client hangs up."""

    def answer(handler):
        handler.wfile.write(first)
        while not handler.server.over.is_set():
            handler.wfile.write(data)

    return answer


def hang(handler):
    """Do nothing, until the server ends."""
    handler.server.over.wait()


def take(pause=0):
    """Read an upload, and answer at its end."""

    def answer(handler):
        end = b'0\r\n\r\n'
        while not handler.server.taken.endswith(end):
            part = handler.rfile.read1(65536)
            if not part:
                return
            handler.server.taken += part
            handler.server.over.wait(pause)
        handler.wfile.write(whole(b'', '204 No Content'))

    return answer


@contextlib.contextmanager
def as_user(uid):
    """Open files and sockets as another user; root only."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)

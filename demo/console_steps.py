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

"""Steps about the console of a server, as a browser sees it."""

import struct
import urllib.parse

from websockify import websocket

from demo import server_steps
from demo import stack as stack_lib
from demo import step_context

Context = step_context.Context
Outcome = step_context.Outcome

#: The server that stays when a cloud is kept.
SERVER = 'screen'

_SECONDS = 30
_VERSION = b'RFB 003.008\n'


def show_console(context: Context) -> Outcome:
    """Ask for the console of the first server, and read whose screen it is.

    A token that Nova does not know gets no screen.
    """
    server = context.servers[0]
    url = context.cloud.console_url(server)
    observed = {
        'screen of': read_name(context.stack, url),
        'with a wrong token': read_name(context.stack, f'{url}x'),
    }
    expected = {'screen of': server.instance_name, 'with a wrong token': None}
    shown = [
        url,
        f'shows the screen of {observed["screen of"]} through nova-novncproxy',
    ]
    return expected, observed, shown


def boot_kept_server(context: Context) -> str:
    """Boot a server that stays, and return the URL of its console."""
    server = context.create_server(SERVER, server_steps.FLAVOR_ONE)
    return context.cloud.console_url(server)


def read_name(stack: stack_lib.Stack, url: str) -> str | None:
    """Return the name of the screen at a URL; None if there is none."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    connection = _WebSocket(f'/{query["path"][0]}')
    port = stack.ports[stack_lib.PROXY]
    try:
        connection.connect(
            f'ws://{stack_lib.ADDRESS}:{port}/', protocols=['binary']
        )
        connection.socket.settimeout(_SECONDS)
        return _Screen(connection).name()
    except ConnectionError:
        # The proxy ends the connection without a word.
        return None
    finally:
        if connection.socket:
            connection.socket.close()


class _WebSocket(websocket.WebSocket):  # type: ignore[misc]
    """A WebSocket that asks for more than a path.

    :param target: the path with its query.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    def send_request(self, kind: str, _path: str) -> None:
        """Ask for the target."""
        super().send_request(kind, self._target)


class _Screen:
    """A viewer that reads no more than the name.

    :param connection: a connected WebSocket.
    """

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection
        self._buffer = b''

    def name(self) -> str:
        """Return the name of the screen, as RFB 3.8 without a password."""
        self._read(len(_VERSION))
        self._connection.send(_VERSION)
        self._read(self._read(1)[0])
        self._connection.send(b'\1')
        self._read(4)
        self._connection.send(b'\1')
        self._read(20)
        (length,) = struct.unpack('>I', self._read(4))
        return self._read(length).decode()

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                received = self._connection.recv()
            except websocket.WebSocketWantReadError:
                # A part of a frame has come.
                continue
            # The proxy sends empty messages, too.
            if received is None:
                raise ConnectionError('the proxy has ended the connection')
            self._buffer += received
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

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

"""The connections of clients that wait for an answer."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Connections:
    """Knows the connections under way, to break them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    @contextlib.contextmanager
    def serving(self, connection: socket.socket | None) -> Iterator[None]:
        """Count a connection as under way meanwhile; None is not one."""
        if connection is None:
            yield
            return
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def cut(self) -> None:
        """Break all connections that are under way."""
        with self._lock:
            for connection in self._open:
                # The client may have gone.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

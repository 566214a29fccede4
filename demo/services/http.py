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

"""Serving WSGI applications, and waiting for other servers."""

import threading
import time
import typing

import requests
import werkzeug.serving

from demo import stack as stack_lib


class _Handler(werkzeug.serving.WSGIRequestHandler):
    # Clients that use keystoneauth reuse their connections.
    protocol_version = 'HTTP/1.1'

    def log(self, type: str, message: str, *args: typing.Any) -> None:
        """Log nothing; the projects log requests themselves."""


def serve(application: typing.Any, port: int) -> None:
    """Serve a WSGI application from threads of this process.

    Werkzeug's server accepts the chunked uploads that clients of Glance
    send; the standard library's server would wait for their end forever.
    """
    server = werkzeug.serving.make_server(
        stack_lib.ADDRESS,
        port,
        application,
        threaded=True,
        request_handler=_Handler,
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()


def wait_until_up(url: str, seconds: float = 120) -> None:
    """Wait until a server answers at ``url``, whatever the status.

    :raises requests.RequestException: no server answered within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            requests.get(url, timeout=30)
        except requests.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return

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

"""Starting and stopping the server, and silent clients."""

import contextlib
import http.client
import os
import socket
import ssl
import tempfile
import threading
import unittest

from werkzeug import serving

from powervm_emulator import fixture
from powervm_emulator import server
from powervm_emulator import tls


def application(_environ, start_response):
    start_response('204 No Content', [])
    return []


def plain():
    return server.Server(application, '127.0.0.1', 0)


class ServerStopTest(unittest.TestCase):
    def stop(self, stopped):
        """Stop a server; fail if that takes too long."""
        thread = threading.Thread(target=stopped.stop, daemon=True)
        thread.start()
        thread.join(30)
        self.assertFalse(thread.is_alive())

    def test_stop_before_start_returns(self):
        self.stop(plain())

    def test_second_stop_returns(self):
        stopped = plain()
        stopped.start()
        self.stop(stopped)
        self.stop(stopped)

    def test_stop_does_not_wait_for_silent_client(self):
        stopped = plain()
        stopped.start()
        with socket.create_connection((stopped.host, stopped.port)):
            self.stop(stopped)


class LeavingClientTest(unittest.TestCase):
    def test_dropping_client_that_has_left_is_no_defect(self):
        with socket.socket() as left, self.assertRaises(ConnectionError):
            server.drop_connection({'werkzeug.socket': left})


class ServerPortTest(unittest.TestCase):
    def test_server_refuses_port_in_use(self):
        with fixture.Emulator() as emulator, self.assertRaises(OSError):
            server.Server(application, '127.0.0.1', emulator.port)


class ServerTlsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        files = serving.make_ssl_devcert(
            os.path.join(folder, 'tls'), cn='127.0.0.1'
        )
        context = tls.context(tls.Files(*files))
        self.server = server.Server(application, '127.0.0.1', 0, context)
        self.server.start()
        self.addCleanup(self.server.stop)
        self.context = ssl.create_default_context(cafile=files[0])
        self.context.check_hostname = False

    def connect(self):
        """Open a connection that sends nothing."""
        address = (self.server.host, self.server.port)
        return self.enterContext(socket.create_connection(address))

    def get(self):
        """Send a request; return its status."""
        connection = http.client.HTTPSConnection(
            self.server.host,
            self.server.port,
            timeout=30,
            context=self.context,
        )
        self.addCleanup(connection.close)
        connection.request('GET', '/')
        return connection.getresponse().status

    def test_url_has_https_scheme(self):
        self.assertRegex(self.server.url, '^https://')

    def test_silent_client_does_not_block_others(self):
        self.connect()
        self.assertEqual(204, self.get())

    def test_plain_http_client_does_not_block_others(self):
        connection = self.connect()
        connection.settimeout(30)
        connection.sendall(b'GET / HTTP/1.1\r\n\r\n')
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1000):
                pass
        self.assertEqual(204, self.get())

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

"""Starting and stopping the server, silent clients, and HTTPS."""

import contextlib
import fcntl
import http.client
import os
import pathlib
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import requests
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from werkzeug import serving

from powervm_emulator import certificate
from powervm_emulator import fixture
from powervm_emulator import server
from powervm_emulator import tls
from powervm_emulator.core import scratch

from . import base
from . import test_process


def application(_environ, start_response):
    start_response('204 No Content', [])
    return []


def defective(_environ, _start_response):
    raise KeyError


def serve(test, served=application):
    """Start a server without TLS; return a connection to it."""
    started = server.Server(served, '127.0.0.1', 0)
    started.start()
    test.addCleanup(started.stop)
    address = (started.host, started.port)
    return test.enterContext(socket.create_connection(address, 30))


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


def answer(connection, *sent):
    """Send a request; return the whole answer."""
    for part in sent:
        connection.sendall(part)
    return b''.join(iter(lambda: connection.recv(1000), b''))


class RequestTest(unittest.TestCase):
    def test_client_is_told_to_continue_if_it_asks(self):
        connection = serve(self)
        connection.sendall(
            b'PUT / HTTP/1.1\r\nExpect: 100-Continue\r\n'
            b'Content-Length: 1\r\n\r\n'
        )
        told = connection.recv(25)
        self.assertEqual(b'HTTP/1.1 100 Continue\r\n\r\n', told)
        self.assertRegex(answer(connection, b'x'), b'^HTTP/1.1 204 No')

    def test_client_sees_answer_though_nobody_has_read_its_body(self):
        size = 20_000_000
        head = f'PUT / HTTP/1.1\r\nContent-Length: {size}\r\n\r\n'.encode()
        seen = answer(serve(self), head, bytes(size))
        self.assertRegex(seen, b'^HTTP/1.1 204 No Content\r\n')
        self.assertRegex(seen, b'\r\nConnection: close\r\n\r\n$')

    def test_defect_of_application_is_answer_500(self):
        with self.assertLogs('powervm_emulator.server', 'ERROR'):
            seen = answer(serve(self, defective), b'GET / HTTP/1.1\r\n\r\n')
        self.assertRegex(seen, b'^HTTP/1.1 500 INTERNAL SERVER ERROR')


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


def folder_of(test):
    """Return a folder for temporary files that is removed with the test."""
    return pathlib.Path(test.enterContext(tempfile.TemporaryDirectory()))


class TlsCommandTest(test_process.CommandTestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.temporary = folder_of(self)
        self.environment = os.environ | {'TMPDIR': str(self.temporary)}

    def start_tls(self, *arguments):
        """Start the emulator; return process, URL and its certificate."""
        process, url = self.start(
            *arguments, env=self.environment, stderr=subprocess.PIPE
        )
        self.addCleanup(process.stderr.close)
        said = process.stderr.readline().strip()
        self.assertRegex(said, '^powervm-emulator: certificate: /')
        return process, url, said.partition('certificate: ')[2]

    def test_requests_verifies_server_by_its_name_and_its_address(self):
        _, url, path = self.start_tls('--tls')
        for address in (url, url.replace('127.0.0.1', 'localhost')):
            with self.subTest(address):
                answer = requests.get(address, verify=path, timeout=30)
                self.assertEqual(401, answer.status_code)
        with self.assertRaises(requests.exceptions.SSLError):
            requests.get(url, timeout=30)

    def test_key_is_readable_by_this_user_only_and_goes_at_exit(self):
        process, _, path = self.start_tls('--tls')
        key = pathlib.Path(path).with_name('key.pem')
        self.assertEqual(0o600, stat.S_IMODE(key.stat().st_mode))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(30))
        self.assertEqual([], list(self.temporary.iterdir()))

    def test_next_start_deletes_what_killed_one_has_left(self):
        killed, _, left = self.start_tls('--tls')
        _, _, used = self.start_tls('--tls')
        killed.kill()
        killed.wait(30)
        self.assertTrue(os.path.exists(left))
        _, _, new = self.start_tls('--tls')
        self.assertEqual(
            [False, True, True], list(map(os.path.exists, (left, used, new)))
        )

    def test_given_files_are_served(self):
        files = certificate.make(self.temporary, '127.0.0.1')
        _, url = self.start(
            *('--tls-cert', files.certificate, '--tls-key', files.key)
        )
        answer = requests.get(url, verify=files.certificate, timeout=30)
        self.assertEqual(401, answer.status_code)

    def test_unsuitable_files_are_refused(self):
        null = ('--tls-cert', '/dev/null', '--tls-key', '/dev/null')
        missing = ('--tls-cert', '/no/c', '--tls-key', '/no/k')
        for status, words, arguments in (
            (2, 'need each other', null[:2]),
            (2, 'need each other', null[2:]),
            (2, 'not with --tls-cert', ('--tls', *null)),
            (1, 'cannot read /no/c: No such file', missing),
        ):
            with self.subTest(arguments):
                ended, _, said = test_process.run(*arguments)
                self.assertEqual(status, ended)
                self.assertIn(words, said)


class ContextTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = folder_of(self)
        self.files = certificate.make(self.folder, '127.0.0.1')

    def assert_refused(self, words):
        with self.assertRaisesRegex(tls.TlsError, words):
            tls.context(self.files)

    def test_key_of_another_certificate_is_refused(self):
        other = self.folder / 'other'
        other.mkdir()
        key = certificate.make(other, '127.0.0.1').key
        self.files = tls.Files(self.files.certificate, key)
        self.assert_refused('are not a certificate and its key')

    def test_tls_refuses_what_is_no_certificate(self):
        pathlib.Path(self.files.certificate).write_text('hello')
        self.assert_refused('are not a certificate and its key')

    def test_encrypted_key_is_refused_without_asking(self):
        path = pathlib.Path(self.files.key)
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b'secret'),
            )
        )
        self.assert_refused('is encrypted; give one without a passphrase')


class CertificateTest(unittest.TestCase):
    def names(self, address):
        """Return the names and addresses in the certificate of a server."""
        files = certificate.make(folder_of(self), address)
        made = x509.load_pem_x509_certificate(
            pathlib.Path(files.certificate).read_bytes()
        )
        found = made.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
        return [str(name.value) for name in found]

    def test_certificate_is_for_address_and_loopback(self):
        self.assertEqual(
            ['192.0.2.7', 'localhost', '127.0.0.1'], self.names('192.0.2.7')
        )

    def test_certificate_for_all_interfaces_has_name_of_machine(self):
        with mock.patch('socket.gethostname', return_value='tower'):
            for address in ('0.0.0.0', '::'):  # noqa: S104
                with self.subTest(address):
                    self.assertEqual(
                        ['tower', 'localhost', '127.0.0.1', '::1'],
                        self.names(address),
                    )


class SweepTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = folder_of(self)
        self.enterContext(mock.patch('tempfile.tempdir', str(self.folder)))

    def test_sweep_deletes_unlocked_directory_only(self):
        used = scratch.Scratch()
        self.addCleanup(used.cleanup)
        left, other = (
            self.folder / f'powervm-emulator-{name}' for name in ('x', 'notes')
        )
        for made in (left, other):
            made.mkdir()
        (left / 'lock').touch()
        scratch.sweep()
        self.assertFalse(left.exists())
        self.assertTrue(used.path.is_dir())
        self.assertTrue(other.is_dir())

    def test_lock_is_held_from_the_moment_it_can_be_seen(self):
        seen = []
        rename = pathlib.Path.rename

        def look(path, target):
            with (
                path.open() as lock,
                self.assertRaises(BlockingIOError),
            ):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(path)
            return rename(path, target)

        with mock.patch('pathlib.Path.rename', look):
            scratch.Scratch().cleanup()
        self.assertEqual(1, len(seen))

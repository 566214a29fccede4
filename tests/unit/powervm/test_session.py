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

"""Logging on to a REST server that is not there, late, or refuses."""

import contextlib
import datetime
import ipaddress
import logging
import os
import socket
import types
import unittest
from concurrent import futures

import ddt
import fixtures
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid
from pypowervm import exceptions as pvm_exceptions
from pypowervm.tests.test_utils import pvmhttp

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session
from powervm_emulator import fixture
from tests.unit.powervm import hostile


def server(url, **values):
    """Say how to reach an emulator."""
    return options.Server(
        url=url,
        **{'username': 'admin', 'password': 'abc123', 'connect_timeout': 0}
        | values,
    )


def free_port():
    """Find a port on which nobody listens."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class ConnectTest(unittest.TestCase):
    def test_connect_opens_session_until_close(self):
        with fixture.Emulator() as emulator:
            adapter = session.connect(server(emulator.url))
            self.assertEqual('PVM', adapter.session.mc_type)
            adapter.session.close()
            self.assertEqual(0, emulator.control.state()['sessions'])

    def test_connect_without_listening_server_is_unreachable(self):
        url = f'http://127.0.0.1:{free_port()}'
        with self.assertRaises(exception.RestUnreachable) as caught:
            session.connect(server(url))
        self.assertIn(url, str(caught.exception))

    def test_connect_waits_for_server_that_is_not_listening(self):
        port = free_port()
        url = f'http://127.0.0.1:{port}'
        tries = []

        def appear(seconds):
            tries.append(seconds)
            if len(tries) == 2:
                # The try that follows finds the server.
                self.enterContext(fixture.Emulator(port=port))

        adapter = session.connect(server(url, connect_timeout=60), appear)
        adapter.session.close()
        self.assertEqual(2, len(tries))

    def test_wrong_password_is_not_tried_twice(self):
        with fixture.Emulator() as emulator:
            with self.assertRaises(exception.RestRefusedLogin) as caught:
                session.connect(
                    server(emulator.url, password='x', connect_timeout=60)
                )
            self.assertEqual(
                {'PUT Logon.create': 1}, emulator.control.journal_counts()
            )
        self.assertIn('rest_password', str(caught.exception))

    def test_connect_waits_for_starting_server(self):
        with fixture.Emulator() as emulator:
            emulator.control.add_fault(match='Logon.create', status=503)
            adapter = session.connect(
                server(emulator.url, connect_timeout=60), lambda seconds: None
            )
            adapter.session.close()

    def test_session_without_credentials_on_loopback_is_local(self):
        with fixture.Emulator() as emulator:
            adapter = session.connect(
                server(emulator.url, username=None, password='')
            )
            self.assertTrue(adapter.traits.local_api)
            emulator.control.expire_sessions()
            self.assertEqual(200, adapter.read('ManagedSystem').status)
            adapter.session.close()

    def test_session_with_password_on_loopback_is_not_local(self):
        with fixture.Emulator() as emulator:
            adapter = session.connect(server(emulator.url))
            self.assertFalse(adapter.traits.local_api)
            adapter.session.close()

    def test_pypowervm_logs_as_before_afterwards(self):
        logger = self.enterContext(fixtures.FakeLogger('pypowervm.adapter'))
        with fixture.Emulator() as emulator:
            adapter = session.connect(server(emulator.url))
            self.assertNotIn('logging on', logger.output)
            adapter.session.close()
            self.assertIn('logging off', logger.output)


@ddt.ddt
class KindTest(unittest.TestCase):
    """What the header X-MC-Type tells of a server, or does not."""

    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.hostile = self.enterContext(hostile.Server())
        self.adapter = None

    def say(self, logon, reading):
        """Answer a logon and a reading with these kinds, None for none."""
        self.hostile.logon = hostile.by_password('token', X_MC_Type=logon)
        feed = b'<feed xmlns="http://www.w3.org/2005/Atom"><id>1</id></feed>'
        self.hostile.answer = hostile.send(
            hostile.whole(feed, X_MC_Type=reading)
        )

    def read(self):
        """Log on, and read."""
        self.adapter = session.connect(server(self.hostile.url))
        self.addCleanup(base.forget, self.adapter.session)
        with rest_errors.translated('reading'):
            self.adapter.read('ManagedSystem')

    @ddt.data(('HMC', 'PVM'), ('HMC', None), (None, 'HMC'))
    @ddt.unpack
    def test_hmc_is_refused_and_left(self, logon, reading):
        """Before, LPARs would have been made there, among all its systems."""
        self.say(logon, reading)

        with self.assertRaisesRegex(
            exception.ConfigurationError, '127.0.0.1:.* is an HMC'
        ):
            self.read()

        *others, logoff = self.hostile.heads[1:]
        self.assertTrue(logoff.startswith('DELETE /rest/api/web/Logon '))
        self.assertEqual(logon is None, bool(others))

    def test_recorded_hmc_is_refused_although_it_has_no_header(self):
        """None of pypowervm's captures of HMCs has it."""
        recorded = pvmhttp.load_pvm_resp('managementconsole.txt').response
        self.assertNotIn('x-mc-type', recorded.headers)
        self.say(None, None)
        self.hostile.answer = hostile.send(
            hostile.whole(recorded.body.encode(), X_MC_Type=None)
        )

        with self.assertRaises(exception.ServerIsHmc):
            self.read()

    @ddt.data(('PVM', 'PVM'), ('PVM', None), (None, 'PVM'))
    @ddt.unpack
    def test_novalink_is_known_by_either_answer(self, logon, reading):
        self.say(logon, reading)

        self.read()

        self.assertEqual('PVM', self.adapter.session.mc_type)
        # pypowervm takes one without the header for an HMC.
        self.assertTrue(self.adapter.traits.has_high_slot)

    def test_server_without_header_is_warned_about_once(self):
        """A proxy before a NovaLink partition can drop it."""
        self.say(None, None)
        recorded = pvmhttp.load_pvm_resp('managementconsole_ssh.txt').response
        self.assertEqual('PVM', recorded.headers['x-mc-type'])
        self.hostile.answer = hostile.send(
            hostile.whole(recorded.body.encode(), X_MC_Type=None)
        )
        logging.disable(logging.NOTSET)

        with self.assertLogs('nova_powervm', 'WARNING') as logs:
            self.read()
            self.adapter.read('ManagedSystem')

        (line,) = logs.output
        self.assertIn('does not say whether it is an HMC', line)
        self.assertTrue(self.adapter.traits.has_high_slot)


class TlsTest(unittest.TestCase):
    """Certificates are verified, in the logon and afterwards."""

    def setUp(self):
        super().setUp()
        # They would win over rest_cafile.
        for variable in session.CA_VARIABLES:
            self.enterContext(fixtures.EnvironmentVariable(variable))
        directory = self.enterContext(fixtures.TempDir()).path
        self.certificate = os.path.join(directory, 'cert.pem')
        key = os.path.join(directory, 'key.pem')
        make_certificate(self.certificate, key)
        self.emulator = self.enterContext(
            fixture.Emulator(tls=(self.certificate, key))
        )

    def test_unknown_certificate_authority_is_refused(self):
        with self.assertRaises(exception.ConfigurationError) as caught:
            session.connect(server(self.emulator.url))
        self.assertIn('rest_cafile', str(caught.exception))
        self.assertEqual({}, self.emulator.control.journal_counts())

    def test_port_without_tls_is_no_matter_of_certificates(self):
        plain = self.enterContext(fixture.Emulator())
        with self.assertRaises(exception.ConfigurationError) as caught:
            session.connect(server(plain.url.replace('http:', 'https:')))
        self.assertIn('does not speak TLS', str(caught.exception))

    def test_rest_cafile_is_trusted(self):
        adapter = session.connect(
            server(self.emulator.url, cafile=self.certificate)
        )
        self.assertEqual(1, len(adapter.read('ManagedSystem').feed.entries))
        adapter.session.close()

    def test_variable_that_overrides_rest_cafile_is_logged(self):
        logger = self.enterContext(fixtures.FakeLogger(session.LOG.name))
        self.enterContext(
            fixtures.EnvironmentVariable('CURL_CA_BUNDLE', self.certificate)
        )
        adapter = session.connect(
            server(self.emulator.url, cafile='/other.pem')
        )
        adapter.session.close()
        self.assertIn('CURL_CA_BUNDLE', logger.output)

    def test_certificate_is_verified_for_every_request(self):
        adapter = session.connect(
            server(self.emulator.url, cafile=self.certificate)
        )
        # As if somebody else answered from now on.
        adapter.session._verify = True
        self.assertRaises(
            pvm_exceptions.SSLError, adapter.read, 'ManagedSystem'
        )


def make_certificate(path, key_path):
    """Write a self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(oid.NameOID.COMMON_NAME, '127.0.0.1')]
    )
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address('127.0.0.1'))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), False)
        .sign(key, hashes.SHA256())
    )
    with open(path, 'wb') as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    with open(key_path, 'wb') as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


class RequestLogTest(unittest.TestCase):
    """The line at DEBUG for each request."""

    def setUp(self):
        super().setUp()
        self.logger = self.enterContext(
            fixtures.FakeLogger(session.LOG.name, level=logging.DEBUG)
        )
        self.emulator = self.enterContext(fixture.Emulator())
        self.adapter = session.connect(
            server(self.emulator.url, password=self.emulator.password)
        )
        self.addCleanup(self.adapter.session.close)

    def read(self):
        """Read the Virtual I/O Servers with a query."""
        self.adapter.read('VirtualIOServer', xag=['ViosSCSIMapping'])

    def test_line_has_path_group_and_status(self):
        self.read()

        self.assertRegex(
            self.logger.output,
            r'REST request GET /rest/api/uom/VirtualIOServer'
            r'\?group=ViosSCSIMapping: 200 after \d+ ms\n',
        )

    def test_line_of_refused_or_lost_request_has_error(self):
        for fault, kind, words in (
            ({'status': 500}, pvm_exceptions.HttpError, '500'),
            (
                {'drop': True},
                pvm_exceptions.ConnectionError,
                'ConnectionError',
            ),
        ):
            with self.subTest(words):
                self.emulator.control.clear_faults()
                self.emulator.control.add_fault(
                    match='VirtualIOServer', every=True, **fault
                )
                with self.assertRaises(kind):
                    self.read()
                self.assertIn(f': {words} after ', self.logger.output)

    def test_lines_have_no_credentials(self):
        self.read()

        self.assertIn('PUT /rest/api/web/Logon', self.logger.output)
        for secret in (
            self.emulator.password,
            self.adapter.session._sessToken,
        ):
            self.assertNotIn(str(secret), self.logger.output)

    def test_query_is_left_out_but_its_groups(self):
        self.assertEqual(
            '/rest/api/x?group=None',
            session._loggable('/rest/api/x?token=abc&group=None&key=def'),
        )


class MinuteLogTest(unittest.TestCase):
    def test_waiting_is_logged_once_per_minute(self):
        logger = self.enterContext(fixtures.FakeLogger(session.LOG.name))
        log = session._MinuteLog(server('http://a:1', connect_timeout=300))
        outcome = types.SimpleNamespace(exception=lambda: 'no route')
        for waited in range(0, 181, 2):
            log(
                types.SimpleNamespace(
                    seconds_since_start=float(waited), outcome=outcome
                )
            )
        lines = logger.output.splitlines()
        self.assertEqual(4, len(lines), lines)
        self.assertIn('for 60 of 300 seconds', lines[1])
        self.assertIn('no route', lines[1])


class ThreadsTest(unittest.TestCase):
    def test_expired_session_is_opened_once_for_all_threads(self):
        with fixture.Emulator() as emulator:
            adapter = session.connect(server(emulator.url))
            emulator.control.expire_sessions()
            emulator.control.clear_journal()
            with futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(adapter.read, ['ManagedSystem'] * 4))
            counts = emulator.control.journal_counts()
            self.assertEqual(1, counts['PUT Logon.create'])
            adapter.session.close()

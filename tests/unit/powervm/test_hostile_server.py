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

"""Answers of a REST server that is not one, or is in somebody's hands."""

import contextlib
import functools
import io
import itertools
import logging
import os
import pathlib
import time
import types
import unittest
import unittest.mock

import ddt
import fixtures
from pypowervm import exceptions as pvm

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session
from tests.unit.powervm import hostile
from tests.unit.powervm import test_session

#: The limit for an answer that does not come, and for one that comes.
LIMIT = 0.5
READ = 30
#: When a request that is given up is over on a slow machine. The server would
#: hold it for longer.
LONG = 20
MIB = 1 << 20
CHUNK = b'x' * 65536
DRIPPING = hostile.whole(b'x' * 1000)
INTERIM = b'HTTP/1.1 100 Continue\r\n'
#: Users of this machine: a person, and a service.
STRANGER = 4242
SYSTEM = 42


class HostileTestCase(unittest.TestCase):
    tls = None

    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.hostile = self.enterContext(hostile.Server(self.tls))
        self.adapter = self.connect(
            username='admin', password='abc123', read_timeout=READ
        )

    def connect(self, **values):
        adapter = session.connect(
            options.Server(url=self.hostile.url, connect_timeout=0, **values)
        )
        self.addCleanup(base.forget, adapter.session)
        return adapter

    def be_impatient(self, seconds=LIMIT):
        self.adapter.session._read_timeout = seconds
        self.enterContext(
            unittest.mock.patch.object(session, 'ANSWER_SECONDS', seconds)
        )

    def read(self):
        with rest_errors.translated('reading the host'):
            self.adapter.read('ManagedSystem')

    def upload(self, chunks):
        self.adapter.session.request(
            'PUT', '/rest/api/web/File/contents/1', filehandle=chunks
        )

    @contextlib.contextmanager
    def given_up(self):
        """Send a request that is not answered as it should be."""
        started = time.monotonic()
        with (
            self.assertRaises(exception.RestSilent) as caught,
            rest_errors.translated('it'),
        ):
            yield caught
        self.assertLess(time.monotonic() - started, LONG)


@ddt.ddt
class SlowAnswerTest(HostileTestCase):
    """A byte now and then held a thread for as long as the server liked."""

    def setUp(self):
        super().setUp()
        self.be_impatient()
        self.hostile.answer = hostile.drip(DRIPPING)

    def test_head_that_drips_is_given_up(self):
        with self.given_up():
            self.read()

    def test_body_that_drips_is_given_up(self):
        self.hostile.answer = hostile.drip(DRIPPING, len(DRIPPING) - 500)

        with self.given_up():
            self.read()

    def test_answer_to_write_that_drips_is_given_up(self):
        with self.given_up():
            self.adapter.delete('LogicalPartition', root_id='x')

    def test_answer_to_poll_that_drips_is_given_up(self):
        self.be_impatient(READ)

        with self.given_up():
            self.adapter.read('Event', timeout=LIMIT)

    def test_interim_answers_without_end_are_given_up(self):
        self.hostile.answer = hostile.repeat(INTERIM + b'\r\n')

        with self.given_up():
            self.read()


class UploadTest(HostileTestCase):
    """An upload may take hours, but not for ever."""

    def test_upload_that_is_not_taken_is_given_up(self):
        self.be_impatient()
        self.hostile.answer = hostile.hang

        with self.given_up():
            self.upload(itertools.repeat(CHUNK))

    def test_upload_that_is_taken_too_slowly_is_given_up(self):
        """It went on as long as each chunk was taken in time."""
        self.be_impatient()
        self.hostile.answer = hostile.take(pause=0.01)
        self.enterContext(
            unittest.mock.patch.object(
                http_limits, 'SLOWEST_UPLOAD', 1000 * MIB
            )
        )

        with self.given_up():
            self.upload(itertools.repeat(CHUNK))

    def test_upload_that_is_not_answered_is_given_up(self):
        self.be_impatient()
        self.hostile.answer = hostile.hang

        with self.given_up():
            self.upload(iter([CHUNK]))

    def test_upload_may_take_longer_than_other_requests(self):
        self.be_impatient(1)
        self.hostile.answer = hostile.take()

        def chunks():
            for _ in range(2):
                yield CHUNK
                # As if the image came slowly, or took long to be checked.
                time.sleep(1.2)

        self.upload(chunks())

        self.assertEqual(2 * len(CHUNK), self.hostile.taken.count(b'x'))


class TlsTest(HostileTestCase):
    """The limits hold where the bytes are encrypted."""

    def setUp(self):
        directory = self.enterContext(fixtures.TempDir()).path
        self.tls = [os.path.join(directory, name) for name in ('crt', 'key')]
        test_session.make_certificate(*self.tls)
        for variable in session.CA_VARIABLES:
            self.enterContext(fixtures.EnvironmentVariable(variable))
        super().setUp()

    def connect(self, **values):
        return super().connect(cafile=self.tls[0], **values)

    def test_answer_that_drips_is_given_up(self):
        self.be_impatient()
        self.hostile.answer = hostile.drip(DRIPPING)

        with self.given_up():
            self.read()

    def test_upload_that_is_not_taken_is_given_up(self):
        self.be_impatient()
        self.hostile.answer = hostile.hang

        with self.given_up():
            self.upload(itertools.repeat(CHUNK))

    def test_upload_arrives(self):
        self.hostile.answer = hostile.take()

        self.upload(iter([b'yz' * 50000] * 20))

        self.assertEqual(1000000, self.hostile.taken.count(b'y'))


class LongAnswerTest(HostileTestCase):
    """An answer of 300 MB took 1.2 GB, and went into the log as a whole."""

    def setUp(self):
        super().setUp()
        self.enterContext(
            unittest.mock.patch.object(http_limits, 'LONGEST_ANSWER', MIB)
        )
        self.hostile.answer = hostile.repeat(
            b'10000\r\n' + CHUNK + b'\r\n',
            b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
        )

    def assert_too_long(self):
        with self.given_up() as caught:
            self.read()
        self.assertIn('longer than 1 MiB', str(caught.exception))

    def test_body_without_end_is_refused(self):
        self.assert_too_long()

    def test_bytes_that_unpack_to_many_are_refused(self):
        self.hostile.answer = hostile.unpack_to(20 * MIB)
        self.assert_too_long()

    def test_head_without_end_is_refused(self):
        self.hostile.answer = hostile.repeat(
            INTERIM + b'A: ' + b'x' * 60000 + b'\r\n\r\n'
        )
        self.assert_too_long()

    def test_long_answer_is_not_read_again(self):
        before = len(self.hostile.heads)

        with self.assertRaises(exception.RestSilent):
            rest_errors.retried(self.read)()

        self.assertEqual(before + 1, len(self.hostile.heads))


class MethodPartial(functools.partial):
    """A partial as in Python 3.14, which as an attribute is a method."""

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)


class BrokenAnswerTest(HostileTestCase):
    def test_answer_is_read_where_partials_are_methods(self):
        self.enterContext(
            unittest.mock.patch.object(
                http_limits,
                'functools',
                types.SimpleNamespace(partial=MethodPartial),
            )
        )

        with self.assertRaisesRegex(exception.RestError, 'error 500'):
            self.read()

    def test_answer_that_ends_early_is_no_answer(self):
        self.hostile.answer = hostile.send(
            b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc'
        )

        with self.assertRaises(exception.RestUnreachable):
            self.read()


@ddt.ddt
class LogonTest(unittest.TestCase):
    """An answer to a logon that has no session."""

    def connect(self, logon):
        base.quieten(self)
        server = self.enterContext(hostile.Server())
        server.logon = logon
        session.connect(
            options.Server(
                url=server.url,
                username='admin',
                password='abc123',
                connect_timeout=0,
            )
        )

    @ddt.named_data(
        ['nothing', b''],
        ['no document', b'x' * MIB],
        ['another document', b'<a/>'],
    )
    def test_useless_answer_is_error_in_words(self, body):
        with self.assertRaises(exception.RestError) as caught:
            self.connect(hostile.whole(body))

        self.assertIn('has no session', str(caught.exception))
        self.assertLess(len(str(caught.exception)), 4000)

    def test_redirect_is_error_of_configuration(self):
        with self.assertRaises(exception.ConfigurationError) as caught:
            self.connect(
                hostile.whole(b'', '301 Moved', Location='https://other/')
            )

        self.assertIn('https://other/', str(caught.exception))
        self.assertIn('rest_url', str(caught.exception))


@ddt.ddt
class LogTest(HostileTestCase):
    """Answers that are no use were logged as a whole, at ERROR."""

    def setUp(self):
        super().setUp()
        logging.disable(logging.NOTSET)
        self.logger = self.enterContext(fixtures.FakeLogger())

    @ddt.named_data(
        ['no document', '200 OK', b'x' * MIB],
        ['an error', '500 Oh', b'x' * MIB],
        ['a logon refused', '401 No', b'x' * MIB],
        ['a long reason', '500 ' + 'x' * 60000, b'oh'],
        ['a long header', '200 OK', b'oh'],
    )
    def test_useless_answer_makes_short_log_and_error(self, status, body):
        self.hostile.answer = hostile.send(
            hostile.whole(body, status, X_Long='y' * 60000)
        )

        with self.assertRaises(exception.PowerVMError) as caught:
            self.read()

        self.assertLess(len(str(caught.exception)), 4000)
        self.assertLess(len(self.logger.output), 20000)

    def test_nvram_of_a_document_is_hidden_at_all_levels(self):
        """It may have passwords; damaged documents are logged at ERROR."""
        self.logger = self.enterContext(fixtures.FakeLogger(level=1))
        for name in (b'PartitionNVRAM', b'uom:PartitionNVRAM'):
            tag = b'<' + name + b' group="NVRAM" kb="CUD">'
            for end in (b'</' + name + b'></x>', b'', b'</other>'):
                self.hostile.answer = hostile.send(
                    hostile.whole(b'<x>' + tag + b'c2VjcmV0' + end)
                )

                with self.assertRaises(exception.RestError):
                    self.read()

                self.assertIn(tag.decode() + '(hidden)', self.logger.output)
                self.assertNotIn('c2VjcmV0', self.logger.output)

    def test_answer_that_is_no_http_makes_short_log_and_error(self):
        self.hostile.answer = hostile.send(b'x' * 60000 + b'\r\n\r\n')

        with self.assertRaises(exception.RestUnreachable) as caught:
            self.read()

        self.assertLess(len(str(caught.exception)), 4000)
        self.assertLess(len(self.logger.output), 20000)

    def test_message_of_server_is_cut(self):
        self.hostile.answer = hostile.send(
            hostile.whole(
                b'<entry xmlns="http://www.w3.org/2005/Atom"><id>1</id>'
                b'<content><HttpErrorResponse xmlns="http://www.ibm.com/xmlns/'
                b'systems/power/firmware/web/mc/2012_10/">'
                b'<Message>HSCL0001 ' + b'x' * MIB + b'</Message>'
                b'</HttpErrorResponse></content></entry>',
                '500 Oh',
            )
        )

        with self.assertRaises(exception.RestError) as caught:
            self.read()

        self.assertIn('HTTP 500: HSCL0001 x', str(caught.exception))
        self.assertLess(len(str(caught.exception)), 4000)


class BrokenLineTest(unittest.TestCase):
    def test_line_that_cannot_be_formatted_raises_nothing(self):
        """The log call of pypowervm raised, and so did the request."""
        handler = logging.StreamHandler(io.StringIO())
        logging.getLogger().addHandler(handler)
        self.addCleanup(logging.getLogger().removeHandler, handler)

        with contextlib.redirect_stderr(io.StringIO()) as errors:
            logging.getLogger('pypowervm.adapter').warning('%d', 'two')

        self.assertIn('--- Logging error ---', errors.getvalue())


class TokenTest(HostileTestCase):
    """The token of the session is for the server alone."""

    def test_token_does_not_follow_redirect(self):
        thief = self.enterContext(hostile.Server())
        self.hostile.answer = hostile.send(
            hostile.whole(b'', '302 Found', Location=f'{thief.url}/x')
        )

        with self.assertRaises(exception.RestError) as caught:
            self.read()

        self.assertEqual([], thief.heads)
        self.assertIn('redirect', str(caught.exception))
        self.assertIn(thief.url, str(caught.exception))

    def test_proxy_of_environment_does_not_get_token(self):
        proxy = self.enterContext(hostile.Server())
        for name in ('http_proxy', 'HTTP_PROXY', 'all_proxy'):
            self.enterContext(fixtures.EnvironmentVariable(name, proxy.url))
        self.enterContext(fixtures.EnvironmentVariable('no_proxy'))

        with self.assertRaises(exception.RestError):
            self.read()

        self.assertEqual([], proxy.heads)
        self.assertIn('/ManagedSystem', self.hostile.heads[-1])

    def test_server_does_not_get_password_of_netrc(self):
        netrc = pathlib.Path(self.enterContext(fixtures.TempDir()).path, 'rc')
        netrc.write_text('machine 127.0.0.1 login me password mine')
        self.enterContext(fixtures.EnvironmentVariable('NETRC', str(netrc)))

        with self.assertRaises(exception.RestError):
            self.read()

        self.assertNotIn('authorization', self.hostile.heads[-1].lower())


@unittest.skipUnless(
    os.geteuid() == 0, 'only root can open a socket as another user'
)
class StrangerTest(unittest.TestCase):
    """A local user had any file read that nova-compute can read.

    It listens on the port of a stopped pvm-rest, names the file as that of
    the session, and gets its content as the token of the next request.
    """

    def setUp(self):
        super().setUp()
        base.quieten(self)
        directory = pathlib.Path(self.enterContext(fixtures.TempDir()).path)
        self.file = directory / 'nova.conf'
        self.file.write_text('secret')
        self.file.chmod(0o600)

    def listen(self, uid):
        """Listen as a user, and name a file of root."""
        with hostile.as_user(uid):
            server = hostile.Server()
        self.enterContext(server)
        server.logon = hostile.by_file(self.file)
        server.answer = hostile.send(hostile.whole(b'', '204 No Content'))
        return server

    def use(self, server):
        adapter = session.connect(
            options.Server(url=server.url, connect_timeout=0)
        )
        self.addCleanup(base.forget, adapter.session)
        adapter.read('LogicalPartition')

    def test_user_who_listens_is_asked_nothing(self):
        thief = self.listen(STRANGER)

        with self.assertRaises(exception.RestUnreachable) as caught:
            self.use(thief)

        self.assertEqual([], thief.heads)
        self.assertIn(str(STRANGER), str(caught.exception))

    def test_server_that_names_file_of_another_does_not_get_it(self):
        thief = self.listen(SYSTEM)

        with self.assertRaises(exception.RestRefusedLogin) as caught:
            self.use(thief)

        self.assertNotIn('secret', ''.join(thief.heads))
        self.assertIn(str(self.file), str(caught.exception))

    def test_server_may_name_file_of_its_own(self):
        server = self.listen(SYSTEM)
        os.chown(self.file, SYSTEM, 0)

        self.use(server)

        self.assertIn('X-API-Session: secret', server.heads[-1])

    def test_session_is_not_continued_with_stranger(self):
        """The token went to whoever listened after the end of pvm-rest."""
        server = self.listen(0)
        adapter = session.connect(
            options.Server(url=server.url, connect_timeout=0)
        )
        self.addCleanup(base.forget, adapter.session)
        thief = self.listen(STRANGER)
        adapter.session.port = thief.server_address[1]
        adapter.session.dest = thief.url

        with self.assertRaises(pvm.ConnectionError):
            adapter.read('LogicalPartition')

        self.assertEqual([], thief.heads)

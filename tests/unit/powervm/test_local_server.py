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

"""Who listens on a port, and which file may have the token of a session."""

import contextlib
import os
import pathlib
import socket
import unittest
import unittest.mock

import ddt
import fixtures
from pypowervm import exceptions as pvm

from nova_powervm.powervm import local_server

PORT = 0x2F30
HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n'
ROW = (
    '   0: {}:{:04X} {} {} 0:0 00:00000000 00000000 {:5}        0 12345 1 0\n'
)
#: The addresses of this machine as the kernel writes them.
IPV4 = '0100007F'
IPV6 = '0' * 24 + '01000000'
LISTENING = '0A'
ESTABLISHED = '01'
PERSON = 1001
SERVICE = 123


def row(uid, address=IPV4, port=PORT, state=LISTENING):
    return ROW.format(address, port, '00000000:0000', state, uid)


class OwnerTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.enterContext(fixtures.TempDir()).path)
        self.tables = [directory / 'tcp', directory / 'tcp6']
        self.enterContext(
            unittest.mock.patch.object(local_server, '_TABLES', self.tables)
        )

    def find(self, *rows):
        self.tables[0].write_text(HEAD + ''.join(rows))
        return local_server.find_owner(PORT)

    def assert_refused(self, words, *rows):
        with self.assertRaises(pvm.ConnectionError) as caught:
            self.find(*rows)
        self.assertIn(words, str(caught.exception))

    def test_root_and_services_are_trusted(self):
        self.assertEqual(0, self.find(row(0)))
        self.assertEqual(SERVICE, self.find(row(PERSON, port=1), row(SERVICE)))

    def test_own_user_is_trusted(self):
        with unittest.mock.patch.object(os, 'geteuid', lambda: PERSON):
            self.assertEqual(PERSON, self.find(row(PERSON)))

    def test_person_is_refused(self):
        self.assert_refused(f'belongs to uid {PERSON}', row(PERSON))

    def test_person_beside_root_is_refused(self):
        self.tables[1].write_text(HEAD + row(PERSON, IPV6))
        self.assert_refused(f'uid {PERSON} and user root', row(0))

    def test_port_of_two_users_is_refused(self):
        self.tables[1].write_text(HEAD + row(SERVICE, IPV6))
        self.assert_refused('user root', row(0))

    def test_connection_to_port_is_no_listener(self):
        self.assert_refused('nobody', row(0, state=ESTABLISHED))

    def test_listening_socket_of_either_family_is_found(self):
        self.enterContext(
            unittest.mock.patch.object(
                local_server, '_TABLES', ('/proc/net/tcp', '/proc/net/tcp6')
            )
        )
        for family, address in (
            (socket.AF_INET, '127.0.0.1'),
            (socket.AF_INET6, '::1'),
        ):
            if family == socket.AF_INET6 and not socket.has_ipv6:
                continue
            with (
                self.subTest(address),
                contextlib.closing(
                    socket.create_server((address, 0), family=family)
                ) as listening,
            ):
                port = listening.getsockname()[1]
                self.assertEqual(os.geteuid(), local_server.find_owner(port))


@ddt.ddt
class TokenFileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.enterContext(fixtures.TempDir()).path
        )
        self.file = self.directory / 'token'

    def read(self, path=None, owner=None):
        return local_server.read_token(
            str(path or self.file), os.geteuid() if owner is None else owner
        )

    def assert_refused(self, words, **how):
        with self.assertRaises(local_server.TokenFileRefused) as caught:
            self.read(**how)
        self.assertIn(words, str(caught.exception))

    @ddt.data('abc\n', ' abc ', 'abc')
    def test_token_is_read(self, content):
        self.file.write_text(content)

        self.assertEqual('abc', self.read())

    def test_file_of_another_user_is_refused(self):
        self.file.write_text('abc')

        self.assert_refused('it belongs to', owner=os.geteuid() + 1)

    @ddt.named_data(
        ['nothing', ''],
        ['nova.conf', '[database]\nconnection = mysql://nova:secret@db'],
        ['words', 'two words'],
        ['a key', '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n'],
        ['an environment', 'A=b\0C=d\0'],
        ['too much', 'x' * 2000],
    )
    def test_file_with_something_else_is_refused(self, content):
        self.file.write_text(content)

        self.assert_refused('one token')

    def test_environment_of_process_is_refused(self):
        self.assert_refused('one token', path='/proc/self/environ')

    def test_link_is_not_followed(self):
        self.file.write_text('abc')
        link = self.directory / 'link'
        link.symlink_to(self.file)

        self.assert_refused('no regular file', path=link)

    def test_pipe_and_device_are_not_opened(self):
        pipe = self.directory / 'pipe'
        os.mkfifo(pipe)
        for path in (pipe, '/dev/zero', self.directory):
            with self.subTest(path):
                self.assert_refused('no regular file', path=path, owner=0)

    @ddt.named_data(
        ['none', '/nowhere/token'],
        ['no name', ''],
        ['a long name', 'x' * 5000],
    )
    def test_missing_file_is_told_in_short(self, path):
        with self.assertRaises(pvm.AuthFileAccessError) as caught:
            local_server.read_token(path, 0)

        self.assertLess(len(str(caught.exception)), 3000)

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

"""A service on the management partition, and the files that it uses there."""

import contextlib
import errno
import os
import pathlib
import socket
import stat
import tempfile
import unittest
import unittest.mock

import ddt
import fixtures
from pypowervm import exceptions as pvm

from nova_powervm.powervm import local_server
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import port_owners
from tests.unit.powervm import hostile

PORT = 0x2F30
HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n'
ROW = (
    '   0: {}:{:04X} {} {} 0:0 00:00000000 00000000 {:5}        0 12345 1 0\n'
)
#: The addresses of this machine as the kernel writes them.
IPV4 = '0100007F'
IPV6 = '0' * 24 + '01000000'
MAPPED = '0' * 16 + 'FFFF0000' + IPV4
LISTENING = '0A'
ESTABLISHED = '01'
PERSON = 1001
SERVICE = 123


def row(uid, address=IPV4, port=PORT, state=LISTENING):
    return ROW.format(address, port, '00000000:0000', state, uid)


def refused_netlink():
    """Let the kernel refuse the question: there is no such protocol."""
    return unittest.mock.patch.object(port_owners, '_SOCK_DIAG', 31)


class TableTest(unittest.TestCase):
    """What the tables of the kernel say, which cannot be asked."""

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.enterContext(fixtures.TempDir()).path)
        self.tables = [directory / 'tcp', directory / 'tcp6']
        self.enterContext(
            unittest.mock.patch.object(port_owners, '_TABLES', self.tables)
        )
        self.enterContext(refused_netlink())

    def find(self, *rows, host='127.0.0.1'):
        self.tables[0].write_text(HEAD + ''.join(rows))
        return local_server.find_owner(host, PORT)

    def assert_refused(self, words, *rows, **how):
        with self.assertRaises(pvm.ConnectionError) as caught:
            self.find(*rows, **how)
        self.assertIn(words, str(caught.exception))

    def test_root_and_services_are_trusted(self):
        self.assertEqual(0, self.find(row(0)))
        self.assertEqual(SERVICE, self.find(row(PERSON, port=1), row(SERVICE)))

    def test_own_user_is_trusted(self):
        with unittest.mock.patch.object(os, 'geteuid', lambda: PERSON):
            self.assertEqual(PERSON, self.find(row(PERSON)))

    def test_person_is_refused(self):
        self.assert_refused(f'belongs to uid {PERSON}', row(PERSON))

    def test_person_with_wildcard_beside_root_is_refused(self):
        self.tables[1].write_text(HEAD + row(PERSON, '0' * 32))
        self.assert_refused(f'uid {PERSON} and user root', row(0))

    def test_person_with_mapped_address_beside_root_is_refused(self):
        self.tables[1].write_text(HEAD + row(PERSON, MAPPED))
        self.assert_refused(f'uid {PERSON} and user root', row(0))

    def test_port_of_two_users_is_refused(self):
        self.assert_refused('user root', row(0), row(SERVICE, '00000000'))

    def test_person_with_another_address_does_not_matter(self):
        self.tables[1].write_text(HEAD + row(PERSON, IPV6))
        self.assertEqual(0, self.find(row(PERSON, '0200007F'), row(0)))

    def test_person_with_address_of_host_is_refused(self):
        self.tables[1].write_text(HEAD + row(PERSON, IPV6))
        self.assert_refused(f'uid {PERSON}', row(0), host='::1')

    def test_connection_to_port_is_no_listener(self):
        self.assert_refused('nobody', row(0, state=ESTABLISHED))

    def test_without_tables_it_is_not_known_who_listens(self):
        with self.assertRaises(pvm.ConnectionError) as caught:
            local_server.find_owner('127.0.0.1', PORT)
        words = str(caught.exception)
        self.assertIn('it is not known who listens', words)
        self.assertIn(f'{self.tables[0]}: No such file', words)

    def test_table_that_may_not_be_read_is_error_in_words(self):
        refusal = PermissionError(errno.EACCES, 'Permission denied', 'tcp')
        with unittest.mock.patch('builtins.open', side_effect=[refusal]):
            self.tables[0].touch()
            self.assertRaisesRegex(
                pvm.ConnectionError,
                'not known who listens .*tcp: Permission denied',
                local_server.find_owner,
                '127.0.0.1',
                PORT,
            )


class KernelTest(unittest.TestCase):
    """What the kernel says of real sockets."""

    def listen(self, address, port=0, uid=None, interface=b''):
        """Listen, and return the port."""
        family = socket.AF_INET6 if ':' in address else socket.AF_INET
        made = hostile.as_user(uid) if uid else contextlib.nullcontext()
        with made:
            listening = self.enterContext(socket.socket(family))
        if interface:
            listening.setsockopt(
                socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface
            )
        try:
            listening.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            self.skipTest(f'this machine has no {address}')
        listening.listen()
        return listening.getsockname()[1]

    def assert_owned(self, host, port):
        """Assert that it is ours, by the kernel's answer and its tables."""
        uid = os.geteuid()
        with unittest.mock.patch.object(port_owners, '_TABLES', ()):
            self.assertEqual(uid, local_server.find_owner(host, port))
        with refused_netlink():
            self.assertEqual(uid, local_server.find_owner(host, port))

    def test_listener_of_either_family_is_found(self):
        for address, host in (
            ('127.0.0.1', 'localhost'),
            ('127.0.0.1', '127.0.0.1'),
            ('0.0.0.0', '127.0.0.1'),  # noqa: S104 - for a moment
            ('::1', '::1'),
            ('::', '::1'),
            ('::', '127.0.0.1'),
            ('::ffff:127.0.0.1', '127.0.0.1'),
        ):
            with self.subTest(address, host=host):
                self.assert_owned(host, self.listen(address))

    def test_listener_of_loopback_interface_only_is_found(self):
        port = self.listen('127.0.0.1', interface=b'lo')
        self.assert_owned('127.0.0.1', port)

    def test_port_without_listener_is_told(self):
        port = self.listen('127.0.0.2')
        self.assertRaisesRegex(
            pvm.ConnectionError,
            'nobody listens',
            local_server.find_owner,
            '127.0.0.1',
            port,
        )

    def test_unknown_host_is_told(self):
        self.assertRaisesRegex(
            pvm.ConnectionError,
            'it is not known who listens on port 1 of nowhere.invalid',
            local_server.find_owner,
            'nowhere.invalid',
            1,
        )

    @unittest.skipUnless(
        os.geteuid() == 0, 'only root can open a socket as another user'
    )
    def test_user_with_another_address_stops_nothing(self):
        """It stopped nova-compute, which never connects with it."""
        for other in ('127.0.0.2', '::1'):
            with self.subTest(other):
                port = self.listen('127.0.0.1')
                self.listen(other, port, uid=PERSON)
                self.assert_owned('127.0.0.1', port)

    @unittest.skipUnless(
        os.geteuid() == 0, 'only root can open a socket as another user'
    )
    def test_user_with_one_of_the_addresses_of_host_is_refused(self):
        """A connection with localhost may go to each of its addresses."""
        port = self.listen('127.0.0.1')
        self.listen('::1', port, uid=PERSON)
        with (
            unittest.mock.patch.object(
                local_server, '_resolve', lambda *_: {'127.0.0.1', '::1'}
            ),
            self.assertRaisesRegex(pvm.ConnectionError, f'uid {PERSON}'),
        ):
            local_server.find_owner('localhost', port)


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


class OpenDiskTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory) / 'disk'
        self.path.write_bytes(b'contents')

    def open(self, **options):
        """Open the disk."""
        return management_partition.open_disk(str(self.path), **options)

    def test_reader_cannot_write(self):
        with self.open() as file:
            self.assertEqual(b'contents', file.read())
            self.assertRaises(OSError, file.write, b'x')

    def test_writer_overwrites_and_cannot_read(self):
        with self.open(write=True) as file:
            file.write(b'zero')
            self.assertRaises(OSError, file.read)
        self.assertEqual(b'zeroents', self.path.read_bytes())

    def refused(self, number, **options):
        """Assert that the disk cannot be opened."""
        with self.assertRaises(OSError) as caught:
            self.open(**options)
        self.assertEqual(number, caught.exception.errno)
        self.assertEqual(str(self.path), caught.exception.filename)

    def test_pipe_is_refused_without_waiting(self):
        self.path.unlink()
        os.mkfifo(self.path)
        for write in False, True:
            self.refused(errno.ENOTBLK, write=write)

    def test_link_is_refused(self):
        target = self.path.rename(self.path.with_name('other'))
        self.path.symlink_to(target)
        self.refused(errno.ENOTBLK)

    def test_missing_disk_is_refused_and_not_made(self):
        self.path.unlink()
        for write in False, True:
            self.refused(errno.ENOENT, write=write)
        self.assertFalse(self.path.exists())

    def flags(self, mode, *, write):
        """Return the flags that something of a mode is opened with."""
        result = os.stat_result((mode, *[0] * 9))
        with (
            unittest.mock.patch.object(os, 'lstat', lambda path: result),
            unittest.mock.patch.object(os, 'open', side_effect=OSError) as own,
        ):
            self.assertRaises(OSError, self.open, write=write)
        return own.call_args.args[1]

    def test_device_alone_is_opened_exclusively_for_writing_alone(self):
        # Linux refuses a device that is mounted or held only with O_EXCL.
        self.assertEqual(
            [False, True, False, False],
            [
                bool(self.flags(mode, write=write) & os.O_EXCL)
                for mode in (stat.S_IFBLK, stat.S_IFREG)
                for write in (False, True)
            ],
        )


class DropTest(unittest.TestCase):
    """A disk that Linux removes while the driver looks for it."""

    def test_link_that_goes_meanwhile_is_no_error(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        links = root / 'dev/disk/by-id'
        links.mkdir(parents=True)
        link = links / 'scsi-SIBM_3303_NVDISKab.1'
        link.symlink_to('../../sda')
        partition = management_partition.ManagementPartition(
            unittest.mock.Mock(), str(root), sleep=lambda seconds: None
        )
        read = os.readlink

        def vanish(path, *args, **options):
            if path == str(link):
                link.unlink(missing_ok=True)
            return read(path, *args, **options)

        with unittest.mock.patch.object(os, 'readlink', vanish):
            partition.drop('ab.1')
        self.assertFalse(link.is_symlink())

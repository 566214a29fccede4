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

"""Consoles of LPARs: terminals on the emulator, clients over TCP."""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import os
import socket
import struct
import threading
import time
import unittest
import unittest.mock

import ddt
from oslo_log import log as logging
from pypowervm.tasks import vterm

from emulator.tests import rfb_viewer
from nova_powervm import exception
from nova_powervm.ops import consoles
from nova_powervm.powervm import terminals
from tests.ops import base

#: A partition of the default world.
NAME = 'archive'
PATH = 'of-the-console'
Viewer = rfb_viewer.Viewer


def free_port():
    """Return a port that nobody listens on."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


def wait_until(holds):
    """Wait until a function returns something that is true."""
    deadline = time.monotonic() + 8
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError('it does not come true')
        time.sleep(0.002)


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time a test can move on."""

    def __init__(self):
        super().__init__()
        self.skipped = 0

    def time(self):
        """Return seconds."""
        return super().time() + self.skipped

    def skip(self, seconds):
        """Let time pass at once."""

        def move():
            self.skipped += seconds

        self.call_soon_threadsafe(move)


class ConsoleTestCase(base.HostTestCase):
    """Has an LPAR whose console is served, and no clients yet."""

    is_local = True

    def setUp(self):
        super().setUp()
        path = f'{self.host_root}/bin:{os.environ["PATH"]}'
        self.enterContext(unittest.mock.patch.dict(os.environ, PATH=path))
        self.uuid = self.lpar(NAME)['uuid']
        self.address = consoles.Address('127.0.0.1', free_port())
        self.start()

    def start(self, found=None, **limits):
        """Begin with consoles that nobody has asked for."""
        self.loop = Loop()
        self.consoles = consoles.Consoles(
            found or self.terminals(),
            self.address,
            consoles.Limits(**limits),
            lambda: self.loop,
        )
        self.addCleanup(self.consoles.stop)

    def terminals(self, *, closes_others=False):
        """Return the terminals of the host."""
        return terminals.LocalTerminals(
            self.adapter, closes_others=closes_others
        )

    def open(self):
        """Ask for the console."""
        return self.consoles.open(self.uuid, PATH)

    def connect(self, path=PATH):
        """Connect a client that leaves at the end of the test."""
        viewer = Viewer(self.address.port, path)
        self.addCleanup(viewer.close)
        return viewer

    def view(self):
        """Have a client see the screen."""
        viewer = self.connect().enter()
        self.assertEqual(NAME, viewer.name)
        return viewer

    def wait_for_viewers(self, count):
        """Wait until the console has as many viewers."""
        console = self.consoles._consoles[self.uuid]
        wait_until(lambda: len(console._clients) == count)

    def terminal(self):
        """Return what the host says of the terminal; None if it is closed."""
        return self.lpar(NAME)['terminal']

    def assert_let_go(self, viewer):
        """Assert that a client that has seen the screen is disconnected."""
        with self.assertRaises((EOFError, ConnectionError)):
            while True:
                viewer.read(1)


@ddt.ddt
class TerminalTest(ConsoleTestCase):
    def refused(self, *words, found=None):
        """Have a terminal not opened, and all words in the reason."""
        with self.assertRaises(exception.ConsoleUnavailable) as caught:
            (found or self.terminals()).open(self.uuid)
        for word in (self.uuid, *words):
            self.assertIn(word, str(caught.exception))

    def test_open_terminal_is_opened_again_with_its_port(self):
        port = self.terminals().open(self.uuid)
        self.assertEqual(port, self.terminals().open(self.uuid))
        self.assertEqual({'port': port}, self.terminal())

    def test_terminal_of_administrator_stays_open(self):
        self.control.open_terminal(NAME, vnc=False)
        self.refused('administrator', '[powervm]vnc_close_other_terminals')
        self.terminals().close(self.uuid)
        self.assertEqual({'port': None}, self.terminal())

    def test_terminal_of_administrator_is_closed_if_option_says_so(self):
        self.control.open_terminal(NAME, vnc=False)
        port = self.terminals(closes_others=True).open(self.uuid)
        self.assertEqual({'port': port}, self.terminal())

    def test_close_leaves_no_terminal(self):
        for opened in (True, False):
            if opened:
                self.terminals().open(self.uuid)
            self.terminals().close(self.uuid)
            self.assertIsNone(self.terminal())

    def test_terminal_is_refused_with_reason_of_mkvterm(self):
        self.control.plan_terminal('HSCL1234 no\nterminal')
        self.refused('HSCL1234 no terminal')

    def test_terminal_is_refused_without_mkvterm(self):
        with unittest.mock.patch.dict(os.environ, PATH='/nowhere'):
            self.refused('mkvterm', 'PATH')

    def test_terminal_is_refused_without_file_descriptor(self):
        """The viewer was let go, and nothing said why."""
        with unittest.mock.patch.object(
            vterm.subprocess,
            'Popen',
            side_effect=OSError(errno.EMFILE, 'Too many open files'),
        ):
            self.refused('cannot run mkvterm (Too many open files)')

    def test_terminal_is_refused_with_password(self):
        self.adapter.session.use_file_auth = False
        self.addCleanup(setattr, self.adapter.session, 'use_file_auth', True)
        self.refused('[powervm]rest_username')

    def test_terminal_of_unknown_lpar_is_not_found(self):
        self.assertRaises(
            exception.PartitionNotFound,
            self.terminals().open,
            self.uuid.replace('4', '5'),
        )

    def test_close_accepts_unknown_lpar(self):
        self.terminals().close(self.uuid.replace('4', '5'))

    def test_silent_host_is_reported(self):
        self.control.add_fault(match='quick', drop=True, every=True)
        self.assertRaises(
            exception.RestUnreachable, self.terminals().open, self.uuid
        )
        self.control.clear_faults()


class ListenerTest(ConsoleTestCase):
    def setUp(self):
        super().setUp()
        self.open()

    def costs(self):
        """Return what clients cost: connections, tasks and threads."""
        connections = sum(
            not transport.is_closing()
            for transport in self.loop._transports.values()
        )
        threads = [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith(('powervm-consoles', 'powervm-terminal'))
        ]
        return connections, len(asyncio.all_tasks(self.loop)), len(threads)

    def has_only_listener(self):
        """Return whether nothing is left of clients, also in memory."""
        self.loop.skip(consoles.Limits().request)
        # The task accepts clients.
        if self.costs() != (0, 1, 1):
            return False
        gc.collect()
        return not self.loop._transports

    def assert_next_sees_screen(self):
        """Assert that a proper client sees its screen, and costs end."""
        self.open()
        viewer = self.view()
        viewer.type('fine')
        viewer.find('> fine')
        viewer.close()
        self.wait_for_viewers(0)
        wait_until(self.has_only_listener)

    def test_client_sees_screen_and_types(self):
        self.assert_next_sees_screen()

    def test_wrong_path_is_forbidden(self):
        viewer = self.connect('of-another')
        self.assertEqual(403, viewer.answer())
        self.assert_let_go(viewer)

    def test_garbage_is_forbidden(self):
        for garbage in (
            b'\0' * 70_000,
            b'GET / HTTP/1.1\r\n\r\n',
            b'CONNECT  HTTP/1.1\r\n\r\n',
            f'CONNECT {PATH} and more HTTP/1.1\r\n\r\n'.encode(),
            rfb_viewer.VERSION * 2 + b'\r\n\r\n',
            b'\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
        ):
            viewer = self.connect(None)
            viewer.write(garbage)
            # What was not read resets the connection, with the answer.
            with contextlib.suppress(ConnectionError):
                self.assertEqual(403, viewer.answer(), garbage[:20])
        self.assert_next_sees_screen()

    def test_silent_client_is_forbidden_after_a_while(self):
        silent = self.connect(None)
        self.view().close()
        self.loop.skip(11)
        self.assertEqual(403, silent.answer())
        self.assert_next_sees_screen()

    def test_slow_client_is_forbidden_after_a_while(self):
        slow = self.connect(None)
        wait_until(lambda: self.consoles._listener._waiting)
        for letter in rfb_viewer.request(PATH)[:-1]:
            slow.write(bytes([letter]))
            self.loop.skip(0.27)
        self.loop.skip(0.5)
        self.assertEqual(403, slow.answer())
        self.assert_next_sees_screen()

    def test_client_that_ends_early_costs_nothing(self):
        for data in (b'', b'CONNECT ', rfb_viewer.request(PATH)):
            client = socket.create_connection(('127.0.0.1', self.address.port))
            client.sendall(data)
            # A reset in place of an end.
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)
            )
            client.close()
        self.assert_next_sees_screen()

    def test_client_that_resets_its_screen_costs_nothing(self):
        viewer = self.view()
        viewer._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)
        )
        viewer.close()
        self.assert_next_sees_screen()

    def test_listener_outlives_two_hundred_silent_clients(self):
        silent = [self.connect(None) for _ in range(200)]
        self.assert_next_sees_screen()
        # The first ones have made room for the last ones.
        self.assertEqual(503, silent[0].answer())
        self.assertEqual(403, silent[-1].answer())

    def test_listener_answers_two_hundred_clients_with_path(self):
        viewers = [self.connect() for _ in range(200)]
        statuses = [viewer.answer() for viewer in viewers]
        # On a busy machine, the terminal refuses some that the limit admits,
        # or all.
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertLessEqual(statuses.count(200), consoles.Limits().viewers)
        for viewer in viewers:
            viewer.close()
        self.wait_for_viewers(0)
        self.assert_next_sees_screen()

    def test_client_that_reads_nothing_is_let_go(self):
        viewer = self.view()
        self.loop.skip(consoles.Limits().silence + 1)
        self.assert_let_go(viewer)
        self.assert_next_sees_screen()

    def test_client_that_types_stays(self):
        viewer = self.view()
        for letter in 'abc':
            self.loop.skip(consoles.Limits().silence * 0.8)
            viewer.type(letter)
            viewer.forget()
            viewer.find(letter)
        viewer.find('> abc')


class AddressTest(ConsoleTestCase):
    def test_listener_has_no_other_addresses(self):
        self.address = consoles.Address('127.0.0.2', free_port())
        self.start()
        self.open()
        for address in ('127.0.0.1', '127.0.0.3'):
            self.assertRaises(
                ConnectionRefusedError, Viewer, (address, self.address.port)
            )
        with Viewer(('127.0.0.2', self.address.port), PATH) as viewer:
            viewer.enter()

    def test_used_address_is_refused_until_it_is_free(self):
        with (
            socket.create_server(('127.0.0.1', self.address.port)),
            self.assertRaisesRegex(
                exception.ConsoleUnavailable,
                rf'127\.0\.0\.1 port {self.address.port}.*'
                r'\[powervm\]vnc_port',
            ),
        ):
            self.open()
        self.open()
        self.view()

    def test_client_of_other_network_is_forbidden(self):
        for network, status in (('10.0.0.0/8', 403), ('127.0.0.0/8', 200)):
            self.address = consoles.Address(
                '127.0.0.1', free_port(), [ipaddress.ip_network(network)]
            )
            self.start()
            self.open()
            self.assertEqual(status, self.connect().answer())


class LifeTest(ConsoleTestCase):
    def test_terminal_closes_five_minutes_after_last_client(self):
        self.open()
        first, second = self.view(), self.view()
        first.close()
        self.wait_for_viewers(1)
        self.loop.skip(3600 - 60)
        second.type('x')
        second.find('> x')
        self.assertIsNotNone(self.terminal())
        second.close()
        self.wait_for_viewers(0)
        self.loop.skip(299)
        self.open()
        self.loop.skip(299)
        self.open()
        self.view().close()
        self.wait_for_viewers(0)
        self.assertIsNotNone(self.terminal())
        self.loop.skip(301)
        wait_until(lambda: self.terminal() is None)

    def test_terminal_that_nobody_views_closes(self):
        self.open()
        self.loop.skip(301)
        wait_until(lambda: self.terminal() is None)

    def test_closed_terminal_opens_for_next_client(self):
        self.open()
        self.loop.skip(301)
        wait_until(lambda: self.terminal() is None)
        self.open()
        self.view()

    def test_path_admits_clients_for_a_minute_after_nova_has_asked(self):
        self.open()
        viewer = self.view()
        self.loop.skip(59)
        self.view().close()
        self.loop.skip(2)
        self.assertEqual(403, self.connect().answer())
        viewer.type('stays')
        viewer.find('> stays')
        self.open()
        self.view()

    def test_terminal_that_administrator_closed_opens_for_next_client(self):
        self.open()
        viewer = self.view()
        self.control.close_terminal(NAME)
        self.assert_let_go(viewer)
        self.view()

    def test_client_is_refused_while_administrator_has_terminal(self):
        self.open()
        self.control.close_terminal(NAME)
        self.control.open_terminal(NAME, vnc=False)
        self.assertEqual(503, self.connect().answer())
        self.loop.skip(301)
        self.consoles.close(self.uuid)
        self.assertEqual({'port': None}, self.terminal())

    def test_path_stays_after_restart(self):
        self.open()
        self.consoles.stop()
        self.start()
        self.assertEqual(PATH, self.open())
        self.view()

    def test_path_of_console_is_its_first_one(self):
        self.open()
        self.assertEqual(PATH, self.consoles.open(self.uuid, 'second'))
        self.assertEqual(403, self.connect('second').answer())

    def test_close_lets_clients_go_and_forgets_path(self):
        self.open()
        viewer = self.view()
        self.consoles.close(self.uuid)
        self.assert_let_go(viewer)
        self.assertIsNone(self.terminal())
        self.assertEqual(403, self.connect().answer())
        self.assertFalse(self.consoles.has(self.uuid))

    def test_close_ends_terminal_of_earlier_process(self):
        self.terminals().open(self.uuid)
        self.consoles.close(self.uuid)
        self.assertIsNone(self.terminal())

    def test_failure_to_close_is_logged_with_cure(self):
        self.open()
        self.control.plan_terminal('HSCL1234 no')
        logging.logging.disable(logging.logging.NOTSET)
        with self.assertLogs(consoles.__name__, 'WARNING') as logged:
            self.consoles.close(self.uuid)
        self.assertIn('HSCL1234', logged.output[0])
        self.assertIn('rmvterm', logged.output[0])

    def test_stop_closes_terminals_and_listener(self):
        self.open()
        viewer = self.view()
        self.consoles.stop()
        self.assert_let_go(viewer)
        self.assertIsNone(self.terminal())
        self.assertRaises(
            ConnectionRefusedError, Viewer, self.address.port, PATH
        )
        self.assertRaises(exception.ConsoleUnavailable, self.open)

    def test_stop_without_console_starts_nothing(self):
        self.consoles.stop()
        self.assertIsNone(self.consoles._loop)

    def test_log_has_no_path(self):
        logging.logging.disable(logging.logging.NOTSET)
        with self.assertLogs(level='DEBUG') as logged:
            self.open()
            self.view().close()
            self.connect(f'x{PATH}').answer()
            self.control.close_terminal(NAME)
            self.control.open_terminal(NAME, vnc=False)
            self.connect().answer()
            self.consoles.close(self.uuid)
            self.consoles.stop()
        self.assertNotIn(PATH, '\n'.join(logged.output))


class Gate:
    """Terminals that wait, each time that one is opened, for a test.

    :param found: Opens and closes them.
    :ivar waiting: Whether somebody waits.
    :ivar is_open: Lets them through.
    """

    def __init__(self, found):
        self._found = found
        self.waiting = threading.Event()
        self.is_open = threading.Event()
        self.is_open.set()
        self.close = found.close

    def open(self, lpar_uuid):
        """Open a terminal."""
        self.waiting.set()
        self.is_open.wait()
        return self._found.open(lpar_uuid)


class OverlappingCommandTest(ConsoleTestCase):
    def test_client_keeps_terminal_that_was_about_to_close(self):
        gate = Gate(self.terminals())
        self.addCleanup(gate.is_open.set)
        # The client is admitted, although the terminal was idle for long.
        self.start(gate, entry=600)
        self.open()
        gate.waiting.clear()
        gate.is_open.clear()
        asking = threading.Thread(target=self.open)
        asking.start()
        gate.waiting.wait()
        # It closes when the command has ended.
        self.loop.skip(301)
        console = self.consoles._consoles[self.uuid]
        wait_until(lambda: console._closing)
        viewer = self.connect()
        self.wait_for_viewers(1)
        gate.is_open.set()
        asking.join()
        viewer.enter()
        wait_until(console._closing.done)
        viewer.type('here')
        viewer.find('> here')


class Stuck:
    """Terminals whose commands end only when a test lets them."""

    def __init__(self):
        self.calls = []
        self.may_end = threading.Event()

    def open(self, lpar_uuid):
        """Open nothing."""
        self.calls.append('open')
        self.may_end.wait()
        raise exception.RestError(action='test', reason='end')

    def close(self, lpar_uuid):
        """Close nothing."""
        self.calls.append('close')
        self.may_end.wait()


class StuckCommandTest(ConsoleTestCase):
    def setUp(self):
        super().setUp()
        self.stuck = Stuck()
        self.addCleanup(self.stuck.may_end.set)
        self.start(self.stuck)

    def refuse(self):
        """Have the console refused after a while."""
        errors = []

        def ask():
            try:
                self.open()
            except exception.ConsoleUnavailable as error:
                errors.append(str(error))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: self.stuck.calls)
        # The loop waits for the command by now, or soon.
        while asking.is_alive():
            self.loop.skip(61)
            asking.join(0.01)
        return errors

    def test_stuck_mkvterm_is_named_and_runs_once(self):
        for _ in range(2):
            (error,) = self.refuse()
            self.assertIn('mkvterm has not ended within 60 seconds', error)
        self.assertEqual(['open'], self.stuck.calls)

    def test_stuck_mkvterm_does_not_keep_process_from_ending(self):
        self.refuse()
        started = time.monotonic()
        self.consoles.stop()
        self.assertLess(time.monotonic() - started, 4)
        stuck = [
            thread.daemon
            for thread in threading.enumerate()
            if thread.name.startswith('powervm-terminal')
        ]
        self.assertEqual([True], stuck)

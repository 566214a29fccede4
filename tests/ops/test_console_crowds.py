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

"""Many viewers of consoles, and what they leave to others."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import ddt
from oslo_log import log as logging

from emulator.tests import base as emulator_base
from emulator.tests import rfb_viewer
from nova_powervm.ops import console_listener
from nova_powervm.ops import consoles
from tests.ops import console_process
from tests.ops import test_consoles

DESCRIPTORS = 256
#: The consoles of one tenant.
CROWD = tuple(f'crowd-{number}' for number in range(16))
VICTIM = 'of-another-tenant'


def listen():
    """Listen at a free port of the loopback interface."""
    return socket.create_server(('127.0.0.1', 0), backlog=1024)


class ProcessTestCase(unittest.TestCase):
    """Starts nova-compute's stand-in, and an emulated host."""

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        self.emulator = emulator_base.start(self)
        # The kernel accepts what connects: nobody else has to.
        self.terminal = self.enterContext(listen())
        with listen() as server:
            self.port = server.getsockname()[1]
        self.log = self.enterContext(tempfile.NamedTemporaryFile('r'))
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'tests.ops.console_process'],
            cwd=pathlib.Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(self.log.name, 'w'),  # noqa: SIM115
            text=True,
        )
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        for stream in (self.process.stdin, self.process.stdout):
            self.addCleanup(stream.close)
        self.write(
            {
                'descriptors': DESCRIPTORS,
                'port': self.port,
                'terminal': self.terminal.getsockname()[1],
                'rest': {
                    'host': self.emulator.host,
                    'port': self.emulator.port,
                    'username': self.emulator.username,
                    'password': self.emulator.password,
                    'protocol': 'http',
                    'certpath': None,
                },
            }
        )

    def write(self, value):
        """Write a line to the process."""
        self.process.stdin.write(json.dumps(value) + '\n')
        self.process.stdin.flush()

    def tell(self, *words):
        """Have the process do something; return its answer."""
        self.write(words)
        return json.loads(self.process.stdout.readline())

    def connect(self, path=None):
        """Connect a client that leaves at the end of the test."""
        viewer = rfb_viewer.Viewer(self.port, path)
        self.addCleanup(viewer.close)
        return viewer

    def crowd(self):
        """Have as many viewers of the crowd's consoles as get in.

        More clients say nothing.
        """
        viewers = [self.connect(path) for _ in range(16) for path in CROWD]
        for viewer in viewers:
            with contextlib.suppress(ConnectionError, EOFError, TimeoutError):
                viewer.answer()
        return viewers + [self.connect() for _ in range(64)]

    def assert_viewed(self, viewer):
        """Assert that a viewer is let in, and stays."""
        self.assertEqual(200, viewer.answer())
        viewer._socket.settimeout(0.5)
        self.assertRaises(TimeoutError, viewer.read, 1)

    def logged(self):
        """Return the lines of the log."""
        return pathlib.Path(self.log.name).read_text().splitlines()


class CrowdTest(ProcessTestCase):
    def test_viewers_leave_descriptors_to_others(self):
        """One tenant's viewers took all: 16 of each of 16 consoles.

        The host was not reached, other tenants had no console, and asyncio
        logged tracebacks for as long as it lasted.
        """
        self.assertIsNone(self.tell('open', *CROWD, VICTIM))
        before = self.tell('count')
        self.crowd()
        self.assertLess(self.tell('count') - before, DESCRIPTORS / 2)
        self.assertIsNone(self.tell('ask'))
        self.assert_viewed(self.connect(VICTIM))
        self.assertLess(len(self.logged()), 10, self.logged()[:10])

    def test_descriptors_come_back_when_crowd_has_gone(self):
        self.assertIsNone(self.tell('open', *CROWD, VICTIM))
        before = self.tell('count')
        for viewer in self.crowd():
            viewer.close()
        self.assert_viewed(self.connect(VICTIM))
        self.assertLess(self.tell('count') - before, 4)

    def test_viewer_that_leaves_without_reading_costs_nothing(self):
        """It was not counted, and kept a descriptor for five seconds."""
        self.assertIsNone(self.tell('open', VICTIM))
        before = self.tell('count')
        viewer = self.connect(VICTIM)
        self.assertEqual(200, viewer.answer())
        terminal, _ = self.terminal.accept()
        self.addCleanup(terminal.close)
        terminal.settimeout(0.3)
        # Until all buffers are full.
        self.assertRaises(TimeoutError, terminal.sendall, bytes(1 << 26))
        self.assertEqual(before + 2, self.tell('count'))
        viewer._socket.shutdown(socket.SHUT_WR)
        self.await_count(before)

    def await_count(self, count):
        """Wait until the process has few descriptors, but not for long."""
        deadline = time.monotonic() + 3
        while self.tell('count') > count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_lack_of_descriptors_is_logged_briefly(self):
        """It was a traceback for each attempt to accept, 100 a second."""
        self.assertIsNone(self.tell('open', VICTIM))
        self.assertIsNone(self.tell('spend'))
        viewer = self.connect(VICTIM)
        viewer._socket.settimeout(3)
        with contextlib.suppress(TimeoutError):
            viewer.answer()
            self.fail('there was a descriptor')
        self.assertIsNone(self.tell('give_back'))
        self.assert_viewed(self.connect(VICTIM))
        (line,) = self.logged()
        self.assertIn('LimitNOFILE', line)


@ddt.ddt
class LimitTest(unittest.TestCase):
    @ddt.data(
        (1024, (128, 64, 16)),
        (256, (32, 16, 4)),
        (4, (1, 1, 1)),
        (1 << 20, (256, 64, 16)),
        (-1, (256, 64, 16)),
    )
    @ddt.unpack
    def test_limits_are_parts_of_file_descriptors(self, descriptors, expected):
        with unittest.mock.patch.object(
            console_listener.resource,
            'getrlimit',
            return_value=(descriptors, -1),
        ):
            found = consoles.Limits()
        self.assertEqual(
            expected, (found.viewers_of_all, found.waiting, found.commands)
        )


class RoomTestCase(unittest.TestCase):
    """Has room for four viewers of all consoles together."""

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        terminal = self.enterContext(listen())
        self.port = test_consoles.free_port()
        self.loop = test_consoles.Loop()
        self.consoles = consoles.Consoles(
            console_process.Terminals(terminal.getsockname()[1]),
            consoles.Address('127.0.0.1', self.port),
            consoles.Limits(viewers_of_all=4),
            lambda: self.loop,
        )
        self.addCleanup(self.consoles.stop)

    def view(self, path):
        """Have a viewer ask for a console; return it with the answer."""
        self.consoles.open(path, path)
        viewer = rfb_viewer.Viewer(self.port, path)
        self.addCleanup(viewer.close)
        return viewer, viewer.answer()

    def admit(self, *paths):
        """Let viewers in; return them."""
        found = [self.view(path) for path in paths]
        self.assertEqual([200] * len(paths), [status for _, status in found])
        return [viewer for viewer, _ in found]

    def assert_stay(self, *viewers):
        """Assert that viewers are not let go."""
        for viewer in viewers:
            viewer._socket.settimeout(0.2)
            self.assertRaises(TimeoutError, viewer._socket.recv, 1)

    def assert_gone(self, viewer):
        """Assert that a viewer is let go."""
        self.assertRaises(EOFError, viewer.read, 1)


class RoomTest(RoomTestCase):
    def test_viewer_of_console_with_most_makes_room(self):
        lonely, first, *others = self.admit('one', 'two', 'two', 'two')
        (newcomer,) = self.admit('three')
        self.assert_gone(first)
        self.assert_stay(lonely, *others, newcomer)

    def test_viewer_of_console_with_most_is_refused(self):
        viewers = self.admit('one', 'one', 'two', 'two')
        for path in ('one', 'two'):
            self.assertEqual(503, self.view(path)[1])
        self.assert_stay(*viewers)

    def test_tenant_with_consoles_of_few_viewers_keeps_nobody_out(self):
        """All places were those of whoever came first."""
        first, *others = self.admit('one', 'two', 'three', 'four')
        (newcomer,) = self.admit('of-another-tenant')
        self.assert_gone(first)
        self.assert_stay(*others, newcomer)

    def test_viewer_that_has_gone_makes_room(self):
        first, *others = self.admit('one', 'one', 'two', 'two')
        first.close()
        console = self.consoles._consoles['one']
        test_consoles.wait_until(lambda: len(console._clients) == 1)
        self.assert_stay(*others, *self.admit('one'))

    def test_refusals_of_one_cause_are_logged_once_a_minute(self):
        """A user filled the log with what he was refused."""
        self.admit('one', 'one', 'one', 'one')
        logging.logging.disable(logging.logging.NOTSET)
        with self.assertLogs(console_listener.__name__, 'WARNING') as logged:
            for _ in range(20):
                self.view('one')
            (line,) = logged.output
            self.loop.skip(61)
            self.view('one')
        self.assertIn('have 4 viewers together', line)
        self.assertIn('(1 times since the last such line)', line)
        self.assertIn('(20 times since the last such line)', logged.output[-1])
        self.assertEqual(2, len(logged.output))

    def test_unexpected_errors_are_logged_once_a_minute(self):
        logging.logging.disable(logging.logging.NOTSET)
        self.admit('one')
        with (
            unittest.mock.patch.object(
                console_process.Terminals, 'open', side_effect=KeyError('bug')
            ),
            self.assertLogs(console_listener.__name__, 'ERROR') as logged,
        ):
            for _ in range(3):
                viewer = rfb_viewer.Viewer(self.port, 'one')
                self.addCleanup(viewer.close)
                self.assertEqual(503, viewer.answer())
        self.assertEqual(1, len(logged.output), logged.output)

    def test_error_that_another_thread_finds_is_logged_once_a_minute(self):
        """Each was an error in the handler of errors, logged without end."""
        logging.logging.disable(logging.logging.NOTSET)
        self.admit('one')
        with self.assertLogs('asyncio', 'ERROR') as logged:
            for seconds in (0, 0, 61):
                self.loop.skipped += seconds
                self.loop.call_exception_handler({'message': 'It is lost'})
        self.assertEqual(['ERROR:asyncio:It is lost'] * 2, logged.output)


class Counted(console_process.Terminals):
    """Terminals that take a while to open.

    :ivar most: How many were opened at the same time.
    """

    def __init__(self, port):
        super().__init__(port)
        self._guard = threading.Lock()
        self._now = self.most = 0

    def open(self, lpar_uuid):
        """Return the port, after a while."""
        with self._guard:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.05)
        with self._guard:
            self._now -= 1
        return super().open(lpar_uuid)


class CommandTest(unittest.TestCase):
    def test_commands_of_many_consoles_take_turns(self):
        """Each console had one, with some descriptors, at once."""
        terminals = Counted(1)
        opened = consoles.Consoles(
            terminals,
            consoles.Address('127.0.0.1', test_consoles.free_port()),
            consoles.Limits(commands=2),
        )
        self.addCleanup(opened.stop)
        asking = [
            threading.Thread(target=opened.open, args=(path, path))
            for path in CROWD
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        self.assertEqual(2, terminals.most)
        self.assertTrue(all(opened.has(path) for path in CROWD))

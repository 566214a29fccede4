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

"""Hosts that do not answer, refuse or fail, and what is tried again."""

import contextlib
import dataclasses
import socket
import threading
import time
import unittest
import unittest.mock

import ddt
import requests
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import partition
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm import events
from nova_powervm.powervm import partitions
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.vif import virtual_ethernet
from powervm_emulator import fixture

#: The emulator lets a request go when it stops, at the latest.
FOR_EVER = 600
#: When a test gives up what it has let hang.
SOON = 0.3
READ = 60
#: What no test may take that does not wait for an answer.
LONG = 15
ROOT = '/rest/api/uom/'
LOGON = '/rest/api/web/Logon'


class SilentTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.emulator = self.enterContext(fixture.Emulator(event_wait=LONG))
        self.control = self.emulator.control
        self.server = options.Server(
            url=self.emulator.url,
            username='admin',
            password='abc123',
            connect_timeout=0,
            read_timeout=READ,
        )

    def connect(self):
        adapter = session.connect(self.server)
        self.addCleanup(base.forget, adapter.session)
        return adapter

    def hang(self, match):
        self.control.add_fault(match=match, every=True, delay=FOR_EVER)

    @contextlib.contextmanager
    def soon(self):
        """Do something that does not wait for an answer."""
        started = time.monotonic()
        yield
        self.assertLess(time.monotonic() - started, LONG)

    def count(self, label):
        return sum(
            record['label'] == label for record in self.control.journal()
        )


class ReadTest(SilentTestCase):
    def setUp(self):
        super().setUp()
        self.adapter = self.connect()
        self.managed = system.RestSystem(self.adapter, self.server)
        self.hang('ManagedSystem')
        self.adapter.session._read_timeout = SOON

    def test_unanswered_read_is_not_repeated(self):
        with self.soon(), self.assertRaises(exception.RestSilent) as caught:
            self.managed.read()

        self.assertEqual(1, self.count('ManagedSystem.feed'))
        self.assertIn('does not answer', str(caught.exception))

    def test_threads_that_waited_for_a_read_do_not_wait_in_turn(self):
        outcomes = []

        def read():
            try:
                self.managed.read()
            except exception.RestSilent:
                outcomes.append('silent')

        with self.managed._lock:
            threads = [threading.Thread(target=read) for _ in range(5)]
            for thread in threads:
                thread.start()
            # Each of them has come, and waits for its turn.
            time.sleep(SOON)
        for thread in threads:
            thread.join()

        self.assertEqual(['silent'] * 5, outcomes)
        self.assertEqual(1, self.count('ManagedSystem.feed'))

    def test_read_after_silence_asks_again(self):
        with self.assertRaises(exception.RestSilent):
            self.managed.read()
        self.control.clear_faults()
        self.adapter.session._read_timeout = READ

        self.assertTrue(self.managed.read().io_slots)

    def test_unanswered_logon_is_given_up(self):
        self.hang('Logon')
        hasty = dataclasses.replace(self.server, read_timeout=SOON)

        with self.soon(), self.assertRaises(exception.RestUnreachable):
            session.connect(hasty)

    def test_silence_in_middle_of_answer_is_told_as_silence(self):
        listening = self.enterContext(
            contextlib.closing(socket.create_server(('127.0.0.1', 0)))
        )

        def begin_to_answer():
            connection, _ = listening.accept()
            connection.recv(1024)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
            self.addCleanup(connection.close)

        thread = threading.Thread(target=begin_to_answer)
        thread.start()
        self.addCleanup(thread.join)

        with (
            self.assertRaises(exception.RestSilent),
            rest_errors.translated('it'),
        ):
            try:
                port = listening.getsockname()[1]
                requests.get(f'http://127.0.0.1:{port}', timeout=SOON)
            except requests.ConnectionError as error:
                # As pypowervm does
                raise pvm.ConnectionError(str(error))  # noqa: B904

    def test_read_is_repeated_after_dropped_connection(self):
        self.adapter.session._read_timeout = READ
        self.control.add_fault(match='LogicalPartition', drop=True)

        lpars = partitions.RestPartitions(self.adapter, None)

        self.assertTrue(lpars.names())


class WriteTest(SilentTestCase):
    def setUp(self):
        super().setUp()
        self.adapter = self.connect()
        self.partitions = partitions.RestPartitions(self.adapter, None)
        self.uuid = next(iter(self.partitions.names()))
        self.enterContext(
            unittest.mock.patch.object(session, 'ANSWER_SECONDS', SOON)
        )

    def test_unanswered_write_is_not_repeated(self):
        owned = frozenset(self.partitions.find(self.uuid).slots)
        for label, write in (
            ('LogicalPartition.delete', self.partitions.delete),
            (
                'LogicalPartition.update',
                lambda uuid: self.partitions.write(
                    partition.PartitionSpec(uuid, 'it', None, freed=owned),
                    lambda: None,
                    creates=False,
                ),
            ),
        ):
            with self.subTest(label):
                self.hang(label)
                with self.soon(), self.assertRaises(exception.RestSilent):
                    write(self.uuid)
                self.assertEqual(1, self.count(label))

    def test_unanswered_creation_of_adapter_is_not_repeated(self):
        networks = virtual_ethernet.VirtualEthernet(
            self.adapter, system.RestSystem(self.adapter, self.server)
        )
        wanted = shared_ethernet.Adapter('fa:16:3e:00:00:01', 1, 'ETHERNET0')
        self.hang('ClientNetworkAdapter.create')

        with self.soon(), self.assertRaises(exception.RestSilent):
            networks.plug(self.partitions.find(self.uuid), wanted)

        self.assertEqual(1, self.count('ClientNetworkAdapter.create'))

    def test_unanswered_job_is_not_repeated(self):
        lpar = self.partitions.find(self.uuid)
        self.hang('LogicalPartition.job')

        with self.soon(), self.assertRaises(exception.RestError):
            self.partitions.power_off(lpar, hard=True)

        self.assertEqual(1, self.count('LogicalPartition.job'))


@ddt.ddt
class LimitTest(SilentTestCase):
    """How long each kind of request may take."""

    @ddt.named_data(
        ['a read', 'GET', ROOT + 'ManagedSystem', {}, READ],
        [
            'a read with its own',
            'GET',
            ROOT + 'Cluster',
            {'timeout': 99},
            READ,
        ],
        ['one in haste', 'GET', ROOT + 'Cluster', {'timeout': 0.1}, 0.1],
        ['a job', 'GET', ROOT + 'jobs/1', {}, 300],
        ['a poll', 'GET', ROOT + 'Event?x=y', {'timeout': 45}, 45],
        ['a download', 'GET', ROOT + 'x', {'filehandle': object()}, 300],
        ['a write', 'POST', ROOT + 'VirtualIOServer/1', {}, 300],
        ["pypowervm's hour", 'POST', ROOT + 'x', {'timeout': 3600}, 300],
        ['no limit', 'POST', ROOT + 'x', {'timeout': None}, 300],
        ['an upload', 'PUT', '/rest/api/web/x', {'filehandle': 1}, 300],
        ['logon', 'PUT', LOGON, {'login': True}, READ],
        ['logoff', 'DELETE', LOGON, {}, session.PARTING_SECONDS],
        ['again', 'GET', ROOT + 'x', {'timeout': (1, 2)}, 2],
    )
    def test_request_timeout_depends_on_kind_of_request(
        self, method, path, kwargs, expected
    ):
        adapter = self.connect()
        with unittest.mock.patch.object(
            pvm_adapter.Session, 'request'
        ) as request:
            adapter.session.request(method, path, **kwargs)

        # A session that is collected meanwhile logs off.
        (call,) = (c for c in request.call_args_list if c.args[1] == path)
        connect, answer = call.kwargs['timeout']
        self.assertEqual(expected, answer)
        self.assertLessEqual(connect, min(10, answer))


class PartingTest(SilentTestCase):
    """A service that stops does not wait for a host that hangs."""

    def setUp(self):
        super().setUp()
        for module, name in (
            (session, 'PARTING_SECONDS'),
            (events, '_STOP_SECONDS'),
        ):
            self.enterContext(unittest.mock.patch.object(module, name, SOON))

    def test_close_gives_up_unanswered_logoff(self):
        adapter = self.connect()
        self.hang('Logon')

        with self.soon():
            adapter.session.close()

        self.assertEqual(2, len(self.control.journal()))

    def test_close_does_not_wait_for_logon_of_another_thread(self):
        adapter = self.connect()
        held, done = threading.Event(), threading.Event()

        def log_on():
            with adapter.session._lock:
                held.set()
                done.wait(LONG)

        thread = threading.Thread(target=log_on)
        thread.start()
        held.wait()
        with self.soon():
            adapter.session.close()
        done.set()
        thread.join()

    def test_stop_does_not_wait_for_silent_event_stream(self):
        adapter = self.connect()
        heard = threading.Event()
        watcher = unittest.mock.Mock(check=lambda *_: heard.set())
        listener = events.Listener(adapter, watcher)
        listener.start()
        heard.wait(LONG)
        # The poll under way goes on as long as the server likes.
        self.hang('Event')

        with self.soon():
            listener.stop()


BUSY = exception.RestBusy(action='it', reason='busy')
RACE = exception.RestConflict(action='it', reason='HTTP 412')
DOWN = exception.RestUnreachable(server='it', reason='no answer')
FINAL = exception.RestError(action='it', reason='HTTP 400')


class Server:
    """Answers with what it was told to, then with its calls' number."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = 0

    def ask(self):
        self.calls += 1
        if self.answers:
            raise self.answers.pop(0)
        return self.calls


class TriesTest(unittest.TestCase):
    """Somebody who is faster got on, and is no failure; an error is one."""

    def test_passing_errors_are_tried_again_until_third_failure(self):
        plain = rest_errors.retried
        contended = rest_errors.retried_on_conflict
        for retried, answers, calls, error in (
            (plain, [DOWN, BUSY], 3, None),
            (plain, [DOWN] * 3, 3, exception.RestUnreachable),
            (plain, [FINAL], 1, exception.RestError),
            (contended, [RACE] * 5, 6, None),
            (contended, [RACE, DOWN, RACE, BUSY, RACE], 6, None),
            (contended, [RACE, DOWN] * 3, 6, exception.RestUnreachable),
            (contended, [RACE, FINAL], 2, exception.RestError),
        ):
            with self.subTest(retried.__name__, answers=answers):
                server = Server(*answers)
                if error:
                    self.assertRaises(error, retried(server.ask))
                else:
                    self.assertEqual(calls, retried(server.ask)())
                self.assertEqual(calls, server.calls)

    def test_tries_are_counted_per_call(self):
        server = Server(DOWN, DOWN)
        ask = rest_errors.retried_on_conflict(server.ask)
        self.assertEqual(3, ask())
        server.answers += [DOWN, DOWN]
        self.assertEqual(6, ask())


class RefusalTest(base.EmulatorTestCase):
    """What a host refuses it often answers with 500, as live ones do."""

    def read(self, status, message):
        """Read the LPARs; return the error and how often they were read."""
        self.control.add_fault(status=status, message=message, every=True)
        self.control.clear_journal()
        found = partitions.RestPartitions(self.adapter, None)
        with (
            unittest.mock.patch('tenacity.nap.time.sleep'),
            self.assertRaises(exception.RestError) as caught,
        ):
            found.names()
        self.control.clear_faults()
        return caught.exception, len(self.control.journal())

    def test_code_of_a_refusal_decides_beside_the_status(self):
        for status, message, kind, tries in (
            (500, 'REST0126 HSCL05DE A name is used.', 'RestRefused', 1),
            (500, ' REST0140 Invalid type', 'RestRefused', 1),
            (400, 'REST029B No such partition', 'RestRefused', 1),
            (500, 'Data cannot be retrieved from VIOS.', 'RestError', 1),
            (500, 'REST0126 HSCL3205 The VIOS is busy', 'ViosBusy', 3),
            (503, 'HSCL0001 It is starting', 'RestBusy', 3),
        ):
            with self.subTest(message):
                error, asked = self.read(status, message)

                self.assertEqual(kind, type(error).__name__)
                self.assertEqual(tries, asked)
                refuses = 'the host refuses it, ' in str(error)
                self.assertEqual(kind == 'RestRefused', refuses)
                self.assertIn(f'HTTP {status}: ', str(error))

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

import multiprocessing
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from demo import messaging
from demo import stack
from demo.messaging import connection
from tests.unit.demo.messaging import echo_server

_PASSWORD = 'letmein'


def _environment():
    path = os.pathsep.join([str(messaging.METADATA), *sys.path])
    return {**os.environ, 'PYTHONPATH': path, 'PYTHONWARNINGS': 'ignore'}


class _Processes:
    """The server of the queues and servers of calls, as processes."""

    def __init__(self, directory):
        self.port = stack.free_ports(['queues'])['queues']
        self.url = f'{messaging.SCHEME}://:{_PASSWORD}@127.0.0.1:{self.port}/'
        self._password_file = pathlib.Path(directory) / 'password'
        self._password_file.write_text(_PASSWORD + '\n')
        self.running = []

    def start(self, module, *arguments):
        process = subprocess.Popen(
            [sys.executable, '-m', module, *arguments],
            env=_environment(),
            # The server of the queues ends with it.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.running.append(process)
        return process

    def start_queues(self):
        return self.start(
            'demo.messaging',
            *('--port', str(self.port)),
            *('--password-file', str(self._password_file)),
        )

    def start_echo(self, name):
        process = self.start(echo_server.__name__, self.url, name)
        assert process.stdout.readline() == b'ready\n'
        return process

    @staticmethod
    def kill(process):
        process.kill()
        process.wait()

    def stop(self):
        for process in self.running:
            self.kill(process)
            process.stdin.close()
            process.stdout.close()


def _call_in_child(url, answers):
    """Report the result of a call, in a process that was forked."""
    answers.put(_CLIENTS[url].call({}, 'who')[0])


# What a forked process inherits.
_CLIENTS = {}


class _Base(unittest.TestCase):
    def make_transport(self, url):
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url)
        self.addCleanup(transport.cleanup)
        return transport

    def make_client(self, processes):
        # The tests run without the variable that the demonstration sets.
        path = mock.patch.object(
            sys, 'path', [str(messaging.METADATA), *sys.path]
        )
        path.start()
        self.addCleanup(path.stop)
        cfg.CONF([], default_config_files=[])
        # Nova registers options when it is loaded, which is then too late.
        self.addCleanup(cfg.CONF.clear)
        self.url = processes.url
        return oslo_messaging.get_rpc_client(
            self.make_transport(self.url),
            oslo_messaging.Target(topic=echo_server.TOPIC, version='1.0'),
            timeout=30,
        )

    def await_equal(self, expected, function):
        deadline = time.monotonic() + 30
        while (observed := function()) != expected:
            if time.monotonic() > deadline:
                self.fail(f'expected {expected!r}, is still {observed!r}')
            time.sleep(0.02)


class CallsTest(_Base):
    """Calls between processes that stay."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.processes = _Processes(directory.name)
        cls.addClassCleanup(cls.processes.stop)
        cls.processes.start_queues()
        cls.pids = {
            name: cls.processes.start_echo(name).pid for name in ('one', 'two')
        }

    def setUp(self):
        super().setUp()
        self.client = self.make_client(self.processes)

    def notes(self, name):
        return self.client.prepare(server=name).call({}, 'notes')

    def test_call_returns_result_of_another_process(self):
        context = {'user': 'me'}

        for value in (None, 'ü\n', [1, {'a': 2.5}], 'x' * 1_000_000):
            self.assertEqual(
                {'value': value, 'context': context},
                self.client.call(context, 'echo', value=value),
            )

    def test_directed_calls_reach_their_server(self):
        for name, pid in self.pids.items():
            self.assertEqual(
                [name, pid], self.client.prepare(server=name).call({}, 'who')
            )

    def test_calls_on_a_topic_are_shared_by_its_servers(self):
        names = {self.client.call({}, 'who')[0] for _ in range(10)}

        self.assertEqual({'one', 'two'}, names)

    def test_fanout_reaches_all_servers(self):
        value = self.id()

        self.client.prepare(fanout=True).cast({}, 'note', value=value)

        for name in self.pids:
            self.await_equal(
                1, lambda name=name: self.notes(name).count(value)
            )

    def test_cast_reaches_one_server(self):
        value = self.id()

        self.client.cast({}, 'note', value=value)

        self.await_equal(
            1,
            lambda: (self.notes('one') + self.notes('two')).count(value),
        )

    def test_allowed_exception_keeps_its_class(self):
        with self.assertRaisesRegex(ValueError, 'reason'):
            self.client.call({}, 'fail', kind='known')

    def test_unknown_exception_is_a_remote_error(self):
        with self.assertRaises(oslo_messaging.RemoteError) as caught:
            self.client.call({}, 'fail', kind='unknown')

        self.assertEqual('UnknownError', caught.exception.exc_type)
        self.assertEqual('reason', caught.exception.value)

    def test_late_reply_is_a_timeout_and_disturbs_no_other_call(self):
        with self.assertRaisesRegex(
            oslo_messaging.MessagingTimeout, 'no reply to wait on .*/echo'
        ):
            self.client.prepare(timeout=0.1).call({}, 'wait', seconds=0.3)

        self.assertEqual(0.2, self.client.call({}, 'wait', seconds=0.2))

    def test_monitored_call_may_take_long_while_its_server_lives(self):
        monitored = self.client.prepare(timeout=30, call_monitor_timeout=2)

        self.assertEqual(3, monitored.call({}, 'wait', seconds=3))

    def test_threads_get_their_own_replies(self):
        wrong = []

        def run(number):
            for step in range(20):
                value = [number, step]
                answer = self.client.call({}, 'echo', value=value)
                if answer['value'] != value:
                    wrong.append(answer)

        threads = [
            threading.Thread(target=run, args=(number,))
            for number in range(30)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        self.assertEqual([], wrong)

    def test_forked_process_can_call(self):
        self.client.call({}, 'who')
        _CLIENTS[self.url] = self.client.prepare(server='one')
        self.addCleanup(_CLIENTS.clear)
        context = multiprocessing.get_context('fork')
        answers = context.Queue()

        child = context.Process(
            target=_call_in_child, args=(self.url, answers)
        )
        child.start()

        self.assertEqual('one', answers.get(timeout=30))
        child.join(30)
        self.assertEqual(
            'two', self.client.prepare(server='two').call({}, 'who')[0]
        )

    def test_stopped_server_takes_no_more_messages(self):
        server = echo_server.start(self.url, 'three')
        self.addCleanup(server.transport.cleanup)
        directed = self.client.prepare(server='three')
        self.assertEqual(['three', os.getpid()], directed.call({}, 'who'))

        server.stop()
        server.wait()
        directed.cast({}, 'note', value='after the stop')

        again = echo_server.start(self.url, 'three')
        self.addCleanup(again.transport.cleanup)
        self.addCleanup(again.wait)
        self.addCleanup(again.stop)
        self.await_equal(['after the stop'], lambda: self.notes('three'))

    def test_wrong_password_is_refused(self):
        url = self.url.replace(_PASSWORD, 'wrong')
        client = oslo_messaging.get_rpc_client(
            self.make_transport(url),
            oslo_messaging.Target(topic=echo_server.TOPIC, version='1.0'),
        )

        with self.assertRaisesRegex(
            oslo_messaging.MessageDeliveryFailure, 'password in the URL'
        ):
            client.cast({}, 'note', value='?')

    def test_invalid_request_ends_only_its_connection(self):
        address = connection.Address(
            '127.0.0.1', self.processes.port, _PASSWORD
        )
        for frame in ({'op': 'none'}, [], {'op': 'put'}):
            bad = connection.Connection(address)
            self.addCleanup(bad.close)
            with self.assertRaises(ConnectionError):
                bad.request(frame)

        self.assertEqual(1, self.client.call({}, 'echo', value=1)['value'])

    def test_notifications_wait_for_their_listener(self):
        transport = oslo_messaging.get_notification_transport(
            cfg.CONF, self.url
        )
        self.addCleanup(transport.cleanup)
        oslo_messaging.Notifier(
            transport, 'me', driver='messaging', topics=['news']
        ).info({}, 'event', {'a': 1})

        got = self.listen(transport, 'news')

        self.assertEqual(('me', 'event', {'a': 1}), got.get(timeout=30))

    def test_pool_of_listeners_gets_what_others_get_too(self):
        transport = oslo_messaging.get_notification_transport(
            cfg.CONF, self.url
        )
        self.addCleanup(transport.cleanup)
        topic = self.id()
        listeners = [
            self.listen(transport, topic, pool) for pool in (None, 'a', 'b')
        ]

        oslo_messaging.Notifier(
            transport, 'me', driver='messaging', topics=[topic]
        ).info({}, 'event', {})

        for got in listeners:
            self.assertEqual(('me', 'event', {}), got.get(timeout=30))

    def listen(self, transport, topic, pool=None):
        """Start a listener; return the queue of what it gets."""
        got = queue.Queue()

        class Endpoint:
            def info(self, context, publisher, event, payload, metadata):
                got.put((publisher, event, payload))

        listener = oslo_messaging.get_notification_listener(
            transport,
            [oslo_messaging.Target(topic=topic)],
            [Endpoint()],
            pool=pool,
        )
        listener.start()
        self.addCleanup(listener.wait)
        self.addCleanup(listener.stop)
        return got


class FaultsTest(_Base):
    """Processes that come and go."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.processes = _Processes(directory.name)
        self.addCleanup(self.processes.stop)
        self.client = self.make_client(self.processes)

    def start_server(self, name):
        """Start a server in this process."""
        server = echo_server.start(self.url, name)
        self.addCleanup(server.transport.cleanup)
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def test_server_of_queues_that_is_away_is_an_error_without_retries(self):
        impatient = self.client.prepare(retry=0)

        with self.assertRaisesRegex(
            oslo_messaging.MessageDeliveryFailure, 'refused'
        ):
            impatient.cast({}, 'note', value=1)

    def test_call_gives_up_in_time_while_the_queues_are_away(self):
        with self.assertRaises(oslo_messaging.MessageDeliveryFailure):
            self.client.prepare(timeout=0.5).call({}, 'who')

    def test_messages_wait_for_a_server_that_is_away(self):
        self.processes.start_queues()
        for number in range(3):
            self.client.prepare(server='late').cast({}, 'note', value=number)

        self.start_server('late')

        self.await_equal(
            [0, 1, 2],
            lambda: sorted(
                self.client.prepare(server='late').call({}, 'notes')
            ),
        )

    def test_killed_server_leaves_its_queue_to_the_next_process(self):
        self.processes.start_queues()
        first = self.processes.start_echo('one')
        self.assertEqual(['one', first.pid], self.client.call({}, 'who'))
        self.processes.kill(first)
        self.client.prepare(server='one').cast({}, 'note', value='kept')

        second = self.processes.start_echo('one')

        self.assertEqual(['one', second.pid], self.client.call({}, 'who'))
        self.await_equal(['kept'], lambda: self.client.call({}, 'notes'))

    def test_clients_and_servers_outlive_the_server_of_the_queues(self):
        queues = self.processes.start_queues()
        self.start_server('one')
        self.assertEqual('one', self.client.call({}, 'who')[0])

        self.processes.kill(queues)
        self.processes.start_queues()

        self.assertEqual('one', self.client.call({}, 'who')[0])
        self.client.prepare(fanout=True).cast({}, 'note', value='all')
        self.await_equal(['all'], lambda: self.client.call({}, 'notes'))

    def test_call_made_while_the_queues_are_away_waits_for_them(self):
        queues = self.processes.start_queues()
        self.start_server('one')
        self.processes.kill(queues)
        answers = []
        caller = threading.Thread(
            target=lambda: answers.append(self.client.call({}, 'who')[0])
        )

        caller.start()
        self.processes.start_queues()
        caller.join(30)

        self.assertEqual(['one'], answers)

    def test_reply_outlives_the_server_of_the_queues(self):
        queues = self.processes.start_queues()
        self.start_server('one')
        echo_server.WAITING.clear()
        answers = []
        caller = threading.Thread(
            target=lambda: answers.append(
                self.client.call({}, 'wait', seconds=1)
            )
        )
        caller.start()
        self.assertTrue(echo_server.WAITING.wait(30))

        self.processes.kill(queues)
        self.processes.start_queues()
        caller.join(30)

        self.assertEqual([1], answers)

    def test_queues_end_with_their_launcher(self):
        queues = self.processes.start_queues()
        # It answers, so it has started to watch its launcher.
        self.client.cast({}, 'note', value=1)

        queues.stdin.close()

        self.assertEqual(0, queues.wait(30))

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

"""The broker, and the driver that uses it."""

import contextlib
import logging
import multiprocessing
import queue
import sys
import time
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from demo import messaging
from demo import stack as stack_lib
from demo.messaging import queues
from demo.services import broker
from tests.unit.demo import samples

_TARGET = oslo_messaging.Target(topic='echo', version='1.0')


class UnknownError(Exception):
    """An exception that the client may not import."""


class _Endpoint:
    target = oslo_messaging.Target(version='1.0')

    def __init__(self, name):
        self.name = name
        self.noted = queue.Queue()

    def echo(self, context, value):
        return [self.name, context, value]

    def note(self, context, value):
        self.noted.put(value)

    def info(self, context, publisher, event, payload, metadata):
        self.noted.put((publisher, event, payload))

    def fail(self, context, kind):
        raise {'known': ValueError, 'unknown': UnknownError}[kind]('reason')

    def wait(self, context, seconds):
        time.sleep(seconds)
        return seconds


class DriverTest(samples.DirectoryTestCase):
    """Messages through oslo.messaging, the driver and the broker."""

    def setUp(self):
        super().setUp()
        logging.disable()
        self.addCleanup(logging.disable, logging.NOTSET)
        stack = self.make_stack(hosts=2)
        self.url = stack.transport_url
        broker.serve(stack)
        # The tests run without the variable that the demonstration sets.
        path = [str(messaging.METADATA), *sys.path]
        self.enterContext(mock.patch.object(sys, 'path', path))
        cfg.CONF([], default_config_files=[])
        # Nova registers options when it is loaded, which is then too late.
        self.addCleanup(cfg.CONF.clear)
        self.client = self.make_client(self.url)

    def make_client(self, url):
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url)
        self.addCleanup(transport.cleanup)
        return oslo_messaging.get_rpc_client(transport, _TARGET, timeout=30)

    @contextlib.contextmanager
    def serving(self, name):
        """Run a server; yield the queue of what it has noted."""
        endpoint = _Endpoint(name)
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, self.url)
        server = oslo_messaging.get_rpc_server(
            transport, _TARGET(server=name), [endpoint]
        )
        server.start()
        try:
            yield endpoint.noted
        finally:
            server.stop()
            server.wait()
            transport.cleanup()

    def test_call_returns_or_raises_what_its_server_does(self):
        self.enterContext(self.serving('one'))
        for value in (None, 'ü\n', [1, {'a': 2.5}], 'x' * 1_000_000):
            answer = self.client.call({'user': 'me'}, 'echo', value=value)
            self.assertEqual(['one', {'user': 'me'}, value], answer)
        with self.assertRaisesRegex(ValueError, 'reason'):
            self.client.call({}, 'fail', kind='known')
        with self.assertRaises(oslo_messaging.RemoteError) as caught:
            self.client.call({}, 'fail', kind='unknown')
        self.assertEqual('UnknownError', caught.exception.exc_type)

    def test_late_call_is_a_timeout_unless_it_is_monitored(self):
        self.enterContext(self.serving('one'))
        with self.assertRaisesRegex(
            oslo_messaging.MessagingTimeout, 'no reply to wait on .*/echo'
        ):
            self.client.prepare(timeout=0.1).call({}, 'wait', seconds=0.3)
        monitored = self.client.prepare(call_monitor_timeout=2)
        self.assertEqual(3, monitored.call({}, 'wait', seconds=3))
        alone = self.client.prepare(server='none', call_monitor_timeout=0.1)
        began = time.monotonic()
        with self.assertRaises(oslo_messaging.MessagingTimeout):
            alone.call({}, 'echo', value=1)
        self.assertLess(time.monotonic() - began, 20)

    def test_forked_process_has_connections_of_its_own(self):
        self.enterContext(self.serving('one'))
        self.client.call({}, 'echo', value=1)
        context = multiprocessing.get_context('fork')
        answers = context.Queue()
        child = context.Process(
            target=lambda: answers.put(self.client.call({}, 'echo', value=2))
        )
        child.start()
        self.assertEqual(['one', {}, 2], answers.get(timeout=30))
        child.join(30)
        self.client.call({}, 'echo', value=1)

    def test_messages_wait_for_a_server_that_is_away(self):
        named = self.client.prepare(server='late')
        with self.serving('late') as noted:
            named.call({}, 'echo', value=1)
        for number in range(3):
            named.cast({}, 'note', value=number)
        with self.serving('late') as later:
            found = sorted(later.get(timeout=30) for _ in range(3))
        self.assertEqual([0, 1, 2], found)
        self.assertTrue(noted.empty())

    def test_wrong_password_and_absent_broker_are_errors(self):
        start, _, address = self.url.partition('@')
        port = stack_lib.free_ports(['other'])['other']
        for url, reason in (
            (f'{start}0@{address}', 'password in the URL'),
            (messaging.url(port), 'the broker: .*refused'),
        ):
            with self.assertRaisesRegex(
                oslo_messaging.MessageDeliveryFailure, reason
            ):
                self.make_client(url).call({}, 'echo', value=1)

    def test_each_pool_and_the_others_get_a_notification(self):
        transport = oslo_messaging.get_notification_transport(
            cfg.CONF, self.url
        )
        self.addCleanup(transport.cleanup)
        endpoints = {pool: _Endpoint(pool) for pool in (None, 'a', 'b')}
        target = oslo_messaging.Target(topic='news')
        for pool, endpoint in endpoints.items():
            listener = oslo_messaging.get_notification_listener(
                transport, [target], [endpoint], pool=pool
            )
            listener.start()
            self.addCleanup(listener.wait)
            self.addCleanup(listener.stop)
        oslo_messaging.Notifier(
            transport, 'me', driver='messaging', topics=['news']
        ).info({}, 'event', 1)
        for endpoint in endpoints.values():
            got = endpoint.noted.get(timeout=30)
            self.assertEqual(('me', 'event', 1), got)


class QueuesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.queues = queues.Queues(limit=3)

    def add(self, *names, group=None):
        """Add a consumer; return it and what it gets."""
        got = []
        consumer = queues.Consumer(got.append)
        self.queues.add(consumer, names, group)
        return consumer, got

    def put(self, *messages):
        for message in messages:
            self.queues.put('q', message)

    def test_consumers_take_turns_and_a_busy_one_takes_nothing(self):
        self.put(0, 1)
        (first, firsts), (second, seconds) = self.add('q'), self.add('r', 'q')
        for number in (2, 3):
            self.put(number)
            self.queues.acknowledge(second)
        self.assertEqual([[0], [1, 2, 3]], [firsts, seconds])
        self.queues.acknowledge(first)
        self.queues.acknowledge(second)
        self.put(4, 5)
        self.assertEqual([[0, 4], [1, 2, 3, 5]], [firsts, seconds])

    def test_message_that_a_killed_consumer_holds_is_the_next(self):
        (gone, _), (other, others) = self.add('q'), self.add('q')
        self.put(1, 2, 3)
        self.queues.remove(gone)
        self.queues.acknowledge(other)
        self.assertEqual([2, 1], others)

    def test_full_queue_refuses_a_message_and_full_pool_misses_it(self):
        _, pools = self.add(queues.pool_queue('q', 'a'))
        self.put(1, 2, 3)
        with self.assertRaisesRegex(queues.QueueFullError, 'queue q has 3'):
            self.put(4)
        consumer, got = self.add('q')
        for number in (5, 6):
            self.queues.acknowledge(consumer)
            self.put(number)
        self.assertEqual([[1], [1, 2, 3]], [pools, got])

    def test_group_message_reaches_present_members_only(self):
        added = [self.add(group=name) for name in ('g', 'g', 'g', 'h')]
        (_, stuck), (other, others), (gone, gones), (_, strangers) = added
        self.queues.remove(gone)
        for number in range(6):
            self.queues.publish('g', number)
            self.queues.acknowledge(other)
        self.assertEqual([[0], [*range(6)]], [stuck, others])
        late = self.add(group='g')[1]
        self.assertEqual([[]] * 3, [gones, strangers, late])

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

import unittest

from demo.messaging import queues


class _Consumer(queues.Consumer):
    """A consumer that keeps what it gets."""

    def __init__(self):
        self.got = []
        super().__init__(self.got.append)


class QueuesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.queues = queues.Queues(
            limit=3, lifetime=100.0, clock=lambda: self.now
        )

    def add(self, *names, group=None):
        consumer = _Consumer()
        self.queues.add(consumer, names, group)
        return consumer

    def put(self, *messages, queue='q'):
        for message in messages:
            self.queues.put(queue, message)

    def test_messages_wait_for_their_consumer_in_order(self):
        self.put(1, 2)

        consumer = self.add('q')
        self.assertEqual([1], consumer.got)
        self.queues.acknowledge(consumer)

        self.assertEqual([1, 2], consumer.got)

    def test_full_pool_keeps_messages_from_nobody(self):
        self.add(queues.pool_queue('q', 'a'))
        consumer = self.add('q')

        for number in range(6):
            self.put(number)
            self.queues.acknowledge(consumer)

        self.assertEqual([*range(6)], consumer.got)

    def test_consumers_of_one_queue_take_turns(self):
        first, second = self.add('q'), self.add('q')

        for number in range(4):
            self.put(number)
            for consumer in (first, second):
                if consumer.held:
                    self.queues.acknowledge(consumer)

        self.assertEqual([0, 2], first.got)
        self.assertEqual([1, 3], second.got)

    def test_busy_consumer_leaves_messages_to_the_other(self):
        busy, other = self.add('q'), self.add('q')
        self.put(0)

        for number in (1, 2):
            self.put(number)
            self.queues.acknowledge(other)

        self.assertEqual([0], busy.got)
        self.assertEqual([1, 2], other.got)

    def test_consumer_has_several_queues(self):
        consumer = self.add('q', 'r')
        self.put(1, queue='r')
        self.put(2, queue='q')

        self.queues.acknowledge(consumer)

        self.assertEqual([1, 2], consumer.got)

    def test_unacknowledged_message_goes_to_another_consumer_first(self):
        gone, other = self.add('q'), self.add('q')
        self.put(1, 2, 3)

        self.queues.remove(gone)
        self.queues.acknowledge(other)

        self.assertEqual([2, 1], other.got)

    def test_consumer_that_left_gets_nothing(self):
        gone = self.add('q')
        self.queues.remove(gone)

        self.put(1)

        self.assertEqual([], gone.got)
        self.assertEqual([1], self.add('q').got)

    def test_full_queue_refuses_a_message_and_keeps_the_others(self):
        self.put(1, 2, 3)

        with self.assertRaisesRegex(queues.QueueFullError, 'queue q has 3'):
            self.put(4)

        self.assertEqual([1], self.add('q').got)

    def test_group_message_reaches_present_members_only(self):
        first, second = self.add(group='g'), self.add('q', group='g')
        gone = self.add(group='g')
        self.queues.remove(gone)

        self.queues.publish('g', 1)

        self.assertEqual([[1], [1]], [first.got, second.got])
        self.assertEqual([[], []], [gone.got, self.add(group='g').got])

    def test_group_without_members_loses_its_messages(self):
        self.queues.remove(self.add(group='g'))

        self.queues.publish('g', 1)

        self.assertEqual([], self.add(group='g').got)

    def test_group_member_that_takes_nothing_does_not_disturb_others(self):
        stuck, other = self.add(group='g'), self.add(group='g')

        for number in range(6):
            self.queues.publish('g', number)
            self.queues.acknowledge(other)

        self.assertEqual([0], stuck.got)
        self.assertEqual([*range(6)], other.got)

    def test_queue_without_consumers_ends_with_its_lifetime(self):
        used = self.add('q')
        self.put(1, queue='abandoned')
        self.now = 99.0
        self.queues.expire()
        self.put(2, queue='abandoned')
        self.now = 101.0

        self.queues.expire()
        self.put(3)

        self.assertEqual([], self.add('abandoned').got)
        self.assertEqual([3], used.got)

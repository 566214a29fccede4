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

"""Bytes from one thread to another."""

import threading
import unittest
from unittest import mock

from nova_powervm.virt import glance_images

MIB = 1024 * 1024


def threads():
    """Give the threads of pipes."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.name == 'powervm-image'
    ]


class PipeTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        # How soon a writer notices that it is alone.
        patched = mock.patch.object(glance_images, '_POLL_SECONDS', 0.01)
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(self.assert_nobody_writes)

    def assert_nobody_writes(self):
        for thread in threads():
            thread.join(10)
        self.assertEqual([], threads())

    def test_read_keeps_order_of_chunks(self):
        data = bytes(range(256)) * 4096 * 3 + b'end'

        def produce(writer):
            for start in range(0, len(data), 100_000):
                writer.write(data[start : start + 100_000])

        self.assertEqual(data, b''.join(glance_images.stream_output(produce)))

    def test_stalled_producer_times_out(self):
        stalled = threading.Event()
        self.addCleanup(stalled.set)

        def produce(writer):
            writer.write(b'first')
            stalled.wait(10)

        with mock.patch.object(glance_images, '_STALL_SECONDS', 0.01):
            chunks = glance_images.stream_output(produce)
            self.assertEqual(b'first', next(chunks))
            with self.assertRaises(TimeoutError):
                next(chunks)
        stalled.set()

    def test_truncate_is_accepted(self):
        # As Nova does with a file whose signature is bad.
        self.assertEqual(
            [],
            list(
                glance_images.stream_output(lambda writer: writer.truncate(0))
            ),
        )

    def test_producer_without_output_gives_no_chunk(self):
        self.assertEqual(
            [], list(glance_images.stream_output(lambda writer: None))
        )

    def test_large_write_is_split_into_chunks(self):
        data = bytes(3 * MIB)
        chunks = list(
            glance_images.stream_output(lambda writer: writer.write(data))
        )
        self.assertEqual(len(data), sum(map(len, chunks)))
        self.assertLessEqual(max(map(len, chunks)), MIB)

    def test_fast_producer_waits_for_reader(self):
        written = []

        def produce(writer):
            for number in range(1000):
                writer.write(b'%04d' % number)
                written.append(number)

        reader = glance_images.stream_output(produce)
        self.assertEqual(b'0000', next(reader))
        # What waits is bounded, whenever the reader looks.
        for _ in range(100):
            self.assertLessEqual(len(written), 12)
            next(reader)
            del written[:1]
        reader.close()

    def test_reader_waits_for_slow_producer(self):
        turns = threading.Semaphore(0)

        def produce(writer):
            for number in range(3):
                turns.acquire(timeout=10)
                writer.write(b'%d' % number)

        reader = glance_images.stream_output(produce)
        read = []
        for _ in range(3):
            turns.release()
            read.append(next(reader))
        self.assertEqual([b'0', b'1', b'2'], read)
        self.assertEqual([], list(reader))

    def test_producer_error_is_raised_after_written_data(self):
        def produce(writer):
            writer.write(b'half')
            raise OSError('broken')

        reader = glance_images.stream_output(produce)
        self.assertEqual(b'half', next(reader))
        with self.assertRaisesRegex(OSError, 'broken'):
            next(reader)

    def test_error_before_first_write_is_raised(self):
        def produce(writer):
            raise OSError('broken')

        with self.assertRaisesRegex(OSError, 'broken'):
            next(glance_images.stream_output(produce))

    def test_closing_ends_the_producer(self):
        ended = threading.Event()

        def produce(writer):
            try:
                while True:
                    writer.write(b'more')
            finally:
                ended.set()

        reader = glance_images.stream_output(produce)
        next(reader)
        reader.close()
        self.assertTrue(ended.wait(10))

    def test_producer_cannot_swallow_end_of_reader(self):
        ended = threading.Event()

        def produce(writer):
            try:
                while True:
                    try:
                        writer.write(b'more')
                    except Exception as error:
                        self.fail(error)
            finally:
                ended.set()

        reader = glance_images.stream_output(produce)
        next(reader)
        reader.close()
        self.assertTrue(ended.wait(10))

    def test_error_of_abandoned_producer_is_dropped(self):
        started = threading.Event()
        go = threading.Event()

        def produce(writer):
            writer.write(b'first')
            started.set()
            go.wait(10)
            raise OSError('broken')

        reader = glance_images.stream_output(produce)
        next(reader)
        started.wait(10)
        reader.close()
        go.set()

    def test_producer_starts_with_first_read(self):
        called = []
        reader = glance_images.stream_output(called.append)
        reader.close()
        self.assertEqual([], called)

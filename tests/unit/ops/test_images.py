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

"""Images are looked at before anything is made of them, and read once."""

import contextlib
import dataclasses
import hashlib
import threading
import unittest
from concurrent import futures

import ddt
from oslo_utils.imageutils import format_inspector

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.ops import images
from tests.functional import images as samples

DATA = b'\x01boot sector' + bytes(5000)


def described(data=DATA, **changes):
    """Describe bytes as Glance would."""
    values = {
        'id': 'it',
        'disk_format': 'raw',
        'size': len(data),
        'hash_algorithm': 'sha512',
        'hash_value': hashlib.sha512(data).hexdigest(),
    }
    return image.Image(**{**values, **changes})


class Source:
    """Gives bytes in small chunks, and counts how often.

    :param versions: What it gives first, second and so on; the last stays.
    """

    def __init__(self, *versions):
        self.versions = versions
        self.opened = self.closed = self.given = 0

    def __call__(self):
        data = self.versions[min(self.opened, len(self.versions) - 1)]
        self.opened += 1
        return self._chunks(data)

    def _chunks(self, data):
        try:
            for start in range(0, len(data), 999):
                self.given = start + 999
                yield data[start : start + 999]
        finally:
            self.closed += 1


class Broken(Source):
    """Breaks off each time."""

    def __init__(self, error):
        super().__init__(DATA)
        self._error = error

    def _chunks(self, data):
        yield data[:100]
        raise self._error


def contents_of(glance_image, data):
    """Give what the beginning of an image tells."""
    with contextlib.closing(
        images.ImageOps().open(glance_image, Source(data))
    ) as reading:
        return reading.contents


class OpenTest(unittest.TestCase):
    """The beginning is looked at, and nothing is read twice."""

    def setUp(self):
        super().setUp()
        self.ops = images.ImageOps()

    def open(self, glance_image, source):
        reading = self.ops.open(glance_image, source)
        self.addCleanup(reading.close)
        return reading

    def test_open_reads_format_and_size_from_beginning(self):
        for data, size, disk_format in (
            (DATA, len(DATA), 'raw'),
            (samples.qcow2(3 * samples.GIB), 3 * samples.GIB, 'qcow2'),
            (samples.qcow2(0), 0, 'qcow2'),
        ):
            glance_image = described(data, disk_format=disk_format)
            self.assertEqual(
                image.Contents(len(data), disk_format, size),
                self.open(glance_image, Source(data)).contents,
            )

    def test_open_reads_only_beginning_until_data_is_requested(self):
        data = bytes(2 * images.BEGINNING)
        source = Source(data)
        reading = self.open(described(data), source)
        self.assertLess(source.given, images.BEGINNING + 1000)
        self.assertEqual(data, b''.join(reading()))
        self.assertEqual((1, 1), (source.opened, source.closed))

    def test_stream_is_reopened_once_it_is_partly_read(self):
        source = Source(DATA)
        reading = self.open(described(), source)
        reading().close()
        self.assertEqual(1, source.opened)
        self.begin(reading)
        self.assertEqual((1, 1), (source.opened, source.closed))
        self.assertEqual(DATA, b''.join(reading()))
        self.assertEqual((2, 2), (source.opened, source.closed))

    def begin(self, reading):
        """Read the first chunk of a stream, and close it."""
        stream = reading()
        next(stream)
        stream.close()

    def test_changed_beginning_is_refused_at_second_stream(self):
        source = Source(DATA, samples.qcow2(samples.GIB))
        reading = self.open(described(), source)
        self.begin(reading)
        with self.assertRaises(exception.ImageRefused):
            next(reading())

    def test_closing_ends_the_transfer(self):
        source = Source(DATA)
        self.ops.open(described(), source).close()
        self.assertEqual((1, 1), (source.opened, source.closed))

    def test_image_without_hash_is_warned_of(self):
        glance_image = described(hash_algorithm='', hash_value='')
        with self.assertLogs(images.LOG.logger, 'WARNING') as logs:
            reading = self.open(glance_image, Source(DATA))
        self.assertIn('no hash of image it', logs.output[0])
        self.assertEqual(DATA, b''.join(reading()))

    def test_hash_in_upper_case_is_accepted(self):
        glance_image = described(hash_value=described().hash_value.upper())
        self.assertEqual(
            DATA, b''.join(self.open(glance_image, Source(DATA))())
        )

    def test_refusal_by_source_is_raised_without_retry(self):
        refusal = exception.ImageRefused(image='it', reason='gone')
        broken = Broken(refusal)
        with self.assertRaises(exception.ImageRefused) as caught:
            self.ops.open(described(), broken)
        self.assertIs(refusal, caught.exception)
        self.assertEqual(1, broken.opened)

    def test_long_image_is_damaged(self):
        came = []
        words = f'Glance says {len(DATA)}'
        reading = self.open(described(), Source(DATA + b'!'))
        with self.assertRaisesRegex(exception.ImageDamaged, words):
            came.extend(reading())
        self.assertLess(len(b''.join(came)), len(DATA))

    def test_damaged_image_is_delivered_but_for_its_last_chunk(self):
        came = []
        damaged = DATA[:-1] + b'!'
        reading = self.open(described(), Source(damaged))
        with self.assertRaises(exception.ImageDamaged):
            came.extend(reading())
        *chunks, _ = Source(damaged)()
        self.assertEqual(chunks, came)
        self.assertFalse(reading.is_verified)


class VerifyTest(unittest.TestCase):
    """An image is read to its end, by one service once."""

    def setUp(self):
        super().setUp()
        self.ops = images.ImageOps()

    def refused(self, glance_image, source, kind):
        with self.assertRaises(kind):
            self.ops.verify(glance_image, source)
        self.assertEqual(source.opened, source.closed)

    def test_verify_reads_image_once_unless_it_is_known(self):
        without_hash = described(hash_algorithm='', hash_value='')
        for glance_image, before, times in (
            (described(), None, 1),
            (described(), lambda: list(self.build()), 0),
            (described(), lambda: self.build().close(), 1),
            # Another hash is another image.
            (described(), lambda: self.verify(described(b'new'), b'new'), 1),
            (without_hash, None, 2),
        ):
            with self.subTest(glance_image, times=times):
                self.ops = images.ImageOps()
                if before:
                    before()
                source = Source(DATA)
                first = self.ops.verify(glance_image, source)
                self.assertEqual(first, self.ops.verify(glance_image, source))
                self.assertEqual(
                    (times, times), (source.opened, source.closed)
                )

    def verify(self, glance_image, data):
        self.ops.verify(glance_image, Source(data))

    def build(self):
        """Begin to read an image as a build does."""
        return self.ops.open(described(), Source(DATA))()

    def test_damaged_image_is_not_remembered(self):
        for size in (1, 2):
            damaged = Source(bytes(len(DATA)))
            self.refused(described(), damaged, exception.ImageDamaged)
            self.assertEqual(1, damaged.opened, size)

    def test_verify_repeats_short_read_once(self):
        source = Source(DATA[:1000], DATA)
        self.assertEqual(len(DATA), self.ops.verify(described(), source).size)
        source = Source(DATA[:1000])
        self.ops = images.ImageOps()
        self.refused(described(), source, exception.ImageUnreadable)
        self.assertEqual(2, source.opened)

    def test_oldest_images_are_forgotten(self):
        source = Source(b'one')
        self.ops.verify(described(b'one'), source)
        for number in range(1000):
            data = b'%d' % number
            self.ops.verify(described(data), Source(data))
        self.ops.verify(described(b'one'), source)
        self.assertEqual(2, source.opened)

    def test_concurrent_verify_reads_image_once(self):
        go = threading.Event()
        source = Source(DATA)

        def slow():
            go.wait(10)
            return source()

        with futures.ThreadPoolExecutor(4) as pool:
            verifications = [
                pool.submit(self.ops.verify, described(), slow)
                for _ in range(4)
            ]
            go.set()
        self.assertEqual(1, len({id(each.result()) for each in verifications}))
        self.assertEqual(1, source.opened)


@ddt.ddt
class FormatTest(unittest.TestCase):
    """Declared and real formats."""

    def refused(self, data, disk_format):
        glance_image = described(data, disk_format=disk_format)
        with self.assertRaises(exception.ImageRefused) as caught:
            contents_of(glance_image, data)
        return str(caught.exception)

    @ddt.named_data(
        ['GPT', b'\0\0\x02\0\xee\xff\xff\xff\x01\0\0\0\xff\xff\xff\xff'],
        ['PReP boot', b'\x80\0\x21\0\x41\x03\x1b\x0b\0\x08\0\0\0\x20\0\0'],
    )
    def test_image_with_partition_table_is_raw(self, partition):
        data = bytes(446) + partition + bytes(48) + b'\x55\xaa' + bytes(1024)
        contents = contents_of(described(data), data)
        self.assertEqual('raw', contents.disk_format)
        self.assertEqual('', images.problem_with_raw(data))

    def test_disk_with_a_damaged_partition_table_has_a_problem(self):
        # No partition has such a boot flag.
        partition = b'\x7f'.ljust(64, b'\0')
        data = bytes(446) + partition + b'\x55\xaa' + bytes(1024)
        self.assertIn('mbr', images.problem_with_raw(data))

    @ddt.named_data(
        ['qcow2', samples.qcow2(samples.GIB), 'qcow2'],
        ['vhd', b'conectix'.ljust(1024, b'\0'), 'vhd'],
        ['luks', b'LUKS\xba\xbe\x00\x01'.ljust(1024, b'\0'), 'luks'],
        ['iso', bytes(32768) + b'\x01CD001\x01' + bytes(4096), 'iso'],
    )
    def test_raw_image_must_not_look_like_another_format(self, data, words):
        self.assertIn(words, self.refused(data, 'raw'))

    @ddt.named_data(
        ['raw', DATA, 'its bytes are raw'],
        [
            'backing file',
            samples.qcow2(samples.GIB, backing=b'x'),
            'backing_file',
        ],
        [
            'data file',
            samples.qcow2(samples.GIB, features=samples.DATA_FILE),
            'data_file',
        ],
        ['cut off', samples.qcow2(samples.GIB)[:100], 'its bytes are raw'],
        ['version 1', b'QFI\xfb\0\0\0\1' + bytes(1024), 'not safe'],
        ['AES', samples.qcow2(samples.GIB, crypt=1), 'is encrypted'],
        ['LUKS', samples.qcow2(samples.GIB, crypt=2), 'is encrypted'],
    )
    def test_qcow2_image_must_be_qcow2(self, data, reason):
        self.assertIn(reason, self.refused(data, 'qcow2'))

    def test_inspector_of_nova_and_glance_takes_encrypted_image_for_safe(self):
        """So nobody else has refused it before."""
        for method in (1, 2):
            data = samples.qcow2(samples.GIB, crypt=method)
            inspected = format_inspector.InspectWrapper(iter([data]))
            self.assertEqual(data, b''.join(inspected))

            self.assertEqual('qcow2', str(inspected.format))
            inspected.format.safety_check()

    def test_descriptions_are_compared_whole(self):
        glance_image = described()
        for change in ({'size': 1}, {'disk_format': 'x'}, {'id': 'other'}):
            self.assertNotEqual(
                glance_image, dataclasses.replace(glance_image, **change)
            )

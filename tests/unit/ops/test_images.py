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

"""Images are examined before anything is made of them."""

import dataclasses
import hashlib
import threading
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.domain import image
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
        self.opened = self.closed = 0

    def __call__(self):
        data = self.versions[min(self.opened, len(self.versions) - 1)]
        self.opened += 1
        return self._chunks(data)

    def _chunks(self, data):
        try:
            for start in range(0, len(data), 999):
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


class ExamineTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.ops = images.ImageOps()

    def refused(self, what, source, kind=exception.ImageRefused):
        with self.assertRaises(kind) as caught:
            self.ops.examine(what, source)
        self.assertEqual(source.opened, source.closed)
        return str(caught.exception)

    def test_what_is_found(self):
        self.assertEqual(
            image.Contents(
                size=len(DATA),
                sha256=hashlib.sha256(DATA).hexdigest(),
                disk_format='raw',
                disk_bytes=len(DATA),
            ),
            self.ops.examine(described(), Source(DATA)),
        )

    def test_a_qcow2_takes_its_virtual_size(self):
        data = samples.qcow2(3 * samples.GIB)
        found = self.ops.examine(
            described(data, disk_format='qcow2'), Source(data)
        )
        self.assertEqual(len(data), found.size)
        self.assertEqual(3 * samples.GIB, found.disk_bytes)

    def test_it_is_read_once(self):
        source = Source(DATA)
        first = self.ops.examine(described(), source)
        self.assertIs(first, self.ops.examine(described(), source))
        self.assertEqual((1, 1), (source.opened, source.closed))

    def test_another_hash_is_another_image(self):
        self.ops.examine(described(), Source(DATA))
        source = Source(b'new')
        self.ops.examine(described(b'new'), source)
        self.assertEqual(1, source.opened)

    def test_a_refused_image_is_not_remembered(self):
        source = Source(DATA)
        wrong = described(disk_format='qcow2')
        self.refused(wrong, source)
        self.refused(wrong, source)
        self.assertEqual(2, source.opened)

    def test_only_so_many_are_remembered(self):
        one = Source(b'one')
        self.ops.examine(described(b'one'), one)
        for number in range(1000):
            data = b'%d' % number
            self.ops.examine(described(data), Source(data))
        self.ops.examine(described(b'one'), one)
        self.assertEqual(2, one.opened)

    def test_several_builds_wait_for_the_first(self):
        go = threading.Event()
        source = Source(DATA)

        def slow():
            go.wait(10)
            return source()

        found = []
        threads = [
            threading.Thread(
                target=lambda: found.append(
                    self.ops.examine(described(), slow)
                )
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        go.set()
        for thread in threads:
            thread.join(10)
        self.assertEqual(4, len(found))
        self.assertEqual(1, source.opened)

    def test_no_hash(self):
        what = described(hash_algorithm='', hash_value='')
        source = Source(DATA)
        with self.assertLogs(images.LOG.logger, 'WARNING') as logs:
            self.ops.examine(what, source)
            self.ops.examine(what, source)
        self.assertIn('no hash of image it', logs.output[0])
        self.assertEqual(2, source.opened)

    def test_a_hash_in_upper_case(self):
        what = described(hash_value=described().hash_value.upper())
        self.assertEqual(len(DATA), self.ops.examine(what, Source(DATA)).size)

    def test_no_size(self):
        self.ops.examine(described(size=None), Source(DATA))

    def test_half_of_it_is_read_again(self):
        source = Source(DATA[:1000], DATA)
        self.assertEqual(len(DATA), self.ops.examine(described(), source).size)

    def test_half_of_it_twice(self):
        message = self.refused(
            described(), Source(DATA[:1000]), exception.ImageDamaged
        )
        self.assertIn(f'1000 bytes came, Glance says {len(DATA)}', message)

    def test_the_same_size_and_another_hash(self):
        message = self.refused(
            described(), Source(bytes(len(DATA))), exception.ImageDamaged
        )
        self.assertIn(f'{described().hash_value[:16]}...', message)

    def test_a_format_that_is_refused_is_not_read(self):
        source = Source(DATA)
        self.refused(described(disk_format='iso'), source)
        self.assertEqual(0, source.opened)

    def test_a_hash_that_nobody_knows(self):
        for name in ('rot13', 'shake_128'):
            source = Source(DATA)
            message = self.refused(described(hash_algorithm=name), source)
            self.assertIn(name, message)

    def test_nothing(self):
        self.assertIn('empty', self.refused(described(b''), Source(b'')))

    def test_a_refusal_of_the_source_is_raised(self):
        refusal = exception.ImageRefused(image='it', reason='gone')
        broken = Broken(refusal)
        with self.assertRaises(exception.ImageRefused) as caught:
            self.ops.examine(described(), broken)
        self.assertIs(refusal, caught.exception)
        self.assertEqual(1, broken.opened)

    def test_a_transfer_that_breaks_off_is_tried_once_more(self):
        broken = Broken(exception.ImageUnreadable(image='it', reason='x'))
        with self.assertRaises(exception.ImageUnreadable):
            self.ops.examine(described(), broken)
        self.assertEqual(2, broken.opened)


@ddt.ddt
class FormatTest(unittest.TestCase):
    """Declared and real formats."""

    def refused(self, data, disk_format):
        what = described(data, disk_format=disk_format)
        with self.assertRaises(exception.ImageRefused) as caught:
            images.ImageOps().examine(what, Source(data))
        return str(caught.exception)

    @ddt.named_data(
        ['GPT', b'\0\0\x02\0\xee\xff\xff\xff\x01\0\0\0\xff\xff\xff\xff'],
        ['PReP boot', b'\x80\0\x21\0\x41\x03\x1b\x0b\0\x08\0\0\0\x20\0\0'],
    )
    def test_a_partition_table_is_raw(self, partition):
        data = bytes(446) + partition + bytes(48) + b'\x55\xaa' + bytes(1024)
        found = images.ImageOps().examine(described(data), Source(data))
        self.assertEqual('raw', found.disk_format)

    @ddt.named_data(
        ['qcow2', samples.qcow2(samples.GIB), 'qcow2'],
        ['vhd', b'conectix'.ljust(1024, b'\0'), 'vhd'],
        ['luks', b'LUKS\xba\xbe\x00\x01'.ljust(1024, b'\0'), 'luks'],
        ['iso', bytes(32768) + b'\x01CD001\x01' + bytes(4096), 'iso'],
    )
    def test_declared_raw(self, data, found):
        self.assertIn(found, self.refused(data, 'raw'))

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
    )
    def test_declared_qcow2(self, data, reason):
        self.assertIn(reason, self.refused(data, 'qcow2'))

    def test_a_disk_of_nothing_still_has_a_size(self):
        data = samples.qcow2(0)
        found = images.ImageOps().examine(
            described(data, disk_format='qcow2'), Source(data)
        )
        self.assertEqual(0, found.disk_bytes)

    def test_descriptions_are_compared_whole(self):
        one = described()
        for change in ({'size': 1}, {'disk_format': 'x'}, {'id': 'other'}):
            self.assertNotEqual(one, dataclasses.replace(one, **change))

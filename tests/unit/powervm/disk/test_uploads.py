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

"""Sending files to the emulated Virtual I/O Server."""

import dataclasses
import hashlib
import threading
import unittest
from concurrent import futures

from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.powervm.disk import uploads
from powervm_emulator import worlds
from tests.unit.powervm import hosts

DATA = bytes(range(256)) * 1000


class Chunks:
    """Gives chunks and remembers whether it was closed."""

    def __init__(self, *chunks, error=None):
        self.closed = False
        self._chunks = chunks
        self._error = error

    def __call__(self):
        try:
            yield from self._chunks
            if self._error:
                raise self._error
        finally:
            self.closed = True


class UploadTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        world = worlds.default()
        (vios,) = world['systems'][0]['virtual_io_servers']
        vios['volume_groups'][0]['media_repository'] = {'size': 1}
        emulator = hosts.start(self, world)
        self.control = emulator.control
        self.adapter = hosts.connect(self, emulator)
        (self.vios,) = virtual_io_server.VIOS.get(self.adapter)
        self.uploads = uploads.Uploads(self.adapter)

    def send(self, *chunks, promised=DATA, error=None):
        """Send chunks as a medium of which other bytes may be promised."""
        source = Chunks(*chunks, error=error)
        try:
            self.uploads.send(self.upload(promised), source())
        finally:
            self.assertEqual([], self.files())
        return source

    def upload(self, promised=DATA, name='medium.iso'):
        """Describe a medium of which some bytes are promised."""
        return uploads.Upload(
            vios=self.vios.uuid,
            name=name,
            kind=uploads.MEDIUM,
            size=len(promised),
            sha256=hashlib.sha256(promised).hexdigest(),
        )

    def files(self):
        """Give the announced files."""
        answer = self.adapter.read('File', service='web')
        return list(answer.feed.entries) if answer.feed else []

    def media(self):
        (system,) = self.control.state()['systems']
        return [
            medium
            for partition in system['partitions']
            for group in partition.get('volume_groups', ())
            if group['media_repository']
            for medium in group['media_repository']['media']
        ]

    def refused(self, kind, *chunks, **options):
        with self.assertRaises(kind) as caught:
            self.send(*chunks, **options)
        self.assertEqual([], self.media())
        return caught.exception

    def assert_arrived(self):
        (medium,) = self.media()
        self.assertEqual(DATA, self.control.contents(medium['udid']))

    def test_send_delivers_all_bytes(self):
        """Empty chunks do not end the upload."""
        source = self.send(b'', DATA[:1000], b'', b'', DATA[1000:], b'')
        self.assert_arrived()
        self.assertTrue(source.closed)

    def test_refused_or_interrupted_upload_leaves_nothing(self):
        rest_error, unreachable = (
            exception.RestError,
            exception.RestUnreachable,
        )
        for kind, words, chunk, fault in (
            (rest_error, 'were promised', DATA[:-1], None),
            (rest_error, 'SHA-256', bytes(len(DATA)), None),
            (
                rest_error,
                'No more.',
                DATA,
                {'match': 'File.upload', 'status': 500, 'message': 'No more.'},
            ),
            (
                unreachable,
                'uploading medium.iso',
                DATA,
                {'match': 'File.upload', 'drop': True},
            ),
            (unreachable, '', DATA, {'match': 'File.create', 'drop': True}),
            (
                unreachable,
                '',
                DATA,
                {'match': 'File.create', 'drop': True, 'phase': 'after'},
            ),
        ):
            with self.subTest(words, fault=fault):
                if fault:
                    self.control.add_fault(**fault)
                error = self.refused(kind, chunk)
                self.assertIn(words, str(error))

    def test_sha256_may_be_left_out(self):
        upload = dataclasses.replace(self.upload(), sha256=None)
        self.uploads.send(upload, iter([DATA]))
        self.assert_arrived()

    def test_error_of_source_is_raised(self):
        gone = exception.ImageRefused(image='it', reason='gone')
        self.assertIs(
            gone,
            self.refused(exception.ImageRefused, DATA[:1000], error=gone),
        )

    def test_ended_session_raises_rest_busy(self):
        self.control.add_fault(match='File.upload', status=401)
        error = self.refused(exception.RestBusy, DATA)
        self.assertTrue(error.retryable)
        # The next one is sent in a session that is there.
        self.send(DATA)
        self.assert_arrived()

    def test_uploads_run_three_at_a_time(self):
        together = threading.Barrier(3)
        lock = threading.Lock()
        sending, most = [], []

        def chunks():
            with lock:
                sending.append(1)
                most.append(len(sending))
            # Nobody goes on before three have begun.
            together.wait(30)
            yield DATA
            with lock:
                sending.pop()

        made = [self.upload(name=f'{number}.iso') for number in range(9)]
        with futures.ThreadPoolExecutor(9) as pool:
            list(pool.map(self.uploads.send, made, [chunks() for _ in made]))
        self.assertEqual(9, len(self.media()))
        self.assertEqual(3, max(most))

    def test_file_descriptions_of_others_stay(self):
        upload = self.upload(name='other.iso')
        with self.uploads._announced(upload):
            self.control.add_fault(
                match='File.create', drop=True, phase='after'
            )
            with self.assertRaises(exception.RestUnreachable):
                self.uploads.send(self.upload(), iter([DATA]))
            self.assertEqual(1, len(self.files()))

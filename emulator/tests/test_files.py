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

"""Uploads and downloads through pypowervm."""

import http.client
import io
import pathlib
from concurrent import futures

from pypowervm import exceptions
from pypowervm.tasks import power
from pypowervm.tasks import storage as tasks
from pypowervm.wrappers import storage as wrappers
from pypowervm.wrappers import vios_file

from powervm_emulator import client
from powervm_emulator.core import errors
from powervm_emulator.core import habits

from . import base
from . import storage

# Larger than the buffers of a connection, and no multiple of a chunk.
LARGE = bytes(range(256)) * 20000 + b'end'


class IteratorBody:
    """An upload body that calls a function between its pieces."""

    def __init__(self, pieces, between):
        self._pieces = iter(pieces)
        self._between = between
        self._sent = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self._sent:
            self._between(self._sent)
        self._sent += 1
        return next(self._pieces)


class UploadTest(storage.StorageTestCase):
    def test_upload_to_new_disk_stores_contents(self):
        disk, left = tasks.upload_new_vdisk(
            self.adapter,
            self.vios().uuid,
            self.group().uuid,
            io.BytesIO(LARGE),
            'boot',
            len(LARGE),
            d_size=2 * storage.GB,
            sha_chksum=storage.sha256(LARGE),
        )
        self.assertIsNone(left)
        (shown,) = self.shown_group()['disks']
        self.assertEqual(
            {
                'name': 'boot',
                'udid': disk.udid,
                'capacity': 2.0,
                'size': len(LARGE),
                'sha256': storage.sha256(LARGE),
            },
            shown,
        )
        self.assertEqual(LARGE, self.control.contents(disk.udid))
        self.assertEqual([], self.files())

    def test_upload_accepts_iterable_and_builder(self):
        disk = self.disk()
        for upload_type, handle in (
            (tasks.UploadType.IO_STREAM, iter([b'one', b'two'])),
            (
                tasks.UploadType.IO_STREAM_BUILDER,
                lambda: io.BytesIO(b'onetwo'),
            ),
        ):
            tasks._upload_stream(self.file(disk.udid), handle, upload_type)
            self.assertEqual(b'onetwo', self.control.contents(disk.udid))

    def test_upload_of_media_creates_medium_and_replaces_contents(self):
        self.repository()
        file = tasks._create_file(
            self.adapter, 'm', vios_file.FileType.MEDIA_ISO, self.vios().uuid
        )
        for data in (b'first', LARGE):
            self.upload(file, data)
            self.assertEqual(data, self.control.contents('0em'))
        (medium,) = self.group('rootvg').vmedia_repos[0].optical_media
        self.assertEqual(('m', '0em'), (medium.name, medium.udid))
        self.assertAlmostEqual(len(LARGE) / storage.GB, medium.size, 5)
        self.assertEqual(LARGE, self.control.contents('0em', vios='vios1'))

    def test_upload_of_media_reads_file_of_path(self):
        self.repository()
        path = pathlib.Path(self.id())
        self.addCleanup(path.unlink)
        path.write_bytes(b'an image')
        tasks.upload_vopt(self.adapter, self.vios().uuid, str(path), 'cfg.iso')
        self.assertEqual(b'an image', self.control.contents('0ecfg.iso'))

    def test_removal_of_disk_and_media_removes_contents(self):
        self.repository()
        self.medium()
        disk = self.disk()
        self.upload(self.file(disk.udid), b'data')
        tasks.rm_vg_storage(self.group(), vdisks=[disk])
        group = self.group('rootvg')
        media = list(group.vmedia_repos[0].optical_media)
        tasks.rm_vg_storage(group, vopts=media)
        for udid in (disk.udid, '0ecfg.iso'):
            with self.assertRaisesRegex(errors.ControlError, udid):
                self.control.contents(udid)

    def test_uploaded_contents_are_served(self):
        disk = self.disk()
        file = self.file(disk.udid)
        self.assertEqual(404, self.raw('GET', f'contents/{file.uuid}'))
        self.upload(file, LARGE)
        got = io.BytesIO()
        self.adapter.download_file(file.element, got)
        self.assertEqual(LARGE, got.getvalue())
        remote = client.Client(self.emulator.url)
        self.assertEqual(LARGE, remote.contents(disk.udid))
        with self.assertRaisesRegex(errors.ControlError, '0 contents'):
            remote.contents('03nothing')

    def test_file_shows_progress_and_leaves_contents_when_deleted(self):
        disk = self.disk()
        file = self.file(disk.udid, f_size=4)
        self.assertEqual(file.uuid, file.file_uuid)
        self.assertEqual(4, file.expected_file_size)
        self.assertEqual(0, file.current_file_size)
        self.assertEqual('application/octet-stream', file.internet_media_type)
        self.upload(file, b'data')
        (file,) = self.files()
        self.assertEqual(4, file.current_file_size)
        self.assertEqual(disk.udid, file.tdev_udid)
        self.assertIs(file, file.refresh())
        file.delete()
        self.assertEqual([], self.files())
        self.assertEqual(b'data', self.control.contents(disk.udid))

    def test_second_upload_replaces_disk_contents(self):
        """Also if it has a Content-Length."""
        disk = self.disk()
        file = self.file(disk.udid)
        self.upload(file, b'first')
        self.upload(file, b'second', replacing=True)
        self.assertEqual(b'second', self.control.contents(disk.udid))
        self.assertEqual(204, self.raw('PUT', f'contents/{file.uuid}', LARGE))
        self.assertEqual(LARGE, self.control.contents(disk.udid))

    def raw(self, method, path, body=None):
        """Send a request that pypowervm would not make; return its status."""
        connection = http.client.HTTPConnection(
            self.emulator.host, self.emulator.port
        )
        self.addCleanup(connection.close)
        headers = {'X-API-Session': self.adapter.session._sessToken}
        path = f'/rest/api/web/File/{path}'
        connection.request(method, path, body, headers)
        return connection.getresponse().status

    def test_upload_does_not_block_other_requests(self):
        disk = self.disk()

        def between(_):
            # pypowervm has a session of its own for each request.
            self.assertEqual('vios1', self.vios().name)
            self.assertIsNone(self.shown_group()['disks'][0]['sha256'])

        body = IteratorBody([b'a' * 65536, b'b' * 65536], between)
        self.adapter.upload_file(self.file(disk.udid).element, body)
        self.assertEqual(131072, len(self.control.contents(disk.udid)))

    def test_parallel_uploads_do_not_mix(self):
        data = {
            self.disk(f'disk{number}').udid: LARGE + bytes([number])
            for number in range(3)
        }
        files = [self.file(udid) for udid in data]
        with futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(self.upload, files, data.values()))
        for udid, sent in data.items():
            self.assertEqual(sent, self.control.contents(udid))

    def test_reset_aborts_upload(self):
        disk = self.disk()
        body = IteratorBody(
            [b'a' * 65536] * 2, lambda _sent: self.control.reset()
        )
        file = self.file(disk.udid)
        self.assert_refused(
            404, file.uuid, self.adapter.upload_file, file.element, body
        )

    def test_closing_emulator_removes_stored_contents(self):
        disk = self.disk()
        self.upload(self.file(disk.udid), b'data')
        contents = self.emulator._application._emulation.host.contents
        path = contents.find(self.vios().uuid, disk.udid).path
        self.assertTrue(path.exists())
        self.emulator._application.close()
        self.assertFalse(path.parent.exists())


class SparseUploadTest(storage.StorageTestCase):
    def test_upload_of_zeros_takes_no_space(self):
        made = self.disk()
        file = self.file(made.udid)
        data = bytes(1 << 20) + b'data' + bytes(1 << 20)
        self.upload(file, data)
        self.assertEqual(data, self.control.contents(made.udid))
        contents = self.emulator._application._emulation.host.contents
        found = contents.find(self.vios().uuid, made.udid).path.stat()
        self.assertEqual(len(data), found.st_size)
        # In blocks of 512 bytes.
        self.assertLess(found.st_blocks, 1 << 11)


class ExpectedContentsTest(storage.StorageTestCase):
    """Uploads whose contents differ from what the File announced."""

    def setUp(self):
        super().setUp()
        self.made = self.disk()
        file = self.file(self.made.udid)
        self.upload(file, b'before')
        file.delete()

    def assert_unchanged(self):
        self.assertEqual(b'before', self.control.contents(self.made.udid))
        contents = self.emulator._application._emulation.host.contents
        path = contents.find(self.vios().uuid, self.made.udid).path
        self.assertEqual([path], list(path.parent.iterdir()))

    def test_upload_refuses_unexpected_size(self):
        file = self.file(self.made.udid, f_size=10)
        for data in (b'123456789', b'12345678901', b''):
            self.assert_refused(
                500, '10 were promised', self.upload, file, data
            )
        self.assert_unchanged()

    def test_upload_refuses_unexpected_hash(self):
        promised = storage.sha256(b'promised')
        file = self.file(self.made.udid, sha_chksum=promised.upper())
        self.assert_refused(500, 'SHA-256', self.upload, file, b'Promised')
        self.assert_unchanged()
        self.upload(file, b'promised')
        self.assertEqual(b'promised', self.control.contents(self.made.udid))

    def test_host_with_the_habit_takes_what_was_not_promised(self):
        emulation = self.emulator._application.emulation
        emulation.habits = habits.Habits(
            accepts={'short-upload', 'damaged-upload'}
        )
        promised = storage.sha256(b'promised')
        file = self.file(self.made.udid, f_size=8, sha_chksum=promised)
        self.upload(file, b'Promise')
        self.assertEqual(b'Promise', self.control.contents(self.made.udid))

    def test_failed_upload_removes_new_disk(self):
        with self.assertRaises(exceptions.HttpError):
            tasks.upload_new_vdisk(
                self.adapter,
                self.vios().uuid,
                self.group().uuid,
                io.BytesIO(LARGE),
                'boot',
                len(LARGE) + 1,
            )
        (left,) = self.shown_group()['disks']
        self.assertEqual('disk1', left['name'])
        self.assertEqual([], self.files())

    def test_upload_without_expected_size_accepts_empty_body(self):
        self.upload(self.file(self.made.udid), b'')
        self.assert_unchanged()

    def test_interrupted_upload_keeps_old_contents(self):
        file = self.file(self.made.udid)
        connection = http.client.HTTPConnection(
            self.emulator.host, self.emulator.port
        )
        connection.putrequest(
            'PUT', f'/rest/api/web/File/contents/{file.uuid}'
        )
        connection.putheader('X-API-Session', self.adapter.session._sessToken)
        connection.putheader('Content-Length', '1000')
        connection.endheaders()
        connection.send(b'too little')
        connection.sock.shutdown(1)
        self.assertEqual(400, connection.getresponse().status)
        connection.close()
        self.assert_unchanged()


class UploadFaultTest(storage.StorageTestCase):
    """Faults injected into an upload."""

    def setUp(self):
        super().setUp()
        self.made = self.disk()

    def shown_disk(self):
        (found,) = self.shown_group()['disks']
        return found

    def statuses(self):
        """Return the statuses of the uploads; None is that of one running."""
        return [
            record['status']
            for record in self.control.journal()
            if record['label'] == 'File.upload'
        ]

    def test_status_401_empties_upload_without_expected_size(self):
        file = self.file(self.made.udid)
        self.control.add_fault(match='File.upload', status=401)
        # The client logs on again and sends an empty body, without an error.
        self.upload(file, LARGE)
        self.assertEqual(0, self.shown_disk()['size'])
        self.assertEqual([401, 204], self.statuses())

    def test_new_logon_fails_upload_with_expected_size(self):
        for lose_session in (
            lambda: self.control.add_fault(match='File.upload', status=401),
            self.control.expire_sessions,
        ):
            file = self.file(self.made.udid, f_size=len(LARGE))
            lose_session()
            message = '0 bytes of .* have arrived'
            self.assert_refused(500, message, self.upload, file, LARGE)
            self.assertIsNone(self.shown_disk()['sha256'])

    def test_fault_before_or_after_upload_decides_contents(self):
        after = storage.sha256(LARGE)
        for phase, fault, error, sha256 in (
            ('before', {'status': 500}, exceptions.HttpError, None),
            ('before', {'drop': True}, exceptions.ConnectionError, None),
            ('after', {'status': 500}, exceptions.HttpError, after),
            ('after', {'drop': True}, exceptions.ConnectionError, after),
        ):
            with self.subTest(phase, **fault):
                file = self.file(self.disk(f'd{len(self.files())}').udid)
                self.control.add_fault(
                    match='File.upload', phase=phase, **fault
                )
                with self.assertRaises(error):
                    self.upload(file, LARGE)
                shown = self.shown_group()['disks'][-1]
                self.assertEqual(sha256, shown['sha256'])

    def test_refused_upload_is_read_to_its_end(self):
        """A client that is still sending may not see an early answer."""
        seen = []

        def between(_):
            for _ in range(3):
                self.vios()
            seen.extend(self.statuses())

        self.control.add_fault(match='File.upload', status=500)
        self.assert_refused(
            500,
            'Injected',
            self.adapter.upload_file,
            self.file(self.made.udid).element,
            IteratorBody([b'x' * 65536] * 3, between),
        )
        # At the first call the request may not have arrived yet.
        self.assertLessEqual(2, len(seen))
        self.assertEqual({None}, set(seen))

    def test_upload_can_be_dropped_halfway(self):
        sent = []
        self.control.add_fault(match='File.upload', drop=True)
        body = IteratorBody(iter(lambda: b'x' * 65536, b''), sent.append)
        with self.assertRaises(exceptions.ConnectionError):
            self.adapter.upload_file(self.file(self.made.udid).element, body)
        self.assertTrue(sent)

    def test_upload_can_be_delayed(self):
        self.control.add_fault(match='File.upload', delay=0.001)
        self.upload(self.file(self.made.udid), LARGE)
        self.assertEqual(len(LARGE), self.shown_disk()['size'])

    def test_upload_succeeds_or_fails_at_each_faulty_request(self):
        for phase in ('before', 'after'):
            for nth in range(1, 6):
                with self.subTest(phase=phase, nth=nth):
                    self.control.reset()
                    self.control.add_fault(nth=nth, phase=phase, status=500)
                    try:
                        self.upload_new()
                    except exceptions.HttpError:
                        pass
                    else:
                        (shown,) = self.shown_group()['disks']
                        self.assertEqual(len(LARGE), shown['size'])

    def upload_new(self):
        return tasks.upload_new_vdisk(
            self.adapter,
            self.shown()['uuid'],
            self.shown_group()['uuid'],
            io.BytesIO(LARGE),
            'boot',
            len(LARGE),
        )


class RefusedFileTest(storage.StorageTestCase):
    def create_file(self, name='image', kind=None, **options):
        return tasks._create_file(
            self.adapter,
            name,
            kind or vios_file.FileType.DISK_IMAGE,
            options.pop('vios', None) or self.vios().uuid,
            **options,
        )

    def media_file(self, name='cfg.iso', **options):
        kind = vios_file.FileType.MEDIA_ISO
        return self.create_file(name, kind, **options)

    def test_create_refuses_invalid_values(self):
        vios = '00000000-0000-4000-8000-000000000000'
        iso = vios_file.FileType.MEDIA_ISO
        for status, message, options in (
            (500, 'file name', {'name': 'x' * 80}),
            (500, 'of the type', {'kind': 'BROKERED_NOTHING'}),
            (400, 'not a number for ExpectedFileSize', {'f_size': '-1'}),
            (500, 'no value of SHA256', {'sha_chksum': 'abc'}),
            (500, 'needs a TargetDevice', {}),
            (500, 'no VirtualIOServer', {'vios': vios, 'tdev_udid': '03x.1'}),
            (500, 'UDID 03x.1', {'tdev_udid': '03x.1'}),
            (500, 'no media repository', {'kind': iso}),
        ):
            with self.subTest(message):
                self.assert_refused(
                    status, message, self.create_file, **options
                )
        create, group = self.adapter.create, self.group()
        self.assert_refused(
            400, 'not a File', create, group, 'File', service='web'
        )

    def test_upload_refuses_removed_disk_and_deleted_file(self):
        disk = self.disk()
        file = self.file(disk.udid)
        tasks.rm_vg_storage(self.group(), vdisks=[disk])
        self.assert_refused(500, disk.udid, self.upload, file, b'data')
        file.delete()
        self.assert_refused(404, file.uuid, self.upload, file, LARGE)
        self.assert_refused(404, file.uuid, file.delete)

    def test_upload_refuses_image_larger_than_its_disk(self):
        udid = self.disk(size=0.125).udid
        size = storage.GB // 8 + 1
        message = 'does not fit'
        self.assert_refused(500, message, self.file, udid, f_size=size)
        element = self.file(udid).element
        zeros = (
            bytes(min(1 << 20, size - at)) for at in range(0, size, 1 << 20)
        )
        upload = self.adapter.upload_file
        self.assert_refused(500, message, upload, element, zeros)
        self.assertIsNone(self.shown_group()['disks'][0]['sha256'])

    def test_upload_refuses_media_larger_than_free_space(self):
        group = self.repository()
        group.vmedia_repos[0].optical_media.append(
            wrappers.VOptMedia.bld(self.adapter, 'large', 0.9999)
        )
        group.update()
        size = storage.GB // 1000
        self.assert_refused(500, 'do not fit', self.media_file, f_size=size)
        file = self.media_file()
        self.assert_refused(500, 'do not fit', self.upload, file, bytes(size))

    def test_upload_refuses_media_names_in_use_or_invalid(self):
        self.repository()
        self.medium()
        self.assert_refused(500, 'in use', self.media_file)
        self.assert_refused(500, 'not the name', self.media_file, 'x' * 38)
        first, second = self.media_file('twice'), self.media_file('twice')
        self.upload(first, b'first')
        self.assert_refused(500, 'in use', self.upload, second, b'second')
        self.assertEqual(b'first', self.control.contents('0etwice'))

    def test_upload_refuses_disk_of_running_partition(self):
        disk = self.disk()
        client_lpar = self.create()
        file = self.file(disk.udid)
        self.map(client_lpar, disk)
        self.upload(file, b'not running')
        power.power_on(self.read(client_lpar.uuid), None)
        self.assert_refused(500, "'vm1', which is", self.file, disk.udid)
        self.assert_refused(500, "'vm1', which is", self.upload, file, b'x')
        self.assertEqual(b'not running', self.control.contents(disk.udid))

    def test_create_refuses_more_than_100_files(self):
        disk, server = self.disk(), self.vios()
        # To read it each time would take most of the time.
        self.vios = lambda: server
        for _ in range(100):
            file = self.file(disk.udid)
        self.assert_refused(500, '100 Files', self.file, disk.udid)
        file.delete()
        self.file(disk.udid)


class FileEventTest(storage.StorageTestCase):
    def test_files_emit_no_events(self):
        disk = self.disk()
        self.adapter.read_by_path(base.EVENTS)
        file = self.file(disk.udid)
        self.upload(file, b'data')
        file.delete()
        self.control.emit_event('CACHE_CLEARED')
        (event,) = self.adapter.read_by_path(base.EVENTS).feed.entries
        self.assertEqual('CACHE_CLEARED', event.element.findtext('EventType'))

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

"""How disks of the management partition are opened."""

import errno
import os
import pathlib
import stat
import tempfile
import unittest
import unittest.mock

from nova_powervm.powervm import management_partition


class OpenDiskTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory) / 'disk'
        self.path.write_bytes(b'contents')

    def open(self, **options):
        """Open the disk."""
        return management_partition.open_disk(str(self.path), **options)

    def test_reader_cannot_write(self):
        with self.open() as file:
            self.assertEqual(b'contents', file.read())
            self.assertRaises(OSError, file.write, b'x')

    def test_writer_overwrites_and_cannot_read(self):
        with self.open(write=True) as file:
            file.write(b'zero')
            self.assertRaises(OSError, file.read)
        self.assertEqual(b'zeroents', self.path.read_bytes())

    def refused(self, number, **options):
        """Assert that the disk cannot be opened."""
        with self.assertRaises(OSError) as caught:
            self.open(**options)
        self.assertEqual(number, caught.exception.errno)
        self.assertEqual(str(self.path), caught.exception.filename)

    def test_pipe_is_refused_without_waiting(self):
        self.path.unlink()
        os.mkfifo(self.path)
        for write in False, True:
            self.refused(errno.ENOTBLK, write=write)

    def test_link_is_refused(self):
        target = self.path.rename(self.path.with_name('other'))
        self.path.symlink_to(target)
        self.refused(errno.ENOTBLK)

    def test_missing_disk_is_refused_and_not_made(self):
        self.path.unlink()
        for write in False, True:
            self.refused(errno.ENOENT, write=write)
        self.assertFalse(self.path.exists())

    def flags(self, mode, *, write):
        """Return the flags that something of a mode is opened with."""
        result = os.stat_result((mode, *[0] * 9))
        with (
            unittest.mock.patch.object(os, 'lstat', lambda path: result),
            unittest.mock.patch.object(os, 'open', side_effect=OSError) as own,
        ):
            self.assertRaises(OSError, self.open, write=write)
        return own.call_args.args[1]

    def test_device_alone_is_opened_exclusively_for_writing_alone(self):
        # Linux refuses a device that is mounted or held only with O_EXCL.
        self.assertEqual(
            [False, True, False, False],
            [
                bool(self.flags(mode, write=write) & os.O_EXCL)
                for mode in (stat.S_IFBLK, stat.S_IFREG)
                for write in (False, True)
            ],
        )


class DropTest(unittest.TestCase):
    """A disk that Linux removes while the driver looks for it."""

    def test_link_that_goes_meanwhile_is_no_error(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        links = root / 'dev/disk/by-id'
        links.mkdir(parents=True)
        link = links / 'scsi-SIBM_3303_NVDISKab.1'
        link.symlink_to('../../sda')
        partition = management_partition.ManagementPartition(
            unittest.mock.Mock(), str(root), sleep=lambda seconds: None
        )
        read = os.readlink

        def vanish(path, *args, **options):
            if path == str(link):
                link.unlink(missing_ok=True)
            return read(path, *args, **options)

        with unittest.mock.patch.object(os, 'readlink', vanish):
            partition.drop('ab.1')
        self.assertFalse(link.is_symlink())

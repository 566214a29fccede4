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

"""Files of root, accessed by Nova's privilege separation in this process."""

import errno
import os
import pathlib
import stat
import tempfile
import unittest
import unittest.mock

from nova import privsep

from nova_powervm.powervm import management_partition
from nova_powervm.virt import privileged_files

USER = 42


class PrivilegedFilesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        # As in the privileged process itself.
        privsep.sys_admin_pctxt.set_client_mode(False)
        self.addCleanup(privsep.sys_admin_pctxt.set_client_mode, True)
        self.files = privileged_files.PrivilegedFiles()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory) / 'scan'

    def test_write_writes_to_file(self):
        self.path.touch()
        self.files.write(str(self.path), '- - -')
        self.assertEqual('- - -', self.path.read_text())

    def test_write_creates_no_file(self):
        for path in (self.path, self.path / 'delete'):
            with self.assertRaises(FileNotFoundError):
                self.files.write(str(path), '1')
        self.assertFalse(self.path.exists())

    def owners(self, *, is_accessible, write=False):
        """Open the file; return the owners that it was given until then."""
        self.path.write_text('bytes')
        owners = []

        def open_(path, **options):
            owners.append('open')
            return open_disk(path, **options)

        open_disk = management_partition.open_disk
        with (
            unittest.mock.patch.object(
                os, 'access', lambda path, mode: is_accessible
            ),
            unittest.mock.patch.object(
                os, 'chown', lambda path, uid, gid: owners.append(uid)
            ),
            unittest.mock.patch.object(os, 'getuid', lambda: USER),
            unittest.mock.patch.object(
                management_partition, 'open_disk', open_
            ),
            self.files.open(str(self.path), write=write) as file,
        ):
            self.assertEqual(write, file.writable())
            return owners

    def test_file_of_others_goes_back_as_soon_as_it_is_open(self):
        owner = os.getuid()
        for write in False, True:
            self.assertEqual(
                [USER, 'open', owner],
                self.owners(is_accessible=False, write=write),
            )

    def test_accessible_file_keeps_its_owner(self):
        self.assertEqual(['open'], self.owners(is_accessible=True))

    def test_device_that_killed_opening_left_goes_back_to_root(self):
        self.path.touch()
        with self.left(stat.S_IFBLK):
            self.assertEqual(
                [USER, 'open', 0], self.owners(is_accessible=True)
            )

    def test_file_of_own_user_keeps_its_owner(self):
        self.path.touch()
        with self.left(stat.S_IFREG):
            self.assertEqual(['open'], self.owners(is_accessible=True))

    def left(self, mode):
        """Have a file look like one of the service's user."""
        found = os.stat_result((mode, 0, 0, 1, USER, *[0] * 5))
        return unittest.mock.patch.object(os, 'lstat', lambda path: found)

    def test_file_that_cannot_be_opened_goes_back(self):
        owner, owners = os.getuid(), []
        self.path.touch()
        busy = OSError(errno.EBUSY, 'busy')
        with (
            unittest.mock.patch.object(os, 'access', lambda path, mode: False),
            unittest.mock.patch.object(
                os, 'chown', lambda path, uid, gid: owners.append(uid)
            ),
            unittest.mock.patch.object(os, 'getuid', lambda: USER),
            unittest.mock.patch.object(
                management_partition, 'open_disk', side_effect=busy
            ),
            self.assertRaises(OSError),
        ):
            self.files.open(str(self.path))
        self.assertEqual([USER, owner], owners)

    def test_mode_that_is_wanted_decides(self):
        self.path.touch()
        asked = []
        with unittest.mock.patch.object(
            os, 'access', lambda path, mode: asked.append(mode) or True
        ):
            for write in False, True:
                self.files.open(str(self.path), write=write).close()
        self.assertEqual([os.R_OK, os.W_OK], asked)

    def test_file_that_vanishes_before_it_is_open_is_missing(self):
        self.path.touch()

        def vanish(path, mode):
            self.path.unlink()
            return False

        with (
            unittest.mock.patch.object(os, 'access', vanish),
            self.assertRaises(FileNotFoundError),
        ):
            self.files.open(str(self.path))

    def test_file_that_vanishes_when_it_is_open_is_read(self):
        self.path.write_text('bytes')

        def vanish(path, **options):
            file = open_disk(path, **options)
            self.path.unlink()
            return file

        open_disk = management_partition.open_disk
        with (
            unittest.mock.patch.object(os, 'access', lambda path, mode: False),
            unittest.mock.patch.object(
                management_partition, 'open_disk', vanish
            ),
            self.files.open(str(self.path)) as file,
        ):
            self.assertEqual(b'bytes', file.read())

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

import os
import pathlib
import tempfile
import unittest
import unittest.mock

from nova import privsep

from nova_powervm.virt import privileged_files


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

    def readable(self, *, is_readable):
        """Use a file; return the owners that it was given."""
        self.path.touch()
        owners = []
        with (
            unittest.mock.patch.object(
                os, 'access', lambda path, mode: is_readable
            ),
            unittest.mock.patch.object(
                os, 'chown', lambda path, uid, gid: owners.append(uid)
            ),
            unittest.mock.patch.object(os, 'getuid', lambda: 42),
            self.files.readable(str(self.path)),
        ):
            owners.append('read')
        return owners

    def test_file_of_others_is_owned_while_it_is_read(self):
        owner = os.getuid()
        self.assertEqual([42, 'read', owner], self.readable(is_readable=False))

    def test_readable_file_keeps_its_owner(self):
        self.assertEqual(['read'], self.readable(is_readable=True))

    def test_file_that_vanishes_is_no_error(self):
        self.path.touch()
        with (
            unittest.mock.patch.object(os, 'access', lambda path, mode: False),
            self.files.readable(str(self.path)),
        ):
            self.path.unlink()

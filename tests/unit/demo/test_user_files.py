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

import pathlib
import tempfile
import unittest

from demo import user_files

_INVENTORY = """\
devices:
  identification: {vendor_id: "10DE"}
not these:
  identification: {device_id: "1DB6"}
  allow: false
"""


class UserFilesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / 'file.yaml'

    def assert_refused(self, check, *reasons):
        with self.assertRaises(user_files.UserFileError) as caught:
            check(self.path)
        for reason in (str(self.path), *reasons):
            self.assertIn(reason, str(caught.exception))

    def test_inventory_names_paragraphs_that_offer_devices(self):
        self.path.write_text(_INVENTORY)

        self.assertEqual(
            ['devices'],
            [found.name for found in user_files.read_paragraphs(self.path)],
        )

    def test_missing_inventory_is_named(self):
        self.assert_refused(
            user_files.read_paragraphs, 'No such file or directory'
        )

    def test_invalid_inventory_is_named_with_line(self):
        self.path.write_text('gpus:\n  traits: []\n')

        self.assert_refused(user_files.read_paragraphs, 'line ', 'gpus')

    def test_valid_world_is_accepted(self):
        self.path.write_text('systems: [{name: machine}]')

        user_files.check_world(self.path)

    def test_missing_world_is_named(self):
        self.assert_refused(
            user_files.check_world, 'No such file or directory'
        )

    def test_invalid_world_is_named_with_path_of_value(self):
        self.path.write_text('systems: [{name: 1}]')

        self.assert_refused(user_files.check_world, 'systems[0].name')

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

from nova_powervm.lpar import storage


class RefusedDiskChangesTest(unittest.TestCase):
    def assert_refused(self, old, new, *words):
        """Assert why disks cannot change from some sizes to others."""
        reasons = list(
            storage.refused_disk_changes(
                storage.DiskSizes(*old), storage.DiskSizes(*new)
            )
        )
        self.assertEqual(len(words), len(reasons), reasons)
        for word, reason in zip(words, reasons, strict=True):
            self.assertIn(word, reason)

    def test_root_disk_may_grow_and_swap_disk_may_change(self):
        self.assert_refused((1, 2, 0), (3, 2, 512))
        self.assert_refused((0, 0, 512), (0, 0, 0))

    def test_smaller_root_disk_is_refused(self):
        self.assert_refused((2, 0, 0), (1, 0, 0), 'of 2 GB cannot shrink to 1')

    def test_root_disk_of_image_size_gets_no_other_size(self):
        self.assert_refused((0, 0, 0), (1, 0, 0), 'has the size of its image')
        # Nova's API refuses the reverse.
        self.assert_refused((1, 0, 0), (0, 0, 0), 'cannot shrink to 0 GB')

    def test_changed_ephemeral_disk_is_refused_with_all_reasons(self):
        self.assert_refused(
            (2, 1, 0), (1, 2, 0), 'cannot shrink', 'cannot change'
        )

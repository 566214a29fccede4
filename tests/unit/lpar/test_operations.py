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

"""What operations may do, and what becomes of disks and errors."""

import unittest

import ddt

from nova_powervm.lpar import operations
from nova_powervm.lpar import storage

#: creates, stops, restarts, adds slots, frees slots, size, adapters, disks,
#: volumes, after a failure.
ROWS = """
spawn: yes, no, -, adds, -, size, made, made, made, remove
arrival: yes, no, -, adds, -, size, made, server's own, made, remove lpar
departure: no, yes, -, -, -, -, no, kept, left, restart
resize within the host: no, change, -, adds, frees, size, fitted, kept, \
fitted, leave
return: if lost, never running, -, adds, -, -, fitted, mapped, fitted, \
leave
start: no, failed, -, adds, -, -, fitted, there, no, nothing
soft reboot: no, yes, restarts, adds, -, -, fitted, there, no, restart
hard reboot: if lost, yes, restarts, adds, frees, size, fitted, mapped, \
fitted, restart
rescue: no, yes, restarts, -, -, -, no, rescued, no, restore
unrescue: no, yes, restarts, -, -, -, no, restored, no, leave
attachment of a port: no, no, -, -, -, -, +1, no, no, nothing
detachment of a port: no, no, -, -, -, -, -1, no, no, nothing
attachment of a volume: no, no, -, -, -, -, no, no, +1, nothing
detachment of a volume: no, no, -, -, -, -, no, no, -1, nothing
plugging of ports: no, no, -, -, -, -, missing, no, no, nothing
"""
WORDS = {
    operations.Creation.IF_LOST: 'if lost',
    operations.Stop.FAILED_ONLY: 'failed',
    operations.Stop.NEVER_RUNNING: 'never running',
    operations.Stop.TO_CHANGE: 'change',
    operations.Adapters.MISSING: 'missing',
    operations.Disks.KEPT: "server's own",
    operations.Disks.STAY: 'kept',
    operations.Disks.CHECKED: 'there',
    operations.Disks.MAPPED: 'mapped',
    operations.Disks.RESCUED: 'rescued',
    operations.Disks.RESTORED: 'restored',
    operations.Volumes.MADE: 'made',
    operations.Volumes.FITTED: 'fitted',
    operations.Volumes.LEFT: 'left',
}


def cells(row):
    """Return the cells of a row in words."""
    permissions = {
        'restarts': row.restarts,
        'adds': row.adds_slots,
        'frees': row.frees_slots,
        'size': row.settings,
    }
    return [
        WORDS.get(row.creates, str(row.creates)),
        WORDS.get(row.stops, str(row.stops)),
        *(name if is_given else '-' for name, is_given in permissions.items()),
        WORDS.get(row.adapters, str(row.adapters)),
        WORDS.get(row.disks, str(row.disks)),
        WORDS.get(row.volumes, row.volumes),
        row.failure.name.lower().replace('_', ' '),
    ]


@ddt.ddt
class RowTest(unittest.TestCase):
    @ddt.data(*ROWS.strip().splitlines())
    def test_row_has_cells_of_design(self, line):
        name, _, expected = line.partition(': ')
        (row,) = (row for row in operations.ALL if row.name == name)

        self.assertEqual(expected.split(', '), cells(row))
        self.assertFalse(row.is_check)
        self.assertTrue(row.as_check().is_check)
        self.assertEqual(f'check of {row}', str(row.as_check()))

    def test_table_has_all_rows(self):
        self.assertEqual(
            [line.partition(':')[0] for line in ROWS.strip().splitlines()],
            [row.name for row in operations.ALL],
        )


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


class FailureTest(unittest.TestCase):
    def test_nova_sets_servers_to_error_after_moves_and_unrescue_only(self):
        """A failed start or attachment leaves the server's state as it was."""
        self.assertEqual(
            [operations.RESIZE, operations.RETURN, operations.UNRESCUE],
            [
                row
                for row in operations.ALL
                if row.failure is operations.Failure.LEAVE
            ],
        )

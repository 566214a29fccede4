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

"""The table of operations is that of the design, word for word.

What a row does is in the tests of plans. Some cells say what a row means, and
no code asks them: that a build stops no guest, for example.
"""

import unittest

import ddt

from nova_powervm.lpar import operations

#: creates, stops, restarts, adds slots, frees slots, size, adapters, disks,
#: volumes, after a failure.
ROWS = """
spawn: yes, no, -, adds, -, size, made, made, made, remove
arrival: yes, no, -, adds, -, size, made, server's own, made, remove lpar
departure: no, yes, -, -, -, -, no, kept, no, restart
resize within the host: no, change, -, adds, frees, size, fitted, kept, \
no, leave
return: if lost, never running, -, adds, -, -, fitted, mapped, no, leave
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

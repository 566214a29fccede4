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

"""What the commands and nova-compute tell of the devices of a host."""

from tests.functional import base
from tests.functional import move_sites
from tests.functional import test_commands

_OTHER = {
    'description': '3D Controller',
    'vendor_id': '10DE',
    'device_id': '20B5',
    'class': '0302',
}


class WatchingTest(test_commands.CommandTestCase):
    """Runs the commands beside nova-compute, with real Placement."""

    inventory = move_sites.INVENTORY

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_devices_are_told_of(self):
        self.tell_stories()

    def forget(self):
        super().forget()
        self._run_periodics()

    def row(self, index, *command, **options):
        """Return the row of a slot."""
        _, rows = self.rows(*command, **options)
        (row,) = [row for row in rows if row['Slot'] == f'{index:08X}']
        return row

    # Replaced cards

    def story_card_of_other_ids_is_named(self):
        server = self.boot(base.gpu_groups(1))
        (index,) = self.allocated_slots(server)
        self._stop_server(server)
        self.control().pull(f'{index:08X}')
        self.control().plug(f'{index:08X}', _OTHER)
        ids = 'device_id was 1DB6, and is 20B5'
        try:
            self.assertIn(ids, self.row(index, 'show')['Replacement'])
            self.assertIn(f'another card: {ids}', str(self.rows('show')))
            code, rows = self.rows('diff')
            self.assertEqual(3, code)
            (row,) = [row for row in rows if row['Kind'] == 'replaced']
            self.assertEqual(
                (f'{index:08X}', True),
                (row['Slot'], ids in row['Difference']),
            )
            code, rows = self.rows('validate')
            self.assertEqual(1, code)
            self.assertIn(ids, str(rows))
            code, rows = self.rows('validate', '--no-placement')
            self.assertEqual((0, []), (code, rows))
        finally:
            self._delete_server(server)
            self.control().pull(f'{index:08X}')
            self.plug_gpu(f'{index:08X}')
            self._run_periodics()
        self.assertIsNone(self.row(index, 'show')['Replacement'])

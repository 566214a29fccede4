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

"""A host whose slots are all gone at once."""

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.powervm import system
from powervm_emulator import worlds
from tests.unit.powervm import hosts


class VanishedTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.system = system.RestSystem(
            hosts.connect(self, self.emulator),
            hosts.server_of(self.emulator),
            clock=lambda: self.now,
        )
        self.system.read()

    def vanish(self):
        for slot in self.indexes():
            self.control.pull(slot, remove=True)

    def indexes(self):
        (found,) = self.control.state()['systems']
        return [slot['drc_index'] for slot in found['slots']]

    def test_vanished_slots_are_reported_with_remaining_wait(self):
        self.vanish()

        with self.assertRaises(exception.SlotsVanished) as caught:
            self.system.read()

        self.assertIn(
            'no longer reports any of its 14 I/O slots', str(caught.exception)
        )
        self.assertIn('another 180 seconds', str(caught.exception))

    def test_vanished_slots_are_believed_after_repeated_full_readings(self):
        self.vanish()
        for self.now in (0.0, 60.0, 120.0, 179.0):
            self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.clear_journal()
        self.now = 181.0

        self.assertEqual((), tuple(self.system.read().io_slots))

        # Without an ETag: it may be the wrong answer that is unchanged.
        self.assertEqual(
            [200],
            [
                record['status']
                for record in self.control.journal()
                if record['label'] == 'ManagedSystem.read'
            ],
        )
        self.now = 182.0
        self.assertEqual((), tuple(self.system.read().io_slots))

    def test_reappeared_slots_are_believed_at_once(self):
        self.vanish()
        self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.load_world(worlds.default())

        self.assertEqual(14, len(self.system.read().io_slots))

    def test_wait_starts_anew_when_slots_vanish_again(self):
        self.vanish()
        self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.load_world(worlds.default())
        self.now = 170.0
        self.system.read()
        self.vanish()
        self.now = 190.0

        self.assertRaises(exception.SlotsVanished, self.system.read)

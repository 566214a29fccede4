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

"""Invariants of devices hold in any order of events.

The driver's core, its translation for Nova, Nova's report client and resource
tracker are real, and so are the inventory file and the journal. The host,
Placement and Nova's manager are models, in :mod:`.simulation`.
"""

import dataclasses
import itertools
import tempfile
import unittest

from hypothesis import settings
from hypothesis import stateful
from nova import objects

from tests import proofs
from tests.property.simulation import base_machine
from tests.property.simulation import checks
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import machine
from tests.property.simulation import placement
from tests.property.simulation import process
from tests.property.simulation import records
from tests.property.simulation import world

_GPU = records.Wish((('CUSTOM_GPU', None),))


@proofs.proves('O8', 'O18')
class SimulationTest(unittest.TestCase):
    def _run(self, simulated, examples):
        stateful.run_state_machine_as_test(
            simulated,
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                deadline=None,
                # Longer runs outside the suite are random.
                derandomize=True,
            ),
        )

    def test_random_events_break_no_invariant(self):
        self._run(machine.Simulation, 20)

    def test_random_moves_break_no_invariant(self):
        self._run(machine.MoveSimulation, 15)

    def test_random_cleanings_break_no_invariant(self):
        self._run(machine.CleaningSimulation, 10)


class SimulationRegressionTest(unittest.TestCase):
    """Failures that longer runs have found, as fixed sequences."""

    def setUp(self):
        objects.register_all()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.enterContext(base_machine.quiet())
        self.world = world.World(directory.name)
        self.enterContext(self.world.database.serving())
        self.node = self.world.nodes[0]
        self.addCleanup(self.node.crash)
        self.assertTrue(self.world.start(self.node))
        self.assertTrue(self.world.cycle(self.node))

    def test_failed_requests_at_start_do_not_lower_reserved(self):
        row = self.world.rows(self.node)[0]
        self.world.placement.reserve(row, 1)
        failed = 0
        # Each request during the start of nova-compute fails once.
        for number in range(40):
            trouble = process.Trouble('placement', number, 'refused')
            self.world.start(self.node, trouble)
            failed += trouble.done
            self.assertTrue(row.reserved, number)
        self.assertGreater(failed, 10)

    def test_slot_of_leftover_lpar_is_not_offered(self):
        # After the creation of the LPAR all requests fail.
        for number in range(12):
            trouble = process.Trouble('rest', number, 'refused', times=99)
            failed = self.world.boot(self.node, _GPU, trouble)
            if failed.lpar in self.node.host.lpars:
                break
        else:
            self.fail('no LPAR was left')
        # A new process would not know of the failed removal.
        self.node.compute.host.removal._leftovers.clear()

        self.assertTrue(self.world.cycle(self.node))

        checks.after_cycle(self.world, self.node)
        (index,) = self.node.host.slots_of(failed.lpar)
        offered = {
            world.slot_of(row)
            for row in self.world.rows(self.node)
            if self.world.placement.has_room(row)
        }
        self.assertNotIn(index, offered)
        self.assertTrue(offered)

    def test_second_cycle_recreates_deleted_providers(self):
        # Nova caches it, whoever created it.
        for number in range(30):
            trouble = process.Trouble('placement', number, 'refused')
            self.world.start(self.node, trouble)
            for row in self.world.placement.below(self.node.root):
                if not row.reserved:
                    del self.world.placement.rows[row.uuid]
            stranger = placement.Row(
                placement.new_uuid(0xF0000000 + number),
                f'stranger {number}',
                self.node.root,
            )
            self.world.placement.rows[stranger.uuid] = stranger
            self.world.cycle(self.node)

            self.assertTrue(self.world.cycle(self.node), number)
            self.assertEqual(3, len(self.world.rows(self.node)))

    def test_release_of_withheld_provider_is_seen_in_next_cycle(self):
        held = self.world.boot(self.node, _GPU)
        (index,) = self.world.allocated(held, self.node)
        other = self.world.rows(self.node)[-1]
        self.world.placement.reserve(other, 1)
        self.node.host.change(index, card=None)
        self.node.host.change(world.slot_of(other), owner=host.VIOS)
        for _ in range(2):
            self.assertTrue(self.world.cycle(self.node))
        rows = [
            row
            for row in self.world.rows(self.node)
            if self.world.placement.holders(row.uuid) or row is other
        ]
        self.assertEqual([True, True], [row.reserved for row in rows])

        # Nova's cache still shows both as reserved.
        for row in rows:
            self.world.placement.reserve(row, 0)
        self.assertTrue(self.world.cycle(self.node))

        checks.after_cycle(self.world, self.node)
        self.assertTrue(rows[0].reserved)
        self.assertNotIn(other.uuid, self.world.placement.rows)

    def test_used_device_of_other_ids_is_not_offered(self):
        """It was cleaned and offered as what its guest made of it."""
        other = inventory.Content().changed(
            inventory.CARD, resource_class='CUSTOM_OTHER'
        )
        self.node.file.write(other.changed(inventory.GPU, once=True))
        for _ in range(2):
            self.assertTrue(self.world.cycle(self.node))
        self.world.delete(self.world.boot(self.node, _GPU))
        (row,) = self.world.cleaning.waiting(self.node)
        index = world.slot_of(row)
        # Before the next cycle, and after it.
        for _ in range(2):
            self.node.host.change(index, card=host.CARD)
            self.assertEqual([], self.world.cleaning.waiting(self.node))
            self.assertTrue(self.world.cycle(self.node))
            checks.after_cycle(self.world, self.node)
            self.world.check()
        self.assertEqual({'CUSTOM_GPU'}, row.offer.keys())
        self.assertIn(world.ONCE, row.traits)
        self.assertIn(row.uuid, self.world.quarantined)

    def test_device_that_is_reported_oddly_is_not_offered(self):
        """It is again by itself, also if another card seemed to be there."""
        # The provider of a free slot that is there twice is deleted.
        for odd, once in itertools.product(host.ODD[:-1], (False, True)):
            self.node.file.write(
                inventory.Content().changed(inventory.GPU, once=once)
            )
            for _ in range(2):
                self.assertTrue(self.world.cycle(self.node))
            row = self.world.rows(self.node)[0]
            for now in (odd, ''):
                card = host.CARD if now == 'elsewhere' else host.GPU
                self.node.host.change(world.slot_of(row), odd=now, card=card)
                self.assertTrue(self.world.cycle(self.node))
                self.world.check()
                checks.after_quiet(self.world, self.node)
                self.assertEqual(not now, self.world.placement.has_room(row))
                self.assertIn(row, self.world.rows(self.node))

    def test_burned_device_that_is_reported_oddly_stays_what_it_was(self):
        self.node.file.write(
            inventory.Content().changed(inventory.GPU, once=True)
        )
        for _ in range(2):
            self.assertTrue(self.world.cycle(self.node))
        self.world.delete(self.world.boot(self.node, _GPU))
        (row,) = self.world.cleaning.waiting(self.node)
        before = row.state
        for odd in host.ODD:
            card = host.CARD if odd == 'elsewhere' else host.GPU
            self.node.host.change(world.slot_of(row), odd=odd, card=card)
            self.assertEqual([], self.world.cleaning.waiting(self.node))
            for _ in range(2):
                self.assertTrue(self.world.cycle(self.node))
            self.world.check()
            checks.after_quiet(self.world, self.node)
            self.assertEqual(before, row.state)
        self.node.host.change(world.slot_of(row), odd='', card=host.GPU)
        self.assertTrue(self.world.cycle(self.node))
        self.assertEqual([row], self.world.cleaning.waiting(self.node))

    def test_hard_reboot_ignores_earlier_moves_whose_state_was_set(self):
        self.world.share_disks()
        large = dataclasses.replace(_GPU, memory_mb=1024)
        for wishes in ([large], [large, _GPU]):
            with self.subTest(moves=len(wishes)):
                instance = self.world.boot(self.node, _GPU)
                for wish in wishes:
                    self.assertTrue(
                        self.world.resize(instance, self.node, wish)
                    )
                    self.world.set_state(instance, 'active')
                before = self.world.recorded(instance)

                self.assertTrue(self.world.power(instance, 'reboot hard'))

                self.assertEqual(before, self.world.recorded(instance))
                self.assertEqual(
                    before, self.node.host.slots_of(instance.lpar)
                )
                self.assertEqual(before, self.world.held(instance))
                self.world.delete(instance)
                for migration in self.world.left_allocations():
                    self.world.placement.free(migration.uuid)
                self.assertTrue(self.world.cycle(self.node))

    def test_device_that_is_being_cleaned_is_not_offered(self):
        self.node.file.write(
            inventory.Content().changed(inventory.GPU, once=True)
        )
        for _ in range(2):
            self.assertTrue(self.world.cycle(self.node))
        self.world.delete(self.world.boot(self.node, _GPU))
        (row,) = self.world.cleaning.waiting(self.node)
        index = world.slot_of(row)

        # Exit codes of the program, and what follows; None is a kill.
        for code, results in (
            (None, ['killed']),
            (3, ['goes on', 'goes on', 'failed for good']),
            (0, ['goes on', 'goes on', 'goes on', 'released']),
        ):
            with self.subTest(results=results):
                self.assertTrue(self.world.cleaning.begin(self.node, row))
                self.assertEqual(results, self._clean(code))
                checks.after_cycle(self.world, self.node)
                if results[-1] == 'failed for good':
                    self.assertFalse(self.world.cleaning.begin(self.node, row))
                    self.world.cleaning.forgive(row)
        self.assertIsNone(self.node.host.slots[index].owner)

    def _clean(self, code):
        """Clean a device, with a cycle and a check after each step."""
        attempt = self.world.cleaning.running[self.node.name]
        results = ['goes on']
        while results[-1] == 'goes on':
            results.append(self.world.cleaning.go_on(attempt, code or 0))
            if code is None:
                del self.world.cleaning.running[self.node.name]
                results = ['goes on', 'killed']
            self.world.check()
            self.assertTrue(self.world.cycle(self.node))
        return results[1:]

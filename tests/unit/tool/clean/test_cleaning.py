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

"""Whole passes over devices, with whatever happens meanwhile.

Host and Placement are in memory, so that a pass can end anywhere.
"""

import dataclasses
import tempfile
import types
import unittest

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.clean import cleaner
from nova_powervm.tool.clean import program as programs
from nova_powervm.tool.clean import state
from tests.unit.devices import values
from tests.unit.tool.rules import test_releasing

FIRST, SECOND = values.INDEX, values.INDEX + 1


class Killed(BaseException):
    """The process ends, and tidies nothing up."""


class Cloud:
    """A host and Placement, which a process asks until it is killed.

    :ivar writes: What was written to Placement, in order.
    """

    def __init__(self):
        self.slots = {}
        self.providers = {}
        self.writes = []
        self.left = -1
        self.is_silent = False

    def burn(self, *indexes, **reported):
        """Let devices wait for their cleaning."""
        for index in indexes:
            slot = self.slots[index] = values.slot(drc_index=index, **reported)
            traits = names.generated_traits(slot) | {'HW_PCI_ONE_TIME_USE'}
            self.providers[f'p{index:X}'] = test_releasing.burned(
                index, f'p{index:X}', traits=traits
            )

    def burned(self):
        """Return the slots of the devices that are reserved."""
        return {
            provider.drc_index
            for provider in self.providers.values()
            if provider.inventory['CUSTOM_GPU']['reserved']
        }

    def change(self, index=FIRST, **changes):
        """Change a provider, as somebody else does."""
        uuid = f'p{index:X}'
        now = self.providers[uuid]
        self.providers[uuid] = dataclasses.replace(
            now, generation=now.generation + 1, **changes
        )

    def mark(self, trait):
        """Give the first provider a trait."""
        traits = self.providers[f'p{FIRST:X}'].traits
        self.change(traits=traits | {trait})

    def change_slot(self, **changes):
        """Change the first slot."""
        self.slots[FIRST] = dataclasses.replace(self.slots[FIRST], **changes)

    def end_access(self):
        """Kill the process after the access whose turn it is."""
        self.left -= 1
        if not self.left:
            raise Killed

    # What the cleaner calls

    def tree(self, node):
        found = test_releasing.tree(*self.providers.values())
        self.end_access()
        return found

    def provider(self, uuid):
        found = self.providers.get(uuid)
        self.end_access()
        return found

    def read_host(self):
        if self.is_silent:
            raise errors.PlacementUnreachable(reason='silence')
        found = [*self.slots.values()]
        self.end_access()
        return types.SimpleNamespace(
            system=types.SimpleNamespace(io_slots=found)
        )

    def write_inventory(self, provider, name, record):
        inventory = {**provider.inventory, name: record}
        return self._write(provider, 'inventory', inventory=inventory)

    def write_traits(self, provider, traits):
        return self._write(provider, 'traits', traits=traits)

    def _write(self, provider, what, **changes):
        if self.providers[provider.uuid] != provider:
            return False
        self.change(provider.drc_index, **changes)
        self.writes.append(what)
        self.end_access()
        return True


class CleaningTest(unittest.TestCase):
    """Whatever happens, an unclean device stays reserved."""

    def setUp(self):
        super().setUp()
        self.cloud = Cloud()
        self.cloud.burn(FIRST)
        self.projects = {}
        self.told = []
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.attempts = state.Attempts(directory, 'host1')

    def clean(self, act=lambda index: None, attempts=3):
        """Make a pass; return whether all devices were released.

        :param act: Cleans the device of a slot; returns a failure in words,
            an outcome, or nothing.
        """

        def run(variables, tell):
            self.told.append(variables)
            found = act(int(variables['POWERVM_DRC_INDEX'], 16))
            if isinstance(found, programs.Outcome):
                return found
            return programs.Outcome(found or '')

        services = cleaner.Services(
            placement=self.cloud,
            read_host=self.cloud.read_host,
            program=types.SimpleNamespace(is_stopped=False, run=run),
            attempts=self.attempts,
            name_projects=lambda node, waiting: {
                each.uuid: self.projects.get(each.drc_index, 'unknown')
                for each in waiting
            },
        )
        settings = types.SimpleNamespace(partition=None, attempts=attempts)
        with self.assertLogs(cleaner.LOG.logger) as self.logs:
            cleaner.LOG.info('A pass begins.')
            return cleaner.Cleaner(services, settings, 'host1').clean_all()

    def numbers(self):
        """Return the numbers of the attempts that were made."""
        return [variables['POWERVM_ATTEMPT'] for variables in self.told]

    def marks(self):
        provider = self.cloud.providers[f'p{FIRST:X}']
        return names.quarantine_traits(provider.traits)

    def assert_kept(self, words, act, attempts=3):
        """Assert that the device stays reserved, and that the log says why."""
        self.assertFalse(self.clean(act, attempts))
        self.assertEqual({FIRST}, self.cloud.burned())
        self.assertIn(words, str(self.logs.output))

    def test_failure_of_one_device_does_not_stop_the_others(self):
        self.cloud.burn(SECOND)
        self.assert_kept(
            'attempt 1 of 3', lambda index: 'no' if index == FIRST else ''
        )

    def test_device_that_begins_to_wait_meanwhile_has_its_turn(self):
        many = [FIRST, SECOND, SECOND + 1]
        one, later = SECOND + 2, SECOND + 3
        self.cloud.burn(*many, one)
        self.projects = dict.fromkeys(many, 'a') | {one: 'b', later: 'b'}
        cleaned = []

        def act(index):
            if not cleaned:
                self.cloud.burn(later)
            cleaned.append(index)

        self.assertTrue(self.clean(act))
        self.assertEqual([one, many[0], later, *many[1:]], cleaned)

        # With the last one, a pass ends.
        self.cloud.burn(FIRST)
        self.clean(lambda _: self.cloud.burn(SECOND))
        self.assertEqual({SECOND}, self.cloud.burned())

    def test_device_that_was_changed_meanwhile_is_not_released(self):
        for words, act in (
            (
                'its slot is owned by',
                lambda _: self.cloud.change_slot(owner=values.client()),
            ),
            (
                'vendor_id was 10DE, and is 144D',
                lambda _: self.cloud.change_slot(vendor_id=0x144D),
            ),
            (
                'it is in quarantine',
                lambda _: self.cloud.mark(names.QUARANTINED_TRAIT),
            ),
        ):
            with self.subTest(words):
                self.assert_kept(words, act, attempts=9)
                self.cloud.burn(FIRST)

    def test_card_whose_class_changes_meanwhile_is_not_released(self):
        self.cloud.burn(FIRST, pci_class=None)
        self.assert_kept(
            'class was not reported, and is 1080',
            lambda _: self.cloud.change_slot(pci_class=0x1080),
        )

    def test_slot_that_somebody_has_or_that_is_empty_costs_no_attempt(self):
        for words, changes in (
            ('is not cleaned now: its slot is', {'owner': values.client()}),
            ('its slot is empty', {'vendor_id': slots.EMPTY_ID}),
        ):
            with self.subTest(words):
                self.cloud.change_slot(**changes)
                self.assert_kept(words, None)
                self.cloud.burn(FIRST)
        self.assertEqual([], self.told)

    def test_device_that_somebody_released_meanwhile_is_left_to_him(self):
        held = {'somebody': {'CUSTOM_GPU': 1}}
        free = {'CUSTOM_GPU': values.record(0)}

        self.assertFalse(
            self.clean(
                lambda _: self.cloud.change(inventory=free, consumers=held),
                attempts=1,
            )
        )

        self.assertEqual([], self.cloud.writes)
        self.assertIn('it is allocated to', str(self.logs.output))

    def test_last_failure_leads_to_quarantine_until_somebody_ends_it(self):
        for _ in range(2):
            self.assert_kept('attempt', lambda _: 'no')
            self.assertEqual(set(), self.marks())
        self.assert_kept('in quarantine: 3 attempts', lambda _: 'no')
        self.assertEqual(
            {names.QUARANTINED_TRAIT, names.quarantine_trait('CLEANING')},
            self.marks(),
        )
        self.assertTrue(self.clean())
        self.assertEqual({FIRST}, self.cloud.burned())

        provider = self.cloud.providers[f'p{FIRST:X}']
        self.cloud.change(traits=provider.traits - self.marks())
        self.assertTrue(self.clean())
        self.assertEqual(['1', '2', '3', '1'], self.numbers())
        self.assertEqual(set(), self.cloud.burned())

    def test_attempts_before_a_quarantine_and_its_end_do_not_count(self):
        self.assert_kept('attempt 1', lambda _: 'no')
        traits = self.cloud.providers[f'p{FIRST:X}'].traits
        self.cloud.mark(names.QUARANTINED_TRAIT)
        self.cloud.change(traits=traits)
        self.assertTrue(self.clean())
        self.assertEqual(['1', '1'], self.numbers())

    def test_host_without_an_answer_costs_no_attempt(self):
        def be_silent(_):
            self.cloud.is_silent = True

        self.assertRaises(errors.PlacementUnreachable, self.clean, be_silent)
        self.cloud.is_silent = False
        self.clean()
        self.assertEqual(['1', '1'], self.numbers())

    def test_program_that_was_stopped_costs_no_attempt(self):
        stopped = programs.Outcome('the program was stopped', interrupted=True)
        self.assert_kept('stays reserved: the program', lambda _: stopped)
        self.clean()
        self.assertEqual(['1', '1'], self.numbers())

    def test_attempt_counts_if_the_process_is_killed_in_it(self):
        def die(_):
            raise Killed

        self.assertRaises(Killed, self.clean, die)
        self.assertEqual({FIRST}, self.cloud.burned())
        self.clean()
        self.assertEqual(['1', '2'], self.numbers())

    def kill_each_access(self, *args):
        """Kill a pass after each of its accesses; yield before the next."""
        for number in range(1, 50):
            self.cloud = Cloud()
            self.cloud.burn(FIRST)
            self.cloud.left = number
            self.told.clear()
            try:
                self.clean(*args)
            except Killed:
                with self.subTest(number):
                    yield
            else:
                self.assertGreater(number, 5)
                return
        self.fail('the pass has no end')

    def test_device_stays_reserved_wherever_the_process_is_killed(self):
        for _ in self.kill_each_access():
            # Only the write that releases it does so.
            wrote = bool(self.cloud.writes)
            self.assertEqual(set() if wrote else {FIRST}, self.cloud.burned())
            self.assertTrue(self.clean())
            self.assertEqual(set(), self.cloud.burned())

    def test_killed_quarantine_is_completed_by_the_next_pass(self):
        for _ in self.kill_each_access(lambda _: 'no', 1):
            self.assertEqual({FIRST}, self.cloud.burned())
            if not self.marks():
                self.assertFalse(self.clean(lambda _: 'no', 1))
                self.assertEqual({FIRST}, self.cloud.burned())
            # It is not tried again.
            self.assertLessEqual(len(self.told), 1)
            self.assertIn(names.QUARANTINED_TRAIT, self.marks())

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

"""The file's traits: which of them the driver may take away again."""

import unittest

import ddt

from nova_powervm.domain import existing
from nova_powervm.domain import names
from nova_powervm.domain import planned
from nova_powervm.domain import planning
from nova_powervm.domain import traitkeeping
from tests.unit.domain.test_planning import name_of
from tests.unit.domain.values import INDEX
from tests.unit.domain.values import NAME
from tests.unit.domain.values import device
from tests.unit.domain.values import provider

UUID = f'uuid of {NAME}'
DRIVERS = ('OWNER_NOVA', 'CUSTOM_POWERVM_IOSLOT_CLASS_0302')


def kept(*traits):
    return {UUID: frozenset(traits)}


def make_plan(devices, providers, known=None, held=()):
    """Plan for providers that all have the same consumers."""
    return planning.make_plan(
        existing.pair(devices, providers),
        existing.Allocations({p.uuid: held for p in providers}),
        name_of,
        (),
        kept=known or {},
    )


def advance(plan, known=None, made=None, there=(UUID,)):
    return traitkeeping.advance(known or {}, plan.entries, made or {}, there)


@ddt.ddt
class PlanTest(unittest.TestCase):
    """What is taken away."""

    def traits(self, there, known, file=(), **changes):
        """Plan for one provider; give the traits that it ends with."""
        (entry,) = make_plan(
            [device(traits=(*DRIVERS, *file))],
            [provider(traits=(*DRIVERS, *there), **changes)],
            known,
        ).entries
        self.assertLessEqual(set(DRIVERS), entry.traits)
        return entry.traits - set(DRIVERS)

    def test_what_the_driver_set_goes(self):
        self.assertEqual(set(), self.traits(['CUSTOM_A'], kept('CUSTOM_A')))

    def test_what_the_file_still_says_stays(self):
        there = ['CUSTOM_A', 'CUSTOM_B']
        found = self.traits(there, kept(*there), file=['CUSTOM_B'])
        self.assertEqual({'CUSTOM_B'}, found)

    def test_what_others_set_stays(self):
        there = ['CUSTOM_A', 'CUSTOM_B']
        found = self.traits(there, kept('CUSTOM_A'))
        self.assertEqual({'CUSTOM_B'}, found)

    def test_another_provider_has_a_journal_of_its_own(self):
        known = {'uuid of another': frozenset({'CUSTOM_A'})}
        self.assertEqual({'CUSTOM_A'}, self.traits(['CUSTOM_A'], known))

    def test_it_goes_while_the_class_waits(self):
        found = self.traits(
            ['CUSTOM_A'], kept('CUSTOM_A'), classes=['CUSTOM_OLD']
        )
        self.assertEqual(set(), found)

    def test_what_has_rules_of_its_own_is_not_taken_for_the_files(self):
        # Somebody has edited the journal.
        (entry,) = make_plan(
            [device(traits=DRIVERS)],
            [
                provider(
                    reserved=1, traits=(*DRIVERS, names.ONE_TIME_USE_TRAIT)
                )
            ],
            kept(*DRIVERS, names.ONE_TIME_USE_TRAIT),
        ).entries
        self.assertEqual({*DRIVERS, names.ONE_TIME_USE_TRAIT}, entry.traits)

    def test_a_withdrawn_provider_keeps_all(self):
        known = kept('CUSTOM_A')
        there = provider(traits=['CUSTOM_A'])
        plan = make_plan([], [there], known, held=('instance',))
        (entry,) = plan.of(planned.Action.WITHDRAW)
        self.assertEqual({'CUSTOM_A', names.WITHDRAWN_TRAIT}, entry.traits)
        # ... and is not forgotten, as long as it is there.
        self.assertEqual(known, advance(plan, known))

    def test_a_mended_one_loses_what_has_left_the_file_meanwhile(self):
        there = [names.WITHDRAWN_TRAIT, 'CUSTOM_A', 'CUSTOM_BY_HAND']
        found = self.traits(there, kept('CUSTOM_A'), reserved=1)
        self.assertEqual({'CUSTOM_BY_HAND'}, found)

    @ddt.named_data(
        ['lacks it', (), True],
        ['has it', ('CUSTOM_A',), False],
    )
    def test_who_gains_a_trait(self, there, gains):
        pairing = existing.pair(
            [device(traits=(*DRIVERS, 'CUSTOM_A'))], [provider(traits=there)]
        )
        self.assertEqual(gains, bool(pairing.gaining))

    def test_generated_traits_are_no_gain(self):
        pairing = existing.pair(
            [device(traits=(*DRIVERS, names.ONE_TIME_USE_TRAIT))], [provider()]
        )
        self.assertEqual((), pairing.gaining)

    def test_a_plan_that_takes_one_away_is_not_the_last(self):
        there = [provider(traits=(*DRIVERS, 'CUSTOM_A'))]
        devices = [device(traits=DRIVERS)]
        self.assertFalse(make_plan(devices, there, kept('CUSTOM_A')).settled)
        self.assertTrue(make_plan(devices, there).settled)
        # An old value of the driver's own is nothing to remember.
        old = provider(traits=(*DRIVERS, 'CUSTOM_POWERVM_IOSLOT_CLASS_0200'))
        self.assertTrue(make_plan(devices, [old]).settled)


class AdvanceTest(unittest.TestCase):
    """What goes into the journal, and out of it."""

    def after(self, there, known, file=()):
        """Plan for one provider; give what is kept of it."""
        plan = make_plan(
            [device(traits=(*DRIVERS, *file))],
            [provider(traits=(*DRIVERS, *there))],
            known,
        )
        return advance(plan, known)

    def test_what_is_set_goes_in(self):
        self.assertEqual(kept('CUSTOM_A'), self.after([], {}, ['CUSTOM_A']))

    def test_what_was_there_does_not(self):
        self.assertEqual({}, self.after(['CUSTOM_A'], {}, ['CUSTOM_A']))

    def test_what_is_taken_away_stays_until_it_is_gone(self):
        known = kept('CUSTOM_A')
        self.assertEqual(known, self.after(['CUSTOM_A'], known))
        self.assertEqual({}, self.after([], known))

    def test_what_somebody_took_away_is_set_and_kept(self):
        known = kept('CUSTOM_A')
        self.assertEqual(known, self.after([], known, ['CUSTOM_A']))

    def test_a_new_provider(self):
        plan = make_plan([device(traits=(*DRIVERS, 'CUSTOM_A'))], [])
        self.assertEqual(
            {'made': frozenset({'CUSTOM_A'})},
            advance(plan, made={INDEX: 'made'}, there=()),
        )
        # Its name is taken elsewhere in the tree.
        self.assertEqual({}, advance(plan))

    def test_what_has_rules_of_its_own_is_not_kept(self):
        traits = (*DRIVERS, names.ONE_TIME_USE_TRAIT)
        plan = make_plan([device(traits=traits)], [])
        self.assertEqual({}, advance(plan, made={INDEX: 'made'}, there=()))
        withdrawn = make_plan([], [provider()], held=('instance',))
        self.assertEqual({}, advance(withdrawn))

    def test_what_is_gone_is_forgotten(self):
        plan = make_plan([], [])
        self.assertEqual({}, advance(plan, kept('CUSTOM_A'), there=()))

    def test_what_the_plan_says_nothing_about_is_kept(self):
        # Somebody gave it another name; it may get its own back.
        plan = make_plan([], [])
        self.assertEqual(kept('CUSTOM_A'), advance(plan, kept('CUSTOM_A')))

    def test_one_that_is_deleted_is_kept_until_it_is_gone(self):
        plan = make_plan([], [provider(traits=['CUSTOM_A'])])
        self.assertEqual(1, len(plan.of(planned.Action.DELETE)))
        known = kept('CUSTOM_A')
        self.assertEqual(known, advance(plan, known))

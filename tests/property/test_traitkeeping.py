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

"""Whose a trait is, in any order of events.

The core is real; Placement, Nova's cache of it and the journal are small
models, as :mod:`tests.property.machine` has them.
"""

import dataclasses
import unittest

from hypothesis import settings
from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.domain import existing
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import planned
from nova_powervm.domain import planning
from nova_powervm.domain import slots
from nova_powervm.domain import traitkeeping
from tests.property import machine

INDEX = 0x21010020
OWN = frozenset({names.OWNER_TRAIT, 'CUSTOM_POWERVM_IOSLOT_CLASS_0302'})
TRAITS = st.sampled_from(('CUSTOM_A', 'CUSTOM_B'))
_WRITES = st.sampled_from((0, 1, 2, 3, 4, *(3 * [machine.NEVER])))


@dataclasses.dataclass
class Row(machine.Row):
    """A provider of Placement, and what nobody can ask Placement.

    :param by_hand: Traits that an operator has set while the journal did not
        claim them for the driver.
    :param unclear: Those that he has set while it did.
    """

    held: bool = False
    by_hand: frozenset = frozenset()
    unclear: frozenset = frozenset()


class Host(machine.Machine):
    """One slot, its file, and everybody who sets traits."""

    row_type = Row

    def __init__(self):
        super().__init__()
        self.on_disk = {}
        self.lost = False
        self.kept = None
        self.listed = True
        self.file = frozenset()

    # The driver and Nova's part of an update

    def devices(self):
        traits = OWN | self.file
        device = matching.Device(slots.Slot(INDEX), 'CUSTOM_GPU', traits)
        return [device] if self.listed else []

    def plan(self):
        pairing = existing.pair(self.devices(), self.cached())
        if pairing.gaining:
            if self.rows.keys() != self.cache.keys():
                raise machine.ConflictError
            self.read()
            pairing = existing.pair(self.devices(), self.cached())
        if self.kept is None:
            self.kept = self.on_disk
        return planning.make_plan(
            pairing,
            existing.Allocations(
                {
                    p.uuid: ['instance'] if self.rows[p.uuid].held else []
                    for p in pairing.questionable
                    if p.uuid in self.rows
                }
            ),
            lambda index: names.provider_name('host1', index),
            (),
            kept=self.kept,
        )

    def update_once(self):
        plan = self.plan()
        there = set(self.cache)
        made = {}
        for entry in plan.of(planned.Action.CREATE):
            self.count += 1
            made[entry.drc_index] = f'provider-{self.count}'
        self.kept = traitkeeping.advance(self.kept, plan.entries, made, there)
        if self.kept != self.on_disk:
            self.write()
            self.on_disk = self.kept
        for entry in plan.entries:
            self.carry_out(entry, entry.uuid or made[entry.drc_index])

    def carry_out(self, entry, uuid):
        """Send what differs from the cache, as Nova's report client does."""
        if entry.action is planned.Action.DELETE:
            self.remove(uuid, lambda row: row.held)
            return
        if entry.uuid is None:
            self.create(uuid, entry.name)
        self.send(uuid, 'inventory', entry.inventory)
        self.send(uuid, 'traits', entry.traits)

    def update(self):
        """Try as often as Nova does; a killed process knows nothing."""
        for _ in range(4):
            try:
                self.update_once()
            except machine.ConflictError:
                self.read()
            except machine.KilledError:
                self.read()
                self.kept = None
                self.writes_left = machine.NEVER
                return
            else:
                return
        raise AssertionError('an update does not come to an end')

    # What happens

    def row(self):
        return next(
            (
                row
                for row in self.rows.values()
                if names.slot_of_provider(row.name) is not None
            ),
            None,
        )

    @stateful.initialize()
    def first_update(self):
        self.update()

    def cycle(self, writes):
        self.writes_left = writes
        self.update()
        self.writes_left = machine.NEVER

    @stateful.rule(trait=TRAITS, writes=_WRITES)
    def the_file_changes(self, trait, writes):
        self.file ^= {trait}
        self.cycle(writes)

    @stateful.rule(writes=_WRITES)
    def the_paragraph_goes_or_comes(self, writes):
        self.listed = not self.listed
        self.cycle(writes)

    @stateful.rule(restarted=st.booleans(), writes=_WRITES)
    def nova_reads_all(self, restarted, writes):
        self.read()
        if restarted:
            self.kept = None
        self.cycle(writes)

    @stateful.precondition(lambda self: self.row())
    @stateful.rule(trait=TRAITS)
    def an_operator_sets_a_trait(self, trait):
        row = self.row()
        claims = (self.on_disk, self.kept or {})
        if trait not in row.traits:
            if any(trait in known.get(row.uuid, ()) for known in claims):
                row.unclear |= {trait}
            else:
                row.by_hand |= {trait}
        row.traits |= {trait}
        row.generation += 1

    @stateful.precondition(lambda self: self.row())
    @stateful.rule(trait=TRAITS)
    def an_operator_removes_a_trait(self, trait):
        row = self.row()
        for field in ('traits', 'by_hand', 'unclear'):
            setattr(row, field, getattr(row, field) - {trait})
        row.generation += 1

    @stateful.precondition(lambda self: self.rows)
    @stateful.rule(
        mishap=st.sampled_from(
            ('deleted', 'allocated', 'allocated', 'renamed', 'journal lost')
        )
    )
    def something_else_happens(self, mishap):
        row = self.row() or next(iter(self.rows.values()))
        row.generation += 1
        if mishap == 'deleted' and not row.held:
            del self.rows[row.uuid]
        elif mishap == 'allocated':
            row.held = not row.held and self.listed
        elif mishap == 'renamed':
            ours = names.provider_name('host1', INDEX)
            row.name = 'kept aside' if row.name == ours else ours
        elif mishap == 'journal lost':
            self.on_disk = {}
            self.kept = None
            self.lost = True

    # What holds

    @stateful.invariant()
    def what_is_set_by_hand_stays(self):
        for row in self.rows.values():
            assert row.by_hand <= row.traits, row

    @stateful.rule()
    def come_to_rest(self):
        """Let the driver do its work; then each trait has its reason."""
        self.read()
        self.update()
        self.update()
        row = self.row()
        if row is not None and self.listed:
            assert row.traits >= OWN | self.file
            if not self.lost:
                reasons = OWN | self.file | row.by_hand | row.unclear
                assert row.traits <= reasons, row
            journalled = self.on_disk.get(row.uuid, frozenset())
            assert journalled <= self.file - row.by_hand
        self.and_nothing_is_left_to_write()

    def and_nothing_is_left_to_write(self):
        journalled = self.on_disk
        generations = {u: r.generation for u, r in self.rows.items()}
        self.update()
        assert self.on_disk is journalled
        assert generations == {u: r.generation for u, r in self.rows.items()}


class TraitTest(unittest.TestCase):
    def test_whose_a_trait_is(self):
        stateful.run_state_machine_as_test(
            Host,
            settings=settings(
                max_examples=200, stateful_step_count=30, deadline=None
            ),
        )

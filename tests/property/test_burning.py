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

"""No order of events makes a used device available again.

The core is real; Placement, Nova's cache of it and the journal are small
models, as :mod:`tests.property.machine` has them.
"""

import dataclasses
import unittest

from hypothesis import settings
from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.domain import burning
from nova_powervm.domain import existing
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import planned
from nova_powervm.domain import planning
from nova_powervm.domain import slots
from tests.property import machine

SLOTS = (0x21010020, 0x21010021)
GPU = 'CUSTOM_GPU'


@dataclasses.dataclass
class Row(machine.Row):
    """A provider of Placement.

    :param holder: Consumer of its one unit.
    """

    holder: str | None = None

    @property
    def reserved(self):
        return any(r['reserved'] for r in self.inventory.values())

    @property
    def has_room(self):
        return bool(self.inventory) and not self.reserved and not self.holder


class Host(machine.Machine):
    """One host with two slots, and everybody who acts on it."""

    row_type = Row

    def __init__(self):
        super().__init__()
        self.journal = frozenset()
        self.present = set(SLOTS)
        self.listed = set(SLOTS)
        self.flagged = set(SLOTS)
        # Used since the last release, while for one use.
        self.used = set()
        # Allocated since then, or released by nobody: may well be burned.
        self.touched = set()
        self.running = {}

    # The driver and Nova's part of an update

    def devices(self):
        return [
            matching.Device(
                slots.Slot(index),
                GPU,
                frozenset(
                    {names.ONE_TIME_USE_TRAIT} if index in self.flagged else ()
                ),
                index in self.flagged,
            )
            for index in sorted(self.present & self.listed)
        ]

    def plan(self):
        pairing = existing.pair(self.devices(), self.cached())
        if pairing.one_time_use:
            if self.rows.keys() != self.cache.keys():
                raise machine.ConflictError
            self.read(
                p.uuid
                for p in pairing.one_time_use
                if self.cache[p.uuid].generation
                != self.rows[p.uuid].generation
            )
            pairing = existing.pair(self.devices(), self.cached())
        burns = burning.Burns(
            frozenset(
                p.uuid
                for p in pairing.burnable
                if p.inventory and not self.rows[p.uuid].has_room
            ),
            self.journal,
        )
        asked = [p for p in pairing.questionable if p.uuid in self.rows]
        plan = planning.make_plan(
            pairing,
            existing.Allocations(
                {
                    p.uuid: list(filter(None, [self.rows[p.uuid].holder]))
                    for p in asked
                },
                [p.uuid for p in asked if self.rows[p.uuid].reserved],
            ),
            lambda index: names.provider_name('host1', index),
            [],
            burns,
        )
        after = burning.advance(self.journal, plan.burned, plan.released)
        if after != self.journal:
            self.write()
            self.journal = after
        return plan

    def carry_out(self, plan):
        """Send what differs from the cache, as Nova's report client does."""
        for entry in plan.entries:
            if entry.action is planned.Action.DELETE:
                self.remove(entry.uuid, lambda row: row.holder)
                continue
            uuid = entry.uuid or self.make(entry.name)
            for field in ('inventory', 'traits'):
                self.send(uuid, field, getattr(entry, field))

    def make(self, name):
        self.count += 1
        uuid = f'provider-{self.count}'
        self.create(uuid, name)
        return uuid

    def update(self):
        """Update as Nova does: again after a conflict; say if it worked."""
        for _ in range(3):
            try:
                self.carry_out(self.plan())
            except machine.ConflictError:
                self.read()
            except machine.KilledError:
                # The next process begins without a cache.
                self.read()
                self.writes_left = machine.NEVER
                return False
            else:
                self.still_used()
                return True
        raise AssertionError('an update does not come to an end')

    def still_used(self):
        for instance, index in self.running.items():
            if self.row_held_by(instance) and index in self.flagged & set(
                self.present & self.listed
            ):
                self.used.add(index)

    # What happens

    def row_of(self, index):
        return next(
            (
                row
                for row in self.rows.values()
                if names.slot_of_provider(row.name) == index
            ),
            None,
        )

    def row_held_by(self, consumer):
        return next(
            (r for r in self.rows.values() if r.holder == consumer), None
        )

    @stateful.initialize()
    def first_update(self):
        self.update()

    @stateful.rule(index=st.sampled_from(SLOTS), writes=st.integers(0, 8))
    def boot(self, index, writes):
        row = self.row_of(index)
        if row is None or not row.has_room:
            return
        self.count += 1
        instance = f'instance-{self.count}'
        row.holder = instance
        row.generation += 1
        self.touched.add(index)
        self.writes_left = writes
        if not self.update() or index not in self.present:
            # It is not spawned; Nova takes the allocation away again.
            self.free(row)
            return
        self.writes_left = machine.NEVER
        row = self.row_of(index)
        once = names.ONE_TIME_USE_TRAIT in row.traits
        assert row.holder == instance
        assert row.reserved or not once
        self.running[instance] = index
        if once:
            self.used.add(index)

    @stateful.precondition(lambda self: self.running)
    @stateful.rule(data=st.data())
    def delete(self, data):
        instance = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[instance]
        self.free(self.row_held_by(instance))

    def free(self, row):
        row.holder = None
        row.generation += 1

    @stateful.rule(writes=st.integers(0, 8) | st.just(machine.NEVER))
    def cycle(self, writes):
        self.writes_left = writes
        self.update()
        self.writes_left = machine.NEVER

    @stateful.rule()
    def read_all(self):
        self.read()

    @stateful.rule(index=st.sampled_from(SLOTS))
    def release(self, index):
        row = self.row_of(index)
        if row is None or not row.reserved:
            return
        row.inventory = {
            name: record | {'reserved': 0}
            for name, record in row.inventory.items()
        }
        row.generation += 1
        self.used.discard(index)
        if not row.holder:
            self.touched.discard(index)

    @stateful.rule(index=st.sampled_from(SLOTS))
    def delete_provider(self, index):
        row = self.row_of(index)
        if row is not None and row.holder is None:
            del self.rows[row.uuid]

    @stateful.rule(
        index=st.sampled_from(SLOTS),
        what=st.sampled_from(('present', 'listed', 'flagged')),
    )
    def gone_or_back(self, index, what):
        getattr(self, what).symmetric_difference_update({index})

    # What holds

    @stateful.invariant()
    def no_used_device_is_available(self):
        for index in self.used:
            row = self.row_of(index)
            assert row is None or not row.has_room, slots.format_drc_index(
                index
            )

    @stateful.invariant()
    def what_was_never_allocated_is_not_burned(self):
        # A release that no update has seen yet is not in the journal.
        for index in set(SLOTS) - self.touched - self.journal:
            row = self.row_of(index)
            assert row is None or not row.reserved


class BurnTest(unittest.TestCase):
    def test_no_used_device_is_available(self):
        stateful.run_state_machine_as_test(
            Host,
            settings=settings(
                max_examples=80, stateful_step_count=30, deadline=None
            ),
        )

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

"""What a plan makes of slots while an instance moves.

The LPAR of the source keeps its slots, off, until the move is confirmed;
Placement has allocated them to the migration.
"""

import dataclasses
import unittest

from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from tests.unit.devices import values

ONCE = 'HW_PCI_ONE_TIME_USE'
NEW_INDEX = 0x21010021
OLD = values.provider(traits=[ONCE])
NEW = values.provider(values.name_of(NEW_INDEX), traits=[ONCE])


class MovingInstanceTest(unittest.TestCase):
    """One host with the slots of both sides of a resize."""

    def plan(self, old_owner, new_owner, held=(OLD, NEW)):
        """Return the entries of the old and the new slot's providers."""
        once = dataclasses.replace(values.paragraph(), one_time_use=True)
        facts = plan.Facts(
            policy.Policy((once,), source='inventory.yaml'),
            (
                values.slot(owner=old_owner),
                values.slot(drc_index=NEW_INDEX, owner=new_owner),
            ),
            holdings={values.LPAR: [provider.uuid for provider in held]},
            descendants=(OLD, NEW),
        )
        made = plan.make_plan(
            plan.assess(facts),
            slot_providers.Allocations(
                {OLD.uuid: {'migration': {}}, NEW.uuid: {'instance': {}}}
            ),
            values.name_of,
        )
        entries = {entry.drc_index: entry for entry in made.entries}
        return entries[values.INDEX], entries[NEW_INDEX]

    def test_device_that_a_move_only_claimed_is_not_burned(self):
        old, new = self.plan(values.client(), None)

        self.assertTrue(old.burned)
        self.assertFalse(new.burned)

    def test_slots_of_both_sides_stay_offered(self):
        for owners in (
            (values.client(), None),
            (None, values.client()),
            (values.client(), values.client()),
        ):
            with self.subTest(owners=owners):
                for entry in self.plan(*owners):
                    self.assertIs(plan.Action.PUBLISH, entry.action)
                    self.assertEqual('', entry.reason)

    def test_slot_that_a_failed_move_left_is_withdrawn(self):
        # The migration is over, so its slots are held no more.
        old, new = self.plan(values.client(), values.client(), held=[NEW])

        self.assertIs(plan.Action.WITHDRAW, old.action)
        self.assertIs(plan.Action.PUBLISH, new.action)

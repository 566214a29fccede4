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

"""What instances hold, and whether it is still allocated to them."""

import unittest

from nova_powervm import exception
from nova_powervm.devices import host
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import lost_allocations
from tests.unit.devices import values


class Placement:
    """Placement with some providers, in memory."""

    def __init__(self):
        self.room = set()
        self.silent = False
        self.asked = 0

    def with_room(self, member, classes):
        self.asked += 1
        if self.silent:
            raise exception.PlacementUnanswered(request='GET', reason='503')
        return {name: self.room for name in classes}


PROVIDER = values.provider()
HELD = {values.LPAR: frozenset({PROVIDER.uuid, 'another'})}
LOST = {values.LPAR: frozenset({'another'})}


class HoldingTest(unittest.TestCase):
    def setUp(self):
        self.placement = Placement()
        self.ops = lost_allocations.HoldingOps(self.placement)

    def verified(self, reading, owner=True, provider=PROVIDER, begun=None):
        slot = values.slot(owner=values.client() if owner else None)
        snapshot = host_ops.Snapshot(
            view=values.view(io_slots=(slot,)),
            disk=host.DiskCapacity(0, 0),
            instance_lpars=frozenset(HELD),
            holdings=HELD,
        )
        return self.ops.verified(
            snapshot,
            [provider],
            reading,
            # What begins while Placement is asked counts.
            lambda: (begun or reading) if self.placement.asked else 0,
        )

    def test_what_is_allocated_has_no_room(self):
        version = self.ops.version

        self.assertEqual(HELD, self.verified(1))
        self.assertIs(version, self.ops.version)

    def test_what_has_room_is_lost_in_the_next_reading(self):
        self.placement.room = {PROVIDER.uuid}
        version = self.ops.version

        self.assertEqual(HELD, self.verified(1))
        self.assertEqual(HELD, self.verified(1))
        # The next update has to ask again.
        self.assertIsNot(version, self.ops.version)
        version = self.ops.version
        self.assertEqual(LOST, self.verified(2))
        self.assertEqual(LOST, self.verified(2))
        self.assertIs(version, self.ops.version)

    def test_a_reading_that_was_under_way_proves_nothing(self):
        self.placement.room = {PROVIDER.uuid}
        self.verified(1, begun=2)

        # It may have seen the LPAR just before it was deleted.
        self.assertEqual(HELD, self.verified(2))
        self.assertEqual(LOST, self.verified(3))

    def test_an_instance_that_was_just_deleted_is_not(self):
        self.placement.room = {PROVIDER.uuid}
        self.verified(1)

        self.assertEqual(HELD, self.verified(2, owner=False))
        self.assertEqual(HELD, self.verified(3))

    def test_what_is_allocated_again_is_not(self):
        self.placement.room = {PROVIDER.uuid}
        self.verified(1)
        self.placement.room = set()
        self.assertEqual(HELD, self.verified(2))
        self.placement.room = {PROVIDER.uuid}
        self.assertEqual(HELD, self.verified(3))

    def test_nobody_is_asked_about_free_and_reserved_ones(self):
        self.verified(1, owner=False)
        self.verified(2, provider=values.provider(reserved=1))

        self.assertEqual(0, self.placement.asked)

    def test_no_answer_changes_nothing_and_is_asked_for_again(self):
        self.placement.room = {PROVIDER.uuid}
        self.placement.silent = True
        version = self.ops.version
        with self.assertLogs(lost_allocations.LOG.logger, 'WARNING'):
            self.assertEqual(HELD, self.verified(1))
        self.assertIsNot(version, self.ops.version)

        self.placement.silent = False
        self.verified(2)
        self.assertEqual(LOST, self.verified(3))
        self.placement.silent = True
        self.assertEqual(LOST, self.verified(4))

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
from nova_powervm.domain import host
from nova_powervm.ops import holding
from nova_powervm.ops import host as host_ops
from tests.unit.domain import values


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
        self.ops = holding.HoldingOps(self.placement)

    def verified(self, reading, owner=True, provider=PROVIDER):
        slot = values.slot(owner=values.client() if owner else None)
        snapshot = host_ops.Snapshot(
            view=values.view(io_slots=(slot,)),
            disk=host.DiskCapacity(0, 0),
            instance_lpars=frozenset(HELD),
            holdings=HELD,
        )
        return self.ops.verified(snapshot, [provider], reading)

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
        with self.assertLogs(holding.LOG.logger, 'WARNING'):
            self.assertEqual(HELD, self.verified(1))
        self.assertIsNot(version, self.ops.version)

        self.placement.silent = False
        self.verified(2)
        self.assertEqual(LOST, self.verified(3))
        self.placement.silent = True
        self.assertEqual(LOST, self.verified(4))

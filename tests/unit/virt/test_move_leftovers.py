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

"""Which allocations of moves that are over are given back, and which go."""

import types
import unittest
from unittest import mock

import ddt

from nova_powervm.virt import move_allocations
from nova_powervm.virt import move_leftovers

HERE, THERE, OLD, NEW = 'this root', 'other root', 'old slot', 'new slot'


class Allocations:
    """Placement's allocations of an instance and of its migration."""

    def __init__(self, own, held):
        self.allocations = {'instance': own, 'migration': held}
        self.done = None

    def of(self, context, consumer):
        return dict.fromkeys(self.allocations[consumer])

    def give_back(self, context, migration, instance):
        self.done = 'given back'

    def delete(self, context, migration):
        self.done = 'deleted'


def resources(*providers):
    return [types.SimpleNamespace(provider_uuid=uuid) for uuid in providers]


def migration(status='error', destination='host1'):
    return types.SimpleNamespace(
        uuid='migration',
        instance_uuid='instance',
        status=status,
        source_compute='host1',
        dest_compute=destination,
        old_instance_type_id=1,
    )


def instance(*slots, flavor=1, context=None, **changes):
    return types.SimpleNamespace(
        **{
            'uuid': 'instance',
            'host': 'host1',
            'task_state': None,
            'vm_state': 'active',
            'instance_type_id': flavor,
            'resources': resources(*slots),
            'migration_context': context
            and types.SimpleNamespace(
                old_resources=resources(*context[0]),
                new_resources=resources(*context[1]),
            ),
        }
        | changes
    )


EXCHANGED = ((OLD,), (NEW,))


@ddt.ddt
class FreeAllocationsTest(unittest.TestCase):
    def free(self, own, held, move, found):
        """Return what becomes of what a migration holds.

        :param found: The instance, or a function that reads it.
        """
        allocations = Allocations(own, held)
        with mock.patch.object(
            move_allocations, 'MoveAllocations', lambda _: allocations
        ):
            leftovers = move_leftovers.MoveLeftovers(None, 'host1')
        leftovers.clear(move, found if callable(found) else lambda: found)
        return allocations.done

    @ddt.data(
        # The revert failed before it had given the new slot up, or after.
        (instance(NEW, flavor=2, context=EXCHANGED), 'deleted'),
        (instance(OLD, flavor=1, context=EXCHANGED), 'given back'),
        # Nova has given the old flavor back, but not what is allocated.
        (instance(NEW, flavor=1, context=EXCHANGED), 'deleted'),
        # The resize was refused, and the driver has dropped the context.
        (instance(OLD, flavor=1), 'given back'),
    )
    @ddt.unpack
    def test_slots_decide_in_place(self, found, expected):
        self.assertEqual(
            expected, self.free({HERE, NEW}, {HERE, OLD}, migration(), found)
        )

    @ddt.data((1, 'given back'), (2, 'deleted'))
    @ddt.unpack
    def test_flavor_decides_in_place_without_slots(self, flavor, expected):
        for own in ({HERE}, {HERE, NEW}):
            with self.subTest(own=own):
                self.assertEqual(
                    expected,
                    self.free(
                        own, {HERE}, migration(), instance(flavor=flavor)
                    ),
                )

    @ddt.data(instance(OLD), instance(flavor=2))
    def test_source_gets_back_what_its_instance_lacks(self, found):
        self.assertEqual(
            'given back',
            self.free(
                {THERE},
                {HERE, OLD},
                migration(destination='host2'),
                found,
            ),
        )

    def test_instance_elsewhere_or_deleted_gets_nothing_back(self):
        for found in (None, instance(NEW, host='host2')):
            with self.subTest(found=found):
                self.assertEqual(
                    'deleted',
                    self.free(
                        {THERE, NEW},
                        {HERE, OLD},
                        migration(destination='host2'),
                        found,
                    ),
                )

    def test_confirmed_move_is_never_given_back(self):
        found = instance(OLD, task_state='resize_prep')
        self.assertEqual(
            'deleted',
            self.free(
                {THERE},
                {HERE},
                migration('confirmed', destination='host2'),
                found,
            ),
        )

    @ddt.data({'task_state': 'resize_prep'}, {'vm_state': 'resized'})
    def test_instance_that_moves_keeps_both(self, changes):
        self.assertIsNone(
            self.free({HERE}, {HERE}, migration(), instance(**changes))
        )

    def test_instance_of_confirmed_move_that_holds_nothing_is_not_read(self):
        self.assertIsNone(
            self.free({HERE}, set(), migration('confirmed'), self.fail)
        )

    def test_move_that_holds_nothing_changes_nothing(self):
        self.assertIsNone(self.free({HERE}, set(), migration(), instance()))

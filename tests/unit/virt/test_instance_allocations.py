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

"""Whose allocations decide after a move that did not end well."""

import types
import unittest
from unittest import mock

import ddt
from nova import objects

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import spec
from nova_powervm.ops import claiming
from nova_powervm.virt import instance_allocations
from tests.unit.devices import values

objects.register_all()

NODE = types.SimpleNamespace(name='host1', uuid='node')
INSTANCE = types.SimpleNamespace(
    uuid='instance', instance_type_id=1, resources=None, migration_context=None
)


def move(number, status, source='host1', dest='host1', flavor=1):
    return types.SimpleNamespace(
        id=number,
        uuid=f'move {number}',
        status=status,
        source_compute=source,
        dest_compute=dest,
        old_instance_type_id=flavor,
    )


class Placement:
    """Has allocated what a test says; slots are named by numbers."""

    def __init__(self, **consumers):
        self._consumers = {
            name.replace('_', ' '): held for name, held in consumers.items()
        }

    def allocated_to(self, consumer):
        return {
            name: {'resources': {'CUSTOM_GPU': 1}}
            for name in self._consumers.get(consumer, ())
        }


@ddt.ddt
class FindTest(unittest.TestCase):
    """The provider ``a`` is of slot 1, and so on; ``x`` is elsewhere."""

    def find(self, placement, *moves, is_complete=True):
        ops = claiming.ClaimOps(None)
        ops.published = claiming.PublishedSlots(
            is_complete=is_complete,
            providers={
                name: claims.SlotProvider(name, index, frozenset())
                for index, name in enumerate('abc', values.INDEX)
            },
        )
        self.enterContext(
            mock.patch.object(
                objects.MigrationList,
                'get_by_filters',
                lambda *_: [*moves],
            )
        )
        return instance_allocations.InstanceAllocations(
            None, placement, ops, NODE
        ).find(INSTANCE)

    @ddt.data(
        # The allocations of a resize in place that was interrupted.
        ([move(1, 'error')], 'move 1'),
        # Nova calls it reverted before it gives them back.
        ([move(1, 'reverted')], 'move 1'),
        ([move(1, 'error'), move(2, 'error', dest='host2')], 'move 1'),
        # It is over: it has succeeded, or a later one has.
        ([move(1, 'error'), move(2, 'confirmed')], None),
        # It began with another flavor, or on another host.
        ([move(1, 'finished', flavor=2)], None),
        ([move(1, 'finished', source='host2')], None),
        ([move(1, 'error'), move(2, 'error', flavor=2)], None),
        # No host was found for the later one.
        ([move(1, 'error'), move(2, 'confirmed', dest=None)], 'move 1'),
    )
    @ddt.unpack
    def test_move_holds_what_the_server_had_before(self, moves, expected):
        held = self.find(Placement(instance='ab', move_1='a'), *moves)
        if expected:
            self.assertEqual(expected, held.migration.uuid)
            self.assertEqual({'a'}, set(held.by_provider))
            self.assertEqual({values.INDEX + 1: expected}, held.moved_slots)
        else:
            self.assertIsNone(held.migration)
            self.assertEqual({'a', 'b'}, set(held.by_provider))

    def test_server_with_nothing_here_has_what_its_newest_move_holds(self):
        moves = [move(number, 'error', dest='host2') for number in (1, 2, 3)]
        placement = Placement(instance='x', move_1='a', move_2='b')
        self.assertEqual({'b'}, set(self.find(placement, *moves).by_provider))

    def test_slot_that_is_not_published_yet_is_waited_for(self):
        placement = Placement(instance=(NODE.uuid, 'x'))
        with self.assertRaisesRegex(exception.ClaimFailed, 'in a minute'):
            self.find(placement, is_complete=False)
        self.assertEqual({NODE.uuid}, set(self.find(placement).by_provider))

    def test_server_on_the_wrong_host_is_refused(self):
        with self.assertRaisesRegex(exception.ClaimFailed, 'on another one'):
            self.find(Placement(instance='x'), move(1, 'error', dest='host2'))

    @ddt.data(
        ([], False),
        ([move(1, 'confirmed', 'host2')], False),
        ([move(1, 'reverted', dest='host2')], False),
        ([move(1, 'confirmed', dest='host2')], True),
        ([move(1, 'error')], True),
    )
    @ddt.unpack
    def test_last_move_has_failed_unless_it_ended_here(self, moves, expected):
        held = self.find(Placement(instance='a'), *moves)
        self.assertIs(expected, held.has_failed)

    @mock.patch('nova_powervm.virt.record_changes.record_resources')
    def test_slots_that_came_home_are_recorded(self, record):
        held = self.find(Placement(instance='a'))
        claim = mock.Mock(
            provider_uuid='a', drc_index=1, source=claims.Source.COMPUTE
        )
        for slots, expected in (([], 0), ([spec.WantedSlot(claim)], 1)):
            instance_allocations.InstanceAllocations(
                None, None, None, NODE
            ).bring_home(INSTANCE, held, slots)
            self.assertEqual(expected, record.call_count)
        self.assertIs(INSTANCE, record.call_args.args[0])

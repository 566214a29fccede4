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

"""Moves of servers: what they hold, and what waits for a confirmation."""

import dataclasses
import datetime
import unittest

from nova_powervm.devices import claims
from nova_powervm.devices import slot_providers
from nova_powervm.lpar import partition
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import unconfirmed_moves
from tests.unit.devices import values
from tests.unit.tool.rules import test_differences as trees

INSTANCE = partition.instance_uuids(values.LPAR)[1]
MIGRATION = 'c9a7a3c4-0000-4000-8000-000000000003'
OWNER = ('project', 'user')
OWNED = values.slot(owner=values.client(name='instance-00000001'))


class MovesTest(unittest.TestCase):
    """The instance is on another node, and its LPAR owns a slot here."""

    def setUp(self):
        self.asked = []
        self.consumers = {
            uuid: placement_tree.Consumer(uuid, OWNER, frozenset({provider}))
            for uuid, provider in ((INSTANCE, 'there'), (MIGRATION, 'here'))
        }

    def read(self, uuid):
        self.asked.append(uuid)
        return self.consumers.get(uuid)

    def tree(self, *consumers, slots=(OWNED,)):
        """Return what Placement holds, with the moves."""
        held = {consumer: {'CUSTOM_GPU': 1} for consumer in consumers}
        tree = placement_tree.Tree(
            'host1', trees.ROOT, (trees.offered(consumers=held),)
        )
        found = placement_tree.find_moves(
            tree, slots, self.read, {'there': 'host2'}.__getitem__
        )
        return dataclasses.replace(tree, moves=found)

    def differences(self, tree, slots=(OWNED,)):
        plan = trees.plan_for(tree, slots)
        return differences.compare(plan, tree, slots, [values.LPAR])

    def test_slot_of_a_migration_is_held_by_the_lpar_that_moves(self):
        tree = self.tree(MIGRATION)

        self.assertEqual({MIGRATION: values.LPAR}, tree.moves.migrations)
        self.assertEqual({}, tree.moves.stale_lpars)
        self.assertEqual({values.LPAR: {tree.below[0].uuid}}, tree.holdings)
        self.assertEqual(claims.Source.COMPUTE, tree.source(OWNED))
        self.assertEqual((), self.differences(tree))

    def test_lpar_without_a_migration_is_stale_lpars(self):
        tree = self.tree()

        self.assertEqual(
            {values.LPAR: slot_providers.StaleLpar(INSTANCE, 'host2')},
            tree.moves.stale_lpars,
        )
        (_, leaked) = self.differences(tree)
        self.assertEqual(differences.Kind.LEAKED, leaked.kind)
        self.assertIn(f'instance {INSTANCE} is on host2', leaked.words)

    def test_slot_allocated_to_somebody_else_is_of_no_migration(self):
        for changes in ({'owner': ('project', 'another')}, None):
            self.consumers[MIGRATION] = changes and dataclasses.replace(
                self.consumers[MIGRATION], **changes
            )
            self.assertEqual({}, self.tree(MIGRATION).moves.migrations)

    def test_resize_in_place_has_both_slots(self):
        old, new = (
            values.slot(owner=OWNED.owner),
            values.slot(drc_index=0x21010021, owner=OWNED.owner),
        )
        tree = placement_tree.Tree(
            'host1',
            trees.ROOT,
            (
                trees.offered(consumers=trees.held(MIGRATION)),
                trees.offered(0x21010021, consumers=trees.held(INSTANCE)),
            ),
        )
        found = placement_tree.find_moves(tree, (old, new), self.read, str)
        tree = dataclasses.replace(tree, moves=found)

        self.assertEqual({values.LPAR: INSTANCE}, tree.instance_lpars)
        self.assertEqual({}, tree.moves.stale_lpars)
        self.assertEqual(
            {provider.uuid for provider in tree.below},
            tree.holdings[values.LPAR],
        )

    def test_partition_that_is_no_instance_is_foreign(self):
        self.consumers = {}
        tree = self.tree()

        self.assertEqual(placement_tree.Moves(), tree.moves)
        self.assertEqual({}, tree.holdings)

    def test_placement_is_not_asked_about_instances_with_their_slots(self):
        self.tree(INSTANCE)
        self.tree(slots=[values.slot()])
        self.assertEqual([], self.asked)


NOW = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
WAITS, ACTIVE = ('VERIFY_RESIZE', None), ('ACTIVE', None)


class DescribeTest(unittest.TestCase):
    def describe(self, **servers):
        """Say it of servers, given by age of their move, status and task."""
        return [
            *unconfirmed_moves.describe_windows(
                [
                    unconfirmed_moves.FinishedMove(
                        f'move-of-{uuid}',
                        uuid,
                        NOW - datetime.timedelta(seconds=age),
                    )
                    for uuid, (age, _) in servers.items()
                ],
                {
                    uuid: state and left_moves.Server(*state, 'host1')
                    for uuid, (_, state) in servers.items()
                },
                NOW,
            )
        ]

    def test_window_is_the_age_of_the_move_that_waits_in_vain(self):
        first, second = self.describe(stuck=(3600.9, ACTIVE))
        self.assertRegex(
            first,
            'move-of-stuck of server stuck .*resize_confirm_window = 3600,',
        )
        self.assertEqual('This also confirms: no other server', second)

    def test_servers_that_wait_as_long_are_named(self):
        delay = unconfirmed_moves.DELAY.total_seconds()
        lines = self.describe(
            stuck=(3600, ACTIVE),
            older=(7200, WAITS),
            # It is as old when nova-compute looks.
            younger=(3600 - delay, WAITS),
            young=(3600 - delay - 1, WAITS),
        )
        self.assertEqual('This also confirms: older, younger', lines[1])

    def test_other_finished_moves_are_left_alone(self):
        for state in (WAITS, ('RESIZE', 'resize_finish'), None):
            (line,) = self.describe(one=(3600, state))
            self.assertIn('has a server that waits', line)

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

"""Which moves count as interrupted, and what is done about them."""

import itertools
import unittest

import ddt

from nova_powervm.lpar import interrupted_move
from nova_powervm.lpar.interrupted_move import Remedy
from nova_powervm.lpar.interrupted_move import Side

SOURCE, DESTINATION = Side
STATUSES = (
    'accepted',
    'pre-migrating',
    'migrating',
    'post-migrating',
    'finished',
    'confirming',
    'confirmed',
    'reverting',
    'reverted',
    'error',
)
TASKS = (
    None,
    'resize_prep',
    'resize_migrating',
    'resize_migrated',
    'resize_finish',
    'resize_reverting',
    'deleting',
    'rebooting_hard',
)


def remedy(rows, status, task, ours, places, awaits_decision=True):
    """Return the remedy, if any."""
    found = interrupted_move.find_remedy(
        interrupted_move.Situation(
            status,
            task,
            awaits_decision,
            frozenset(ours),
            frozenset(places),
        ),
        rows,
    )
    return found and found.remedy


@ddt.ddt
class InterruptedMoveTest(unittest.TestCase):
    @ddt.data(
        # The source, killed in resize_instance; Nova may clear the task.
        ('migrating', 'resize_migrating', SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('migrating', 'resize_prep', SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('migrating', None, SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('post-migrating', None, SOURCE, SOURCE, Remedy.TAKE_BACK),
        # The destination, killed in finish_resize.
        (
            'post-migrating',
            'resize_finish',
            DESTINATION,
            DESTINATION,
            Remedy.FAIL,
        ),
        ('error', 'resize_finish', DESTINATION, DESTINATION, Remedy.FAIL),
        (
            'finished',
            'resize_finish',
            DESTINATION,
            DESTINATION,
            Remedy.AWAIT_DECISION,
        ),
        # The source, killed in confirm_resize or finish_revert_resize.
        ('confirmed', None, SOURCE, DESTINATION, Remedy.CONFIRM),
        ('confirmed', 'deleting', SOURCE, DESTINATION, Remedy.CONFIRM),
        ('reverted', 'resize_reverting', SOURCE, SOURCE, Remedy.FAIL_REVERT),
    )
    @ddt.unpack
    def test_step_that_was_killed_is_resolved_by_its_side(
        self, status, task, actor, place, expected
    ):
        self.assert_only(
            interrupted_move.STARTED, status, task, actor, place, expected
        )

    @ddt.data(
        ('accepted', 'resize_prep', SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('pre-migrating', 'resize_prep', SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('pre-migrating', None, SOURCE, SOURCE, Remedy.TAKE_BACK),
        ('error', 'resize_migrating', SOURCE, SOURCE, Remedy.FAIL_AT_SOURCE),
        (
            'post-migrating',
            'resize_migrated',
            DESTINATION,
            DESTINATION,
            Remedy.FAIL_UNFINISHED,
        ),
        ('confirming', None, SOURCE, DESTINATION, Remedy.REPEAT_CONFIRM),
        (
            'confirming',
            'soft-deleting',
            SOURCE,
            DESTINATION,
            Remedy.REPEAT_CONFIRM,
        ),
        ('finished', 'deleting', SOURCE, DESTINATION, Remedy.REPEAT_CONFIRM),
        (
            'reverting',
            'resize_reverting',
            DESTINATION,
            DESTINATION,
            Remedy.REPEAT_REVERT,
        ),
        (
            'reverted',
            'resize_reverting',
            SOURCE,
            DESTINATION,
            Remedy.FINISH_REVERT,
        ),
    )
    @ddt.unpack
    def test_step_that_nobody_begins_is_given_up_by_its_side(
        self, status, task, actor, place, expected
    ):
        self.assert_only(
            interrupted_move.AWAITED, status, task, actor, place, expected
        )

    def assert_only(self, rows, status, task, actor, place, expected):
        """Assert a remedy of one side, and none of the other."""
        for side, where in itertools.product(Side, Side):
            with self.subTest(side=side, where=where):
                self.assertEqual(
                    expected if (side, where) == (actor, place) else None,
                    remedy(rows, status, task, {side}, {where}),
                )
        self.assertEqual(
            expected, remedy(rows, status, task, Side, {place}), 'in place'
        )

    def test_situation_has_at_most_one_remedy(self):
        rows = interrupted_move.STARTED + interrupted_move.AWAITED
        for status, task, place in itertools.product(STATUSES, TASKS, Side):
            for places in ({place}, set(Side)):
                found = interrupted_move.Situation(
                    status, task, True, frozenset(Side), frozenset(places)
                )
                if len(places) > 1 and status == 'reverted':
                    # A resize in place: its flavor tells the side.
                    continue
                with self.subTest(status=status, task=task, places=places):
                    self.assertLessEqual(sum(r.fits(found) for r in rows), 1)

    def test_unrelated_tasks_are_left_alone(self):
        rows = interrupted_move.STARTED + interrupted_move.AWAITED
        for status in STATUSES:
            with self.subTest(status=status):
                self.assertIsNone(
                    remedy(rows, status, 'rebooting_hard', Side, Side)
                )

    def test_deletion_without_a_confirmation_is_left_alone(self):
        rows = interrupted_move.STARTED + interrupted_move.AWAITED
        for status, awaits in itertools.product(STATUSES, (True, False)):
            if awaits and status in {'finished', 'confirming', 'confirmed'}:
                continue
            with self.subTest(status=status, awaits=awaits):
                self.assertIsNone(
                    remedy(rows, status, 'deleting', Side, Side, awaits)
                )

    def test_server_that_waits_for_its_user_is_left_alone(self):
        rows = interrupted_move.STARTED + interrupted_move.AWAITED
        self.assertIsNone(remedy(rows, 'finished', None, Side, Side))

    def test_confirmed_server_is_left_alone(self):
        rows = interrupted_move.STARTED + interrupted_move.AWAITED
        for place in Side:
            self.assertIsNone(
                remedy(rows, 'confirmed', None, Side, {place}, False)
            )

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


"""When a move counts as interrupted, by Nova's records."""

import datetime
from unittest import mock

import ddt
import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import test
from oslo_utils import fixture as timeutils_fixture
from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_powervm.lpar.interrupted_move import Remedy
from nova_powervm.lpar.interrupted_move import Side
from nova_powervm.virt import interrupted_moves
from nova_powervm.virt import move_leftovers
from nova_powervm.virt import move_queries
from nova_powervm.virt import move_remedies

LOST = interrupted_moves.LOST_SECONDS


@ddt.ddt
class InterruptedMovesTest(test.TestCase):
    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        self.now = 1000
        self.answers = {'host1', 'host2', 'host3'}
        self.failure = None
        self.applied = []
        self.freed = []
        for module, name in (
            (move_leftovers, 'MoveLeftovers'),
            (move_remedies, 'MoveRemedies'),
        ):
            self.useFixture(
                fixtures.MockPatchObject(module, name, lambda *_: self)
            )
        self.start()

    def start(self):
        """Start nova-compute of the destination."""
        self.moves = interrupted_moves.InterruptedMoves(
            None, 'host2', lambda: self.now, answers=self.answers.__contains__
        )

    def apply(self, migration, instance, row):
        """Stand in for the remedies."""
        if self.failure:
            raise self.failure
        self.applied.append(row.remedy)

    def clear(self, migration, find_instance):
        """Stand in for what clears up after moves."""
        instance = find_instance()
        self.freed.append((migration.uuid, instance and instance.uuid))

    def move(self, status, task, **changes):
        """Make the records of a move to this host."""
        self.instance = objects.Instance(
            self.context,
            uuid=uuidutils.generate_uuid(),
            project_id='project',
            user_id='user',
            host='host2',
            task_state=task,
            instance_type_id=1,
            flavor=objects.Flavor(id=1, name='f', extra_specs={}),
            **changes.pop('instance', {}),
        )
        self.instance.create()
        self.migration = objects.Migration(
            self.context,
            instance_uuid=self.instance.uuid,
            status=status,
            **{
                'migration_type': 'migration',
                'source_compute': 'host1',
                'dest_compute': 'host2',
            }
            | changes,
        )
        self.migration.create()

    def end(self, at_start=False):
        """Return the remedies that were applied."""
        self.applied = []
        self.moves.end(at_start=at_start)
        return self.applied

    def end_late(self):
        """Let a message be late; return the remedies of two cycles."""
        self.now += LOST
        return self.end() + self.end()

    def test_message_is_awaited_for_ten_minutes(self):
        self.move('post-migrating', 'resize_migrated')
        self.assertEqual([], self.end(at_start=True))
        self.now += LOST - 1
        self.assertEqual([], self.end())
        self.now += 1
        self.assertEqual([], self.end())
        self.assertEqual([Remedy.FAIL_UNFINISHED], self.end())

    def test_restart_awaits_the_message_anew(self):
        self.move('post-migrating', 'resize_migrated')
        self.end()
        self.now += LOST
        self.start()
        self.assertEqual([], self.end(at_start=True))

    def test_change_of_the_move_is_awaited_anew(self):
        self.move('finished', 'resize_reverting')
        self.end()
        self.now += LOST
        self.migration.status = 'reverting'
        self.migration.save()
        self.assertEqual([], self.end())
        self.assertEqual([Remedy.REPEAT_REVERT], self.end_late())

    def test_move_that_returns_to_a_state_is_awaited_anew(self):
        self.move('finished', 'resize_reverting')
        self.end()
        for task in (None, 'resize_reverting'):
            self.now += LOST
            self.instance.task_state = task
            self.instance.save()
            self.assertEqual([], self.end())
        self.assertEqual([], self.end())

    def test_changed_move_needs_another_answer(self):
        self.move('finished', 'resize_reverting')
        self.end()
        self.now += LOST
        self.assertEqual([], self.end())
        self.migration.status = 'reverting'
        self.migration.save()
        self.end()
        self.now += LOST
        self.assertEqual([], self.end())
        self.assertEqual([Remedy.REPEAT_REVERT], self.end())

    def test_message_is_late_while_the_host_takes_up_none(self):
        self.move('confirming', None, source_compute='host2')
        self.answers.remove('host2')
        self.end()
        self.assertEqual([], self.end_late())
        self.answers.add('host2')
        self.assertEqual([], self.end())
        self.assertEqual([Remedy.REPEAT_CONFIRM], self.end())

    def test_message_to_the_other_host_is_late_while_that_takes_up_none(self):
        self.move(
            'pre-migrating',
            None,
            source_compute='host2',
            dest_compute='host1',
        )
        self.answers.remove('host1')
        self.end()
        self.assertEqual([], self.end_late())
        self.answers.add('host1')
        self.assertEqual([Remedy.TAKE_BACK], self.end() + self.end())

    def test_host_is_asked_once_in_a_cycle(self):
        asked = []
        self.moves = interrupted_moves.InterruptedMoves(
            None, 'host2', lambda: self.now, answers=asked.append
        )
        for _ in range(2):
            self.move('confirming', None, source_compute='host2')
        self.end()
        for times in (1, 2):
            self.now += LOST
            self.end()
            self.assertEqual(['host2'] * times, asked)

    def test_message_that_arrives_after_the_answer_is_not_lost(self):
        self.move('confirming', None, source_compute='host2')
        self.end()
        self.now += LOST
        self.assertEqual([], self.end())
        self.migration.status = 'confirmed'
        self.migration.save()
        self.assertEqual([], self.end())

    def test_move_that_changes_before_its_remedy_is_left_alone(self):
        self.move('confirming', None, source_compute='host2')
        find = move_queries.find_moves

        def find_too_early(*args, **options):
            found = find(*args, **options)
            self.migration.status = 'confirmed'
            self.migration.save()
            return found

        self.end()
        self.now += LOST
        self.end()
        with mock.patch.object(move_queries, 'find_moves', find_too_early):
            self.assertEqual([], self.end())

    def test_message_that_was_sent_again_is_awaited_anew(self):
        self.move('reverting', 'resize_reverting')
        self.end()
        self.assertEqual([Remedy.REPEAT_REVERT], self.end_late())
        self.now += 1
        self.assertEqual([], self.end())
        self.now += LOST
        self.assertEqual([], self.end())
        self.assertEqual([Remedy.REPEAT_REVERT], self.end())

    def test_step_in_progress_is_interrupted_only_at_start(self):
        self.move('post-migrating', 'resize_finish')
        self.assertEqual([], self.end())
        self.assertEqual([], self.end_late())
        self.start()
        self.assertEqual([Remedy.FAIL], self.end(at_start=True))

    def test_remedy_that_failed_at_start_is_repeated(self):
        self.move('post-migrating', 'resize_finish')
        self.failure = nova_exception.NovaException('no answer')
        self.assertEqual([], self.end(at_start=True))
        self.assertIn('could not be ended', self.stdlog.logger.output)
        self.failure = None
        self.assertEqual([Remedy.FAIL], self.end())
        self.assertEqual([], self.end())

    def test_remedy_that_failed_is_not_repeated_for_another_step(self):
        self.move('post-migrating', 'resize_migrated')
        self.move('post-migrating', 'resize_finish')
        self.failure = nova_exception.NovaException('no answer')
        self.end(at_start=True)
        self.failure = None
        # The user has reverted the move, and resized the server again.
        self.migration.status = 'finished'
        self.migration.save()
        self.assertEqual([], self.end())

    def test_move_that_continues_is_left_alone(self):
        self.move('post-migrating', 'resize_migrated')
        self.end()
        self.now += LOST
        self.failure = nova_exception.UnexpectedTaskStateError(
            instance_uuid='it', expected='it', actual='it'
        )
        self.assertEqual([], self.end() + self.end())
        self.assertIn('continues after all', self.stdlog.logger.output)

    def test_unrelated_moves_are_left_alone(self):
        for changes in (
            {'migration_type': 'live-migration'},
            {'migration_type': 'evacuation'},
            {'cross_cell_move': True},
            {'dest_compute': 'host3'},
        ):
            with self.subTest(changes=changes):
                self.move('post-migrating', 'resize_finish', **changes)
                self.assertEqual([], self.end(at_start=True))

    def test_deleted_instance_is_left_alone(self):
        self.move('post-migrating', 'resize_finish')
        self.instance.destroy()
        self.assertEqual([], self.end(at_start=True))

    def test_start_frees_allocations_of_moves_from_this_host(self):
        for status in ('error', 'confirmed', 'reverted'):
            self.freed = []
            self.move(status, None, source_compute='host2')
            self.end(at_start=True)
            self.assertIn(
                (self.migration.uuid, self.instance.uuid), self.freed
            )

    def test_start_frees_allocations_of_deleted_instances(self):
        self.move('reverting', 'resize_reverting', source_compute='host2')
        self.instance.destroy()
        self.end(at_start=True)
        self.assertEqual([(self.migration.uuid, None)], self.freed)

    def test_allocations_of_deleted_instances_elsewhere_stay(self):
        self.move('reverting', 'resize_reverting')
        self.instance.destroy()
        self.end(at_start=True)
        self.assertEqual([], self.freed)

    def test_allocations_of_other_moves_stay(self):
        self.move('error', None)
        self.move('finished', None, source_compute='host2')
        self.end(at_start=True)
        self.move('error', None, source_compute='host2')
        self.end()
        self.assertEqual([], self.freed)

    def test_moves_from_this_host_are_found_behind_other_migrations(self):
        self.useFixture(fixtures.MockPatchObject(move_queries, '_RECENT', 1))
        self.move_away()
        freed = (self.migration.uuid, self.instance.uuid)
        self.move(
            'error',
            None,
            source_compute='host2',
            migration_type='live-migration',
        )
        self.move('error', None, source_compute='host1')
        self.end(at_start=True)
        self.assertEqual([freed], self.freed)

    def test_moves_of_both_types_count_as_one(self):
        self.useFixture(fixtures.MockPatchObject(move_queries, '_RECENT', 1))
        self.move('confirmed', None, source_compute='host2')
        self.move(
            'confirmed', None, source_compute='host2', migration_type='resize'
        )
        self.end(at_start=True)
        self.assertEqual(
            [(self.migration.uuid, self.instance.uuid)], self.freed
        )

    def test_allocations_of_moves_at_rest_are_freed_every_ten_minutes(self):
        self.move_away()
        freed = [(self.migration.uuid, self.instance.uuid)]
        later = timeutils.utcnow() + datetime.timedelta(seconds=LOST + 1)
        self.useFixture(timeutils_fixture.TimeFixture(later))
        self.now += LOST - 1
        self.end()
        self.assertEqual([], self.freed)
        self.now += 1
        self.end()
        self.assertEqual(freed, self.freed)
        self.end()
        self.assertEqual(freed, self.freed)

    def test_allocations_of_moves_that_just_ended_are_left_to_nova(self):
        self.move_away()
        self.now += LOST
        self.end()
        self.assertEqual([], self.freed)

    def move_away(self):
        """Make the records of a move from this host that has failed."""
        self.move('error', None, source_compute='host2', dest_compute='host3')

    def test_tracker_forgets_failed_move_before_another_at_start(self):
        self.move_away()
        last = objects.Migration(
            self.context,
            instance_uuid=self.instance.uuid,
            status='error',
            migration_type='migration',
            source_compute='host1',
            dest_compute='host3',
        )
        last.create()
        for at_start, expected in ((False, 'error'), (True, 'failed')):
            self.end(at_start=at_start)
            found = objects.Migration.get_by_id(
                self.context, self.migration.id
            )
            self.assertEqual(expected, found.status)
        found = objects.Migration.get_by_id(self.context, last.id)
        self.assertEqual('error', found.status)

    @ddt.data(
        ('error', None, 'active', 'host2', 'failed'),
        ('error', None, 'error', 'host2', 'failed'),
        ('error', 'rebooting_hard', 'error', 'host2', 'error'),
        ('error', None, 'active', 'host3', 'error'),
        ('finished', None, 'resized', 'host2', 'finished'),
    )
    @ddt.unpack
    def test_tracker_forgets_failed_moves_in_place(
        self, status, task, vm_state, destination, expected
    ):
        self.move(
            status,
            task,
            source_compute='host2',
            dest_compute=destination,
            instance={'vm_state': vm_state},
        )
        self.end()
        found = objects.Migration.get_by_id(self.context, self.migration.id)
        self.assertEqual(expected, found.status)

    def test_failed_move_of_the_past_is_left_alone(self):
        self.move('error', None)
        self.assertEqual([], self.end(at_start=True))

    def test_confirmed_server_is_left_alone(self):
        self.move(
            'confirmed',
            None,
            source_compute='host2',
            dest_compute='host1',
            instance={'vm_state': 'active'},
        )
        self.instance.host = 'host1'
        self.instance.save()
        self.assertEqual([], self.end(at_start=True))

    def test_flavor_tells_the_side_of_a_resize_in_place(self):
        for old, place in ((1, Side.SOURCE), (2, Side.DESTINATION)):
            self.move(
                'reverted',
                'resize_reverting',
                source_compute='host2',
                old_instance_type_id=old,
            )
            found = interrupted_moves.describe(
                self.migration, self.instance, 'host2'
            )
            self.assertEqual({place}, found.places)
            self.assertEqual(set(Side), found.ours)

    def again(self, **changes):
        """Make the record of a later move of the instance."""
        objects.Migration(
            self.context,
            instance_uuid=self.instance.uuid,
            migration_type='resize',
            **changes,
        ).create()

    def test_confirmed_move_is_not_that_of_a_later_one_that_waits(self):
        for first, later in (
            ('host2', 'host2'),
            ('host3', 'host3'),
        ):
            with self.subTest(first):
                self.move(
                    'confirmed',
                    None,
                    source_compute='host2',
                    dest_compute=first,
                    instance={'vm_state': 'resized'},
                )
                self.instance.host = later
                self.instance.save()
                self.assertEqual([Remedy.CONFIRM], self.end(at_start=True))
                self.again(
                    status='finished',
                    source_compute=later,
                    dest_compute=later,
                )
                self.start()
                self.assertEqual([], self.end(at_start=True))
                self.instance.destroy()

    def test_claim_that_was_interrupted_is_not_taken_back_after_a_retry(self):
        self.move('pre-migrating', None, source_compute='host2')
        self.end()
        self.again(
            status='confirmed', source_compute='host2', dest_compute='host2'
        )
        self.assertEqual([], self.end_late())

    def test_lpar_that_is_being_removed_is_waited_for(self):
        self.move('finished', 'resize_reverting')
        self.moves = interrupted_moves.InterruptedMoves(
            None,
            'host2',
            lambda: self.now,
            busy={self.instance.uuid}.__contains__,
            answers=self.answers.__contains__,
        )
        self.end()
        self.assertEqual([], self.end_late())

    def test_destination_that_is_down_is_waited_for(self):
        self.move(
            'pre-migrating',
            None,
            source_compute='host2',
            dest_compute='host3',
        )
        service = objects.Service(
            self.context,
            host='host3',
            binary='nova-compute',
            topic='compute',
            forced_down=True,
        )
        service.create()
        self.end()
        self.assertEqual([], self.end_late())
        service.forced_down = False
        service.report_count = 1
        service.save()
        self.end()
        self.assertEqual([Remedy.TAKE_BACK], self.end_late())

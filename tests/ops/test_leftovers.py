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

"""What a failed build has left, and could not be removed at once."""

import threading
import unittest
from unittest import mock

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.ops import removal
from tests.ops import base
from tests.unit.devices.values import settings_of

SPAWN = operations.SPAWN


class LeftoverTestCase(base.HostTestCase):
    """Has LPARs that failed builds have left."""

    def fail_to_build(self, error=exception.RestError, **fault):
        """Have a build fail at a request."""
        self.control.add_fault(**{'every': True, **fault})
        self.failed(error, SPAWN, self.describe())
        self.control.clear_faults()
        self.forget()

    def leave(self):
        """Leave an LPAR that could neither be started nor deleted."""
        self.control.plan_job('PowerOn', 'no power')
        self.fail_to_build(match='LogicalPartition.delete', status=500)
        self.assertIsNotNone(self.lpar())

    def tidy(self, *instances):
        """Do what each cycle does."""
        self.forget()
        self.removals.remove_leftovers(lambda: instances)


class LeftoverTest(LeftoverTestCase):
    """Each cycle tries again, where Nova has taken the instance away."""

    def make_late(self):
        """Complete a creation that was not answered."""
        self.partitions.write(
            partition.PartitionSpec(
                self.describe().lpar_uuid,
                base.NAME,
                settings_of(1024, 1, 0.5),
            ),
            lambda: None,
            creates=True,
        )

    def test_leftover_lpar_is_removed_once_nova_moves_its_instance(self):
        self.leave()

        # Nova has not taken it from this host yet.
        self.tidy(base.INSTANCE)
        self.assertEqual([], self.changes())
        self.tidy()

        self.assert_nothing_left()

    def test_leftover_lpar_is_removed_after_an_unexpected_error(self):
        self.control.plan_job('PowerOn', 'no power')
        with mock.patch.object(
            self.partitions, 'delete', side_effect=ValueError('no number')
        ):
            self.failed(exception.PowerVMError, SPAWN, self.describe())
        self.assertIsNotNone(self.lpar())
        self.tidy()

        self.assert_nothing_left()

    def test_leftover_lpar_that_a_user_started_is_kept(self):
        self.leave()
        self.set_state(base.RUNNING)

        self.tidy(base.INSTANCE)
        self.tidy()

        self.assertEqual(base.RUNNING, self.lpar()['state'])
        self.assertEqual([], self.changes())

    def test_running_leftover_lpar_without_instance_is_removed(self):
        self.leave()
        self.set_state(base.RUNNING)

        self.tidy()

        self.assert_nothing_left()

    def test_lpar_that_appears_late_is_removed(self):
        self.fail_to_build(
            exception.RestUnreachable,
            match='LogicalPartition.create',
            drop=True,
        )
        self.tidy()
        self.clock.now += removal.LATE_SECONDS - 1
        self.tidy()
        self.make_late()

        self.tidy()

        self.assert_nothing_left()

    def test_late_lpar_is_not_looked_for_after_limit(self):
        self.fail_to_build(
            exception.RestUnreachable,
            match='LogicalPartition.create',
            drop=True,
        )
        self.clock.now += removal.LATE_SECONDS
        self.tidy()

        self.tidy()

        self.assertEqual([], self.trail())

    def test_nova_is_asked_only_where_something_was_left(self):
        self.removals.remove_leftovers(self.fail)
        self.fail_to_build(match='LogicalPartition.create', status=500)

        self.removals.remove_leftovers(self.fail)

    def test_new_build_is_not_taken_for_a_leftover(self):
        self.leave()
        self.spawn()

        self.removals.remove_leftovers(self.fail)

        self.assert_lpar()


class PoolLeftoverTest(LeftoverTestCase):
    disk_driver = 'ssp'

    def test_disks_in_a_pool_outlive_a_leftover_lpar(self):
        self.leave()
        # The instance has been built on another host.
        self.disks.make_blank(self.describe().lpar_uuid, base.EPHEMERAL)
        disks = self.stored()
        self.tidy()
        self.assertIsNone(self.lpar())
        self.assertEqual(disks, self.stored())
        self.assertIn('0', disks)


class LeftoverLockTest(unittest.TestCase):
    def test_build_that_fails_while_leftovers_go_is_remembered(self):
        partitions = mock.Mock()
        partitions.find.return_value = mock.Mock(is_active=False)
        removals = removal.RemovalOps(partitions, mock.Mock(), mock.Mock())
        late = exception.RestUnreachable(server='...', reason='...')
        build = threading.Thread(
            target=removals.remove_failed_build,
            args=(base.INSTANCE, base.NAME, late),
        )

        def fail_meanwhile():
            build.start()
            # It waits until the leftovers are gone.
            build.join(0.1)
            return ()

        removals.note_leftover(base.INSTANCE)
        removals.remove_leftovers(fail_meanwhile)
        build.join()
        partitions.delete.reset_mock()
        removals.remove_leftovers(lambda: ())

        partitions.delete.assert_called_once_with(base.INSTANCE)

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

"""What moves do with Nova's records, and which operation each one is."""

import contextlib
from unittest import mock

import ddt
from nova import exception as nova_exception
from nova import objects
from nova import test
from nova.compute import task_states
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.virt import moves
from tests.unit.virt import test_instance_records

STOPPED = exception.GuestStaysOff(reason='it is full', second='It is locked')
FULL = exception.MoveRefused(reason='it is full')


@ddt.ddt
class RefusedMoveTest(test.NoDBTestCase):
    @ddt.data((FULL, True), (STOPPED, False))
    @ddt.unpack
    def test_refusal_says_whether_guest_runs_on(self, error, continues):
        for name in (
            'instance_records.unchanged',
            'record_changes.drop_migration_context',
        ):
            self.stub_out(
                f'nova_powervm.virt.{name}',
                lambda _: contextlib.nullcontext(),
            )
        self.stub_out(
            'nova_powervm.virt.instance_volumes.refuse_move',
            mock.Mock(side_effect=error),
        )
        unused = mock.Mock()

        refused = self.assertRaises(
            nova_exception.InstanceFaultRollback,
            moves.Moves(*[unused] * 5).migrate_disk_and_power_off,
            None,
            objects.Instance(uuid=uuids.instance),
            *[unused] * 3,
        )

        message = str(refused.inner_exception)
        self.assertEqual(continues, 'continues as it was' in message, message)


def made(host):
    """Make the moves of a host, of which all else does nothing."""
    return moves.Moves(host, *(mock.Mock() for _ in range(4)))


class RefusedTest(test_instance_records.RecordsTestCase):
    """A server continues as it was, in Nova's records, too."""

    def setUp(self):
        super().setUp()
        self.move('migrating', source_compute='host1', dest_compute='host1')
        self.handed = self.record()
        self.host = mock.Mock(nodename='host1')

    def record(self):
        return objects.Instance.get_by_uuid(
            self.context, self.uuid, expected_attrs=['migration_context']
        )

    def test_refused_move_leaves_no_migration_context(self):
        self.host.allocations.find.side_effect = exception.ClaimFailed(
            instance_uuid=self.uuid, reason='Placement is silent'
        )
        error = self.refused()
        self.assertIn('continues as it was', str(error.inner_exception))
        self.assertIsNone(self.record().migration_context)

    def test_move_is_checked_before_the_guest_stops(self):
        self.handed.flavor = objects.Flavor(root_gb=2, ephemeral_gb=0, swap=0)
        self.host.descriptions.recorded.return_value = spec.Wanted(self.uuid)
        self.host.burn_limit.check_move.side_effect = (
            exception.BurnLimitReached(limit=1, asked=1),
            None,
        )
        self.host.disks.check_growth.side_effect = FULL
        plan = self.host.lpars.plan = mock.MagicMock()
        for root_gb, words in (
            (1, 'cannot shrink'),
            (2, 'in an hour'),
            (3, 'it is full'),
        ):
            flavor = objects.Flavor(
                root_gb=root_gb, ephemeral_gb=0, swap=0, extra_specs={}
            )
            error = self.refused(flavor)
            self.assertIn(words, str(error.inner_exception))
            (row, _), _ = plan.call_args
            self.assertIs(operations.DEPARTURE, row)
            planned = plan.return_value.__enter__.return_value
            planned.carry_out.assert_not_called()
            # The next one has a context again.
            self.move(
                'migrating', source_compute='host1', dest_compute='host1'
            )
            self.handed = self.record()
            self.handed.flavor = objects.Flavor(
                root_gb=2, ephemeral_gb=0, swap=0
            )

    def test_refused_move_leaves_context_of_another_one(self):
        record = self.record()
        record.migration_context = objects.MigrationContext(
            self.context,
            instance_uuid=self.uuid,
            migration_id=12345,
            old_resources=None,
            new_resources=None,
            old_numa_topology=None,
            new_numa_topology=None,
        )
        record.save()
        self.refused()
        self.host.allocations.find.assert_not_called()
        self.assertIsNotNone(self.record().migration_context)

    def refused(self, flavor=None):
        return self.assertRaises(
            nova_exception.InstanceFaultRollback,
            made(self.host).migrate_disk_and_power_off,
            self.context,
            self.handed,
            flavor,
            None,
            0,
        )

    def test_revert_of_earlier_move_touches_nothing(self):
        for status, is_refused in (('finished', True), ('reverting', False)):
            with self.subTest(status):
                self.move(
                    status,
                    task=task_states.RESIZE_REVERTING,
                    source_compute='host1',
                    dest_compute='host1',
                )
                self.host.reset_mock()
                revert = contextlib.nullcontext()
                if is_refused:
                    revert = self.assertRaisesRegex(
                        nova_exception.InstanceFaultRollback, 'not reverted'
                    )
                with revert:
                    made(self.host).destroy(
                        self.context, self.record(), False, None
                    )
                self.assertEqual(is_refused, not self.host.mock_calls)

    def test_revert_elsewhere_keeps_no_lpar_of_an_evacuation(self):
        self.move(
            'reverting',
            task=task_states.RESIZE_REVERTING,
            source_compute='host3',
            dest_compute='host2',
        )
        instance = self.record()
        instance.host = 'host2'
        instance.migration_context = None
        moves = made(self.host)
        moves.destroy(self.context, instance, False, None)
        moves._removals.destroy.assert_called_once_with(instance, False, None)

    def test_confirmed_move_removes_no_lpar_that_the_server_is_on(self):
        for host, calls in (('host1', 0), ('host2', 1)):
            instance = self.record()
            instance.host = host
            instance.save()
            confirming = made(self.host)
            confirming.confirm_migration(
                objects.Migration(
                    uuid=self.uuid,
                    source_compute='host1',
                    dest_compute='host2',
                ),
                instance,
            )
            self.assertEqual(calls, confirming._removals.remove.call_count)


@ddt.ddt
class RevertTest(test.NoDBTestCase):
    """Nova continues a server on the source, maybe without being asked."""

    @ddt.data(
        ('host1', task_states.RESIZE_REVERTING, operations.RESIZE),
        ('host2', task_states.RESIZE_REVERTING, operations.RETURN),
        # At the start of a service that was killed before the guest stopped.
        ('host1', task_states.RESIZE_MIGRATING, operations.RETURN),
    )
    @ddt.unpack
    def test_only_a_stopped_guest_is_resized_back(self, dest, task, expected):
        self.stub_out(
            'nova_powervm.virt.instance_records.unchanged',
            contextlib.nullcontext,
        )
        instance = objects.Instance(
            uuid=uuids.instance,
            task_state=task,
            old_flavor=None,
            new_flavor=None,
        )
        migration = objects.Migration(
            source_compute='host1', dest_compute=dest
        )
        host = mock.Mock()
        reverting = made(host)
        reverting._hard_reboots.describe_recorded.return_value = spec.Wanted(
            instance.uuid
        )
        reverting.finish_revert_migration(instance, [], migration, None, True)
        self.assertIs(expected, host.lpars.run.call_args.args[0])

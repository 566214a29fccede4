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
import fixtures
from nova import exception as nova_exception
from nova import objects
from nova import test
from nova.compute import task_states
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import moves
from tests.unit.virt import test_instance_records

STOPPED = exception.GuestStaysOff(reason='it is full', second='It is locked')
FULL = exception.MoveRefused(reason='it is full')
BOOT = (volumes.Volume('v1', 'fibre_channel', is_boot=True),)
#: A server with a root disk of the host.
DISKS = spec.Wanted('')


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
            'nova_powervm.virt.instance_volumes.refuse_changing',
            mock.Mock(side_effect=error),
        )
        unused = mock.Mock()

        refused = self.assertRaises(
            nova_exception.InstanceFaultRollback,
            moves.Moves(*[unused] * 5).migrate_disk_and_power_off,
            None,
            objects.Instance(uuid=uuids.instance, vm_state='active'),
            unused,
            {},
            60,
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
            vm_state='resized',
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
        host.lpars.run.return_value.udids = {'v2': 'its UDID'}
        renewal = mock.Mock()
        self.stub_out(
            f'{moves.__name__}.volume_attachments.Renewal',
            lambda *_: renewal,
        )
        was_killed = task == task_states.RESIZE_MIGRATING
        for power_on in (True, False):
            passed = attached('v1', 'v2')
            reverting.finish_revert_migration(
                None, instance, [], migration, passed, power_on
            )
            self.assertEqual(['its UDID'], udids(passed))
            self.assertEqual(was_killed, renewal.begin.called)
            operation, wanted, _ = host.lpars.run.call_args.args
            self.assertIs(expected, operation)
            self.assertEqual(['v1', 'v2'], [v.id for v in wanted.volumes])
            self.assertEqual('complete', renewal.mock_calls[-1][0])
            # At its start, Nova may have no credentials for Cinder.
            renewal.begin.side_effect = exception.VolumesImpossible(
                where='', reason='a test'
            )
            reverting.finish_revert_migration(
                None, instance, [], migration, passed, power_on
            )
            renewal.begin.side_effect = None
            self.assertIs(power_on, wanted.power_on)


class Disk(dict):
    """Nova's record of a volume, which it passes to the driver."""

    saved = False

    def save(self):
        self.saved = True


def attached(*names, **data):
    """Return what Nova passes of volumes, the first one to boot from."""
    return {
        'block_device_mapping': [
            Disk(
                boot_index=0 if name == names[0] else None,
                connection_info={
                    'driver_volume_type': 'fibre_channel',
                    'serial': name,
                    'data': {**data},
                },
            )
            for name in names
        ]
    }


def udids(passed):
    """Return the UDIDs of volumes that Nova has saved, or None."""
    return [
        disk['connection_info']['data'].get('multipath_id')
        for disk in passed['block_device_mapping']
        if disk.saved
    ]


def within(**changes):
    """Return a move within host1, or another one."""
    ends = {'source_compute': 'host1', 'dest_compute': 'host1'}
    return objects.Migration(uuid=uuids.migration, **ends | changes)


@ddt.ddt
class EndTest(test.NoDBTestCase):
    """What goes, and what stays, when a move is confirmed or reverted."""

    def setUp(self):
        super().setUp()
        self.compared = []
        self.stub_out(
            f'{moves.__name__}.instance_records.unchanged', self.compare
        )
        self.instance = objects.Instance(
            uuid=uuids.instance,
            host='host1',
            vm_state='active',
            task_state=None,
            old_flavor=objects.Flavor(swap=0),
            new_flavor=objects.Flavor(swap=512),
        )
        self.host = mock.Mock(nodename='host1')
        self.moves = made(self.host)
        self.calls = mock.Mock()
        self.calls.attach_mock(self.moves._removals.remove, 'remove')
        self.calls.attach_mock(self.moves._hard_reboots.record_growth, 'note')
        self.calls.attach_mock(self.moves._hard_reboots.grow_root, 'grow')

    def compare(self, instance):
        """Stand for the comparison with Nova's record."""
        self.compared.append(instance)
        return contextlib.nullcontext()

    def named(self):
        return [name for name, _, _ in self.calls.mock_calls]

    @ddt.data((None, ['note', 'grow']), ('deleting', ['note']))
    @ddt.unpack
    def test_confirmation_within_host_grows_the_disk(self, task, expected):
        self.instance.task_state = task
        self.moves.confirm_migration(within(), self.instance)
        self.assertEqual(expected, self.named())

    def test_confirmation_removes_lpar_of_source_without_its_disks(self):
        self.instance.host = 'host2'
        move = within(dest_compute='host2')
        self.moves.confirm_migration(move, self.instance)
        self.assertEqual(['note', 'remove', 'grow'], self.named())
        self.calls.remove.assert_called_once_with(
            self.instance, delete_disks=False, block_device_info=None
        )
        self.assertEqual([self.instance], self.compared)

    def test_source_without_pool_keeps_nothing_of_a_confirmed_move(self):
        """A server that has moved has a config drive there at most."""
        self.instance.host = 'host2'
        self.host.storage.pool = None
        move = within(dest_compute='host2')
        self.moves.confirm_migration(move, self.instance)
        self.calls.remove.assert_called_once_with(
            self.instance, delete_disks=True, block_device_info=None
        )

    def test_failed_confirmation_grows_no_disk_and_tells_the_cure(self):
        self.instance.host = 'host2'
        self.calls.remove.side_effect = FULL
        error = self.assertRaises(
            nova_exception.NovaException,
            self.moves.confirm_migration,
            within(dest_compute='host2'),
            self.instance,
        )
        self.assertIn('stays on the host that it moved to', str(error))
        self.assertEqual(['note', 'remove'], self.named())

    def depart(self, move):
        """Have a server of host1 leave, or be refused."""
        for name, value in (
            ('instance_records.move_of', lambda _: move),
            ('instance_volumes.refuse_changing', lambda *_: None),
            ('record_changes.drop_migration_context', lambda _: None),
            ('slot_records.save_present', lambda *_: None),
        ):
            self.stub_out(f'{moves.__name__}.{name}', value)
        flavor = objects.Flavor(
            root_gb=1, ephemeral_gb=0, swap=0, extra_specs={}
        )
        self.instance.flavor = flavor
        self.host.descriptions.recorded.return_value = spec.Wanted(
            uuids.instance
        )
        planning = self.host.lpars.plan = mock.MagicMock()
        leave = planning.return_value.__enter__.return_value.carry_out
        self.host.partitions.nvram.return_value = 'TlZSQU0='
        # As an earlier version has recorded it.
        passed = attached('v1', powervm_udid='its UDID')
        with contextlib.suppress(nova_exception.InstanceFaultRollback):
            self.disk_info = self.moves.migrate_disk_and_power_off(
                None, self.instance, flavor, passed, 60
            )
        self.assertEqual(['its UDID'], udids(passed))
        (_, source), _ = planning.call_args
        self.assertEqual(['v1'], [volume.id for volume in source.volumes])
        return leave.call_count

    @ddt.data('host1', 'host2')
    def test_guest_stops_only_if_it_can_run_at_the_end(self, destination):
        ask = self.moves.questions.ask_to_take = mock.Mock()
        check = self.host.lpars.check
        move = within(dest_compute=destination)
        used, unused = (check, ask) if destination == 'host1' else (ask, check)
        self.assertEqual(1, self.depart(move))
        # Within a host the LPAR stays, with its NVRAM.
        self.assertEqual(
            [] if destination == 'host1' else ['TlZSQU0='],
            [*self.disk_info.values()],
        )
        self.host.consoles.forget.assert_called_once_with(self.instance)
        unused.assert_not_called()
        used.side_effect = FULL
        self.assertEqual(0, self.depart(move))
        if destination == 'host1':
            used.side_effect = None
            self.host.volumes.check_arrival.side_effect = FULL
            self.assertEqual(0, self.depart(move))

    def test_nvram_arrives_on_another_host(self):
        move, build = within(dest_compute='host2'), mock.Mock()
        arrive = self.moves._builds.arrive
        self.moves.finish_migration(move, build, {'nvram_secret': 'TlZSQU0='})
        arrive.assert_called_once_with(build, 'TlZSQU0=')
        self.moves.finish_migration(move, build, '')
        arrive.assert_called_with(build, None)

    def test_failed_arrival_tells_that_the_nvram_is_lost(self):
        self.moves._builds.arrive.side_effect = FULL
        build = mock.Mock(instance=self.instance)
        logger = self.useFixture(fixtures.FakeLogger())
        self.assertRaises(
            nova_exception.NovaException,
            self.moves.finish_migration,
            within(dest_compute='host2'),
            build,
            {'nvram_secret': 'TlZSQU0='},
        )
        self.assertIn('The NVRAM of the instance is lost', logger.output)

    def test_volumes_keep_no_root_disk_size(self):
        """The root disk is a volume, whatever the flavor says."""
        instance, flavors = (
            mock.Mock(),
            [
                objects.Flavor(
                    root_gb=size, ephemeral_gb=0, swap=0, extra_specs={}
                )
                for size in (2, 1, 3)
            ],
        )
        instance.flavor = flavors[0]
        for flavor in flavors:
            self.moves._check_move(
                None,
                instance,
                within(),
                flavor,
                spec.Wanted('', volumes=BOOT),
            )
        self.host.disks.check_growth.assert_not_called()

    def revert(self, move, passed=None):
        """Have the destination of a move leave its server."""
        for name, value in (
            ('_refuse_earlier', lambda _: None),
            ('instance_records.move_of', lambda _: move),
            ('translation.shutdown_timeout', lambda _: 60),
        ):
            self.stub_out(f'{moves.__name__}.{name}', value)
        self.stop = mock.Mock()
        self.stub_out(f'{moves.__name__}.power.power_off', self.stop)
        self.instance.task_state = task_states.RESIZE_REVERTING
        self.moves.destroy(None, self.instance, True, passed)

    def test_revert_within_host_keeps_the_lpar_and_no_volumes(self):
        self.revert(within(), attached('v1', 'v2'))
        self.stop.assert_called_once()
        self.assertEqual([], self.named())
        self.assertEqual([self.instance], self.compared)
        left = self.host.volumes.disconnect.call_args_list
        self.assertEqual(['v1', 'v2'], [volume.id for (volume, _), _ in left])

    @ddt.data(
        ('check_disconnection', 'host1'),
        ('check_arrival', 'host1'),
        ('check_removal', 'host2'),
    )
    @ddt.unpack
    def test_guest_runs_on_if_its_volumes_cannot(self, check, source):
        self.moves.questions.ask_to_take_back = mock.Mock()
        getattr(self.host.volumes, check).side_effect = FULL
        self.assertRaises(
            nova_exception.InstanceFaultRollback,
            self.revert,
            within(source_compute=source),
            attached('v1'),
        )
        self.stop.assert_not_called()
        self.host.volumes.disconnect.assert_not_called()
        self.assertEqual([], self.named())

    def test_revert_removes_lpar_of_destination_without_its_disks(self):
        ask = self.moves.questions.ask_to_take_back = mock.Mock()
        self.revert(within(source_compute='host2'))
        self.stop.assert_called_once()
        ask.assert_called_once_with(None, self.instance, 'host2')
        self.calls.remove.assert_called_once_with(
            self.instance, delete_disks=False, block_device_info=None
        )

    def test_guest_runs_on_if_the_source_does_not_take_it_back(self):
        self.moves.questions.ask_to_take_back = mock.Mock(side_effect=FULL)
        self.assertRaises(
            nova_exception.InstanceFaultRollback,
            self.revert,
            within(source_compute='host2'),
        )
        self.stop.assert_not_called()
        self.assertEqual([], self.named())

    @ddt.data(True, False)
    def test_resize_fits_the_lpar_and_starts_what_ran(self, power_on):
        self.stub_out(
            f'{moves.__name__}.instance_records.moved_slots',
            lambda *_: {7: uuids.migration},
        )
        self.host.descriptions.allocated.return_value = spec.Wanted(
            uuids.instance
        )
        build = mock.Mock(
            instance=self.instance,
            block_device_info=attached('v1'),
            power_on=power_on,
        )
        self.host.lpars.run.return_value.udids = {'v1': 'its UDID'}
        self.moves.finish_migration(within(), build, {})
        operation, wanted, _ = self.host.lpars.run.call_args.args
        self.assertIs(operations.RESIZE, operation)
        self.assertEqual({7: uuids.migration}, wanted.moved_slots)
        self.assertIs(power_on, wanted.power_on)
        self.assertTrue(wanted.checks_swap)
        self.assertEqual(['v1'], [volume.id for volume in wanted.volumes])
        self.assertEqual(['its UDID'], udids(build.block_device_info))


@ddt.ddt
class QuestionsTest(test.NoDBTestCase):
    """What hosts ask each other before a guest stops for a move."""

    def setUp(self):
        super().setUp()
        self.host = mock.Mock(nodename='host1')
        self.questions = moves.MoveQuestions(self.host)
        self.instance = objects.Instance(uuid=uuids.instance)
        self.call = mock.Mock()
        self.stub_out(
            f'{moves.__name__}.rpcapi.ComputeAPI',
            lambda: mock.Mock(check_instance_shared_storage=self.call),
        )

    @ddt.data(True, False, {'refusal': 'it is full'})
    def test_move_is_refused_unless_the_destination_agrees(self, answer):
        """An earlier driver answers only whether storage is shared."""
        self.call.return_value = answer
        self.assertRaises(
            exception.MoveRefused,
            self.questions.ask_to_take,
            None,
            self.instance,
            'host2',
            DISKS,
        )
        self.call.return_value = {'refusal': None}
        self.questions.ask_to_take(None, self.instance, 'host2', DISKS)

    def test_server_without_disks_in_a_pool_does_not_move(self):
        self.host.storage.kept_disks.return_value = ()
        for source, words in (
            (DISKS, 'its disks are not in a shared'),
            (
                spec.Wanted('', volumes=BOOT, blanks=(storage.Disk('0', 1),)),
                'its disks but the root disk are not',
            ),
        ):
            with self.assertRaisesRegex(exception.MoveRefused, words):
                self.questions.ask_to_take(
                    None, self.instance, 'host2', source
                )
        self.call.assert_not_called()

    def test_server_without_disks_needs_no_pool_on_either_host(self):
        self.host.storage.kept_disks.return_value = ()
        self.call.return_value = {'refusal': None}
        source = spec.Wanted('', volumes=BOOT)
        self.questions.ask_to_take(None, self.instance, 'host2', source)
        self.questions.ask_to_take_back(None, self.instance, 'host2')
        for (_, asked), _ in self.call.call_args_list:
            self.assertIsNone(asked['pool'])
            self.assertEqual(uuids.instance, asked['no disks'])
        self.prepare_answer()
        self.host.storage.is_shared.return_value = False
        self.assertEqual({'refusal': None}, self.questions.answer(asked))

    @ddt.data('moved', 'returned')
    def test_host_refuses_what_it_cannot_run(self, question):
        asked = {'pool': 'p', 'lpar': 'l', question: uuids.instance}
        self.prepare_answer()
        self.assertEqual({'refusal': None}, self.questions.answer(asked))
        # Each host counts the slots of the LPAR that gets the volumes.
        lpar = self.host.partitions
        if question == 'returned':
            lpar = lpar.find.return_value
        self.host.volumes.check_arrival.assert_called_once_with(
            BOOT, lpar.virtual_slots
        )
        for check in (self.host.volumes.check_arrival, self.host.lpars.check):
            check.side_effect = FULL
            self.assertIn('full', self.questions.answer(asked)['refusal'])
            check.side_effect = None
        self.host.storage.is_shared.return_value = False
        self.assertIn('pool', self.questions.answer(asked)['refusal'])

    def test_recorded_volumes_are_those_with_a_connection(self):
        disks = [
            mock.Mock(is_volume=True, boot_index=index, connection_info=found)
            # Nova records a missing one as null, too.
            for index, found in enumerate(('{"serial": "v1"}', None, 'null'))
        ]
        self.stub_out(
            'nova.objects.BlockDeviceMappingList.get_by_instance_uuid',
            lambda *_: disks,
        )
        found = instance_volumes.recorded(self.instance)
        self.assertEqual(
            [('v1', True)], [(volume.id, volume.is_boot) for volume in found]
        )

    def prepare_answer(self):
        """Have Nova and the host describe an instance."""
        self.stub_out(
            f'{moves.__name__}.instance_volumes.recorded', lambda _: BOOT
        )
        self.stub_out(
            f'{moves.__name__}.instance_records.read_moving',
            lambda _: mock.Mock(uuid=uuids.instance),
        )
        for name in ('moving', 'recorded'):
            getattr(self.host.descriptions, name).return_value = spec.Wanted(
                uuids.instance
            )
        self.stub_out(f'{moves.__name__}.instance_ports.ports', lambda _: ())

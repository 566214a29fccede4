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

"""Power of a guest, hard reboots and rescues."""

import contextlib
from unittest import mock

import ddt
from nova import objects
from nova import test
from nova.compute import task_states
from nova.compute import vm_states
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import spec
from nova_powervm.virt import guest_power
from nova_powervm.virt import hard_reboots
from nova_powervm.virt import instance_allocations
from nova_powervm.virt import rescues
from nova_powervm.virt import system_metadata
from tests.unit.virt import test_instance_records

SILENT = exception.RestSilent(server='it', reason='no answer')


class MovedTest(test_instance_records.RecordsTestCase):
    """A resize within the host has failed; its migration has the slots."""

    def setUp(self):
        super().setUp()
        self.stub_out(
            'nova_powervm.virt.instance_ports.bind_ports', mock.Mock()
        )
        self.move('error', source_compute='host1', dest_compute='host1')
        self.host = mock.MagicMock(nodename='host1')
        self.host.allocations.find.return_value = (
            instance_allocations.LocalAllocations({})
        )
        self.host.descriptions.recorded.return_value = spec.Wanted(self.uuid)
        self.plan = self.host.lpars.plan
        self.planned = self.plan.return_value.__enter__.return_value
        self.planned.carry_out.return_value = mock.Mock(
            slots={}, removed=set(), udids={}, has_grown=False
        )

    def record(self):
        return objects.Instance.get_by_uuid(
            self.context,
            self.uuid,
            expected_attrs=['migration_context', 'system_metadata'],
        )

    def reboot(self):
        instance = self.record()
        instance.flavor = objects.Flavor(root_gb=1)
        reboots = hard_reboots.HardReboots(self.host)
        reboots.hard_reboot(self.context, instance, [], {}, ())

    def test_allocations_come_home_before_the_lpar_changes(self):
        calls = mock.Mock()
        calls.attach_mock(self.host.allocations.bring_home, 'bring_home')
        calls.attach_mock(self.planned.carry_out, 'carry_out')
        self.reboot()
        self.assertEqual(
            ['bring_home', 'carry_out'], [call[0] for call in calls.mock_calls]
        )
        self.assertIsNone(self.record().migration_context)

    def test_moved_server_keeps_the_size_of_a_root_disk_but_of_a_volume(self):
        self.planned.carry_out.side_effect = SILENT
        for is_volume, expected in ((True, None), (False, 1)):
            self.stub_out(
                'nova_powervm.virt.instance_volumes.is_volume_backed',
                lambda _, answer=is_volume: answer,
            )
            self.assertRaises(exception.RestSilent, self.reboot)
            (_, wanted, _), _ = self.plan.call_args
            self.assertEqual(expected, wanted.grow_root_gb)

    def test_volumes_that_a_move_has_lost_come_back_first(self):
        calls = mock.Mock()
        calls.attach_mock(self.plan, 'plan')
        self.stub_out(
            'nova_powervm.virt.volume_attachments.Renewal', lambda *_: calls
        )
        self.reboot()
        self.assertEqual(
            ['begin', 'plan', 'complete'],
            [name for name, _, _ in calls.mock_calls if '.' not in name],
        )
        self.assertIsNone(self.record().migration_context)
        # Nor does a revert that was killed leave a context.
        self.reboot()
        self.assertEqual(2, calls.begin.call_count)

    def test_refused_reboot_leaves_allocations_where_they_are(self):
        self.plan.side_effect = SILENT
        self.assertRaises(exception.RestSilent, self.reboot)
        self.host.allocations.bring_home.assert_not_called()
        self.assertIsNotNone(self.record().migration_context)

    def test_failed_reboot_can_be_repeated(self):
        self.planned.carry_out.side_effect = SILENT
        self.assertRaises(exception.RestSilent, self.reboot)
        self.assertIsNotNone(self.record().migration_context)

    def test_slots_of_a_move_go_without_its_context(self):
        self.host.allocations.find.return_value = (
            instance_allocations.LocalAllocations({}, moved_slots={7: 'move'})
        )
        self.reboot()
        (_, wanted, _), _ = self.plan.call_args
        self.assertEqual('move', wanted.moved_slots.get(7))

    def test_root_disk_grows_to_the_recorded_size_once(self):
        for has_grown, left in ((False, '3'), (True, None)):
            instance = self.record()
            system_metadata.ROOT_GB.write(instance.system_metadata, '3')
            instance.flavor = objects.Flavor(root_gb=1)
            self.planned.carry_out.return_value.has_grown = has_grown
            reboots = hard_reboots.HardReboots(self.host)
            reboots.hard_reboot(self.context, instance, [], {}, ())
            (_, wanted, _), _ = self.plan.call_args
            self.assertEqual(3, wanted.grow_root_gb)
            self.assertEqual(
                left, system_metadata.ROOT_GB.read(instance.system_metadata)
            )


@ddt.ddt
class GrowthTest(test.NoDBTestCase):
    @ddt.data((1, 2, '2'), (2, 2, None), (2, 1, None), (None, 2, '2'))
    @ddt.unpack
    def test_larger_root_disk_is_recorded_until_it_grows(
        self, old, new, expected
    ):
        instance = objects.Instance(
            old_flavor=old and objects.Flavor(root_gb=old),
            flavor=objects.Flavor(root_gb=new),
            system_metadata={},
        )
        for is_volume in (True, False):
            self.stub_out(
                'nova_powervm.virt.instance_volumes.is_volume_backed',
                lambda _, answer=is_volume: answer,
            )
            hard_reboots.HardReboots(None).record_growth(instance)
            found = system_metadata.ROOT_GB.read(instance.system_metadata)
            self.assertEqual(None if is_volume else expected, found)

    @ddt.data(
        (None, None), (exception.GrowthPutOff(name='root'), '2'), (SILENT, '2')
    )
    @ddt.unpack
    def test_growth_that_fails_or_is_put_off_stays_recorded(self, error, left):
        host = mock.Mock()
        host.disks.grow_root.side_effect = error
        instance = objects.Instance(uuid=uuids.instance, system_metadata={})
        system_metadata.ROOT_GB.write(instance.system_metadata, '2')

        hard_reboots.HardReboots(host).grow_root(instance)

        host.disks.grow_root.assert_called_once_with(mock.ANY, 2)
        found = system_metadata.ROOT_GB.read(instance.system_metadata)
        self.assertEqual(left, found)


class HostBootTest(test.NoDBTestCase):
    def test_start_at_boot_records_virtual_slots(self):
        for name in (
            'accelerator_requests.fetch_requests',
            'instance_ports.fetch_ports_at_boot',
            'instance_volumes.recorded_boot_volume',
        ):
            self.stub_out(f'nova_powervm.virt.{name}', lambda *_, **__: ())
        saved = mock.Mock()
        self.stub_out('nova_powervm.virt.slot_records.try_to_save', saved)
        instance = objects.Instance(
            uuid=uuids.instance,
            vm_state='active',
            task_state=None,
            resources=None,
            system_metadata={},
        )
        host = mock.Mock()
        host.descriptions.recorded.return_value = spec.Wanted(instance.uuid)

        guest_power.start_at_boot(host, None, instance)

        saved.assert_called_once_with(instance, host.lpars.run.return_value)


@ddt.ddt
class RescuedTest(test.NoDBTestCase):
    @ddt.data(
        (vm_states.RESCUED, None, True),
        (vm_states.RESCUED, task_states.UNRESCUING, False),
        (vm_states.ACTIVE, task_states.RESCUING, False),
        (vm_states.ERROR, None, False),
    )
    @ddt.unpack
    def test_start_is_that_of_rescue_system_in(self, state, task, expected):
        instance = objects.Instance(vm_state=state, task_state=task)

        self.assertIs(expected, rescues.is_rescued(instance))


class UnrescueTest(test.NoDBTestCase):
    def test_guest_has_time_to_shut_down_and_waits_for_no_start(self):
        self.flags(shutdown_timeout=77)
        self.stub_out(
            'nova_powervm.virt.accelerator_requests.fetch_requests',
            lambda *_, **__: (),
        )
        self.stub_out(
            'nova_powervm.virt.instance_records.unchanged',
            contextlib.nullcontext,
        )
        instance = objects.Instance(
            uuid=uuids.instance, migration_context=None, system_metadata={}
        )
        host, deferred = mock.Mock(), mock.Mock()
        host.descriptions.recorded.return_value = spec.Wanted(instance.uuid)
        asked = host.descriptions.askers.return_value
        asked.instance = instance

        rescues.Rescues(host, deferred).unrescue(None, instance)

        _, wanted, askers = host.lpars.run.call_args.args
        self.assertEqual(77, wanted.timeout)
        self.assertIs(asked, askers)
        self.assertIs(
            host.allocations.find_moved.return_value,
            host.descriptions.recorded.call_args.args[1],
        )
        deferred.forget.assert_called_once_with(instance)


@ddt.ddt
class ImageTest(test.NoDBTestCase):
    def rescue(self, disks=(), **properties):
        """Rescue an instance with an image."""
        image = objects.ImageMeta(
            id=uuids.image, properties=objects.ImageMetaProps(**properties)
        )
        rescues.Rescues(None, None).rescue(
            None,
            objects.Instance(uuid=uuids.instance),
            None,
            image,
            'secret',
            {'block_device_mapping': disks},
        )

    def test_rescue_refuses_instance_with_a_boot_volume(self):
        error = self.assertRaises(
            exception.RescueRefused, self.rescue, [{'boot_index': 0}]
        )
        self.assertIn('it boots from a volume', str(error))

    @ddt.data(
        ({'hw_rescue_device': 'cdrom'}, 'hw_rescue_device=cdrom, but'),
        ({'hw_firmware_type': 'uefi'}, 'hw_firmware_type=uefi, but PowerVM'),
    )
    @ddt.unpack
    def test_rescue_refuses_image_with(self, properties, words):
        error = self.assertRaises(
            exception.RescueRefused, self.rescue, **properties
        )

        self.assertIn(f'image {uuids.image} asks for {words}', str(error))
        self.assertNotIn('secret', str(error))


class EvacuatedTest(test.NoDBTestCase):
    def test_evacuated_server_that_is_not_stopped_stays_on_its_new_host(self):
        self.stub_out(
            'nova_powervm.ops.power.power_off',
            mock.Mock(side_effect=exception.PowerVMError(reason='it')),
        )
        self.stub_out(
            'nova_powervm.virt.snapshots.SnapshotChecks', mock.Mock()
        )
        power = guest_power.GuestPower(
            mock.Mock(nodename='host2'), mock.Mock(), mock.Mock()
        )
        instance = objects.Instance(
            uuid=uuids.instance, host='host1', task_state='powering-off'
        )
        power.stop(instance, 0)
        instance.host = 'host2'
        self.assertRaises(exception.PowerVMError, power.stop, instance, 0)

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

"""In which order a hard reboot repairs what a move has left."""

from unittest import mock

import ddt
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import spec
from nova_powervm.virt import hard_reboots
from nova_powervm.virt import instance_allocations
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
        hard_reboots.HardReboots(self.host).hard_reboot(instance, [], {}, ())

    def test_allocations_come_home_before_the_lpar_changes(self):
        calls = mock.Mock()
        calls.attach_mock(self.host.allocations.bring_home, 'bring_home')
        calls.attach_mock(self.planned.carry_out, 'carry_out')
        self.reboot()
        self.assertEqual(
            ['bring_home', 'carry_out'], [call[0] for call in calls.mock_calls]
        )
        self.assertIsNone(self.record().migration_context)

    def test_slots_of_a_move_go_without_its_context(self):
        self.host.allocations.find.return_value = (
            instance_allocations.LocalAllocations({}, moved_slots={7: 'move'})
        )
        self.reboot()
        (_, wanted, _), _ = self.plan.call_args
        self.assertEqual('move', wanted.moved_slots.get(7))

    def test_refused_reboot_leaves_allocations_where_they_are(self):
        self.plan.side_effect = SILENT
        self.assertRaises(exception.RestSilent, self.reboot)
        self.host.allocations.bring_home.assert_not_called()
        self.assertIsNotNone(self.record().migration_context)

    def test_root_disk_grows_to_the_recorded_size_once(self):
        for has_grown, left in ((False, '3'), (True, None)):
            instance = self.record()
            system_metadata.ROOT_GB.write(instance.system_metadata, '3')
            instance.flavor = objects.Flavor(root_gb=1)
            self.planned.carry_out.return_value.has_grown = has_grown
            reboots = hard_reboots.HardReboots(self.host)
            reboots.hard_reboot(instance, [], {}, ())
            (_, wanted, _), _ = self.plan.call_args
            self.assertEqual(3, wanted.grow_root_gb)
            self.assertEqual(
                left, system_metadata.ROOT_GB.read(instance.system_metadata)
            )

    def test_failed_reboot_can_be_repeated(self):
        self.planned.carry_out.side_effect = SILENT
        self.assertRaises(exception.RestSilent, self.reboot)
        self.assertIsNotNone(self.record().migration_context)


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
        hard_reboots.HardReboots(None).record_growth(instance)
        found = system_metadata.ROOT_GB.read(instance.system_metadata)
        self.assertEqual(expected, found)

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

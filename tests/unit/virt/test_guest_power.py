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

from unittest import mock

from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import spec
from nova_powervm.virt import guest_power


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

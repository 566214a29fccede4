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
from nova_powervm.virt import rescues


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

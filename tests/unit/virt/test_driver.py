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

from nova import objects
from nova import test
from nova.virt import driver as nova_driver
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.virt import driver


class Facade(test.NoDBTestCase):
    """What nova's own helper says of the driver's shape."""

    def test_signatures_are_those_of_compute_driver(self):
        self.assertPublicAPISignatures(
            nova_driver.ComputeDriver(None), driver.PowerVMDriver(None)
        )

    def test_no_error_of_plugging_ends_a_starting_service(self):
        started = driver.PowerVMDriver(None)
        # Not started: the first thing that it asks for is not there.
        started.plug_vifs(objects.Instance(uuid=uuids.instance), [])

        self.assertIn('can not be checked', self.stdlog.logger.output)

    def test_every_known_capability_is_declared(self):
        known = set(nova_driver.ComputeDriver.capabilities)
        self.assertEqual(known, set(driver.PowerVMDriver.capabilities))

    def test_only_what_is_done_is_declared(self):
        # What this version leaves out must not be scheduled to it.
        declared = {
            name
            for name, value in driver.PowerVMDriver.capabilities.items()
            if value
        }
        self.assertEqual(
            {
                'supports_accelerators',
                'supports_attach_interface',
                'supports_device_tagging',
                'supports_evacuate',
                'supports_image_type_qcow2',
                'supports_image_type_raw',
            },
            declared,
        )
        for method in ('attach_interface', 'detach_interface'):
            self.assertIn(method, vars(driver.PowerVMDriver))

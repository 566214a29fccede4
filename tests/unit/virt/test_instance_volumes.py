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

"""Which volumes Nova says that an instance has."""

import types
import unittest

from nova import objects
from nova.compute import vm_states

from nova_powervm import exception
from nova_powervm.lpar import volumes as lpar_volumes

objects.register_all()

from nova_powervm.virt import instance_volumes  # noqa: E402 - needs the objects


class IdentifyTest(unittest.TestCase):
    def test_volume_that_was_never_connected_is_told_too(self):
        connected = {
            'serial': 'v1',
            'driver_volume_type': 'fibre_channel',
            'data': {lpar_volumes.UDID_KEY: 'udid'},
        }
        found = instance_volumes.identify_all(
            {
                'block_device_mapping': [
                    {'connection_info': connected, 'boot_index': 0},
                    {'connection_info': None, 'boot_index': None},
                ]
            }
        )
        self.assertEqual(
            [('v1', 'udid', True), ('', '', False)],
            [(one.id, one.udid, one.is_boot) for one in found],
        )


class ParseTest(unittest.TestCase):
    def parse(self, vm_state):
        """Describe a volume with a promise that the host cannot keep."""
        info = {
            'serial': 'v1',
            'driver_volume_type': 'fibre_channel',
            'data': {'qos_specs': {'total_iops_sec': '100'}},
        }
        return instance_volumes.parse_all(
            types.SimpleNamespace(vm_state=vm_state),
            {'block_device_mapping': [{'connection_info': info}]},
        )

    def test_first_build_refuses_promise_by_name(self):
        with self.assertRaisesRegex(
            exception.VolumeRefused,
            'v1 cannot be connected: it has qos_specs, but the host',
        ):
            self.parse(vm_states.BUILDING)

    def test_volume_that_a_server_has_stays_with_a_warning(self):
        for state in (
            vm_states.ACTIVE,
            vm_states.ERROR,
            vm_states.SHELVED_OFFLOADED,
            vm_states.STOPPED,
        ):
            with self.subTest(state), self.assertLogs(level='WARNING') as log:
                self.assertEqual(['v1'], [one.id for one in self.parse(state)])
                self.assertIn('volume v1 stays attached', log.output[0])
                self.assertIn('it has qos_specs, but', log.output[0])

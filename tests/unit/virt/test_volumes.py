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

import unittest

from nova import objects

from nova_powervm.lpar import volumes as lpar_volumes

objects.register_all()

from nova_powervm.virt import volumes  # noqa: E402 - needs the objects


class IdentifyTest(unittest.TestCase):
    def test_volume_that_was_never_connected_is_told_too(self):
        connected = {
            'serial': 'v1',
            'driver_volume_type': 'fibre_channel',
            'data': {lpar_volumes.UDID_KEY: 'udid'},
        }
        found = volumes.identify_all(
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

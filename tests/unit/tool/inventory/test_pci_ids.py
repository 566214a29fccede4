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

"""Names of devices."""

import pathlib
import unittest

from nova_powervm.tool.inventory import pci_ids
from tests.unit.devices import values

LIST = str(pathlib.Path(__file__).with_name('pci.ids'))


class DeviceNamesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.names = pci_ids.read_names([LIST])

    def describe(self, **changes):
        return self.names.describe(values.slot(**changes))

    def test_known_device_has_vendor_and_device_name(self):
        self.assertEqual(
            'Example Graphics EX100 [Model 9 16GB] (10DE:1EB8)',
            self.describe(),
        )

    def test_unknown_device_has_the_description_of_the_host(self):
        self.assertEqual('GPU (10DE:1EB9)', self.describe(device_id=0x1EB9))
        self.assertEqual('GPU (FACE:1EB8)', self.describe(vendor_id=0xFACE))

    def test_unreported_values_are_left_out(self):
        self.assertEqual('GPU (1EB8)', self.describe(vendor_id=None))
        self.assertEqual('GPU (10DE)', self.describe(device_id=None))
        self.assertEqual(
            'adapter',
            self.describe(vendor_id=None, device_id=None, description=None),
        )

    def test_empty_slot_is_called_empty(self):
        self.assertEqual('empty slot', self.describe(pci_class=0xFFFF))

    def test_subsystems_and_classes_are_not_taken_for_devices(self):
        # The file has a subsystem 10de:0001 and a class 03 with 00 below.
        self.assertEqual('GPU (10DE:0001)', self.describe(device_id=1))
        self.assertEqual(
            'GPU (0003:0000)', self.describe(vendor_id=3, device_id=0)
        )

    def test_unprintable_text_of_the_host_is_removed(self):
        self.assertEqual(
            'a [31m b (10DE:0002)',
            self.describe(device_id=2, description='a\x1b[31m\nb'),
        )

    def test_missing_list_gives_no_names(self):
        names = pci_ids.read_names(['/nonexistent/pci.ids'])
        self.assertEqual('GPU (10DE:1EB8)', names.describe(values.slot()))

    def test_first_existing_list_is_read(self):
        names = pci_ids.read_names(['/nonexistent/pci.ids', LIST])
        self.assertIn('Example', names.describe(values.slot()))

    def test_arbitrary_file_is_read_without_error(self):
        for lines in (
            ['\tdead  no vendor'],
            ['\x00', '\t', '\n', '10de', '10de  ', '10de  V\n'],
            ['zzzz  Not hex'],
        ):
            names = pci_ids.parse_names(lines)
            self.assertEqual('GPU (10DE:1EB8)', names.describe(values.slot()))

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

    def test_device_has_names_of_list_or_description_of_host(self):
        nothing = dict.fromkeys(('vendor_id', 'device_id', 'description'))
        for changes, expected in (
            ({}, 'Example Graphics EX100 [Model 9 16GB] (10DE:1EB8)'),
            ({'device_id': 0x1EB9}, 'GPU (10DE:1EB9)'),
            ({'vendor_id': 0xFACE}, 'GPU (FACE:1EB8)'),
            # Values that are not reported are left out.
            ({'vendor_id': None}, 'GPU (1EB8)'),
            ({'device_id': None}, 'GPU (10DE)'),
            (nothing, 'adapter'),
            ({'vendor_id': 0xFFFF}, 'empty slot'),
            # The file has a subsystem 10de:0001 and a class 03 with 00 below.
            ({'device_id': 1}, 'GPU (10DE:0001)'),
            ({'vendor_id': 3, 'device_id': 0}, 'GPU (0003:0000)'),
            # Unprintable text is removed.
            (
                {'device_id': 2, 'description': 'a\x1b[31m\nb'},
                'a [31m b (10DE:0002)',
            ),
        ):
            with self.subTest(**changes):
                found = self.names.describe(values.slot(**changes))
                self.assertEqual(expected, found)

    def test_first_existing_list_is_read(self):
        missing = '/nonexistent/pci.ids'
        for paths, word in (([missing], 'GPU'), ([missing, LIST], 'Example')):
            names = pci_ids.read_names(paths)
            self.assertIn(word, names.describe(values.slot()))

    def test_arbitrary_file_is_read_without_error(self):
        for lines in (
            ['\tdead  no vendor'],
            ['\x00', '\t', '\n', '10de', '10de  ', '10de  V\n'],
            ['zzzz  Not hex'],
        ):
            names = pci_ids.parse_names(lines)
            self.assertEqual('GPU (10DE:1EB8)', names.describe(values.slot()))

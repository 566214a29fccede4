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

"""Updates that leave values out or that make no sense."""

from tests.emulator import base

MEMORY = 'PartitionMemoryConfiguration'
PROCESSORS = 'PartitionProcessorConfiguration'


class MissingTest(base.EmulatorTestCase):
    """What an active partition holds is not taken from it by silence."""

    def setUp(self):
        super().setUp()
        self.create()
        self.control.set_partition('vm1', 'running', 'active')
        (self.lpar,) = (
            self.read(item['uuid'])
            for item in self.control.state()['systems'][0]['partitions']
            if item['name'] == 'vm1'
        )

    def remove(self, section, name):
        """Take an element out of what is to be posted."""
        parent = self.lpar.element.find(section)
        parent.remove(parent.find(name))

    def test_memory(self):
        free = self.system().memory_free
        self.remove(MEMORY, 'DesiredMemory')
        self.assert_refused(400, '0 desired', self.lpar.update)
        self.assertEqual(free, self.system().memory_free)

    def test_processors(self):
        self.remove(PROCESSORS, 'SharedProcessorConfiguration')
        self.assert_refused(400, 'processors are not in', self.lpar.update)

    def test_no_numbers(self):
        for text in ('many', '', 'nan', '1e3', '2048.5'):
            desired = self.lpar.element.find(f'{MEMORY}/DesiredMemory')
            desired.text = text
            self.assert_refused(400, 'not a number', self.lpar.update)

    def test_no_number_of_units(self):
        wrong = self.build('vm2')
        wrong.element.find(
            f'{PROCESSORS}/SharedProcessorConfiguration/DesiredProcessingUnits'
        ).text = 'inf'
        self.assert_refused(400, 'not a number', wrong.create)

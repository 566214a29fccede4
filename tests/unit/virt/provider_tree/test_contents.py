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

"""What is written about the compute node's own provider."""

import unittest

from nova_powervm.virt.provider_tree import contents


class RootInventoryTest(unittest.TestCase):
    def test_server_may_take_the_vcpu_of_all_processors(self):
        sixteen = contents.RootResource(16, 0)

        found = contents.root_inventory(
            {contents.VCPU: sixteen, contents.MEMORY_MB: sixteen},
            {contents.VCPU: 4.0, contents.MEMORY_MB: 1.5},
        )

        self.assertEqual(
            {contents.VCPU: 64, contents.MEMORY_MB: 16},
            {name: entry['max_unit'] for name, entry in found.items()},
        )

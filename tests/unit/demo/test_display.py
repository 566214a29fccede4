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

import unittest

from demo import cloud
from demo import display
from demo import expected_providers
from demo import host
from tests.unit.demo import samples

NODE = '0ab0c0d0-0000-4000-8000-000000000000'


def _provider(name, parent, traits, used=0):
    return cloud.Provider(
        uuid='1' + NODE[1:] if parent else NODE,
        name=name,
        parent=parent,
        root=NODE,
        inventories={'CUSTOM_GPU': expected_providers.INVENTORY}
        if parent
        else {},
        usages={'CUSTOM_GPU': used} if parent else {},
        traits=traits,
    )


ROOT = _provider('node', None, ['COMPUTE_NODE'])
CHILD = _provider(
    'PowerVM IOSlot node 21010020',
    NODE,
    ['CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE', 'OWNER_NOVA'],
    used=1,
)


class ProviderTreeTest(unittest.TestCase):
    def test_tree_draws_root_and_children(self):
        self.assertEqual(
            [
                'node',
                '|     uuid 0ab0c0d0-0000-4000-8000-000000000000',
                '|     traits COMPUTE_NODE',
                '+-- PowerVM IOSlot node 21010020',
                '      uuid 1ab0c0d0-0000-4000-8000-000000000000'
                '  parent 0ab0c0d0..  root 0ab0c0d0..',
                '      CUSTOM_GPU total 1 reserved 0 used 1',
                '      traits ~VENDOR_ID_10DE OWNER_NOVA',
                '(~ stands for CUSTOM_POWERVM_IOSLOT_)',
            ],
            display.tree([ROOT, CHILD]),
        )


class ServerTest(unittest.TestCase):
    SERVER = cloud.Server('id', 'one-gpu', 'instance-1', 'ACTIVE', '')

    def test_server_shows_slots_of_its_lpar_only(self):
        partition = host.Partition(
            'instance-1', 'uuid', 'running', ('21010020',)
        )
        slots = [
            samples.a_slot('21010020', owner='instance-1'),
            samples.a_slot('21010021'),
        ]

        text = '\n'.join(display.server(self.SERVER, partition, slots))

        self.assertIn('LPAR instance-1 uuid is running', text)
        self.assertNotIn('21010021', text)

    def test_server_without_lpar_says_so(self):
        text = '\n'.join(display.server(self.SERVER, None, []))

        self.assertIn('there is no LPAR instance-1', text)

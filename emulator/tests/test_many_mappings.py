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


"""A request with many new mappings is answered in time."""

from lxml import etree

from . import test_limits
from . import wire

VERSION = 'schemaVersion="V1_0"'


class ManyMappingsTest(wire.WireTestCase):
    def setUp(self):
        # Before the emulator starts its threads.
        self.steps = test_limits.Steps(self)
        super().setUp()

    def world_of(self, count):
        """Return a world with a number of disks, and a client for them."""
        disks = [
            {'name': f'disk{number}', 'capacity': 1} for number in range(count)
        ]
        vios = {
            'name': 'vios1',
            'state': 'running',
            'rmc_state': 'active',
            'memory': 4096,
            'processors': 1,
            'volume_groups': [
                {'name': 'pool', 'capacity': 1000, 'disks': disks}
            ],
        }
        client = {'name': 'vm1', 'memory': 1024, 'processors': 1}
        return {
            'systems': [
                {
                    'name': 'any',
                    'virtual_io_servers': [vios],
                    'partitions': [client],
                }
            ]
        }

    def post(self, count):
        """Map all disks of a new world; return the steps that it took."""
        self.control.load_world(self.world_of(count))
        path = f'{self.path_of("vios1")}?group=ViosSCSIMapping'
        document = self.get(path).content
        section = wire.child(document, 'VirtualSCSIMappings')
        client = f'{self.emulator.url}/rest/api/{self.path_of("vm1")}'
        for number in range(count):
            slots = 10 + number % 4
            section.append(
                etree.fromstring(
                    f'<VirtualSCSIMapping xmlns="{wire.UOM}" {VERSION}>'
                    f'<AssociatedLogicalPartition href="{client}"/>'
                    f'<ClientAdapter {VERSION}><VirtualSlotNumber>{slots}'
                    '</VirtualSlotNumber></ClientAdapter>'
                    f'<ServerAdapter {VERSION}><VirtualSlotNumber>{slots}'
                    '</VirtualSlotNumber></ServerAdapter>'
                    f'<Storage><VirtualDisk {VERSION}>'
                    f'<DiskName>disk{number}</DiskName>'
                    '</VirtualDisk></Storage></VirtualSCSIMapping>'
                )
            )
        self.steps.start()
        answer = self.ask('POST', path, document)
        steps = self.steps.stop()
        self.assertEqual(200, answer.status, answer.text[:2000])
        self.assertEqual(count, answer.text.count('<TargetName'))
        self.assertEqual(
            4, len(set(self.values(answer, 'ServerAdapter/AdapterName')))
        )
        self.assertEqual(
            count, len(set(self.values(answer, 'TargetDevice/*/TargetName')))
        )
        return steps

    def values(self, answer, path):
        """Return the values at a path of each mapping."""
        return [
            wire.child(mapping, path).text
            for mapping in answer.content.iter('{*}VirtualSCSIMapping')
        ]

    def test_steps_grow_as_number_of_new_mappings(self):
        few, many = self.post(50), self.post(200)
        # Four times as many; 16 times the steps would be quadratic.
        self.assertLess(many / few, 6)

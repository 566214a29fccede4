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

from nova_powervm.domain import network
from nova_powervm.virt import vlanrecords

UUID = '5487ce1e-af19-422a-99b8-a714e61a441c'
OURS = network.Vlan(UUID, 100)


class Instance(dict):
    """What vlanrecords asks an instance for."""

    def __init__(self, metadata=None, error=None):
        super().__init__()
        if metadata is not None:
            self['system_metadata'] = metadata
        self.uuid = 'uuid'
        self.saved = 0
        self._error = error

    @property
    def system_metadata(self):
        return self['system_metadata']

    def save(self):
        if self._error:
            raise self._error
        self.saved += 1


class MarksTest(unittest.TestCase):
    def test_only_marks_of_this_host_count(self):
        instance = Instance(
            {
                'image_os': 'linux',
                f'powervm_vlan:{UUID}:100': 'host1',
                f'powervm_vlan:{UUID}:200': 'host2',
                f'powervm_vlan:{UUID}:many': 'host1',
                'powervm_vlan': 'host1',
            }
        )

        self.assertEqual({OURS}, vlanrecords.marks(instance, 'host1'))

    def test_an_instance_without_its_metadata_has_none(self):
        self.assertEqual(set(), vlanrecords.marks(Instance(), 'host1'))

    def test_a_mark_is_written_once(self):
        instance = Instance({'image_os': 'linux'})
        bearer = vlanrecords.InstanceBearer(instance, 'host1')

        for _ in range(2):
            bearer.mark({OURS})

        self.assertEqual(1, instance.saved)
        self.assertEqual({OURS}, vlanrecords.marks(instance, 'host1'))
        self.assertIn('image_os', instance.system_metadata)

    def test_a_mark_that_can_not_be_written_fails_nothing(self):
        instance = Instance({}, RuntimeError('no database'))

        with self.assertLogs('nova_powervm.virt.vlanrecords') as logs:
            vlanrecords.InstanceBearer(instance, 'host1').mark({OURS})

        self.assertIn('no database', logs.output[0])

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
import unittest.mock

from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.virt import port_records

UUID = '5487ce1e-af19-422a-99b8-a714e61a441c'
OURS = f'vlan:{UUID}:100'

objects.register_all()


class Instance(dict):
    """What port_records asks an instance for."""

    def __init__(self, metadata=None):
        super().__init__()
        if metadata is not None:
            self['system_metadata'] = metadata
        self.uuid = 'uuid'

    @property
    def system_metadata(self):
        return self['system_metadata']


def keys(instance):
    """Give the keys of an instance for host1."""
    return set(port_records.NovaInstanceMetadata(instance, 'host1').read())


class MarksTest(unittest.TestCase):
    def test_marks_of_other_hosts_are_left_out(self):
        instance = Instance(
            {
                'image_os': 'linux',
                f'os_glance_powervm_vlan:{UUID}:100@host1': 'host1',
                f'os_glance_powervm_vlan:{UUID}:200@host2': 'host2',
                'image_ref': 'host1',
            }
        )

        self.assertEqual({OURS}, keys(instance))

    def test_instance_without_metadata_has_no_keys(self):
        self.assertEqual(set(), keys(Instance()))

    def test_unwritable_mark_is_logged_and_not_raised(self):
        instance = Instance({})
        self.enterContext(
            unittest.mock.patch.object(
                objects.Instance,
                'get_by_uuid',
                side_effect=RuntimeError('no database'),
            )
        )

        with self.assertLogs('nova_powervm.virt.port_records') as logs:
            port_records.NovaInstanceMetadata(instance, 'host1').add({OURS})

        self.assertIn('no database', logs.output[0])


class RecordTest(unittest.TestCase):
    """What is recorded of an instance, and a copy that was loaded before."""

    def setUp(self):
        super().setUp()
        self.recorded = {'image_os': 'linux', 'written_since': 'yes'}
        self.saved = 0
        self.loaded = self.load({'image_os': 'linux'})
        self.enterContext(
            unittest.mock.patch.multiple(
                objects.Instance,
                get_by_uuid=lambda *args, **kwargs: self.load(self.recorded),
                save=self.save,
            )
        )

    def load(self, metadata):
        instance = objects.Instance(uuid=uuids.instance)
        instance.system_metadata = dict(metadata)
        instance.obj_reset_changes()
        self.last = instance
        return instance

    def save(self):
        self.saved += 1
        self.recorded = dict(self.last.system_metadata)

    def test_mark_is_written_once(self):
        record = port_records.NovaInstanceMetadata(self.loaded, 'host1')

        for _ in range(2):
            record.add({OURS})

        self.assertEqual(1, self.saved)
        self.assertEqual({OURS}, keys(self.last))
        self.assertEqual({OURS}, keys(self.loaded))

    def test_moving_instance_has_same_mark_on_two_hosts(self):
        for host in ('host1', 'host2'):
            port_records.NovaInstanceMetadata(self.loaded, host).add({OURS})

        for host in ('host1', 'host2'):
            found = port_records.NovaInstanceMetadata(self.loaded, host).read()
            self.assertEqual({OURS}, set(found))

    def test_add_keeps_metadata_written_by_others(self):
        port_records.NovaInstanceMetadata(self.loaded, 'host1').add({OURS})

        self.assertEqual('yes', self.recorded['written_since'])
        self.assertEqual(self.recorded, self.loaded.system_metadata)
        self.assertEqual(set(), self.loaded.obj_what_changed())

    def test_add_keeps_unsaved_metadata_of_the_caller(self):
        self.loaded.system_metadata['mine'] = 'new'

        port_records.NovaInstanceMetadata(self.loaded, 'host1').add({OURS})

        self.assertNotIn('mine', self.recorded)
        self.assertEqual('new', self.loaded.system_metadata['mine'])
        self.assertEqual({'system_metadata'}, self.loaded.obj_what_changed())
        self.assertEqual({OURS}, keys(self.loaded))

    def test_remove_key_keeps_metadata_written_since(self):
        port_records.NovaInstanceMetadata(self.loaded, 'host1').add({OURS})
        records = port_records.NovaPortRecords('host1')
        self.recorded['written_later'] = 'yes'
        self.enterContext(
            unittest.mock.patch.object(
                objects.MigrationList, 'get_by_filters', return_value=[]
            )
        )
        with unittest.mock.patch.object(
            objects.InstanceList, 'get_by_host', return_value=[self.loaded]
        ):
            records.remove_key(OURS)

        self.assertEqual(
            {
                'image_os': 'linux',
                'written_since': 'yes',
                'written_later': 'yes',
            },
            self.recorded,
        )

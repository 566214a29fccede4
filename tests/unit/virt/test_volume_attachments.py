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

"""Which attachments of volumes an interrupted move has left to the driver."""

from unittest import mock

from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import errors
from nova_powervm.virt import volume_attachments

#: What Cinder answers of an attachment with a connector, without its paths.
MAPPED = {'data': {'target_lun': 7}, 'driver_volume_type': 'fibre_channel'}


class Disk(dict):
    """Nova's record of a volume, which it passes to the driver."""

    def __init__(self, volume_id, attachment_id='its'):
        super().__init__(attachment_id=attachment_id, mount_device='/dev/sdb')
        self.volume_id = volume_id
        self.refresh_connection_info = mock.Mock()


class RenewTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.cinder = mock.Mock()
        self.cinder.attachment_get.side_effect = self.answer
        self.stub_out('nova.volume.cinder.API', lambda: self.cinder)
        self.instance = objects.Instance(uuid=uuids.instance)
        self.connector = mock.Mock(return_value={'wwpns': ['c050']})
        self.paths = {}

    def answer(self, context, attachment_id):
        """Answer as Cinder, which knows the attachments of ``paths``."""
        return {
            'id': attachment_id,
            'connection_info': self.paths[attachment_id],
        }

    def renew(self, *disks):
        """Renew the attachments of disks; return those to complete."""
        return volume_attachments.renew(
            'context',
            self.instance,
            {'block_device_mapping': [*disks]},
            self.connector,
        )

    def test_only_what_is_incomplete_is_asked_for(self):
        self.paths = {
            'whole': {**MAPPED, 'status': 'attached'},
            'mapped': {**MAPPED, 'status': 'attaching'},
            'reserved': {},
        }
        # One of a time before attachments has none.
        disks = [Disk(name, name) for name in self.paths] + [Disk('old', None)]
        self.assertEqual(['mapped', 'reserved'], self.renew(*disks))
        self.cinder.attachment_update.assert_called_once_with(
            'context', 'reserved', {'wwpns': ['c050']}, '/dev/sdb'
        )
        self.assertEqual(
            [0, 1, 1, 0],
            [disk.refresh_connection_info.call_count for disk in disks],
        )
        volume_attachments.complete('context', ['mapped', 'reserved'])
        self.assertEqual(
            [mock.call('context', 'mapped'), mock.call('context', 'reserved')],
            self.cinder.attachment_complete.mock_calls,
        )

    def test_errors_of_cinder_are_told_without_its_words(self):
        self.paths = {'its': {}}
        self.cinder.attachment_update.side_effect = ValueError('secret')
        disk = Disk('v1')
        error = self.assertRaises(
            exception.VolumesImpossible, self.renew, disk
        )
        self.assertIn('secret', str(error))
        self.assertNotIn('secret', errors.for_users(error))
        disk.refresh_connection_info.assert_not_called()

    def test_host_that_connects_no_volumes_asks_for_none(self):
        self.paths = {'its': {}}
        self.connector.side_effect = exception.VolumesImpossible(
            where='', reason='no port'
        )
        error = self.assertRaises(
            exception.VolumesImpossible, self.renew, Disk('v1')
        )
        self.assertIn('no port', str(error))
        self.cinder.attachment_update.assert_not_called()

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

import logging
from unittest import mock

import ddt
import fixtures
from nova import exception as nova_exception
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.virt import errors
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import volume_attachments

#: What Cinder answers of an attachment with a connector, without its paths.
MAPPED = {'data': {'target_lun': 7}, 'driver_volume_type': 'fibre_channel'}


class Disk(dict):
    """Nova's record of a volume, which it passes to the driver."""

    def __init__(self, volume_id, attachment_id='its'):
        super().__init__(
            attachment_id=attachment_id,
            mount_device='/dev/sdb',
            connection_info={**MAPPED, 'serial': volume_id},
        )
        self.volume_id, self.attachment_id = volume_id, attachment_id
        self.refresh_connection_info = mock.Mock()


@ddt.ddt
class RenewTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.cinder = mock.Mock()
        self.cinder.attachment_get.side_effect = self.answer
        self.stub_out('nova.volume.cinder.API', lambda: self.cinder)
        self.instance = objects.Instance(uuid=uuids.instance)
        self.host = mock.Mock()
        self.host.volumes.elsewhere.return_value = frozenset()
        self.host.storage.kept_disks.return_value = ()
        self.connector = mock.Mock(return_value={'wwpns': ['c050']})
        self.useFixture(
            fixtures.MockPatchObject(
                instance_volumes.InstanceVolumes, 'connector', self.connector
            )
        )
        self.paths = {}

    def answer(self, context, attachment_id):
        """Answer as Cinder, which knows the attachments of ``paths``."""
        if attachment_id not in self.paths:
            raise nova_exception.VolumeAttachmentNotFound(
                attachment_id=attachment_id
            )
        return {
            'id': attachment_id,
            'connection_info': self.paths[attachment_id],
        }

    def renew(self, *disks):
        """Renew the attachments of disks; return those to complete."""
        self.cinder.attachment_complete.reset_mock()
        renewal = volume_attachments.Renewal(
            self.host, 'context', self.instance
        )
        renewal.begin({'block_device_mapping': [*disks]})
        renewal.complete()
        calls = self.cinder.attachment_complete.mock_calls
        return [attachment_id for _, (_, attachment_id), _ in calls]

    def assert_disconnected(self, *volume_ids):
        """Verify that the LPAR, off, had volumes disconnected first.

        Other volumes may get their former places on the array.
        """
        calls = self.host.mock_calls
        names = [name for name, _, _ in calls]
        self.assertLess(
            names.index('partitions.power_off'),
            names.index('volumes.disconnect'),
        )
        self.assertEqual(
            [*volume_ids],
            [
                args[0].id
                for name, args, _ in calls
                if name == 'volumes.disconnect'
            ],
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
        # An evacuation leaves the volume connected that it has unmapped.
        self.assert_disconnected('reserved')

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

    def test_disk_that_runs_elsewhere_keeps_its_volumes_there(self):
        self.paths = {'its': {}}
        disk = mock.Mock(spec=storage.PoolDisk, in_use=True)
        self.host.storage.kept_disks.return_value = [disk]
        self.assertRaises(exception.DiskInUse, self.renew, Disk('v1'))
        self.host.volumes.disconnect.assert_not_called()
        self.cinder.attachment_update.assert_not_called()

    @ddt.data('attached', 'attaching')
    def test_attachment_of_another_host_or_none_is_replaced(self, status):
        replaced = []
        self.stub_out(
            'nova_powervm.virt.record_changes.replace_attachment',
            lambda _, volume, former, new: replaced.append((volume, new)),
        )
        self.host.volumes.elsewhere.side_effect = lambda asked: {
            volume.id for volume in asked if volume.id != 'v3'
        }
        mapped = {**MAPPED, 'status': 'attached'}
        there = {**MAPPED, 'status': status}
        self.paths = {'there': there, 'here': mapped, 'spare': {}, 'new': {}}
        self.cinder.attachment_get_all.side_effect = lambda _, uuid, volume: [
            {'id': 'there', 'status': 'attached'},
            *(
                [{'id': 'spare', 'status': 'reserved'}]
                if volume == 'v2'
                else []
            ),
        ]
        self.cinder.attachment_create.return_value = {'id': 'new'}
        disks = Disk('v1', 'there'), Disk('v2', 'gone'), Disk('v3', 'here')
        first = ['there'] * (status == 'attaching')
        self.assertEqual([*first, 'new', 'spare'], self.renew(*disks))
        self.assertEqual([('v1', 'new'), ('v2', 'spare')], replaced)
        self.cinder.attachment_create.assert_called_once_with(
            'context', 'v1', uuids.instance
        )
        self.cinder.attachment_delete.assert_called_once_with(
            'context', 'there'
        )
        # The array maps it to one host at a time.
        names = [name for name, _, _ in self.cinder.mock_calls]
        if first:
            # Cinder would reserve no volume in this state.
            self.assertLess(
                names.index('attachment_complete'),
                names.index('attachment_create'),
            )
        self.assertLess(
            names.index('attachment_delete'), names.index('attachment_update')
        )
        self.assert_disconnected('v1', 'v2')

    def test_successor_is_recorded_before_cinder_deletes_an_attachment(self):
        replace = mock.Mock()
        self.stub_out(
            'nova_powervm.virt.record_changes.replace_attachment', replace
        )
        self.host.volumes.elsewhere.return_value = frozenset({'v1'})
        self.paths = {'its': MAPPED}
        self.cinder.attachment_get_all.return_value = []
        self.cinder.attachment_create.return_value = {'id': 'new'}
        for error, is_told in (
            (RuntimeError('down'), True),
            # The answer to the first of two requests was lost.
            (nova_exception.VolumeAttachmentNotFound(attachment_id=''), False),
        ):
            self.cinder.attachment_delete.side_effect = error
            try:
                self.renew(Disk('v1'))
            except exception.VolumesImpossible:
                self.assertTrue(is_told)
            else:
                self.assertFalse(is_told)
            replace.assert_called_once()
            replace.reset_mock()


@ddt.ddt
class LostAttachmentsTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.cinder = mock.Mock()
        self.cinder.attachment_get.side_effect = self.gone()
        self.cinder.attachment_create.return_value = {'id': 'new'}
        self.stub_out('nova.volume.cinder.API', lambda: self.cinder)
        self.disk = mock.Mock(
            is_volume=True, attachment_id='gone', volume_id='v1'
        )
        others = (
            mock.Mock(is_volume=False),
            mock.Mock(is_volume=True, attachment_id=None),
        )
        self.stub_out(
            'nova.objects.BlockDeviceMappingList.get_by_instance_uuid',
            lambda *_: [*others, self.disk],
        )
        self.instance = objects.Instance(
            uuid=uuids.instance,
            vm_state='error',
            task_state=None,
            migration_context=None,
        )
        self.find = mock.Mock(return_value=[self.instance])
        self.stub_out('nova.objects.InstanceList.get_by_filters', self.find)
        self.cinder.attachment_get_all.return_value = []
        self.stub_out(
            'nova.objects.BlockDeviceMapping.get_by_volume_and_instance',
            lambda *_: self.disk,
        )

    @staticmethod
    def gone():
        return nova_exception.VolumeAttachmentNotFound(attachment_id='gone')

    def replace(self, *, is_starting=False):
        """Look once; return the recorded attachment."""
        volume_attachments.replace_lost('host1', is_starting=is_starting)
        return self.disk.attachment_id

    def test_what_is_not_recorded_is_deleted_if_the_rest_is_there(self):
        present = [{'id': 'other'}]
        self.cinder.attachment_get_all.return_value = present
        volume_attachments.delete_others('context', self.instance)
        self.cinder.attachment_delete.assert_not_called()
        present.append({'id': 'gone'})
        volume_attachments.delete_others('context', self.instance)
        self.cinder.attachment_delete.assert_called_once_with(
            'context', 'other'
        )

    def test_server_in_error_gets_another_attachment(self):
        self.assertEqual('new', self.replace())
        self.cinder.attachment_create.assert_called_once_with(
            mock.ANY, 'v1', uuids.instance
        )
        self.disk.save.assert_called_once()
        filters = {'host': 'host1', 'deleted': False}
        filters['vm_state'] = ['error', 'shelved']
        self.assertEqual(filters, self.find.call_args.args[-1])

    @ddt.data(
        ('error', 'deleting', None),
        ('active', 'resize_reverting', None),
        ('active', None, objects.MigrationContext()),
    )
    @ddt.unpack
    def test_what_nova_may_be_doing_is_left_alone(self, vm, task, context):
        self.instance.vm_state, self.instance.task_state = vm, task
        self.instance.migration_context = context
        self.assertEqual('gone', self.replace())
        self.cinder.attachment_get.assert_not_called()
        # It has ended, if nova-compute has.
        self.assertEqual('new', self.replace(is_starting=True))

    def test_start_leaves_servers_alone_that_nothing_was_done_to(self):
        self.instance.vm_state = 'active'
        self.assertEqual('gone', self.replace(is_starting=True))
        self.cinder.attachment_get.assert_not_called()

    def test_what_nova_has_made_is_taken_and_what_it_has_recorded_stays(self):
        self.cinder.attachment_get_all.return_value = [
            {'id': 'there', 'status': 'attached'},
            {'id': 'spare', 'status': 'reserved'},
        ]
        self.assertEqual('spare', self.replace())
        self.cinder.attachment_create.assert_not_called()

        def answer(*_):
            # Meanwhile an evacuation has begun.
            self.disk = mock.Mock(attachment_id='its')
            raise self.gone()

        self.cinder.attachment_get.side_effect = answer
        self.assertEqual('its', self.replace())

    def test_user_is_warned_at_a_start_while_cinder_does_not_answer(self):
        logger = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.cinder.attachment_get.side_effect = ValueError('down')
        self.assertEqual('gone', self.replace())
        self.assertEqual('', logger.output)
        self.assertEqual('gone', self.replace(is_starting=True))
        self.assertIn('Do not reboot the server', logger.output)
        self.cinder.attachment_get.side_effect = None
        self.assertEqual('gone', self.replace())
        self.cinder.attachment_create.assert_not_called()

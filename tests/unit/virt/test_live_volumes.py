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

"""Which attachment is recorded after an interrupted live migration."""

from unittest import mock

import fixtures
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.lpar import live_migration
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_volumes
from nova_powervm.virt import lpar_locations
from nova_powervm.virt import record_changes
from nova_powervm.virt import system_metadata

OWN, FOREIGN = '10000090FA000001', '10000090FA000002'
RUNNING = live_migration.Sight('running')


def paths(*initiators):
    """Return what Cinder says of an attachment with a connector."""
    return {
        'driver_volume_type': 'fibre_channel',
        'data': {
            'target_wwn': ['50050768022121CA'],
            'target_lun': 0,
            'initiator_target_map': {
                wwpn.lower(): ['50050768022121CA'] for wwpn in initiators
            },
        },
    }


class LiveVolumesTest(test.NoDBTestCase):
    """A server with one volume."""

    def setUp(self):
        super().setUp()
        self.cinder = mock.Mock()
        self.stub_out('nova.volume.cinder.API', lambda: self.cinder)
        self.cinder.attachment_get.side_effect = lambda context, uuid: {
            'connection_info': self.present[uuid]
        }
        self.cinder.attachment_get_all.side_effect = lambda *args: [
            {'id': uuid} for uuid in self.present
        ]
        self.cinder.attachment_create.return_value = {'id': 'made'}
        self.host = mock.Mock(nodename='host1')
        self.host.volumes.connector.return_value = {'wwpns': [OWN.lower()]}
        self.host.locations.here.return_value = RUNNING
        self.host.records.hosted.return_value = [uuids.instance]
        self.instance = objects.Instance(
            uuid=uuids.instance,
            host='host1',
            task_state=None,
            vm_state='active',
            info_cache=None,
            system_metadata={},
        )
        self.flags(auth_type='password', group='cinder')
        self.move = mock.Mock(
            id=1,
            instance_uuid=uuids.instance,
            migration_type='live-migration',
            status='error',
            dest_compute='host2',
        )
        self.record = mock.Mock(
            is_volume=True, attachment_id='theirs', volume_id='v1'
        )
        for owner, name, answer in (
            (objects.MigrationList, 'get_by_filters', [self.move]),
            (objects.Instance, 'get_by_uuid', self.instance),
            (
                objects.BlockDeviceMappingList,
                'get_by_instance_uuid',
                [self.record],
            ),
        ):
            self.useFixture(
                fixtures.MockPatchObject(owner, name, return_value=answer)
            )
        self.recorded = self.patch(record_changes, 'record_attachment')
        self.marked = self.patch(system_metadata, 'write_live_migration')
        self.patch(instance_volumes.InstanceVolumes, 'connector')
        self.unbound = self.patch(instance_ports, 'unbind_ports')
        self.volumes = live_volumes.LiveVolumes(self.host)

    def patch(self, owner, name):
        """Replace a function; return what stands for it."""
        return self.useFixture(fixtures.MockPatchObject(owner, name)).mock

    def put_right(self, **present):
        """Put the record right; return what is recorded, and deleted.

        :param present: The attachments that Cinder has.
        """
        self.present = present
        self.recorded.reset_mock()
        self.cinder.attachment_delete.reset_mock()
        self.volumes.put_right()
        return (
            [call.args[-1] for call in self.recorded.mock_calls],
            [c.args[-1] for c in self.cinder.attachment_delete.mock_calls],
        )

    def test_attachment_of_this_host_is_recorded(self):
        found = self.put_right(ours=paths(OWN), theirs=paths(FOREIGN))
        self.assertEqual((['ours'], ['theirs']), found)
        self.unbound.assert_called_once_with(self.instance, 'host2')
        # It is done.
        self.assertEqual(([], []), self.put_right(ours=paths(OWN)))

    def test_reserved_attachments_stay(self):
        found = self.put_right(ours=paths(OWN), reserved={})
        self.assertEqual((['ours'], []), found)

    def test_missing_attachment_is_made(self):
        found = self.put_right(theirs=paths(FOREIGN))
        self.assertEqual((['made'], ['theirs']), found)
        self.cinder.attachment_complete.assert_called_once()

    def test_attachment_that_does_not_tell_its_host_stops_all(self):
        for doubtful in (paths(), paths(OWN, FOREIGN)):
            with self.assertLogs(live_volumes.LOG.logger, 'ERROR') as logged:
                found = self.put_right(ours=paths(OWN), other=doubtful)
            self.assertEqual(([], []), found)
            self.assertIn('Do not reboot it', logged.output[0])
        # The next cycle tries again.
        found = self.put_right(ours=paths(OWN), theirs=paths(FOREIGN))
        self.assertEqual((['ours'], ['theirs']), found)

    def test_what_is_under_way_is_not_touched(self):
        both = {'ours': paths(OWN), 'theirs': paths(FOREIGN)}
        moving = live_migration.Sight('migrating running')
        self.host.locations.here.return_value = moving
        self.assertEqual(([], []), self.put_right(**both))
        self.host.locations.here.return_value = RUNNING
        for task in ('migrating', 'rebuilding', 'resize_migrated'):
            self.instance.task_state = task
            self.assertEqual(([], []), self.put_right(**both))
        self.instance.task_state = None
        self.assertEqual((['ours'], ['theirs']), self.put_right(**both))

    def test_host_sees_again_what_the_lpar_comes_back_with(self):
        self.host.locations.here.return_value = None
        key = system_metadata.LIVE_MIGRATION
        key.write(self.instance.system_metadata, 'to host2')
        found = self.put_right(theirs=paths(FOREIGN), made=paths(OWN))
        self.assertEqual(([], []), found)
        self.host.volumes.find.assert_called_once()
        self.marked.assert_not_called()
        # It is back.
        self.host.locations.here.return_value = RUNNING
        found = self.put_right(theirs=paths(FOREIGN), made=paths(OWN))
        self.assertEqual((['made'], ['theirs']), found)
        self.marked.assert_called_once_with(self.instance, None)

    def test_server_that_may_still_begin_to_move_keeps_its_mark(self):
        self.instance.vm_state = 'error'
        key = system_metadata.LIVE_MIGRATION
        key.write(self.instance.system_metadata, 'to host2')
        found = self.put_right(ours=paths(OWN), theirs=paths(FOREIGN))
        self.assertEqual((['ours'], ['theirs']), found)
        self.host.disks.insert.assert_called_once()
        self.unbound.assert_not_called()
        self.marked.assert_not_called()

    def test_volume_that_is_just_attached_stays_as_it_is(self):
        self.record.attachment_id = 'reserved'
        self.assertEqual(([], []), self.put_right(reserved={}))
        self.cinder.attachment_create.assert_not_called()

    def test_other_move_has_its_own_attachments(self):
        self.move.migration_type = 'evacuation'
        both = {'ours': paths(OWN), 'theirs': paths(FOREIGN)}
        self.assertEqual(([], []), self.put_right(**both))

    def test_migration_refused_for_lack_of_credentials_changed_nothing(self):
        self.flags(auth_type=None, group='cinder')
        with self.assertNoLogs(live_volumes.LOG.logger, 'WARNING'):
            self.assertEqual(([], []), self.put_right(ours={}))
        self.cinder.attachment_get_all.assert_not_called()
        # It may have been killed after that.
        self.unbound.assert_called_once_with(self.instance, 'host2')

    def test_failed_migration_may_have_left_wrong_records(self):
        self.move.status = 'failed'
        found = self.put_right(ours=paths(OWN), theirs=paths(FOREIGN))
        self.assertEqual((['ours'], ['theirs']), found)

    def test_config_drive_comes_back_also_without_the_mark(self):
        for state, inserted in (('error', 1), ('active', 1), ('rescued', 0)):
            self.instance.vm_state = state
            self.host.disks.insert.reset_mock()
            self.put_right(ours=paths(OWN))
            self.assertEqual(inserted, self.host.disks.insert.call_count)
            self.volumes.note(uuids.instance)

    def test_only_unfinished_migrations_are_looked_at(self):
        self.move.status = 'completed'
        both = {'ours': paths(OWN), 'theirs': paths(FOREIGN)}
        self.assertEqual(([], []), self.put_right(**both))
        self.cinder.attachment_get_all.assert_not_called()

    def test_records_can_be_put_right_only_with_credentials(self):
        self.assertEqual('', live_volumes.LiveVolumes.obstacle())
        self.flags(auth_type=None, group='cinder')
        self.assertIn('[cinder]', live_volumes.LiveVolumes.obstacle())

    def test_host_cleans_up_without_one_that_is_lost(self):
        failed = live_migration.Sight('running', 'Migration_Failed')
        self.instance.system_metadata = {
            system_metadata.LIVE_MIGRATION.name: 'host2'
        }
        is_gone = self.patch(lpar_locations, 'is_gone')
        for is_lost in (False, True):
            is_gone.return_value = is_lost
            self.host.locations.here.side_effect = [failed, RUNNING]
            self.put_right(ours=paths(OWN))
            self.host.live_migrations.recover.assert_called_once_with(
                mock.ANY, force=is_lost
            )
            self.host.live_migrations.recover.reset_mock()
            self.volumes.note(uuids.instance)
        self.recorded.assert_called_once()

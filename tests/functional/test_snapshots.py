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

"""Snapshots and backups, through real Nova."""

import re
import threading

import fixtures

from nova_powervm.lpar import partition
from nova_powervm.powervm.disk import disk_reading
from tests import proofs
from tests.functional import base
from tests.functional import local_hosts
from tests.functional import pools


class SnapshotTestCase(local_hosts.LocalHostTestCase):
    """Makes images of servers."""

    def boot_written(self, **options):
        """Boot a server whose guest has written to its root disk."""
        server = self.boot(base.gpu_groups(1), disk=1, **options)
        self.write(server)
        return server

    def take(self, server, action='createImage', result='Success', **body):
        """Make an image; return it, or the reason of the failed event."""
        body = {'name': 'copy'} | body
        event = self.act(server, action, result, **body)
        if result != 'Success':
            self.assertEqual({}, self.copies())
            return event['details']
        (image,) = self.copies().values()
        return image

    def assert_runs(self, server):
        """Verify that a server runs with its disk."""
        self.assert_returned(server)
        self.assertEqual('running', self.lpar(server).state)


class PoolSnapshotTest(SnapshotTestCase):
    """The disks are in a pool, from where they are read at any time."""

    def setUp(self):
        super().setUp()
        self.start_local('host1', pools.world(), disk_driver='ssp')

    def test_images_of_servers_in_pool(self):
        self.tell_stories()

    @proofs.proves('operation.snapshot')
    def story_running_server_becomes_image_with_bytes_of_root_disk(self):
        server = self.boot_written(ephemeral=1)
        # Before, images had the console's path and the names of hosts.
        self.keep_all(server)

        image = self.take(server)

        self.assertEqual(local_hosts.GB, image['size'])
        self.assertEqual(pools.WRITTEN, self.uploads.written[image['id']])
        self.assertEqual(
            ('active', 'raw', 'bare'),
            (image['status'], image['disk_format'], image['container_format']),
        )
        self.assertEqual('snapshot', image['properties']['image_location'])
        self.assertEqual(server['tenant_id'], image['properties']['owner_id'])
        self.assert_runs(server)
        sent = re.findall(r'Sent (\d+) % of', self.logged())
        self.assertEqual(10, len(sent))
        self.assertEqual('100', sent[-1])
        self.assert_has_no_keys(image)

        # Of backups only the newest is kept.
        self.prepare()
        first, second = (
            self.take(server, 'createBackup', backup_type='daily', rotation=1)
            for _ in range(2)
        )
        self.assertNotEqual(first['id'], second['id'])
        self.assertEqual('raw', second['disk_format'])
        self.assertEqual('daily', second['properties']['backup_type'])
        self.assert_has_no_keys(second)

        self.prepare()
        self.delete_during_snapshot(server)

    def story_servers_become_images_at_once(self):
        servers = [self.boot((), disk=1, memory_mb=256) for _ in range(3)]

        for server in servers:
            self.api.post_server_action(
                server['id'], {'createImage': {'name': server['name']}}
            )
        for server in servers:
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': None}
            )

        self.assertEqual(
            {server['id'] for server in servers},
            {
                image['properties']['instance_uuid']
                for image in self.copies().values()
                if image['status'] == 'active'
            },
        )
        self.assertEqual(
            {self.instance(server).name for server in servers},
            {mapping['client'] for mapping in self.vios()['scsi_mappings']},
        )

    def delete_during_snapshot(self, server):
        """Delete a server, which ends its snapshot."""
        reading, deleting = threading.Event(), threading.Event()
        cancel = disk_reading.DiskReader.cancel

        def note_and_cancel(reader, lpar_uuid):
            deleting.set()
            cancel(reader, lpar_uuid)

        def wait_for_deletion(number):
            reading.set()
            deleting.wait(60)

        self.uploads.on_read = wait_for_deletion
        self.useFixture(
            fixtures.MockPatchObject(
                disk_reading.DiskReader, 'cancel', new=note_and_cancel
            )
        )
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'copy'}}
        )
        self.assertTrue(reading.wait(60))

        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)

        self.await_found(lambda: not self.copies(), 'the image stays')
        self.assertEqual([], self.vios()['scsi_mappings'])
        self.assertEqual({}, self.disks_of(server))

    @proofs.proves('operation.snapshot')
    def story_snapshots_that_fail_leave_guest_and_no_image(self):
        server = self.boot_written()

        def fail(number):
            raise ConnectionError('Glance is gone')

        self.uploads.on_read = fail
        reason = self.take(server, result='Error')
        self.assertIn('Glance did not take the image', reason)
        self.assertNotIn('Glance is gone', reason)
        self.assertIn('Glance is gone', self.logged())
        self.assert_runs(server)

        def delete(number):
            self.uploads.on_read = lambda number: None
            (image_id,) = self.copies()
            self.glance.delete(None, image_id)

        self.uploads.on_read = delete
        # Nova takes this for the end of a snapshot.
        self.act(server, 'createImage', name='copy')
        self.assertEqual({}, self.copies())
        self.assert_runs(server)

        self.refuse_second(server)
        self.assert_runs(server)

        record = self.instance(server)
        record.system_metadata['image_os_require_quiesce'] = 'True'
        record.save()
        self.assertIn('os_require_quiesce', self.take(server, result='Error'))
        self.assert_runs(server)
        self.stop(server)
        self.assertEqual('active', self.take(server)['status'])

        self.prepare()
        driver = self.computes['host1'].manager.driver
        driver.services.host.partitions.delete(
            partition.lpar_uuid(server['id'])
        )
        self.assertIn('not on the host', self.take(server, result='Error'))

    def refuse_second(self, server):
        """Begin a snapshot, ask for another one, and end the first."""
        first, second = threading.Event(), threading.Event()

        def wait(number):
            first.set()
            second.wait(60)

        self.uploads.on_read = wait
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'copy'}}
        )
        self.assertTrue(first.wait(60))
        # Nova's API refuses it unless an administrator sets the state.
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'second'}}
        )
        event = self._wait_for_action('createImage', server, 'Error')
        second.set()
        self.assertIn('The host is busy', event['details'])
        self.await_found(lambda: not self.copies(), 'an image stays')


class GroupSnapshotTest(SnapshotTestCase):
    """The disks are in volume groups: of a VIOS, or of nova-compute's."""

    def setUp(self):
        super().setUp()
        self.start_local('host1')

    @proofs.proves('operation.snapshot')
    def test_snapshot_of_group_of_other_server_needs_stopped_guest(self):
        server = self.boot_written()
        mapped = self.vios()['scsi_mappings']

        self.assertIn('Stop the server', self.take(server, result='Error'))
        self.assert_runs(server)

        self.stop(server)
        image = self.take(server)
        self.assertEqual(pools.WRITTEN, self.uploads.written[image['id']])
        self.assertEqual(mapped, self.vios()['scsi_mappings'])
        self.api.post_server_action(server['id'], {'os-start': None})
        self._wait_for_state_change(server, 'ACTIVE')
        self.assert_runs(server)

        # With a password, nova-compute need not run on the host.
        emulator = self.hosts['host1'].emulator
        self.restart_host(
            rest_username=emulator.username, rest_password=emulator.password
        )
        self.prepare()
        self.assertIn('not set up', self.take(server, result='Error'))
        self.assertIn('with a password', self.logged())
        self.assert_runs(server)

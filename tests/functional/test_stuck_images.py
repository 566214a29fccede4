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

"""What a kill of nova-compute leaves of images, and how it is ended.

Each story is a row of the page on stuck servers.
"""

from nova import context
from nova.network import neutron

from nova_powervm.virt import driver
from nova_powervm.virt import snapshots
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import local_hosts
from tests.functional import pools
from tests.functional import real_neutron

_DRIVER = driver.PowerVMDriver


class StuckImagesTest(local_hosts.LocalHostTestCase):
    """One host, whose disks are in a pool."""

    def setUp(self):
        super().setUp()
        self.threads = self.useFixture(killed_threads.Threads())
        self.ports = self.useFixture(real_neutron.RealNeutron())
        self.flags(rpc_response_timeout=10, shelved_offload_time=0)
        self.start_local(
            'host1',
            pools.world(),
            disk_driver='ssp',
            bridge_mappings=real_neutron.BRIDGES,
        )

    def test_images_end_as_the_page_says(self):
        self.tell_stories()

    def boot_written(self):
        self.port = self.ports.make_port()['id']
        server = self.boot(
            base.gpu_groups(1), disk=1, networks=[{'port': self.port}]
        )
        self.write(server)
        return server

    def kill_in(self, server, owner, function, action, after=None, **body):
        """Kill nova-compute in a function of an action; start it again."""
        with self.threads.killed(owner, function, after):
            self.api.post_server_action(server['id'], {action: body or None})
        self.restart_host()

    def kill_in_upload(self, server, action, **body):
        """Kill nova-compute while it uploads the bytes of a disk."""
        self.kill_in(server, snapshots._Upload, 'read', action, **body)

    def assert_task(self, server, expected):
        found = self.api.get_server(server['id'])
        self.assertEqual(expected, found['OS-EXT-STS:task_state'])

    def set_state(self, server):
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )

    def assert_whole(self, server):
        """Delete unfinished images, and verify that the server runs."""
        server = self._wait_for_server_parameter(
            server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        for image_id, image in self.copies().items():
            if image['status'] != 'active':
                self.assertEqual(
                    server['id'], image['properties']['instance_uuid']
                )
                self.glance.delete(None, image_id)
        self.assertEqual('running', self.lpar(server).state)
        port = self.ports.show_port(self.port)
        self.assertEqual(
            ('host1', 'pvm_sea'),
            (port['binding:host_id'], port['binding:vif_type']),
        )
        self.assertEqual(1, len(self.adapters(server)))
        self.assert_returned(server)
        self.assertEqual(pools.WRITTEN, self.written(server))
        slots = self.owned(server)
        self.assertEqual(1, len(slots))
        self.assertEqual(slots, self.slots_of(server['id']))

    def story_killed_in_snapshot_backup_or_shelve(self):
        server = self.boot_written()

        self.kill_in_upload(server, 'createImage', name='copy')
        self.assert_task(server, None)
        (image,) = self.copies().values()
        self.assertEqual('queued', image['status'])
        self.assert_whole(server)

        self.kill_in_upload(
            server,
            'createBackup',
            name='copy',
            backup_type='daily',
            rotation=1,
        )
        # Nova ends it where the upload had begun.
        self.set_state(server)
        self.assert_whole(server)

        self.kill_in_upload(server, 'shelve')
        self.assert_task(server, 'shelving_image_uploading')
        self.set_state(server)
        self.reboot_hard(server)
        self.assert_whole(server)

        self.kill_in(server, _DRIVER, 'destroy', 'shelve')
        self.assert_task(server, 'shelving_offloading')
        self.set_state_unbound(server)
        self.reboot_hard(server)
        self.assert_whole(server)

    def rebuild_from_copy(self, server):
        """Rebuild a server from the image of its shelve."""
        (image_id,) = self.copies()
        self.api.post_server_action(
            server['id'], {'rebuild': {'imageRef': image_id}}
        )

    def set_state_unbound(self, server):
        """Set the state of a server whose port Nova has unbound."""
        port = self.ports.show_port(self.port)
        self.assertEqual('unbound', port['binding:vif_type'])
        # Nova refreshes its cache of ports from time to time.
        neutron.API().get_instance_nw_info(
            context.get_admin_context(), self.instance(server)
        )
        self.set_state(server)

    def story_killed_while_unshelving(self):
        server = self.boot_written()
        slots, resources = self.owned(server), self.instance(server).resources
        self.act(server, 'shelve')
        # The server gets another device than it has had.
        other = self.boot(base.gpu_groups(1), disk=1)
        self.assertEqual(slots, self.owned(other))

        with self.threads.killed(_DRIVER, 'spawn', lambda found: True):
            self.api.post_server_action(server['id'], {'unshelve': None})
        # As in the middle of a slow one.
        self._run_periodics()
        self.assert_recorded(server)
        self._delete_server(other)
        # As an earlier version has left it.
        self.record(server, resources)
        self.restart_host()

        self.assertEqual('ERROR', self.api.get_server(server['id'])['status'])
        self.rebuild_from_copy(server)
        self.assert_whole(server)
        self.assert_recorded(server)

    def record(self, server, resources):
        """Let Nova have recorded other devices than Placement."""
        record = self.instance(server)
        record.resources = resources
        record.save()

    def assert_recorded(self, server):
        """Verify that Nova records the slots that a server's LPAR owns."""
        self.assertEqual(
            self.owned(server),
            {
                int(found.identifier, 16)
                for found in self.instance(server).resources
            },
        )

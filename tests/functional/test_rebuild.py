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

"""A rebuild that can't succeed is refused before any change."""

import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import task_states
from oslo_utils import uuidutils

from nova_powervm.virt import rebuild
from tests.functional import base
from tests.functional import complete_servers
from tests.functional import images


class RefusedRebuildTest(complete_servers.CompleteServerTestCase):
    """The server is unchanged, and the action's event gives the reason.

    What else refuses one: tests.ops.test_build_disks.
    """

    def setUp(self):
        super().setUp()
        self.start_shared_host(provision_vlans=False)
        self.other_tool.add_vlan(100)
        self.server, self.port = self.boot_complete_server()
        (self.index,) = self.allocated_slots(self.server)
        # Without a reason no new plan is made after this cycle.
        self._run_periodics()

    def prepare(self):
        self.before = self.all_of_it()
        self.status = self.api.get_server(self.server['id'])['status']

    def all_of_it(self):
        """Return what Nova, Placement and the host have of the server."""
        server = self.api.get_server(self.server['id'])
        record = self.instance(self.server)
        allocations = self._get_allocations_by_server_uuid(self.server['id'])
        return {
            'image': server['image']['id'],
            'properties': {
                key: value
                for key, value in record.system_metadata.items()
                if key.startswith('image_')
            },
            'allocations': {
                uuid: held['resources'] for uuid, held in allocations.items()
            },
            'lpar': self.lpar(self.server).uuid,
            # set_owner of the control plane does not mark slots as required.
            'slots': set(self.lpar(self.server).slots),
            'storage': self.storage_of(self.server),
            'adapters': self.adapters(self.server),
        }

    def refuse(self, image=None, **wanted):
        """Request a rebuild that is refused; return the reason."""
        self.control().clear_journal()
        reason = self.refuse_rebuild(
            self.server, image or self.new_image(), **wanted
        )
        self.assertEqual(
            [],
            [
                record['label']
                for record in self.control().journal()
                if record['method'] != 'GET'
                and not record['label'].startswith('Logon.')
            ],
        )
        server = self.api.get_server(self.server['id'])
        self.assertEqual(self.status, server['status'])
        self.assertIsNone(server['OS-EXT-STS:task_state'])
        return reason

    def new_image(self, **changes):
        """Create an image with unique contents."""
        return self.create_image(
            uuidutils.generate_uuid().encode() * 10000, **changes
        )

    def forget(self):
        """Assert that nothing has changed, after another cycle either."""
        self.assertEqual(self.before, self.all_of_it())
        self.assertIn(self.index, self.slot_providers())
        self._run_periodics()
        self.assertIn(self.index, self.slot_providers())

    def test_refused_rebuild_changes_nothing(self):
        self.tell_stories()
        self._rebuild_server(self.server, self.new_image())
        self.assertEqual('running', self.lpar(self.server).state)
        self.assertNotEqual(self.before['image'], self.all_of_it()['image'])
        self.assertEqual([self.index], self.allocated_slots(self.server))
        self.assertEqual({self.index: True}, self.lpar(self.server).slots)

    def story_rebuild_refuses_damaged_image(self):
        image = self.new_image(os_hash_value='0' * 128)
        self.assertIn('arrived damaged', self.refuse(image))

    def story_rebuild_refuses_to_preserve_ephemeral_disk(self):
        self.assertIn(
            'asks to preserve ephemeral disks, which a rebuild recreates',
            self.refuse(preserve_ephemeral=True),
        )

    def story_rebuild_from_same_image_refuses_missing_card(self):
        self.control().pull(f'{self.index:08X}')
        self.assertIn('cannot be used', self.refuse(self.image))
        self.plug_gpu(f'{self.index:08X}')
        self.control().set_owner(
            f'{self.index:08X}', self.lpar_uuid(self.server)
        )

    def story_rebuild_refuses_bridge_without_vlan(self):
        self.other_tool.remove_vlan(100)
        self.assertIn('does not carry VLAN 100', self.refuse())
        self.other_tool.add_vlan(100)

    def story_refused_rebuild_keeps_reference_to_deleted_image(self):
        # The image's properties that Nova copied to the server are lost.
        old = self.before['image']
        self.glance.delete(nova_context.get_admin_context(), old)
        image = self.new_image(os_hash_value='0' * 128)

        self.refuse(image)

        self.assertEqual(
            old, self.api.get_server(self.server['id'])['image']['id']
        )
        self.before['properties'] = self.all_of_it()['properties']
        self.assertEqual(
            old, self.before['properties']['image_base_image_ref']
        )

    def story_refused_rebuild_leaves_stopped_server_off(self):
        self._stop_server(self.server)
        self.status = 'SHUTOFF'
        image = self.create_image(images.qcow2(1024), disk_format='raw')

        self.assertIn('its bytes are qcow2', self.refuse(image))

        self.assertEqual('not activated', self.lpar(self.server).state)
        self._start_server(self.server)


class RebuildRecoveryTest(base.PowerVMTestCase):
    """Rebuilds that Nova's own actions interfere with."""

    def test_allocations_are_restored_for_rebuilds_unless_server_is_gone(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        manager = self.computes['host1'].manager
        refused = manager.driver._refused_rebuilds
        instance = self.instance(server)
        allocations = self._get_allocations_by_server_uuid(server['id'])

        def lose():
            refused.refuse(
                nova_context.get_admin_context(),
                instance,
                allocations,
                ValueError('something'),
            )
            self.placement.delete(f'/allocations/{server["id"]}')

        lose()
        self.assertEqual(
            self.image, instance.system_metadata[rebuild.IMAGE_KEY]
        )
        instance.task_state = task_states.REBUILDING
        instance.save()
        # Nova has not deleted the allocations yet.
        refused.restore_allocations()
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        instance.task_state = None
        instance.save()
        with fixtures.MockPatchObject(
            manager.reportclient,
            'put_allocations',
            side_effect=nova_exception.PlacementAPIConnectFailure(),
        ):
            refused.restore_allocations()
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

        self._run_periodics()

        self.assert_rebuild_recreates_lpar(server)
        self.assertEqual(
            {u: held['resources'] for u, held in allocations.items()},
            {
                u: held['resources']
                for u, held in self._get_allocations_by_server_uuid(
                    server['id']
                ).items()
            },
        )
        lose()
        self._delete_server(server)

        refused.restore_allocations()

        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def assert_rebuild_recreates_lpar(self, server):
        """Assert that a rebuild makes an LPAR that is missing."""
        lpar = self.lpar(server)
        self.control().set_partition(lpar.uuid, state='not activated')
        self.computes['host1'].manager.driver._services().partitions.delete(
            lpar.uuid
        )

        self._rebuild_server(server, self.image)

        self.assertEqual(dict(lpar.slots), self.lpar(server).slots)
        self.assertEqual('running', self.lpar(server).state)

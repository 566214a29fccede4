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
from neutronclient.common import exceptions as neutron_errors
from nova import context as nova_context
from nova.network import neutron
from oslo_utils import uuidutils

from nova_powervm.virt import builds
from nova_powervm.virt import record_changes
from tests import proofs
from tests.functional import base
from tests.functional import complete_servers
from tests.functional import images


class RebuildTest(complete_servers.CompleteServerTestCase):
    """The server is unchanged, and the action's event gives the reason.

    What else refuses one: tests.ops.test_build_disks. Placement would take
    the allocation of a one-time-use device back from nobody.
    """

    inventory = f'{base.GPUS}  one_time_use: true\n'

    def setUp(self):
        super().setUp()
        self.start_shared_host(provision_vlans=False)
        self.other_tool.add_vlan(100)
        self.server, self.port = self.boot_complete_server()
        # Keep it for all stories.
        self._booted.clear()
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
        super().forget()
        self.assertEqual(self.before, self.all_of_it())
        self.assertIn(self.index, self.slot_providers())
        self._run_periodics()
        self.assertIn(self.index, self.slot_providers())

    @proofs.proves('operation.rebuild')
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
        self.image = self.create_image(base.IMAGE)

    def story_refused_rebuild_leaves_stopped_server_off(self):
        self._stop_server(self.server)
        self.status = 'SHUTOFF'
        image = self.create_image(images.qcow2(1024), disk_format='raw')

        self.assertIn('its bytes are qcow2', self.refuse(image))

        self.assertEqual('not activated', self.lpar(self.server).state)
        self._start_server(self.server)

    # Rebuilds of a server that something else has changed

    def story_server_is_rebuilt_at_home_until_it_is_deleted(self):
        port = self.make_port()
        server = self.boot(base.gpu_groups(1), networks=[{'port': port['id']}])
        self.recreate_lpar(server)
        self.set_state_in_refused_rebuild(server)
        self.ask_neutron_nothing(server, port)
        self.delete_in_refused_rebuild(server)

    def delete_in_refused_rebuild(self, server):
        put_back = builds._put_back_image
        refused = []

        def delete_and_put_back(context, instance):
            self.api.delete_server(server['id'])
            put_back(context, instance)
            refused.append(instance)

        wanted = {'imageRef': self.image, 'preserve_ephemeral': True}
        with fixtures.MockPatchObject(
            builds, '_put_back_image', delete_and_put_back
        ):
            self.api.post_server_action(server['id'], {'rebuild': wanted})
            self._wait_until_deleted(server)

        self.assertIsNone(self.lpar(server))
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        # It is not saved, so Nova shows the server as being deleted.
        self.assertIn('task_state', refused[0].obj_what_changed())

    def set_state_in_refused_rebuild(self, server):
        """Set the state of a server, which keeps its image."""
        end = record_changes.end_refused_rebuild

        def set_state_and_end(instance):
            record = self._record(server['id'])
            record.task_state = None
            record.save()
            end(instance)

        other = self.create_image(uuidutils.generate_uuid().encode() * 10000)
        with fixtures.MockPatchObject(
            record_changes, 'end_refused_rebuild', set_state_and_end
        ):
            self.refuse_rebuild(server, other, preserve_ephemeral=True)

        after = self.api.get_server(server['id'])
        self.assertEqual(self.image, after['image']['id'])
        self.assertEqual('ACTIVE', after['status'])

    def recreate_lpar(self, server):
        """Rebuild a server whose LPAR is gone."""
        lpar = self.lpar(server)
        self.control().set_partition(lpar.uuid, state='not activated')
        self.computes['host1'].manager.driver.services.host.partitions.delete(
            lpar.uuid
        )

        self._rebuild_server(server, self.image)

        self.assertEqual(dict(lpar.slots), self.lpar(server).slots)
        self.assertEqual('running', self.lpar(server).state)

    def ask_neutron_nothing(self, server, port):
        """Rebuild a server without an answer of Neutron."""
        # Nova's cache has it active, and no event of it is to come.
        self.flags(vif_plugging_timeout=1)
        self.neutron._ports[port['id']]['status'] = 'DOWN'

        self._rebuild_server(server, self.image)

        self.assertEqual('running', self.lpar(server).state)
        with fixtures.MockPatchObject(
            neutron.API, '_get_instance_nw_info', silent
        ):
            self._rebuild_server(server, self.image)
        self.assertEqual('running', self.lpar(server).state)
        self.assertEqual(1, len(self.adapters(server)))


def silent(api, *args, **kwargs):
    """Fail as Nova does where Neutron does not answer."""
    raise neutron_errors.ConnectionFailed(reason='Neutron is down')

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

"""Shelving, offloading and unshelving, through real Nova."""

from nova import utils

from nova_powervm.virt import system_metadata
from tests import proofs
from tests.functional import base
from tests.functional import local_hosts
from tests.functional import one_time_use
from tests.functional import pools


class ShelveTest(
    local_hosts.LocalHostTestCase, one_time_use.OneTimeUseTestCase
):
    """A host with the group of a VIOS, and one with a group of its own."""

    def setUp(self):
        super().setUp()
        self.start_local('host1')
        self.start_local('host2', local_hosts.server_world())
        self.flags(shelved_offload_time=0)

    def test_servers_are_shelved_and_unshelved(self):
        self.tell_stories()

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        for host in self.hosts:
            for index in self.burned(host):
                self.release(index, host)
        self._run_periodics()

    def boot_written(self, **options):
        """Boot a server on the first host whose guest has written."""
        server = self.boot(
            base.gpu_groups(1),
            disk=1,
            request={'host': 'host1'},
            **options,
        )
        self.write(server)
        return server

    def name_as_before(self, server):
        """Let a host of before the first release have offloaded a server."""
        instance = self.instance(server)
        kept = instance.system_metadata
        for key in [key for key in kept if key.startswith('os_glance_')]:
            kept[key.removeprefix('os_glance_')] = kept.pop(key)
        self.assertIn(system_metadata.IMAGE.old, kept)
        instance.save()

    def refuse(self, server, words):
        """Ask for a shelve that is refused before the guest is stopped."""
        self.control().clear_journal()
        event = self.act(server, 'shelve', 'Error')

        self.assertIn(words, event['details'])
        self.assert_as_before(server)
        self.assertEqual(
            [],
            [
                found['path']
                for found in self.control().journal()
                if found['method'] in ('PUT', 'POST', 'DELETE')
                and not found['label'].startswith('Logon.')
            ],
        )
        # Nobody has a user's token to delete it.
        (left,) = self.copies().values()
        self.assertEqual('queued', left['status'])

    def assert_as_before(self, server):
        """Verify that a server runs, with its disk and its slot."""
        found = self.api.get_server(server['id'])
        self.assertEqual('ACTIVE', found['status'])
        self.assertEqual('running', self.lpar(server).state)
        self.assert_returned(server)
        self.assertEqual(pools.WRITTEN, self.written(server))
        self.assertEqual(1, len(self.owned(server)))

    @proofs.proves('device.shelve')
    def story_server_comes_back_on_another_host(self):
        server = self.boot_written()
        (used,) = self.owned(server)

        self.act(server, 'shelve')

        server = self.api.get_server(server['id'])
        self.assertEqual('SHELVED_OFFLOADED', server['status'])
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.disks())
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        self.assert_burned(used)
        (image_id,) = self.copies()
        self.name_as_before(server)

        with utils.temporary_mutation(self.admin_api, microversion='2.91'):
            self.admin_api.post_server_action(
                server['id'], {'unshelve': {'host': 'host2'}}
            )
        server = self._wait_for_state_change(server, 'ACTIVE')

        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(pools.WRITTEN, self.written(server, 'host2'))
        kept = self.instance(server).system_metadata
        self.assertIn(system_metadata.IMAGE.name, kept)
        self.assertNotIn(system_metadata.IMAGE.old, kept)
        (other,) = self.owned(server, 'host2')
        self.assert_burned(used)
        self.assert_burned(other, host='host2')
        self.assertEqual({}, self.copies())
        self.assertNotEqual(image_id, server['image']['id'])
        # Nova-compute itself has the volume group there.
        self.act(server, 'createImage', name='copy')
        (copy,) = self.copies()
        self.assertEqual(pools.WRITTEN, self.uploads.written[copy])
        # The record of the image is the original one.
        image = self.create_image(bytes(100), disk_format='iso')
        self.assertIn('iso', self.refuse_rebuild(server, image))
        self.assertEqual(
            self.image, self.api.get_server(server['id'])['image']['id']
        )

    @proofs.proves('device.shelve')
    def story_server_is_shelved_when_nothing_is_in_the_way(self):
        server = self.boot_written()
        self.fail_upload(server)

        self.flags(verify_glance_signatures=True, group='glance')
        self.refuse(server, 'must be signed')
        self.flags(verify_glance_signatures=False, group='glance')

        self.flags(shelved_offload_time=-1)
        slots = self.owned(server)
        self.act(server, 'shelve')
        self.assertEqual('not activated', self.lpar(server).state)
        self.assertEqual(slots, self.owned(server))
        self.assert_returned(server)
        self.act(server, 'unshelve')
        self.assert_as_before(server)

        self.act(server, 'shelve')
        self.act(server, 'shelveOffload')
        self.assertIsNone(self.lpar(server))
        self.assert_burned(*slots)

    def fail_upload(self, server):
        """Let an upload fail, after which the guest is started again."""

        def fail(number):
            raise ConnectionError('Glance is gone')

        self.uploads.on_read = fail
        event = self.act(server, 'shelve', 'Error')
        self.uploads.on_read = lambda number: None

        self.assertIn('Glance did not take the image', event['details'])
        self.assertIn('Glance is gone', self.logged())
        self.assert_as_before(server)
        self.assertEqual({}, self.copies())

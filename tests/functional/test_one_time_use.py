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

"""One-time-use devices are burned when they are used."""

import fixtures
from keystoneauth1 import exceptions as keystone

from nova_powervm.ops import claiming
from nova_powervm.tool.clean import deletions
from tests import proofs
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import one_time_use

INDEX = one_time_use.INDEX


class OneTimeUseTest(one_time_use.OneTimeUseTestCase):
    """A host with one-time-use devices, none of which is burned."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_one_time_use_devices_are_burned_when_used(self):
        self.tell_stories()

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        for index in self.burned():
            self.release(index)
        self._run_periodics()

    def boot_with_device(self, **options):
        """Boot a server with the first device."""
        return self.boot(one_time_use.gpu_group(), **options)

    def rebuild(self, server):
        """Rebuild a server, which keeps its device."""
        self._rebuild_server(server, self.create_image(b'another image'))
        self.assert_burned(INDEX)
        self.assertEqual({INDEX: True}, self.lpar(server).slots)

    @proofs.proves(
        'O2',
        'O4',
        'O6',
        'O7',
        'O9',
        'O12',
        'O14',
        'O15',
        'O34',
        'O43',
        'device.one-time-use',
    )
    def story_delete_leaves_device_burned_until_operator_releases_it(self):
        everything = set(self.slot_providers())
        self.assertEqual(everything, self.marked())
        self.assertEqual(set(), self.burned())

        server = self.boot_with_device()
        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assert_burned(INDEX)
        self._run_periodics()
        self.assert_burned(INDEX)
        root = self._get_provider_uuid_by_host('host1')
        self.assertEqual([f'in_tree={root}'], self.tree_queries_of_cycle())
        self.assert_burned(INDEX)

        self._delete_server(server)
        self._run_periodics()
        self.assert_burned(INDEX)
        self.assertIsNone(self.slot_owner(INDEX))
        self.assert_cleaning_hears_the_deletion_of(server)
        refused = self.boot_with_device(expected='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])

        # Nova's copy of the provider still says that it is reserved.
        self.release()
        server = self.boot_with_device()
        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assert_burned(INDEX)

        self._delete_server(server)
        self.release()
        self._run_periodics()
        self.assertEqual(set(), self.burned())
        self.assertEqual(everything, self.marked())

    def assert_cleaning_hears_the_deletion_of(self, server):
        """Assert that nova-powervm-clean accepts Nova's notification."""
        rule = deletions.Endpoint('host1', lambda: None).filter_rule
        taken = [
            sent['payload']['nova_object.data']['uuid']
            for sent in self.notifier.versioned_notifications
            if rule.match({}, sent['publisher_id'], sent['event_type'], {}, {})
        ]
        self.assertEqual([server['id']], taken)

    @proofs.proves('O22', 'device.one-time-use')
    def story_device_in_use_stays_burned(self):
        server = self.boot_with_device()
        before = self.generation(self.slot_providers()[INDEX]['uuid'])

        # A rebuild burns nothing ...
        self.rebuild(server)
        uuid = self.slot_providers()[INDEX]['uuid']
        self.assertEqual(before, self.generation(uuid))

        # ... but what was released, and does not wait for the next cycle.
        self.release()
        self.rebuild(server)
        self.assertIn('Burned the one-time-use device in', self.logged())

        self.release()
        self._run_periodics()
        self.assert_burned(INDEX)

        # Placement takes what is left out for 0.
        self.set_inventory(uuid, {'CUSTOM_GPU': {'total': 1, 'max_unit': 1}})
        self.assertEqual(set(), self.burned())
        self._run_periodics()
        self.assert_burned(INDEX)

        # The driver's own updates never leave it out.
        self.control().pull(f'{INDEX:08X}')
        self._run_periodics()
        self.assert_burned(INDEX)
        self.restart_host()
        self.assert_burned(INDEX)
        self._delete_server(server)
        self._run_periodics()
        self.assert_burned(INDEX)
        self.plug_gpu(f'{INDEX:08X}')

    @proofs.proves('O20', 'O33', 'device.one-time-use')
    def story_device_in_use_is_burned_once_its_paragraph_is_marked(self):
        self.restart_host(inventory=base.GPUS, publish_location_traits=False)
        self._run_periodics()
        server = self.boot_with_device()
        self.assertEqual(set(), self.burned())
        self.assertNotIn('IOSLOT_DRC_NAME', self.traits())

        self.restart_host(
            inventory=one_time_use.ONE_TIME_USE_GPUS,
            publish_location_traits=True,
        )
        self.assert_burned(INDEX)
        self.assertIn('IOSLOT_DRC_NAME', self.traits())

        # Taking the mark away does not clean what was used.
        self.restart_host(inventory=base.GPUS)
        self.assert_burned(INDEX)
        self.assertEqual({INDEX}, self.marked())
        self._delete_server(server)
        self._run_periodics()
        self.assert_burned(INDEX)

        self.release()
        self._run_periodics()
        self._run_periodics()
        self.assertEqual(set(), self.marked())
        self.restart_host(inventory=one_time_use.ONE_TIME_USE_GPUS)

    def cut_off(self, part):
        """Let the driver's requests to Placement fail, but not Nova's."""
        client = self.computes['host1'].manager.reportclient
        get = client.get

        def fail_or_get(url, *args, **kwargs):
            if part in url and kwargs.get('version') == '1.26':
                raise keystone.ConnectFailure('cut off')
            return get(url, *args, **kwargs)

        return fixtures.MockPatchObject(client, 'get', fail_or_get)

    def traits(self):
        """Return the traits of the device in words."""
        uuid = self.slot_providers()[INDEX]['uuid']
        return str(self._get_provider_traits(uuid))

    @proofs.proves('O37', 'device.one-time-use')
    def story_update_and_build_fail_while_placement_does_not_answer(self):
        with self.cut_off('in_tree'):
            self._run_periodics()
        log = self.logged()
        self.assertIn(
            'Error updating resources for node host1: Placement did not '
            'answer',
            log,
        )
        self.assertNotIn('Error updating resources for node host1.', log)
        for part in ('in_tree', '/inventories'):
            with self.cut_off(part):
                server = self.boot_with_device(expected='ERROR')
                self.assertIsNone(self.lpar(server))
                self.assertEqual([], self.disks())
                self.wait_until_unallocated(server)
            self.assertEqual(set(), self.burned())
            self._delete_server(server)
            # Nova keeps a claim whose update failed until its next cycle.
            self._run_periodics()

        server = self.boot_with_device()
        self.assert_burned(INDEX)
        image = self.create_image(b'another image')
        with self.cut_off('/inventories'):
            self.refuse_rebuild(server, image)
        # Nova's event shows the failure of the update that followed.
        self.assertIn('cannot be reserved', self.logged())
        self.assertEqual('running', self.lpar(server).state)

    @proofs.proves('device.one-time-use')
    def story_boot_killed_once_it_has_burned_leaves_device_burned(self):
        threads = self.useFixture(killed_threads.Threads())
        with threads.killed(claiming.BurnOps, 'burn', after=bool):
            server = self.start_boot(one_time_use.gpu_group())

        self.restart_host()

        self._wait_for_server_parameter(
            server, {'status': 'ERROR'}, wait_for_fault_key=False
        )
        self.assertIsNone(self.lpar(server))
        self._delete_server(self.api.get_server(server['id']))
        self.wait_until_unallocated(server)
        self.assert_burned(INDEX)

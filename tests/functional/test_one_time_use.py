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
from nova import context as nova_context
from oslo_utils import uuidutils

from nova_powervm.powervm.disk import localdisk
from tests.functional import base
from tests.functional import one_time_use
from tests.unit.tools import test_clean_and_release as clean

INDEX = one_time_use.INDEX


class OneTimeUseLifeCycleTest(one_time_use.OneTimeUseTestCase):
    """A one-time-use device from boot to release."""

    def test_delete_leaves_device_burned_until_operator_releases_it(self):
        self.start_host()
        everything = set(self.slot_providers())
        self.assertEqual(everything, self.marked())
        self.assertEqual(set(), self.burned())

        server = self.boot(one_time_use.gpu_group())
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
        self.assert_the_sample_takes_the_deletion_of(server)
        refused = self.boot(one_time_use.gpu_group(), expected='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])

        self.release()
        self._run_periodics()
        self.assertEqual(set(), self.burned())
        self.assertEqual(everything, self.marked())

    def assert_the_sample_takes_the_deletion_of(self, server):
        """Assert that the sample tool accepts Nova's notification."""
        rule = clean.sample.Endpoint(None, 'host1').filter_rule
        taken = [
            sent['payload']['nova_object.data']['uuid']
            for sent in self.notifier.versioned_notifications
            if rule.match({}, sent['publisher_id'], sent['event_type'], {}, {})
        ]
        self.assertEqual([server['id']], taken)

    def test_device_is_burned_before_lpar_is_created(self):
        self.start_host()
        self.control().add_fault(
            match='LogicalPartition.create', every=True, status=500
        )

        server = self.boot(one_time_use.gpu_group(), expected='ERROR')

        self.assertIsNone(self.lpar(server))
        self.assert_burned(INDEX)

    def test_device_released_between_cycles_is_burned_by_next_boot(self):
        self.start_host()
        self._delete_server(self.boot(one_time_use.gpu_group()))
        self.assert_burned(INDEX)

        # Nova's copy of the provider still says that it is reserved.
        self.release()
        server = self.boot(one_time_use.gpu_group())

        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assert_burned(INDEX)

    def test_rebuild_keeps_device_and_burns_nothing(self):
        self.start_host()
        server = self.boot(one_time_use.gpu_group())
        before = self.generation(self.slot_providers()[INDEX]['uuid'])

        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assert_burned(INDEX)
        self.assertEqual(
            before, self.generation(self.slot_providers()[INDEX]['uuid'])
        )

    def test_released_device_in_use_is_burned_again(self):
        self.start_host()
        server = self.boot(one_time_use.gpu_group())
        self.release()
        self._run_periodics()
        self.assert_burned(INDEX)

        # A rebuild does not wait for the next cycle.
        self.release()
        self._rebuild_server(server, self.create_image(b'another image'))
        self.assert_burned(INDEX)
        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assertIn('Burned the one-time-use device in', self.logged())

        self._run_periodics()
        self.assert_burned(INDEX)

    def test_device_in_use_is_burned_once_its_paragraph_is_marked(self):
        self.start_host(inventory=base.GPUS)
        server = self.boot(one_time_use.gpu_group())
        self.assertEqual(set(), self.burned())

        self.restart_host(inventory=one_time_use.ONE_TIME_USE_GPUS)
        self.assert_burned(INDEX)

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


class OneTimeUseRaceTest(one_time_use.OneTimeUseTestCase):
    """Concurrent changes that must not lose a burn."""

    def used(self):
        """Boot and delete a server, which leaves its device burned."""
        self._delete_server(self.boot(one_time_use.gpu_group()))
        self.assert_burned(INDEX)

    def delete_provider(self, index=INDEX):
        uuid = self.slot_providers()[index]['uuid']
        answer = self.placement.delete(f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status, answer.body)
        return uuid

    def test_update_without_reserved_does_not_release_device(self):
        self.start_host()
        server = self.boot(one_time_use.gpu_group())
        uuid = self.slot_providers()[INDEX]['uuid']

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

    def test_deleted_provider_is_recreated_clean_unless_device_is_in_use(self):
        self.start_host()
        self.used()
        before = self.delete_provider()

        # In the first cycle Nova fails before it calls the driver.
        self._run_periodics()
        self._run_periodics()
        self.assertNotEqual(before, self.slot_providers()[INDEX]['uuid'])
        self.assertEqual(set(), self.burned())

        # ... unless an instance uses the device.
        server = self.boot(one_time_use.gpu_group())
        answer = self.placement.delete(f'/allocations/{server["id"]}')
        self.assertEqual(204, answer.status, answer.body)
        self.delete_provider()
        self._run_periodics()
        self._run_periodics()
        self.assertTrue(
            INDEX not in self.slot_providers() or INDEX in self.burned()
        )

    def test_burn_survives_absence_of_slot_and_paragraph(self):
        self.start_host()
        self.used()
        self.control().pull(f'{INDEX:08X}')
        self._run_periodics()
        self.assert_burned(INDEX)

        self.plug_gpu(f'{INDEX:08X}')
        self._run_periodics()
        self.assert_burned(INDEX)

        self.restart_host(inventory='# nothing')
        self.assertEqual({INDEX}, set(self.slot_providers()))
        self.assert_burned(INDEX)
        self.restart_host(inventory=one_time_use.ONE_TIME_USE_GPUS)
        self.assert_burned(INDEX)

    def test_move_takes_allocation_of_burned_provider(self):
        self.start_host()
        server = self.boot(one_time_use.gpu_group())
        provider = self.slot_providers()[INDEX]['uuid']
        migration = uuidutils.generate_uuid()
        client = self.computes['host1'].manager.reportclient
        context = nova_context.get_admin_context()

        self.assertTrue(
            client.move_allocations(context, server['id'], migration)
        )
        self.assertIn(
            provider, self._get_allocations_by_server_uuid(migration)
        )
        self._run_periodics()
        self.assert_burned(INDEX)

        self.assertTrue(
            client.move_allocations(context, migration, server['id'])
        )
        self.assertIn(
            provider, self._get_allocations_by_server_uuid(server['id'])
        )
        self._run_periodics()
        self.assert_burned(INDEX)


class OneTimeUseWithoutPlacementTest(one_time_use.OneTimeUseTestCase):
    """Builds and updates fail while burns can't be read or written."""

    def cut_off(self, part):
        """Let the driver's requests to Placement fail, but not Nova's."""
        client = self.computes['host1'].manager.reportclient
        get = client.get

        def fail_or_get(url, *args, **kwargs):
            if part in url and kwargs.get('version') == '1.26':
                raise keystone.ConnectFailure('cut off')
            return get(url, *args, **kwargs)

        return fixtures.MockPatchObject(client, 'get', fail_or_get)

    def test_update_and_build_fail_while_placement_does_not_answer(self):
        self.start_host()
        with self.cut_off('in_tree'):
            self._run_periodics()
        log = self.stdlog.logger.output
        self.assertIn(
            'Error updating resources for node host1: Placement did not '
            'answer',
            log,
        )
        self.assertNotIn('Error updating resources for node host1.', log)
        for part in ('in_tree', '/allocations/', '/inventories'):
            with self.cut_off(part):
                server = self.boot(one_time_use.gpu_group(), expected='ERROR')
                self.assertIsNone(self.lpar(server))
                self.assertEqual([], self.disks())
                self.wait_until_unallocated(server)
            self.assertEqual(set(), self.burned())
            self._delete_server(server)
            # Nova keeps a claim whose update failed until its next cycle.
            self._run_periodics()

        server = self.boot(one_time_use.gpu_group())
        self.assert_burned(INDEX)
        image = self.create_image(b'another image')
        with self.cut_off('/inventories'):
            self.refuse_rebuild(server, image)
        # Nova's event shows the failure of the update that followed.
        self.assertIn('cannot be reserved', self.stdlog.logger.output)
        self.assertEqual('running', self.lpar(server).state)

    def test_spawn_reads_burn_back_after_lost_answer(self):
        self.start_host()
        client = self.computes['host1'].manager.reportclient
        put = client.put
        lost = []

        def put_and_lose(url, *args, **kwargs):
            answer = put(url, *args, **kwargs)
            if url.endswith('/inventories') and not lost:
                lost.append(url)
                raise keystone.ConnectTimeout('no answer')
            return answer

        with fixtures.MockPatchObject(client, 'put', put_and_lose):
            server = self.boot(one_time_use.gpu_group())
        self.assertTrue(lost)
        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.assert_burned(INDEX)


class RefusedBuildTest(one_time_use.OneTimeUseTestCase):
    """A build that fails before its LPAR gets the device burns nothing."""

    def test_failed_build_burns_no_device(self):
        self.start_host()
        self.tell_stories()

    def forget(self):
        super().forget()
        self.assertEqual(set(), self.burned())

    def story_invalid_memory_size_burns_no_device(self):
        self.boot(one_time_use.gpu_group(), expected='ERROR', memory_mb=300)

    def story_failed_ephemeral_disk_burns_no_device(self):
        self.control().add_fault(match='VolumeGroup.update', nth=2, status=500)
        self.boot(one_time_use.gpu_group(), expected='ERROR', ephemeral=1)

    def story_damaged_image_burns_no_device(self):
        image = self.create_image(b'an image', os_hash_value='00' * 64)
        self.boot(one_time_use.gpu_group(), expected='ERROR', image=image)

    def story_failed_root_disk_burns_no_device(self):
        self.control().add_fault(
            match='VolumeGroup.update', every=True, status=500
        )
        self.boot(one_time_use.gpu_group(), expected='ERROR')

    def story_card_pulled_during_build_is_not_burned(self):
        make_root = localdisk.LocalDisk.make_root

        def pull_and_make(disks, *args):
            self.control().pull(f'{INDEX:08X}')
            return make_root(disks, *args)

        with fixtures.MockPatchObject(
            localdisk.LocalDisk, 'make_root', pull_and_make
        ):
            self.boot(one_time_use.gpu_group(), expected='ERROR')
        self.plug_gpu(f'{INDEX:08X}')

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

"""The requests that a cycle of nova-compute makes."""

import os_traits
from nova import context as nova_context

from nova_powervm.virt.provider_tree import free_provider_reads
from tests.functional import base
from tests.functional import requests_seen

ALLOCATIONS = 'GET /resource_providers/{}/allocations'
FREE = 'GET /resource_providers?in_tree={}&resources=CUSTOM_GPU:1'
TREE = 'GET /resource_providers?in_tree={}'


class CostTestCase(base.PowerVMTestCase):
    def setUp(self):
        super().setUp()
        self.recorder = self.useFixture(
            requests_seen.Recorder(self.placement.fixture)
        )

    def cycle(self):
        """Run a periodic task; return its requests to host and Placement.

        Polls for events are not counted.
        """
        self.hear()
        self.recorder.take()
        self.control().clear_journal()
        self._run_periodics()
        asked = [
            (record['label'], record['status'])
            for record in self.control().journal()
            if record['label'] != 'Event.feed'
        ]
        return asked, self.recorder.take()

    def settle(self):
        """Run cycles until a new host makes no further changes."""
        changes = self.driver()._running.listener._changes
        for _ in range(500):
            if changes.believed:
                break
            base.time.sleep(0.02)
        self.cycle()

    def driver(self, name='host1'):
        return self.computes[name].manager.driver


class IdleCycleTest(CostTestCase):
    def test_unchanged_host_gets_no_request_and_no_new_plan(self):
        self.start_host(skip_free_provider_reads=False)
        self.settle()
        snapshot = self.driver()._running.host.last
        picture = self.driver()._settled._picture

        asked, sent = self.cycle()

        self.assertEqual([], asked)
        # One request for the root by the resource tracker, then one each.
        self.assertEqual([ALLOCATIONS] * (1 + 1 + 4), sent)
        self.assertIs(snapshot, self.driver()._running.host.last)
        self.assertIs(picture, self.driver()._settled._picture)

    def test_unchanged_resources_are_answered_304_without_events(self):
        self.start_host()
        self.settle()
        self.driver()._running.listener._changes.interrupted()
        self.cycle()
        self.driver()._running.listener._changes.interrupted()

        asked, _ = self.cycle()

        self.assertEqual(
            [('ManagedSystem.read', 304), ('VolumeGroup.read', 304)], asked
        )

    def test_change_is_published_in_next_cycle(self):
        self.start_host()
        self.settle()
        self.plug_gpu('21010040')

        self.cycle()

        self.assertIn(0x21010040, self.slot_providers())
        self.control().set_owner('21010040', 'archive')
        self.cycle()
        self.assertNotIn(0x21010040, self.slot_providers())
        self.assertEqual([], self.cycle()[0])

    def test_traits_changed_in_placement_are_restored(self):
        self.flags(resource_provider_association_refresh=1, group='compute')
        self.start_host()
        self.settle()
        provider = self.slot_providers()[0x21010020]['uuid']
        traits = set(self._get_provider_traits(provider))
        self._create_trait('CUSTOM_BY_HAND')
        self._set_provider_traits(
            provider, ['CUSTOM_BY_HAND', os_traits.OWNER_NOVA]
        )
        base.time.sleep(1.1)

        self.cycle()

        self.assertEqual(traits, set(self._get_provider_traits(provider)))


class RestartCostTest(CostTestCase):
    def test_restart_creates_no_traits_or_classes(self):
        self.start_host()
        self.recorder.take()

        self.restart_host()

        sent = self.recorder.take()
        self.assertEqual([], [r for r in sent if not r.startswith('GET')])
        self.assertEqual([], [r for r in sent if '/traits?' in r])

    def test_stop_ends_event_listener_thread(self):
        self.start_host()
        listener = self.driver()._running.listener
        self.assertTrue(listener._thread.is_alive())

        self.computes['host1'].stop()

        # Nova's fixture does not wait until a service has ended.
        listener._thread.join(10)
        self.assertFalse(listener._thread.is_alive())


class UnusedTraitsTest(CostTestCase):
    def traits(self):
        answer = self.placement.get(
            '/traits?name=startswith:CUSTOM_POWERVM_IOSLOT', version='1.6'
        )
        return set(answer.body['traits'])

    def test_traits_of_removed_slot_are_deleted(self):
        self.start_host()
        gone = {
            'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020',
            base.location_trait('U78D2.001.EMU0001-P1-C3'),
        }
        before = self.traits()
        self.assertLessEqual(gone, before)
        self.control().pull('21010020')
        self.cycle()
        # Traits are deleted outside Nova's lock, in the next cycle.
        self.assertEqual(before, self.traits())

        self.cycle()

        # The other traits describe the remaining cards as well.
        self.assertEqual(before - gone, self.traits())
        self.assertEqual([], [r for r in self.cycle()[1] if 'traits' in r])

    def test_traits_used_by_other_host_are_kept(self):
        self.start_host()
        self.start_host('host2')
        before = self.traits()
        self.control().pull('21010020')
        self.cycle()

        self.cycle()

        self.assertEqual(before, self.traits())
        self.assertEqual([], [r for r in self.cycle()[1] if 'DELETE' in r])


class DeletedProviderTest(CostTestCase):
    skipping = False

    def test_deleted_provider_is_recreated_in_next_cycle(self):
        self.start_host(skip_free_provider_reads=self.skipping)
        self.settle()
        uuid = self.slot_providers()[0x21010020]['uuid']
        self.placement.delete(f'/resource_providers/{uuid}')
        self.assertNotIn(0x21010020, self.slot_providers())

        self.cycle()
        if not self.skipping:
            # In the first cycle Nova itself fails.
            self.assertNotIn(0x21010020, self.slot_providers())
            self.cycle()

        self.assertIn(0x21010020, self.slot_providers())
        self.settle()
        self.assertNotIn(TREE, self.cycle()[1])


class DeletedProviderWithSkippingTest(DeletedProviderTest):
    skipping = True

    def test_deleted_provider_is_recreated_in_next_cycle(self):
        # A free provider is not read, so this is noticed on refresh only.
        self.start_host(skip_free_provider_reads=True)
        server = self.boot(base.gpu_groups(1))
        (used,) = [
            uuid
            for uuid in self._get_allocations_by_server_uuid(server['id'])
            if uuid != self._get_provider_uuid_by_host('host1')
        ]
        self.settle()
        self._delete_server(server)
        self.cycle()
        self.placement.delete(f'/resource_providers/{used}')
        self.assertEqual(3, len(self.slot_providers()))

        self.cycle()

        self.assertEqual(4, len(self.slot_providers()))


class SkipFreeReadsTest(CostTestCase):
    def client(self):
        return self.computes['host1'].manager.reportclient

    def original_and_replacement(self):
        """Return the allocations as nova reads them and as the option does."""
        context = nova_context.get_admin_context()
        original = type(self.client()).get_allocations_for_provider_tree
        return (
            original(self.client(), context, 'host1'),
            self.client().get_allocations_for_provider_tree(context, 'host1'),
        )

    def test_cycle_makes_three_requests_for_any_number_of_devices(self):
        self.start_host(skip_free_provider_reads=True)
        self.settle()

        asked, sent = self.cycle()

        self.assertEqual([], asked)
        self.assertEqual([ALLOCATIONS, FREE, ALLOCATIONS], sent)

    def test_allocations_equal_those_nova_reads(self):
        self.start_host(skip_free_provider_reads=True)
        self.boot(base.gpu_groups(1) | {'group_policy': 'none'})
        self.boot({})
        self.cycle()

        theirs, ours = self.original_and_replacement()

        self.assertEqual(2, len(theirs))
        self.assertEqual(theirs, ours)

    def test_withdrawn_and_reserved_providers_are_read(self):
        self.start_host(skip_free_provider_reads=True)
        server = self.boot(base.gpu_groups(1))
        (used,) = (
            int(provider['name'][-8:], 16)
            for provider in self.slot_providers().values()
            if provider['uuid']
            in self._get_allocations_by_server_uuid(server['id'])
        )
        self.control().pull(f'{used:08X}')
        self.cycle()

        theirs, ours = self.original_and_replacement()

        self.assertIn(server['id'], ours)
        self.assertEqual(theirs, ours)

    def test_provider_with_another_class_is_read(self):
        self.start_host(skip_free_provider_reads=True)
        self.settle()
        uuid = self.slot_providers()[0x21010020]['uuid']
        # Nova's copy of the provider is older than this.
        self.placement.put('/resource_classes/CUSTOM_OTHER', {}, version='1.7')
        generation = self.placement.get(f'/resource_providers/{uuid}').body[
            'generation'
        ]
        self.placement.post(
            f'/resource_providers/{uuid}/inventories',
            {
                'resource_class': 'CUSTOM_OTHER',
                'total': 1,
                'resource_provider_generation': generation,
            },
        )
        self.placement.put(
            f'/allocations/{base.uuidutils.generate_uuid()}',
            {
                'allocations': {uuid: {'resources': {'CUSTOM_OTHER': 1}}},
                'project_id': 'p',
                'user_id': 'u',
                'consumer_generation': None,
            },
            version='1.28',
        )

        theirs, ours = self.original_and_replacement()

        self.assertEqual(1, len(ours))
        self.assertEqual(theirs, ours)

    def test_option_is_ignored_with_pci_in_placement(self):
        self.flags(report_in_placement=True, group='pci')
        self.start_host(skip_free_provider_reads=True)

        self.assertNotIn(
            'get_allocations_for_provider_tree', vars(self.client())
        )
        self.assertIn(
            'skip_free_provider_reads is off: [pci]report_in_placement',
            self.stdlog.logger.output,
        )

    def test_option_is_ignored_with_untested_nova(self):
        self.useFixture(
            base.fixtures.MockPatchObject(
                free_provider_reads, 'TESTED', ('33.0',)
            )
        )
        self.start_host(skip_free_provider_reads=True)

        self.assertNotIn(
            'get_allocations_for_provider_tree', vars(self.client())
        )
        self.assertIn('this is nova 34.', self.stdlog.logger.output)

    def test_stop_restores_report_client(self):
        self.start_host(skip_free_provider_reads=True)
        self.assertIn('get_allocations_for_provider_tree', vars(self.client()))

        self.computes['host1'].stop()

        self.assertNotIn(
            'get_allocations_for_provider_tree', vars(self.client())
        )

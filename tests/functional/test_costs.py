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

"""The requests that cycles of nova-compute and moves of servers make."""

import pathlib
import re
import threading

import fixtures
from nova import context as nova_context
from oslo_utils import uuidutils

from nova_powervm.virt.provider_tree import free_provider_reads
from tests import proofs
from tests.functional import base
from tests.functional import moving
from tests.functional import one_time_use
from tests.functional import pools
from tests.functional import requests_seen
from tests.functional import test_volume_moves
from tests.functional import volumes
from tests.unit.docs import pages

ALLOCATIONS = 'GET /resource_providers/{}/allocations'
ROOM = 'GET /resource_providers?in_tree={}&resources=CUSTOM_GPU:1'
#: An idle cycle asks the host this.
UNCHANGED = [('ManagedSystem.read', 304), ('VolumeGroup.read', 304)]
#: Requests of a step of a move to each host and to Placement. The page on the
#: benchmark has them beside the fewest that would do.
MOVES = {
    'without a device': {
        'migrate': (7, 11, 19),
        'confirm the migration': (6, 0, 9),
        'revert the migration': (8, 11, 14),
        'migrate live': (27, 11, 18),
    },
    'with a one-time-use device': {
        'resize': (17, 0, 29),
        'confirm the resize': (0, 0, 13),
        'revert the resize': (15, 0, 18),
        'migrate': (7, 14, 26),
        'confirm the migration': (6, 0, 12),
        'revert the migration': (8, 11, 17),
    },
    'with two volumes': {
        'resize': (66, 0, 19),
        'confirm the resize': (0, 0, 10),
        'revert the resize': (62, 0, 14),
        'migrate': (32, 36, 19),
        'confirm the migration': (6, 0, 9),
        'revert the migration': (35, 26, 14),
        'migrate live': (36, 28, 18),
    },
}
#: Polls, what the event of an earlier step may lead to, and what a process
#: reads once.
_NOT_COUNTED = (
    'Event.feed',
    'LogicalPartition.feed',
    'LogicalPartition.job_template',
    'VirtualIOServer.job_template',
)


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
        self.recorder.take()
        self.control().clear_journal()
        self._run_periodics()
        asked = [
            (record['label'], record['status'])
            for record in self.control().journal()
            if record['label'] != 'Event.feed'
        ]
        return asked, self.recorder.take()

    def driver(self, name='host1'):
        return self.computes[name].manager.driver


class CycleCostTest(CostTestCase):
    """A host whose free providers Nova reads one by one."""

    def setUp(self):
        super().setUp()
        # Those of other tests in this process, which may have been killed.
        self._others = self.threads()
        self.start_host(skip_free_provider_reads=False)

    def test_cycle_makes_few_requests(self):
        self.tell_stories()

    def forget(self):
        """Let a cycle see what a story has freed."""
        super().forget()
        self._run_periodics()

    @proofs.proves('D73')
    def story_unchanged_host_answers_two_conditional_requests(self):
        host = self.driver().services.host.reader
        managed = host.last_or_read().system

        asked, sent = self.cycle()

        self.assertEqual(UNCHANGED, asked)
        # One for the root by Nova's resource tracker, then one for each.
        self.assertEqual([ALLOCATIONS] * (1 + 1 + 4), sent)
        # Nothing was parsed again.
        self.assertIs(
            managed,
            self.driver().services.host.reader.last_or_read().system,
        )

    def story_metrics_cost_no_request(self):
        _, sent = self.cycle()
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory, 'powervm.prom')
        self.restart_host(
            skip_free_provider_reads=False, metrics_file=str(path)
        )
        for _ in range(2):
            self._run_periodics()
        path.unlink()

        self.assertEqual((UNCHANGED, sent), self.cycle())

        self.assertIn('powervm_service_slots', path.read_text())
        self.restart_host(skip_free_provider_reads=False, metrics_file=None)

    def story_device_in_use_costs_one_more_request_to_placement(self):
        _, free = self.cycle()
        self.boot(base.gpu_groups(1))
        self.cycle()

        asked, sent = self.cycle()

        self.assertEqual(UNCHANGED, asked)
        # Whether the device is still allocated.
        self.assertEqual(
            free.count(ALLOCATIONS) + 1, sent.count(ALLOCATIONS), sent
        )

    def story_restart_creates_no_traits_or_classes(self):
        self.recorder.take()

        self.restart_host(skip_free_provider_reads=False)

        sent = self.recorder.take()
        self.assertEqual([], [r for r in sent if not r.startswith('GET')])
        self.assertEqual([], [r for r in sent if '/traits?' in r])

    def story_stopped_service_leaves_no_thread(self):
        # That of the service before may be about to end.
        self.await_found(
            lambda: len(self.threads() - self._others) == 1,
            'more than one listens',
        )
        (thread,) = self.threads() - self._others

        self.computes['host1'].stop()

        # Nova's fixture does not wait for the end of a service.
        thread.join(120)
        self.assertFalse(thread.is_alive())
        self.restart_host(skip_free_provider_reads=False)

    @staticmethod
    def threads():
        return {
            thread
            for thread in threading.enumerate()
            if thread.name == 'powervm-events'
        }


class SkipFreeReadsTest(CostTestCase):
    """A host whose free providers are not read."""

    def setUp(self):
        super().setUp()
        self.start_host(skip_free_provider_reads=True)

    def test_free_providers_are_not_read(self):
        self.tell_stories()

    def forget(self):
        """Let a cycle see what a story has freed."""
        super().forget()
        self._run_periodics()

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

    def story_cycle_sends_three_requests_for_any_number_of_devices(self):

        asked, sent = self.cycle()

        self.assertEqual(UNCHANGED, asked)
        self.assertEqual([ALLOCATIONS, ROOM, ALLOCATIONS], sent)

    def story_free_providers_alone_are_not_read(self):
        self.boot({})
        server = self.boot(base.gpu_groups(1))
        (used,) = (
            int(provider['name'][-8:], 16)
            for provider in self.slot_providers().values()
            if provider['uuid']
            in self._get_allocations_by_server_uuid(server['id'])
        )
        theirs, ours = self.original_and_replacement()
        self.assertEqual(2, len(theirs))
        self.assertEqual(theirs, ours)

        # One that is withdrawn and reserved.
        self.control().pull(f'{used:08X}')
        self.cycle()

        theirs, ours = self.original_and_replacement()
        self.assertIn(server['id'], ours)
        self.assertEqual(theirs, ours)
        self._delete_server(server)
        self.plug_gpu(f'{used:08X}')

    def story_provider_with_another_class_is_read(self):
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
        consumer = base.uuidutils.generate_uuid()
        self.placement.put(
            f'/allocations/{consumer}',
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
        self.placement.delete(f'/allocations/{consumer}')
        self.client().clear_provider_cache()

    def story_option_is_ignored_with_pci_in_placement_and_untested_nova(self):
        self.flags(report_in_placement=True, group='pci')
        self.restart_host(skip_free_provider_reads=True)
        self.assert_ignored('is off: [pci]report_in_placement')
        self.flags(report_in_placement=False, group='pci')

        with fixtures.MockPatchObject(
            free_provider_reads, 'TESTED', ('33.0',)
        ):
            self.restart_host(skip_free_provider_reads=True)
        self.assert_ignored('this is nova 34.')
        self.restart_host(skip_free_provider_reads=True)

    def assert_ignored(self, words):
        """Assert that the option replaces nothing, and that a warning says so.

        :param words: Its reason.
        """
        self.assertNotIn(
            'get_allocations_for_provider_tree', vars(self.client())
        )
        self.assertIn(words, self.logged())

    def story_stop_restores_report_client(self):
        self.assertIn('get_allocations_for_provider_tree', vars(self.client()))

        self.computes['host1'].stop()

        self.assertNotIn(
            'get_allocations_for_provider_tree', vars(self.client())
        )
        self.restart_host(skip_free_provider_reads=True)

    def story_deleted_provider_is_recreated(self):
        # A free provider is not read, so only one that was used is missed
        # before Nova's refresh.
        server = self.boot(base.gpu_groups(1))
        (used,) = [
            uuid
            for uuid in self._get_allocations_by_server_uuid(server['id'])
            if uuid != self._get_provider_uuid_by_host('host1')
        ]
        self.cycle()
        self._delete_server(server)
        self.cycle()
        self.placement.delete(f'/resource_providers/{used}')
        self.assertEqual(3, len(self.slot_providers()))

        self.cycle()

        self.assertEqual(4, len(self.slot_providers()))


class MoveCostTest(
    one_time_use.OneTimeUseTestCase,
    moving.MovingTestCase,
    volumes.VolumesTestCase,
    pools.PoolTestCase,
    CostTestCase,
):
    """Two hosts with a pool and four one-time-use devices each.

    Each has two Virtual I/O Servers that reach an array.
    """

    def setUp(self):
        super().setUp()
        self.flags(auth_type='password', group='cinder')
        self.start_site(described=[*map(test_volume_moves.world, (1, 2))])

    def test_moves_make_these_requests(self):
        found = {}
        for kind, groups, number in zip(
            MOVES, ({}, base.gpu_groups(1), {}), (0, 0, 2), strict=True
        ):
            for host in self.hosts:
                self.release_all(host)
            self._run_periodics()
            self.server = self.boot(groups, disk=1, request={'host': 'host1'})
            for _ in range(number):
                self.attach(self.server, uuidutils.generate_uuid())
            found[kind] = {}
            # A resize on the host makes fewer without a device.
            resizes = self.resizes(groups) if groups or number else ()
            for step, asked in (*resizes, *self.migrations()):
                found[kind].setdefault(step, asked)
            if not groups:
                found[kind]['migrate live'] = self.requests_of_live_migration()
            self._delete_server(self.server)
        self.assertEqual(MOVES, found)
        page = pages.documents()['contributor/benchmark']
        for kind, steps in MOVES.items():
            for step, (first, second, placement) in steps.items():
                row = f'\n   {kind}, {step}, {first}, '
                (floors,) = re.findall(
                    f'{row}(.*), {second}, (.*), {placement}\n', page
                )
                for floor, number in zip(floors, (first, second), strict=True):
                    self.assertLessEqual(int(floor), number, row)

    def resizes(self, groups):
        """Resize the server on its host; yield each step and its requests."""
        self.enable_second('disabled')
        for memory_mb, end in ((1024, 'confirm'), (2048, 'revert')):
            yield (
                'resize',
                self.requests_of(self.resize, groups, memory_mb=memory_mb),
            )
            yield f'{end} the resize', self.requests_of(getattr(self, end))
        self.enable_second('enabled')

    def enable_second(self, status):
        """Let the second host be one that Nova builds on, or not."""
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(service['id'], {'status': status})

    def migrations(self):
        """Migrate the server; yield each step and its requests."""
        for end in ('revert', 'confirm'):
            yield 'migrate', self.requests_of(self.migrate)
            yield f'{end} the migration', self.requests_of(getattr(self, end))

    def requests_of_live_migration(self):
        """Migrate the server back, live; return the number of requests."""
        name = self.server['OS-EXT-SRV-ATTR:instance_name']
        self.control('host2').set_partition(name, rmc_state='active')
        # Nova ends with a cycle, which would publish what is left of the pool.
        self._run_periodics()
        second, first, placement = self.requests_of(self.migrate_live)
        return first, second, placement

    def migrate_live(self, server):
        """Migrate the server live; return it."""
        live = {'host': None, 'block_migration': False}
        manager = self.computes['host2'].manager
        last = manager._delete_allocation_after_move
        ended = threading.Event()

        def act_and_tell(*arguments):
            last(*arguments)
            ended.set()

        # Nova completes the migration before its last requests.
        with fixtures.MockPatchObject(
            manager, last.__name__, side_effect=act_and_tell
        ):
            self.admin_api.post_server_action(
                server['id'], {'os-migrateLive': live}
            )
            self.assertTrue(ended.wait(60))
        return self._wait_for_server_parameter(
            server,
            {'OS-EXT-SRV-ATTR:host': 'host1', 'OS-EXT-STS:task_state': None},
        )

    def requests_of(self, work, *arguments, **options):
        """Do something with the server; return the number of its requests."""
        self.recorder.take()
        for host in self.hosts:
            self.control(host).clear_journal()
        self.server = work(self.server, *arguments, **options)
        asked = (
            sum(
                record['label'] not in _NOT_COUNTED
                for record in self.control(host).journal()
            )
            for host in self.hosts
        )
        return *asked, len(self.recorder.take())

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
"""Servers are resized on the host where they are."""

import threading

import fixtures
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi
from nova.compute import task_states
from nova.scheduler.client import report

from nova_powervm.ops import resize
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import moving
from tests.functional import one_time_use

#: Slots with further GPUs.
MORE = ('21010038', '21010039')


class ResizeTest(moving.MovingTestCase):
    """One host with local disks."""

    def setUp(self):
        super().setUp()
        self.start_host()
        for index in MORE:
            self.plug_gpu(index)

    def prepare(self):
        # Nova releases what a story's server was claiming in the next cycle.
        self._run_periodics()

    def test_server_is_resized_within_host(self):
        self.tell_stories()

    def test_cold_migration_of_local_disks_is_refused(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        self.start_host('host2')
        before = self.host_state()
        reason = self.refuse_move(server, 'migrate')
        self.assertIn('not in a shared storage pool', reason)
        self.assertEqual(before, self.host_state())

    def story_device_is_exchanged_and_back(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        (old,) = self.owned(server)
        before = self.document(server)
        bytes_before = self.disk_of(server)

        server = self.resize(
            server, base.gpu_groups(1), memory_mb=1024, vcpu=2
        )

        (new,) = self.owned(server)
        self.assertNotEqual(old, new)
        self.assertEqual({new}, self.slots_of(server['id']))
        self.assertEqual({old}, self.slots_of(self.migration_uuid(server)))
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual((1024, 2), (lpar.memory_mb, lpar.vcpus))
        self._run_periodics()
        self.assertEqual({new}, self.owned(server))

        server = self.revert(server)

        self.assertEqual({old}, self.owned(server))
        self.assertEqual({old}, self.slots_of(server['id']))
        self.assertEqual(before, self.document(server))
        self.assertEqual(bytes_before, self.disk_of(server))
        self.assertEqual('running', self.lpar(server).state)

    def story_resize_to_two_devices_is_confirmed(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        (old,) = self.owned(server)
        server = self.resize(
            server,
            base.gpu_groups(1) | base.gpu_groups(2) | {'group_policy': 'none'},
            disk=3,
        )
        self.assertEqual(2, len(self.owned(server)))
        self.assertNotIn(old, self.owned(server))
        (disk,) = self.disks()
        self.assertEqual(1, float(disk['capacity']))
        server = self.confirm(server)
        self.assertEqual(2, len(self.owned(server)))
        self.assertEqual(self.owned(server), self.slots_of(server['id']))
        self.assertIsNone(self.slot_owner(old))
        (disk,) = self.disks()
        self.assertEqual(3, float(disk['capacity']))

    def story_device_is_added_and_removed(self):
        server = self.boot({}, disk=1)
        server = self.confirm(self.resize(server, base.gpu_groups(1)))
        self.assertEqual(1, len(self.owned(server)))
        server = self.confirm(self.resize(server))
        self.assertEqual(set(), self.owned(server))
        self.assertEqual('running', self.lpar(server).state)

    def story_revert_that_fails_at_once_frees_the_old_device_in_the_end(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        server = self.resize(server, base.gpu_groups(1))
        migration, new = self.migration_uuid(server), self.owned(server)
        self.control('host1').add_fault(
            match='LogicalPartition.read', status=500
        )
        self.revert(server, 'ERROR')
        self.assertIn('Reboot the server hard', self.fault(server))
        self.control('host1').clear_faults()
        server = self.reboot_hard(server)
        self.assertEqual(1, len(self.slots_of(migration)))
        self.restart_host()
        self.assertEqual(set(), self.slots_of(migration))
        self.assertEqual(new, self.slots_of(server['id']))
        self.assertEqual(new, self.owned(server))

    def story_guest_that_a_killed_resize_has_not_stopped_runs_on(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        before = self.document(server)
        threads = self.useFixture(killed_threads.Threads())
        killed = threading.Event()

        def die(*_, **__):
            killed.set()
            threads.kill()

        with fixtures.MockPatchObject(resize.ResizeOps, 'stop', new=die):
            self.api.post_server_action(
                server['id'],
                {'resize': {'flavorRef': self.make_flavor(memory_mb=1024)}},
            )
            self.assertTrue(killed.wait(60))
            threads.revive()
        self.control('host1').clear_journal()
        # The LPAR's share of processors is not that of the flavor any more.
        self.restart_host(proc_units_factor=0.5)
        server = self.api.get_server(server['id'])
        self.assertEqual('ACTIVE', server['status'])
        self.assertIsNone(server['OS-EXT-STS:task_state'])
        self.assertEqual(before, self.document(server))
        self.assertNotIn('PowerOff', str(self.control('host1').journal()))

    def story_failed_revert_keeps_no_device_from_others(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        server = self.resize(server, base.gpu_groups(1))
        (new,) = self.owned(server)
        self.control('host1').plan_job('PowerOn', 'HSCL0000 No.')
        server = self.revert(server, 'ERROR')
        (old,) = self.owned(server)
        self._run_periodics()
        free = self.slot_providers().keys() - {old}
        others = [self.boot(base.gpu_groups(1)) for _ in free]
        self.assertEqual(
            free, set().union(*(self.owned(other) for other in others))
        )
        self.assertIn(new, free)

    def story_allocations_that_placement_kept_back_are_returned(self):
        server = self.boot({}, disk=1, memory_mb=512)
        before = self._get_allocations_by_server_uuid(server['id'])
        move = report.SchedulerReportClient.move_allocations
        with fixtures.MockPatchObject(
            report.SchedulerReportClient,
            'move_allocations',
            new=lambda client, context, consumer, target: (
                target != server['id']
                and move(client, context, consumer, target)
            ),
        ):
            self.refuse_move(
                server,
                'resize',
                flavorRef=self.make_flavor(
                    base.gpu_groups(1), memory_mb=1024, ephemeral=1
                ),
            )
        self.assertEqual(1, len(self.slots_of(server['id'])))
        self.restart_host()
        after = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual(
            [found['resources'] for found in before.values()],
            [found['resources'] for found in after.values()],
        )
        self.assertEqual(
            {},
            self._get_allocations_by_server_uuid(self.migration_uuid(server)),
        )

    def story_stopped_server_is_resized_and_stays_stopped(self):
        server = self._stop_server(self.boot(base.gpu_groups(1), disk=1))
        server = self.resize(server, base.gpu_groups(1), memory_mb=1024)
        self.assertEqual('not activated', self.lpar(server).state)
        server = self.confirm(server, 'SHUTOFF')
        self.assertEqual('not activated', self.lpar(server).state)
        server = self._start_server(server)
        self.assertEqual(1024, self.lpar(server).memory_mb)

    def story_stopped_server_is_reverted_to_stopped(self):
        server = self._stop_server(self.boot(base.gpu_groups(1), disk=1))
        (old,) = self.owned(server)
        server = self.resize(server, base.gpu_groups(1), memory_mb=1024)
        server = self.revert(server, 'SHUTOFF')
        self.assertEqual({old}, self.owned(server))
        self.assertEqual('not activated', self.lpar(server).state)

    def story_swap_disk_is_resized_and_reverted(self):
        server = self.boot({}, disk=1, ephemeral=1, swap=1024)
        sizes = self.disk_sizes()
        server = self.resize(server, disk=1, ephemeral=1, swap=2048)
        self.assertEqual(sorted([1.0, 1.0, 2.0]), self.disk_sizes())
        self.assertEqual(3, len(self.mappings()))
        server = self.revert(server)
        self.assertEqual(sizes, self.disk_sizes())
        self.assertEqual(3, len(self.mappings()))
        server = self.confirm(self.resize(server, disk=1, ephemeral=1))
        self.assertEqual([1.0, 1.0], self.disk_sizes())
        self.assertEqual(2, len(self.mappings()))

    def story_server_is_deleted_while_it_waits_for_confirmation(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        server = self.resize(server, base.gpu_groups(1))
        migration = self.migration_uuid(server)
        self._delete_server(server)
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.disks())
        self.assertEqual(set(), self.slots_of(migration))

    def story_hard_reboot_grows_disk_after_a_deletion_was_forgotten(self):
        server = self.boot({}, disk=1)
        server = self.resize(server, disk=2)
        context = nova_context.get_admin_context()
        record = objects.Instance.get_by_uuid(context, server['id'])
        record.task_state = task_states.DELETING
        record.save()
        # As Nova's API does before it deletes a server.
        rpcapi.ComputeAPI().confirm_resize(
            context,
            record,
            objects.Migration.get_by_instance_and_status(
                context, server['id'], 'finished'
            ),
            'host1',
            cast=False,
        )
        self.assertEqual('ACTIVE', self.api.get_server(server['id'])['status'])
        self.assertEqual([1.0], self.disk_sizes())
        self.reboot_hard(server)
        self.assertEqual([2.0], self.disk_sizes())

    def story_smaller_root_disk_is_refused(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        # Nova's API refuses a size below that of the first flavor.
        server = self.confirm(self.resize(server, base.gpu_groups(1), disk=2))
        before = self.host_state()
        reason = self.refuse_move(
            server, 'resize', flavorRef=self.make_flavor(disk=1)
        )
        self.assertIn('root disk of 2 GB cannot shrink to 1 GB', reason)
        self.assertEqual(before, self.host_state())
        self._run_periodics()

    def story_root_disk_of_image_size_gets_no_other_size(self):
        # Nova's API refuses the reverse.
        server = self.boot({}, disk=0)
        before = self.host_state()
        reason = self.refuse_move(
            server, 'resize', flavorRef=self.make_flavor(disk=1)
        )
        self.assertIn('has the size of its image', reason)
        self.assertEqual(before, self.host_state())

    def story_missing_space_is_refused(self):
        server = self.boot({}, disk=1)
        self.boot({}, disk=2)
        self.flags(disk_allocation_ratio=10.0)
        self._run_periodics()
        before = self.host_state()
        capacity = int(float(self.volume_group()['capacity']))
        reason = self.refuse_move(
            server, 'resize', flavorRef=self.make_flavor(disk=capacity)
        )
        self.assertIn('GB', reason)
        self.assertEqual(before, self.host_state())

    def story_changed_ephemeral_disk_is_refused(self):
        server = self.boot({}, disk=1)
        reason = self.refuse_move(
            server, 'resize', flavorRef=self.make_flavor(ephemeral=1)
        )
        self.assertIn('ephemeral disks cannot change', reason)

    def disk_sizes(self):
        """Return the sizes of all disks in GB."""
        return sorted(float(disk['capacity']) for disk in self.disks())

    def disk_of(self, server):
        """Return size and contents of a server's only disk."""
        (disk,) = self.disks()
        return disk['capacity'], disk['sha256']

    def document(self, server):
        """Return what the host reports of a server's LPAR."""
        return self._partition(server['OS-EXT-SRV-ATTR:instance_name'])


class OneTimeUseResizeTest(
    one_time_use.OneTimeUseTestCase, moving.MovingTestCase
):
    def setUp(self):
        super().setUp()
        self.start_host()

    def test_resizes_burn_each_device_once(self):
        self.tell_stories()

    def story_revert_keeps_both_devices_burned(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        old = self.owned(server)
        server = self.resize(server, base.gpu_groups(1))
        new = self.owned(server)
        self.assert_burned(*old, *new)
        server = self.revert(server)
        self._run_periodics()
        self.assertEqual(old, self.owned(server))
        self.assert_burned(*old, *new)

    def story_refused_resize_burns_nothing(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        before = self.host_state()
        burned = self.burned()
        flavor = self.make_flavor(base.gpu_groups(1), ephemeral=1)
        self.refuse_move(server, 'resize', flavorRef=flavor)
        self.assertEqual(before, self.host_state())
        # Nova keeps its claim on the slot until the next cycle, and a second
        # attempt that gets the same slot sets the server to ERROR.
        self.api.post_server_action(
            server['id'], {'resize': {'flavorRef': flavor}}
        )
        server = self._wait_for_server_parameter(
            server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )
        self.assertIn('0 are available', self.fault(server))
        self.assertEqual(before, self.host_state())
        server = self.reboot_hard(server)
        self.assertEqual(burned, self.burned())
        self._run_periodics()
        self.refuse_move(server, 'resize', flavorRef=flavor)
        self.assertEqual(burned, self.burned())

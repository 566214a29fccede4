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

import contextlib

import fixtures
from nova.limit import utils as limit_utils
from nova.scheduler.client import report
from nova.tests.functional.api import client
from oslo_limit import fixture as limit_fixture

from tests import proofs
from tests.functional import base
from tests.functional import moving

#: Slots with further GPUs.
MORE = ('21010038', '21010039')
_ONCE = 'CUSTOM_ONCE'
_SIZES = ('VCPU', 'MEMORY_MB', 'DISK_GB')
_FILE = (
    base.GPUS
    + """once:
  identification: {drc_index: "21010030"}
  resource_class: CUSTOM_ONCE
  one_time_use: true
"""
)


class ResizeTest(moving.MovingTestCase):
    """One host with local disks.

    The devices of each kind of move are in ``test_move_table``.
    """

    inventory = _FILE

    def setUp(self):
        super().setUp()
        # The scheduler leaves the check of free space to the driver.
        self.flags(disk_allocation_ratio=10.0)
        self.start_host()
        for index in MORE:
            self.plug_gpu(index)

    def prepare(self):
        # Nova releases what a story's server was claiming in the next cycle.
        self._run_periodics()

    @proofs.proves('D85', 'operation.resize')
    def test_server_is_resized_within_host(self):
        self.tell_stories()

    def story_sizes_devices_and_disks_change_and_go_back(self):
        server = self.boot(base.gpu_groups(1), disk=1, ephemeral=1, swap=1024)
        (old,) = self.owned(server)
        before, disks = self.document(server), self.disks()
        bigger = {'ephemeral': 1, 'memory_mb': 1024, 'vcpu': 2}

        server = self.resize(server, base.gpu_groups(1), swap=2048, **bigger)

        (new,) = self.owned(server)
        self.assertNotEqual(old, new)
        self.assertEqual({new}, self.slots_of(server['id']))
        self.assertEqual({old}, self.slots_of(self.migration_uuid(server)))
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual((1024, 2), (lpar.memory_mb, lpar.vcpus))
        self.assertEqual([1.0, 1.0, 2.0], self.disk_sizes())
        self._run_periodics()
        self.assertEqual({new}, self.owned(server))

        server = self.revert(server)

        self.assertEqual({old}, self.owned(server))
        self.assertEqual({old}, self.slots_of(server['id']))
        self.assertEqual(before, self.document(server))
        self.assertEqual(self.kept(disks), self.kept(self.disks()))
        self.assertEqual([1.0, 1.0, 1.0], self.disk_sizes())
        self.assertEqual(3, len(self.mappings()))

        server = self.resize(
            server,
            base.gpu_groups(1) | base.gpu_groups(2) | {'group_policy': 'none'},
            disk=3,
            ephemeral=1,
        )
        self.assertEqual(2, len(self.owned(server)))
        # The root disk grows once nobody can go back.
        self.assertEqual([1.0, 1.0], self.disk_sizes())
        server = self.confirm(server)
        self.assertEqual(2, len(self.owned(server)))
        self.assertEqual(self.owned(server), self.slots_of(server['id']))
        self.assertIsNone(self.slot_owner(old))
        self.assertEqual([1.0, 3.0], self.disk_sizes())
        self.assertEqual(2, len(self.mappings()))

        server = self.resize(server, disk=3, ephemeral=1)
        self.assertEqual(set(), self.owned(server))
        migration = self.migration_uuid(server)
        self._delete_server(server)
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.disks())
        self.assertEqual(set(), self.slots_of(migration))

    def kept(self, disks):
        """Return what a revert keeps of disks: all but the swap disk."""
        return sorted(
            (disk['name'], disk['udid'], disk['capacity'], disk['sha256'])
            for disk in disks
            if not disk['name'].endswith('s')
        )

    @proofs.proves('device.one-time-use')
    def story_refused_resize_changes_nothing(self):
        server = self.boot({}, disk=1)
        before = self.host_state()
        capacity = int(float(self.volume_group()['capacity']))
        for sizes, words in (
            ({'ephemeral': 1}, 'ephemeral disks cannot change'),
            ({'disk': capacity}, f'to {capacity} GB'),
        ):
            flavor = self.make_flavor({f'resources1:{_ONCE}': '1'}, **sizes)
            reason = self.refuse_move(server, 'resize', flavorRef=flavor)
            self.assertIn(words, reason)
            self.assertEqual(before, self.host_state())
            self.assertIsNone(self.instance(server).migration_context)
            if 'disk' in sizes:
                # Nova keeps its claim on the slot until the next cycle.
                self.api.post_server_action(
                    server['id'], {'resize': {'flavorRef': flavor}}
                )
                server = self._wait_for_server_parameter(
                    server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
                )
                self.assertIn('0 are available', self.fault(server))
                self.assertEqual(before, self.host_state())
                server = self.reboot_hard(server)
            self._run_periodics()
        provider = self.slot_providers()[0x21010030]['uuid']
        inventory = self._get_provider_inventory(provider)
        self.assertEqual(0, inventory[_ONCE]['reserved'])
        self.return_allocations_that_placement_kept_back(server)

    def story_quota_counts_devices_of_both_sides_until_confirmation(self):
        with self.limits(CUSTOM_GPU=3):
            server = self.boot(self.two_gpus(), disk=1)
            self.assertIn(
                'class:CUSTOM_GPU is over limit of 3 due to current usage 2',
                self.refuse_boot(self.two_gpus()),
            )
            server = self.resize(server, base.gpu_groups(1))
            refused = self.refuse_boot(base.gpu_groups(1))
            self.assertIn('current usage 3 and delta 1', refused)
            server = self.confirm(server)
            self.boot(self.two_gpus())

        # A burned device of a deleted server is not counted.
        once = {f'resources1:{_ONCE}': '1'}
        with self.limits(**{_ONCE: 1}):
            server = self.boot(once)
            self.assertIn(f'class:{_ONCE}', self.refuse_boot(once))
            self._delete_server(server)
            server = self.boot(once, expected='ERROR')
            self.assertIn('No valid host', self.fault(server))
        provider = self.slot_providers()[0x21010030]['uuid']
        self.reserve(provider, _ONCE, 0)

    @contextlib.contextmanager
    def limits(self, **classes):
        """Let oslo.limit believe in these limits; Placement is real."""
        self.flags(driver=limit_utils.UNIFIED_LIMITS_DRIVER, group='quota')
        known = dict.fromkeys(_SIZES, -1) | classes
        limits = {f'class:{name}': limit for name, limit in known.items()}
        with limit_fixture.LimitFixture({'servers': -1, **limits}, {}):
            yield

    def two_gpus(self):
        """Return extra specs that request two GPUs."""
        groups = base.gpu_groups(1) | base.gpu_groups(2)
        return groups | {'group_policy': 'none'}

    def refuse_boot(self, specs):
        """Request a server that is refused with 403; return the answer."""
        refused = self.assertRaises(
            client.OpenStackApiException, self.start_boot, specs
        )
        self.assertEqual(403, refused.response.status_code)
        return refused.response.text

    @proofs.proves('D81')
    def story_disks_of_one_host_are_not_migrated(self):
        server = self.boot(base.gpu_groups(1), disk=1)
        self.start_host('host2')
        before = self.host_state()
        reason = self.refuse_move(server, 'migrate')
        self.assertIn('not in a shared storage pool', reason)
        self.assertEqual(before, self.host_state())
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(service['id'], {'status': 'disabled'})
        self.computes.pop('host2').stop()

    def return_allocations_that_placement_kept_back(self, server):
        """Refuse a resize after which Nova cannot move allocations back."""
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
        self.reboot_hard(server)
        after = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual(
            [found['resources'] for found in before.values()],
            [found['resources'] for found in after.values()],
        )
        self.assertEqual(
            {},
            self._get_allocations_by_server_uuid(self.migration_uuid(server)),
        )

    def disk_sizes(self):
        """Return the sizes of all disks in GB."""
        return sorted(float(disk['capacity']) for disk in self.disks())

    def document(self, server):
        """Return what the host reports of a server's LPAR."""
        return self._partition(server['OS-EXT-SRV-ATTR:instance_name'])

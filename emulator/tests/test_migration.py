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

"""Live migration between two hosts of a site, through pypowervm's tasks."""

from pypowervm import exceptions
from pypowervm.tasks import management_console
from pypowervm.tasks import migration
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network

from . import sites

ADDRESS = '192.0.2.2'
VLAN = 100


def world(number):
    """Return the world of a host with a bridge and a guest's network."""
    made = sites.world(number)
    (system,) = made['systems']
    system['network_bridges'] = [{'vios': 'vios1', 'pvid': 1, 'vlans': [VLAN]}]
    del system['partitions'][1:]
    if number == 1:
        system['partitions'].append(
            {
                'name': 'vm',
                'id': 9,
                'memory': 2048,
                'processors': 1,
                'state': 'running',
                'rmc_state': 'active',
                'uptime': 1000,
                'adapters': [{'vlan': VLAN}],
            }
        )
    return made


class MigrationTestCase(sites.SiteTestCase):
    """The first host has a partition with a logical unit, by two servers."""

    @staticmethod
    def worlds():
        return [world(1), world(2)]

    def setUp(self):
        super().setUp()
        # As if it had booted, whereupon its system is known.
        self.control1.set_partition('vm', rmc_state='active')
        self.unit = self.client1.image(data=b'image')
        self.vm = self.read(self.client1)
        for vios in ('vios1', 'vios2'):
            self.client1.map(self.vm, self.unit, vios)
        key = management_console.get_public_key(self.client1.adapter)
        management_console.add_authorized_key(self.client2.adapter, key)
        self.start = [one.state()['systems'] for one in self.controls]

    def read(self, client):
        """Read and return the partition of a host, None without one."""
        found = lpar.LPAR.search(client.adapter, name='vm')
        return found[0] if found else None

    def migrate(self, **options):
        """Migrate the partition to the second host."""
        options = {'tgt_mgmt_svr': ADDRESS, 'tgt_mgmt_usr': 'wlp'} | options
        migration.migrate_lpar(self.vm, 'host2', **options)

    def adapters(self, client):
        """Read and return the adapters of the partition of a host."""
        return [
            (one.mac, one.slot, one.pvid)
            for one in network.CNA.get(client.adapter, parent=self.vm)
        ]

    def disks(self, client):
        """Return slots, addresses and servers of the partition's disks."""
        return {
            one.client_adapter.lpar_slot_num: (
                one.target_dev.lua,
                one.backing_storage.udid,
                vios,
            )
            for vios in ('vios1', 'vios2')
            for one in client.vios(vios).scsi_mappings
            if one.client_lpar_href and self.vm.uuid in one.client_lpar_href
        }


class MoveTest(MigrationTestCase):
    def test_partition_moves_with_all_it_has(self):
        before = self.disks(self.client1), self.adapters(self.client1)
        slots = sorted(before[0])
        mappings = [f'{slots[0]}/vios1/', f'{slots[1]}/vios2/']
        self.migrate(virtual_scsi_mappings=mappings)
        self.assertIsNone(self.read(self.client1))
        moved = self.read(self.client2)
        self.assertEqual(self.vm.uuid, moved.uuid)
        self.assertEqual(
            ('running', 'active', 'Not_Migrating', 1000),
            (
                moved.state,
                moved.rmc_state,
                moved.migration_state,
                moved.uptime,
            ),
        )
        self.assertEqual(5, moved.id)
        after = self.disks(self.client2), self.adapters(self.client2)
        self.assertEqual(before, after)
        self.assertEqual({}, self.disks(self.client1))
        # It has given back what it had.
        now = [one.state()['systems'][0] for one in self.controls]
        had = [one[0] for one in self.start]
        given, taken = (
            one['memory_available'] - before['memory_available']
            for one, before in zip(now, had, strict=True)
        )
        self.assertEqual((given, given), (-taken, max(given, 2048)))
        orphans = [
            one
            for vios in ('vios1', 'vios2')
            for one in self.client1.vios(vios).scsi_mappings
        ]
        self.assertEqual([], orphans)


class StagesTest(MigrationTestCase):
    """The job waits at each stage."""

    def setUp(self):
        super().setUp()
        self.control1.set_job_mode('manual', 'Migrate')

    def begin(self, stages):
        """Start the job without waiting for it, and let it come so far."""
        request = job.Job.wrap(
            self.vm.adapter.read(
                'LogicalPartition', self.vm.uuid, 'do', 'Migrate'
            )
        )
        values = {
            'TargetManagedSystemName': 'host2',
            'TargetRemoteHMCIPAddress': ADDRESS,
        }
        request.add_job_parameters_to_existing(
            *(request.create_job_parameter(*item) for item in values.items())
        )
        started = self.vm.adapter.create_job(
            request.entry.element, 'LogicalPartition', self.vm.uuid
        )
        self.job_id = job.Job.wrap(started.entry).job_id
        self.advance(stages)

    def advance(self, stages=1):
        for _ in range(stages):
            self.control1.advance_jobs(self.job_id)

    def job(self):
        """Return the status and the message of the job."""
        read = self.vm.adapter.read_job(self.job_id)
        wrapper = job.Job.wrap(read.entry)
        return wrapper.job_status, wrapper.get_job_message()

    def states(self):
        """Return the states of the partition on both hosts."""
        return [
            one and (one.state, one.migration_state)
            for one in map(self.read, self.clients)
        ]

    def storage(self):
        """Return how many mappings the partition has on both hosts."""
        return [len(self.disks(one)) for one in self.clients]

    def counts(self):
        """Return how many migrations both systems have in progress."""
        found = []
        for client in self.clients:
            (system,) = managed_system.System.get(client.adapter)
            data = system.migration_data
            found.append(data['active_migrations_in_progress'])
        return found

    def assert_as_before(self):
        """Assert that both hosts have what they had."""
        now = [one.state()['systems'] for one in self.controls]
        self.assertEqual(self.start, now)

    def test_both_hosts_show_partition_while_it_runs(self):
        working, none = 'migrating running', ('running', 'Not_Migrating')
        self.begin(stages=0)
        self.assertEqual([none, None], self.states())
        self.advance()
        self.assertEqual([(working, 'Migration_Starting')] * 2, self.states())
        self.assertEqual([[2, 0], [1, 1]], [self.storage(), self.counts()])
        self.advance()
        self.assertEqual(
            [(working, 'Migration_In_Progress')] * 2, self.states()
        )
        self.assertEqual([[2, 2], [1, 1]], [self.storage(), self.counts()])
        self.advance()
        self.assertEqual([None, none], self.states())
        self.assertEqual([[0, 2], [0, 0]], [self.storage(), self.counts()])
        self.assertEqual('COMPLETED_OK', self.job()[0])

    def test_abort_at_each_stage_leaves_all_as_before(self):
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                migration.migrate_abort(self.vm)
                self.assertEqual('COMPLETED_WITH_ERROR', self.job()[0])
                self.assertIn('has been stopped', self.job()[1])
                self.assert_as_before()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'no migration of vm to stop'
        ):
            migration.migrate_abort(self.vm)
        self.advance()
        self.assert_as_before()

    def test_failure_at_each_stage_leaves_all_as_before(self):
        for stages in (0, 1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control1.plan_job('Migrate', 'HSCL0000 lost')
                self.advance(3)
                self.assertEqual('COMPLETED_WITH_ERROR', self.job()[0])
                self.assertIn('HSCL0000 lost', self.job()[1])
                self.assert_as_before()

    def test_recover_after_failure_at_each_stage(self):
        """Both hosts have it until then; the guest is on the first one."""
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control1.plan_job('Migrate', 'lost', state='running')
                self.advance()
                self.assertEqual(
                    [
                        ('running', 'Migration_Failed'),
                        ('not activated', 'Migration_Failed'),
                    ],
                    self.states(),
                )
                self.assertEqual([0, 0], self.counts())
                with self.assertRaisesRegex(
                    exceptions.JobRequestFailed, 'has the state Migration_F'
                ):
                    self.migrate(validate_only=True)
                migration.migrate_recover(self.vm)
                self.assert_as_before()

    def recover_arrived(self, stages, client):
        """Recover when the guest has gone on at the destination."""
        self.begin(stages)
        self.control1.plan_job('Migrate', 'lost', state='not activated')
        self.advance()
        self.assertEqual(
            [
                ('not activated', 'Migration_Failed'),
                ('running', 'Migration_Failed'),
            ],
            self.states(),
        )
        self.assertEqual([2, 2], self.storage())
        self.assertEqual(1000, self.read(self.client2).uptime)
        migration.migrate_recover(self.read(client))
        self.assertEqual([None, ('running', 'Not_Migrating')], self.states())
        self.assertEqual([0, 2], self.storage())

    def test_recover_at_source_after_guest_has_gone_on(self):
        self.recover_arrived(1, self.client1)

    def test_recover_at_destination_after_guest_has_gone_on(self):
        self.recover_arrived(2, self.client2)

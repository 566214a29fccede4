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

"""What is left behind when something fails: nothing."""

from nova_powervm import exception
from nova_powervm.domain import partition
from nova_powervm.powervm import partitions
from nova_powervm.virt import translate
from tests.functional import base

#: What a boot with one device asks of the REST server, in this order.
REQUESTS_OF_A_BOOT = [
    'GET ManagedSystem.read',
    'GET LogicalPartition.read',
    'PUT LogicalPartition.create',
    'GET LogicalPartition.read',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
]


class EachRequestOfASpawn(base.PowerVMTestCase):
    """One request of a boot fails, each in turn; the next boot works."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def requests_of(self, action):
        """Give the result of an action and the requests that it made."""
        self.control().clear_journal()
        result = action()
        return result, [
            f'{record["method"]} {record["label"]}'
            for record in self.control().journal()
            if record['label'] != 'LogicalPartition.quick'
        ]

    def check_fault(self, number, **fault):
        """Boot with a fault, check what it left, and boot again."""
        slots = set(self.slot_providers())
        self.control().clear_faults()
        self.control().add_fault(nth=number, **fault)

        server = self.boot(base.gpu_groups(1), expected=None)
        applied = self.control().faults()[0]['applied']
        self.control().clear_faults()

        self.assertEqual(1, applied)
        if server['status'] == 'ERROR':
            self.assertIsNone(self.lpar(server))
            allocations = self._get_allocations_by_server_uuid(server['id'])
            self.assertEqual({}, allocations)
        else:
            self.assertEqual('running', self.lpar(server).state)
            taken = self.allocated_slots(server)
            self.assertEqual(
                dict.fromkeys(taken, True), self.lpar(server).slots
            )
        self._delete_server(server)
        self.assertIsNone(self.lpar(server))
        owned = {index for index in slots if self.slot_owner(index)}
        self.assertEqual(set(), owned)
        return server['status']

    def sweep(self, **fault):
        """Let each request of a boot fail once; give the outcomes."""
        outcomes = [
            self.check_fault(number, **fault)
            for number in range(1, len(REQUESTS_OF_A_BOOT) + 1)
        ]
        server = self.boot(base.gpu_groups(1))
        self.assertEqual('running', self.lpar(server).state)
        return dict(zip(REQUESTS_OF_A_BOOT, outcomes, strict=False)), outcomes

    def test_the_requests_of_a_boot(self):
        server, requests = self.requests_of(
            lambda: self.boot(base.gpu_groups(1))
        )
        self.assertEqual(REQUESTS_OF_A_BOOT, requests)

        _, requests = self.requests_of(lambda: self._delete_server(server))
        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET LogicalPartition.job_template',
                'PUT LogicalPartition.job',
                'DELETE Job.delete',
                'DELETE LogicalPartition.delete',
            ],
            requests,
        )

    def test_an_instance_without_devices_asks_one_request_less(self):
        _, requests = self.requests_of(lambda: self.boot({}))

        self.assertEqual(REQUESTS_OF_A_BOOT[1:], requests)

    def test_each_request_is_answered_with_an_error(self):
        by_request, outcomes = self.sweep(status=500)

        # Nothing hides a server that refuses.
        self.assertEqual('ERROR', by_request['PUT LogicalPartition.create'])
        self.assertEqual('ERROR', by_request['PUT LogicalPartition.job'])
        self.assertIn('ERROR', outcomes)

    def test_each_request_does_not_arrive(self):
        _, outcomes = self.sweep(drop=True)

        # What may be done twice is; the rest fails the build.
        once = ('PUT LogicalPartition.create', 'PUT LogicalPartition.job')
        self.assertEqual(
            [
                'ERROR' if request in once else 'ACTIVE'
                for request in REQUESTS_OF_A_BOOT
            ],
            outcomes,
        )

    def test_the_answer_to_each_request_is_lost(self):
        _, outcomes = self.sweep(drop=True, phase='after')

        # Whatever was done although its answer was lost is found again.
        self.assertEqual(['ACTIVE'] * len(REQUESTS_OF_A_BOOT), outcomes)

    def test_the_session_of_each_request_is_expired(self):
        _, outcomes = self.sweep(status=401)

        self.assertEqual(['ACTIVE'] * len(REQUESTS_OF_A_BOOT), outcomes)

    def test_all_sessions_end_between_two_boots(self):
        self.boot(base.gpu_groups(1))
        self.control().expire_sessions()

        server = self.boot(base.gpu_groups(1))

        self.assertEqual('running', self.lpar(server).state)


class Builds(base.PowerVMTestCase):
    """A build that can not be finished is taken back, and says why."""

    def fail(self, **fault):
        """Boot where the host refuses, without another try."""
        self.control().add_fault(**fault)
        self.flags(max_attempts=1, group='scheduler')
        server = self.boot(base.gpu_groups(1), expected='ERROR')
        self.assertIsNone(self.lpar(server))
        return server['fault']['message']

    def test_the_fault_has_the_hosts_own_words(self):
        self.start_host()

        message = self.fail(
            match='LogicalPartition.create', status=500, message='Not today.'
        )

        self.assertIn('Not today.', message)

    def test_a_failing_start_removes_the_lpar(self):
        self.start_host()
        self.control().plan_job('PowerOn', 'HSCL0000 no power')
        self.flags(max_attempts=1, group='scheduler')

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('HSCL0000 no power', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_another_host_builds_what_the_first_could_not(self):
        self.start_host('host1')
        self.start_host('host2')
        self.control('host1').add_fault(
            match='LogicalPartition.create', status=500, every=True
        )

        servers = [self.boot(base.gpu_groups(1)) for _ in range(2)]

        for server in servers:
            self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
            self.assertIsNone(self.lpar(server, 'host1'))

    def test_a_slot_that_was_taken_behind_our_back_is_not_used(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        archive = self.lpar_named('archive')
        for index in ('21010020', '21010021', '21010022', '21020024'):
            self.control().set_owner(index, archive.uuid)

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('owned by partition archive', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_memory_that_is_no_multiple_names_the_next_sizes(self):
        self.start_host()

        server = self.boot({}, memory_mb=1000, expected='ERROR')

        self.assertIn('768 or 1024', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_no_answer_of_placement_builds_nothing(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        client = self.computes['host1'].manager.reportclient
        # Nova hands this on when Placement does not answer.
        client.get_allocations_for_consumer = lambda *args, **kwargs: {}

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('no allocations', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_an_lpar_that_lacks_its_slot_is_removed(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        # A server that loses the slots without a word.
        create = partitions.RestPartitions.create

        def lossy(self, spec):
            create(
                self,
                partition.PartitionSpec(
                    spec.uuid,
                    spec.name,
                    spec.memory_mb,
                    spec.vcpus,
                    spec.proc_units,
                ),
            )

        self.stub_out(
            'nova_powervm.powervm.partitions.RestPartitions.create', lossy
        )

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('is missing', server['fault']['message'])
        self.assertIsNone(self.lpar(server))


class HalfMade(base.PowerVMTestCase):
    """What a nova-compute that was killed leaves behind."""

    def test_an_lpar_that_was_not_started_is_deleted(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        self.control().set_partition(
            self.lpar(server).uuid, state='not activated'
        )

        self._delete_server(server)

        self.assertIsNone(self.lpar(server))

    def test_an_instance_whose_lpar_is_gone_is_deleted(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        services = self.computes['host1'].manager.driver._ops()
        services.lifecycle.destroy(server['id'])

        self._delete_server(server)

        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def test_a_failed_build_cleans_up_before_nova_does(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        services = self.computes['host1'].manager.driver._ops()
        services.lifecycle.destroy(server['id'])
        self.control().plan_job('PowerOn', 'HSCL0000 no power')

        self.assertRaises(
            exception.RestError,
            services.lifecycle.spawn,
            self.build_of(server),
        )

        self.assertIsNone(self.lpar(server))
        self.assertIsNone(self.slot_owner(slot))

    def test_a_build_takes_over_what_it_finds(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        services = self.computes['host1'].manager.driver._ops()
        build = self.build_of(server)
        found = self.lpar(server)

        services.lifecycle.spawn(build)

        self.assertEqual(found, self.lpar(server))
        self.assertEqual({slot: True}, self.lpar(server).slots)

    def test_a_stopped_lpar_that_differs_is_made_anew(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        lpar = self.lpar(server)
        self.control().set_partition(lpar.uuid, state='not activated')
        self.control().set_owner(f'{slot:08X}', None)
        services = self.computes['host1'].manager.driver._ops()

        services.lifecycle.spawn(self.build_of(server))

        self.assertEqual({slot: True}, self.lpar(server).slots)
        self.assertEqual('running', self.lpar(server).state)

    def test_a_running_lpar_that_differs_is_left_alone(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        self.control().set_owner(f'{slot:08X}', None)
        services = self.computes['host1'].manager.driver._ops()

        self.assertRaises(
            exception.PartitionConflict,
            services.lifecycle.spawn,
            self.build_of(server),
        )
        self.assertEqual('running', self.lpar(server).state)

    def build_of(self, server):
        """Say again what nova-compute asked of the driver."""
        instance = self.instance(server)
        return translate.build(
            instance,
            self._get_allocations_by_server_uuid(server['id']),
            power_on=True,
        )

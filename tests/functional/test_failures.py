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

import functools

from nova import exception as nova_exception

from nova_powervm import exception
from nova_powervm.domain import partition
from nova_powervm.powervm import partitions
from nova_powervm.virt import translate
from tests.functional import base
from tests.functional import whole

#: What a boot asks of the REST server, in this order. It is of a server with
#: a device, a port of a VLAN that the bridge does not carry, a disk and a
#: config drive, the first of its service.
FIRST_BOOT = [
    'GET ManagedSystem.read',
    'GET NetworkBridge.feed',
    'GET VirtualSwitch.feed',
    'GET LogicalPartition.read',
    'PUT LogicalPartition.create',
    'GET LogicalPartition.read',
    'GET NetworkBridge.feed',
    'GET VirtualIOServer.feed',
    'GET VirtualSwitch.feed',
    'POST NetworkBridge.update',
    'PUT ClientNetworkAdapter.create',
    'GET VolumeGroup.read',
    'POST VolumeGroup.update',
    'PUT File.create',
    'PUT File.upload',
    'DELETE File.delete',
    'GET VolumeGroup.feed',
    'GET VolumeGroup.read',
    'POST VolumeGroup.update',
    'PUT File.create',
    'PUT File.upload',
    'DELETE File.delete',
    'GET VirtualIOServer.read',
    'POST VirtualIOServer.update',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
]
#: Where those stand that later boots have no need of: switches, which are
#: remembered, and the media repository.
ONLY_FIRST = (2, 16, 17, 18)
LATER_BOOT = [
    request
    for number, request in enumerate(FIRST_BOOT)
    if number not in ONLY_FIRST
]
#: What deleting such a server asks.
DELETE = [
    'GET LogicalPartition.read',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
    'GET VirtualIOServer.read',
    'POST VirtualIOServer.update',
    'GET VolumeGroup.feed',
    'POST VolumeGroup.update',
    'POST VolumeGroup.update',
    'DELETE LogicalPartition.delete',
]
_VLAN = 100


class EachRequest(whole.WholeTestCase):
    """One request of a boot or of a delete fails, each in turn.

    The driver of a running nova-compute is called as nova-compute calls it,
    which takes a tenth of the time that a boot by Nova's API takes.
    """

    def setUp(self):
        super().setUp()
        self.start_shared_host()
        self.server, self.port = self.boot_whole(vlan=_VLAN)
        self.destroy(self.server)

    def requests_of(self, action):
        """Give the requests that an action makes."""
        self.control().clear_journal()
        action()
        return [
            f'{record["method"]} {record["label"]}'
            for record in self.control().journal()
        ]

    def attempt(self, action, number, fault):
        """Let the request of this number fail and say whether all did."""
        self.control().clear_faults()
        self.control().add_fault(nth=number + 1, **fault)
        try:
            action(self.server)
        except nova_exception.NovaException:
            failed = True
        else:
            failed = False
        (applied,) = self.control().faults()
        self.control().clear_faults()
        self.assertEqual(1, applied['applied'])
        return failed

    def failed_boots(self, numbers, first, fault):
        """Let these requests of boots fail; say which boots failed, too."""
        failed = []
        for number in numbers:
            self.foreign.remove_vlan(_VLAN)
            if first:
                self.foreign.delete_repository()
                self.restart_host()
            if self.attempt(self.spawn, number, fault):
                failed.append(number)
            else:
                self.assert_whole(self.server, self.port)
                self.destroy(self.server)
            self.assert_nothing_left()
        return failed

    def sweep(self, applies=lambda request: True, **fault):
        """Let each request fail once; give those whose loss was a failure.

        :param applies: Whether a request can fail so.
        """
        failed = {}
        for name, requests, numbers in (
            ('boot', LATER_BOOT, range(len(LATER_BOOT))),
            ('first', FIRST_BOOT, ONLY_FIRST),
        ):
            chosen = [n for n in numbers if applies(requests[n])]
            failed[name] = [
                requests[number]
                for number in self.failed_boots(
                    chosen, name == 'first', fault
                )
            ]
        failed['delete'] = self.failed_deletes(applies, fault)
        self.spawn(self.server)
        self.assert_whole(self.server, self.port)
        # One that could not be removed is with the next upload.
        self.assert_no_uploads()
        return failed

    def failed_deletes(self, applies, fault):
        """Let each request of a delete fail; delete again what is left."""
        failed = []
        for number, request in enumerate(DELETE):
            if not applies(request):
                continue
            self.spawn(self.server)
            if self.attempt(self.destroy, number, fault):
                failed.append(request)
                # What was not deleted is not forgotten.
                self.assertIsNotNone(self.lpar(self.server))
                self.destroy(self.server)
            self.assert_nothing_left()
        return failed

    def test_the_requests_of_a_boot_and_a_delete(self):
        boot = functools.partial(self.spawn, self.server)
        delete = functools.partial(self.destroy, self.server)
        self.foreign.delete_repository()
        self.foreign.remove_vlan(_VLAN)
        self.restart_host()

        self.assertEqual(FIRST_BOOT, self.requests_of(boot))
        self.assertEqual(DELETE, self.requests_of(delete))
        self.foreign.remove_vlan(_VLAN)
        self.assertEqual(LATER_BOOT, self.requests_of(boot))

    def test_each_request_is_answered_with_an_error(self):
        import pprint
        pprint.pprint(self.sweep(status=500))

    def test_each_request_does_not_arrive(self):
        import pprint
        pprint.pprint(self.sweep(drop=True))

    def test_the_answer_to_each_request_is_lost(self):
        import pprint
        pprint.pprint(self.sweep(drop=True, phase='after'))

    def test_the_session_of_each_request_is_expired(self):
        import pprint
        pprint.pprint(self.sweep(status=401))

    def test_somebody_else_is_faster_each_time(self):
        import pprint
        pprint.pprint(self.sweep(
            lambda request: request.startswith(('PUT', 'POST')), status=412
        ))


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

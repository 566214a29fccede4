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

"""Failed operations leave nothing behind."""

import functools

from nova import exception as nova_exception
from nova.compute import task_states
from nova.compute import vm_states
from oslo_log import log as logging

from nova_powervm.instance import partition
from nova_powervm.ops import stopped_lpars
from nova_powervm.powervm import partitions
from tests.functional import base
from tests.functional import complete_servers
from tests.functional import other_tool

LOG = logging.getLogger(__name__)

#: What a boot asks of the REST server, in this order. It is of a server with
#: a device, a port of a VLAN that the bridge does not carry, a disk and a
#: config drive, the first of its service.
FIRST_BOOT = [
    'GET VolumeGroup.feed',
    'GET ManagedSystem.read',
    'GET NetworkBridge.feed',
    'GET VirtualSwitch.feed',
    'GET LogicalPartition.read',
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
    'PUT LogicalPartition.create',
    'GET NetworkBridge.feed',
    'GET NetworkBridge.feed',
    'GET VirtualIOServer.feed',
    'GET VirtualSwitch.feed',
    'POST NetworkBridge.update',
    'PUT ClientNetworkAdapter.create',
    'GET VirtualIOServer.read',
    'POST VirtualIOServer.update',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
]
#: Where those stand that later boots have no need of: switches and templates
#: of jobs, which are remembered, what the volume group's last change left,
#: and the media repository.
ONLY_FIRST = (0, 3, 5, 10, 11, 12, 25)
LATER_BOOT = [
    request
    for number, request in enumerate(FIRST_BOOT)
    if number not in ONLY_FIRST
]
#: What deleting such a server asks, the first of its service.
FIRST_DELETE = [
    'GET LogicalPartition.read',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
    'GET VirtualIOServer.feed',
    'POST VirtualIOServer.update',
    'GET VolumeGroup.feed',
    'POST VolumeGroup.update',
    'POST VolumeGroup.update',
    'DELETE LogicalPartition.delete',
]
_TEMPLATE = FIRST_DELETE[1]
DELETE = [request for request in FIRST_DELETE if request != _TEMPLATE]
#: What a sweep gives if all that failed was made good.
NONE = {'later': [], 'first': [], 'delete': []}
_VLAN = 100


def without_uploads(requests, *others):
    """Return requests without uploads and some others."""
    return [
        request
        for request in requests
        if request not in others and 'PUT File' not in request
    ]


class FaultSweepTest(complete_servers.CompleteServerTestCase):
    """Each request of a boot or a delete fails once.

    The tests call the driver of a running nova-compute directly, which takes a
    tenth of the time of a boot through Nova's API.
    """

    def setUp(self):
        super().setUp()
        # Nova takes the server for running while the tests stop and start it.
        self.stub_out(
            f'{stopped_lpars.__name__}.StoppedLpars.check', lambda *_: None
        )
        self.start_shared_host()
        self.server, self.port = self.boot_complete_server(vlan=_VLAN)
        self.destroy(self.server)

    def requests_of(self, action):
        """Return the requests of an action, without polls for events."""
        self.control().clear_journal()
        action()
        return [
            f'{record["method"]} {record["label"]}'
            for record in self.control().journal()
            if record['label'] != 'Event.feed'
        ]

    def attempt(self, action, requests, number, fault):
        """Inject a fault into a request; return whether the action failed."""
        method, label = requests[number].split()
        # Counted among its like: after a failure the driver asks anew for
        # some of what it had remembered.
        nth = requests[: number + 1].count(requests[number])
        self.control().add_fault(method=method, match=label, nth=nth, **fault)
        try:
            action(self.server)
        except nova_exception.NovaException:
            failed = True
        else:
            failed = False
        (applied,) = self.control().faults()
        self.control().clear_faults()
        self.assertEqual(1, applied['applied'], requests[number])
        return failed

    def failed_boots(self, requests, numbers, first, fault):
        """Inject a fault into requests of boots; return those that failed.

        :param first: Whether each boot is the first one of its service.
        """
        failed = []
        for number in numbers:
            self.other_tool.remove_vlan(_VLAN)
            if first:
                self.other_tool.delete_repository()
                self.restart_host()
            if self.attempt(self.spawn, requests, number, fault):
                failed.append(requests[number])
            else:
                self.assert_complete(self.server, self.port)
                self.destroy(self.server)
            self.assert_nothing_left()
            self.clear_uploads()
        return failed

    def clear_uploads(self):
        """Let the next boot remove Files that could not be deleted."""
        if self.hosts['host1'].reader.files():
            self.spawn(self.server)
            self.destroy(self.server)
        self.assert_no_uploads()

    def sweep(self, applies=lambda request: True, **fault):
        """Inject a fault into each request once; return those that failed.

        :param applies: Returns whether the fault applies to a request.
        """
        failed = {
            'later': self.failed_boots(
                LATER_BOOT,
                [n for n, name in enumerate(LATER_BOOT) if applies(name)],
                False,
                fault,
            ),
            'first': self.failed_boots(
                FIRST_BOOT,
                [n for n in ONLY_FIRST if applies(FIRST_BOOT[n])],
                True,
                fault,
            ),
            'delete': self.failed_deletes(applies, fault),
        }
        self.spawn(self.server)
        self.assert_complete(self.server, self.port)
        LOG.info('What failed because of %s: %s', fault, failed)
        return failed

    def failed_deletes(self, applies, fault):
        """Inject a fault into each request of a delete, then delete again."""
        failed = []
        for number, request in enumerate(FIRST_DELETE):
            if not applies(request):
                continue
            if request == _TEMPLATE:
                self.restart_host()
            self.spawn(self.server)
            if self.attempt(self.destroy, FIRST_DELETE, number, fault):
                failed.append(request)
                # An LPAR that was not deleted stays known.
                self.assertIsNotNone(self.lpar(self.server))
                self.destroy(self.server)
            self.assert_nothing_left()
        return failed

    def test_boot_and_delete_make_known_requests(self):
        boot = functools.partial(self.spawn, self.server)
        delete = functools.partial(self.destroy, self.server)
        self.other_tool.delete_repository()
        self.other_tool.remove_vlan(_VLAN)
        self.restart_host()

        self.assertEqual(FIRST_BOOT, self.requests_of(boot))
        self.assertEqual(FIRST_DELETE, self.requests_of(delete))
        self.other_tool.remove_vlan(_VLAN)
        self.assertEqual(LATER_BOOT, self.requests_of(boot))
        self.assertEqual(DELETE, self.requests_of(delete))
        # One reading of the bridges less, since the VLAN is there.
        self.assertEqual(16, len(self.requests_of(boot)))

    def test_error_answer_to_any_request_leaves_nothing(self):
        failed = self.sweep(status=500)

        # A job and an upload that were carried out need no tidying up. An
        # upload that failed may be tried once more.
        tidying = ('DELETE Job.delete', 'DELETE File.delete')
        self.assertEqual(
            without_uploads(LATER_BOOT, *tidying),
            without_uploads(failed['later']),
        )
        self.assertEqual(
            [FIRST_BOOT[number] for number in ONLY_FIRST], failed['first']
        )
        self.assertEqual(
            without_uploads(FIRST_DELETE, *tidying), failed['delete']
        )

    def test_loss_of_any_request_leaves_nothing(self):
        failed = self.sweep(drop=True)

        # Requests that may be repeated are; the others fail.
        self.assertEqual(
            {
                'later': [
                    'PUT LogicalPartition.create',
                    'PUT LogicalPartition.job',
                ],
                'first': [],
                'delete': ['PUT LogicalPartition.job'],
            },
            failed,
        )

    def test_loss_of_any_answer_is_recovered(self):
        failed = self.sweep(drop=True, phase='after')

        # A change whose answer was lost is found again.
        self.assertEqual(NONE, failed)

    def test_expired_session_of_any_request_is_recovered(self):
        failed = self.sweep(status=401)

        self.assertEqual(NONE, failed)

    def test_outdated_etag_of_any_change_leaves_nothing(self):
        failed = self.sweep(
            lambda request: request.startswith(('PUT', 'POST')), status=412
        )

        # These have no ETag, so 412 is an ordinary error for them.
        self.assertEqual(
            {
                'later': [
                    'PUT LogicalPartition.create',
                    'PUT ClientNetworkAdapter.create',
                    'PUT LogicalPartition.job',
                ],
                'first': [],
                'delete': ['PUT LogicalPartition.job'],
            },
            failed,
        )


class FailedBuildTest(base.PowerVMTestCase):
    """A failed build is cleaned up, and its fault gives the reason."""

    def refused(self, **fault):
        """Boot on a host with a fault, without retries; return the message."""
        self.control().add_fault(**fault)
        self.flags(max_attempts=1, group='scheduler')
        server = self.boot(base.gpu_groups(1), expected='ERROR')
        self.assertIsNone(self.lpar(server))
        return server['fault']['message']

    def test_fault_quotes_error_of_host(self):
        self.start_host()

        message = self.refused(
            match='LogicalPartition.create', status=500, message='Not today.'
        )

        self.assertIn('Not today.', message)

    def test_failed_power_on_removes_lpar(self):
        self.start_host()
        self.control().plan_job('PowerOn', 'HSCL0000 no power')
        self.flags(max_attempts=1, group='scheduler')

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('HSCL0000 no power', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_build_moves_to_other_host_after_failure(self):
        self.start_host('host1')
        self.start_host('host2')
        self.control('host1').add_fault(
            match='LogicalPartition.create', status=500, every=True
        )

        servers = [self.boot(base.gpu_groups(1)) for _ in range(2)]

        for server in servers:
            self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
            self.assertIsNone(self.lpar(server, 'host1'))

    def test_spawn_refuses_slot_taken_outside_nova(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        archive = self.lpar_named('archive')
        for index in ('21010020', '21010021', '21010022', '21020024'):
            self.control().set_owner(index, archive.uuid)

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('owned by partition archive', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_refused_memory_size_names_next_sizes(self):
        self.start_host()

        server = self.boot({}, memory_mb=1000, expected='ERROR')

        self.assertIn('768 or 1024', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_spawn_fails_without_allocations(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        client = self.computes['host1'].manager.reportclient
        # Nova passes this to the driver when Placement does not answer.
        client.get_allocations_for_consumer = lambda *args, **kwargs: {}

        server = self.boot(base.gpu_groups(1), expected='ERROR')

        self.assertIn('no allocations', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_spawn_removes_lpar_without_its_slot(self):
        self.start_host()
        self.flags(max_attempts=1, group='scheduler')
        # A REST server that silently drops the slots.
        create = partitions.RestPartitions.create

        def lossy(self, spec):
            return create(
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


class InterruptedBuildTest(complete_servers.CompleteServerTestCase):
    """Recovery from a nova-compute that was killed during an operation."""

    def setUp(self):
        super().setUp()
        # Nova takes the server for running while the tests stop and start it.
        self.stub_out(
            f'{stopped_lpars.__name__}.StoppedLpars.check', lambda *_: None
        )
        self.start_shared_host()
        self.server, self.port = self.boot_complete_server()

    def test_delete_removes_lpar_that_was_not_started(self):
        self.control().set_partition(
            self.lpar(self.server).uuid, state='not activated'
        )

        self._delete_server(self.server)

        self.assert_nothing_left()

    def test_delete_succeeds_without_lpar(self):
        self.destroy(self.server)

        self._delete_server(self.server)

        self.assert_nothing_left()
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(self.server['id'])
        )

    def test_failed_spawn_cleans_up_by_itself(self):
        self.destroy(self.server)
        self.control().plan_job('PowerOn', 'HSCL0000 no power')

        self.assertRaises(
            nova_exception.InstanceDeployFailure, self.spawn, self.server
        )

        self.assert_nothing_left()

    def test_spawn_replaces_interrupted_build(self):
        made = self.lpar(self.server)
        self.control().set_partition(made.uuid, state='not activated')
        (slot,) = self.allocated_slots(self.server)
        self.control().set_owner(f'{slot:08X}', None)
        disk, _ = self.storage_of(self.server)

        self.spawn(self.server)

        self.assert_complete(self.server, self.port)
        anew, _ = self.storage_of(self.server)
        self.assertNotEqual(disk['udid'], anew['udid'])

    def test_spawn_leaves_running_lpar_alone(self):
        before = self.host_state()

        self.assertRaises(
            nova_exception.InstanceDeployFailure, self.spawn, self.server
        )

        self.assertEqual(before, self.host_state())
        self.assert_complete(self.server, self.port)


class FailureThroughApiTest(complete_servers.CompleteServerTestCase):
    """Failures as users of Nova's API see them."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_shared_host()

    def assert_no_trace(self, server):
        """Assert that a server has neither resources nor allocations."""
        self.assert_nothing_left()
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def test_refused_request_fails_server_and_leaves_nothing(self):
        for label in (
            'NetworkBridge.update',
            'ClientNetworkAdapter.create',
            'VolumeGroup.update',
            'File.upload',
            'VirtualIOServer.update',
        ):
            with self.subTest(label):
                self.control().add_fault(match=label, status=500)
                server, _ = self.boot_complete_server(vlan=100 + len(label))
                self.control().clear_faults()
                self.assertEqual('ERROR', server['status'])
                self.assertIn('Injected by a test', self.fault(server))
                self.assert_no_trace(server)
                self._delete_server(server)

    def test_lost_answers_do_not_fail_boot(self):
        for label in (
            'LogicalPartition.create',
            'NetworkBridge.update',
            'ClientNetworkAdapter.create',
            'VolumeGroup.update',
            'File.create',
            'File.upload',
            'VirtualIOServer.update',
            'LogicalPartition.job',
        ):
            self.control().add_fault(match=label, drop=True, phase='after')

        server, port = self.boot_complete_server()

        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        self.assertEqual(
            [1] * 8, [fault['applied'] for fault in self.control().faults()]
        )
        self.assert_complete(server, port)
        self.assert_no_uploads()
        self._delete_server(server)
        self.assert_no_trace(server)

    def test_delete_succeeds_after_failed_delete(self):
        for label in (
            'LogicalPartition.read',
            'VirtualIOServer.update',
            'VolumeGroup.update',
            'LogicalPartition.delete',
        ):
            with self.subTest(label):
                server, _ = self.boot_complete_server()
                self.control().add_fault(match=label, status=500)
                self.api.delete_server(server['id'])
                server = self._wait_for_state_change(server, 'ERROR')
                self.control().clear_faults()

                self._delete_server(server)

                self.assert_no_trace(server)

    def test_killed_build_ends_in_error_after_restart(self):
        # Where it is killed: with a disk that is not filled; with an LPAR;
        # before the start.
        for number in (8, 17, 25):
            with self.subTest(FIRST_BOOT[number]):
                self.other_tool.remove_vlan(100)
                self.other_tool.delete_repository()
                self.restart_host()
                server = self.kill_build(number)
                self.assertNotEqual(
                    other_tool.NO_RESOURCES,
                    other_tool.resources_of_instances(self.host_state()),
                )

                self.restart_host()

                server = self.api.get_server(server['id'])
                self.assertEqual('ERROR', server['status'])
                self._delete_server(server)
                self.assert_no_trace(server)

    def kill_build(self, number):
        """Leave a server as a nova-compute leaves it that is killed.

        :param number: Index of the first request that is not sent.
        """
        self.control().add_fault(nth=number + 1, every=True, drop=True)
        server, _ = self.boot_complete_server()
        self.control().clear_faults()
        # Undo what a killed nova-compute would not have written.
        instance = self.instance(server)
        instance.vm_state = vm_states.BUILDING
        instance.task_state = task_states.SPAWNING
        node = self.computes['host1'].manager.rt.compute_nodes['host1']
        instance.host = instance.node = 'host1'
        instance.compute_id = node.id
        instance.save()
        return server

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

import dataclasses
import functools

from nova.compute import task_states
from nova.compute import vm_states
from oslo_log import log as logging

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
    'GET NetworkBridge.feed',
    'GET NetworkBridge.feed',
    'GET VirtualIOServer.feed',
    'GET VirtualSwitch.feed',
    'POST NetworkBridge.update',
    'PUT LogicalPartition.create',
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
_VLAN = 100


class KnownRequestsTest(complete_servers.CompleteServerTestCase):
    """What a boot and a delete ask of the host.

    The test calls the driver of a running nova-compute directly. That each
    of the requests may fail is tested in ``tests/ops/test_faults.py``.
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
        write = partitions.RestPartitions.write

        def lossy(self, spec, *args, **options):
            return write(
                self, dataclasses.replace(spec, slots=()), *args, **options
            )

        self.stub_out(
            'nova_powervm.powervm.partitions.RestPartitions.write', lossy
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

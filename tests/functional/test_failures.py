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

"""Failures as users of Nova's API see them.

What the host is left with after a failure at each request is tested in
``tests/ops/test_faults.py`` and ``tests/ops/test_kills.py``.
"""

from nova.compute import task_states
from nova.compute import vm_states

from nova_powervm.ops import watch
from tests.functional import base
from tests.functional import complete_servers


class FailureTest(complete_servers.CompleteServerTestCase):
    """A host that fails, and that others have resources on."""

    def setUp(self):
        super().setUp()
        # Nova takes the server for running while the tests stop and start it.
        self.stub_out(f'{watch.__name__}.StoppedLpars.check', lambda *_: None)
        self.flags(max_attempts=1, group='scheduler')
        self.start_shared_host()

    def test_failures_leave_nothing(self):
        self.tell_stories()

    def assert_no_trace(self, server):
        """Assert that a server has neither resources nor allocations."""
        self.assert_nothing_left()
        self.wait_until_unallocated(server)

    def story_tenant_reads_nothing_of_the_host_of_a_failed_build(self):
        """Before, the fault quoted the host, and named others' LPARs."""
        words = 'HSCL12F0 The slot is used by partition payroll.'
        self.control().add_fault(
            match='VirtualIOServer.update', status=500, message=words
        )

        server, _ = self.boot_complete_server()

        self.assertEqual('ERROR', server['status'])
        fault = self.fault(server)
        self.assertRegex(
            fault, r'The host refuses this\. \(log: req-[0-9a-f-]{36}\)'
        )
        for private in ('payroll', 'http', 'vios1', 'HSCL', 'LPAR'):
            self.assertNotIn(private, fault)
        (line,) = [
            line
            for line in self.logged().splitlines()
            if 'Users read' in line and fault[-42:] in line
        ]
        self.assertIn(words, line)
        self.assert_no_trace(server)

    def story_killed_build_ends_in_error_after_restart(self):
        server = self.kill_build()
        self.assertEqual('not activated', self.lpar(server).state)

        self.restart_host()

        server = self.api.get_server(server['id'])
        self.assertEqual('ERROR', server['status'])
        self._delete_server(server)
        self.assert_no_trace(server)

    def kill_build(self):
        """Leave a server as a nova-compute leaves it that is killed."""
        # Neither are the disks attached nor is the LPAR removed.
        for label in ('VirtualIOServer.read', 'LogicalPartition.delete'):
            self.control().add_fault(match=label, every=True, drop=True)
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

    def story_build_moves_to_other_host_after_failure(self):
        self.flags(max_attempts=2, group='scheduler')
        self.start_host('host2')
        self.control('host1').add_fault(
            match='LogicalPartition.create', status=500, every=True
        )

        # One of them at least is built on the first host at first.
        for _ in range(2):
            server = self.boot(base.gpu_groups(1))
            self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
            self.assertIsNone(self.lpar(server, 'host1'))
        (fault,) = self.control('host1').faults()
        self.assertGreater(fault['applied'], 0)
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(service['id'], {'status': 'disabled'})

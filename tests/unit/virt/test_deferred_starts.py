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

"""Starts that wait, most for Cyborg; real servers are in tests/functional."""

import ddt
import oslo_messaging
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states
from oslo_concurrency import lockutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import deferred_starts
from tests.unit.virt import base

SILENT = exception.CyborgSilent(instance_uuid='i', reason='no answer')
BINDING = exception.AcceleratorsUnknown(instance_uuid='i', reason='binding')
BUSY = exception.RestBusy(action='PowerOn', reason='busy')
REFUSED = exception.AcceleratorRefused(instance_uuid='i', reason='not bound')


@ddt.ddt
class DeferredStartsTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.started = []
        self.errors = {}
        self.faults = []
        self.instances = {
            uuid: objects.Instance(
                uuid=uuid,
                host='host1',
                vm_state=vm_states.ACTIVE,
                task_state=None,
            )
            for uuid in (uuids.first, uuids.second)
        }
        self.first = self.instances[uuids.first]
        self.read_error = None
        self.stub_out('nova.objects.Instance.get_by_uuid', self.read)
        self.stub_out(
            'nova.compute.utils.add_instance_fault_from_exc',
            lambda context, instance, fault, info: self.faults.append(
                (instance.uuid, str(fault))
            ),
        )
        self.starts = deferred_starts.DeferredStarts(self.start)

    def read(self, cls, context, uuid):
        """Read an instance as nova.objects.Instance does."""
        if self.read_error:
            raise self.read_error
        if uuid not in self.instances:
            raise nova_exception.InstanceNotFound(instance_id=uuid)
        return self.instances[uuid]

    def start(self, context, instance):
        """Start an instance, or raise its planned error."""
        self.started.append(instance.uuid)
        if error := self.errors.get(instance.uuid):
            raise error

    def defer(self, *waiting):
        """Let instances wait for their start."""
        self.errors = dict.fromkeys(waiting, BINDING)
        for uuid in waiting:
            self.starts.start_or_defer(None, self.instances[uuid])
        self.errors = {}
        self.started.clear()

    def retry(self):
        """Run a cycle; return which instances it tried to start."""
        self.started.clear()
        self.starts.retry('host1')
        return list(self.started)

    def assert_forgotten(self):
        self.assertFalse(self.starts.is_waiting(self.first))
        self.assertEqual([], self.retry())

    def test_started_or_forgotten_or_deleted_instance_waits_no_longer(self):
        self.defer(uuids.first)
        self.assertTrue(self.starts.is_waiting(self.first))
        self.assertEqual([uuids.first], self.retry())
        self.assert_forgotten()
        self.defer(uuids.first)
        self.starts.forget(self.first)
        self.assert_forgotten()
        self.defer(uuids.first)
        del self.instances[uuids.first]
        self.assertEqual([], self.retry())
        self.assert_forgotten()

    @ddt.named_data(
        ['binding', BINDING],
        ['busy host', BUSY],
        ['silent Cyborg', SILENT],
        ['conductor timeout', oslo_messaging.MessagingTimeout()],
    )
    def test_instance_keeps_waiting_after_temporary_error(self, error):
        self.defer(uuids.first)
        self.errors[uuids.first] = error

        self.assertEqual([uuids.first], self.retry())
        self.assertTrue(self.starts.is_waiting(self.first))
        self.assertEqual([], self.faults)

        self.errors.clear()
        self.assertEqual([uuids.first], self.retry())

    def test_instance_that_cannot_be_read_keeps_waiting(self):
        self.defer(uuids.first)
        self.read_error = oslo_messaging.MessagingTimeout()
        self.assertEqual([], self.retry())

        self.read_error = None

        self.assertEqual([uuids.first], self.retry())

    def test_rescue_system_is_started_later_too(self):
        self.first.vm_state = vm_states.RESCUED
        self.defer(uuids.first)

        self.assertTrue(self.starts.is_waiting(self.first))
        self.assertEqual([uuids.first], self.retry())

    def test_instance_with_task_is_skipped_for_one_cycle(self):
        self.defer(uuids.first)
        self.first.task_state = task_states.REBUILDING
        self.assertEqual([], self.retry())
        self.assertFalse(self.starts.is_waiting(self.first))

        self.first.task_state = None

        self.assertTrue(self.starts.is_waiting(self.first))
        self.assertEqual([uuids.first], self.retry())

    def test_busy_instance_is_skipped_without_waiting(self):
        self.defer(uuids.first, uuids.second)
        with lockutils.lock(uuids.first):
            self.assertEqual([uuids.second], self.retry())

        self.assertEqual([uuids.first], self.retry())

    @ddt.named_data(
        ['stopped', {'vm_state': vm_states.STOPPED}],
        ['on another host', {'host': 'host2'}],
    )
    def test_instance_is_not_started(self, changes):
        self.defer(uuids.first)
        self.first.update(changes)
        self.assertEqual([], self.retry())
        self.first.update({'vm_state': vm_states.ACTIVE, 'host': 'host1'})
        self.assert_forgotten()

    def test_refused_instance_gets_fault_and_is_forgotten(self):
        self.defer(uuids.first, uuids.second)
        self.errors[uuids.first] = REFUSED
        self.assertEqual([uuids.first, uuids.second], self.retry())
        self.assertEqual([(uuids.first, 'not bound')], self.faults)
        self.assert_forgotten()

    def test_last_retry_that_fails_gives_fault_and_is_forgotten(self):
        self.defer(uuids.first)
        self.errors[uuids.first] = BINDING
        for _ in range(deferred_starts.RETRIES - 1):
            self.retry()
        self.assertEqual([], self.faults)
        self.assertTrue(self.starts.is_waiting(self.first))
        self.retry()
        ((uuid, fault),) = self.faults
        self.assertEqual(uuids.first, uuid)
        self.assertIn(BINDING.summary, fault)
        self.assert_forgotten()

    def test_silent_cyborg_is_asked_once_per_cycle(self):
        self.defer(uuids.first, uuids.second)
        self.errors = dict.fromkeys(self.instances, SILENT)

        self.assertEqual([uuids.first], self.retry())
        self.assertTrue(self.starts.is_waiting(self.instances[uuids.second]))

    @ddt.named_data(
        ['binding', BINDING], ['silent Cyborg', SILENT], ['busy host', BUSY]
    )
    def test_instance_waits_after_temporary_error_at_boot(self, error):
        self.errors[uuids.first] = error

        self.starts.start_or_defer(None, self.first)

        self.assertTrue(self.starts.is_waiting(self.first))
        self.assertEqual([], self.faults)

    def test_refusal_at_boot_gives_fault_and_is_raised(self):
        self.errors[uuids.first] = REFUSED

        self.assertRaises(
            exception.AcceleratorRefused,
            self.starts.start_or_defer,
            None,
            self.first,
        )

        self.assertEqual([(uuids.first, 'not bound')], self.faults)
        self.assertFalse(self.starts.is_waiting(self.first))

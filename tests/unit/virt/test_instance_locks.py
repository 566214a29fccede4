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

"""A step of a move and a hard reboot of the same instance."""

import contextlib
import threading
import types
import unittest
import unittest.mock

from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states

from nova_powervm import exception
from nova_powervm.virt import instance_records

objects.register_all()

UUID = '4b1c2d3e-0000-4000-8000-000000000001'


def instance(host='host1', migration=None):
    """Return what Nova hands over, or its record of it."""
    context = migration and types.SimpleNamespace(migration_id=migration)
    return types.SimpleNamespace(
        uuid=UUID, host=host, migration_context=context
    )


class UnchangedTest(unittest.TestCase):
    def setUp(self):
        self.record = instance()
        self.enterContext(
            unittest.mock.patch.object(
                objects.Instance,
                'get_by_uuid',
                side_effect=lambda *_, **__: self.record,
            )
        )

    def test_instance_on_another_host_is_refused(self):
        self.record = instance(host='host2')
        with (
            self.assertRaisesRegex(exception.InstanceChanged, 'host2'),
            instance_records.unchanged(instance()),
        ):
            self.fail('the step has begun')

    def test_instance_in_another_move_is_refused(self):
        for known, present in ((7, 8), (7, None), (None, 8)):
            self.record = instance(migration=present)
            with (
                self.assertRaises(exception.InstanceChanged),
                instance_records.unchanged(instance(migration=known)),
            ):
                self.fail('the step has begun')

    def test_instance_that_is_being_deleted_is_not_rebuilt(self):
        for task in (task_states.REBUILD_SPAWNING, task_states.DELETING):
            self.record.task_state, begun = task, []
            with (
                contextlib.suppress(nova_exception.InstanceNotFound),
                instance_records.undeleted(instance()),
            ):
                begun.append(task)
            self.assertEqual(task != task_states.DELETING, bool(begun))

    def test_second_step_waits_and_looks_at_the_record_then(self):
        inside, outcome = threading.Event(), []

        def take_second_step():
            inside.wait(60)
            try:
                with instance_records.unchanged(instance()):
                    outcome.append('begun')
            except exception.InstanceChanged:
                outcome.append('refused')

        second = threading.Thread(target=take_second_step)
        second.start()
        with instance_records.unchanged(instance()):
            inside.set()
            second.join(0.2)
            self.assertEqual([], outcome)
            self.record = instance(host='host2')
        second.join(60)
        self.assertEqual(['refused'], outcome)

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


import ast
import inspect
import pathlib
import re
import unittest
import unittest.mock

import oslo_messaging
from nova import objects
from nova.compute import api
from nova.compute import manager
from nova.compute import resource_tracker
from nova.compute import vm_states
from nova.virt import block_device

import nova_powervm
from nova_powervm.virt import record_changes

ROOT = pathlib.Path(nova_powervm.__file__).parent
#: What a compute node runs: a command is an operator's own decision.
DRIVER = [
    path
    for path in ROOT.rglob('*.py')
    if path.relative_to(ROOT).parts[0] != 'tool'
]
CALLS = {
    'apply_migration_context',
    'confirm_resize',
    'create_migration_context',
    'delete_allocation_for_instance',
    'destroy_evacuated_instances',
    'drop_migration_context',
    'finish_resize',
    'finish_revert_resize',
    'move_allocations',
    'put_allocations',
    'remove_provider_tree_from_instance_allocation',
    'revert_migration_context',
    'revert_resize',
    'save',
}
ATTRIBUTES = {
    'compute_id',
    'flavor',
    'host',
    'image_ref',
    'kernel_id',
    'node',
    'power_state',
    'ramdisk_id',
    'resources',
    'status',
    'task_state',
    'vm_state',
}
#: The places of Nova that docstrings name.
NOVA = {
    'API': api.API,
    'ComputeManager': manager.ComputeManager,
    'DriverVolumeBlockDevice': block_device.DriverVolumeBlockDevice,
    'ResourceTracker': resource_tracker.ResourceTracker,
}


UUID = '4b1c2d3e-0000-4000-8000-000000000001'

objects.register_all()


def resources(*identifiers):
    """Return what Nova records of devices."""
    return objects.ResourceList(
        objects=[
            objects.Resource(
                provider_uuid=UUID,
                resource_class='CUSTOM_GPU',
                identifier=identifier,
            )
            for identifier in identifiers
        ]
    )


def identifiers(instance):
    """Return the devices that Nova records with an instance."""
    return [resource.identifier for resource in instance.resources]


def changes(source):
    """Return the lines that change a record, with the name of what they do.

    :param source: The text of a module.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CALLS
            and not _is(node.func.value, 'record_changes')
        ):
            found.append((node.lineno, node.func.attr))
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store | ast.Del)
            and node.attr in ATTRIBUTES
            and not _is(node.value, 'self')
        ):
            found.append((node.lineno, node.attr))
    return found


def _is(node, name):
    return isinstance(node, ast.Name) and node.id == name


class ResourcesRecordedTest(unittest.TestCase):
    """What is saved, and when it is put back."""

    def setUp(self):
        self.saved = []
        self.record = self.instance_with(resources('old'))
        self.instance = self.instance_with(resources('old'))
        for name, new in (
            ('get_by_uuid', lambda *_, **__: self.record),
            ('save', self.save),
        ):
            self.enterContext(
                unittest.mock.patch.object(objects.Instance, name, new)
            )

    def instance_with(self, found):
        instance = objects.Instance(
            uuid=UUID, host='host1', vm_state=vm_states.ACTIVE
        )
        instance.obj_reset_changes()
        instance.resources = found
        return instance

    def save(self):
        """Save the record; whoever saves anything else is seen."""
        self.assertEqual({'resources'}, self.record.obj_what_changed())
        self.saved.append(identifiers(self.record))
        self.record.obj_reset_changes()

    def build(self, *wanted, error=None):
        """Build the instance; return what was saved before that."""
        with record_changes.resources_recorded(
            self.instance, resources(*wanted), 'host1'
        ):
            before = [*self.saved]
            if error:
                raise error
        self.assertEqual(before, self.saved)
        return before

    def test_slots_are_saved_before_build(self):
        self.assertEqual([['new']], self.build('new'))
        self.assertEqual(['new'], identifiers(self.instance))

    def test_record_that_is_right_is_not_saved(self):
        self.assertEqual([], self.build('old'))
        self.record.resources = None
        self.assertEqual([], self.build())

    def test_instance_of_another_host_is_not_saved(self):
        self.record.host = 'host2'

        self.assertEqual([], self.build('new'))
        self.assertEqual(['old'], identifiers(self.instance))

    def test_failed_unshelve_puts_back_what_was_recorded(self):
        self.instance = self.instance_with(resources('new'))
        self.instance.vm_state = vm_states.SHELVED_OFFLOADED

        self.assertRaises(ValueError, self.build, 'new', error=ValueError())

        self.assertEqual([['new'], ['old']], self.saved)
        # Nova's tracker releases what it has claimed, and saves nothing of it.
        self.assertEqual(['new'], identifiers(self.instance))
        self.assertNotIn('resources', self.instance.obj_what_changed())

    def test_record_that_cannot_be_put_back_does_not_hide_failure(self):
        self.instance.vm_state = vm_states.SHELVED_OFFLOADED
        lost = oslo_messaging.MessagingTimeout('no conductor')
        save = unittest.mock.Mock(side_effect=[None, lost])

        with (
            unittest.mock.patch.object(objects.Instance, 'save', save),
            self.assertLogs(record_changes.LOG.name, 'ERROR') as logged,
        ):
            self.assertRaises(
                ValueError, self.build, 'new', error=ValueError()
            )

        self.assertIn('still names the devices', logged.output[0])

    def test_failed_rebuild_keeps_what_placement_says(self):
        self.assertRaises(ValueError, self.build, 'new', error=ValueError())

        self.assertEqual([['new']], self.saved)


class RecordChangesTest(unittest.TestCase):
    def test_records_of_nova_change_in_one_module(self):
        self.assertGreater(len(DRIVER), 100)
        for path in DRIVER:
            if path.name != 'record_changes.py':
                with self.subTest(module=str(path.relative_to(ROOT))):
                    self.assertEqual([], changes(path.read_text()))

    def test_changes_are_found(self):
        self.assertEqual(
            [(1, 'save'), (2, 'host'), (3, 'status')],
            changes(
                'instance.save()\n'
                'instance.host = 1\n'
                'self.migration.status = 2\n'
                'self.host = 3\n'
            ),
        )
        self.assertTrue(changes(inspect.getsource(record_changes)))

    def test_docstrings_name_code_that_nova_has(self):
        named = re.findall(
            r'``(\w+)\.(\w+)``', inspect.getsource(record_changes)
        )
        self.assertGreater(len(named), 5)
        for owner, name in named:
            if owner in NOVA:
                with self.subTest(name=name):
                    self.assertTrue(callable(getattr(NOVA[owner], name)))
        self.assertEqual(
            set(NOVA), {owner for owner, _ in named if owner[0].isupper()}
        )

    def test_changes_name_code_of_nova(self):
        for name, function in inspect.getmembers(
            record_changes, inspect.isfunction
        ):
            if function is not record_changes.save_metadata:
                with self.subTest(function=name):
                    self.assertRegex(function.__doc__, r'``[A-Z]\w+\.\w+``')

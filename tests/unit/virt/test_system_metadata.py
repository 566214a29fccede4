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

"""What the driver keeps in the system metadata of instances."""

import ast
import pathlib
import types
import unittest.mock

from nova import context
from nova import exception as nova_exception
from nova import objects
from nova import utils
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from oslo_utils.fixture import uuidsentinel as uuids

import nova_powervm
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm.vif import vlans
from nova_powervm.virt import system_metadata
from tests.unit.virt import base

#: A host with the longest name that Nova's database takes.
LONG = 'h' * 255
_VLAN = vlans._key(shared_ethernet.Vlan(uuids.bridge, 4094))
_OWN = {
    'read',
    'write',
    'remove',
    'rename',
    'items_of_host',
    'live_migration',
    'virtual_slots',
    'write_virtual_slots',
}


def all_keys(host='host1'):
    """Return every key that the driver can write."""
    return [
        *(
            found
            for found in vars(system_metadata).values()
            if isinstance(found, system_metadata.Key)
        ),
        system_metadata.console(host),
        system_metadata.of_host(_VLAN, host),
        system_metadata.virtual_slot('fa:16:3e:00:00:01'),
        system_metadata.virtual_slot(f'{uuids.volume}@15'),
    ]


class ImagesTest(base.NoDBTestCase):
    """What nova-api copies into images, with Nova's own function.

    Before, every snapshot of a server, backup and shelved image had the path
    of its console, with which whoever could connect to the host had its
    screen and keyboard, and the names of its host, pool and bridges. Whoever
    could see the image could read them.
    """

    def properties(self, metadata):
        """Return the properties of an image of an instance."""
        request = context.RequestContext('user', 'project')
        instance = objects.Instance(
            project_id='project', system_metadata=metadata
        )
        return compute_utils.initialize_instance_snapshot_metadata(
            request, instance, 'snapshot'
        )['properties']

    def test_images_have_none_of_all_keys(self):
        metadata = {'image_hw_machine_type': 'mine'}
        for key in all_keys():
            key.write(metadata, 'secret')
        self.assertEqual(10, len(metadata))

        for excluded in (None, [], ['bittorrent']):
            if excluded is not None:
                self.flags(non_inheritable_image_properties=excluded)
            self.assertEqual(
                {'hw_machine_type': 'mine'}, self.properties(metadata)
            )

    def test_images_have_keys_of_earlier_version(self):
        # The attack, which Nova still lets succeed with other names.
        metadata = {key.old: 'secret' for key in all_keys()}
        self.assertEqual(metadata, self.properties(metadata))
        system_metadata.rename(metadata)
        self.assertEqual({}, self.properties(metadata))

    def test_images_have_no_key_that_image_had(self):
        metadata = utils.get_system_metadata_from_image(
            {'properties': {key.name: 'mine' for key in all_keys()}}
        )
        self.assertEqual(9, len(metadata))
        self.assertEqual({}, self.properties(metadata))


class InheritedTest(base.NoDBTestCase):
    """Properties of images, which users choose, and of poisoned images."""

    def test_driver_reads_no_property_of_image(self):
        # Of what a server's user chooses, nothing may become its pool, its
        # console's path, or a VLAN to remove.
        properties = {
            name: 'host1'
            for key in all_keys()
            for name in (key.name, key.old, f'image_{key.name}')
        }
        metadata = utils.get_system_metadata_from_image(
            {'properties': properties}
        )
        self.assertEqual(len(properties), len(metadata))
        before = dict(metadata)

        for key in all_keys():
            self.assertIsNone(key.read(metadata))
        self.assertEqual({}, system_metadata.items_of_host(metadata, 'host1'))
        self.assertEqual({}, system_metadata.virtual_slots(metadata))
        system_metadata.rename(metadata)
        self.assertEqual(before, metadata)


class KeysTest(base.NoDBTestCase):
    def test_keys_begin_so_that_images_lack_them(self):
        for key in all_keys():
            self.assertRegex(key.name, '^os_glance_powervm_[a-z]')

    def test_names_of_keys_fit_into_database(self):
        longest_item = 'x' * 64
        for key in (
            *all_keys(LONG),
            system_metadata.of_host(longest_item, LONG),
        ):
            self.assertLessEqual(len(key.name), 255)
        self.assertLessEqual(len(_VLAN), len(longest_item))

    def test_hosts_with_long_names_have_keys_of_their_own(self):
        metadata = {}
        for host in (LONG, LONG[:-1], 'host1'):
            system_metadata.console(host).write(metadata, host)
            system_metadata.of_host(_VLAN, host).write(metadata, host)

        self.assertEqual(6, len(metadata))
        for host in (LONG, LONG[:-1], 'host1'):
            key = system_metadata.console(host)
            self.assertEqual(host, key.read(metadata))
            self.assertIn(_VLAN, system_metadata.items_of_host(metadata, host))

    def test_keys_are_made_in_one_module(self):
        root = pathlib.Path(nova_powervm.__file__).parent
        found = []
        for path in root.rglob('*.py'):
            if path.name != 'system_metadata.py':
                found += [
                    f'{path.relative_to(root)}:{line}'
                    for line in other_accesses(ast.parse(path.read_text()))
                ]
        # Nova's own keys of the image are put back.
        self.assertRegex(found.pop(), r'^virt/record_changes\.py:\d+$')
        self.assertEqual([], found)


def other_accesses(tree):
    """Yield the lines that get at metadata without a key of the module."""
    passed = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _OWN
        for argument in call.args
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == 'system_metadata'
            and id(node) not in passed
        ):
            yield node.lineno


class RenamedTest(base.NoDBTestCase):
    OLD = types.MappingProxyType(
        {
            'image_os_type': 'linux',
            'powervm_accelerators': '21010020 21010021',
            'powervm_console@host1': 'path',
            'powervm_console@host2': 'other',
            'powervm_image_ref': uuids.image,
            'powervm_pool': 'pool',
            'powervm_root_gb': '20',
            f'powervm_vlan:{uuids.bridge}:4094@host1': 'host1',
            f'powervm_vlan:{uuids.bridge}:7': 'host1',
        }
    )

    def test_keys_keep_values_but_paths_of_consoles(self):
        metadata = dict(self.OLD)

        system_metadata.rename(metadata)

        self.assertEqual(
            {
                'image_os_type': 'linux',
                'os_glance_powervm_accelerators': '21010020 21010021',
                'os_glance_powervm_image_ref': uuids.image,
                'os_glance_powervm_pool': 'pool',
                'os_glance_powervm_root_gb': '20',
                f'os_glance_powervm_vlan:{uuids.bridge}:4094@host1': 'host1',
                f'os_glance_powervm_vlan:{uuids.bridge}:7': 'host1',
            },
            metadata,
        )

    def test_old_keys_are_read_but_paths_of_consoles(self):
        self.assertEqual('pool', system_metadata.POOL.read(dict(self.OLD)))
        self.assertIsNone(
            system_metadata.console('host1').read(dict(self.OLD))
        )
        self.assertEqual(
            {_VLAN, f'vlan:{uuids.bridge}:7'},
            set(system_metadata.items_of_host(dict(self.OLD), 'host1')),
        )

    def test_value_that_older_host_has_written_since_is_valid(self):
        metadata = {}
        system_metadata.POOL.write(metadata, 'ours')
        metadata[system_metadata.POOL.old] = 'theirs'

        self.assertEqual('theirs', system_metadata.POOL.read(metadata))
        renamed = dict(metadata)
        system_metadata.rename(renamed)
        self.assertEqual({system_metadata.POOL.name: 'theirs'}, renamed)

        system_metadata.POOL.write(metadata, 'ours again')
        self.assertEqual({system_metadata.POOL.name: 'ours again'}, metadata)
        metadata[system_metadata.POOL.old] = 'theirs'
        system_metadata.POOL.remove(metadata)
        self.assertEqual({}, metadata)


class StartTest(base.NoDBTestCase):
    """What the start of a service renames in Nova's records."""

    def setUp(self):
        super().setUp()
        self.recorded = {}
        self.errors = {}
        self.saved = []
        for attribute, replacement in {
            'InstanceList.get_by_host': self.list_instances,
            'Instance.get_by_uuid': lambda _, uuid, **options: self.load(uuid),
        }.items():
            patched = unittest.mock.patch(
                f'nova.objects.{attribute}', replacement
            )
            self.enterContext(patched)
        self.enterContext(
            unittest.mock.patch.object(
                system_metadata.record_changes, 'save_metadata', self.save
            )
        )

    def add(self, uuid, error=None, vm_state=vm_states.ACTIVE, prefix=''):
        """Add an instance, and the error with which it cannot be saved."""
        self.recorded[uuid] = (vm_state, {f'{prefix}powervm_pool': uuid})
        self.errors[uuid] = error

    def load(self, uuid):
        vm_state, metadata = self.recorded[uuid]
        return objects.Instance(
            uuid=uuid, vm_state=vm_state, system_metadata=dict(metadata)
        )

    def list_instances(self, _, host, expected_attrs):
        self.assertEqual(
            ('host1', ['system_metadata']), (host, expected_attrs)
        )
        return [self.load(uuid) for uuid in self.recorded]

    def save(self, instance, *, only_idle):
        self.assertTrue(only_idle)
        self.saved.append(instance.uuid)
        if self.errors[instance.uuid]:
            raise self.errors[instance.uuid]
        self.recorded[instance.uuid] = (
            instance.vm_state,
            instance.system_metadata,
        )

    def test_instance_that_cannot_be_saved_stops_nothing(self):
        busy = nova_exception.UnexpectedTaskStateError
        self.add(uuids.busy, busy(instance_uuid=1, expected=None, actual='x'))
        self.add(uuids.gone, nova_exception.InstanceNotFound(instance_id=1))
        self.add(uuids.broken, RuntimeError('no database'))
        self.add(uuids.last)

        system_metadata.rename_old('host1')

        self.assertEqual(
            {
                uuids.busy: 'powervm_pool',
                uuids.gone: 'powervm_pool',
                uuids.broken: 'powervm_pool',
                uuids.last: 'os_glance_powervm_pool',
            },
            {
                uuid: next(iter(each[1]))
                for uuid, each in self.recorded.items()
            },
        )
        self.assertIn('The instance has a task', self.stdlog.logger.output)
        self.assertEqual(
            1, self.stdlog.logger.output.count('cannot be renamed')
        )

    def test_server_that_can_return_to_older_host_keeps_keys(self):
        self.add(uuids.resized, vm_state=vm_states.RESIZED)
        system_metadata.rename_old('host1')
        self.assertEqual([], self.saved)

    def test_renamed_instance_is_not_saved_again(self):
        self.add(uuids.new, prefix='os_glance_')
        self.add(uuids.mine, prefix='image_')
        system_metadata.rename_old('host1')
        self.assertEqual([], self.saved)

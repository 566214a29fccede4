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

"""Checking and building world documents."""

import os
import pathlib
import tempfile
import unittest

import jsonschema
from lxml import etree

from powervm_emulator import app
from powervm_emulator import worlds
from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.partition import model as partition_model

UUID = '10e1f2a3-0000-4000-8000-00000000000a'
VM = {'name': 'vm', 'memory': 256, 'processors': 1}


def system_of(**keys):
    return {'systems': [{'name': 'machine', **keys}]}


class CheckWorldTest(unittest.TestCase):
    def assert_problems(self, world, *expected):
        with self.assertRaises(errors.WorldError) as caught:
            worlds.check(world)
        problems = caught.exception.problems
        self.assertEqual(len(expected), len(problems), problems)
        for pattern, problem in zip(sorted(expected), problems, strict=True):
            self.assertRegex(problem, pattern)

    def test_bridge_is_on_server_that_is_there(self):
        bridge = {'vios': 'vios1_181.68', 'pvid': 77}
        captured = {'capture': {'file': 'fake_vios_ssp_npiv.txt'}}
        described = system_of(
            virtual_io_servers=[captured], network_bridges=[bridge]
        )
        worlds.check(described)
        del described['systems'][0]['virtual_io_servers']
        self.assert_problems(
            described,
            r"bridges\[0\].vios: unknown Virtual I/O Server 'vios1_181.68'",
        )

    def test_schema_is_valid_json_schema(self):
        jsonschema.Draft202012Validator.check_schema(worlds.schema())

    def test_schema_forbids_additional_properties_everywhere(self):
        def mappings(node):
            if isinstance(node, dict):
                if node.get('type') == 'object':
                    yield node
                for value in node.values():
                    yield from mappings(value)
            elif isinstance(node, list):
                for value in node:
                    yield from mappings(value)

        found = list(mappings(worlds.schema()))
        self.assertGreater(len(found), 5)
        for mapping in found:
            self.assertIs(False, mapping['additionalProperties'])

    def test_default_world_passes_check(self):
        self.assertEqual(worlds.default(), worlds.check(worlds.default()))

    def test_check_requires_names_and_sizes(self):
        self.assert_problems(None, "the document: None is not of type 'obj")
        self.assert_problems(
            {'systems': [{'partitions': [{}]}]},
            r'systems\[0\].partitions\[0\]: memory is required',
            r'systems\[0\].partitions\[0\]: name is required',
            r'systems\[0\].partitions\[0\]: processors is required',
            r'systems\[0\]: name is required without capture',
        )

    def test_check_reports_each_problem_with_its_path(self):
        self.assert_problems(
            system_of(
                colour='red',
                serial='short',
                slots=[
                    {'drc_index': '21010020', 'vendor_id': '10DEX'},
                    {'drc_index': 21010021},
                    {},
                ],
                partitions=[{**VM, 'state': 'asleep'}],
            ),
            r"systems\[0\].partitions\[0\].state: 'asleep' is not one of",
            r"systems\[0\].serial: 'short' does not match",
            r"systems\[0\].slots\[0\].vendor_id: '10DEX' does not match",
            r'systems\[0\].slots\[1\].drc_index: 21010021 is not of type',
            r"systems\[0\].slots\[2\]: 'drc_index' is a required property",
            r'systems\[0\]: Additional properties .*colour',
        )

    def test_check_refuses_repeated_identifiers(self):
        self.assert_problems(
            system_of(
                uuid=UUID,
                slots=[{'drc_index': 'abcdef01'}, {'drc_index': 'ABCDEF01'}],
                virtual_io_servers=[{**VM, 'id': 1}],
                partitions=[{**VM, 'id': 1, 'uuid': UUID.upper()}],
            ),
            r'partitions\[0\].id: 1 is also at .*servers\[0\].id',
            r"partitions\[0\].name: 'vm' is also at .*servers\[0\].name",
            rf"partitions\[0\].uuid: '{UUID}' is also at systems\[0\].uuid",
            r"slots\[1\].drc_index: 'ABCDEF01' is also at .*slots\[0\]",
        )

    def test_check_refuses_unknown_owner_and_owner_of_sriov_adapter(self):
        self.assert_problems(
            system_of(
                slots=[
                    {'drc_index': '21010020', 'owner': 'nobody'},
                    {'drc_index': '21010021', 'owner': 'vm', 'sriov': True},
                ],
                partitions=[VM],
            ),
            r"slots\[0\].owner: unknown partition 'nobody'",
            r'slots\[1\]: an adapter in SR-IOV mode has no owner',
        )


class BuildWorldTest(unittest.TestCase):
    def system(self, world, **options):
        """Return the only system of an emulator that starts with a world."""
        application = app.make_app(world, **options)
        self.addCleanup(application.close)
        (system,) = application.control.state()['systems']
        return system

    def assert_refused(self, message, world):
        with self.assertRaisesRegex(errors.WorldError, message):
            self.system(world)

    def host(self, world):
        host = host_module.Host()
        with host.loading():
            worlds.build(host, worlds.check(world))
        return host

    def test_unknown_and_repeated_captures_are_refused(self):
        for capture, message in (
            ({'file': 'none.txt'}, 'none.txt is not a capture'),
            ({'file': 'logon.xml'}, 'logon.xml'),
            ({'file': 'lpar.txt'}, 'no ManagedSystem as entry 0'),
            ({'file': 'managedsystem.txt', 'entry': 3}, 'as entry 3'),
        ):
            self.assert_refused(message, {'systems': [{'capture': capture}]})
        twice = [{'capture': {'file': 'lpar.txt'}}] * 2
        self.assert_refused('more than once', system_of(partitions=twice))

    def test_changed_capture_is_read_again(self):
        text = (captures.folder() / 'managedsystem.txt').read_text()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'own.txt')
            world = {'systems': [{'capture': {'file': str(path)}}]}
            for name in ('HV4', 'HV5'):
                path.write_text(text.replace('>HV4<', f'>{name}<'))
                os.utime(path, (0, int(name[-1])))
                self.assertEqual(name, self.system(world)['name'])

    def test_capture_can_have_encoding_of_its_own(self):
        text = (captures.folder() / 'managedsystem.txt').read_text()
        body = text.partition('BODY{')[2].partition('END OF SECTION}')[0]
        with tempfile.NamedTemporaryFile() as file:
            root = etree.fromstring(body.strip().replace('HV4', 'HÜ').encode())
            file.write(etree.tostring(root, encoding='ISO-8859-1'))
            file.flush()
            world = {'systems': [{'capture': {'file': file.name}}]}
            self.assertEqual('HÜ', self.system(world)['name'])

    def test_refusal_of_capture_does_not_quote_file(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b'<secret>')
            file.flush()
            message = f'(?s)^(?!.*secret).*{file.name}'
            world = {'systems': [{'capture': {'file': file.name}}]}
            self.assert_refused(message, world)

    def test_keys_override_captured_partition(self):
        keys = {'name': 'other', 'id': 99, 'state': 'not activated'}
        capture = {'file': 'lpar.txt', 'entry': 2}
        captured = {'capture': capture, 'uuid': 'random', **keys}
        described = {**VM, 'type': 'OS400'}
        found = self.system(system_of(partitions=[captured, described]))
        shown = {one['name']: one for one in found['partitions']}
        self.assertLessEqual(keys.items(), shown['other'].items())
        self.assertEqual('OS400', shown['vm']['type'])

    def test_captured_partition_owns_its_slots(self):
        capture = {'file': 'fake_vios_hosting_vios_feed.txt'}
        indexes = range(553713680, 553713689)
        system = self.system(
            system_of(
                slots=[{'drc_index': f'{index:08X}'} for index in indexes],
                virtual_io_servers=[{'capture': capture}],
            )
        )
        owners = [slot['owner'] for slot in system['slots']]
        self.assertEqual(8, owners.count('novalink_106CCC7'))

    def test_profile_of_capture_shows_described_card(self):
        file = 'fake_vios_hosting_vios_feed.txt'
        (capture, *_) = captures.read(file)
        path = f'{partition_model.PROFILE_SLOTS}/ProfileIOSlot'
        slot = f'{path}/AssociatedIOSlot'
        index = content.integer(capture.element, f'{slot}/{io_slot.DRC_INDEX}')
        host = self.host(
            system_of(
                slots=[{'drc_index': f'{index:08X}', 'description': 'FPGA'}],
                virtual_io_servers=[{'capture': {'file': file}}],
            )
        )
        found = host.get(capture.kind, capture.uuid)
        self.assertEqual('FPGA', found.text(f'{slot}/Description'))
        self.assertEqual(
            len(content.find_all(capture.element, path)),
            len(content.find_all(found.element, path)),
        )

    def test_new_location_of_captured_slot_is_everywhere(self):
        capture = {'file': 'managedsystem.txt', 'entry': 1}
        system = captures.find(capture, 'ManagedSystem').element
        slot = next(system.iter('{*}IOSlot'))
        old = content.text(slot, io_slot.DRC_NAME)
        index = content.integer(slot, io_slot.DRC_INDEX)
        spec = {'drc_index': f'{index:08X}', 'drc_name': 'U1-P1-C77'}
        host = self.host({'systems': [{'capture': capture, 'slots': [spec]}]})
        (found,) = host.all('ManagedSystem')
        texts = [node.text for node in found.element.iter()]
        self.assertNotIn(old, texts)
        self.assertEqual(5, texts.count('U1-P1-C77'))
        self.assertEqual(3, texts.count('C77'))

    def test_generated_id_avoids_given_ids(self):
        given = {**VM, 'name': 'first', 'id': 1}
        found = self.system(system_of(partitions=[VM, given]))['partitions']
        self.assertEqual(
            {'first': 1, 'vm': 2}, {p['name']: p['id'] for p in found}
        )

    def test_free_capacity_excludes_hypervisor_and_running_partitions(self):
        world = system_of(
            memory={'configurable': 4096, 'hypervisor': 1024},
            processors={'configurable': 4},
            partitions=[
                {**VM, 'state': 'running', 'processor_units': 0.5},
                {**VM, 'name': 'ded', 'state': 'running', 'dedicated': True},
                {**VM, 'name': 'off'},
            ],
        )
        system = self.system(world)
        # The hypervisor needs 256 MB for each active one.
        free = 4096 - 1024 - 2 * (256 + 256)
        self.assertEqual(free, system['memory_available'])
        self.assertEqual(2.5, system['processor_units_available'])

    def test_partitions_cannot_need_more_units_than_system_has(self):
        shared = {**VM, 'processors': 2}
        dedicated = {**VM, 'name': 'ded', 'dedicated': True}
        world = system_of(
            processors={'configurable': 2}, partitions=[shared, dedicated]
        )
        self.system(world)
        shared['processor_units'] = 1.1
        message = 'machine: .* 2.1 processor units.* 2 for them'
        self.assert_refused(message, world)

    def test_described_partitions_reduce_captured_capacity(self):
        capture = {'file': 'managedsystem.txt', 'entry': 1}
        vm = {**VM, 'state': 'running', 'memory': 1024}
        world = {'systems': [{'capture': capture}]}
        before = self.system(world)['memory_available']
        world['systems'][0]['partitions'] = [vm]
        after = self.system(world)['memory_available']
        self.assertEqual(before - 1024 - 256, after)
        vm['memory'] = before + 1
        self.assert_refused(r'need \d+ MB of memory', world)

    def test_slot_in_sriov_mode_has_no_owner(self):
        slot = {'drc_index': '21010023', 'owner': 'vm'}
        world = system_of(
            capture={'file': 'sys_with_sriov.txt'},
            slots=[slot],
            partitions=[VM],
        )
        self.assert_refused('21010023.*SR-IOV', world)
        slot['sriov'] = False
        self.system(world)

    def test_captured_slots_name_changed_owner(self):
        (system, *_) = captures.read('managedsystem.txt')
        owner = system.element.findtext('.//{*}IOSlot/{*}PartitionUUID')
        text = (captures.folder() / 'lpar.txt').read_text()
        (partition, *_) = captures.read('lpar.txt')
        with tempfile.NamedTemporaryFile(suffix='.txt') as file:
            file.write(text.replace(partition.uuid, owner).encode())
            file.flush()
            captured = {'capture': {'file': file.name}, 'uuid': 'random'}
            found = self.system(
                system_of(
                    capture={'file': 'managedsystem.txt'},
                    partitions=[{**captured, 'name': 'renamed'}],
                )
            )
        owners = {slot['owner'] for slot in found['slots']}
        self.assertEqual({None, 'renamed'}, owners)

    def test_seed_determines_uuids_unless_they_are_given(self):
        first, second, again = (
            self.system(None, seed=seed) for seed in (1, 2, 1)
        )
        self.assertEqual(first, again)
        self.assertNotEqual(first['uuid'], second['uuid'])
        uuids = {p['uuid'] for p in first['partitions']}
        self.assertFalse(uuids & {p['uuid'] for p in second['partitions']})
        self.assertEqual(
            UUID, self.system(system_of(uuid=UUID.upper()))['uuid']
        )


class WorldFileTest(unittest.TestCase):
    def write(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, 'world.yaml')
        path.write_text(text)
        return str(path)

    def test_valid_file_is_loaded(self):
        path = self.write('systems: [{name: machine}]')
        self.assertEqual(system_of(), worlds.load_file(path))

    def test_invalid_or_missing_file_is_refused(self):
        for text, message in (
            ('systems: [', 'is not YAML'),
            ('', 'None is not'),
            ('systems: 1', 'systems: 1 is not of type'),
        ):
            with self.assertRaisesRegex(errors.WorldError, message):
                worlds.load_file(self.write(text))
        for text in ('a: 2020-99-99', '[' * 5000, 'a: "\x01"'):
            with self.assertRaisesRegex(errors.WorldError, 'is not YAML'):
                worlds.parse(text, 'it')
        with self.assertRaisesRegex(errors.WorldError, 'No such file'):
            worlds.load_file('/nonexistent/world.yaml')
        path = self.write('')
        pathlib.Path(path).write_bytes(b'systems: \xff')
        with self.assertRaisesRegex(errors.WorldError, path):
            worlds.load_file(path)

    def test_relative_capture_starts_at_folder_of_file(self):
        path = self.write('systems: [{capture: {file: ./own/machine.xml}}]')
        capture = pathlib.Path(path).parent / 'own' / 'machine.xml'
        capture.parent.mkdir()
        source = captures.folder() / 'managedsystem.txt'
        capture.write_text(source.read_text())
        world = worlds.load_file(path)
        self.assertEqual(str(capture), world['systems'][0]['capture']['file'])
        application = app.make_app(world)
        self.addCleanup(application.close)
        (system,) = application.control.state()['systems']
        self.assertEqual(captures.read(str(capture))[0].uuid, system['uuid'])

    def test_duplicate_key_is_refused_with_its_line(self):
        message = "(?s)duplicate key 'name'.*line 3"
        with self.assertRaisesRegex(errors.WorldError, message):
            worlds.parse('systems:\n- name: a\n  name: b\n', 'twice')

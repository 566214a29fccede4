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

"""Captured systems, LPARs, VIOSes and volume groups are served unchanged."""

import collections

from lxml import etree
from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server as vios

from powervm_emulator.core import captures
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.nouns import io_slot

from . import base
from . import facts

WRAPPERS = {
    'ManagedSystem': ms.System,
    'LogicalPartition': lpar.LPAR,
    'VirtualIOServer': vios.VIOS,
}
SECTIONS = {
    'LogicalPartition': 'partitions',
    'VirtualIOServer': 'virtual_io_servers',
}
# Every capture of one of these; test_file_list_names_every_capture finds those
# that are missing here.
FILES = (
    'fake_lpar_feed.txt',
    'fake_managedsystem.txt',
    'fake_vios.txt',
    'fake_vios_feed.txt',
    'fake_vios_feed2.txt',
    'fake_vios_feed3.txt',
    'fake_vios_feed_multi.txt',
    'fake_vios_feed_no_vg.txt',
    'fake_vios_hosting_vios_feed.txt',
    'fake_vios_mappings.txt',
    'fake_vios_ssp_npiv.txt',
    'fake_vios_with_volume_group_data.txt',
    'lpar.txt',
    'lpar_ibmi.txt',
    'managedsystem.txt',
    'sys_with_sriov.txt',
    'vio_multi_vscsi_mapping.txt',
)


def kinds_of(file):
    """Return the kinds of a capture's entries, or nothing for another file."""
    try:
        return [capture.kind for capture in captures.read(file)]
    except (errors.WorldError, ValueError, IndexError):
        return []


def world_of(file):
    """Return a world with every resource of a capture."""
    entries = [
        (kind, {'capture': {'file': file, 'entry': number}})
        for number, kind in enumerate(kinds_of(file))
        if kind in WRAPPERS
    ]
    systems = [entry for kind, entry in entries if kind == 'ManagedSystem']
    system = systems[0] if systems else {'name': 'any'}
    for kind, section in SECTIONS.items():
        found = [entry for other, entry in entries if other == kind]
        if found:
            system[section] = found
    return {'systems': systems or [system]}


class CaptureTestCase(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.maxDiff = 2000

    def direct(self, file):
        """Read a capture with pypowervm alone."""
        text = (captures.folder() / file).read_text()
        body = text.partition('BODY{')[2].partition('END OF SECTION}')[0]
        response = pvm_adapter.Response(
            'GET', '/rest/api/uom/x', 200, 'OK', {}, body=body.strip()
        )
        # A few properties read another resource from the emulator.
        response.adapter = self.adapter
        response._unmarshal_atom()
        return response

    @staticmethod
    def entries(response):
        if response.feed is not None:
            return response.feed.entries
        return [response.entry]

    def assert_same(self, wrapper, captured, served):
        # People have added elements to captures without the marks of hosts.
        elements.mark(captured.element.element)
        expected, actual = wrapper.wrap(captured), wrapper.wrap(served)
        self.assertEqual(
            facts.read_properties(expected),
            facts.read_properties(actual),
        )
        self.assertEqual(
            leaves(captured.element.element), leaves(served.element.element)
        )


class CaptureRoundTripTest(CaptureTestCase):
    def check(self, kind, file):
        captured = [
            entry
            for entry in self.entries(self.direct(file))
            if entry.element.tag == kind
        ]
        served = self.entries(self.adapter.read(kind, xag=[]))
        served = {entry.uuid.upper(): entry for entry in served}
        # Systems and partitions are served in the order of the capture.
        self.assertEqual(
            [entry.uuid.upper() for entry in captured], list(served)
        )
        for entry in captured:
            self.assert_same(WRAPPERS[kind], entry, served[entry.uuid.upper()])

    def check_file(self, file):
        self.control.load_world(world_of(file))
        for kind in set(kinds_of(file)) & set(WRAPPERS):
            self.check(kind, file)

    def test_file_list_names_every_capture(self):
        found = {
            path.name
            for path in captures.folder().glob('*.txt')
            if set(kinds_of(path.name)) & set(WRAPPERS)
        }
        self.assertEqual(found, set(FILES))


def _add_tests():
    """Add one test per file, so that each is timed by itself."""
    for file in FILES:

        def test(self, file=file):
            self.check_file(file)

        name = file.partition('.')[0]
        setattr(CaptureRoundTripTest, f'test_{name}', test)


_add_tests()


class VolumeGroupCaptureTest(CaptureTestCase):
    def check_file(self, file):
        groups = [
            {'capture': {'file': file, 'entry': number}}
            for number in range(len(kinds_of(file)))
        ]
        captured = self.entries(self.direct(file))
        # A property of physical volumes reads the VIOS of the SELF link.
        path = captured[0].properties['links']['SELF'][0]
        server = {
            'name': 'vios',
            'uuid': path.partition('VirtualIOServer/')[2].partition('/')[0],
            'memory': 4096,
            'processors': 1,
        }
        self.control.load_world(
            {
                'systems': [
                    {
                        'name': 'any',
                        'virtual_io_servers': [
                            server | {'volume_groups': groups}
                        ],
                    }
                ]
            }
        )
        (parent,) = vios.VIOS.get(self.adapter)
        served = self.entries(
            self.adapter.read(
                'VirtualIOServer', parent.uuid, 'VolumeGroup', xag=[]
            )
        )
        for expected, actual in zip(captured, served, strict=True):
            self.assertEqual(expected.uuid, actual.uuid)
            self.assert_same(storage.VG, expected, actual)

    def test_emulator_serves_captured_volume_groups_unchanged(self):
        files = [
            path.name
            for path in sorted(captures.folder().glob('*.txt'))
            if set(kinds_of(path.name)) == {'VolumeGroup'}
        ]
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            with self.subTest(file):
                self.check_file(file)


def leaves(element):
    """Count (path, attributes, text) of everything in a content element."""
    found = collections.Counter()
    paths = {}
    for node in element.iter(etree.Element):
        above = paths.get(node.getparent(), '')
        name = etree.QName(node)
        is_atom = 'atom' in name.namespace.lower()
        path = paths[node] = above if is_atom else f'{above}/{name.localname}'
        attributes = tuple(
            sorted(
                (name, base.without_host(value))
                for name, value in node.attrib.items()
            )
        )
        text = (node.text or '').strip()
        found[path.partition('content/')[2] or path, attributes, text] += 1
    return found


class WrapperPropertiesTest(base.EmulatorTestCase):
    """The comparison of captures includes nested wrappers."""

    def test_read_properties_includes_nested_wrappers(self):
        values = facts.read_properties(self.system())
        slots = values['asio_config']['ASIOConfig']['io_slots']
        self.assertIn(
            base.GPUS[0],
            [slot['IOSlot']['drc_index'] for slot in slots],
        )
        adapters = values['asio_config']['ASIOConfig']['sriov_adapters']
        ports = adapters[0]['SRIOVAdapter']['phys_ports']
        self.assertTrue(ports[0]['SRIOVConvPPort']['loc_code'])


class CorrectedIdsTest(base.EmulatorTestCase):
    def test_correct_ids_gives_each_card_real_vendor_id(self):
        self.control.load_world(
            {
                'systems': [
                    {
                        'capture': {
                            'file': 'fake_managedsystem.txt',
                            'correct_ids': True,
                        }
                    }
                ]
            }
        )
        for slot in self.system().asio_config.io_slots:
            if slot.description == 'Empty slot':
                self.assertEqual(0xFFFF, slot.pci_vendor_id)
                self.assertEqual(0xFFFF, slot.pci_dev_id)
            else:
                self.assertIn(slot.pci_vendor_id, io_slot.VENDORS.values())
                self.assertIn(slot.pci_dev_id, io_slot.VENDORS)

    def test_correct_ids_keeps_right_ids(self):
        world = {'systems': [{'capture': {'file': 'managedsystem.txt'}}]}
        self.control.load_world(world)
        expected = facts.read_properties(self.system())
        world['systems'][0]['capture']['correct_ids'] = True
        world['systems'][0]['capture']['entry'] = 0
        self.control.load_world(world)
        self.assertEqual(expected, facts.read_properties(self.system()))

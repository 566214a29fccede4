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

"""Documents and tables have the order of elements that captures have."""

import importlib
import inspect
import pkgutil
import unittest

from lxml import etree
from pypowervm import wrappers
from pypowervm.tasks import cna

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import schema

from . import base
from . import element_documents
from . import storage
from . import wire

MEMORY = 'PartitionMemoryConfiguration'
SHARED = 'PartitionProcessorConfiguration/SharedProcessorConfiguration'
GROUPS = '?group=ViosNetwork,ViosSCSIMapping,ViosStorage'


def add(parent, name, text=None):
    """Append an element of the parent's namespace; return it."""
    made = etree.SubElement(parent, f'{{{wire.UOM}}}{name}')
    made.text = text
    return made


def move_last(element):
    """Make an element the last one of its parent."""
    parent = element.getparent()
    parent.remove(element)
    parent.append(element)


class OrderTestCase(storage.StorageTestCase, wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.created = self.create(slots=base.GPUS[:1])
        self.path = self.path_of('vm1')

    def document(self, path=None):
        """Return a document as the server has it."""
        return self.get(path or self.path).content

    def new(self, name='vm2'):
        """Return a document that creates a partition."""
        return etree.fromstring(
            etree.tostring(self.build(name).entry.element.element)
        )

    def assert_unchanged(self, before, path=None):
        after = self.document(path)
        self.assertEqual(etree.tostring(before), etree.tostring(after))

    def volume_group(self):
        """Return the path of the volume group."""
        uuid = self.group().uuid.lower()
        return f'{self.path_of("vios1")}/VolumeGroup/{uuid}'


class OrderTest(OrderTestCase):
    def test_update_with_children_in_wrong_order_is_refused(self):
        before = self.document()
        for path, words in (
            ('PartitionName', 'PartitionName'),
            ('AvailabilityPriority', '.'),
            (MEMORY, '.'),
            (f'{MEMORY}/DesiredMemory', 'DesiredMemory'),
            (f'{SHARED}/DesiredProcessingUnits', 'DesiredProcessingUnits'),
            (
                'PartitionProcessorConfiguration/HasDedicatedProcessors',
                'HasDedicatedProcessors',
            ),
            (
                'PartitionIOConfiguration/MaximumVirtualIOSlots',
                'MaximumVirtualIOSlots',
            ),
        ):
            with self.subTest(path):
                document = self.document()
                move_last(wire.child(document, path))
                answer = self.ask('POST', self.path, document)
                self.assert_refusal(answer, words)
                self.assert_unchanged(before)

    def test_creation_with_children_in_wrong_order_is_refused(self):
        document = self.new()
        move_last(wire.child(document, 'AllowPerformanceDataCollection'))
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assert_refusal(answer, 'AllowPerformanceDataCollection')
        names = [
            partition['name']
            for partition in self.control.state()['systems'][0]['partitions']
        ]
        self.assertNotIn('vm2', names)

    def test_disk_with_children_in_wrong_order_is_refused(self):
        path = self.volume_group()
        document = self.document(path)
        disks = wire.child(document, 'VirtualDisks')
        disk = add(disks, 'VirtualDisk')
        disk.set('schemaVersion', 'V1_0')
        add(disk, 'DiskName', 'new')
        add(disk, 'DiskCapacity', '1')
        self.assert_refusal(self.ask('POST', path, document), 'Disk')
        disk[:] = [disk[1], disk[0]]
        self.assertEqual(200, self.ask('POST', path, document).status)

    def test_network_adapter_in_wrong_order_is_refused(self):
        document = etree.fromstring(
            f'<ClientNetworkAdapter xmlns="{wire.UOM}" schemaVersion="V1_0">'
            '<PortVLANID>7</PortVLANID>'
            '<UseNextAvailableSlotID>true</UseNextAvailableSlotID>'
            '</ClientNetworkAdapter>'
        )
        path = f'{self.path}/ClientNetworkAdapter'
        answer = self.ask('PUT', path, document)
        self.assert_refusal(answer, 'UseNextAvailableSlotID|PortVLANID')
        document[:] = [document[1], document[0]]
        self.assertEqual(200, self.ask('PUT', path, document).status)

    def test_mapping_in_wrong_order_is_refused(self):
        self.map(self.created, self.disk())
        path = f'{self.path_of("vios1")}?group=ViosSCSIMapping'
        document = self.document(path)
        adapter = 'VirtualSCSIMappings/VirtualSCSIMapping/ClientAdapter'
        move_last(wire.child(document, adapter))
        answer = self.ask('POST', path, document)
        self.assert_refusal(answer, 'ClientAdapter|ServerAdapter')

    def test_single_element_twice_is_refused(self):
        document = self.document()
        name = wire.child(document, 'PartitionName')
        name.addnext(etree.fromstring(etree.tostring(name)))
        self.assert_refusal(
            self.ask('POST', self.path, document), 'PartitionName'
        )


class UnknownElementTest(OrderTestCase):
    def test_unknown_element_is_refused(self):
        before = self.document()
        for path in ('', MEMORY, SHARED, 'PartitionIOConfiguration'):
            with self.subTest(path):
                document = self.document()
                parent = wire.child(document, path) if path else document
                add(parent, 'Colour', 'green')
                answer = self.ask('POST', self.path, document)
                self.assert_refusal(answer, 'Colour')
                self.assert_unchanged(before)

    def test_unknown_element_of_new_partition_is_refused(self):
        document = self.new()
        add(document, 'Colour', 'green')
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assert_refusal(answer, 'Colour')

    def test_unknown_element_of_disk_is_refused(self):
        self.disk()
        path = self.volume_group()
        document = self.document(path)
        disk = wire.child(document, 'VirtualDisks/VirtualDisk')
        add(disk, 'Colour', 'green')
        self.assert_refusal(self.ask('POST', path, document), 'Colour')

    def test_unknown_element_of_switch_is_refused(self):
        document = etree.fromstring(
            f'<VirtualSwitch xmlns="{wire.UOM}" schemaVersion="V1_0">'
            '<Colour>green</Colour>'
            '<SwitchMode>Veb</SwitchMode><SwitchName>blue</SwitchName>'
            '</VirtualSwitch>'
        )
        path = f'uom/ManagedSystem/{self.system().uuid}/VirtualSwitch'
        self.assert_refusal(self.ask('PUT', path, document), 'Colour')

    def test_element_of_another_namespace_is_refused(self):
        document = self.document()
        etree.SubElement(document, '{urn:other}PartitionName').text = 'other'
        answer = self.ask('POST', self.path, document)
        self.assert_refusal(answer, 'PartitionName')


class AcceptedDocumentTest(OrderTestCase):
    """What clients and captures have is in order."""

    def assert_accepted(self, path):
        """Assert that a document is accepted as it was served."""
        answer = self.ask('POST', path, self.document(path))
        self.assertEqual(200, answer.status, answer.text[:2000])

    def test_served_documents_are_accepted(self):
        self.map(self.created, self.disk())
        cna.crt_cna(self.adapter, None, self.created.uuid, 7)
        self.assert_accepted(self.path)
        self.assert_accepted(f'{self.path_of("vios1")}{GROUPS}')
        self.assert_accepted(self.volume_group())
        adapters = f'{self.path}/ClientNetworkAdapter'
        uuid = wire.child(
            self.get(adapters).contents[0], 'Metadata/Atom/AtomID'
        ).text
        self.assert_accepted(f'{adapters}/{uuid}')

    def test_prefixes_comments_and_marks_are_accepted(self):
        text = etree.tostring(self.document(), encoding='unicode')
        root = etree.fromstring(text)
        prefixed = etree.Element(
            root.tag, dict(root.attrib), nsmap={'x': wire.UOM}
        )
        prefixed.extend(root)
        prefixed.insert(1, etree.Comment('a comment'))
        wire.child(prefixed, 'PartitionName').set('kb', 'CUR')
        wire.child(prefixed, 'PartitionName').set('ksv', 'V1_3_0')
        answer = self.ask('POST', self.path, prefixed)
        self.assertEqual(200, answer.status, answer.text[:2000])

    def test_captured_partitions_and_servers_are_accepted(self):
        for key, file, groups in (
            ('partitions', 'fake_lpar_feed.txt', ''),
            ('partitions', 'lpar_ibmi.txt', ''),
            ('virtual_io_servers', 'fake_vios_hosting_vios_feed.txt', GROUPS),
            ('virtual_io_servers', 'fake_vios_ssp_npiv.txt', GROUPS),
            ('virtual_io_servers', 'fake_vios_mappings.txt', GROUPS),
        ):
            with self.subTest(file):
                system = {
                    'name': 'any',
                    'memory': {'configurable': 1 << 20},
                    'processors': {'configurable': 64},
                    key: [{'capture': {'file': file}}],
                }
                self.control.load_world({'systems': [system]})
                (partition,) = self.control.state()['systems'][0]['partitions']
                self.assert_accepted(self.path_of(partition['name']) + groups)


POSTED = (
    'ClientNetworkAdapter',
    'Event',
    'File',
    'JobRequest',
    'LogicalPartition',
    'NetworkBridge',
    'VirtualIOServer',
    'VirtualNetwork',
    'VirtualSwitch',
    'VolumeGroup',
)
# Elements of newer hosts, of which there are public records of 2026.
NEWER = (
    'AssignAllResources',
    'AssociatedPersistentMemoryConfiguration',
    'BaseVersion',
    'DefaultProfileName',
    'DynamicLogicalPartitionVIOSCapable',
    'HardwareAcceleratorQoS',
    'HasPhysicalIO',
    'KeyStoreSize',
    'KvmCapable',
    'LastActivatedProfile',
    'OperatingSystemType',
    'SystemName',
    'VirtualSerialNumber',
)


def orders():
    """Yield element and order of children of pypowervm's wrappers.

    Only of elements that the tables have; the others are not served.
    """
    for module in pkgutil.iter_modules(wrappers.__path__):
        found = importlib.import_module(f'{wrappers.__name__}.{module.name}')
        for _, wrapper in inspect.getmembers(found, inspect.isclass):
            kind = getattr(wrapper, 'schema_type', None)
            order = getattr(wrapper, '_child_order', None)
            if order and kind in elements.ORDERS:
                current = elements.ORDERS.get(f'Current{kind}', ())
                # One order of pypowervm is for both.
                yield (
                    kind,
                    [
                        name
                        for name in order
                        if name != 'Metadata' and name not in current
                    ],
                )


class TablesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)

    def test_elements_have_order_of_pypowervm(self):
        for kind, order in orders():
            with self.subTest(kind):
                rest = iter(elements.ORDERS[kind])
                # Each search goes on where the one before it has ended.
                missing = [name for name in order if name not in rest]
                self.assertEqual([], missing)

    def test_elements_beyond_pypowervm_are_captured(self):
        captured = {
            (etree.QName(node.getparent()).localname, name)
            for root in element_documents.captured()
            for node in root.element.iterdescendants(etree.Element)
            for name in (etree.QName(node).localname,)
        }
        known = {(kind, name) for kind, order in orders() for name in order}
        kinds = {kind for kind, _ in known}
        other = {
            (kind, name)
            for kind in kinds
            for name in elements.ORDERS[kind]
            if (kind, name) not in known | captured
        }
        self.assertEqual(set(), {name for _, name in other} - set(NEWER))

    def test_captured_documents_are_in_order(self):
        found = set()
        for capture in element_documents.captured():
            if capture.noun in POSTED:
                found.add(capture.noun)
                schema.check(content.parse(etree.tostring(capture.element)))
        self.assertLessEqual({'LogicalPartition', 'VirtualIOServer'}, found)

    def test_served_documents_are_in_order(self):
        for kind, found in element_documents.served().items():
            for element in found if kind in POSTED else ():
                with self.subTest(kind):
                    schema.check(content.parse(etree.tostring(element)))

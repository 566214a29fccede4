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

"""Hosts that are newer than the captures of pypowervm can be changed.

The names of the elements and their places are those of public records of
2026: HMCs V10R3 and V11R2 with POWER8 to POWER11.
"""

import pathlib
import tempfile

from lxml import etree
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import virtual_io_server as vios

from powervm_emulator import worlds
from powervm_emulator.core import content
from powervm_emulator.core import schema

from . import base
from . import wire

# Element, value, and what it follows. Values are made up.
OF_PARTITIONS = (
    ('DefaultProfileName', 'usual', 'AllowPerformanceDataCollection'),
    ('AssignAllResources', 'false', 'ReferenceCode IsManagementPartition'),
    ('HardwareAcceleratorQoS', None, 'AssignAllResources'),
    ('LastActivatedProfile', 'usual', 'HardwareAcceleratorQoS'),
    ('HasPhysicalIO', 'true', 'LastActivatedProfile'),
    ('OperatingSystemType', 'Linux', 'HasPhysicalIO'),
    ('KeyStoreSize', '0', 'OperatingSystemType CurrentSecureBoot'),
    ('BootMode', 'Normal', 'KeyStoreSize'),
    ('SystemName', 'east', 'BootMode'),
    ('Uptime', '0', 'SystemName'),
)
OF_LPARS = (
    ('BootListInformation', None, 'IsRestrictedIOPartition'),
    ('VirtualSerialNumber', 'none', 'BootListInformation'),
    ('KvmCapable', 'false', 'VirtualSerialNumber'),
)
BOOT_LIST = (
    'PendingBootString',
    'BootDeviceList',
    'ShadowBootDeviceList',
    'LastBootedDeviceString',
)
SLOT = 'PartitionIOConfiguration/ProfileIOSlots/ProfileIOSlot/AssociatedIOSlot'


def insert(parent, name, value, after):
    """Put an element behind another one; one of its name goes.

    :param value: the text; None for a structured element.
    :param after: names, with spaces between them.
    """
    for old in parent.findall(f'{{*}}{name}'):
        parent.remove(old)
    made = etree.Element(f'{{{wire.UOM}}}{name}')
    made.text = value
    if value is None:
        made.set('schemaVersion', 'V1_0')
        metadata = etree.SubElement(made, f'{{{wire.UOM}}}Metadata')
        etree.SubElement(metadata, f'{{{wire.UOM}}}Atom')
    before = [node for node in parent if wire.name(node) in after.split()]
    if before:
        before[-1].addnext(made)
    else:
        parent.append(made)
    return made


def renew(document):
    """Give a partition's document what a newer host has."""
    lpar = wire.name(document) == 'LogicalPartition'
    for row in OF_PARTITIONS + (OF_LPARS if lpar else ()):
        insert(document, *row)
    for name in BOOT_LIST if lpar else ():
        boot = wire.child(document, 'BootListInformation')
        etree.SubElement(boot, f'{{{wire.UOM}}}{name}')
    memory = wire.child(document, 'PartitionMemoryConfiguration')
    insert(memory, 'PhysicalPageTableRatio', '6', 'SharedMemoryEnabled')
    insert(
        wire.child(document, 'PartitionCapabilities'),
        'DynamicLogicalPartitionVIOSCapable',
        'false',
        'DynamicLogicalPartitionMemoryCapable',
    )
    for slot in document.findall(
        '/'.join(f'{{*}}{step}' for step in SLOT.split('/'))
    ):
        insert(slot, 'PartitionID', '4', 'Description FeatureCodes')
        insert(slot, 'IOBusID', '19', 'SlotPhysicalLocationCode')
        adapter = wire.child(slot, 'RelatedIOAdapter/IOAdapter')
        insert(
            adapter,
            'DynamicPartitionAssignmentCapable',
            'true',
            'LogicalPartitionAssignmentCapable',
        )


def from_another_time(document):
    """Give a document elements that nobody knows."""
    insert(document, 'Colour', 'blue', 'PartitionName')
    for slot in document.iter('{*}AssociatedIOSlot'):
        insert(slot, 'Taste', 'sweet', 'Description')
        slot.append(etree.Element(f'{{{wire.UOM}}}Taste'))


class NewerHostTest(wire.WireTestCase):
    """A world of captures of a newer host."""

    def load(self, change):
        """Load a world of a captured LPAR and server after a change."""
        self.create(slots=base.GPUS[:2])
        world = worlds.default()
        (system,) = world['systems']
        for slot in system['slots']:
            if int(slot['drc_index'], 16) in base.GPUS[:2]:
                slot['owner'] = 'vm1'
        for key, name in (
            ('partitions', 'vm1'),
            ('virtual_io_servers', 'vios1'),
        ):
            system[key] = [
                {'capture': {'file': self.capture(name, change)}},
                *(one for one in system[key] if one['name'] != name),
            ]
        self.control.load_world(world)

    def capture(self, name, change):
        """Write the changed document of a partition; return its path."""
        root = self.get(f'{self.path_of(name)}?group=None').root
        change(wire.contents(root)[0])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name, 'newer.xml')
        file.write_bytes(etree.tostring(root))
        return str(file)

    def test_partitions_of_newer_host_can_be_changed(self):
        self.load(renew)
        for wrapper, name in ((lpar.LPAR, 'vm1'), (vios.VIOS, 'vios1')):
            found = wrapper.get(
                self.adapter, uuid=self.partition(name)['uuid']
            )
            before = wire.names(found.entry.element.element)
            self.assertIn('DefaultProfileName', before)
            found.name = f'{name}-renamed'
            after = found.update()
            self.assertEqual(f'{name}-renamed', after.name)
            self.assertEqual(
                sorted(before), sorted(wire.names(after.entry.element.element))
            )

    def test_slots_and_memory_of_newer_host_can_be_changed(self):
        self.load(renew)
        found = self.read(self.partition('vm1')['uuid'])
        found.io_config.io_slots.remove(found.io_config.io_slots[1])
        found.mem_config.desired = 1024
        found.mem_config.min = 1024
        after = found.update()
        self.assertEqual(1024, after.mem_config.desired)
        self.assertEqual(1, len(after.io_config.io_slots))

    def test_elements_that_nobody_knows_are_taken_back(self):
        self.load(from_another_time)
        path = self.path_of('vm1')
        document = self.get(path).content
        answer = self.ask('POST', path, document)
        self.assertEqual(200, answer.status, answer.text[:2000])
        again = self.ask('POST', path, answer.content)
        self.assertEqual(200, again.status, again.text[:2000])
        self.assertEqual('blue', wire.child(again.content, 'Colour').text)
        insert(document, 'Sound', 'loud', 'PartitionName')
        answer = self.ask('POST', path, document)
        self.assert_refusal(answer, 'has no element Sound')

    def test_documents_of_newer_host_are_in_order(self):
        self.create(slots=base.GPUS[:1])
        for name in ('vm1', 'vios1'):
            document = self.get(self.path_of(name)).content
            renew(document)
            schema.check(content.parse(etree.tostring(document)))

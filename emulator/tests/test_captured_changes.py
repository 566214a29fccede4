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

"""Captured systems change everywhere, and come from files of the user."""

import copy
import pathlib
import tempfile

from lxml import etree

from . import wire

INDEX = 'SlotDynamicReconfigurationConnectorIndex'
CARD = {
    'description': '3D Controller',
    'vendor_id': '10DE',
    'device_id': '1DB6',
    'class': '0302',
    'feature_codes': 'EC4J',
}
OWNER = {'PartitionID', 'PartitionUUID', 'PartitionName', 'PartitionType'}
PROFILES = 'PartitionIOConfiguration/ProfileIOSlots'


def document(file):
    """Return the root of a captured document of pypowervm."""
    return copy.deepcopy(dict(wire.captured())[file])


def number(slot):
    """Return the DRC index of a slot or adapter."""
    found = wire.child(slot, INDEX)
    if found is None:
        found = wire.child(slot, 'AdapterID')
    return int(found.text)


def values(element):
    """Return the texts of the children by name, without Metadata."""
    return {
        wire.name(node): (node.text or '').strip()
        for node in element.iterchildren(etree.Element)
        if not len(node)
    }


def with_slots_of_buses(root):
    """Give the first I/O bus of each system its slots, as an HMC does."""
    for system in root.iter('{*}ManagedSystem'):
        section = wire.child(system, 'AssociatedSystemIOConfiguration')
        if section is None:
            continue
        bus = wire.child(section, 'IOBuses/IOBus')
        slots = copy.deepcopy(wire.child(section, 'IOSlots'))
        bus.append(slots)
    return root


class CaptureTestCase(wire.WireTestCase):
    """A world of a captured system with two partitions."""

    file = 'managedsystem.txt'
    # With real cards; the first system has cards with product data.
    entry = 1

    def load(self, **system):
        """Load a world of a captured system."""
        self.control.load_world(
            {
                'systems': [
                    {
                        'capture': {'file': self.file, 'entry': self.entry},
                        'partitions': [
                            {
                                'name': 'owner',
                                'memory': 1024,
                                'processors': 1,
                            },
                            {
                                'name': 'other',
                                'memory': 1024,
                                'processors': 1,
                            },
                        ],
                        **system,
                    }
                ]
            }
        )

    def folder(self):
        found = tempfile.TemporaryDirectory()
        self.addCleanup(found.cleanup)
        return pathlib.Path(found.name)

    def served(self):
        (system,) = self.get('uom/ManagedSystem').contents
        return wire.child(system, 'AssociatedSystemIOConfiguration')

    def slots(self, path='IOSlots'):
        """Return the slots below a section by DRC index."""
        section = wire.child(self.served(), path)
        return {number(slot): slot for slot in section.iter('{*}IOSlot')}


class CardChangeTest(CaptureTestCase):
    def setUp(self):
        super().setUp()
        self.load()
        # A slot with a card, feature codes and all that an HMC reports.
        self.index, self.before = next(
            (index, slot)
            for index, slot in self.slots().items()
            if len(slot.findall('{*}FeatureCodes')) > 1
            and wire.child(slot, 'Description').text != 'Empty slot'
        )

    def plug(self):
        """Plug another card; return the slot after that."""
        self.control.plug(f'{self.index:08x}', CARD)
        return self.slots()[self.index]

    def test_adapter_and_manufacturer_ids_are_of_new_card(self):
        before, after = values(self.before), values(self.plug())
        for name, expected in (
            ('PCAdapterID', 0x1DB6),
            ('PCIManufacturerID', 0x10DE),
        ):
            with self.subTest(name):
                self.assertIn(name, before)
                self.assertIn(after.get(name), (None, str(expected)))

    def test_related_adapter_is_new_card(self):
        adapter = wire.child(self.plug(), 'RelatedIOAdapter')
        if adapter is not None:
            found = values(adapter)
            self.assertEqual(CARD['description'], found['Description'])
            self.assertIn(found.get('UniqueDeviceID'), (None, str(0x1DB6)))

    def test_feature_codes_of_old_card_are_gone(self):
        found = [node.text for node in self.plug().findall('{*}FeatureCodes')]
        self.assertEqual([CARD['feature_codes']], found)

    def test_product_data_of_old_card_is_gone(self):
        self.entry = 0
        self.load()
        index, _slot = next(
            (index, slot)
            for index, slot in self.slots().items()
            if wire.child(slot, 'VitalProductDataSerialNumber') is not None
        )
        self.control.plug(f'{index:08x}', CARD)
        found = values(self.slots()[index])
        self.assertFalse(
            [name for name in found if name.startswith('VitalProductData')]
        )

    def test_adapter_of_system_is_new_card(self):
        adapters = wire.child(self.served(), 'IOAdapters')
        self.assertIn(self.index, map(number, adapters.iter('{*}IOAdapter')))
        self.plug()
        adapters = wire.child(self.served(), 'IOAdapters')
        for adapter in adapters.iter('{*}IOAdapter'):
            if number(adapter) == self.index:
                found = values(adapter)
                self.assertEqual(CARD['description'], found['Description'])

    def test_pulled_card_leaves_nothing(self):
        self.control.pull(f'{self.index:08x}')
        slot = self.slots()[self.index]
        for name in ('PCAdapterID', 'PCIManufacturerID'):
            self.assertIn(values(slot).get(name), (None, '65535'), name)
        section = self.served()
        adapters = [
            adapter
            for adapter in wire.child(section, 'IOAdapters')
            if wire.name(adapter) == 'IOAdapter'
            and number(adapter) == self.index
        ]
        related = wire.child(slot, 'RelatedIOAdapter')
        for adapter in [*adapters, *([] if related is None else [related])]:
            self.assertEqual('Empty slot', values(adapter)['Description'])

    def test_world_that_changes_captured_slot_leaves_nothing(self):
        index = f'{self.index:08x}'
        self.load(slots=[{**CARD, 'drc_index': index}])
        found = values(self.slots()[self.index])
        self.assertIn(found.get('PCAdapterID'), (None, str(0x1DB6)))
        self.assertIn(found.get('PCIManufacturerID'), (None, str(0x10DE)))

    def test_slot_of_profile_is_new_card(self):
        index = f'{self.index:08x}'
        self.control.set_owner(index, 'owner')
        self.plug()
        slots = wire.child(self.get(self.path_of('owner')).content, PROFILES)
        (found,) = map(values, slots.iter('{*}AssociatedIOSlot'))
        self.assertEqual(CARD['description'], found['Description'])
        self.assertIn(found.get('PCIManufacturerID'), (None, str(0x10DE)))


class BusSlotTest(CaptureTestCase):
    """Slots below I/O buses, which an HMC repeats there."""

    PATH = 'IOBuses/IOBus/IOSlots'

    def setUp(self):
        super().setUp()
        path = self.folder() / 'system.xml'
        root = with_slots_of_buses(document(self.file))
        path.write_bytes(etree.tostring(root))
        self.file = str(path)
        self.load(reports_slot_owners=True)
        self.index = list(self.slots())[2]

    def assert_same(self):
        """Assert that the slot of the bus is as that of the system."""
        self.assertEqual(
            values(self.slots()[self.index]),
            values(self.slots(self.PATH)[self.index]),
        )

    def test_slot_of_bus_has_new_card(self):
        self.control.plug(f'{self.index:08x}', CARD)
        found = values(self.slots(self.PATH)[self.index])
        self.assertEqual(CARD['description'], found['Description'])
        self.assert_same()

    def test_slot_of_bus_has_new_owner(self):
        self.control.set_owner(f'{self.index:08x}', 'owner')
        found = values(self.slots(self.PATH)[self.index])
        self.assertEqual('owner', found.get('PartitionName'))
        self.assert_same()
        self.control.set_owner(f'{self.index:08x}', None)
        found = values(self.slots(self.PATH)[self.index])
        self.assertFalse(OWNER & set(found))
        self.assert_same()

    def test_removed_slot_is_gone_from_bus(self):
        self.control.pull(f'{self.index:08x}', remove=True)
        self.assertNotIn(self.index, self.slots())
        self.assertNotIn(self.index, self.slots(self.PATH))

    def test_world_keeps_same_slots_of_system_and_bus(self):
        kept = [f'{index:08X}' for index in list(self.slots())[:3]]
        self.load(
            capture={
                'file': self.file,
                'entry': self.entry,
                'slots': kept,
            },
        )
        self.assertEqual(list(self.slots()), list(self.slots(self.PATH)))


class UserCaptureTest(CaptureTestCase):
    def write(self, text, name='own.xml'):
        path = self.folder() / name
        path.write_text(text)
        return str(path)

    def uuid_of(self, entry):
        return list(document(self.file).iter('{*}entry'))[entry][0].text

    def load_capture(self, capture):
        self.control.load_world({'systems': [{'capture': capture}]})
        (system,) = self.control.state()['systems']
        return system['uuid']

    def test_capture_can_be_file_by_absolute_path(self):
        text = etree.tostring(document(self.file), encoding='unicode')
        for entry in range(3):
            with self.subTest(entry):
                self.assertEqual(
                    self.uuid_of(entry),
                    self.load_capture(
                        {'file': self.write(text), 'entry': entry}
                    ),
                )

    def test_capture_can_be_file_in_format_of_pypowervm(self):
        text = (wire.DATA / self.file).read_text()
        self.assertEqual(
            self.uuid_of(1),
            self.load_capture(
                {'file': self.write(text, 'own.txt'), 'entry': 1}
            ),
        )

    def test_capture_can_be_single_entry(self):
        entry = list(document(self.file).iter('{*}entry'))[2]
        text = etree.tostring(entry, encoding='unicode')
        self.assertEqual(
            self.uuid_of(2), self.load_capture({'file': self.write(text)})
        )

    def test_missing_file_is_refused_with_its_path(self):
        path = str(self.folder() / 'missing.xml')
        with self.assertRaisesRegex(Exception, path):
            self.load_capture({'file': path})

    def test_file_that_is_no_document_is_refused_with_its_path(self):
        path = self.write('no document')
        with self.assertRaisesRegex(Exception, path):
            self.load_capture({'file': path})


class NamedCaptureTest(CaptureTestCase):
    """Entries of a document by name."""

    def system_names(self):
        return {
            wire.child(content, 'SystemName').text: content.getparent()
            .getparent()[0]
            .text
            for content in wire.contents(document(self.file))
        }

    def test_captured_systems_are_found_by_name(self):
        names = self.system_names()
        self.assertEqual(3, len(names))
        self.control.load_world(
            {
                'systems': [
                    {'capture': {'file': self.file, 'name': name}}
                    for name in reversed(names)
                ]
            }
        )
        systems = self.control.state()['systems']
        self.assertEqual(
            list(reversed(names.values())),
            [system['uuid'] for system in systems],
        )

    def test_captured_partition_is_found_by_name(self):
        root = document('fake_lpar_feed.txt')
        content = wire.contents(root)[5]
        name = wire.child(content, 'PartitionName').text
        self.load(
            partitions=[
                {'capture': {'file': 'fake_lpar_feed.txt', 'name': name}}
            ]
        )
        self.assertEqual(
            wire.child(content, 'PartitionUUID').text,
            self.partition(name)['uuid'],
        )

    def test_unknown_name_is_refused(self):
        with self.assertRaisesRegex(Exception, 'nobody'):
            self.load(capture={'file': self.file, 'name': 'nobody'})

    def test_name_with_entry_is_refused(self):
        name = next(iter(self.system_names()))
        with self.assertRaisesRegex(Exception, 'entry'):
            self.load(capture={'file': self.file, 'name': name, 'entry': 0})

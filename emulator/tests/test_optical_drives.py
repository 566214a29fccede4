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

"""Names of media and disks, and optical drives without a medium."""

from lxml import etree

from . import storage
from . import wire

NAMES = ('.', '..', '-rf', '--help')


class MediaNameTest(storage.StorageTestCase, wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.uuid = self.repository().uuid.lower()

    def group_path(self):
        return f'{self.path_of("vios1")}/VolumeGroup/{self.uuid}'

    def media(self):
        return [
            medium['name']
            for group in self.shown()['volume_groups']
            for medium in (group['media_repository'] or {}).get('media', ())
        ]

    def test_file_of_medium_with_odd_name_is_refused(self):
        for name in NAMES:
            with self.subTest(name):
                answer = self.ask(
                    'PUT',
                    'web/File',
                    '<File xmlns="http://www.ibm.com/xmlns/systems/power/'
                    f'firmware/web/mc/2012_10/"><Filename>{name}</Filename>'
                    '<InternetMediaType>application/octet-stream'
                    '</InternetMediaType>'
                    '<FileEnumType>BROKERED_MEDIA_ISO</FileEnumType>'
                    '<TargetVirtualIOServerUUID>'
                    f'{self.vios().uuid}</TargetVirtualIOServerUUID></File>',
                )
                self.assertIn(answer.status, (400, 500), answer.text)
                self.assertEqual([], self.files())

    def test_disk_with_odd_name_is_refused(self):
        for name in NAMES:
            with self.subTest(name):
                document = self.get(self.group_path()).content
                disks = wire.child(document, 'VirtualDisks')
                if disks is None:
                    disks = etree.SubElement(
                        document, f'{{{wire.UOM}}}VirtualDisks'
                    )
                disk = etree.SubElement(disks, f'{{{wire.UOM}}}VirtualDisk')
                disk.set('schemaVersion', 'V1_0')
                for key, text in (('DiskCapacity', '1'), ('DiskName', name)):
                    etree.SubElement(disk, f'{{{wire.UOM}}}{key}').text = text
                answer = self.ask('POST', self.group_path(), document)
                self.assertEqual(500, answer.status, answer.text[:2000])

    def test_world_with_odd_name_of_medium_is_refused(self):
        for name in NAMES:
            repository = {'size': 2, 'media': [{'name': name, 'size': 1}]}
            group = {
                'name': 'rootvg',
                'capacity': 100,
                'media_repository': repository,
            }
            world = {
                'systems': [
                    {
                        'name': 'any',
                        'virtual_io_servers': [
                            {
                                'name': 'vios1',
                                'memory': 1024,
                                'processors': 1,
                                'volume_groups': [group],
                            }
                        ],
                    }
                ]
            }
            with (
                self.subTest(name),
                self.assertRaisesRegex(Exception, 'media'),
            ):
                self.control.load_world(world)


class EmptyDriveTest(storage.StorageTestCase, wire.WireTestCase):
    """An optical drive keeps its target when its medium is taken out."""

    def setUp(self):
        super().setUp()
        self.repository()
        self.medium_, self.created = self.medium(), self.create()
        self.map(self.created, self.medium_)
        self.path = f'{self.path_of("vios1")}?group=ViosSCSIMapping'

    def mapping(self, document):
        """Return the mapping of a document of the VIOS that has a target."""
        (found,) = (
            mapping
            for mapping in document.iter('{*}VirtualSCSIMapping')
            if wire.child(mapping, 'TargetDevice') is not None
        )
        return found

    def target(self):
        """Return the values of the target as it is served."""
        mapping = self.mapping(self.get(self.path).content)
        (target,) = (
            node
            for node in wire.child(mapping, 'TargetDevice')
            if wire.name(node) != 'Metadata'
        )
        return wire.name(target), {
            wire.name(node): node.text
            for node in target
            if not len(node) and wire.name(node) != 'Metadata'
        }

    def eject(self):
        """Take the medium out of the drive."""
        document = self.get(self.path).content
        mapping = self.mapping(document)
        taken = wire.child(mapping, 'Storage')
        mapping.remove(taken)
        answer = self.ask('POST', self.path, document)
        self.assertEqual(200, answer.status, answer.text[:2000])
        return taken

    def test_ejected_medium_leaves_target(self):
        before = self.target()
        self.assertEqual('VirtualOpticalTargetDevice', before[0])
        self.eject()
        self.assertEqual(before, self.target())
        mapping = self.mapping(self.get(self.path).content)
        self.assertIsNone(wire.child(mapping, 'Storage'))

    def test_ejected_medium_can_be_inserted_again(self):
        before, taken = self.target(), self.eject()
        document = self.get(self.path).content
        mapping = self.mapping(document)
        wire.child(mapping, 'TargetDevice').addprevious(taken)
        answer = self.ask('POST', self.path, document)
        self.assertEqual(200, answer.status, answer.text[:2000])
        self.assertEqual(before, self.target())
        served = self.mapping(self.get(self.path).content)
        self.assertIsNotNone(wire.child(served, 'Storage'))

    def test_ejected_medium_can_be_mapped_to_another_partition(self):
        self.eject()
        other = self.create('vm2')
        mapped = self.map(other, self.medium_)
        self.assertEqual(self.medium_.name, mapped.backing_storage.name)

    def test_new_drive_without_medium_has_target(self):
        document = self.get(self.path).content
        other = self.create('vm2')
        section = wire.child(document, 'VirtualSCSIMappings')
        section.append(
            etree.fromstring(
                f'<VirtualSCSIMapping xmlns="{wire.UOM}" schemaVersion="V1_0">'
                '<AssociatedLogicalPartition rel="related" href="'
                f'{self.emulator.url}/rest/api/uom/LogicalPartition/'
                f'{other.uuid}"/>'
                '<ClientAdapter schemaVersion="V1_0">'
                '<UseNextAvailableSlotID>true'
                '</UseNextAvailableSlotID></ClientAdapter>'
                '<ServerAdapter schemaVersion="V1_0">'
                '<UseNextAvailableSlotID>true'
                '</UseNextAvailableSlotID></ServerAdapter>'
                '<TargetDevice>'
                '<VirtualOpticalTargetDevice schemaVersion="V1_0">'
                '<TargetName>drive</TargetName>'
                '</VirtualOpticalTargetDevice></TargetDevice>'
                '</VirtualSCSIMapping>'
            )
        )
        answer = self.ask('POST', self.path, document)
        self.assertEqual(200, answer.status, answer.text[:2000])
        served = {
            wire.child(device, 'TargetName').text
            for device in self.get(self.path).content.iter(
                '{*}VirtualOpticalTargetDevice'
            )
        }
        self.assertIn('drive', served)

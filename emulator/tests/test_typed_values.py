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

"""Values that clients post are of the type of their elements."""

import collections
import copy
import functools
import re

from lxml import etree

from powervm_emulator import worlds

from . import pools
from . import wire

SHARED = 'PartitionProcessorConfiguration/SharedProcessorConfiguration'
# Elements that a client can set, and values that are not of their type.
WRONG = {
    'AllowPerformanceDataCollection': ('nonsense', '2', ''),
    'AvailabilityPriority': ('nonsense', '256', '-1', '1_0', '１２'),
    'KeylockPosition': ('nonsense',),
    'PartitionIOConfiguration/MaximumVirtualIOSlots': ('nonsense', '1_0'),
    'PartitionMemoryConfiguration/DesiredMemory': ('4_096', '４０９６'),
    'PartitionProcessorConfiguration/SharingMode': ('nonsense',),
    f'{SHARED}/DesiredProcessingUnits': ('nan', 'inf', '0_5', '０.５'),
    f'{SHARED}/DesiredVirtualProcessors': ('1_0', '１', '1.5'),
    f'{SHARED}/UncappedWeight': ('nonsense', '256', '-1'),
    f'{SHARED}/SharedProcessorPoolID': ('nonsense', '-1'),
}

ATOM_ID = 'Metadata/Atom/AtomID'
# Texts that look like numbers.
TEXTS = {'TaggedVLANIDs', 'ResourceMonitoringIPAddress'}


@functools.cache
def read_only():
    """Return the names of LPAR leaves that captures mark as read-only."""
    marks = collections.defaultdict(set)
    for _file, root in wire.captured():
        for content in wire.contents(root):
            if wire.name(content) == 'LogicalPartition':
                for node in content.iterchildren(etree.Element):
                    if not len(node):
                        marks[wire.name(node)].add(node.get('kb'))
    return {
        name
        for name, found in marks.items()
        if None not in found and all(mark.startswith('RO') for mark in found)
    }


class PartitionValueTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.path_of('archive')
        self.before = self.get(self.path).content

    def post(self, path, value):
        """Post the partition of the world with another value."""
        self.control.reset()
        document = self.get(self.path).content
        wire.child(document, path).text = value
        return self.ask('POST', self.path, document)

    def assert_kept(self, path):
        self.assertEqual(
            wire.child(self.before, path).text,
            wire.child(self.get(self.path).content, path).text,
        )

    def test_value_of_wrong_type_is_refused(self):
        for path, values in WRONG.items():
            for value in values:
                with self.subTest(f'{path} {value!r}'):
                    answer = self.post(path, value)
                    self.assert_refusal(answer, path.rpartition('/')[2])
                    self.assert_kept(path)

    def test_value_that_the_resource_has_already_is_accepted(self):
        host = self.emulator._application._emulation.host
        uuid = self.path.rpartition('/')[2]
        host.get('LogicalPartition', uuid).put('AvailabilityPriority', 'odd')
        document = self.get(self.path).content
        self.assertEqual(200, self.ask('POST', self.path, document).status)
        wire.child(document, 'AvailabilityPriority').text = 'other'
        answer = self.ask('POST', self.path, document)
        self.assert_refusal(answer, "'other' is not 0 to 255 for Avail")

    def test_read_only_value_is_refused_or_ignored(self):
        served = {wire.name(node) for node in self.before if not len(node)}
        # An old host had it as a value that clients set.
        names = (served & read_only()) | {'OperatingSystemVersion'}
        self.assertLessEqual(
            {'Uptime', 'MigrationState', 'BootMode', 'PartitionState'}, names
        )
        for name in sorted(names):
            with self.subTest(name):
                answer = self.post(name, 'nonsense')
                self.assertIn(answer.status, (200, 400), answer.text)
                self.assert_kept(name)

    def test_read_only_value_of_new_partition_is_refused_or_ignored(self):
        document = etree.fromstring(
            self.build('vm2').entry.element.toxmlstring()
        )
        following = wire.child(document, 'SimplifiedRemoteRestartCapable')
        self.assertIsNotNone(following)
        for name in ('BootMode', 'Uptime', 'MigrationState'):
            made = etree.SubElement(document, f'{{{wire.UOM}}}{name}')
            made.text = 'nonsense'
            if name != 'MigrationState':
                following.addprevious(made)
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        if answer.status == 200:
            self.assertNotIn('nonsense', answer.text)
            self.assertNotIn('nonsense', self.get(self.path_of('vm2')).text)
        else:
            self.assertEqual(400, answer.status, answer.text)

    def test_partition_id_is_number_of_ascii_digits(self):
        for value in ('1_000', '１２', '+7', '7.0', '0x7', '-7', '0'):
            with self.subTest(value):
                document = etree.fromstring(
                    self.build('vm2', id=7).entry.element.toxmlstring()
                )
                wire.child(document, 'PartitionID').text = value
                answer = self.ask('PUT', 'uom/LogicalPartition', document)
                status = 500 if value == '0' else 400
                self.assert_refusal(answer, 'PartitionID', status)

    def test_blanks_around_value_are_accepted(self):
        document = etree.fromstring(
            self.build('vm2', id=7).entry.element.toxmlstring()
        )
        wire.child(document, 'PartitionID').text = '\n 7 '
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assertEqual(200, answer.status, answer.text)
        self.assertEqual('7', wire.child(answer.content, 'PartitionID').text)


class ValueOfEveryNounTest(wire.WireTestCase):
    """Values of every noun that clients can change are checked."""

    def setUp(self):
        self.world = worlds.default()
        system = self.world['systems'][0]
        system['partitions'][-1]['adapters'] = [{'vlan': 5}]
        owner = system['partitions'][-1]['name']
        self.world['clusters'] = [pools.CLUSTER | {'nodes': ['vios1']}]
        super().setUp()
        client = pools.Client(self.adapter)
        lpar = self.create()
        client.map(lpar, client.unit('disk1'))
        system = f'uom/ManagedSystem/{self.system().uuid}'
        self.paths = [
            f'{path}/{wire.child(self.get(path).contents[0], ATOM_ID).text}'
            for path in (
                f'{system}/NetworkBridge',
                f'{system}/VirtualSwitch',
                f'{system}/VirtualNetwork',
                f'{self.path_of("vios1")}/VolumeGroup',
                f'{self.path_of(owner)}/ClientNetworkAdapter',
                'uom/SharedStoragePool',
                f'uom/Tier/{client.tier().uuid}/LogicalUnit',
            )
        ]
        self.paths += [self.path_of('vm1'), self.path_of('vios1')]

    def every(self):
        """Yield the path and a fresh document of each resource."""
        for path in self.paths:
            yield path, self.get(path).content

    def test_number_or_truth_value_of_wrong_type_is_refused(self):
        seen = set()
        for path, document in self.every():
            for number, node in enumerate(document.iter(etree.Element)):
                key = wire.name(node.getparent()), wire.name(node)
                if key in seen or not is_typed(node):
                    continue
                seen.add(key)
                posted = copy.deepcopy(document)
                list(posted.iter(etree.Element))[number].text = 'banana'
                with self.subTest(' '.join(key)):
                    answer = self.ask('POST', path, posted)
                    self.assert_refusal(answer, f"'banana' .* for {key[1]} ")
        self.assertLessEqual(
            {
                ('SharedEthernetAdapter', 'JumboFramesEnabled'),
                ('SharedEthernetAdapter', 'QueueSize'),
                ('LogicalUnit', 'UnitCapacity'),
                ('VirtualNetwork', 'TaggedNetwork'),
                ('ClientNetworkAdapter', 'PortVLANID'),
                ('ServerAdapter', 'VirtualSlotNumber'),
            },
            seen,
        )

    def test_attributes_of_servers_stay_as_they_are(self):
        for path, document in self.every():
            with self.subTest(path):
                before = attributes(document)
                for node in document.iter(etree.Element):
                    for name in ('group', 'kb', 'kxe', 'ksv', 'schemaVersion'):
                        node.set(name, 'VNIC')
                answer = self.ask('POST', path, document)
                self.assertEqual(200, answer.status, answer.text[:500])
                self.assertEqual(before, attributes(self.get(path).content))

    def test_new_resource_has_attributes_of_server(self):
        document = etree.fromstring(
            self.build('vm2').entry.element.toxmlstring()
        )
        for node in document.iter(etree.Element):
            for name in ('group', 'kb', 'schemaVersion'):
                node.set(name, 'VNIC')
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assertEqual(200, answer.status, answer.text[:500])
        self.assertNotIn('VNIC', answer.text)


def is_typed(node):
    """Whether a served element is a number or truth value of clients."""
    return (
        not len(node)
        and re.fullmatch('true|false|[0-9.]+', (node.text or '').strip())
        and not node.get('kb', 'RO').startswith('RO')
        and wire.name(node) not in TEXTS
    )


def attributes(document):
    """Return the path and attributes of each element, but for links."""
    tree = document.getroottree()
    return [
        (tree.getelementpath(node), sorted(node.attrib.items()))
        for node in document.iter(etree.Element)
        if not node.get('href')
    ]

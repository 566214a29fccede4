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
import functools

from lxml import etree

from tests.emulator import wire

SHARED = 'PartitionProcessorConfiguration/SharedProcessorConfiguration'
# Elements that a client can set, and values that are not of their type.
WRONG = {
    'AllowPerformanceDataCollection': ('nonsense', '2', ''),
    'AvailabilityPriority': ('nonsense', '256', '-1', '1_0', '１２'),
    'KeylockPosition': ('nonsense',),
    'PartitionIOConfiguration/MaximumVirtualIOSlots': ('nonsense', '1_0'),
    'PartitionMemoryConfiguration/DesiredMemory': ('4_096', '４０９６'),
    'PartitionMemoryConfiguration/ActiveMemoryExpansionEnabled': ('nonsense',),
    'PartitionProcessorConfiguration/HasDedicatedProcessors': ('nonsense',),
    'PartitionProcessorConfiguration/SharingMode': ('nonsense',),
    f'{SHARED}/DesiredProcessingUnits': ('nan', 'inf', '0_5', '０.５'),
    f'{SHARED}/DesiredVirtualProcessors': ('1_0', '１', '1.5'),
    f'{SHARED}/UncappedWeight': ('nonsense', '256', '-1'),
    f'{SHARED}/SharedProcessorPoolID': ('nonsense', '-1'),
    'SimplifiedRemoteRestartCapable': ('nonsense',),
}


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
                self.assert_refusal(answer, 'PartitionID')

    def test_blanks_around_value_are_accepted(self):
        document = etree.fromstring(
            self.build('vm2', id=7).entry.element.toxmlstring()
        )
        wire.child(document, 'PartitionID').text = '\n 7 '
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assertEqual(200, answer.status, answer.text)
        self.assertEqual('7', wire.child(answer.content, 'PartitionID').text)

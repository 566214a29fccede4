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

"""Feeds that inventories ask for are empty instead of unknown."""

from pypowervm.wrappers import cluster
from pypowervm.wrappers import iocard
from pypowervm.wrappers import storage

from . import wire

NOBODY = '00000000-0000-0000-0000-000000000000'
ROOTS = ('Cluster', 'Group', 'SharedStoragePool', 'Tier')
OF_PARTITION = (
    'LogicalPartitionProfile',
    'VirtualNICDedicated',
    'SRIOVEthernetLogicalPort',
)


class EmptyFeedTest(wire.WireTestCase):
    def assert_empty(self, path):
        """Assert that a feed is there and has nothing in it."""
        for query in ('', '?group=None'):
            with self.subTest(path + query):
                answer = self.ask('GET', path + query)
                self.assertEqual(204, answer.status, answer.text)
                self.assertEqual('', answer.text)

    def test_feed_at_root_is_empty(self):
        for kind in ROOTS:
            self.assert_empty(f'uom/{kind}')

    def test_feed_of_partition_is_empty(self):
        for kind in OF_PARTITION:
            self.assert_empty(f'{self.path_of("database")}/{kind}')

    def test_feed_of_virtual_io_server_is_empty(self):
        for kind in ('LogicalPartitionProfile', 'SRIOVEthernetLogicalPort'):
            self.assert_empty(f'{self.path_of("vios1")}/{kind}')

    def test_feed_of_system_is_empty(self):
        for kind in ('HostEthernetAdapter', 'SharedMemoryPool'):
            self.assert_empty(f'uom/ManagedSystem/{self.system().uuid}/{kind}')

    def test_member_of_empty_feed_is_not_found(self):
        for path in (
            *(f'uom/{kind}' for kind in ROOTS),
            *(f'{self.path_of("database")}/{kind}' for kind in OF_PARTITION),
        ):
            with self.subTest(path):
                answer = self.ask('GET', f'{path}/{NOBODY}')
                self.assert_refusal(answer, 'REST029B ', status=404)

    def test_feed_of_unknown_partition_is_not_found(self):
        for kind in OF_PARTITION:
            with self.subTest(kind):
                answer = self.ask(
                    'GET', f'uom/LogicalPartition/{NOBODY}/{kind}'
                )
                self.assert_refusal(answer, 'REST029B ', status=404)

    def test_journal_labels_empty_feeds(self):
        self.control.clear_journal()
        self.ask('GET', 'uom/Cluster')
        (record,) = self.control.journal()
        self.assertEqual('Cluster.feed', record['label'])


class WrapperTest(wire.WireTestCase):
    def test_wrappers_find_nothing(self):
        for wrapper in (cluster.Cluster, storage.SSP):
            with self.subTest(wrapper.schema_type):
                self.assertEqual([], wrapper.get(self.adapter))

    def test_wrappers_find_nothing_in_partition(self):
        created = self.create()
        for wrapper in (iocard.VNIC, iocard.SRIOVEthLPort):
            with self.subTest(wrapper.schema_type):
                self.assertEqual([], wrapper.get(self.adapter, parent=created))

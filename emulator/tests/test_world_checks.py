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

"""Worlds and cards are possible, and each of their keys has an effect."""

import re

from . import base
from . import wire

LPAR = {'capture': {'file': 'fake_lpar_feed.txt'}}
VIOS = {
    'name': 'vios1',
    'state': 'running',
    'rmc_state': 'active',
    'memory': 4096,
    'processors': 2,
}
VM = {'name': 'vm1', 'memory': 1024, 'processors': 1}
SLOT = '21010020'
MEMORY = 'PartitionMemoryConfiguration'
PROCESSORS = 'PartitionProcessorConfiguration'
SHARED = f'{PROCESSORS}/SharedProcessorConfiguration'
CURRENT = f'{PROCESSORS}/CurrentSharedProcessorConfiguration'


def world(**system):
    """Return a world with one described system."""
    return {
        'systems': [
            {
                'name': 'any',
                'memory': {'configurable': 1 << 19, 'hypervisor': 8192},
                'processors': {'configurable': 64},
                **system,
            }
        ]
    }


class WorldTestCase(wire.WireTestCase):
    def documents(self):
        """Return all that can be read of the system, without times."""
        (system,) = self.control.state()['systems']
        root = f'uom/ManagedSystem/{system["uuid"]}'
        kinds = (
            'LogicalPartition VirtualIOServer VirtualSwitch VirtualNetwork '
            'NetworkBridge'
        )
        paths = [root, *(f'{root}/{kind}' for kind in kinds.split())]
        for partition in system['partitions']:
            path = f'uom/{partition["kind"]}/{partition["uuid"]}'
            paths.append(f'{path}/ClientNetworkAdapter')
            if partition['kind'] == 'VirtualIOServer':
                paths.append(f'{path}/VolumeGroup')
        text = ''.join(self.ask('GET', path).text for path in paths)
        times = '<(updated|published)>[^<]*|<etag:etag[^>]*>[^<]*'
        return re.sub(times, '', text)

    def assert_noticed(self, without, key, value, make):
        """Assert that a key is refused or changes what is served.

        :param without: the values beside the key.
        :param make: makes a world of values.
        """
        self.control.load_world(make(without))
        before = self.documents()
        try:
            self.control.load_world(make({**without, key: value}))
        except Exception as error:
            self.assertIn(key, str(error))
            return
        self.assertFalse(before == self.documents(), 'The key is ignored.')


class KeyTest(WorldTestCase):
    def assert_keys_noticed(self, section, without, values, **others):
        """Assert that each key is noticed in the only item of a section."""
        for key, value in values.items():
            with self.subTest(key):
                self.assert_noticed(
                    without,
                    key,
                    value,
                    lambda item: world(**others, **{section: [item]}),
                )

    def test_keys_of_captures_are_noticed(self):
        partition = {
            'memory': 3072,
            'processors': 3,
            'processor_units': 2,
            'dedicated': True,
            'uptime': 77,
            'state': 'not activated',
            'rmc_state': 'active',
            'virtual_slots': 99,
            'management': True,
        }
        self.assert_keys_noticed('partitions', LPAR, partition)
        self.assert_keys_noticed(
            'virtual_switches',
            {'capture': {'file': 'fake_vswitch_feed.txt'}},
            {'name': 'other', 'mode': 'Vepa'},
        )
        switch = 'ETHERNET0(Default)'
        self.assert_keys_noticed(
            'network_bridges',
            {'capture': {'file': 'fake_network_bridge.txt'}},
            {'vios': 'vios1', 'switch': switch, 'pvid': 3, 'vlans': [9]},
            virtual_io_servers=[VIOS],
        )
        mac = '02:00:00:00:00:01'
        for key, value in (('vlan', 9), ('mac', mac), ('switch', switch)):
            with self.subTest(key):
                self.assert_noticed(
                    {'capture': {'file': 'cna_feed.txt'}},
                    key,
                    value,
                    lambda item: world(
                        partitions=[{**VM, 'adapters': [item]}]
                    ),
                )

    def test_keys_of_described_items_are_noticed(self):
        self.assert_keys_noticed(
            'virtual_io_servers', VIOS, {'type': 'OS400', 'management': True}
        )
        dedicated = {**VM, 'processors': 2, 'dedicated': True}
        self.assert_keys_noticed(
            'partitions', dedicated, {'processor_units': 1.5}
        )
        ids = {
            'vendor_id': '10DE',
            'device_id': '1DB6',
            'subsystem_vendor_id': '10DE',
            'subsystem_device_id': '124A',
            'class': '0302',
            'revision_id': 'A1',
            'feature_codes': 'EC4J',
        }
        self.assert_keys_noticed('slots', {'drc_index': SLOT}, ids)

    def test_keys_of_capture_for_systems_are_refused_elsewhere(self):
        slots = {'file': 'sys_with_sriov.txt', 'slots': ['DEADBEEF']}
        lpar = LPAR['capture']
        for message, refused in (
            (
                'slots',
                world(partitions=[{'capture': {**lpar, 'slots': [SLOT]}}]),
            ),
            (
                'correct_ids',
                world(partitions=[{'capture': {**lpar, 'correct_ids': True}}]),
            ),
            # An unknown slot
            ('(?i)deadbeef', {'systems': [{'capture': slots}]}),
        ):
            with (
                self.subTest(message),
                self.assertRaisesRegex(Exception, message),
            ):
                self.control.load_world(refused)


class PromisedMemoryTest(WorldTestCase):
    def load(self, *memory, state='running', **system):
        partitions = [
            {**VM, 'name': f'vm{number}', 'memory': size, 'state': state}
            for number, size in enumerate(memory)
        ]
        memory = {'configurable': 16384, 'hypervisor': 4096}
        self.control.load_world(
            world(memory=memory, partitions=partitions, **system)
        )

    def test_whole_memory_can_be_promised(self):
        self.load(4096, 3328, virtual_io_servers=[VIOS])
        memory = self.system()
        self.assertEqual(0, memory.memory_free)

    def test_more_memory_than_there_is_is_refused(self):
        before = self.documents()
        for state in ('running', 'not activated'):
            with (
                self.subTest(state),
                self.assertRaisesRegex(Exception, 'memory'),
            ):
                self.load(4096, 3584, state=state, virtual_io_servers=[VIOS])
        memory = {'configurable': 1024, 'hypervisor': 4096}
        with self.assertRaisesRegex(Exception, 'hypervisor'):
            self.control.load_world(world(memory=memory))
        self.assertEqual(before, self.documents())


class CardTest(WorldTestCase):
    def assert_refused_whole(self, index, card, message):
        """Assert that a card is refused and nothing has changed."""
        before = self.documents(), self.control.state()
        with self.assertRaisesRegex(Exception, message):
            self.control.plug(f'{index:08x}', card)
        self.assertEqual(before, (self.documents(), self.control.state()))

    def test_impossible_cards_are_refused(self):
        sriov = {'sriov': True}
        ids = [{'vendor_id': '10DE'}, {'class': '0302', 'drc_name': 'other'}]
        slots = (base.GPUS[0], base.EMPTY, 0x21019999)
        for index, card, message in (
            # Assigned to a partition
            (base.FOREIGN_SLOT, {'description': 'x', **sriov}, '(?i)sr-?iov'),
            # Without a card
            *((index, sriov, 'sriov') for index in slots[1:]),
            *((index, one, 'description') for one in ids for index in slots),
        ):
            with self.subTest(f'{card} {index:08x}'):
                self.assert_refused_whole(index, card, message)


class RangeTest(WorldTestCase):
    """Minimum, desired and maximum of a world's partition."""

    PARTITION = {  # noqa: RUF012 - never changed
        'name': 'elastic',
        'state': 'running',
        'rmc_state': 'active',
        'memory': {'minimum': 1024, 'desired': 2048, 'maximum': 4096},
        'processors': {'minimum': 1, 'desired': 2, 'maximum': 4},
        'processor_units': {'minimum': 0.2, 'desired': 1, 'maximum': 2},
    }

    def load(self, **partition):
        self.control.load_world(
            world(partitions=[{**self.PARTITION, **partition}])
        )

    def values(self, section, words):
        """Return numbers of a section of the partition."""
        document = self.get(self.path_of('elastic')).content
        found = wire.child(document, section)
        return [float(wire.child(found, name).text) for name in words.split()]

    def test_memory_of_partition_is_range(self):
        """Minimum and maximum are optional."""
        single = {'processors': 2, 'processor_units': 1, 'memory': 2048}
        for partition, expected in (
            ({}, [1024, 2048, 4096]),
            (single, [2048] * 3),
            (
                {'memory': {'desired': 2048, 'maximum': 4096}},
                [2048, 2048, 4096],
            ),
        ):
            with self.subTest(partition):
                self.load(**partition)
                for names in (
                    'MinimumMemory DesiredMemory MaximumMemory',
                    'CurrentMinimumMemory CurrentMemory CurrentMaximumMemory',
                ):
                    self.assertEqual(expected, self.values(MEMORY, names))

    def test_processors_of_partition_are_range(self):
        self.load()
        # Only the desired memory is taken, and the hypervisor's part.
        free = (1 << 19) - 8192 - 2048 - 256
        self.assertEqual(free, self.system().memory_free)
        for section, names, expected in (
            (
                SHARED,
                'Minimum{0} Desired{0} Maximum{0}'.format('VirtualProcessors'),
                [1, 2, 4],
            ),
            (
                SHARED,
                'Minimum{0} Desired{0} Maximum{0}'.format('ProcessingUnits'),
                [0.2, 1, 2],
            ),
            (
                CURRENT,
                'CurrentMinimumVirtualProcessors '
                'CurrentMaximumVirtualProcessors',
                [1, 4],
            ),
            (
                CURRENT,
                'CurrentMinimumProcessingUnits CurrentProcessingUnits '
                'CurrentMaximumProcessingUnits',
                [0.2, 1, 2],
            ),
        ):
            self.assertEqual(expected, self.values(section, names))
        partition = {**self.PARTITION, 'dedicated': True}
        del partition['processor_units']
        self.control.load_world(world(partitions=[partition]))
        found = self.values(
            f'{PROCESSORS}/DedicatedProcessorConfiguration',
            'MinimumProcessors DesiredProcessors MaximumProcessors',
        )
        self.assertEqual([1, 2, 4], found)

    def test_active_partition_can_change_within_its_range_only(self):
        self.load()
        found = self.read(self.partition('elastic')['uuid'])
        found.mem_config.desired = 4096
        found.proc_config.shared_proc_cfg.desired_virtual = 4
        found.proc_config.shared_proc_cfg.desired_units = 2
        found.update()
        self.assertEqual([4096], self.values(MEMORY, 'CurrentMemory'))
        names = 'AllocatedVirtualProcessors CurrentProcessingUnits'
        self.assertEqual([4, 2], self.values(CURRENT, names))
        for size in (4352, 768):
            found = self.read(found.uuid)
            found.mem_config.desired = size
            self.assert_refused(500, '(?i)memory', found.update)
        found = self.read(found.uuid)
        found.mem_config.desired = 1024
        found.update()
        self.assertEqual([1024], self.values(MEMORY, 'CurrentMemory'))

    def test_range_out_of_order_is_refused(self):
        for key, value in (
            ('memory', {'minimum': 4096, 'desired': 2048}),
            ('memory', {'desired': 2048, 'maximum': 1024}),
            ('processors', {'desired': 4, 'maximum': 2}),
            ('processor_units', {'minimum': 1, 'desired': 0.5}),
        ):
            message = f'(?i){key}(?!.* is not of type)'
            with (
                self.subTest(f'{key} {value}'),
                self.assertRaisesRegex(Exception, message),
            ):
                self.load(**{key: value})

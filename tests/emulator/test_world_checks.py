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

from tests.emulator import base
from tests.emulator import wire

LPAR = {'capture': {'file': 'fake_lpar_feed.txt'}}
VIOS = {
    'name': 'vios1',
    'state': 'running',
    'rmc_state': 'active',
    'memory': 4096,
    'processors': 2,
}
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
        paths = [root]
        for kind in (
            'LogicalPartition',
            'VirtualIOServer',
            'VirtualSwitch',
            'VirtualNetwork',
            'NetworkBridge',
        ):
            paths.append(f'{root}/{kind}')
        for partition in system['partitions']:
            path = f'uom/{partition["kind"]}/{partition["uuid"]}'
            paths.append(f'{path}/ClientNetworkAdapter')
            if partition['kind'] == 'VirtualIOServer':
                paths.append(f'{path}/VolumeGroup')
        text = ''.join(self.ask('GET', path).text for path in paths)
        return re.sub(
            '<(updated|published)>[^<]*|<etag:etag[^>]*>[^<]*', '', text
        )

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
    def assert_keys_noticed(self, without, values, make):
        for key, value in values.items():
            with self.subTest(key):
                self.assert_noticed(without, key, value, make)

    def test_keys_of_captured_partition_are_noticed(self):
        self.assert_keys_noticed(
            LPAR,
            {
                'memory': 3072,
                'processors': 3,
                'processor_units': 2,
                'dedicated': True,
                'uptime': 77,
                'state': 'not activated',
                'rmc_state': 'active',
                'virtual_slots': 99,
                'management': True,
            },
            lambda partition: world(partitions=[partition]),
        )

    def test_keys_of_captured_switch_are_noticed(self):
        self.assert_keys_noticed(
            {'capture': {'file': 'fake_vswitch_feed.txt'}},
            {'name': 'other', 'mode': 'Vepa'},
            lambda switch: world(virtual_switches=[switch]),
        )

    def test_keys_of_captured_bridge_are_noticed(self):
        self.assert_keys_noticed(
            {'capture': {'file': 'fake_network_bridge.txt'}},
            {
                'vios': 'vios1',
                'switch': 'ETHERNET0(Default)',
                'pvid': 3,
                'vlans': [9],
            },
            lambda bridge: world(
                virtual_io_servers=[VIOS], network_bridges=[bridge]
            ),
        )

    def test_keys_of_captured_adapter_are_noticed(self):
        self.assert_keys_noticed(
            {'capture': {'file': 'cna_feed.txt'}},
            {
                'vlan': 9,
                'mac': '02:00:00:00:00:01',
                'switch': 'ETHERNET0(Default)',
            },
            lambda adapter: world(
                partitions=[
                    {
                        'name': 'vm1',
                        'memory': 1024,
                        'processors': 1,
                        'adapters': [adapter],
                    }
                ]
            ),
        )

    def test_keys_of_virtual_io_server_are_noticed(self):
        self.assert_keys_noticed(
            VIOS,
            {'type': 'OS400', 'management': True},
            lambda vios: world(virtual_io_servers=[vios]),
        )

    def test_units_of_dedicated_processors_are_noticed(self):
        self.assert_keys_noticed(
            {
                'name': 'vm1',
                'memory': 1024,
                'processors': 2,
                'dedicated': True,
            },
            {'processor_units': 1.5},
            lambda partition: world(partitions=[partition]),
        )

    def test_ids_of_slot_without_description_are_noticed(self):
        self.assert_keys_noticed(
            {'drc_index': SLOT},
            {
                'vendor_id': '10DE',
                'device_id': '1DB6',
                'subsystem_vendor_id': '10DE',
                'subsystem_device_id': '124A',
                'class': '0302',
                'revision_id': 'A1',
                'feature_codes': 'EC4J',
            },
            lambda slot: world(slots=[slot]),
        )

    def test_keys_of_capture_for_systems_are_refused_elsewhere(self):
        for key, value in (('slots', [SLOT]), ('correct_ids', True)):
            capture = {**LPAR['capture'], key: value}
            with (
                self.subTest(key),
                self.assertRaisesRegex(Exception, key),
            ):
                self.control.load_world(
                    world(partitions=[{'capture': capture}])
                )

    def test_unknown_slot_of_capture_is_refused(self):
        capture = {'file': 'sys_with_sriov.txt', 'slots': ['DEADBEEF']}
        with self.assertRaisesRegex(Exception, '(?i)deadbeef'):
            self.control.load_world({'systems': [{'capture': capture}]})


class PromisedMemoryTest(WorldTestCase):
    def load(self, *memory, state='running', **system):
        self.control.load_world(
            world(
                memory={'configurable': 16384, 'hypervisor': 4096},
                partitions=[
                    {
                        'name': f'vm{number}',
                        'memory': size,
                        'processors': 1,
                        'state': state,
                    }
                    for number, size in enumerate(memory)
                ],
                **system,
            )
        )

    def test_whole_memory_can_be_promised(self):
        self.load(4096, 3328, virtual_io_servers=[VIOS])
        memory = self.system()
        self.assertEqual(0, memory.memory_free)

    def test_more_memory_than_there_is_is_refused(self):
        for state in ('running', 'not activated'):
            with (
                self.subTest(state),
                self.assertRaisesRegex(Exception, 'memory'),
            ):
                self.load(4096, 3584, state=state, virtual_io_servers=[VIOS])

    def test_more_memory_of_hypervisor_than_there_is_is_refused(self):
        with self.assertRaisesRegex(Exception, 'hypervisor'):
            self.control.load_world(
                world(memory={'configurable': 1024, 'hypervisor': 4096})
            )

    def test_refused_world_changes_nothing(self):
        before = self.documents()
        with self.assertRaisesRegex(Exception, 'memory'):
            self.load(65536)
        self.assertEqual(before, self.documents())


class CardTest(WorldTestCase):
    def assert_refused_whole(self, index, card, message):
        """Assert that a card is refused and nothing has changed."""
        before = self.documents(), self.control.state()
        with self.assertRaisesRegex(Exception, message):
            self.control.plug(f'{index:08x}', card)
        self.assertEqual(before, (self.documents(), self.control.state()))

    def test_sriov_card_in_assigned_slot_is_refused(self):
        card = {'description': 'Ethernet', 'sriov': True}
        self.assert_refused_whole(base.FOREIGN_SLOT, card, 'SR-IOV|sriov')

    def test_sriov_without_card_is_refused(self):
        self.assert_refused_whole(base.EMPTY, {'sriov': True}, 'sriov')
        self.assert_refused_whole(0x21019999, {'sriov': True}, 'sriov')

    def test_ids_without_description_are_refused(self):
        for card in (
            {'vendor_id': '10DE'},
            {'class': '0302', 'drc_name': 'other'},
        ):
            for index in (base.GPUS[0], base.EMPTY, 0x21019999):
                with self.subTest(f'{card} {index:08x}'):
                    self.assert_refused_whole(index, card, 'description')


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

    def values(self, section, *names):
        """Return numbers of a section of the partition."""
        document = self.get(self.path_of('elastic')).content
        found = wire.child(document, section)
        return [float(wire.child(found, name).text) for name in names]

    def test_memory_of_partition_is_range(self):
        self.load()
        self.assertEqual(
            [1024, 2048, 4096],
            self.values(
                MEMORY, 'MinimumMemory', 'DesiredMemory', 'MaximumMemory'
            ),
        )
        self.assertEqual(
            [1024, 2048, 4096],
            self.values(
                MEMORY,
                'CurrentMinimumMemory',
                'CurrentMemory',
                'CurrentMaximumMemory',
            ),
        )

    def test_processors_of_partition_are_range(self):
        self.load()
        for unit, expected in (
            ('VirtualProcessors', [1, 2, 4]),
            ('ProcessingUnits', [0.2, 1, 2]),
        ):
            self.assertEqual(
                expected,
                self.values(
                    SHARED,
                    f'Minimum{unit}',
                    f'Desired{unit}',
                    f'Maximum{unit}',
                ),
            )
        self.assertEqual(
            [1, 4, 0.2, 1, 2],
            self.values(
                CURRENT,
                'CurrentMinimumVirtualProcessors',
                'CurrentMaximumVirtualProcessors',
                'CurrentMinimumProcessingUnits',
                'CurrentProcessingUnits',
                'CurrentMaximumProcessingUnits',
            ),
        )

    def test_dedicated_processors_of_partition_are_range(self):
        partition = {**self.PARTITION, 'dedicated': True}
        del partition['processor_units']
        self.control.load_world(world(partitions=[partition]))
        self.assertEqual(
            [1, 2, 4],
            self.values(
                f'{PROCESSORS}/DedicatedProcessorConfiguration',
                'MinimumProcessors',
                'DesiredProcessors',
                'MaximumProcessors',
            ),
        )

    def test_only_desired_memory_is_occupied(self):
        self.load()
        system = self.system()
        self.assertEqual((1 << 19) - 8192 - 2048 - 256, system.memory_free)

    def test_active_partition_can_change_within_its_range(self):
        self.load()
        found = self.read(self.partition('elastic')['uuid'])
        found.mem_config.desired = 4096
        found.proc_config.shared_proc_cfg.desired_virtual = 4
        found.proc_config.shared_proc_cfg.desired_units = 2
        found.update()
        self.assertEqual([4096], self.values(MEMORY, 'CurrentMemory'))
        self.assertEqual(
            [4, 2],
            self.values(
                CURRENT, 'AllocatedVirtualProcessors', 'CurrentProcessingUnits'
            ),
        )
        found = self.read(found.uuid)
        found.mem_config.desired = 1024
        found.update()
        self.assertEqual([1024], self.values(MEMORY, 'CurrentMemory'))

    def test_active_partition_cannot_leave_its_range(self):
        self.load()
        for size in (4352, 768):
            found = self.read(self.partition('elastic')['uuid'])
            found.mem_config.desired = size
            self.assert_refused(400, '(?i)memory', found.update)
        self.assertEqual([2048], self.values(MEMORY, 'CurrentMemory'))

    def test_single_number_is_whole_range(self):
        self.load(memory=2048, processors=2, processor_units=1)
        self.assertEqual(
            [2048, 2048, 2048],
            self.values(
                MEMORY, 'MinimumMemory', 'DesiredMemory', 'MaximumMemory'
            ),
        )

    def test_minimum_and_maximum_are_optional(self):
        self.load(memory={'desired': 2048, 'maximum': 4096})
        self.assertEqual(
            [2048, 2048, 4096],
            self.values(
                MEMORY, 'MinimumMemory', 'DesiredMemory', 'MaximumMemory'
            ),
        )

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

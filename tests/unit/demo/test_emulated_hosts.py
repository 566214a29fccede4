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


import dataclasses
import pathlib
import tempfile
import unittest

import requests

from demo import emulated_hosts
from demo import host
from demo import supervisor
from demo import two_worlds


def _state(**groups):
    """Return the state of a host: VIOS -> its groups' free space by name."""
    partitions = [
        {
            'name': vios,
            'volume_groups': [
                {'name': name, 'free': free} for name, free in found.items()
            ],
        }
        for vios, found in groups.items()
    ]
    return {'systems': [{'partitions': [{'name': 'lpar'}, *partitions]}]}


class VolumeGroupTest(unittest.TestCase):
    def test_volume_group_with_most_free_space_is_chosen(self):
        for expected, groups in (
            ('disks', {'vios1': {'rootvg': 2.0, 'disks': 9.5}}),
            # A repeated name is qualified.
            (
                'vios2/disks',
                {'vios1': {'disks': 1.0}, 'vios2': {'disks': 2.0}},
            ),
            (None, {'vios1': {}}),
        ):
            found = emulated_hosts.largest_volume_group(_state(**groups))
            self.assertEqual(expected, found)


class EmulatorTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state_dir = pathlib.Path(directory.name)
        for name in ('etc', 'log'):
            (self.state_dir / name).mkdir()
        self.supervisor = supervisor.Supervisor(self.state_dir / 'log')
        self.addCleanup(self.supervisor.stop)

    def start_all(self, *worlds):
        return emulated_hosts.start(self.supervisor, self.state_dir, worlds)

    def start(self, world=None):
        (rest,) = self.start_all(world)
        return rest

    def log_on(self, rest):
        client = host.Host(rest)
        self.addCleanup(client.log_off)
        return client

    def test_password_of_emulator_is_required_and_not_on_command_line(self):
        rest = self.start()
        (child,) = self.supervisor._children.values()
        command = pathlib.Path(f'/proc/{child.pid}/cmdline').read_text()
        self.assertIn('emulator', command)
        self.assertNotIn(rest.password, command)
        client = self.log_on(rest)
        self.assertEqual(14, len(client.slots()))
        with self.assertRaises(requests.HTTPError):
            host.Host(dataclasses.replace(rest, password='abc123'))
        # A session can be started again.
        client._emulator.expire_sessions()
        client.log_on()
        self.assertEqual(14, len(client.slots()))
        client.power_off()
        with self.assertRaises(requests.ConnectionError):
            client.slots()
        client.power_on()
        self.assertEqual(14, len(client.slots()))

    def test_emulator_ends_with_its_launcher(self):
        self.start()
        (child,) = self.supervisor._children.values()
        # This is what a child sees when its launcher is killed.
        child.stdin.close()
        self.assertEqual(0, child.wait(30))

    def test_emulator_serves_world_of_user_or_names_it_in_the_log(self):
        world = self.state_dir / 'world.yaml'
        slots = '[{drc_index: "21010099"}]'
        world.write_text(f'systems: [{{name: mine, slots: {slots}}}]')
        client = self.log_on(self.start(world))
        self.assertEqual('21010099', client.slots()[0].drc_index)
        world.write_text('systems: [{capture: {file: none.txt}}]')
        self.supervisor.stop()
        with self.assertRaises(supervisor.ServiceError) as caught:
            self.start(world)
        self.assertIn(
            f'{world}: none.txt is not a capture',
            supervisor.last_errors(caught.exception.log)[-1],
        )

    def test_client_reads_slots_and_partitions(self):
        client = self.log_on(self.start())
        slots = {slot.drc_index: slot for slot in client.slots()}
        self.assertEqual(sorted(slots), list(slots))
        self.assertEqual('vios1', slots['21010011'].owner)
        self.assertIsNone(slots['21010020'].owner)
        self.assertLessEqual(
            {('vendor_id', '10DE'), ('device_id', '1DB6'), ('class', '0302')},
            slots['21010020'].properties.items(),
        )
        partitions = {found.name: found for found in client.partitions()}
        found = partitions['database']
        self.assertEqual('running', found.state)
        self.assertEqual(host.PartitionSize(16384, 4), client.size(found.uuid))
        self.assertEqual([], client.storage(found.uuid))

    def test_worlds_are_hosts_with_equal_indexes_and_roots_of_their_own(self):
        paths = two_worlds.write(self.state_dir / 'etc')
        rests = self.start_all(*paths)
        for rest in rests:
            links = pathlib.Path(rest.management_root, 'dev/disk/by-id')
            self.assertTrue(links.is_dir())
        self.assertEqual(2, len({rest.management_root for rest in rests}))
        first, second = map(self.log_on, rests)
        self.assertNotEqual(first.system_name(), second.system_name())
        self.assertEqual(
            [slot.drc_index for slot in first.slots()],
            [slot.drc_index for slot in second.slots()],
        )
        self.assertEqual([], first.pool_units())

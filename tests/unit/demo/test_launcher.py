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

import pathlib
import tempfile
import unittest

import requests

from nova_powervm.demo import host
from nova_powervm.demo import launcher
from nova_powervm.demo import supervisor


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
        self.assertEqual(
            'disks',
            launcher.largest_volume_group(
                _state(vios1={'rootvg': 2.0, 'disks': 9.5})
            ),
        )

    def test_volume_group_with_repeated_name_is_qualified(self):
        self.assertEqual(
            'vios2/disks',
            launcher.largest_volume_group(
                _state(vios1={'disks': 1.0}, vios2={'disks': 2.0})
            ),
        )

    def test_host_without_volume_groups_has_none(self):
        self.assertIsNone(launcher.largest_volume_group(_state(vios1={})))


class InventoryFileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state_dir = pathlib.Path(directory.name)
        (self.state_dir / 'etc').mkdir()

    def test_default_inventory_is_written_without_license(self):
        path = launcher._place_inventory(self.state_dir, None)

        self.assertEqual(self.state_dir / 'etc' / 'inventory.yaml', path)
        self.assertNotIn('License', path.read_text())

    def test_inventory_of_user_is_read_in_place(self):
        given = pathlib.Path('mine.yaml')

        path = launcher._place_inventory(self.state_dir, given)

        self.assertEqual(pathlib.Path.cwd() / 'mine.yaml', path)


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

    def start(self, world=None):
        return launcher._start_emulator(self.supervisor, self.state_dir, world)

    def test_password_of_emulator_is_not_on_its_command_line(self):
        rest = self.start()

        (child,) = self.supervisor._children.values()
        command = pathlib.Path(f'/proc/{child.pid}/cmdline').read_text()
        self.assertIn('emulator', command)
        self.assertNotIn(rest.password, command)
        client = host.Host(rest)
        self.addCleanup(client.log_off)
        self.assertEqual(14, len(client.slots()))

    def test_emulator_ends_with_its_launcher(self):
        self.start()
        (child,) = self.supervisor._children.values()

        # This is what a child sees when its launcher is killed.
        child.stdin.close()

        self.assertEqual(0, child.wait(30))

    def test_password_of_emulator_is_required(self):
        rest = self.start()

        with self.assertRaises(requests.HTTPError):
            host.Host(type(rest)(rest.url, rest.username, 'abc123'))

    def test_emulator_serves_world_of_user(self):
        world = self.state_dir / 'world.yaml'
        world.write_text(
            'systems: [{name: mine, slots: [{drc_index: "21010099"}]}]'
        )

        client = host.Host(self.start(world))

        self.addCleanup(client.log_off)
        self.assertEqual('21010099', client.slots()[0].drc_index)

    def test_world_that_cannot_be_built_is_named_in_the_log(self):
        world = self.state_dir / 'world.yaml'
        world.write_text('systems: [{capture: {file: none.txt}}]')

        with self.assertRaises(supervisor.ServiceError) as caught:
            self.start(world)

        self.assertIn(
            f'{world}: none.txt is not a capture',
            supervisor.last_errors(caught.exception.log)[-1],
        )

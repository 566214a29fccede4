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
from unittest import mock

import requests

from nova_powervm.demo import expected_providers
from nova_powervm.demo import host
from nova_powervm.demo import launcher
from nova_powervm.demo import stack
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
        wanted = self.state_dir / 'etc' / 'inventory.yaml'

        path = launcher._place(wanted, None, launcher.default_inventory())

        self.assertEqual(wanted, path)
        self.assertNotIn('License', path.read_text())

    def test_inventory_of_user_is_read_in_place(self):
        given = pathlib.Path('mine.yaml')

        path = launcher._place(self.state_dir / 'other', given, 'text')

        self.assertEqual(pathlib.Path.cwd() / 'mine.yaml', path)


class DefaultFilesTest(unittest.TestCase):
    def load(self, text):
        return expected_providers.read_paragraphs(text)

    def test_files_of_nova_and_cyborg_identify_different_slots(self):
        def identified(text):
            return [paragraph.identification for paragraph in self.load(text)]

        novas = identified(launcher.default_inventory(has_cyborg=True))
        cyborgs = identified(launcher.default_accelerators())

        self.assertEqual([], [item for item in cyborgs if item in novas])
        self.assertEqual(
            identified(launcher.default_inventory()), novas + cyborgs
        )

    def test_gpus_are_the_same_with_and_without_cyborg(self):
        without = self.load(launcher.default_inventory())

        beside = self.load(launcher.default_inventory(has_cyborg=True))

        self.assertEqual(without[:2], beside)


class MakeStackTest(unittest.TestCase):
    """Choices of a run, and the cloud that they make."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state_dir = pathlib.Path(directory.name)
        (self.state_dir / 'etc').mkdir()
        client = mock.patch.object(launcher.client, 'Client')
        client.start().return_value.state.return_value = _state()
        self.addCleanup(client.stop)

    def make(self, **choices):
        return launcher._make_stack(
            self.state_dir,
            launcher.Choices(**choices),
            stack.HostRest('http://127.0.0.1:1', 'user', 'secret'),
        )

    def test_cloud_without_cyborg_needs_no_broker(self):
        made = self.make()

        self.assertFalse(made.has_cyborg)
        self.assertEqual('fake:/', made.transport_url)
        self.assertNotIn('cyborg', made.ports)
        self.assertNotIn('cyborg', made.passwords)

    def test_cloud_with_cyborg_has_its_api_user_file_and_broker(self):
        made = self.make(has_cyborg=True)

        self.assertIn('cyborg', made.ports)
        self.assertIn('cyborg', made.passwords)
        self.assertEqual(
            launcher.default_accelerators(),
            made.accelerator_file.read_text(),
        )
        self.assertNotIn('crypto:', made.inventory_file.read_text())
        self.assertTrue(made.transport_url.startswith('demo-tcp://:'))

    def test_passwords_of_brokers_differ_per_run(self):
        urls = {self.make(has_cyborg=True).transport_url for _ in range(2)}

        self.assertEqual(2, len(urls))

    def test_broker_of_the_user_is_used(self):
        url = 'rabbit://user:secret@host:5672/'

        for has_cyborg in (False, True):
            made = self.make(has_cyborg=has_cyborg, transport_url=url)
            self.assertEqual(url, made.transport_url)

    def test_accelerators_of_the_user_are_read_in_place(self):
        made = self.make(has_cyborg=True, accelerators=pathlib.Path('mine'))

        self.assertEqual(pathlib.Path.cwd() / 'mine', made.accelerator_file)


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

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

from demo import expected_providers
from demo import launcher
from demo import stack


class FilesTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.state_dir = pathlib.Path(directory)
        (self.state_dir / 'etc').mkdir()


class InventoryFileTest(FilesTestCase):
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
    def test_files_of_nova_and_cyborg_identify_different_slots(self):
        """GPUs are the same with and without Cyborg."""
        without, beside, cyborgs = map(
            expected_providers.read_paragraphs,
            (
                launcher.default_inventory(),
                launcher.default_inventory(has_cyborg=True),
                launcher.default_accelerators(),
            ),
        )
        self.assertEqual(without[:2], beside)
        self.assertEqual(
            [paragraph.identification for paragraph in without],
            [paragraph.identification for paragraph in (*beside, *cyborgs)],
        )
        identified = [one.identification for one in without]
        self.assertEqual(
            len(identified), len({str(one) for one in identified})
        )


class MakeStackTest(FilesTestCase):
    """Choices of a run, and the cloud that they make."""

    def make(self, **choices):
        chosen = launcher.Choices(**choices)
        hosts = [
            stack.HostRest(f'http://127.0.0.1:{number}', 'user', 'secret', '/')
            for number in range(chosen.hosts)
        ]
        with mock.patch.object(
            launcher.emulated_hosts, 'own_disks', return_value={}
        ):
            return launcher._make_stack(self.state_dir, chosen, hosts)

    def test_hosts_have_names_addresses_and_a_broker(self):
        made = self.make(hosts=2)
        self.assertEqual(
            [
                ('powervm-demo-1', '127.0.0.1', 'http://127.0.0.1:0'),
                ('powervm-demo-2', '127.0.0.2', 'http://127.0.0.1:1'),
            ],
            [(one.name, one.address, one.host.url) for one in made.computes],
        )
        self.assertTrue(made.transport_url.startswith('demo-tcp://:'))
        names = []
        for compute in made.computes:
            self.assertEqual('ssp', compute.disk_options['disk_driver'])
            text = compute.inventory_file.read_text()
            paragraphs = expected_providers.read_paragraphs(text)
            names.append([paragraph.name for paragraph in paragraphs])
        self.assertEqual([*names[0], 't4'], names[1])

    def test_cloud_without_cyborg_needs_no_broker(self):
        made = self.make()
        self.assertFalse(made.has_cyborg)
        self.assertEqual('fake:/', made.transport_url)
        self.assertNotIn('cyborg', {*made.ports, *made.passwords})

    def test_cloud_with_cyborg_has_its_api_user_file_and_broker(self):
        made = self.make(has_cyborg=True)
        self.assertIn('cyborg', made.ports)
        self.assertIn('cyborg', made.passwords)
        text = made.accelerator_file.read_text()
        self.assertEqual(launcher.default_accelerators(), text)
        self.assertNotIn('crypto:', made.inventory_file.read_text())
        self.assertTrue(made.transport_url.startswith('demo-tcp://:'))
        again = self.make(has_cyborg=True)
        self.assertNotEqual(made.transport_url, again.transport_url)

    def test_cloud_with_volumes_has_its_api_and_user_and_no_broker(self):
        made = self.make(has_cinder=True)
        self.assertTrue(made.has_cinder)
        self.assertIn('cinder', made.passwords)
        self.assertEqual('fake:/', made.transport_url)
        self.assertFalse(self.make().has_cinder)

    def test_world_of_the_user_precedes_that_with_ports(self):
        given = pathlib.Path('mine')
        for world, wanted in (
            (given, [given]),
            (None, [self.state_dir / 'etc' / 'world.yaml']),
        ):
            chosen = launcher.Choices(world=world, has_cinder=True)
            found = launcher._worlds(self.state_dir, chosen)
            self.assertEqual(wanted, found)

    def test_broker_and_accelerators_of_the_user_are_used(self):
        url = 'rabbit://user:secret@host:5672/'
        for has_cyborg in (False, True):
            made = self.make(has_cyborg=has_cyborg, transport_url=url)
            self.assertEqual(url, made.transport_url)
        made = self.make(has_cyborg=True, accelerators=pathlib.Path('mine'))
        self.assertEqual(pathlib.Path.cwd() / 'mine', made.accelerator_file)

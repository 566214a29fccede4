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
        disks = mock.patch.object(
            launcher.emulated_hosts, 'own_disks', return_value={}
        )
        disks.start()
        self.addCleanup(disks.stop)

    def make(self, **choices):
        chosen = launcher.Choices(**choices)
        return launcher._make_stack(
            self.state_dir,
            chosen,
            [
                stack.HostRest(f'http://127.0.0.1:{number}', 'user', 'secret')
                for number in range(chosen.hosts)
            ],
        )

    def test_hosts_have_names_addresses_and_a_broker(self):
        made = self.make(hosts=2)

        self.assertEqual(
            [
                ('powervm-demo-1', '127.0.0.1', 'http://127.0.0.1:0'),
                ('powervm-demo-2', '127.0.0.2', 'http://127.0.0.1:1'),
            ],
            [
                (item.name, item.address, item.host.url)
                for item in made.computes
            ],
        )
        self.assertTrue(made.transport_url.startswith('demo-tcp://:'))
        for compute in made.computes:
            self.assertEqual('ssp', compute.disk_options['disk_driver'])

    def test_second_host_has_a_paragraph_more(self):
        first, second = (
            [
                paragraph.name
                for paragraph in expected_providers.read_paragraphs(
                    compute.inventory_file.read_text()
                )
            ]
            for compute in self.make(hosts=2).computes
        )

        self.assertEqual([*first, 't4'], second)

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

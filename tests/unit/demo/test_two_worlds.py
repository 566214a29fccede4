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

from demo import expected_providers
from demo import launcher
from demo import two_worlds
from powervm_emulator import worlds


def _slots(world):
    (system,) = world['systems']
    return {slot['drc_index']: slot for slot in system['slots']}


class TwoWorldsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.first, self.second = two_worlds.make()

    def test_first_world_is_the_default_one_with_a_pool(self):
        (cluster,) = self.first.pop('clusters')

        self.assertEqual(two_worlds.CLUSTER, cluster['name'])
        self.assertEqual(worlds.default(), self.first)

    def test_worlds_differ_in_one_gpu_besides_names(self):
        different = [
            index
            for index, slot in _slots(self.second).items()
            if slot.get('device_id')
            != _slots(self.first)[index].get('device_id')
        ]

        self.assertEqual([two_worlds.OTHER_GPU], different)

    def test_written_worlds_can_be_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = two_worlds.write(pathlib.Path(directory))

            loaded = [worlds.load_file(str(path)) for path in paths]

        self.assertEqual([self.first, self.second], loaded)

    def test_ports_of_both_hosts_have_names_of_their_own(self):
        names = [
            port['wwpn']
            for world in two_worlds.make(has_volumes=True)
            for slot in _slots(world).values()
            for port in slot.get('fibre_channel_ports', ())
        ]
        self.assertEqual(8, len(set(names)))
        self.assertEqual(8, len(names))

    def test_last_paragraph_identifies_the_other_gpu_only(self):
        *_, paragraph = expected_providers.read_paragraphs(
            launcher.second_inventory()
        )

        matching = [
            [
                index
                for index, slot in _slots(world).items()
                if all(
                    slot.get(key) == value
                    for key, value in paragraph.identification.items()
                )
            ]
            for world in (self.first, self.second)
        ]
        self.assertEqual([[], [two_worlds.OTHER_GPU]], matching)

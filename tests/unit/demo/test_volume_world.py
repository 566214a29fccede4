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

from demo import volume_world
from emulator.tests import base
from powervm_emulator import fixture
from powervm_emulator import worlds


class VolumeWorldTest(unittest.TestCase):
    def test_written_world_can_be_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            path = volume_world.write(pathlib.Path(directory))
            found = worlds.load_file(str(path))
        self.assertEqual(volume_world.make(), found)

    def test_servers_have_ports_in_fabric_of_array(self):
        base.quieten(self)
        ports = volume_world.wwpns()
        with fixture.Emulator(volume_world.make()) as emulator:
            system = emulator.control.state()['systems'][0]
            servers = {
                one['name']: one['rmc_state']
                for one in system['partitions']
                if one['name'] in ports
            }
        self.assertEqual({'vios1': 'active', 'vios2': 'active'}, servers)
        described = {
            slot['owner']: slot['fibre_channel_ports']
            for slot in volume_world.make()['systems'][0]['slots']
            if 'fibre_channel_ports' in slot
        }
        for name, wwpns in ports.items():
            self.assertEqual(
                [(wwpn, volume_world.FABRIC) for wwpn in wwpns],
                [(one['wwpn'], one['fabric']) for one in described[name]],
            )

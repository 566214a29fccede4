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

"""Free physical volumes that worlds describe."""

import base64
import copy

from pypowervm import const
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import fixture
from powervm_emulator import worlds
from powervm_emulator.core import errors
from tests.emulator import base

UDID = '01' + base64.b64encode(b'3IBM     2107900XX1234').decode()


def world_with(*volumes):
    """Return the default world with free disks of its only VIOS."""
    made = copy.deepcopy(worlds.default())
    made['systems'][0]['virtual_io_servers'][0]['physical_volumes'] = [
        *volumes
    ]
    return made


class PhysicalVolumesTest(base.EmulatorTestCase):
    world = world_with(
        {'capacity': 100},
        {
            'capacity': 0.5,
            'name': 'hdisk9',
            'udid': UDID,
            'location': 'U78D2.001.EMU0001-P1-C2-T1-L3',
        },
    )

    def volumes(self):
        """Read the disks of the VIOS by name."""
        (vios,) = virtual_io_server.VIOS.get(
            self.adapter, xag=[const.XAG.VIO_STOR]
        )
        return {volume.name: volume for volume in vios.phys_vols}

    def test_free_volumes_come_after_those_of_groups(self):
        found = self.volumes()
        self.assertEqual(
            {'hdisk0': False, 'hdisk1': False, 'hdisk2': True, 'hdisk9': True},
            {name: volume.avail_for_use for name, volume in found.items()},
        )
        self.assertEqual(100 * 1024, found['hdisk2'].capacity)
        self.assertEqual(512, found['hdisk9'].capacity)

    def test_volume_has_described_identity(self):
        volume = self.volumes()['hdisk9']
        self.assertEqual(UDID, volume.udid)
        self.assertEqual('U78D2.001.EMU0001-P1-C2-T1-L3', volume.loc_code)

    def test_made_identity_is_of_the_form_of_captured_ones(self):
        volume = self.volumes()['hdisk2']
        self.assertEqual('01', volume.udid[:2])
        self.assertRegex(
            base64.b64decode(volume.udid[2:], validate=True),
            b'^1IBM     IPR-0   [0-9A-F]{16}$',
        )
        self.assertEqual('U78D2.001.EMU0001-P1-D3', volume.loc_code)

    def test_free_volume_is_in_no_group(self):
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        groups = storage.VG.get(self.adapter, parent=vios)
        grouped = {
            volume.name for group in groups for volume in group.phys_vols
        }
        self.assertEqual({'hdisk0', 'hdisk1'}, grouped)


class WorldTest(base.EmulatorTestCase):
    def test_world_without_free_volumes_is_as_before(self):
        with fixture.Emulator(world_with()) as other:
            self.assertEqual(
                self.control.state()['systems'],
                other.control.state()['systems'],
            )

    def test_second_volume_of_a_name_or_udid_is_refused(self):
        for volume in ({'name': 'hdisk1'}, {'udid': UDID}):
            described = {'capacity': 1, **volume}
            with (
                self.subTest(volume),
                self.assertRaisesRegex(
                    errors.WorldError, 'vios1 has two physical volumes with'
                ),
            ):
                fixture.Emulator(world_with(described, described))

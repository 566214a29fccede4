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

"""Volume groups and uptime, read through pypowervm."""

import base64

from pypowervm import exceptions
from pypowervm.tasks import partition as partition_tasks
from pypowervm.tasks import storage as storage_tasks
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import worlds
from powervm_emulator.core import errors

from . import base
from . import pools
from . import wire


class VolumeGroupTest(base.EmulatorTestCase):
    def test_vios_lists_its_volume_groups(self):
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        groups = storage.VG.get(self.adapter, parent=vios)
        self.assertEqual(
            {'rootvg': (278.0, 200.0), 'image_pool': (2048.0, 2000.0)},
            {
                group.name: (group.capacity, group.available_size)
                for group in groups
            },
        )

    def test_find_vg_finds_group_by_name_and_refreshes_it(self):
        vios, group = storage_tasks.find_vg(self.adapter, 'image_pool')
        self.assertEqual('vios1', vios.name)
        self.assertIs(group, group.refresh())

    def test_find_vg_fails_for_unknown_group(self):
        self.assertRaises(
            exceptions.VGNotFound,
            storage_tasks.find_vg,
            self.adapter,
            'nowhere',
        )

    def test_read_with_other_vios_as_parent_is_not_found(self):
        _, group = storage_tasks.find_vg(self.adapter, 'image_pool')
        self.assertRaises(
            exceptions.HttpNotFound,
            storage.VG.get,
            self.adapter,
            uuid=group.uuid,
            parent_type='VirtualIOServer',
            parent_uuid='00000000-0000-4000-8000-000000000000',
        )


class PhysicalVolumeTest(wire.WireTestCase):
    def test_udids_are_made_as_those_of_captures(self):
        """They are 01, and in Base64 what the disk says of itself."""
        self.world = worlds.default()
        self.world['clusters'] = [pools.CLUSTER | {'nodes': ['vios1']}]
        self.control.load_world(self.world)
        captured = [root for _, root in wire.captured()]
        served = [
            self.get(path).root
            for path in (self.path_of('vios1'), 'uom/SharedStoragePool')
        ]
        for documents, least in ((captured, 37), (served, 3)):
            udids = [
                found.text
                for root in documents
                for volume in root.iter('{*}PhysicalVolume')
                if wire.child(volume, 'VolumeName').text.startswith('hdisk')
                if (found := wire.child(volume, 'UniqueDeviceID')) is not None
            ]
            self.assertGreaterEqual(len(udids), least)
            for udid in udids:
                data = base64.b64decode(udid.removeprefix('01'))
                self.assertRegex(data, rb'^[13].*IBM|^[13]', udid)


class UptimeTest(base.EmulatorTestCase):
    def test_management_partition_has_uptime(self):
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(1048000, partition.uptime)

    def test_uptime_is_reset_by_new_state_only(self):
        name = partition_tasks.get_mgmt_partition(self.adapter).name
        self.control.set_partition(name, rmc_state='busy')
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(1048000, partition.uptime)
        self.control.set_partition(name, state='error')
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(0, partition.uptime)


class VolumeGroupWorldTest(base.EmulatorTestCase):
    def test_loading_reports_problems_of_volume_groups(self):
        world = worlds.default()
        system = world['systems'][0]
        group = {'name': 'vg', 'capacity': 10, 'free': 11}
        system['virtual_io_servers'][0]['volume_groups'] = [group, group]
        with self.assertRaises(errors.WorldError) as caught:
            self.control.load_world(world)
        text = str(caught.exception)
        self.assertIn(
            'volume_groups[0]: disks, repository and free beyond', text
        )
        self.assertIn("'vg' is also at", text)

    def test_loading_refuses_volume_groups_of_logical_partition(self):
        world = worlds.default()
        world['systems'][0]['partitions'][2]['volume_groups'] = [
            {'name': 'x', 'capacity': 1}
        ]
        self.assertRaisesRegex(
            errors.WorldError,
            r"partitions\[2\].*'volume_groups' was unexpected",
            self.control.load_world,
            world,
        )

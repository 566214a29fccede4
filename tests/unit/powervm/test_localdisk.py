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

"""Virtual disks on the emulated Virtual I/O Server."""

import hashlib
import unittest

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.domain import host
from nova_powervm.domain import image
from nova_powervm.emulator import fixture
from nova_powervm.emulator import worlds
from nova_powervm.powervm import localdisk
from nova_powervm.powervm import session

DATA = b'\x01boot sector' + bytes(1000)
NAME = 'nv4b1c2d3e0f00r'
CONTENTS = image.Contents(
    len(DATA), hashlib.sha256(DATA).hexdigest(), 'raw', len(DATA)
)


class RootTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def start(self, **group):
        """Start a host whose volume group is another."""
        world = worlds.default()
        (vios,) = world['systems'][0]['virtual_io_servers']
        vios['volume_groups'][1].update(group)
        emulator = fixture.Emulator(world)
        emulator.start()
        self.addCleanup(emulator.stop)
        self.control = emulator.control
        server = options.Server(
            url=emulator.url,
            username=emulator.username,
            password=emulator.password,
            connect_timeout=0,
        )
        adapter = session.connect(server)
        self.addCleanup(adapter.session.close)
        self.disks = localdisk.LocalDisk(
            adapter, options.Settings(server, volume_group='image_pool')
        )

    def shown(self):
        """Give the disks as the control plane tells them."""
        (system,) = self.control.state()['systems']
        return [
            disk
            for partition in system['partitions']
            for group in partition.get('volume_groups', ())
            for disk in group['disks']
        ]

    def make(self, *chunks, size=1):
        return self.disks.make_root(NAME, size, CONTENTS, lambda: iter(chunks))

    def test_it_is_made_and_filled(self):
        self.make(DATA)
        (disk,) = self.shown()
        self.assertEqual((NAME, 1), (disk['name'], disk['capacity']))
        self.assertEqual(DATA, self.control.contents(disk['udid']))

    def test_one_that_can_not_be_filled_is_removed(self):
        with self.assertRaises(exception.ImageDamaged):
            self.make(b'other')
        self.assertEqual([], self.shown())

    def test_the_first_error_stays_if_it_can_not_be_removed(self):
        self.control.add_fault(
            match='VolumeGroup.update', nth=2, every=True, status=500
        )
        with self.assertRaises(exception.ImageDamaged):
            self.make(b'other')

    def test_one_of_another_size_is_refused(self):
        self.make(DATA)
        with self.assertRaises(exception.RestError) as caught:
            self.make(DATA, size=2)
        self.assertIn('instead of 2 GB', str(caught.exception))

    def test_a_lost_answer_makes_no_second_disk(self):
        self.control.add_fault(
            match='VolumeGroup.update', drop=True, phase='after'
        )
        self.make(DATA)
        self.assertEqual(1, len(self.shown()))

    def test_removing_nothing_writes_nothing(self):
        self.control.clear_journal()
        self.disks.remove('4B1C2D3E-0F00-4000-8000-000000000001')
        methods = {record['method'] for record in self.control.journal()}
        self.assertEqual({'GET'}, methods)

    def test_a_disk_that_placement_counts_reserves_nothing(self):
        self.start(
            capacity=5.9, free=3.9, disks=[{'name': NAME, 'capacity': 2}]
        )
        # 5.9 - 3.9 - 2 is not quite nothing.
        self.assertEqual(
            host.DiskCapacity(total_gb=5, used_gb=2, reserved_gb=0),
            self.disks.capacity(),
        )

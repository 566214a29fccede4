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

"""A host with a volume group for disks, for tests of the disk driver."""

import dataclasses
import functools
import unittest

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm.disk import localdisk
from powervm_emulator import worlds
from tests.unit.powervm import hosts

DATA = b'\x01boot sector' + bytes(1000)
NAME = 'nv4b1c2d3e0f00r'
LPAR = '4B1C2D3E-0F00-4000-8000-000000000001'
CONTENTS = image.Contents(len(DATA), 'raw', len(DATA))
IMAGE = image.Image('it', 'raw', len(DATA))
DAMAGED = exception.ImageDamaged(image='it', reason='its sha512 is 1...')


def opened(*chunks):
    """Give chunks as an image does that was opened; an error is raised."""
    for chunk in chunks:
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk


def roots(size):
    """Describe a root disk alone, as a rebuild does."""
    return [storage.Disk(storage.ROOT, size)]


class LocalDiskTestCase(unittest.TestCase):
    """Starts a host with two VIOSes, and has its disk driver."""

    def setUp(self):
        super().setUp()
        self.start()

    def start(self, **group):
        """Start a host whose volume group is another."""
        world = worlds.default()
        vioses = world['systems'][0]['virtual_io_servers']
        vioses[0]['volume_groups'][1].update(group)
        vioses.append(
            {
                'name': 'vios2',
                'state': 'running',
                'rmc_state': 'active',
                'memory': 4096,
                'processors': 1,
                'volume_groups': [{'name': 'other_pool', 'capacity': 100}],
            }
        )
        emulator = hosts.start(self, world)
        self.control = emulator.control
        self.adapter = hosts.connect(self, emulator)
        self.settings = options.Settings(
            server=hosts.server_of(emulator),
            volume_group='image_pool',
            disk_clear='none',
        )
        self.disks = self.driver()

    def driver(self, **changes):
        """Make a driver as another nova-compute would."""
        return localdisk.load(
            disk_drivers.Context(
                self.adapter,
                None,
                dataclasses.replace(self.settings, **changes),
            )
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

    def make(self, *chunks, size=1, lpar_uuid=LPAR, disks=None):
        """Make a root disk of chunks."""
        disk = storage.Disk(storage.ROOT, size)
        source = functools.partial(opened, *chunks)
        return (disks or self.disks).make_root(
            lpar_uuid, disk, IMAGE, CONTENTS, source
        )

    def vios(self):
        """Return the server that has the disks."""
        (system,) = self.control.state()['systems']
        return next(p for p in system['partitions'] if p['name'] == 'vios1')

    def lpar_named(self, name):
        """Return the uuid of a partition."""
        (system,) = self.control.state()['systems']
        return next(
            partition['uuid']
            for partition in system['partitions']
            if partition['name'] == name
        )

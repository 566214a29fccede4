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

"""A host with a shared storage pool, for tests of the disk driver."""

import copy
import hashlib
import types
import unittest

from nova_powervm.conf import powervm as options
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import pools
from nova_powervm.powervm.disk import ssp
from nova_powervm.powervm.disk import uploads
from powervm_emulator import worlds
from tests.unit.powervm import hosts

DATA = b'\x01boot sector' + bytes(1000)
CONTENTS = image.Contents(len(DATA), 'raw', len(DATA))
IMAGE = image.Image(
    'it', 'raw', len(DATA), 'sha512', hashlib.sha512(DATA).hexdigest()
)
LPAR = '4B1C2D3E-0F00-4000-8000-000000000001'
ROOT = storage.Disk(storage.ROOT, 2)
SWAP = storage.Disk(storage.SWAP, 0.5)
SHA256 = hashlib.sha256(DATA).hexdigest()


def source():
    """Yield the bytes of the image."""
    yield DATA


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


class PoolTestCase(unittest.TestCase):
    """Starts a host with three VIOSes, two of which are in a cluster."""

    cluster = {  # noqa: RUF012 - not changed
        'name': 'cloud',
        'nodes': ['vios1', 'vios2'],
        'pool': {'name': 'pool1', 'capacity': 20},
    }

    def setUp(self):
        super().setUp()
        self.emulator = self.start()
        self.control = self.emulator.control
        self.server = hosts.server_of(self.emulator)
        self.adapter = hosts.connect(self, self.emulator)
        self.pool = pools.StoragePool(self.adapter)

    def start(self):
        """Start the emulator of the host, and return it."""
        return hosts.start(self, self.world())

    def world(self):
        """Return the world of the host."""
        world = worlds.default()
        servers = world['systems'][0]['virtual_io_servers']
        servers += [
            {
                'name': name,
                'state': 'running',
                'rmc_state': 'active',
                'memory': 4096,
                'processors': 1,
                'volume_groups': [{'name': 'rootvg', 'capacity': 100}],
            }
            for name in ('vios2', 'vios3')
        ]
        return world | {'clusters': [copy.deepcopy(self.cluster)]}

    def load(self, adapter=None, **settings):
        """Return the disk driver of the host, or of that of an adapter."""
        made = options.Settings(
            server=self.server, disk_driver='ssp', **settings
        )
        system = types.SimpleNamespace(
            wrapper=types.SimpleNamespace(uuid='5b2c8a01-0000')
        )
        return ssp.load(
            disk_drivers.Context(adapter or self.adapter, system, made)
        )

    def cache(self, writer='5b2c8a01', pool=None, clock=None):
        """Return the cache of images as a host uses it."""
        return image_cache.ImageCache(
            pool or self.pool,
            uploads.Uploads(self.adapter),
            lambda: writer,
            clock or Clock(),
        )

    def units(self):
        """Return the logical units that the control plane shows, by name."""
        (found,) = self.control.state()['clusters']
        return {unit['name']: unit for unit in found['pool']['logical_units']}

    def mappings(self):
        """Return the mappings of the control plane, by name of the VIOS."""
        (system,) = self.control.state()['systems']
        return {
            partition['name']: partition['scsi_mappings']
            for partition in system['partitions']
            if 'scsi_mappings' in partition
        }

    def lpar_named(self, name):
        """Return the upper-case uuid of a partition."""
        (system,) = self.control.state()['systems']
        return next(
            partition['uuid'].upper()
            for partition in system['partitions']
            if partition['name'] == name
        )

    def labels(self):
        """Return the labels of the requests since the last call."""
        found = [record['label'] for record in self.control.journal()]
        self.control.clear_journal()
        return found


class DiskTestCase(PoolTestCase):
    """Has the disk driver of the host."""

    def setUp(self):
        super().setUp()
        self.disks = self.load()

    def make_root(self, lpar_uuid=LPAR, disk=ROOT):
        """Make a root disk of the image."""
        return self.disks.make_root(lpar_uuid, disk, IMAGE, CONTENTS, source)

    def make_foreign(self, name, size=1, kind=pools.DISK):
        """Make a logical unit that is not the driver's."""
        return self.pool.create(name, size, kind)

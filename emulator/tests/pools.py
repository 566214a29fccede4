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

"""Common parts of the tests of shared storage pools."""

import base64
import copy
import io

from pypowervm import const
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.wrappers import cluster as clusters
from pypowervm.wrappers import storage
from pypowervm.wrappers import vios_file
from pypowervm.wrappers import virtual_io_server

from . import base

MB = 1 << 20
GB = 1 << 30
CLUSTER = {
    'name': 'cloud',
    'nodes': ['vios1', 'vios2'],
    'pool': {'name': 'pool1', 'capacity': 10},
}
WORLD = {
    'systems': [
        {
            'name': 'host1',
            'machine_type': '9009',
            'model': '22A',
            'serial': 'EMU0001',
            'memory': {'configurable': 65536},
            'processors': {'configurable': 16},
            'virtual_io_servers': [
                {
                    'name': name,
                    'state': 'running',
                    'rmc_state': 'active',
                    'memory': 4096,
                    'processors': 1,
                }
                for name in ('vios1', 'vios2', 'vios3')
            ],
            'partitions': [
                {
                    'name': 'novalink',
                    'state': 'running',
                    'memory': 2560,
                    'processors': 1,
                    'management': True,
                }
            ],
        }
    ],
    'clusters': [CLUSTER],
}


def world(**pool):
    """Return a world with two of three servers in a cluster.

    :param pool: keys of the pool.
    """
    made = copy.deepcopy(WORLD)
    made['clusters'][0]['pool'] |= pool
    return made


class Client:
    """What tests do with the pool of one host, through pypowervm."""

    def __init__(self, adapter):
        self.adapter = adapter

    def cluster(self):
        """Read and return the only cluster."""
        (found,) = clusters.Cluster.get(self.adapter)
        return found

    def pool(self):
        """Read and return the only pool."""
        (found,) = storage.SSP.get(self.adapter)
        return found

    def tier(self, name='SYSTEM'):
        """Read and return a tier."""
        (found,) = (
            tier
            for tier in storage.Tier.get(self.adapter)
            if tier.name == name
        )
        return found

    def units(self, tier='SYSTEM'):
        """Read and return the logical units of a tier."""
        return storage.LUEnt.get(self.adapter, parent=self.tier(tier))

    def unit(self, name='disk1', size=1, tier='SYSTEM', **options):
        """Make a logical unit with pypowervm's task."""
        return tasks.crt_lu(self.tier(tier), name, size, **options)[1]

    def image(self, name='image1', size=1, data=None):
        """Make an image, and upload it if there is data."""
        made = self.unit(name, size, typ=storage.LUType.IMAGE)
        if data is not None:
            self.upload(made, data)
        return made

    def clone(self, image, name='clone1', size=1):
        """Make a linked clone of an image."""
        return self.unit(name, size, clone=image)

    def vios(self, name='vios1'):
        """Read and return a VIOS with its mappings."""
        (found,) = (
            vios
            for vios in virtual_io_server.VIOS.get(
                self.adapter, xag=[const.XAG.VIO_SMAP]
            )
            if vios.name == name
        )
        return found

    def upload(self, unit, data, vios='vios1'):
        """Upload the contents of a logical unit with pypowervm's task."""
        uuid = self.vios(vios).uuid
        tasks.upload_lu(uuid, unit, io.BytesIO(data), len(data))

    def file(self, unit, vios='vios1', **options):
        """Create the File that announces an upload."""
        return vios_file.File.bld(
            self.adapter,
            'image',
            vios_file.FileType.DISK_IMAGE,
            self.vios(vios).uuid,
            tdev_udid=unit.udid,
            **options,
        ).create()

    def map(self, client, unit, vios='vios1', **options):
        """Map a logical unit to a partition; return the mapping."""
        reference = storage.LU.bld_ref(self.adapter, unit.name, unit.udid)
        changed = scsi_mapper.add_vscsi_mapping(
            None, self.vios(vios), client.uuid, reference, **options
        )
        (found,) = scsi_mapper.find_maps(
            changed.scsi_mappings, client.uuid, stg_elem=reference
        )
        return found

    def unmap(self, client, vios='vios1'):
        """Remove all mappings of a partition."""
        found = self.vios(vios)
        scsi_mapper.remove_maps(found, client.uuid)
        return found.update()


class PoolTestCase(base.EmulatorTestCase):
    """Starts an emulator with a pool, and has a client of it."""

    world = world()

    def setUp(self):
        super().setUp()
        self.client = Client(self.adapter)

    def shown(self):
        """Return the pool in the control plane's state."""
        (cluster,) = self.control.state()['clusters']
        return cluster['pool']

    def shown_unit(self, name):
        """Return the logical unit with a name in the state."""
        (found,) = (
            unit
            for unit in self.shown()['logical_units']
            if unit['name'] == name
        )
        return found

    def write(self, unit, data, offset=0):
        """Write to a logical unit as a guest does."""
        sent = base64.b64encode(data).decode()
        return self.control.write_disk(unit.udid, sent, offset)

    def assert_unchanged(self, status, message, function, *args, **kwargs):
        """Assert that a call is refused and changes nothing."""
        before = self.control.state()
        self.assert_refused(status, message, function, *args, **kwargs)
        self.assertEqual(before, self.control.state())

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

"""Common parts of the tests with a storage area network."""

import copy
import pathlib
import tempfile

from pypowervm import const
from pypowervm.tasks import hdisk
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import job
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from . import base
from . import pools

GB = 1 << 30
UID = '6005076D02810187E000000000000004'
# What a real host has for it, in fake_vios_feed.txt.
UDID = '01M0lCTTIxNDUxMjQ2MDA1MDc2RDAyODEwMTg3RTAwMDAwMDAwMDAwMDAwNA=='
TARGETS = ('50050768022121CA', '50050768022121CB')
# Of both servers, in the order of the fabrics; the last has no link.
WWPNS = {
    'vios1': ('10000090FA537101', '10000090FA537102', '10000090FA537103'),
    'vios2': ('10000090FA537201', '10000090FA537202', '10000090FA537203'),
}
FABRICS = ('left', 'right')


def adapter(number, vios):
    """Describe a slot with an adapter of a server."""
    ports = [{'wwpn': wwpn} for wwpn in WWPNS[vios]]
    for port, fabric in zip(ports, FABRICS, strict=False):
        port['fabric'] = fabric
    return {
        'drc_index': f'2101000{number}',
        'drc_name': f'U78D2.001.EMU0001-P1-C{number}',
        'description': 'FC5052 2-port 16Gb FC Adapter',
        'owner': vios,
        'fibre_channel_ports': ports,
    }


def world():
    """Return a world with two servers, each with ports in both fabrics."""
    made = copy.deepcopy(pools.WORLD)
    del made['clusters']
    (system,) = made['systems']
    del system['virtual_io_servers'][2:]
    system['slots'] = [adapter(1, 'vios1'), adapter(2, 'vios2')]
    return made | {'rmc_after_power_on': 'active'}


def add_to(made):
    """Add to a world of one server another one, and ports for both.

    Partitions that start have an RMC connection there.
    """
    (system,) = made['systems']
    system['virtual_io_servers'].append(
        {
            'name': 'vios2',
            'state': 'running',
            'rmc_state': 'active',
            'memory': 4096,
            'processors': 1,
            # A server has a disk to run from.
            'volume_groups': [{'name': 'rootvg', 'capacity': 50}],
        }
    )
    system['slots'] += [adapter(1, 'vios1'), adapter(2, 'vios2')]
    return made | {'rmc_after_power_on': 'active'}


def array(lun=0, **volume):
    """Describe an array with one volume, mapped to both servers."""
    volume = {'name': 'v1', 'uid': UID, 'size': GB} | volume
    return {
        'name': 'svc',
        'ports': [
            {'wwpn': wwpn, 'fabric': fabric}
            for wwpn, fabric in zip(TARGETS, FABRICS, strict=True)
        ],
        'hosts': [
            {'name': 'host1', 'wwpns': [*WWPNS['vios1'], *WWPNS['vios2']]}
        ],
        'volumes': [volume],
        'maps': [{'host': 'host1', 'volume': volume['name'], 'lun': lun}],
    }


class SanTestCase(base.EmulatorTestCase):
    """Starts an emulator with two servers, and one volume that both reach."""

    world = world()

    def setUp(self):
        super().setUp()
        self.array = array()
        self.set_san()

    def set_san(self):
        """Make ``self.array`` the truth."""
        self.control.set_san([self.array])

    def file(self, data=b''):
        """Give the volume a file with some bytes; return its path."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(folder) / 'v1'
        path.write_bytes(data)
        self.array['volumes'][0]['file'] = str(path)
        self.set_san()
        return path

    def vios(self, name='vios1'):
        """Read and return a server with its disks and mappings."""
        (found,) = (
            one
            for one in virtual_io_server.VIOS.get(
                self.adapter, xag=[const.XAG.VIO_STOR, const.XAG.VIO_SMAP]
            )
            if one.name == name
        )
        return found

    def volumes(self, vios='vios1'):
        """Read the disks of a server by name."""
        return {one.name: one for one in self.vios(vios).phys_vols}

    def behind(self, vios='vios1'):
        """Read the disks behind each port of a server, by WWPN."""
        return {
            port.findtext('{*}WWPN'): [
                one.findtext('{*}VolumeName')
                for one in port.iterfind('{*}PhysicalVolumes/{*}*')
                if one.findtext('{*}VolumeName')
            ]
            for port in self.vios(vios).element.element.iter(
                '{*}PhysicalFibreChannelPort'
            )
        }

    def look(self, vios='vios1', initiators=None, target=TARGETS[0], lun=0):
        """Look for a disk with pypowervm; return status, name and UDID."""
        itls = hdisk.build_itls(initiators or WWPNS[vios][:1], [target], lun)
        uuid = self.vios(vios).uuid
        return hdisk.lua_recovery(self.adapter, uuid, itls)

    def run_operation(self, operation, **parameters):
        """Run a job of vios1 with pypowervm; return its results."""
        uuid = self.vios().uuid
        request = job.Job.wrap(
            self.adapter.read(
                *('VirtualIOServer', uuid),
                suffix_type='do',
                suffix_parm=operation,
            )
        )
        wanted = [
            request.create_job_parameter(*item, cdata=True)
            for item in parameters.items()
        ]
        request.run_job(uuid, job_parms=wanted)
        return request.get_job_results_as_dict()

    def remove(self, name='hdisk0', vios='vios1'):
        """Remove a disk from a server with pypowervm."""
        uuid = self.vios(vios).uuid
        hdisk.remove_hdisk(self.adapter, 'host', name, uuid)

    def map(self, client, name='hdisk0', vios='vios1', **options):
        """Map a disk of a server to a partition."""
        volume = storage.PV.bld(self.adapter, name, **options)
        scsi_mapper.add_vscsi_mapping(
            None, self.vios(vios), client.uuid, volume
        )

    def unmap(self, client, vios='vios1'):
        """Remove all mappings of a partition."""
        found = self.vios(vios)
        scsi_mapper.remove_maps(found, client.uuid)
        found.update()

    def shown(self, vios='vios1'):
        """Return the disks of a server in the control plane's state."""
        (system,) = self.control.state()['systems']
        (found,) = (
            one['physical_volumes']
            for one in system['partitions']
            if one['name'] == vios
        )
        return found

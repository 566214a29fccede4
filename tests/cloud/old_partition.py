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

"""A partition that somebody has made outside of the cloud."""

import base64
import itertools
import urllib.parse

from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm.tasks import cna
from pypowervm.tasks import hdisk
from pypowervm.tasks import power
from pypowervm.tasks import scsi_mapper
from pypowervm.utils import lpar_builder
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from demo import array_evidence
from demo import array_shell
from demo import volume_world
from powervm_emulator import client

_GROUPS = [const.XAG.VIO_STOR, const.XAG.VIO_SMAP]
_LUN = '5'
_POOL = 'pool0'
_SWITCH = 'ETHERNET0'


class OldPartition:
    """A partition with a disk of the array, and what its owners do with it.

    There is no ``pvmctl`` here and no shell of a Virtual I/O Server, so their
    commands are done by pypowervm.

    :param stack: the demonstration, with Cinder.
    :param name: that of the partition.
    :param disk: the name of its disk in the array.
    :param array_host: the name of the Virtual I/O Servers in the array.
    """

    def __init__(self, stack, name, disk, array_host):
        self._stack = stack
        self._name = name
        self._disk = disk
        self._array_host = array_host
        self._rest = _log_on(stack.host)

    def make(self, mac, vlan, contents):
        """Make and start the partition, whose guest writes to its disk.

        :returns: the disk, as the array has it.
        """
        disk = self._make_disk()
        (system,) = managed_system.System.get(self._rest)
        values = {'name': self._name, 'memory': 1024, 'vcpu': 1}
        standards = lpar_builder.DefaultStandardize(system)
        lpar = (
            lpar_builder.LPARBuilder(self._rest, values, standards)
            .build()
            .create()
        )
        cna.crt_cna(
            *(self._rest, system.uuid, lpar.uuid, vlan),
            vswitch=_SWITCH,
            mac_addr=mac.replace(':', ''),
        )
        for vios in self._servers():
            name = self._discover(vios)
            scsi_mapper.add_vscsi_mapping(
                *(system.uuid, vios.refresh(), lpar.uuid),
                storage.PV.bld(self._rest, name),
            )
        power.power_on(lpar.refresh(), None)
        client.Client(self._stack.host.url).write_disk(
            disk.udid, base64.b64encode(contents).decode()
        )
        return disk

    def _make_disk(self):
        """Make a disk in the array, and map it to both servers."""
        self.run_on_array(
            *('mkvdisk', '-name', self._disk, '-mdiskgrp', f'"{_POOL}"'),
            *('-iogrp', '0', '-size', '1', '-unit', 'gb'),
        )
        # The simulator tells ports apart by the case of their letters, and
        # nova-compute writes small ones.
        names = itertools.chain(*volume_world.wwpns().values())
        first, *others = (name.lower() for name in names)
        self.run_on_array(
            'mkhost', '-name', self._array_host, '-hbawwpn', first
        )
        for port in others:
            self.run_on_array(
                'addhostport', '-hbawwpn', port, self._array_host
            )
        self.run_on_array(
            *('mkvdiskhostmap', '-host', self._array_host),
            *('-scsi', _LUN, self._disk),
        )
        return array_evidence.find_by_name(self._stack, self._disk)

    def _discover(self, vios):
        """Have a server find the disk; return the name that it gets."""
        (port,) = array_evidence.read(self._stack)['ports']
        itls = hdisk.build_itls(
            volume_world.wwpns()[vios.name], [port['wwpn']], _LUN
        )
        _, name, _ = hdisk.lua_recovery(self._rest, vios.uuid, itls)
        return name

    def stop(self):
        """Stop the partition: ``pvmctl lpar power-off``."""
        power.power_off(self._lpar(), None, force_immediate=power.Force.TRUE)

    def unmap(self):
        """Remove the mappings of the disk: ``rmvdev -vdev``."""
        lpar = self._lpar()
        for vios in self._servers():
            scsi_mapper.remove_maps(vios, lpar.uuid)
            vios.update()

    def remove_hdisks(self):
        """Remove the disk from the servers: ``rmdev -dev``."""
        udid = array_evidence.find_by_name(self._stack, self._disk).udid
        for vios in self._servers():
            (name,) = [one.name for one in vios.phys_vols if one.udid == udid]
            hdisk.remove_hdisk(self._rest, _SWITCH, name, vios.uuid)

    def delete(self):
        """Delete the partition: ``pvmctl lpar delete``."""
        self._lpar().delete()

    def _lpar(self):
        (found,) = logical_partition.LPAR.search(self._rest, name=self._name)
        return found

    def _servers(self):
        return virtual_io_server.VIOS.get(self._rest, xag=_GROUPS)

    def run_on_array(self, *words):
        """Run a command of the array.

        :raises RuntimeError: the array refuses it.
        """
        _, error = array_shell.run(self._stack, *words)
        if error:
            raise RuntimeError(f'{words}: {error}')


def _log_on(rest):
    """Return pypowervm's adapter for the REST API of a host."""
    url = urllib.parse.urlsplit(rest.url)
    session = pvm_adapter.Session(
        *(url.hostname, rest.username, rest.password),
        protocol='http',
        port=url.port,
    )
    return pvm_adapter.Adapter(session)

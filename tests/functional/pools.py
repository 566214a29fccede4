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

"""Hosts that share a storage pool."""

import base64
import hashlib
import operator

from nova_powervm.lpar import image
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from powervm_emulator import fixture
from powervm_emulator import worlds
from tests.functional import base

POOL_GB = 100
#: What a guest has written on its root disk.
WRITTEN = b'written by the guest'


def cluster(capacity=POOL_GB, **pool):
    """Return the description of a cluster, the same on each host.

    :param capacity: GB of its pool.
    :param pool: Further keys of the pool.
    """
    return {
        'name': 'cloud',
        'nodes': ['vios1'],
        'pool': {'name': 'pool1', 'capacity': capacity} | pool,
    }


def world(**options):
    """Return the default world with a cluster; see :func:`cluster`."""
    return worlds.default() | {'clusters': [cluster(**options)]}


def numbered_world(number):
    """Return the world of a host that is a machine of its own."""
    made = world()
    made['systems'][0] |= {
        'name': f'emulated-9009-22A-EMU000{number}',
        'serial': f'EMU000{number}',
    }
    return made


class PoolTestCase(base.PowerVMTestCase):
    """Starts hosts whose disks are in one pool."""

    def setUp(self):
        super().setUp()
        self._in_pool = set()

    def configure(self, name, *args, **options):
        """Configure a host; the disks of those in a pool stay there."""
        if options.get('disk_driver') == 'ssp':
            self._in_pool.add(name)
        elif name in self._in_pool:
            options['disk_driver'] = 'ssp'
        super().configure(name, *args, **options)

    def start_site(self, names=('host1', 'host2'), described=None, **options):
        """Start hosts that share a pool.

        :param described: The worlds of the hosts; None for those of
            :func:`numbered_world`.
        :param options: As for :meth:`start_host`, of all hosts.
        """
        numbers = range(1, len(names) + 1)
        site = fixture.Site(described or [*map(numbered_world, numbers)])
        for name, emulator in zip(names, site.emulators, strict=True):
            self.start_host(
                name, emulator=emulator, disk_driver='ssp', **options
            )

    def boot_on_first(self, extra_specs, **options):
        """Boot a server on the first host, whose guest writes to its disk."""
        options = {'disk': 1} | options
        server = self.boot(
            extra_specs,
            request={'host': 'host1', **options.pop('request', {})},
            **options,
        )
        self.control().write_disk(
            self.disks_of(server)['root']['udid'],
            base64.b64encode(WRITTEN).decode(),
        )
        return server

    def units(self, host='host1'):
        """Return the logical units of the pool, by name."""
        (found,) = self.control(host).state()['clusters']
        return {unit['name']: unit for unit in found['pool']['logical_units']}

    def images(self, host='host1'):
        """Return the images in the pool, as their names describe them."""
        known = map(image.parse, self.units(host))
        return [image for image in known if image]

    def disks_of(self, server, host='host1'):
        """Return the logical units of a server by the names of their roles."""
        lpar = partition.lpar_uuid(server['id'])
        found = {}
        for name, unit in self.units(host).items():
            parsed = storage.parse_unit_name(name)
            if parsed and parsed[0] == lpar:
                found[name.partition('-')[2]] = unit
        return found

    def assert_is_clone(self, unit, contents, host='host1'):
        """Verify that a disk is a linked clone of an image in the pool."""
        (image,) = (
            found
            for found in self.units(host).values()
            if found['type'] == 'VirtualIO_Image'
            and found['udid'][2:] == unit['cloned_from'][2:]
        )
        expected = hashlib.sha256(contents).hexdigest()
        self.assertEqual(expected, image['sha256'])
        self.assertEqual(expected, unit['sha256'])

    def bytes_of(self, server, host='host2'):
        """Return the first bytes of a server's root disk."""
        udid = self.disks_of(server, host)['root']['udid']
        return self.control(host).contents(udid)[: len(WRITTEN)]

    def ports_of(self, server, host):
        """Return MAC address, virtual slot and VLAN, in the order of slots."""
        return sorted(
            (
                (adapter['mac'], adapter['slot'], adapter['vlan'])
                for adapter in self.adapters(server, host)
            ),
            key=operator.itemgetter(1),
        )

    def exchange_port(self, server, lost):
        """Detach a port of a running server, and attach another one."""
        self.control().set_partition(
            server['OS-EXT-SRV-ATTR:instance_name'], rmc_state='active'
        )
        self.notifier.reset()
        self._detach_interface(server, lost['id'])
        self.notifier.reset()
        self._attach_interface(server, self.make_port()['id'])
        self.notifier.reset()

    def mapped_to(self, server, host):
        """Return name, client slot and address of the disks of an LPAR."""
        name = self.instance(server).name
        return {
            (mapping['name'], mapping['client_slot'], mapping['lua'])
            for mapping in self.vios(host)['scsi_mappings']
            if mapping['client'] == name
        }

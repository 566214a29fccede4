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

"""Cinder's array, and what Virtual I/O Servers find of it.

Nova has no part in this.
"""

import hashlib

import fixtures
from pypowervm.tasks import hdisk
from pypowervm.wrappers import virtual_io_server

from demo import volume_world
from emulator.tests import base
from tests.functional import real_cinder

DATA = b'what a guest has written'
NOTHING = ('6', None, None)
AVAILABLE, IN_USE = '3', '1'
WWPNS = volume_world.wwpns()
ALL = [wwpn for wwpns in WWPNS.values() for wwpn in wwpns]


class ArrayTest(base.EmulatorTestCase, fixtures.TestWithFixtures):
    world = volume_world.make()

    def setUp(self):
        super().setUp()
        self.cinder = self.useFixture(real_cinder.Array(self.control))
        self.servers = {
            one.name: one.uuid
            for one in virtual_io_server.VIOS.get(self.adapter)
        }

    def look(self, info, server='vios1'):
        """Look for a volume where Cinder says that it is.

        :returns: Status, name and UDID.
        """
        paths = [
            path
            for wwpn in WWPNS[server]
            for path in hdisk.build_itls(
                [wwpn],
                info['initiator_target_map'][wwpn],
                info['target_lun'],
            )
        ]
        uuid = self.servers[server]
        return hdisk.lua_recovery(self.adapter, uuid, paths)

    def disks(self, server='vios1'):
        """Return the disks of arrays that a server has, by UDID."""
        (system,) = self.control.state()['systems']
        (found,) = (
            one['physical_volumes']
            for one in system['partitions']
            if one['name'] == server
        )
        return {one['udid']: one for one in found}

    def test_servers_find_what_cinder_maps_until_it_is_unmapped(self):
        volume = self.cinder.create(data=DATA)
        # Others are mapped to other ports, and to the same ones.
        self.cinder.map(self.cinder.create(), '10000090FA530901', host='other')
        self.cinder.map(self.cinder.create(), *ALL)
        attachment, info = self.cinder.map(volume, *ALL)
        udid = self.cinder.find(volume).udid
        for server in self.servers:
            status, _, found = self.look(info, server)
            self.assertEqual((AVAILABLE, udid), (status, found))
            self.assertEqual(DATA, self.control.contents(udid, server))
        self.cinder.unmap(attachment)
        self.assertEqual('available', self.cinder.status(volume))
        for server in self.servers:
            self.assertEqual(NOTHING, self.look(info, server))
            self.assertTrue(self.disks(server)[udid]['stale'])

    def test_copies_have_bytes_of_their_own(self):
        volume = self.cinder.create(data=DATA)
        snapshot = self.cinder.snapshot(volume)
        self.cinder.find(volume).file.write_bytes(b'later')
        clone = self.cinder.create(source_volid=volume)
        older = self.cinder.create(2, snapshot_id=snapshot)
        found = {
            name: self.cinder.find(one)
            for name, one in (('clone', clone), ('older', older))
        }
        self.assertEqual(
            {'clone': sha256(b'later'), 'older': sha256(DATA)},
            {name: one.sha256 for name, one in found.items()},
        )
        self.assertEqual(2 << 30, found['older'].size)
        self.assertEqual(3, len({found['clone'].uid, found['older'].uid, ''}))

    def test_larger_volume_is_larger_after_discovery(self):
        volume = self.cinder.create(data=DATA)
        _, info = self.cinder.map(volume, *ALL)
        udid = self.look(info)[2]
        self.cinder.act(volume, 'os-extend', new_size=2)
        self.cinder.await_status(volume, 'in-use')
        self.assertEqual(1024, self.disks()[udid]['capacity'])
        self.look(info)
        self.assertEqual(2048, self.disks()[udid]['capacity'])
        self.assertEqual(DATA, self.control.contents(udid))

    def test_next_volume_with_an_uid_has_bytes_of_its_own(self):
        volume = self.cinder.create(data=DATA)
        uid, file = (
            getattr(self.cinder.find(volume), name) for name in ('uid', 'file')
        )
        self.assertRegex(uid, '^[0-9A-F]{32}$')
        self.cinder.delete(volume)
        self.assertFalse(file.exists())
        found = self.cinder.find(self.cinder.create())
        self.assertEqual((uid, sha256(b'')), (found.uid, found.sha256))


def sha256(data):
    return hashlib.sha256(data).hexdigest()

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

"""Hosts use the cache of a shared pool at the same time."""

import copy
import threading
import time
import unittest.mock
import uuid

from emulator.tests import base as emulator_base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.disk import image_cache
from nova_powervm.powervm.disk import ssp
from powervm_emulator import fixture
from powervm_emulator import worlds
from tests.ops import base

_LIMIT = 120
_HOSTS = 2
#: Disks that each host makes at least and at most.
_LEAST, _MOST = 5, 100
#: Uploads by which an image was deleted in between.
_UPLOADS = 3


class Cleaner(threading.Thread):
    """Removes unused images without pause.

    :param disks: The disk driver of a host.
    """

    def __init__(self, disks):
        super().__init__(daemon=True)
        self._disks = disks
        self._stopping = threading.Event()
        self.error = None

    def run(self):
        """Clean until stopped."""
        try:
            while not self._stopping.is_set():
                self._disks.pool.clean_cache(0)
        except Exception as error:
            self.error = error

    def stop(self):
        """Finish the current round, and raise any error."""
        self._stopping.set()
        self.join(_LIMIT)
        if self.error is not None:
            raise self.error


class Maker(threading.Thread):
    """Makes disks from an image and deletes them again, but for the last.

    :param disks: The disk driver of a host.
    :param uploads: Counts the uploads of the image.
    """

    def __init__(self, disks, uploads):
        super().__init__(daemon=True)
        self._disks = disks
        self._uploads = uploads
        self._refused = self._made = 0
        self.errors = []

    def run(self):
        """Make the disks."""
        try:
            while True:
                lpar = str(uuid.uuid4()).upper()
                self._make(lpar)
                if self._is_done():
                    break
                self._disks.pool.delete(self._disks.pool.disks(lpar))
        except Exception as error:
            self.errors.append(error)

    def _await_cleaning(self):
        """Wait until the image is found unused, unless it is in use."""
        for _ in range(20):
            units = self._disks._units.units()
            known = [image.parse(unit.name) for unit in units]
            if image.PoolImage(base.IMAGE.fingerprint) not in known:
                break
            time.sleep(0.01)

    def _make(self, lpar_uuid):
        self._await_cleaning()
        size = len(base.DATA)
        try:
            self._disks.make_root(
                lpar_uuid,
                storage.Disk(storage.ROOT, 1),
                base.IMAGE,
                image.Contents(size, image.RAW, size),
                base.Source(),
            )
        except exception.RestBusy:
            self._refused += 1
            if self._refused > _MOST:
                raise
            self._make(lpar_uuid)
        else:
            self._made += 1

    def _is_done(self):
        return self._made >= _LEAST and (
            self._made >= _MOST or self._uploads() >= _UPLOADS
        )


class CleaningTest(unittest.TestCase):
    """Unused images are deleted while disks are made from them."""

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        self.enterContext(
            unittest.mock.patch.object(
                image_cache, 'POLL_SECONDS', (0.02, 0.05)
            )
        )
        world = worlds.default() | {
            'clusters': [
                {
                    'name': 'cloud',
                    'nodes': ['vios1'],
                    'pool': {'name': 'pool1', 'capacity': 100},
                }
            ]
        }
        described = [copy.deepcopy(world) for _ in range(_HOSTS)]
        for number, one in enumerate(described):
            one['systems'][0]['serial'] = f'EMU000{number}'
        self.site = self.enterContext(fixture.Site(described))
        self.disks = [self.load(found) for found in self.site.emulators]

    def load(self, emulator):
        """Return the disk driver of a host."""
        server = options.Server(
            url=emulator.url,
            username=emulator.username,
            password=emulator.password,
            connect_timeout=0,
        )
        adapter = session.connect(server)
        self.addCleanup(adapter.session.close)
        return ssp.load(
            disk_drivers.Context(
                adapter,
                system.RestSystem(adapter, server),
                options.Settings(server=server, disk_driver='ssp'),
            )
        )

    def units(self):
        """Return the logical units of the pool."""
        (cluster,) = self.site.emulators[0].control.state()['clusters']
        return cluster['pool']['logical_units']

    def uploads(self):
        """Count the uploads to all hosts."""
        return sum(
            emulator.control.journal_counts().get('PUT File.upload', 0)
            for emulator in self.site.emulators
        )

    def test_cleaning_on_both_hosts_spares_images_with_clones(self):
        cleaners = [Cleaner(disks) for disks in self.disks]
        makers = [Maker(disks, self.uploads) for disks in self.disks]
        for thread in (*cleaners, *makers):
            thread.start()
        for maker in makers:
            maker.join(_LIMIT)
            self.assertEqual([], maker.errors)
            self.assertFalse(maker.is_alive())
        for cleaner in cleaners:
            cleaner.stop()

        # The test is void unless images were deleted in between.
        self.assertGreaterEqual(self.uploads(), _UPLOADS)
        self.assert_clones(_HOSTS)
        pool = self.disks[1].pool
        pool.delete(pool.disks())
        # An image that was not deleted because somebody had just cloned it.
        with unittest.mock.patch.object(image, 'DELETING_SECONDS', -1):
            for _ in range(2):
                self.disks[0].pool.clean_cache(0)
        self.assertEqual([], self.units())

    def assert_clones(self, number):
        """Assert how many disks there are, each with the image's bytes."""
        units = {unit['udid'][2:]: unit for unit in self.units()}
        disks = [
            unit for unit in units.values() if unit['type'] == 'VirtualIO_Disk'
        ]
        self.assertEqual(number, len(disks))
        for disk in disks:
            cloned = units[disk['cloned_from'][2:]]
            self.assertEqual(cloned['sha256'], disk['sha256'])

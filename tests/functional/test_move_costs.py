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

"""The requests that resizes and cold migrations make."""

from unittest import mock

import fixtures
from nova.tests.functional.libvirt import base as libvirt_base
from nova.virt.libvirt import driver as libvirt_driver

from tests.functional import base
from tests.functional import moving
from tests.functional import one_time_use
from tests.functional import pools
from tests.functional import requests_seen

#: Polls, what the event of an earlier step may lead to, and what a process
#: reads once.
_NOT_COUNTED = (
    'Event.feed',
    'LogicalPartition.feed',
    'LogicalPartition.job_template',
)
_STOP = ['LogicalPartition.job', 'Job.delete']
_START = [*_STOP, 'LogicalPartition.quick']
# Local disks: a reading of the root disk may have been interrupted.
_LOCAL_START = ['VirtualIOServer.read', *_START]
_HOST = 'ManagedSystem.read'
_LPAR = 'LogicalPartition.read'
_UNITS = 'LogicalUnit.feed'
_ADAPTERS = 'ClientNetworkAdapter.feed'
#: What changes an LPAR that is off.
_CHANGE = [_LPAR, 'LogicalPartition.update']
#: What removes an LPAR that is off, and keeps its disks.
_REMOVE = [
    _LPAR,
    # Whether it has volumes.
    'VirtualIOServer.feed',
    'VirtualIOServer.feed',
    'VirtualIOServer.update',
    'VolumeGroup.feed',
    'LogicalPartition.delete',
]
#: Whether a rescue has not ended.
_RESCUE = 'VolumeGroup.read'
#: Requests of a resize in place: the source's check, the target's, the stop;
#: and what gives the LPAR its new form.
IN_PLACE = [
    *(_LPAR, _RESCUE, _LPAR, *_STOP),
    *(_LPAR, _ADAPTERS, *_CHANGE, *_LOCAL_START),
]
#: The same with a one-time-use device, for which the slots are read.
IN_PLACE_WITH_DEVICE = [
    *(_LPAR, _RESCUE, _LPAR, _HOST, *_STOP),
    *(_LPAR, _HOST, _ADAPTERS, _LPAR, _HOST, 'LogicalPartition.update'),
    *_LOCAL_START,
]
IN_PLACE_REVERT_WITH_DEVICE = [
    *(_LPAR, *_STOP),
    *(_LPAR, _HOST, _ADAPTERS, _LPAR, _HOST, 'LogicalPartition.update'),
    *_LOCAL_START,
]
IN_PLACE_REVERT = [_LPAR, *_STOP, _LPAR, _ADAPTERS, *_CHANGE, *_LOCAL_START]
#: Requests of a cold migration with a device, to each host.
LEAVE = [_LPAR, _UNITS, _ADAPTERS, _UNITS, *_STOP]
ARRIVE = [
    # Asked before the guest is stopped.
    _HOST,
    _LPAR,
    # The build.
    _HOST,
    _LPAR,
    _UNITS,
    _UNITS,
    _HOST,
    'LogicalPartition.create',
    'VirtualIOServer.read',
    'VirtualIOServer.update',
    _UNITS,
    *_START,
]
CLEAN_TARGET = [_UNITS, _LPAR, *_STOP, *_REMOVE]
RETURN = [
    # Asked before the guest is stopped.
    _LPAR,
    _LPAR,
    _ADAPTERS,
    _UNITS,
    'VirtualIOServer.feed',
    *_START,
]


class MoveCostTestCase(moving.MovingTestCase):
    def setUp(self):
        super().setUp()
        self.recorder = self.useFixture(
            requests_seen.Recorder(self.placement.fixture)
        )

    def measure(self, work, *arguments, **options):
        """Do something; return its requests to each host and to Placement.

        Leave out what does not belong to it.
        """
        self.recorder.take()
        for host in self.hosts:
            self.control(host).clear_journal()
        self.moved = work(*arguments, **options)
        asked = {
            host: [
                record['label']
                for record in self.control(host).journal()
                if record['label'] not in _NOT_COUNTED
            ]
            for host in self.hosts
        }
        return asked, len(self.recorder.take())

    def assert_whole(self, host, memory_mb=512):
        """Verify that a server without devices runs on one host only."""
        lpars = {name: self.lpar(self.moved, name) for name in self.hosts}
        found = {name: lpar for name, lpar in lpars.items() if lpar}
        self.assertEqual({host}, found.keys())
        lpar = found[host]
        self.assertEqual(
            ('running', memory_mb, {}),
            (lpar.state, lpar.memory_mb, lpar.slots),
        )
        self.assertEqual(
            [host], [name for name in self.hosts if self.mappings(name)]
        )


class ResizeCostTest(MoveCostTestCase):
    """One host with four devices for repeated use."""

    def test_requests_of_resize_in_place(self):
        self.start_host()
        self._run_periodics()
        server = self.boot({}, disk=1)

        asked, sent = self.measure(self.resize, server, memory_mb=1024)

        self.assertEqual({'host1': IN_PLACE}, asked)
        self.assertEqual(18, sent)
        asked, sent = self.measure(self.confirm, self.moved)
        self.assertEqual({'host1': []}, asked)
        self.assertEqual(9, sent)
        self.measure(self.resize, self.moved, memory_mb=2048)
        asked, sent = self.measure(self.revert, self.moved)
        self.assertEqual({'host1': IN_PLACE_REVERT}, asked)
        self.assertEqual(13, sent)
        self.assert_whole('host1', memory_mb=1024)


class OneTimeUseResizeCostTest(
    one_time_use.OneTimeUseTestCase, MoveCostTestCase
):
    """One host with four one-time-use devices."""

    def test_requests_of_resize_in_place_with_device(self):
        self.start_host()
        self._run_periodics()
        server = self.boot(base.gpu_groups(1), disk=1)

        asked, sent = self.measure(self.resize, server, base.gpu_groups(1))

        self.assertEqual({'host1': IN_PLACE_WITH_DEVICE}, asked)
        self.assertEqual(29, sent)
        asked, sent = self.measure(self.revert, self.moved)
        self.assertEqual({'host1': IN_PLACE_REVERT_WITH_DEVICE}, asked)
        self.assertEqual(18, sent)
        self.measure(self.resize, self.moved, base.gpu_groups(1))
        asked, sent = self.measure(self.confirm, self.moved)
        self.assertEqual({'host1': []}, asked)
        self.assertEqual(13, sent)


class MigrationCostTest(
    one_time_use.OneTimeUseTestCase, MoveCostTestCase, pools.PoolTestCase
):
    """Two hosts with a pool and four one-time-use devices each."""

    def test_requests_of_migration_with_device(self):
        self.flags(allow_resize_to_same_host=False)
        self.start_site()
        self._run_periodics()
        server = self.boot(
            base.gpu_groups(1), disk=1, request={'host': 'host1'}
        )

        asked, sent = self.measure(self.migrate, server)

        self.assertEqual({'host1': LEAVE, 'host2': ARRIVE}, asked)
        self.assertEqual(26, sent)
        asked, sent = self.measure(self.confirm, self.moved)
        self.assertEqual({'host1': _REMOVE, 'host2': []}, asked)
        self.assertEqual(12, sent)
        self.measure(self.migrate, self.moved)
        asked, sent = self.measure(self.revert, self.moved)
        self.assertEqual({'host1': CLEAN_TARGET, 'host2': RETURN}, asked)
        self.assertEqual(17, sent)


class PlainMigrationCostTest(MoveCostTestCase, pools.PoolTestCase):
    """Two hosts with a pool and four devices for repeated use each."""

    def test_requests_of_migration_without_device(self):
        self.flags(allow_resize_to_same_host=False)
        self.start_site()
        self._run_periodics()
        server = self.boot({}, disk=1, request={'host': 'host1'})

        asked, sent = self.measure(self.migrate, server)

        self.assertEqual(11, len(asked['host2']))
        self.assertEqual(18, sent)
        self.assertEqual(8, self.measure(self.confirm, self.moved)[1])
        self.assert_whole('host2')
        self.measure(self.migrate, self.moved)
        self.assertEqual(13, self.measure(self.revert, self.moved)[1])
        self.assert_whole('host2')


class LibvirtMoveCostTest(libvirt_base.ServersTestBase):
    """Nova's libvirt driver, without devices, beside this one."""

    ADMIN_API = True
    api_major_version = 'v2.1'
    microversion = 'latest'

    def setUp(self):
        base.prepare_nova(self)
        super().setUp()
        self.recorder = self.useFixture(
            requests_seen.Recorder(self.placement.fixture)
        )
        # There are no files to move.
        for name in ('migrate_disk_and_power_off', '_cleanup_resize'):
            self.useFixture(
                fixtures.MockPatchObject(
                    libvirt_driver.LibvirtDriver,
                    name,
                    mock.Mock(return_value='{}'),
                )
            )

    def measure(self, work, *arguments):
        """Do something; return the number of its requests to Placement."""
        self.recorder.take()
        self.moved = work(*arguments)
        return len(self.recorder.take())

    def measure_moves(self, begin):
        """Return the requests of a move, its confirm and its revert."""
        move = self.measure(begin)
        confirm = self.measure(self._confirm_resize, self.moved)
        begin()
        return (
            move,
            confirm,
            self.measure(self._revert_resize, self.moved),
        )

    def start(self, host):
        self.start_compute(hostname=host)
        self._run_periodics()

    def resize(self):
        self.moved = self._resize_server(
            self.moved, self._create_flavor(vcpu=1, disk=20)
        )
        return self.moved

    def migrate(self):
        self.moved = self._migrate_server(self.moved)
        return self.moved

    def test_requests_of_resize_in_place_and_of_migration(self):
        self.start('host1')
        self.moved = self._create_server(host='host1', networks='none')
        self.flags(allow_resize_to_same_host=True)
        self.assertEqual((12, 5, 7), self.measure_moves(self.resize))

        self.start('host2')
        self.flags(allow_resize_to_same_host=False)
        self.assertEqual((12, 4, 6), self.measure_moves(self.migrate))

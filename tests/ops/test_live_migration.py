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

"""What a host says before a live migration; functional tests migrate."""

import dataclasses
from unittest import mock

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import job as pvm_job

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import partition
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.powervm import live_migration as rest
from tests import proofs
from tests.ops import base
from tests.ops import volumes

LPAR = partition.lpar_uuid(base.INSTANCE)


class LiveMigrationTest(volumes.VolumesTestCase):
    """A server with disks in a pool, a config drive and a volume."""

    disk_driver = 'ssp'

    def start_service(self, **settings):
        super().start_service(**settings)
        self.live = rest.RestLiveMigrations(self.adapter, self.managed)

    def guest(self):
        return self.live.guest(LPAR, self.disks.servers)

    def test_guest_is_described_with_the_numbers_of_its_servers(self):
        self.spawn(config_drive=True, volumes=(volumes.volume(),))
        guest = self.guest()
        self.assertEqual('', guest.obstacle)
        self.assertEqual(live_migration.SETTLED, guest.state)
        self.assertEqual((), guest.locked)
        identified = guest.identified({volumes.IDS['v1']: ''})
        self.assertEqual((), identified.strangers)
        self.assertEqual(
            {volumes.IDS['v1']: volumes.UDIDS['v1']}, identified.udids
        )
        by_kind = {
            (device.number, device.is_volume) for device in guest.devices
        }
        self.assertEqual(
            {(0, False), (1, False), (0, True), (1, True)}, by_kind
        )
        self.assertEqual(5, len(guest.devices))
        # By both servers; the medium does not move.
        address, root = '0x8100000000000000', self.stored()['r']['name']
        self.assertEqual(
            {(48, address, root), (32, address, root)},
            {dataclasses.astuple(p) for p in guest.paths if p.disk == root},
        )
        self.assertEqual(
            sorted([volumes.UDIDS['v1'], root] * 2),
            sorted(path.disk for path in guest.paths if path.disk),
        )
        self.assertEqual(guest.paths, self.live.paths(LPAR))

    def adapters_of_storage(self):
        """Return slots and address of each adapter -> what is on it."""
        return {
            (vios['name'], m['client_slot'], m['server_slot']): (
                m['lua'],
                m['name'],
            )
            for vios in self._system()['partitions']
            for m in vios.get('scsi_mappings', ())
            if m['client'] == base.NAME
        }

    @proofs.proves('operation.live-migrate')
    def test_adapter_of_config_drive_stays_without_its_medium(self):
        self.spawn(config_drive=True)
        before = self.adapters_of_storage()
        devices = self.guest().devices
        # Without RMC, a guest neither releases an adapter nor gets one.
        self.control.set_partition(base.NAME, rmc_state='inactive')
        for _ in range(2):
            self.disks.eject(LPAR)
            self.assertEqual(devices, self.guest().devices)
            left = self.adapters_of_storage()
            self.assertEqual(before.keys(), left.keys())
            ((empty, drive),) = left.items() - before.items()
            self.assertEqual(('', ''), drive)
            self.assertIn('i', self.stored())
        self.disks.insert(LPAR)
        self.assertEqual(before, self.adapters_of_storage())
        # A volume does not get it, and a deletion leaves none.
        self.disks.eject(LPAR)
        self.control.set_partition(base.NAME, rmc_state='active')
        self.attach(volumes.volume())
        self.assertEqual(drive, self.adapters_of_storage()[empty])
        self.detach(volumes.volume())
        self.disks.insert(LPAR)
        self.assertEqual(before, self.adapters_of_storage())
        self.disks.eject(LPAR)
        self.disks.remove(LPAR, delete=True)
        self.assertEqual({}, self.adapters_of_storage())

    def test_empty_adapter_of_deleted_lpar_goes_with_its_disks(self):
        self.spawn(config_drive=True)
        self.disks.eject(LPAR)
        self.set_state('not activated')
        self.partitions.delete(LPAR)
        self.assertEqual(3, len(self.orphans()))
        self.disks.unmap_deleted()
        self.assertEqual([], self.orphans())

    def orphans(self):
        """Return the mappings of deleted LPARs."""
        return [
            mapping
            for vios in self._system()['partitions']
            for mapping in vios.get('scsi_mappings', ())
            if mapping['client'] is None
        ]

    def test_guest_without_rmc_has_an_obstacle(self):
        self.spawn()
        self.control.set_partition(base.NAME, rmc_state='inactive')
        self.assertIn('RMC', self.guest().obstacle)
        with self.assertRaises(exception.PartitionNotFound):
            self.live.guest(LPAR[:-1] + 'F', ())

    def test_disk_with_a_reserve_is_named(self):
        self.spawn(volumes=(volumes.volume(),))
        udids = [volumes.UDIDS['v1'], volumes.UDIDS['v2']]
        self.assertEqual([], self.live.unsuitable(udids))
        self.set_san('v1', 'v2', reserve_policy='SinglePath')
        places = lpar_volumes.fibre_channel(volumes.volume('v2'))
        for server in self.live._mappings.read():
            paths = [*places.paths(server.wwpns)]
            self.live._mappings.discover(server, paths)
        found = self.live.unsuitable(udids)
        servers = sorted(name.rpartition(' ')[2] for name in found)
        self.assertEqual(['vios1', 'vios2'], servers)

    def test_servers_have_to_answer(self):
        self.assertEqual(
            (['vios1', 'vios2'], ['vios1', 'vios2']),
            self.live.servers(self.disks.servers),
        )
        self.stop_server()
        with self.assertRaisesRegex(exception.MoveRefused, 'vios2.*answer'):
            self.live.servers(self.disks.servers)

    def test_host_that_is_full_or_not_capable_takes_part_in_none(self):
        self.assertEqual('', self.live.full())
        for changes, words in (
            ({'migrations': 0}, '0 of 0 migrations'),
            ({'capabilities': {'live_migration': False}}, 'not capable'),
        ):
            with self.subTest(words):
                world = self.world()
                world['systems'][0] |= changes
                self.control.load_world(world)
                self.start_service()
                self.assertIn(words, self.live.full())

    def test_key_is_authorized_once(self):
        for _ in range(2):
            self.live.authorize('ssh-rsa AAAA other')
        self.assertIn('ssh-', self.live.public_key())
        counts = self.control.journal_counts()
        self.assertEqual(1, counts['POST ManagementConsole.update'])

    def test_job_that_has_failed_differs_from_one_that_may_begin(self):
        self.spawn()
        target = live_migration.Target('other', '127.0.0.1')
        request = pvm_adapter.Session.request
        lost = pvm.ConnectionError('the answer is lost')
        busy = pvm.HttpError(
            pvm_adapter.Response('PUT', '/rest/api', 503, 'busy', {})
        )

        def failing(method, error):
            def request_or_fail(session, called, *args, **options):
                answer = request(session, called, *args, **options)
                if called == method:
                    raise error
                return answer

            return mock.patch.object(
                pvm_adapter.Session, 'request', request_or_fail
            )

        for method, error, expected in (
            # The request for the job, of which pypowervm says that it failed.
            ('PUT', lost, exception.RestUnreachable),
            ('PUT', busy, exception.RestBusy),
        ):
            with (
                self.subTest(method, error=error),
                failing(method, error),
                self.assertRaises(expected),
            ):
                self.live.migrate(LPAR, target)
        timed_out = pvm.JobRequestTimedOut(operation_name='it', seconds=1)
        with (
            mock.patch.object(pvm_job.Job, 'run_job', side_effect=timed_out),
            self.assertRaises(exception.RestUnreachable),
        ):
            self.live.migrate(LPAR, target)
        # The host says that it has failed.
        with self.assertRaises(exception.RestError) as raised:
            self.live.migrate(LPAR, target)
        self.assertNotIsInstance(raised.exception, exception.RestBusy)

    def test_abort_and_recovery_without_migration_are_refused(self):
        self.spawn()
        for job in (self.live.abort, self.live.recover):
            with self.assertRaises(exception.RestError):
                job(LPAR)

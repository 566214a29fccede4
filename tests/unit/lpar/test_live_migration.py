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

import dataclasses
import unittest

from nova_powervm.lpar import live_migration
from tests import proofs

MAC = 'fa:16:3e:00:00:01'
THERE = live_migration.Destination(
    system='host2',
    address='192.0.2.2',
    memory_region_mb=256,
    compatibility_modes=('POWER8', 'POWER9'),
    pool='pool',
    disk_servers=('vios1', 'vios2'),
    volume_servers=('vios3', 'vios1'),
    switches={MAC: 'ETHERNET0'},
    has_management=True,
    key='ssh-rsa AAAA',
)
GUEST = live_migration.Guest(
    compatibility_mode='POWER9',
    memory_region_mb=256,
    pool='pool',
    devices=(
        live_migration.Device(48, 0, is_volume=False),
        live_migration.Device(32, 1, is_volume=False),
        live_migration.Device(64, 0, is_volume=True),
        live_migration.Device(65, 1, is_volume=True),
    ),
    mapped=(
        live_migration.MappedDisk('v1', 'u1', 'hdisk1'),
        live_migration.MappedDisk('', 'u1', 'hdisk2'),
    ),
    switches={MAC: 'ETHERNET0', '06:00:00:00:00:01': 'MGMTSWITCH'},
)


def reasons(there=(), **changes):
    """Return why a guest cannot move."""
    guest = dataclasses.replace(GUEST, **changes)
    destination = dataclasses.replace(THERE, **dict(there))
    return [*live_migration.refusals(guest, destination)]


class RefusalTest(unittest.TestCase):
    def test_guest_that_fits_moves(self):
        self.assertEqual([], reasons())
        # It follows the newest mode of its host.
        self.assertEqual([], reasons(compatibility_mode='default'))

    @proofs.proves('operation.live-migrate')
    def test_each_obstacle_has_words(self):
        for words, there, changes in (
            ('slot(s) 21010020, whose', {}, {'slots': (0x21010020,)}),
            ('migrated already', {}, {'state': 'Migration_Failed'}),
            ('no RMC. Without RMC', {}, {'obstacle': 'no RMC.'}),
            ('Update_Failed', {}, {'storage_status': 'Update_Failed'}),
            ('(256 and 128 MB)', {'memory_region_mb': 128}, {}),
            ('mode POWER10, and', {}, {'compatibility_mode': 'POWER10'}),
            ('it has a disk, which', {}, {'strangers': ('a disk',)}),
            ('the same shared storage pool', {'pool': 'other'}, {}),
            ('reserve_policy', {}, {'locked': ('hdisk1 of vios1',)}),
            ('2 Virtual I/O Server(s) connect its disks, and the destination '
             'has 1', {'disk_servers': ('vios1',)}, {}),
            ('connect its volumes', {'volume_servers': ()}, {}),
            ('MGMTSWITCH, which', {'has_management': False}, {}),
            ('would be on OTHER there', {'switches': {MAC: 'OTHER'}}, {}),
        ):  # fmt: skip
            with self.subTest(words):
                (reason,) = reasons(there, **changes)
                self.assertIn(words, reason)

    def test_guest_without_disks_needs_no_pool(self):
        self.assertEqual([], reasons({'pool': ''}, pool=''))

    def test_physical_volumes_are_volumes_of_the_server_or_refused(self):
        known = GUEST.identified({'v1': 'u1'})
        self.assertEqual({'v1': 'u1'}, known.udids)
        self.assertEqual((), known.strangers)
        # Only the tag of one path tells, and neither does the UDID.
        unknown = GUEST.identified({'v1': ''})
        self.assertEqual(('disk hdisk2',), unknown.strangers)
        other = GUEST.identified({})
        self.assertEqual(('disk hdisk1', 'disk hdisk2'), other.strangers)
        self.assertEqual({}, other.udids)


class DescriptionTest(unittest.TestCase):
    def test_other_host_reads_what_was_written(self):
        read = live_migration.Destination.from_text(THERE.to_text())
        self.assertEqual(THERE, read)

    def test_anything_else_is_no_description(self):
        for text in ('', '{}', '[]', '{"system": "host2"}', 'null'):
            with self.subTest(text), self.assertRaises(ValueError):
                live_migration.Destination.from_text(text)

    def test_each_adapter_gets_the_server_of_its_number(self):
        self.assertEqual(
            ['32/vios2/', '48/vios1/', '64/vios3/', '65/vios1/'],
            live_migration.scsi_mappings(GUEST.devices, THERE),
        )

    def test_each_address_gets_its_vlan(self):
        self.assertEqual(
            ['FA163E000001/100', 'FA163E000002/7'],
            live_migration.vlan_mappings({MAC[:-1] + '2': 7, MAC: 100}),
        )


class PathsTest(unittest.TestCase):
    def test_disk_that_is_not_where_it_was_has_both_places(self):
        path = live_migration.Path
        first, second = path(48, '0x81', 'root'), path(32, '0x81', 'root')
        volume, medium = path(64, '0x81', 'u1'), path(60, '0x81')
        before = [first, second, volume, medium]

        def changed(*after):
            return [*live_migration.changed_paths(before, after)]

        self.assertEqual([], changed(path(60), volume, second, first))
        both = 'virtual slot 32 (0x81), virtual slot 48 (0x81)'
        for other, now in (
            ([], 'virtual slot 48 (0x81)'),
            (
                [path(33, '0x81', 'root')],
                'virtual slot 33 (0x81), virtual slot 48 (0x81)',
            ),
            (
                [path(32, '0x82', 'root')],
                'virtual slot 32 (0x82), virtual slot 48 (0x81)',
            ),
        ):
            with self.subTest(now):
                self.assertEqual(
                    [('root', both, now)], changed(first, volume, *other)
                )
        self.assertEqual(
            [('u1', 'virtual slot 64 (0x81)', 'nowhere')],
            changed(first, second),
        )


class EndingTest(unittest.TestCase):
    @proofs.proves('operation.live-migrate')
    def test_only_what_both_hosts_show_decides(self):
        settled = live_migration.Sight('running')
        moving = live_migration.Sight('migrating running', 'Migration_Failed')
        odd = live_migration.Sight('migrating running')
        ending = live_migration.Ending
        for here, there, expected in (
            (None, settled, ending.ARRIVED),
            (settled, None, ending.STAYED),
            (None, None, ending.UNKNOWN),
            (settled, settled, ending.UNKNOWN),
            (moving, moving, ending.UNKNOWN),
            (None, moving, ending.UNKNOWN),
            (None, odd, ending.UNKNOWN),
            (moving, None, ending.UNKNOWN),
            (settled, moving, ending.UNKNOWN),
        ):
            with self.subTest(here=here, there=there):
                self.assertIs(expected, live_migration.judge(here, there))
        self.assertTrue(moving.is_to_recover)
        self.assertFalse(odd.is_to_recover)

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

"""Growing root disks and fitting swap disks, in a volume group and a pool."""

import copy
import hashlib
from unittest import mock

from pypowervm import const
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import storage
from powervm_emulator import fixture
from tests.unit.powervm import hosts
from tests.unit.powervm.disk import group_host
from tests.unit.powervm.disk import pool_host

LPAR = group_host.LPAR
SWAP = storage.Disk(storage.SWAP, 0.5)
LARGER_SWAP = storage.Disk(storage.SWAP, 1)


class GroupTestCase(group_host.LocalDiskTestCase):
    """Has the disks in a volume group of one server."""

    keeps_unmapped = False
    place = 'volume group image_pool'
    name_of = staticmethod(storage.disk_name)
    update = 'VolumeGroup.update'
    #: How often a new swap disk takes each of these requests.
    requests = {'VirtualIOServer.update': 2, update: 2}  # noqa: RUF012

    def make_root(self, lpar_uuid=LPAR, disk=pool_host.ROOT):
        return self.disks.make_root(
            lpar_uuid,
            disk,
            group_host.IMAGE,
            group_host.CONTENTS,
            lambda: group_host.opened(group_host.DATA),
        )

    def stored(self):
        """Return the disks by name."""
        return {disk['name']: disk for disk in self.shown()}

    def sha256(self, name):
        contents = self.control.contents(self.stored()[name]['udid'])
        return hashlib.sha256(contents).hexdigest()

    def mappings(self):
        return {'vios1': self.vios()['scsi_mappings']}


class PoolTestCase(pool_host.DiskTestCase):
    """Has the disks in a pool, which two servers map."""

    keeps_unmapped = True
    place = 'the shared storage pool'
    name_of = staticmethod(storage.unit_name)
    update = 'LogicalUnit.update'
    requests = {  # noqa: RUF012
        'VirtualIOServer.update': 4,
        'LogicalUnit.delete': 1,
        'LogicalUnit.create': 1,
    }

    def stored(self):
        return self.units()

    def sha256(self, name):
        return self.units()[name]['sha256']


class GrowthMixin:
    def root(self, lpar_uuid=LPAR, role=storage.ROOT):
        """Return what the host tells of a root disk."""
        return self.stored()[self.name_of(lpar_uuid, role)]

    def test_larger_root_disk_keeps_its_bytes(self):
        self.make_root()
        before = self.root()
        self.assertTrue(self.disks.grow_root(LPAR, 5))
        self.assertEqual(before | {'capacity': 5}, self.root())
        self.assertEqual(
            pool_host.SHA256, self.sha256(self.name_of(LPAR, storage.ROOT))
        )

    def test_disk_of_running_lpar_grows_where_it_is_mapped(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make_root(lpar)])
        before = self.mappings()
        self.assertTrue(self.disks.grow_root(lpar, 5))
        self.assertEqual(before, self.mappings())
        self.assertEqual(5, self.root(lpar)['capacity'])

    def test_root_disk_that_placement_does_not_count_grows(self):
        role = storage.UNCOUNTED_ROOT
        self.make_root(disk=storage.Disk(role, 1))
        self.assertTrue(self.disks.grow_root(LPAR, 2))
        self.assertEqual(2, self.root(role=role)['capacity'])

    def test_disk_that_is_large_enough_is_left_alone(self):
        self.make_root()
        self.control.clear_journal()
        self.disks.check_growth(LPAR, 2)
        self.assertFalse(self.disks.grow_root(LPAR, 1))
        self.assertFalse(self.disks.grow_root(LPAR, 2))
        self.assertEqual(
            {'GET'}, {record['method'] for record in self.control.journal()}
        )

    def test_missing_root_disk_is_named(self):
        self.disks.make_blank(LPAR, SWAP)
        for call in (self.disks.check_growth, self.disks.grow_root):
            with self.assertRaisesRegex(
                exception.DiskMissing,
                f'root disk of LPAR {LPAR} is not in {self.place}',
            ):
                call(LPAR, 2)

    def test_lost_answer_and_failed_try_are_survived(self):
        self.make_root()
        for number, fault in enumerate(
            (
                {'drop': True, 'phase': 'after'},
                {'drop': True, 'phase': 'before'},
                {'status': 503},
                {'status': 412},
            ),
            3,
        ):
            with self.subTest(**fault):
                self.control.add_fault(match=self.update, **fault)
                self.assertTrue(self.disks.grow_root(LPAR, number))
                self.assertEqual(number, self.root()['capacity'])


class GroupGrowthTest(GrowthMixin, GroupTestCase):
    def test_check_refuses_growth_without_space_and_changes_nothing(self):
        self.start(capacity=5, free=5)
        self.make_root()
        before = self.control.state()
        self.disks.check_growth(LPAR, 5)
        with self.assertRaises(exception.InsufficientSpace) as caught:
            self.disks.check_growth(LPAR, 6)
        self.assertIn(
            'volume group image_pool has 3 GB free, but 4 GB are needed for '
            f'enlarging {group_host.NAME} from 2 GB to 6 GB',
            str(caught.exception),
        )
        with self.assertRaisesRegex(exception.RestError, '3 GB free'):
            self.disks.grow_root(LPAR, 6)
        self.assertEqual(before, self.control.state())

    def test_growth_in_large_units_needs_more_room(self):
        self.start(capacity=12, free=11, unit=4)
        self.make_root(disk=storage.Disk(storage.ROOT, 1))
        self.disks.check_growth(LPAR, 8)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_growth(LPAR, 9)

    def test_disk_that_host_does_not_enlarge_is_an_error(self):
        self.make_root()
        self.disks.groups.change = lambda edit: self.disks.groups.read()
        with self.assertRaisesRegex(
            exception.RestError, r'2\.0 GB of this name instead'
        ):
            self.disks.grow_root(LPAR, 3)


class PoolGrowthTest(GrowthMixin, PoolTestCase):
    def test_growth_costs_three_requests(self):
        self.make_root()
        self.labels()
        self.disks.grow_root(LPAR, 3)
        self.assertEqual(
            ['LogicalUnit.feed', 'LogicalUnit.read', 'LogicalUnit.update'],
            self.labels(),
        )

    def test_check_refuses_growth_without_space_and_changes_nothing(self):
        self.make_root()
        before = self.control.state()
        self.disks.check_growth(LPAR, 22)
        with self.assertRaises(exception.InsufficientSpace) as caught:
            self.disks.check_growth(LPAR, 23)
        self.assertIn(
            'has 20 GB free, but 21 GB are needed for enlarging the root disk '
            'of 2 GB to 23 GB',
            str(caught.exception),
        )
        self.assertEqual(before, self.control.state())

    def test_overcommitment_divides_growth_that_has_to_be_free(self):
        self.make_root()
        self.load(disk_overcommitment=2.0).check_growth(LPAR, 42)
        with self.assertRaises(exception.InsufficientSpace):
            self.load(disk_overcommitment=2.0).check_growth(LPAR, 43)

    def test_root_disk_is_not_guessed(self):
        self.make_root()
        self.make_foreign(self.name_of(LPAR, storage.ROOT))
        with self.assertRaisesRegex(
            exception.DiskAmbiguous, f'disk of LPAR {LPAR}'
        ):
            self.disks.grow_root(LPAR, 5)

    def test_disk_that_pool_does_not_enlarge_is_an_error(self):
        self.make_root()
        unchanged = mock.patch.object(
            pvm_storage.LUEnt,
            'update',
            lambda unit, **_: unit.refresh(use_etag=False),
        )
        with (
            unchanged,
            self.assertRaisesRegex(
                exception.RestError, 'it has 2 GB instead of 3'
            ),
        ):
            self.disks.grow_root(LPAR, 3)


class SwapMixin:
    def setUp(self):
        super().setUp()
        self.prepare()

    def prepare(self):
        """Give an LPAR its disks and a medium."""
        self.lpar = self.lpar_named('archive')
        self.name = self.name_of(self.lpar, storage.SWAP)
        self.disks.attach(
            self.lpar,
            [
                self.make_root(self.lpar),
                self.disks.make_blank(self.lpar, SWAP),
                self.disks.make_medium(self.lpar, b'an iso'),
            ],
        )
        self.slots_before, self.others_before = self.slots(), self.others()
        self.root_before = self.root()

    def slots(self):
        """Return the virtual slots by the names of what they have."""
        return {
            server: {m['name']: m['client_slot'] for m in mappings}
            for server, mappings in self.mappings().items()
        }

    def others(self):
        """Return the mappings of everything but the swap disk."""
        return [
            mapping
            for mappings in self.mappings().values()
            for mapping in mappings
            if mapping['name'] != self.name
        ]

    def root(self):
        return self.stored()[self.name_of(self.lpar, storage.ROOT)]

    def assert_fitted(self, swap):
        """Verify that the swap disk alone has changed, if anything has."""
        names = [name for name in self.stored() if name.startswith('nv')]
        self.assertEqual(1, names.count(self.name))
        self.assertEqual(swap.size_gb, self.stored()[self.name]['capacity'])
        self.assertEqual(self.root_before, self.root())
        self.assertEqual(self.slots_before, self.slots())
        self.assertEqual(self.others_before, self.others())

    def test_swap_disk_fits_if_size_and_mapping_do(self):
        for swap, fits in ((SWAP, True), (LARGER_SWAP, False), (None, False)):
            with self.subTest(swap):
                self.assertIs(fits, self.disks.swap_fits(self.lpar, swap))
        self.disks.mappings.detach(self.lpar, self.name)
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))
        self.disks.fit_swap(self.lpar, None)
        self.assertTrue(self.disks.swap_fits(self.lpar, None))
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))

    def test_swap_disk_of_right_size_stays_as_it_is(self):
        self.control.clear_journal()
        before = self.control.state()
        self.disks.fit_swap(self.lpar, SWAP)
        self.assertEqual(before, self.control.state())
        methods = [record['method'] for record in self.control.journal()]
        self.assertEqual({'GET'}, set(methods))
        self.assertLessEqual(len(methods), 3)

    def test_swap_disk_of_other_size_is_made_anew_in_its_place(self):
        for swap in (LARGER_SWAP, SWAP):
            old = self.stored()[self.name]
            self.disks.fit_swap(self.lpar, swap)
            self.assertNotEqual(old['udid'], self.stored()[self.name]['udid'])
            self.assert_fitted(swap)

    def test_swap_disk_that_is_not_wanted_goes_and_can_come_back(self):
        for _ in range(2):
            self.disks.fit_swap(self.lpar, None)
            self.assertNotIn(self.name, self.stored())
            self.assertEqual(self.others_before, self.others())
            self.assertNotIn(self.name, self.slots()['vios1'])
        self.disks.fit_swap(self.lpar, SWAP)
        self.assert_fitted(SWAP)

    def test_missing_mapping_is_made(self):
        self.disks.mappings.detach(self.lpar, self.name)
        udid = self.stored()[self.name]['udid']
        # The second time, what the driver knows of the host must be whole.
        for _ in range(2):
            self.disks.fit_swap(self.lpar, SWAP)
            self.assert_fitted(SWAP)
            is_same = udid == self.stored()[self.name]['udid']
            self.assertEqual(self.keeps_unmapped, is_same)

    def test_swap_disk_is_fitted_after_interruption_at_any_request(self):
        swaps = [LARGER_SWAP, SWAP]
        for label, count in self.requests.items():
            for nth in range(1, count + 1):
                for phase in ('before', 'after'):
                    with self.subTest(label=label, nth=nth, phase=phase):
                        self.control.add_fault(
                            match=label, nth=nth, status=500, phase=phase
                        )
                        with self.assertRaises(exception.RestError):
                            self.disks.fit_swap(self.lpar, swaps[0])
                        with self.assertNoLogs('nova_powervm', 'WARNING'):
                            self.disks.fit_swap(self.lpar, swaps[0])
                        self.assert_fitted(swaps[0])
                        swaps.reverse()

    def test_lost_answers_are_survived(self):
        for label in self.requests:
            self.control.add_fault(match=label, drop=True, phase='after')
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assert_fitted(LARGER_SWAP)


class GroupSwapTest(SwapMixin, GroupTestCase):
    def test_first_swap_disk_gets_slot_of_its_role(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make_root(lpar)])
        self.disks.fit_swap(lpar, SWAP)
        name = storage.disk_name(lpar, storage.SWAP)
        self.assertEqual(59, self.slots()['vios1'][name])

    def test_disk_whose_slot_is_taken_gets_last_free_one(self):
        disk = storage.Disk(storage.UNCOUNTED_ROOT, 1)
        self.disks.attach(self.lpar, [self.disks.make_blank(self.lpar, disk)])
        name = storage.disk_name(self.lpar, storage.UNCOUNTED_ROOT)
        self.assertEqual(
            self.slots_before['vios1'] | {name: 63}, self.slots()['vios1']
        )

    def test_swap_disk_in_large_units_is_not_replaced_again(self):
        self.start(unit=4)
        self.disks.fit_swap(self.lpar_named('archive'), SWAP)
        (before,) = self.shown()
        self.assertEqual(4, before['capacity'])
        self.disks.fit_swap(self.lpar_named('archive'), LARGER_SWAP)
        self.assertEqual([before], self.shown())


class PoolSwapTest(SwapMixin, PoolTestCase):
    def test_surplus_swap_disk_is_removed(self):
        self.make_foreign(self.name, 3)
        self.disks.fit_swap(self.lpar, SWAP)
        self.assert_fitted(SWAP)
        self.assertEqual(3, len(self.units()))

    def test_swap_disk_without_space_is_refused(self):
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.fit_swap(self.lpar, storage.Disk(storage.SWAP, 30))

    def test_blank_disk_that_is_left_over_is_unmapped_alone(self):
        self.disks.make_blank(self.lpar, SWAP)
        self.assertEqual(self.others_before, self.others())

    def test_server_that_does_not_run_is_left_out(self):
        self.control.set_partition('vios2', state='not activated')
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assertEqual(1, self.units()[self.name]['capacity'])
        self.assertIn(self.name, self.slots()['vios1'])
        self.control.set_partition('vios2', state='running')
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assertEqual(43, self.slots()['vios2'][self.name])


class OtherHostTest(pool_host.DiskTestCase):
    """Two hosts of a site; the LPAR runs on the second one."""

    def start(self):
        worlds = [self.world(), copy.deepcopy(self.world())]
        (system,) = worlds[1]['systems']
        system['name'] = 'other'
        system['serial'] = 'EMU0099'
        site = fixture.Site(worlds)
        self.addCleanup(site.stop)
        site.start()
        emulator, self.other = site.emulators
        return emulator

    def setUp(self):
        super().setUp()
        self.others = self.load(hosts.connect(self, self.other))
        self.partitions = {
            partition['name']: partition['uuid']
            for partition in self.other.control.state()['systems'][0][
                'partitions'
            ]
        }
        self.lpar = self.partitions['database'].upper()

    def test_root_disk_that_other_host_uses_grows(self):
        self.others.attach(self.lpar, [self.make_root(self.lpar)])
        self.assertTrue(self.disks.pool.disks(self.lpar)[0].in_use)
        self.assertTrue(self.disks.grow_root(self.lpar, 5))
        (unit,) = self.others.pool.disks(self.lpar)
        self.assertEqual(5, unit.disk.size_gb)
        for vios in ('vios1', 'vios2'):
            found = virtual_io_server.VIOS.get(
                self.others.mappings._adapter,
                uuid=self.partitions[vios],
                xag=[const.XAG.VIO_SMAP],
            )
            (mapping,) = found.scsi_mappings
            self.assertEqual(5, mapping.backing_storage.capacity)
        name = storage.unit_name(self.lpar, storage.ROOT)
        self.assertEqual(pool_host.SHA256, self.units()[name]['sha256'])

    def test_swap_disk_that_other_host_has_mapped_is_kept(self):
        self.others.attach(self.lpar, [self.disks.make_blank(self.lpar, SWAP)])
        before = self.control.state(), self.other.control.state()
        for swap in (None, LARGER_SWAP):
            with self.assertRaisesRegex(
                exception.RestError, 'of other maps it'
            ):
                self.disks.fit_swap(self.lpar, swap)
        self.assertEqual(
            before, (self.control.state(), self.other.control.state())
        )

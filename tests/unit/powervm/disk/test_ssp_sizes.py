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

"""Growing root disks and fitting swap disks in the pool of a cluster."""

import copy
from unittest import mock

from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import storage
from powervm_emulator import fixture
from tests.unit.powervm.disk import pool_host

LPAR, SWAP = pool_host.LPAR, pool_host.SWAP
ROOT_NAME = storage.unit_name(LPAR, storage.ROOT)
LARGER_SWAP = storage.Disk(storage.SWAP, 1)


class GrowthTest(pool_host.DiskTestCase):
    def test_larger_root_disk_keeps_its_bytes(self):
        self.make_root()
        before = self.units()[ROOT_NAME]
        self.assertTrue(self.disks.grow_root(LPAR, 5))
        after = self.units()[ROOT_NAME]
        self.assertEqual(before | {'capacity': 5}, after)
        self.assertEqual(pool_host.SHA256, after['sha256'])

    def test_disk_of_running_lpar_grows_where_it_is_mapped(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make_root(lpar)])
        before = self.mappings()
        self.assertTrue(self.disks.grow_root(lpar, 5))
        self.assertEqual(before, self.mappings())
        self.assertTrue(self.disks.pool.disks(lpar)[0].in_use)
        self.assertEqual(5, self.disks.pool.disks(lpar)[0].disk.size_gb)

    def test_root_disk_that_placement_does_not_count_grows(self):
        self.make_root(disk=storage.Disk(storage.UNCOUNTED_ROOT, 1))
        self.assertTrue(self.disks.grow_root(LPAR, 2))
        name = storage.unit_name(LPAR, storage.UNCOUNTED_ROOT)
        self.assertEqual(2, self.units()[name]['capacity'])

    def test_disk_that_is_large_enough_is_left_alone(self):
        self.make_root()
        self.labels()
        self.disks.check_growth(LPAR, 2)
        self.assertFalse(self.disks.grow_root(LPAR, 1))
        self.assertFalse(self.disks.grow_root(LPAR, 2))
        self.assertEqual({'LogicalUnit.feed'}, set(self.labels()))

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
        with self.assertRaises(exception.NoRoom) as caught:
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
        with self.assertRaises(exception.NoRoom):
            self.load(disk_overcommitment=2.0).check_growth(LPAR, 43)

    def test_missing_root_disk_is_named(self):
        self.disks.make_blank(LPAR, SWAP)
        for call in (self.disks.check_growth, self.disks.grow_root):
            with self.assertRaises(exception.DiskMissing) as caught:
                call(LPAR, 2)
            self.assertIn(
                f'The root disk of LPAR {LPAR} is not in the shared storage '
                'pool',
                str(caught.exception),
            )

    def test_root_disk_is_not_guessed(self):
        self.make_root()
        self.make_foreign(ROOT_NAME)
        with self.assertRaises(exception.DiskAmbiguous) as caught:
            self.disks.grow_root(LPAR, 5)
        self.assertIn(f'disk of LPAR {LPAR}', str(caught.exception))

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
                self.control.add_fault(match='LogicalUnit.update', **fault)
                self.assertTrue(self.disks.grow_root(LPAR, number))
                self.assertEqual(number, self.units()[ROOT_NAME]['capacity'])

    def test_disk_that_pool_does_not_enlarge_is_an_error(self):
        self.make_root()
        unchanged = mock.patch.object(
            pvm_storage.LUEnt,
            'update',
            lambda unit, **_: unit.refresh(use_etag=False),
        )
        with (
            unchanged,
            self.assertRaises(exception.RestError) as caught,
        ):
            self.disks.grow_root(LPAR, 3)
        self.assertIn('it has 2 GB instead of 3', str(caught.exception))


class SwapTest(pool_host.DiskTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.lpar_named('archive')
        self.name = storage.unit_name(self.lpar, storage.SWAP)
        self.disks.attach(
            self.lpar,
            [
                self.make_root(self.lpar),
                self.disks.make_blank(self.lpar, SWAP),
                self.disks.make_medium(self.lpar, b'an iso'),
            ],
        )

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

    def roles(self):
        return {known.disk.role for known in self.disks.pool.disks(self.lpar)}

    def assert_fitted(self, size_gb, slots, others):
        """Verify that the swap disk alone has changed."""
        self.assertEqual(size_gb, self.units()[self.name]['capacity'])
        self.assertEqual(3, len(self.units()))
        self.assertEqual(slots, self.slots())
        self.assertEqual(others, self.others())

    def test_swap_disk_fits_if_size_and_mapping_do(self):
        for swap, fits in ((SWAP, True), (LARGER_SWAP, False), (None, False)):
            with self.subTest(swap):
                self.assertIs(fits, self.disks.swap_fits(self.lpar, swap))
        self.disks._mappings.detach(self.lpar, self.name)
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))
        self.disks.fit_swap(self.lpar, None)
        self.assertTrue(self.disks.swap_fits(self.lpar, None))
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))

    def test_swap_disk_of_right_size_stays_as_it_is(self):
        before = self.control.state()
        self.labels()
        self.disks.fit_swap(self.lpar, SWAP)
        self.assertEqual(
            [
                'LogicalUnit.feed',
                'VirtualIOServer.read',
                'VirtualIOServer.read',
            ],
            self.labels(),
        )
        self.assertEqual(before, self.control.state())

    def test_swap_disk_of_other_size_is_made_anew_in_its_place(self):
        slots, others = self.slots(), self.others()
        for swap in (LARGER_SWAP, SWAP):
            old = self.units()[self.name]
            self.disks.fit_swap(self.lpar, swap)
            self.assertNotEqual(old['udid'], self.units()[self.name]['udid'])
            self.assert_fitted(swap.size_gb, slots, others)

    def test_swap_disk_that_is_not_wanted_is_removed(self):
        others = self.others()
        for _ in range(2):
            self.disks.fit_swap(self.lpar, None)
            self.assertEqual({storage.ROOT}, self.roles())
            self.assertEqual(others, self.others())
            self.assertNotIn(self.name, self.slots()['vios1'])

    def test_removed_swap_disk_comes_back_in_its_place(self):
        slots, others = self.slots(), self.others()
        self.disks.fit_swap(self.lpar, None)
        self.disks.fit_swap(self.lpar, SWAP)
        self.assert_fitted(SWAP.size_gb, slots, others)

    def test_missing_mapping_is_made_on_each_server(self):
        slots, others = self.slots(), self.others()
        self.disks._mappings.detach(self.lpar, self.name)
        udid = self.units()[self.name]['udid']
        self.disks.fit_swap(self.lpar, SWAP)
        self.assert_fitted(SWAP.size_gb, slots, others)
        self.assertEqual(udid, self.units()[self.name]['udid'])

    def test_surplus_swap_disk_is_removed(self):
        slots, others = self.slots(), self.others()
        self.make_foreign(self.name, 3)
        self.disks.fit_swap(self.lpar, SWAP)
        self.assert_fitted(SWAP.size_gb, slots, others)

    def test_swap_disk_without_space_is_refused(self):
        with self.assertRaises(exception.NoRoom):
            self.disks.fit_swap(self.lpar, storage.Disk(storage.SWAP, 30))

    def test_blank_disk_that_is_left_over_is_unmapped_alone(self):
        others = self.others()
        self.disks.make_blank(self.lpar, SWAP)
        self.assertEqual(others, self.others())

    def test_swap_disk_is_fitted_after_interruption_at_any_request(self):
        slots, others = self.slots(), self.others()
        swaps = [LARGER_SWAP, SWAP]
        for label, count in (
            ('VirtualIOServer.update', 4),
            ('LogicalUnit.delete', 1),
            ('LogicalUnit.create', 1),
        ):
            for nth in range(1, count + 1):
                for phase in ('before', 'after'):
                    with self.subTest(label=label, nth=nth, phase=phase):
                        self.control.add_fault(
                            match=label, nth=nth, status=500, phase=phase
                        )
                        with self.assertRaises(exception.RestError):
                            self.disks.fit_swap(self.lpar, swaps[0])
                        self.disks.fit_swap(self.lpar, swaps[0])
                        self.assert_fitted(swaps[0].size_gb, slots, others)
                        swaps.reverse()

    def test_lost_answers_are_survived(self):
        slots, others = self.slots(), self.others()
        for label in (
            'VirtualIOServer.update',
            'LogicalUnit.delete',
            'LogicalUnit.create',
        ):
            self.control.add_fault(match=label, drop=True, phase='after')
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assert_fitted(LARGER_SWAP.size_gb, slots, others)

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
        _, adapter = self.connect(self.other)
        self.others = self.load(adapter)
        (system,) = self.other.control.state()['systems']
        self.lpar = next(
            partition['uuid'].upper()
            for partition in system['partitions']
            if partition['name'] == 'database'
        )

    def capacities(self):
        """Return the sizes in the mappings of the other host."""
        return {
            mapping.backing_storage.capacity
            for vios in ('vios1', 'vios2')
            for mapping in self.others._mappings._read(
                self.uuids()[vios]
            ).scsi_mappings
        }

    def uuids(self):
        (system,) = self.other.control.state()['systems']
        return {p['name']: p['uuid'] for p in system['partitions']}

    def test_root_disk_that_other_host_uses_grows(self):
        self.others.attach(self.lpar, [self.make_root(self.lpar)])
        self.assertTrue(self.disks.pool.disks(self.lpar)[0].in_use)
        self.assertTrue(self.disks.grow_root(self.lpar, 5))
        (unit,) = self.others.pool.disks(self.lpar)
        self.assertEqual(5, unit.disk.size_gb)
        self.assertEqual({5}, self.capacities())
        name = storage.unit_name(self.lpar, storage.ROOT)
        self.assertEqual(pool_host.SHA256, self.units()[name]['sha256'])

    def test_swap_disk_that_other_host_has_mapped_is_kept(self):
        self.others.attach(self.lpar, [self.disks.make_blank(self.lpar, SWAP)])
        before = self.control.state(), self.other.control.state()
        for swap in (None, LARGER_SWAP):
            with self.assertRaises(exception.RestError) as caught:
                self.disks.fit_swap(self.lpar, swap)
            self.assertIn('of other maps it', str(caught.exception))
        self.assertEqual(
            before, (self.control.state(), self.other.control.state())
        )

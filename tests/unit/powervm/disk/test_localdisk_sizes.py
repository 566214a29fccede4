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

"""Growing root disks and fitting swap disks in a volume group."""

from nova_powervm import exception
from nova_powervm.lpar import storage
from tests.unit.powervm.disk import group_host

DATA, LPAR = group_host.DATA, group_host.LPAR
SWAP = storage.Disk(storage.SWAP, 0.5)
LARGER_SWAP = storage.Disk(storage.SWAP, 1)


class SizesTestCase(group_host.LocalDiskTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.lpar_named('archive')

    def restart(self, **group):
        """Start another host; return the uuid of the LPAR there."""
        self.start(**group)
        self.lpar = self.lpar_named('archive')

    def by_role(self):
        return {disk['name'][-1]: disk for disk in self.shown()}

    def methods(self):
        return {record['method'] for record in self.control.journal()}


class GrowthTest(SizesTestCase):
    def test_larger_root_disk_keeps_its_bytes(self):
        self.make(DATA, lpar=self.lpar)
        (before,) = self.shown()
        self.assertTrue(self.disks.grow_root(self.lpar, 3))
        (disk,) = self.shown()
        self.assertEqual(before | {'capacity': 3}, disk)
        self.assertEqual(DATA, self.control.contents(disk['udid']))

    def test_disk_of_running_lpar_grows_where_it_is_mapped(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make(DATA, lpar=lpar)])
        (before,) = self.vios()['scsi_mappings']
        self.assertTrue(self.disks.grow_root(lpar, 2))
        self.assertEqual([before], self.vios()['scsi_mappings'])
        self.assertEqual(2, self.shown()[0]['capacity'])

    def test_root_disk_that_placement_does_not_count_grows(self):
        self.disks._make(
            storage.disk_name(LPAR, storage.UNCOUNTED_ROOT),
            storage.Disk(storage.UNCOUNTED_ROOT, 1),
            'raw',
            self.fail,
        )
        self.assertTrue(self.disks.grow_root(LPAR, 2))
        self.assertEqual(2, self.by_role()['x']['capacity'])

    def test_disk_that_is_large_enough_is_left_alone(self):
        self.make(DATA, size=3)
        self.control.clear_journal()
        self.disks.check_growth(LPAR, 2)
        self.assertFalse(self.disks.grow_root(LPAR, 2))
        self.assertFalse(self.disks.grow_root(LPAR, 3))
        self.assertEqual({'GET'}, self.methods())

    def test_check_refuses_growth_without_space_and_changes_nothing(self):
        self.restart(capacity=5, free=5)
        self.make(DATA, size=2)
        before = self.control.state()
        self.disks.check_growth(LPAR, 5)
        with self.assertRaises(exception.NoRoom) as caught:
            self.disks.check_growth(LPAR, 6)
        self.assertIn(
            'volume group image_pool has 3 GB free, but 4 GB are needed for '
            f'enlarging {group_host.NAME} from 2 GB to 6 GB',
            str(caught.exception),
        )
        self.assertEqual(before, self.control.state())

    def test_growth_in_large_units_needs_more_room(self):
        self.restart(capacity=12, free=11, unit=4)
        self.make(DATA, size=1)
        self.disks.check_growth(LPAR, 8)
        with self.assertRaises(exception.NoRoom):
            self.disks.check_growth(LPAR, 9)

    def test_full_group_refuses_growth_and_disk_stays(self):
        self.restart(capacity=5, free=5)
        self.make(DATA, size=2)
        before = self.shown()
        with self.assertRaises(exception.RestError) as caught:
            self.disks.grow_root(LPAR, 6)
        self.assertIn('3 GB free', str(caught.exception))
        self.assertEqual(before, self.shown())

    def test_missing_root_disk_is_named(self):
        for call in (self.disks.check_growth, self.disks.grow_root):
            with self.assertRaises(exception.DiskMissing) as caught:
                call(LPAR, 2)
            self.assertIn(
                f'The root disk of LPAR {LPAR} is not in volume group '
                'image_pool',
                str(caught.exception),
            )

    def test_lost_answer_and_failed_try_are_survived(self):
        for number, fault in enumerate(
            (
                {'drop': True, 'phase': 'after'},
                {'drop': True, 'phase': 'before'},
                {'status': 503},
                {'status': 412},
            ),
            2,
        ):
            with self.subTest(**fault):
                if number == 2:
                    self.make(DATA)
                self.control.add_fault(match='VolumeGroup.update', **fault)
                self.assertTrue(self.disks.grow_root(LPAR, number))
                self.assertEqual(number, self.shown()[0]['capacity'])

    def test_disk_that_host_does_not_enlarge_is_an_error(self):
        self.make(DATA)
        self.disks._groups.change = lambda edit: self.disks._groups.read()
        with self.assertRaises(exception.RestError) as caught:
            self.disks.grow_root(LPAR, 2)
        self.assertIn('1.0 GB of this name instead', str(caught.exception))


class SwapTest(SizesTestCase):
    def setUp(self):
        super().setUp()
        self.stored = [
            self.make(DATA, lpar=self.lpar),
            self.disks.make_blank(self.lpar, SWAP),
            self.disks.make_medium(self.lpar, b'an iso'),
        ]
        self.disks.attach(self.lpar, self.stored)

    def slots(self):
        """Return the virtual slots by the names of what they have."""
        return {
            mapping['name']: mapping['client_slot']
            for mapping in self.vios()['scsi_mappings']
        }

    def others(self):
        """Return the mappings of everything but the swap disk."""
        return [
            mapping
            for mapping in self.vios()['scsi_mappings']
            if mapping['name'] != self.stored[1].name
        ]

    def test_swap_disk_fits_if_size_and_mapping_do(self):
        for swap, fits in ((SWAP, True), (LARGER_SWAP, False), (None, False)):
            with self.subTest(swap):
                self.assertIs(fits, self.disks.swap_fits(self.lpar, swap))
        self.disks._mappings.detach(self.lpar, self.stored[1].name)
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))
        self.disks.fit_swap(self.lpar, None)
        self.assertTrue(self.disks.swap_fits(self.lpar, None))
        self.assertFalse(self.disks.swap_fits(self.lpar, SWAP))

    def test_swap_disk_of_right_size_stays_as_it_is(self):
        self.control.clear_journal()
        before = self.control.state()
        self.disks.fit_swap(self.lpar, SWAP)
        self.assertEqual(before, self.control.state())
        self.assertEqual({'GET'}, self.methods())

    def test_swap_disk_of_other_size_is_made_anew_in_its_place(self):
        slots, others = self.slots(), self.others()
        for swap in (LARGER_SWAP, SWAP):
            old = self.by_role()
            self.disks.fit_swap(self.lpar, swap)
            new = self.by_role()
            self.assertEqual(swap.size_gb, new['s']['capacity'])
            self.assertNotEqual(old['s']['udid'], new['s']['udid'])
            self.assertEqual(old['r'], new['r'])
            self.assertEqual(slots, self.slots())
            self.assertEqual(others, self.others())

    def test_swap_disk_that_is_not_wanted_is_removed(self):
        others = self.others()
        for _ in range(2):
            self.disks.fit_swap(self.lpar, None)
            self.assertEqual({'r'}, set(self.by_role()))
            self.assertEqual(others, self.vios()['scsi_mappings'])

    def test_removed_swap_disk_comes_back_in_its_place(self):
        slots = self.slots()
        self.disks.fit_swap(self.lpar, None)
        self.disks.fit_swap(self.lpar, SWAP)
        self.assertEqual(slots, self.slots())

    def test_first_swap_disk_gets_slot_of_its_role(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make(DATA, lpar=lpar)])
        self.disks.fit_swap(lpar, SWAP)
        self.assertEqual(59, self.slots()[storage.disk_name(lpar, 's')])

    def test_disk_whose_slot_is_taken_gets_last_free_one(self):
        name = storage.disk_name(self.lpar, storage.UNCOUNTED_ROOT)
        disk = storage.Disk(storage.UNCOUNTED_ROOT, 1)
        self.disks.attach(self.lpar, [self.disks.make_blank(self.lpar, disk)])
        self.assertEqual(48, self.slots()[self.stored[0].name])
        self.assertEqual(63, self.slots()[name])

    def test_missing_mapping_is_made(self):
        slots = self.slots()
        self.disks._mappings.detach(self.lpar, self.stored[1].name)
        udid = self.by_role()['s']['udid']
        # The second time, what the driver knows of the group must be whole.
        for _ in range(2):
            self.disks.fit_swap(self.lpar, SWAP)
            self.assertEqual(slots, self.slots())
            self.assertEqual(udid, self.by_role()['s']['udid'])

    def test_swap_disk_in_large_units_is_not_replaced_again(self):
        self.restart(unit=4)
        self.disks.fit_swap(self.lpar, SWAP)
        before = self.shown()
        self.assertEqual(4, before[0]['capacity'])
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assertEqual(before, self.shown())

    def test_swap_disk_is_fitted_after_interruption_at_any_request(self):
        slots, others = self.slots(), self.others()
        swaps = [LARGER_SWAP, SWAP]
        for label in ('VirtualIOServer.update', 'VolumeGroup.update'):
            for nth in (1, 2):
                for phase in ('before', 'after'):
                    with self.subTest(label=label, nth=nth, phase=phase):
                        self.control.add_fault(
                            match=label, nth=nth, status=500, phase=phase
                        )
                        with self.assertRaises(exception.RestError):
                            self.disks.fit_swap(self.lpar, swaps[0])
                        with self.assertNoLogs('nova_powervm', 'WARNING'):
                            self.disks.fit_swap(self.lpar, swaps[0])
                        self.assertEqual(
                            swaps[0].size_gb, self.by_role()['s']['capacity']
                        )
                        self.assertEqual(slots, self.slots())
                        self.assertEqual(others, self.others())
                        swaps.reverse()

    def test_lost_answers_are_survived(self):
        slots, others = self.slots(), self.others()
        for label in ('VirtualIOServer.update', 'VolumeGroup.update'):
            for nth in (1, 2):
                self.control.add_fault(
                    match=label, nth=nth, drop=True, phase='after'
                )
        self.disks.fit_swap(self.lpar, LARGER_SWAP)
        self.assertEqual({'r', 's'}, set(self.by_role()))
        self.assertEqual(1, self.by_role()['s']['capacity'])
        self.assertEqual(slots, self.slots())
        self.assertEqual(others, self.others())

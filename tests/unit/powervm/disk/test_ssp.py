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

"""Disks in the pool of an emulated cluster."""

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import storage
from tests.unit.powervm.disk import pool_host

LPAR, ROOT, SWAP = pool_host.LPAR, pool_host.ROOT, pool_host.SWAP
NAME = storage.unit_name(LPAR, storage.ROOT)


class MakeTest(pool_host.DiskTestCase):
    def test_leftover_disks_of_interrupted_build_are_replaced(self):
        lpar = self.lpar_named('archive')
        stored = [self.make_root(lpar), self.disks.make_blank(lpar, SWAP)]
        self.disks.attach(lpar, stored)
        self.make_root(lpar)
        self.assertEqual(
            {storage.unit_name(lpar, storage.ROOT)},
            {n for n in self.units() if storage.parse_unit_name(n)},
        )
        self.assertEqual([], self.mappings()['vios1'])

    def test_leftover_disk_of_running_lpar_is_kept(self):
        lpar = self.lpar_named('database')
        self.disks.attach(lpar, [self.make_root(lpar)])
        before = self.control.state()
        with self.assertRaises(exception.DiskInUse):
            self.make_root(lpar)
        self.assertEqual(before, self.control.state())

    def test_clone_of_image_that_is_being_deleted_is_made_again(self):
        self.make_root()
        self.disks.remove(LPAR)
        (known,) = self.units()
        unit = self.pool.units()[0]
        self.pool.rename(unit, f'{known}.x65000000')
        self.make_root()
        self.assertEqual(
            {f'{known}.x65000000', known, NAME}, set(self.units())
        )

    def test_blank_disk_is_empty_and_replaced_if_left_over(self):
        for _ in range(2):
            self.disks.make_blank(LPAR, SWAP)
        (unit,) = self.units().values()
        self.assertEqual((0.5, None), (unit['capacity'], unit['sha256']))

    def test_disks_of_lpar_are_found_with_roles_and_sizes(self):
        self.make_root()
        self.disks.make_blank(LPAR, SWAP)
        self.make_foreign('somebodys')
        found = self.disks.pool.disks(LPAR)
        self.assertEqual({ROOT, SWAP}, {known.disk for known in found})
        self.assertEqual(
            [], self.disks.pool.disks(LPAR.replace('4B1C', '4B1D'))
        )
        self.assertEqual(
            {LPAR}, {known.lpar_uuid for known in self.disks.pool.disks()}
        )


class AttachTest(pool_host.DiskTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.lpar_named('archive')
        self.stored = [
            self.make_root(self.lpar),
            self.disks.make_blank(self.lpar, SWAP),
            self.disks.make_medium(self.lpar, b'an iso'),
        ]

    def slots(self):
        return {
            name: [m['client_slot'] for m in mappings]
            for name, mappings in self.mappings().items()
        }

    def test_disks_are_mapped_by_each_server_of_cluster_once(self):
        self.disks.attach(self.lpar, self.stored)
        self.assertEqual(
            {'vios1': [48, 59, 60], 'vios2': [32, 43], 'vios3': []},
            self.slots(),
        )
        before = self.control.state()
        self.disks.attach(self.lpar, self.stored)
        self.assertEqual(before, self.control.state())

    def test_server_that_does_not_run_is_left_out_and_in_doubt(self):
        self.assertEqual(set(), self.disks.attached(self.lpar))
        self.control.set_partition('vios2', state='not activated')
        with self.assertRaisesRegex(exception.RestError, 'vios2 is not'):
            self.disks.attached(self.lpar)
        self.disks.attach(self.lpar, self.stored)
        self.assertEqual([], self.slots()['vios2'])
        names = {stored.name for stored in self.stored}
        self.assertEqual(names, self.disks.attached(self.lpar))

    def test_attach_fails_without_server_of_medium_or_any(self):
        for name, stored in (
            ('vios1', self.stored),
            ('vios2', self.stored[:2]),
        ):
            self.control.set_partition(name, state='not activated')
            with self.assertRaises(exception.RestBusy):
                self.disks.attach(self.lpar, stored)

    def test_storage_of_other_lpar_is_left_to_it_whatever_its_name(self):
        self.disks.attach(self.lpar_named('database'), self.stored[:1])
        with self.assertLogs('nova_powervm', 'WARNING') as logs:
            self.disks.pool.delete(self.disks.pool.disks(self.lpar))
        self.assertIn('is kept', ''.join(logs.output))
        self.disks.remove(self.lpar)
        clients = [m['client'] for m in self.mappings()['vios1']]
        self.assertEqual(['database'], clients)
        self.assertIn(storage.unit_name(self.lpar, storage.ROOT), self.units())

    def test_medium_and_uploads_use_server_that_is_up(self):
        self.control.set_partition('vios1', state='not activated')
        self.disks.capacity()
        self.disks.make_medium(LPAR, b'another iso')
        names = [medium['name'] for medium in self.media()]
        self.assertIn(storage.config_drive_name(LPAR), names)

    def test_media_of_unknown_lpars_are_orphans(self):
        stem = storage.stem(self.lpar)
        self.assertEqual({stem}, self.disks.stems())
        self.disks.remove_stems({stem})
        self.assertEqual([], self.media())
        self.assertEqual(3, len(self.units()))

    def test_disk_of_running_lpar_is_in_use_and_kept(self):
        def in_use(disks):
            return {known.in_use for known in disks.pool.disks(self.lpar)}

        self.disks.attach(self.lpar, self.stored)
        self.assertEqual({False}, in_use(self.disks))
        self.control.set_partition('archive', state='running')
        self.assertEqual({True}, in_use(self.disks))
        careless = self.load(check_disks_in_use=False)
        self.assertEqual({False}, in_use(careless))
        self.labels()
        self.disks.pool.delete(self.disks.pool.disks(self.lpar))
        self.assertEqual(['LogicalUnit.feed'], self.labels())

    def test_remove_without_deletion_keeps_disks_only(self):
        self.disks.attach(self.lpar, self.stored)
        self.disks.remove(self.lpar, delete=False)
        self.assertEqual(3, len(self.units()))
        self.assertEqual({'vios1': [], 'vios2': [], 'vios3': []}, self.slots())
        self.assertEqual([], self.media())

    def media(self):
        (system,) = self.control.state()['systems']
        return [
            medium
            for partition in system['partitions']
            for group in partition.get('volume_groups', ())
            for medium in (group['media_repository'] or {'media': ()})['media']
        ]


class CapacityTest(pool_host.DiskTestCase):
    def test_capacity_reserves_what_placement_does_not_count(self):
        self.assertEqual(
            host_values.DiskCapacity(20, 0, 0), self.disks.capacity()
        )
        self.make_root()
        self.make_foreign('somebodys', 3)
        self.make_root(
            '4B1C2D3E-0F00-4000-8000-000000000002',
            storage.Disk(storage.UNCOUNTED_ROOT, 2),
        )
        found = self.disks.capacity()
        # The image of a hundredth, three and two GB.
        self.assertEqual((20, 6), (found.total_gb, found.reserved_gb))
        self.assertEqual(1, found.used_gb)

    def test_unchanged_pool_is_read_with_conditional_requests(self):
        self.disks.capacity()
        self.control.clear_journal()
        self.disks.capacity()
        self.assertEqual(
            [('Cluster.read', 304), ('SharedStoragePool.read', 304)],
            [(r['label'], r['status']) for r in self.control.journal()],
        )

    def test_check_room_expects_nothing_of_thin_disks_that_go(self):
        self.make_root(disk=storage.Disk(storage.ROOT, 15))
        self.disks.check_room(LPAR, [storage.Disk(storage.ROOT, 19)], None)
        with self.assertRaises(exception.InsufficientSpace):
            self.disks.check_room(LPAR, [storage.Disk(storage.ROOT, 21)], None)


class LookupTest(pool_host.PoolTestCase):
    tiers = (
        {'name': 'SYSTEM', 'capacity': 10, 'default': True},
        {'name': 'fast', 'capacity': 10},
    )

    def world(self):
        made = super().world()
        made['clusters'][0]['pool']['tiers'] = list(self.tiers)
        return made

    def test_unknown_cluster_or_tier_is_refused_with_those_that_exist(self):
        for words, settings in (
            (
                "cluster_name = 'other': no cluster of this host has this "
                'name. The clusters are: cloud',
                {'cluster_name': 'other'},
            ),
            (
                "tier_name = 'slow': there is no such tier in pool pool1. Its "
                'tiers are: SYSTEM, fast',
                {'tier_name': 'slow'},
            ),
            ('The clusters are: none', {}),
        ):
            with self.subTest(**settings):
                if not settings:
                    systems = self.world()['systems']
                    self.control.load_world({'systems': systems})
                with self.assertRaisesRegex(
                    exception.ConfigurationError, words
                ):
                    self.load(**settings).capacity()

    def test_tier_that_is_named_gets_disks_until_it_is_full(self):
        disks = self.load(tier_name='fast', cluster_name='cloud')
        with self.assertRaises(exception.InsufficientSpace):
            disks.make_blank(LPAR, storage.Disk(storage.SWAP, 11))
        disks.make_blank(LPAR, SWAP)
        (unit,) = self.units().values()
        self.assertEqual('fast', unit['tier'])
        self.assertEqual(10, disks.capacity().total_gb)
        (known,) = self.load().pool.disks(LPAR)
        self.assertEqual(SWAP, known.disk)

    def test_pool_that_was_recreated_is_found_again(self):
        disks = self.load()
        disks.make_blank(LPAR, SWAP)
        world = self.world()
        world['clusters'][0]['pool'] = {'name': 'pool2', 'capacity': 50}
        self.control.load_world(world)
        self.assertEqual(50, disks.capacity().total_gb)
        disks.make_blank(LPAR, SWAP)
        self.assertEqual(1, len(self.units()))

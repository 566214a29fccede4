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

"""Clusters and pools: worlds, and what clients read and change."""

import unittest
import warnings

from pypowervm.tasks import cluster_ssp
from pypowervm.tasks import storage as tasks
from pypowervm.wrappers import cluster as clusters
from pypowervm.wrappers import storage

from powervm_emulator import worlds
from powervm_emulator.core import errors

from . import base
from . import pools

GB = pools.GB


class PoolTest(pools.PoolTestCase):
    world = pools.world(
        capacity=10,
        tiers=[
            {'name': 'SYSTEM', 'capacity': 8, 'default': True},
            {'name': 'fast', 'capacity': 2},
        ],
        logical_units=[
            {'name': 'image', 'capacity': 1, 'type': 'image'},
            {'name': 'thick', 'capacity': 0.5, 'thin': False, 'tier': 'fast'},
        ],
    )

    def test_cluster_has_its_nodes_and_pool(self):
        cluster = self.client.cluster()
        self.assertEqual('cloud', cluster.name)
        self.assertEqual(self.client.pool().uuid, cluster.ssp_uuid)
        self.assertEqual(
            [
                (self.client.vios(name).uuid, 'Up')
                for name in ('vios1', 'vios2')
            ],
            [(node.vios_uuid, node.state) for node in cluster.nodes],
        )
        self.assertEqual('9009-22A*EMU0001', cluster.nodes[0].mtms.mtms_str)
        self.assertIsNotNone(cluster.repos_pv)

    def test_entries_are_found_by_name_and_uuid(self):
        (cluster,) = clusters.Cluster.search(self.adapter, name='cloud')
        self.assertEqual(self.client.cluster().uuid, cluster.uuid)
        (pool,) = storage.SSP.search(self.adapter, name='pool1')
        self.assertEqual(self.client.pool().uuid, pool.uuid)
        self.assertEqual([], storage.SSP.search(self.adapter, name='pool'))
        for found in (cluster, pool, self.client.tier()):
            again = type(found).get(self.adapter, uuid=found.uuid)
            self.assertEqual(found.toxmlstring(), again.toxmlstring())

    def test_node_is_down_while_its_server_is(self):
        before = self.client.cluster()
        self.control.set_partition('vios2', state='not activated')
        after = before.refresh()
        self.assertEqual(['Up', 'Down'], [one.state for one in after.nodes])
        self.assertNotEqual(before.etag, after.etag)

    def test_pool_adds_up_what_is_in_it(self):
        pool = self.client.pool()
        self.assertEqual((10, 9.5), (pool.capacity, pool.free_space))
        self.assertEqual(
            (1.5, 0), (pool.total_lu_size, pool.over_commit_space)
        )
        names = [one.name for one in pool.logical_units]
        self.assertEqual(['image', 'thick'], names)
        self.assertEqual(2, len(pool.physical_volumes))
        self.client.unit(size=20)
        pool = self.client.pool()
        self.assertEqual(
            (9.5, 11.5), (pool.free_space, pool.over_commit_space)
        )

    def test_default_tier_is_found_by_task(self):
        tier = tasks.default_tier_for_ssp(self.client.pool())
        self.assertEqual(('SYSTEM', 8), (tier.name, tier.capacity))
        self.assertEqual(self.client.pool().uuid, tier.ssp_uuid)
        self.assertFalse(self.client.tier('fast').is_default)

    def test_state_shows_clusters_pools_tiers_and_units(self):
        (cluster,) = self.control.state()['clusters']
        self.assertEqual('cloud', cluster['name'])
        self.assertEqual(
            [('vios1', 'host1', 'Up'), ('vios2', 'host1', 'Up')],
            [tuple(node.values()) for node in cluster['nodes']],
        )
        pool = cluster['pool']
        self.assertEqual(9.5, pool['free'])
        self.assertEqual([8, 1.5], [tier['free'] for tier in pool['tiers']])
        image = self.shown_unit('image')
        self.assertEqual('VirtualIO_Image', image['type'])
        self.assertEqual((0, None), (image['size'], image['sha256']))

    def test_reset_gives_same_pool_without_what_was_made(self):
        before = self.shown()
        self.client.unit()
        self.control.reset()
        self.assertEqual(before, self.shown())

    def test_default_world_has_no_pool(self):
        emulator = base.start(self)
        adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)
        self.assertEqual([], clusters.Cluster.get(adapter))
        self.assertEqual([], emulator.control.state()['clusters'])

    def test_clusters_and_tiers_cannot_be_changed(self):
        for found in (self.client.cluster(), self.client.tier()):
            self.assert_refused(405, 'does not support', found.update)
            self.assert_refused(405, 'does not support', found.delete)


class LogicalUnitTest(pools.PoolTestCase):
    def test_new_disk_is_thin_and_not_in_use(self):
        unit = self.client.unit('disk', 1.5)
        self.assertEqual(('disk', 1.5), (unit.name, unit.capacity))
        self.assertEqual((True, False), (unit.is_thin, unit.in_use))
        self.assertEqual(storage.LUType.DISK, unit.lu_type)
        self.assertEqual('27', unit.udid[:2])
        self.assertIsNone(unit.cloned_from_udid)
        self.assertEqual(10, self.client.pool().free_space)

    def test_thick_disk_takes_its_whole_size_until_it_is_deleted(self):
        unit = self.client.unit(size=4, thin=False)
        self.assertEqual(6, self.client.pool().free_space)
        message = 'needs 7 GB more, and 6 GB are free on the tier'
        self.assert_unchanged(
            500, message, self.client.unit, size=7, thin=False
        )
        unit._capacity(11)
        self.assert_unchanged(500, 'needs 7 GB more', unit.update)
        unit.refresh().delete()
        self.assertEqual(10, self.client.pool().free_space)
        self.assertEqual([], self.client.units())
        self.assertNotEqual(unit.udid, self.client.unit().udid)

    def test_names_need_not_be_unique(self):
        units = [self.client.unit('same') for _ in range(2)]
        self.assertEqual(2, len({unit.udid for unit in units}))

    def test_new_unit_of_invalid_values_is_refused(self):
        self.client.unit('n' * 79)
        image, gone = self.client.image(), self.client.image('gone')
        gone.delete()
        for status, message, options in (
            (500, '1 to 79 characters', {'name': ''}),
            (500, '1 to 79 characters', {'name': 'n' * 80}),
            (500, 'not a size in GB', {'size': 0}),
            (400, 'LogicalUnitType', {'typ': storage.LUType.AMS}),
            (500, 'linked clone is a thin', {'clone': image, 'thin': False}),
            (
                500,
                'linked clone is a thin',
                {'clone': image, 'typ': storage.LUType.IMAGE},
            ),
            (500, 'no image with the UDID', {'clone': self.client.unit()}),
            (500, 'no image with the UDID', {'clone': gone}),
        ):
            with self.subTest(message, **options):
                self.assert_unchanged(
                    status, message, self.client.unit, **options
                )

    def test_size_below_what_is_needed_is_refused(self):
        """Served as zero, or smaller than the image of a clone."""
        tiny = storage.LUEnt.bld(self.adapter, 'tiny', 1)
        tiny.set_parm_value('UnitCapacity', '0.0000001')
        image = self.client.image(size=2)
        clone = storage.LUEnt.bld(self.adapter, 'clone', 1, clone=image)
        clone._capacity(1.5)
        tier = self.client.tier()
        self.assert_unchanged(500, 'not a size', tiny.create, parent=tier)
        self.assert_unchanged(500, 'too few', clone.create, parent=tier)

    def test_unknown_tier_is_refused(self):
        tier = self.client.tier()
        self.control.load_world(pools.world(name='other'))
        self.assert_refused(404, 'no Tier', tasks.crt_lu, tier, 'disk', 1)

    def test_clone_names_its_image_and_takes_nothing(self):
        image = self.client.image(size=2)
        clone = self.client.clone(image, size=1)
        self.assertEqual(image.udid, clone.cloned_from_udid)
        self.assertEqual((2, True), (clone.capacity, clone.is_thin))
        self.assertEqual('29', image.udid[:2])
        self.assertEqual(10, self.client.pool().free_space)
        # The image is found whatever begins its UDID.
        unit = storage.LUEnt.bld(self.adapter, 'clone', 2, clone=image)
        unit._cloned_from_udid(f'27{image.udid[2:]}')
        clone = unit.create(parent=self.client.tier())
        self.assertEqual(image.udid, clone.cloned_from_udid)

    def test_unit_is_renamed_and_grown_but_not_shrunk(self):
        unit = self.client.unit('before', 1)
        unit._name('after')
        unit._capacity(2)
        unit = unit.update()
        self.assertEqual(('after', 2), (unit.name, unit.capacity))
        self.assertEqual('after', self.shown_unit('after')['name'])
        unit._capacity(1)
        self.assert_unchanged(500, 'cannot shrink', unit.update)
        unit = unit.refresh()
        unit._name('n' * 80)
        self.assert_unchanged(500, '1 to 79', unit.update)

    def test_thin_unit_becomes_thick_if_there_is_space(self):
        unit, large = self.client.unit(size=6), self.client.unit(size=6)
        unit._is_thin(False)
        unit = unit.update()
        self.assertEqual(4, self.client.pool().free_space)
        large._is_thin(False)
        self.assert_unchanged(500, '4 GB are free', large.update)
        unit._is_thin(True)
        unit.update()
        self.assertEqual(10, self.client.pool().free_space)

    def test_update_keeps_what_the_pool_decides(self):
        image = self.client.image()
        unit = self.client.clone(image)
        udid = unit.udid
        unit._udid('27x')
        unit._lu_type(storage.LUType.IMAGE)
        unit.set_parm_value('ClonedFrom', udid)
        unit.set_parm_value('InUse', 'true')
        unit = unit.update()
        self.assertEqual(udid, unit.udid)
        self.assertEqual(storage.LUType.DISK, unit.lu_type)
        self.assertEqual(image.udid, unit.cloned_from_udid)
        self.assertFalse(unit.in_use)

    def test_change_of_outdated_unit_is_refused(self):
        unit = self.client.unit()
        old = storage.LUEnt.get(
            self.adapter, parent=self.client.tier(), uuid=unit.uuid
        )
        unit._name('new')
        unit.update()
        old._name('newer')
        response = self.adapter.delete_by_href
        self.assert_unchanged(
            412, 'If-Match', response, old.href, etag=old.etag
        )

    def test_image_with_clones_is_not_deleted(self):
        image = self.client.image()
        clone = self.client.clone(image)
        self.assert_unchanged(500, "'clone1' is a linked clone", image.delete)
        pool = self.client.pool()
        kept = [one for one in pool.logical_units if one.udid != image.udid]
        pool.logical_units = kept
        self.assert_unchanged(500, 'linked clone', pool.update)
        clone.delete()
        image.delete()
        self.assertEqual([], self.client.units())

    def test_task_removes_clone_with_its_unused_image(self):
        image = self.client.image()
        clones = [self.client.clone(image, name) for name in ('c1', 'c2')]
        tier = self.client.tier()
        tasks.rm_tier_storage(clones[:1], tier=tier)
        self.assertEqual(2, len(self.client.units()))
        tasks.rm_tier_storage(clones[1:], tier=tier)
        self.assertEqual([], self.client.units())

    def test_posted_pool_loses_units_that_it_does_not_list(self):
        image = self.client.image()
        clone = self.client.clone(image)
        self.client.unit('other')
        tasks.rm_ssp_storage(self.client.pool(), [clone])
        self.assertEqual(['other'], [one.name for one in self.client.units()])

    def test_posted_pool_changes_nothing_else(self):
        new = storage.LU.bld(self.adapter, 'new', 1)
        gone = storage.LU.bld_ref(self.adapter, 'x', '27x')
        for status, message, name, value in (
            (500, 'does not rename', 'name', 'renamed'),
            (500, 'physical volumes', 'physical_volumes', []),
            (500, 'on a tier', 'logical_units', [new]),
            (500, 'no logical unit', 'logical_units', [gone]),
        ):
            with self.subTest(name, value=value):
                pool = self.client.pool()
                setattr(pool, name, value)
                self.assert_unchanged(status, message, pool.update)

    def test_unit_made_through_pool_is_on_default_tier(self):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            pool, unit = tasks.crt_lu(self.client.pool(), 'disk', 1)
        self.assertEqual([unit.udid], [one.udid for one in pool.logical_units])

    def test_events_tell_of_units_and_their_tier(self):
        self.poll()
        unit = self.client.unit()
        unit._name('new')
        unit = unit.update()
        unit.delete()
        tier = f'/Tier/{self.client.tier().uuid}'
        uri = f'{tier}/LogicalUnit/{unit.uuid}'
        self.assertEqual(
            [
                ('ADD_URI', uri, 'LogicalUnit'),
                ('MODIFY_URI', tier, 'Tier'),
                ('MODIFY_URI', uri, 'Other'),
                ('MODIFY_URI', tier, 'Tier'),
                ('DELETE_URI', uri, ''),
                ('MODIFY_URI', tier, 'Tier'),
            ],
            [
                (kind, data.partition('/uom')[2], detail)
                for kind, data, detail in self.poll()
                if data.endswith((uri, tier))
            ],
        )

    def poll(self):
        """Return type, data and detail of the new events."""
        names = ('EventType', 'EventData', 'EventDetail')
        return [
            tuple(entry.element.findtext(name) or '' for name in names)
            for entry in self.adapter.read_by_path(base.EVENTS).feed.entries
        ]

    def test_task_uploads_an_image_once(self):
        made = []

        def data():
            made.append(None)
            return pools.io.BytesIO(b'image')

        for _ in range(2):
            unit = cluster_ssp.get_or_upload_image_lu(
                self.client.tier(),
                'image',
                self.client.vios().uuid,
                data,
                5,
            )
        self.assertEqual(1, len(made))
        self.assertEqual(['image'], [one.name for one in self.client.units()])
        self.assertEqual(b'image', self.control.contents(unit.udid))


class PoolWorldTest(unittest.TestCase):
    def problems(self, world):
        with self.assertRaises(errors.WorldError) as caught:
            worlds.check(world)
        return caught.exception.problems

    def test_contradictions_are_named(self):
        tiers = [
            {'name': 'a', 'capacity': 6, 'default': True},
            {'name': 'a', 'capacity': 6, 'default': True},
        ]
        units = [{'name': 'disk', 'capacity': 1, 'tier': 'b'}]
        world = pools.world(tiers=tiers, logical_units=units)
        world['clusters'] *= 2
        self.assertEqual(
            [
                "clusters[0].pool.logical_units[0].tier: unknown tier 'b'",
                "clusters[0].pool.tiers: 'a' is also at "
                'clusters[0].pool.tiers',
                'clusters[0].pool.tiers: there is one default at most',
                'clusters[0].pool.tiers: tiers beyond capacity',
                "clusters[1].name: 'cloud' is also at clusters[0].name",
                "clusters[1].nodes: 'vios1' is also at clusters[0].nodes",
                "clusters[1].nodes: 'vios2' is also at clusters[0].nodes",
                "clusters[1].pool.logical_units[0].tier: unknown tier 'b'",
                "clusters[1].pool.name: 'pool1' is also at "
                'clusters[0].pool.name',
                "clusters[1].pool.tiers: 'a' is also at "
                'clusters[1].pool.tiers',
                'clusters[1].pool.tiers: there is one default at most',
                'clusters[1].pool.tiers: tiers beyond capacity',
            ],
            self.problems(world),
        )

    def test_incomplete_cluster_is_refused(self):
        world = pools.world()
        world['clusters'] = [{'name': 'cloud'}]
        self.assertEqual(2, len(self.problems(world)))


class LoadingTest(pools.PoolTestCase):
    def refused(self, world):
        before = self.control.state()
        with self.assertRaises(errors.WorldError) as caught:
            self.control.load_world(world)
        self.assertEqual(before, self.control.state())
        return caught.exception.problems

    def test_unknown_node_is_refused_and_changes_nothing(self):
        self.client.image(data=b'image')
        world = pools.world()
        world['clusters'][0]['nodes'].append('vios9')
        self.assertEqual(
            ["0 Virtual I/O Servers have the name 'vios9'"],
            self.refused(world),
        )

    def test_units_beyond_capacity_are_refused(self):
        units = [{'name': 'disk', 'capacity': 11, 'thin': False}]
        (problem,) = self.refused(pools.world(logical_units=units))
        self.assertIn('needs 11 GB more', problem)

    def test_pool_does_not_change_other_uuids(self):
        without = pools.world()
        del without['clusters']
        other = base.start(self, world=without)
        self.assertEqual(
            [one['uuid'] for one in self.partitions(self.control)],
            [one['uuid'] for one in self.partitions(other.control)],
        )

    def partitions(self, control):
        return control.state()['systems'][0]['partitions']

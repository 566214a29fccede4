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

"""Clusters and pools in world documents."""

import unittest

from powervm_emulator import worlds
from powervm_emulator.core import errors

from . import base
from . import pools


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
